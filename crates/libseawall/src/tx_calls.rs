//! What a program does in a transaction: it allocates, frees, reads and writes.

use crate::pool::OpenPool;
use crate::status::{Failure, Status, bytes_of, check_bytes, give};
use crate::tx::{CallTx, SwTx, in_nested, in_tx, logging, on_tx};
use seawall_memory::Addr;
use seawall_runtime::Logging;

/// Refuses a place of a number that is not aligned.
fn check_word(at: u64, offset: u64) -> Result<(), Failure> {
    if at.wrapping_add(offset).is_multiple_of(8) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "offset {offset} behind ref {at:#x} is no multiple of 8; use sw_tx_read and sw_tx_write"
    )))
}

fn allocated(pool: &OpenPool, tx: &mut CallTx<'_>, bytes: u64) -> Result<Addr, Failure> {
    if bytes == 0 {
        return Err(Failure::invalid("an object of 0 bytes; it must have at least 1"));
    }
    let most = pool.heap.pm_bytes_max();
    if bytes > most {
        let text = format!(
            "no room for an object of {bytes} bytes in a pool of at most {most}; make the pool \
             with a greater bytes_max"
        );
        return Err(Failure::new(Status::NoRoom, text));
    }
    Ok(tx.alloc(bytes)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_alloc(tx: SwTx, bytes: u64, into: *mut u64) -> Status {
    on_tx(tx, || {
        if into.is_null() {
            return Err(Failure::null("the place for the ref"));
        }
        // SAFETY: the program vouches for the place.
        unsafe { give(into, 0) };
        let at = in_tx(tx, |pool, tx| allocated(pool, tx, bytes))?;
        // SAFETY: as above.
        unsafe { give(into, at.offset()) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_alloc_copy(
    tx: SwTx,
    from: *const u8,
    bytes: usize,
    into: *mut u64,
) -> Status {
    on_tx(tx, || {
        if into.is_null() {
            return Err(Failure::null("the place for the ref"));
        }
        // SAFETY: the program vouches for the place and the bytes.
        let from = unsafe {
            give(into, 0);
            bytes_of(from, bytes, "data")?
        };
        let at = in_nested(tx, |pool, tx| {
            let at = allocated(pool, tx, bytes as u64)?;
            tx.fill(at, from)?;
            Ok(at)
        })?;
        // SAFETY: as above.
        unsafe { give(into, at.offset()) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_new(tx: SwTx, of: usize, content: *const u8, into: *mut u64) -> Status {
    on_tx(tx, || {
        if into.is_null() {
            return Err(Failure::null("the place for the ref"));
        }
        // SAFETY: the program vouches for the place.
        unsafe { give(into, 0) };
        let at = in_nested(tx, |pool, tx| {
            let (described, bytes) = pool.type_at(of)?;
            // SAFETY: the program vouches for the bytes of an object.
            let content = (!content.is_null())
                .then(|| unsafe { std::slice::from_raw_parts(content, bytes as usize) });
            Ok(described.alloc(tx, of, content)?)
        })?;
        // SAFETY: as above.
        unsafe { give(into, at.offset()) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_free(tx: SwTx, at: u64) -> Status {
    on_tx(tx, || {
        in_tx(tx, |pool, tx| {
            if at == 0 {
                return Ok(Status::Ok);
            }
            pool.free(tx, at)?;
            Ok(Status::Ok)
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_write(
    tx: SwTx,
    at: u64,
    offset: u64,
    from: *const u8,
    bytes: usize,
) -> Status {
    on_tx(tx, || {
        // SAFETY: the program vouches for the bytes.
        let from = unsafe { bytes_of(from, bytes, "data")? };
        in_tx(tx, |pool, tx| {
            pool.write(tx, (at, offset), from)?;
            Ok(Status::Ok)
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_read(
    tx: SwTx,
    at: u64,
    offset: u64,
    into: *mut u8,
    bytes: usize,
) -> Status {
    on_tx(tx, || {
        check_bytes(into, bytes, "the place for the data")?;
        let mut found = Vec::new();
        in_tx(tx, |pool, tx| {
            found = pool.room_for((at, offset), bytes)?;
            pool.read(tx, (at, offset), &mut found)
        })?;
        if bytes > 0 {
            // SAFETY: the program vouches for the place.
            unsafe { into.copy_from(found.as_ptr(), bytes) };
        }
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_store64(tx: SwTx, at: u64, offset: u64, value: u64) -> Status {
    on_tx(tx, || {
        in_tx(tx, |pool, tx| {
            check_word(at, offset)?;
            pool.write(tx, (at, offset), &value.to_le_bytes())?;
            Ok(Status::Ok)
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_load64(tx: SwTx, at: u64, offset: u64, into: *mut u64) -> Status {
    on_tx(tx, || {
        if into.is_null() {
            return Err(Failure::null("the place for the value"));
        }
        let mut value = [0; 8];
        in_tx(tx, |pool, tx| {
            check_word(at, offset)?;
            pool.read(tx, (at, offset), &mut value)
        })?;
        // SAFETY: the program vouches for the place.
        unsafe { give(into, u64::from_le_bytes(value)) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_add(tx: SwTx, at: u64, offset: u64, bytes: u64) -> Status {
    on_tx(tx, || {
        if logging(tx)? == Logging::Redo {
            let text = "a redo transaction has no old values to log; write with sw_tx_write, or \
                        begin with SW_UNDO";
            return Err(Failure::invalid(text));
        }
        in_tx(tx, |pool, tx| {
            let start = pool.fixed(tx, (at, offset), bytes)?;
            tx.add(&[(start, bytes)])?;
            Ok(Status::Ok)
        })
    })
}
