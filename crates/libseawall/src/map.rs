//! Maps of bytes to bytes, alone and in transactions. A map is named by the word that leads to it.

use crate::pool::{OpenPool, SwPool, on_pool};
use crate::status::{Failure, Status, bytes_of, check_bytes, give};
use crate::tx::{CallTx, SwTx, in_nested, on_tx};
use libc::c_int;
use seawall_collections::{KvMap, MapOptions};
use seawall_lanes::LaneSession;
use seawall_memory::Addr;
use seawall_runtime::Logging;

/// Bytes of the word.
const LINK_BYTES: u64 = 8;

/// Where a map is.
fn link(pool: &OpenPool, at: u64) -> Result<Addr, Failure> {
    let address = pool.address(at, 0, LINK_BYTES)?;
    if !at.is_multiple_of(8) {
        return Err(Failure::invalid(format!("ref {at:#x} of a map is no multiple of 8")));
    }
    pool.check_stays(address)?;
    Ok(address)
}

pub(crate) fn map_of(
    pool: &OpenPool,
    session: &mut LaneSession,
    at: u64,
) -> Result<KvMap, Failure> {
    Ok(KvMap::open(session, link(pool, at)?)?)
}

fn map_in(pool: &OpenPool, tx: &CallTx<'_>, at: u64) -> Result<KvMap, Failure> {
    Ok(KvMap::open_in(tx, link(pool, at)?)?)
}

/// Refuses a place for a new map that is not zero.
pub(crate) fn check_vacant(tx: &CallTx<'_>, at: Addr, bytes: u64) -> Result<(), Failure> {
    if !tx.is_data(at, bytes) {
        let text = format!(
            "{bytes} bytes at ref {:#x} are no data of this pool; name some in its root or in an \
             object",
            at.offset()
        );
        return Err(Failure::invalid(text));
    }
    if (0..bytes).step_by(8).any(|word| tx.load::<u64>(at.plus(word)) != 0) {
        let text = format!(
            "ref {:#x} is not zero: there is a map, or something else; open it, or name {bytes} \
             bytes that are zero",
            at.offset()
        );
        return Err(Failure::new(Status::Exists, text));
    }
    Ok(())
}

fn create(pool: &OpenPool, tx: &mut CallTx<'_>, at: u64) -> Result<Status, Failure> {
    let link = link(pool, at)?;
    check_vacant(tx, link, LINK_BYTES)?;
    KvMap::create(tx, link, &MapOptions::default())?;
    Ok(Status::Ok)
}

fn put(
    pool: &OpenPool,
    tx: &mut CallTx<'_>,
    (at, key, value): (u64, &[u8], &[u8]),
) -> Result<bool, Failure> {
    Ok(map_in(pool, tx, at)?.insert_in(tx, key, value)?)
}

fn remove(
    pool: &OpenPool,
    tx: &mut CallTx<'_>,
    (at, key): (u64, &[u8]),
) -> Result<Status, Failure> {
    let is_there = map_in(pool, tx, at)?.remove_in(tx, key)?;
    Ok(if is_there { Status::Ok } else { Status::NotFound })
}

fn destroy(pool: &OpenPool, tx: &mut CallTx<'_>, at: u64) -> Result<Status, Failure> {
    map_in(pool, tx, at)?.free_in(tx, link(pool, at)?)?;
    Ok(Status::Ok)
}

