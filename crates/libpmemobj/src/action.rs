//! Actions: prepared by one call, done together by another, or cancelled: `action_base.h`.
//!
//! A reserved object is volatile until it is published. What an action means is in its own words,
//! which the program keeps; a reservation is also known to the heap, so that nothing is published
//! twice.

use crate::error::Failure;
use crate::object::{self, Wanted};
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::{ACTION_HEAP, ACTION_MEM, Action, Oid, Pop, flags};
use libc::c_int;
use seawall_memory::Addr;
use seawall_runtime::Logging;

/// What `data[0]` says.
const RESERVED: u32 = 0x5e_a001;
const TO_FREE: u32 = 0x5e_a002;
const TO_STORE: u32 = 0x5e_a003;
const TO_STORE_OUTSIDE: u32 = 0x5e_a004;

/// What an action does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// The object in that block, of which so many bytes are before it.
    Publish {
        block: Addr,
        before: u64,
    },
    Free {
        block: Addr,
    },
    Store {
        at: Addr,
        value: u64,
    },
    /// In memory of the program, when the others are done.
    StoreOutside {
        place: *mut u64,
        value: u64,
    },
}

/// # Safety
/// There are so many actions.
pub(crate) unsafe fn slice<'a>(actions: *const Action, count: usize) -> &'a [Action] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(actions, count) }
}

pub(crate) fn meaning(pool: &ObjectPool, action: &Action) -> Result<Meaning, Failure> {
    let [first, second, ..] = action.words;
    match action.data[0] {
        RESERVED => {
            let block = object::find(pool, first)?.block;
            Ok(Meaning::Publish { block, before: first - block.offset() })
        }
        TO_FREE => Ok(Meaning::Free { block: object::find(pool, first)?.block }),
        TO_STORE if first < pool.bytes => Ok(Meaning::Store { at: Addr::pm(first), value: second }),
        TO_STORE_OUTSIDE => Ok(Meaning::StoreOutside { place: first as *mut u64, value: second }),
        _ => Err(Failure::invalid("an action that no call has prepared")),
    }
}

fn reserve(pool: &'static ObjectPool, action: &mut Action, wanted: Wanted) -> Result<Oid, Failure> {
    if wanted.flags & !(flags::ZERO | flags::CLASS | flags::ARENA) != 0 {
        return Err(Failure::invalid(format!("unknown flags {:#x}", wanted.flags)));
    }
    wanted.check()?;
    let wanted = wanted.in_class(pool)?;
    let mut lane = pool.call_lane();
    let block = lane.with_room(|session| session.reserve(wanted.block_bytes()))?;
    let (at, usable) = (object::write_header(pool, block, wanted), wanted.usable());
    object::flush_header(pool, block, at);
    if wanted.flags & flags::ZERO != 0 {
        // SAFETY: the block is reserved, and so long.
        unsafe { pool.place(at).write_bytes(0, usable as usize) };
        crate::persist::flush(pool, pool.place(at), usable as usize);
    }
    *action = Action { kind: ACTION_HEAP, data: [RESERVED, 0, 0], words: [0; 14] };
    (action.words[0], action.words[1]) = (at.offset(), usable);
    Ok(pool.oid(at))
}

fn publish(pool: &'static ObjectPool, actions: &[Action]) -> Result<(), Failure> {
    let stored = actions.iter().filter(|action| action.data[0] == TO_STORE);
    let stored = stored.map(|Action { words, .. }| (Addr::pm(words[0]), words[1].to_le_bytes()));
    pool.atomically(Logging::Undo, |tx| {
        for action in actions {
            match meaning(pool, action)? {
                Meaning::Publish { block, before } => {
                    tx.publish(block)?;
                    tx.flush_at_commit(block, before);
                }
                Meaning::Free { block } => tx.free(block)?,
                Meaning::Store { .. } | Meaning::StoreOutside { .. } => {}
            }
        }
        Ok(tx.write_all(stored.clone())?)
    })?;
    for Action { words, .. } in actions.iter().filter(|it| it.data[0] == TO_STORE_OUTSIDE) {
        // SAFETY: the program vouches for the place that it has given.
        unsafe { (words[0] as *mut u64).write_unaligned(words[1]) };
    }
    Ok(())
}

fn cancel(pool: &'static ObjectPool, actions: &[Action]) {
    let mut lane = pool.call_lane();
    for action in actions {
        if let Ok(Meaning::Publish { block, .. }) = meaning(pool, action) {
            // What was published is none any more.
            let _ = lane.session().cancel(block);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_xreserve(
    pop: Pop,
    action: *mut Action,
    bytes: usize,
    type_number: u64,
    given: u64,
) -> Oid {
    let wanted = Wanted::new(bytes, type_number, given);
    // SAFETY: the program vouches for its action.
    let outcome = by_pop(pop).and_then(|pool| reserve(pool, unsafe { &mut *action }, wanted));
    outcome.unwrap_or_else(|failure| crate::base::failed(&failure, Oid::NULL))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_reserve(
    pop: Pop,
    action: *mut Action,
    bytes: usize,
    type_number: u64,
) -> Oid {
    // SAFETY: as there.
    unsafe { pmemobj_xreserve(pop, action, bytes, type_number, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_defer_free(pop: Pop, oid: Oid, action: *mut Action) {
    let _ = pop;
    let mut prepared = Action { kind: ACTION_HEAP, data: [TO_FREE, 0, 0], words: [0; 14] };
    prepared.words[0] = oid.offset;
    // SAFETY: the program vouches for its action.
    unsafe { action.write(prepared) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_set_value(pop: Pop, action: *mut Action, place: *mut u64, value: u64) {
    let mut prepared = Action { kind: ACTION_MEM, data: [0; 3], words: [0; 14] };
    let at = by_pop(pop).ok().and_then(|pool| pool.address_of(place.cast(), 8));
    (prepared.data[0], prepared.words[0]) = match at {
        Some(at) => (TO_STORE, at.offset()),
        None => (TO_STORE_OUTSIDE, place as u64),
    };
    prepared.words[1] = value;
    // SAFETY: the program vouches for its action.
    unsafe { action.write(prepared) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_publish(pop: Pop, actions: *mut Action, count: usize) -> c_int {
    // SAFETY: the program vouches for its actions.
    let actions = unsafe { slice(actions, count) };
    match by_pop(pop).and_then(|pool| publish(pool, actions)) {
        Ok(()) => 0,
        Err(failure) => crate::base::failed(&failure, -1),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_cancel(pop: Pop, actions: *mut Action, count: usize) {
    // SAFETY: as above.
    let actions = unsafe { slice(actions, count) };
    match by_pop(pop) {
        Ok(pool) => cancel(pool, actions),
        Err(failure) => drop(failure.report()),
    }
}
