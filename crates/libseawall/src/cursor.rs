//! Cursors over maps of bytes: they copy out what a part of the map holds, and go on from there.

use crate::map::map_of;
use crate::pool::{SwPool, on_pool, opened, set_broken};
use crate::status::{Failure, Status, boundary_with, give};

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// `struct sw_cursor`
pub(crate) struct SwCursor {
    pool: *const SwPool,
    map: u64,
    /// Where the next part of the map begins, if there is one.
    next: Option<u64>,
    /// Those of this part that are still to be shown, in reverse order, below the one shown last.
    entries: Vec<Pair>,
    shown: Pair,
}

impl SwCursor {
    fn advance(&mut self) -> Result<bool, Failure> {
        let pool = opened(self.pool)?;
        while self.entries.is_empty() {
            let Some(from) = self.next else { return Ok(false) };
            let mut entries = Vec::new();
            self.next = pool.with_session(self.pool, |session| {
                let map = map_of(pool, session, self.map)?;
                entries.clear();
                Ok(map.for_each_of(session.memory(), from, |key, value| {
                    entries.push((key.to_vec(), value.to_vec()));
                })?)
            })?;
            entries.reverse();
            self.entries = entries;
        }
        if let Some(entry) = self.entries.pop() {
            self.shown = entry;
        }
        Ok(true)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_map_cursor(
    handle: *const SwPool,
    at: u64,
    into: *mut *mut SwCursor,
) -> Status {
    on_pool(handle, |pool| {
        if into.is_null() {
            return Err(Failure::null("the place for the cursor"));
        }
        // SAFETY: the program vouches for the place.
        unsafe { give(into, std::ptr::null_mut()) };
        pool.with_session(handle, |session| map_of(pool, session, at))?;
        let (next, entries, shown) = (Some(0), Vec::new(), Pair::default());
        let cursor = Box::new(SwCursor { pool: handle, map: at, next, entries, shown });
        // SAFETY: as above.
        unsafe { give(into, Box::into_raw(cursor)) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_cursor_next(
    cursor: *mut SwCursor,
    key: *mut *const u8,
    key_bytes: *mut usize,
    value: *mut *const u8,
    value_bytes: *mut usize,
) -> Status {
    // SAFETY: the program vouches for its cursor.
    let Some(cursor) = (unsafe { cursor.as_mut() }) else {
        return boundary_with(|| (), || Err(Failure::null("the cursor")));
    };
    let pool = cursor.pool;
    boundary_with(
        || set_broken(pool),
        || {
            if !cursor.advance()? {
                return Ok(Status::NotFound);
            }
            let (shown_key, shown_value) = &cursor.shown;
            // SAFETY: the program vouches for the places.
            unsafe {
                give(key, shown_key.as_ptr());
                give(key_bytes, shown_key.len());
                give(value, shown_value.as_ptr());
                give(value_bytes, shown_value.len());
            }
            Ok(Status::Ok)
        },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_cursor_free(cursor: *mut SwCursor) {
    if !cursor.is_null() {
        // SAFETY: it is from `sw_map_cursor`, and the program frees it once.
        drop(unsafe { Box::from_raw(cursor) });
    }
}
