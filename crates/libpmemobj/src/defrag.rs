//! `pmemobj_defrag`: moves objects to the front of the pool, and changes the OIDs that the program
//! gives, all that lead to them.
//!
//! Nobody else uses the objects meanwhile: that is the contract of the call. Each move is atomic
//! with respect to crashes: the copy, the freeing and the new OID.

use crate::error::Failure;
use crate::object::{self, Wanted};
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::{Oid, Pop};
use libc::c_int;

/// `struct pobj_defrag_result`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    total: usize,
    relocated: usize,
}

/// # Safety
/// Each place can be read and written.
unsafe fn defrag(
    pool: &'static ObjectPool,
    places: &[*mut Oid],
    moved: &mut Moved,
) -> Result<(), Failure> {
    let mut sorted: Vec<(Oid, *mut Oid)> = places
        .iter()
        // SAFETY: the caller vouches for it.
        .map(|place| (unsafe { place.read() }, *place))
        .filter(|(oid, _)| !oid.is_null() && oid.pool == pool.uuid)
        .collect();
    // From the back of the pool: free blocks in front of it are used first.
    sorted.sort_by_key(|(oid, place)| (std::cmp::Reverse(oid.offset), *place as usize));
    for same in sorted.chunk_by(|one, other| one.0 == other.0) {
        moved.total += 1;
        let old = object::find(pool, same[0].0.offset)?;
        let to = pool.atomically(|tx| {
            let wanted = Wanted::like(&old);
            let at = object::allocate(pool, tx, wanted)?;
            if at > old.at {
                // There is no better place.
                tx.free(object::block_of(at))?;
                return Ok(None);
            }
            object::copy(pool, tx, old.at, at, old.usable.min(wanted.usable()));
            tx.free(old.block())?;
            let oid = pool.oid(at);
            for (_, place) in same {
                object::store_oid(pool, tx, *place, oid)?;
            }
            Ok(Some(oid))
        })?;
        let Some(oid) = to else { continue };
        moved.relocated += 1;
        for (_, place) in same.iter().filter(|(_, place)| !pool.holds(place.cast())) {
            // SAFETY: as above.
            unsafe { place.write(oid) };
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_defrag(
    pop: Pop,
    places: *mut *mut Oid,
    count: usize,
    result: *mut Moved,
) -> c_int {
    let mut moved = Moved::default();
    let places = match count {
        0 => &[],
        // SAFETY: the program vouches for its places.
        _ => unsafe { std::slice::from_raw_parts(places.cast_const(), count) },
    };
    // SAFETY: as above.
    let outcome = by_pop(pop).and_then(|pool| unsafe { defrag(pool, places, &mut moved) });
    if !result.is_null() {
        // SAFETY: the program vouches for it.
        unsafe { result.write(moved) };
    }
    match outcome {
        Ok(()) => 0,
        Err(failure) => crate::base::failed(&failure, -1),
    }
}
