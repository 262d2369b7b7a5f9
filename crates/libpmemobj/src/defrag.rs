//! `pmemobj_defrag`: moves objects to the front of the pool, and changes the OIDs that the program
//! gives, all that lead to them.
//!
//! Nobody else uses the objects meanwhile: that is the contract of the call. Each move is atomic
//! with respect to crashes: the copy, the freeing and the new OIDs. An OID that lies in an object
//! moves with it.

use crate::error::Failure;
use crate::object::{self, Found, Wanted};
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::{OID_BYTES, Oid, Pop};
use libc::c_int;
use seawall_lanes::{LaneGuard, NoRoom};
use seawall_runtime::Logging;
use std::collections::BTreeMap;

/// `struct pobj_defrag_result`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    total: usize,
    relocated: usize,
}

/// The error number of an object that has the best place already.
const STAYS: c_int = 0;

/// Where the OIDs are now, and by that which they are.
struct Places {
    at: Vec<usize>,
    by_place: BTreeMap<usize, Vec<usize>>,
}

impl Places {
    fn of(places: &[*mut Oid]) -> Places {
        let at: Vec<usize> = places.iter().map(|place| *place as usize).collect();
        let mut by_place: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, place) in at.iter().enumerate() {
            by_place.entry(*place).or_default().push(number);
        }
        Places { at, by_place }
    }

    /// Notes that the bytes from `old` on have moved to `new`.
    fn shift(&mut self, old: usize, bytes: usize, new: usize) {
        let inside: Vec<usize> = self.by_place.range(old..old + bytes).map(|(at, _)| *at).collect();
        for place in inside {
            let numbers = self.by_place.remove(&place).unwrap_or_default();
            let now = new + (place - old);
            for number in &numbers {
                self.at[*number] = now;
            }
            self.by_place.entry(now).or_default().extend(numbers);
        }
    }
}

/// # Safety
/// Each place can be read and written.
unsafe fn defrag(
    pool: &'static ObjectPool,
    places: &[*mut Oid],
    moved: &mut Moved,
) -> Result<(), Failure> {
    let mut sorted = Vec::new();
    for (number, place) in places.iter().enumerate() {
        // SAFETY: the caller vouches for it.
        let oid = unsafe { place.read_unaligned() };
        if !oid.is_null() && oid.pool != pool.uuid {
            return Err(Failure::invalid("an OID leads to another pool"));
        }
        if !oid.is_null() {
            sorted.push((oid, number));
        }
    }
    let mut places = Places::of(places);
    // From the back of the pool: free blocks in front of it are used first.
    sorted.sort_by_key(|(oid, number)| (std::cmp::Reverse(oid.offset), *number));
    let mut lane = pool.call_lane();
    lane.packing(|lane| move_all(pool, lane, &sorted, &mut places, moved))
}

/// Moves objects, those of the same OID with one move.
fn move_all(
    pool: &'static ObjectPool,
    lane: &mut LaneGuard,
    sorted: &[(Oid, usize)],
    places: &mut Places,
    moved: &mut Moved,
) -> Result<(), Failure> {
    for same in sorted.chunk_by(|one, other| one.0 == other.0) {
        moved.total += 1;
        let old = object::find(pool, same[0].0.offset)?;
        let numbers: Vec<usize> = same.iter().map(|(_, number)| *number).collect();
        match relocate(pool, lane, &old, &numbers, places) {
            Ok(new) => {
                moved.relocated += 1;
                let place = |oid: Oid| pool.base + oid.offset as usize;
                places.shift(place(pool.oid(old.at)), old.usable as usize, place(new));
                for number in numbers {
                    let place = places.at[number] as *mut Oid;
                    if !pool.holds(place.cast()) {
                        // SAFETY: the caller of `defrag` vouches for it.
                        unsafe { place.write_unaligned(new) };
                    }
                }
            }
            Err(failure) if failure.errno == STAYS => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Moves an object in front, with the OIDs that lead to it and lie in the pool.
fn relocate(
    pool: &'static ObjectPool,
    lane: &mut LaneGuard,
    old: &Found,
    numbers: &[usize],
    places: &Places,
) -> Result<Oid, Failure> {
    pool.atomically_in(lane, Logging::Redo, |tx| {
        let wanted = Wanted::like(old);
        let stays = || Failure::new(STAYS, "there is no better place");
        let at = object::allocate(pool, tx, wanted).map_err(|failure| match failure {
            full if full.is_no_room() => stays(),
            other => other,
        })?;
        if at > old.at {
            return Err(stays());
        }
        object::copy(pool, tx, old.at, at, old.usable.min(wanted.usable()));
        tx.free(old.block)?;
        let oid = pool.oid(at);
        for number in numbers {
            let place = places.at[*number] as *const u8;
            let Some(mut to) = pool.address_of(place, OID_BYTES) else { continue };
            if to >= old.at && to < old.at.plus(old.usable) {
                to = at.plus(to.offset() - old.at.offset());
            }
            tx.write(to, &oid.bytes())?;
        }
        Ok(oid)
    })
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