/// Runs a change of its own, atomic with respect to crashes.
pub(crate) fn alone<T>(
    handle: *const SwPool,
    pool: &'static OpenPool,
    mut body: impl FnMut(&OpenPool, &mut CallTx<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    pool.with_session(handle, |session| session.retry(Logging::Redo, |tx| body(pool, tx)))
}

/// Where a program wants a value.
#[derive(Clone, Copy)]
struct Wanted {
    into: *mut u8,
    room: usize,
    bytes: *mut usize,
}

impl Wanted {
    fn check(&self) -> Result<(), Failure> {
        check_bytes(self.into, self.room, "the place for the value")
    }

    /// Gives the value, as much of it as there is room for.
    ///
    /// # Safety
    /// The places are null, or can be written.
    unsafe fn give(&self, value: Option<&[u8]>) -> Result<Status, Failure> {
        let Wanted { into, room, bytes } = *self;
        let found = value.unwrap_or_default();
        let count = found.len().min(room);
        // SAFETY: the caller vouches for both.
        unsafe {
            give(bytes, found.len());
            if count > 0 {
                into.copy_from(found.as_ptr(), count);
            }
        }
        if count < found.len() {
            let text = format!(
                "the value has {} bytes, and there is room for {room}; call again with more",
                found.len()
            );
            return Err(Failure::new(Status::Small, text));
        }
        Ok(if value.is_some() { Status::Ok } else { Status::NotFound })
    }
}

#[unsafe(no_mangle)]
extern "C" fn sw_map_create(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| alone(handle, pool, |pool, tx| create(pool, tx, at)))
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_map_create(tx: SwTx, at: u64) -> Status {
    on_tx(tx, || in_nested(tx, |pool, tx| create(pool, tx, at)))
}

#[unsafe(no_mangle)]
extern "C" fn sw_map_open(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| {
        pool.with_session(handle, |session| map_of(pool, session, at).map(|_| Status::Ok))
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_map_check(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| {
        pool.with_session(handle, |session| {
            let checked = map_of(pool, session, at)?.check(session.memory(), &pool.heap);
            let text = |what| format!("the map is damaged: {what}; restore the file from a copy");
            checked.map_err(|damage| Failure::new(Status::Damaged, text(damage)))?;
            Ok(Status::Ok)
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_map_get(
    handle: *const SwPool,
    at: u64,
    key: *const u8,
    key_bytes: usize,
    into: *mut u8,
    room: usize,
    bytes: *mut usize,
) -> Status {
    on_pool(handle, |pool| {
        let wanted = Wanted { into, room, bytes };
        wanted.check()?;
        // SAFETY: the program vouches for the key.
        let key = unsafe { bytes_of(key, key_bytes, "the key")? };
        let value = pool.with_session(handle, |session| {
            Ok(map_of(pool, session, at)?.get(session.memory(), key)?)
        })?;
        // SAFETY: the program vouches for the places.
        unsafe { wanted.give(value.as_deref()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_map_get(
    tx: SwTx,
    at: u64,
    key: *const u8,
    key_bytes: usize,
    into: *mut u8,
    room: usize,
    bytes: *mut usize,
) -> Status {
    on_tx(tx, || {
        let wanted = Wanted { into, room, bytes };
        wanted.check()?;
        // SAFETY: the program vouches for the key.
        let key = unsafe { bytes_of(key, key_bytes, "the key")? };
        let value = in_nested(tx, |pool, tx| Ok(map_in(pool, tx, at)?.get_in(tx, key)?))?;
        // SAFETY: the program vouches for the places.
        unsafe { wanted.give(value.as_deref()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_map_put(
    handle: *const SwPool,
    at: u64,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
    was_there: *mut c_int,
) -> Status {
    on_pool(handle, |pool| {
        // SAFETY: the program vouches for key and value.
        let (key, value) = unsafe {
            (bytes_of(key, key_bytes, "the key")?, bytes_of(value, value_bytes, "the value")?)
        };
        let was = alone(handle, pool, |pool, tx| put(pool, tx, (at, key, value)))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(was_there, c_int::from(was)) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_map_put(
    tx: SwTx,
    at: u64,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
    was_there: *mut c_int,
) -> Status {
    on_tx(tx, || {
        // SAFETY: the program vouches for key and value.
        let (key, value) = unsafe {
            (bytes_of(key, key_bytes, "the key")?, bytes_of(value, value_bytes, "the value")?)
        };
        let was = in_nested(tx, |pool, tx| put(pool, tx, (at, key, value)))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(was_there, c_int::from(was)) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_map_remove(
    handle: *const SwPool,
    at: u64,
    key: *const u8,
    key_bytes: usize,
) -> Status {
    on_pool(handle, |pool| {
        // SAFETY: the program vouches for the key.
        let key = unsafe { bytes_of(key, key_bytes, "the key")? };
        alone(handle, pool, |pool, tx| remove(pool, tx, (at, key)))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_map_remove(
    tx: SwTx,
    at: u64,
    key: *const u8,
    key_bytes: usize,
) -> Status {
    on_tx(tx, || {
        // SAFETY: the program vouches for the key.
        let key = unsafe { bytes_of(key, key_bytes, "the key")? };
        in_nested(tx, |pool, tx| remove(pool, tx, (at, key)))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_map_count(handle: *const SwPool, at: u64, count: *mut u64) -> Status {
    on_pool(handle, |pool| {
        let found = pool.with_session(handle, |session| {
            Ok(map_of(pool, session, at)?.len(session.memory())?)
        })?;
        // SAFETY: the program vouches for the place.
        unsafe { give(count, found) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_map_destroy(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| alone(handle, pool, |pool, tx| destroy(pool, tx, at)))
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_map_destroy(tx: SwTx, at: u64) -> Status {
    on_tx(tx, || in_nested(tx, |pool, tx| destroy(pool, tx, at)))
}
