//! Durability without transactions, in pools made for it: write lines back, and wait.

use crate::pool::{OpenPool, SwPool, on_pool};
use crate::status::{Failure, Status};
use libc::c_void;
use seawall_native::{Domain, raw_fence, raw_flush, raw_sync};

fn check(pool: &OpenPool) -> Result<(), Failure> {
    if pool.heap.stores_in_place() {
        return Ok(());
    }
    Err(Failure::invalid(
        "the pool was made without options.in_place, so a crash can undo what is stored outside of \
         transactions; make it with that, or use a transaction",
    ))
}

fn flush(pool: &OpenPool, at: *const u8, bytes: usize) -> Result<(), Failure> {
    check(pool)?;
    if bytes == 0 {
        return Ok(());
    }
    if pool.offset_of(at, bytes).is_none() {
        let text = format!("{bytes} bytes at {at:p} are not in this pool; flush what is in it");
        return Err(Failure::invalid(text));
    }
    if pool.domain != Domain::Page {
        // SAFETY: the kind is that which was chosen for this CPU, and the bytes are in the pool.
        unsafe { raw_flush(pool.flush, at, bytes) };
        return Ok(());
    }
    // SAFETY: the pool's own pages, all of which may reach the file.
    let synced = unsafe { raw_sync(at, bytes) };
    synced.map_err(|error| {
        let text = format!("msync of the pool failed: {error}; close it, and look at its disk");
        Failure::new(Status::System, text)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_flush(handle: *const SwPool, at: *const c_void, bytes: usize) -> Status {
    on_pool(handle, |pool| flush(pool, at.cast(), bytes).map(|()| Status::Ok))
}

#[unsafe(no_mangle)]
extern "C" fn sw_drain(handle: *const SwPool) -> Status {
    on_pool(handle, |pool| {
        check(pool)?;
        raw_fence(pool.flush);
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_persist(handle: *const SwPool, at: *const c_void, bytes: usize) -> Status {
    on_pool(handle, |pool| {
        flush(pool, at.cast(), bytes)?;
        raw_fence(pool.flush);
        Ok(Status::Ok)
    })
}
