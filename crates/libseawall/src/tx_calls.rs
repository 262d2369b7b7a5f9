//! What a program does in a transaction: it allocates, frees, reads and writes.

use crate::pool::OpenPool;
use crate::status::{Failure, Status, bytes_of, check_bytes, give};
use crate::tx::{CallTx, SwTx, in_nested, in_tx, logging, on_tx};
use seawall_memory::Addr;
use seawall_runtime::Logging;

/// The address of bytes that the program may use.
fn data(
    pool: &OpenPool,
    tx: &CallTx<'_>,
    (at, offset, bytes): (u64, u64, u64),
) -> Result<Addr, Failure> {
    let address = pool.address(at, offset, bytes)?;
    if bytes > 0 && !tx.is_data(address, bytes) {
        return Err(Failure::invalid(format!(
            "{bytes} bytes at {offset} behind ref {at:#x} are no data of this pool; use a ref that \
             it gave, and stay inside its object"
        )));
    }
    Ok(address)
}

/// As [`data`], of an aligned word.
fn word(pool: &OpenPool, tx: &CallTx<'_>, at: u64, offset: u64) -> Result<Addr, Failure> {
    let address = data(pool, tx, (at, offset, 8))?;
    if !address.offset().is_multiple_of(8) {
        let text = format!(
            "offset {offset} behind ref {at:#x} is no multiple of 8; use sw_tx_read and sw_tx_write"
        );
        return Err(Failure::invalid(text));
    }
    Ok(address)
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
extern "C" fn sw_tx_free(tx: SwTx, at: u64) -> Status {
    on_tx(tx, || {
        in_tx(tx, |pool, tx| {
            if at == 0 {
                return Ok(Status::Ok);
            }
            tx.free(pool.address(at, 0, 1)?)?;
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
            let to = data(pool, tx, (at, offset, bytes as u64))?;
            tx.write(to, from)?;
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
        let mut found = vec![0; 0];
        in_tx(tx, |pool, tx| {
            let from = data(pool, tx, (at, offset, bytes as u64))?;
            found.resize(bytes, 0);
            tx.read(from, &mut found);
            Ok(())
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
            let to = word(pool, tx, at, offset)?;
            tx.store(to, value)?;
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
        let value = in_tx(tx, |pool, tx| Ok(tx.load::<u64>(word(pool, tx, at, offset)?)))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(into, value) };
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
            let start = data(pool, tx, (at, offset, bytes))?;
            tx.add(&[(start, bytes)])?;
            Ok(Status::Ok)
        })
    })
}
