//! Thread slots: one program works with a memory, by one session for each thread number.
//!
//! Two sessions with the same thread number would allocate one block twice and overwrite each
//! other's logs; a session on the memory of another pool would skip its recovery. Safe code can
//! make both mistakes, so the libraries above the seam take a slot here and refuse them. Slots are
//! state of the host: taking one is no access to the machine, does not survive a crash, and takes
//! no simulated time. Machines that run their threads themselves, as fibers, have no slots: they
//! start each thread once, and stop all when one panics.

use crate::Process;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;

static MEMORIES: AtomicU64 = AtomicU64::new(1);

/// The thread slots of a memory, one for each thread number.
///
/// ```
/// use seawall_memory::ThreadSlots;
///
/// let slots = ThreadSlots::new();
/// let first = slots.take(0)?;
/// let second = slots.take(0)?; // takes over
/// assert!(!first.is_held() && second.is_held());
/// # Ok::<(), seawall_memory::SlotTaken>(())
/// ```
#[derive(Debug)]
pub struct ThreadSlots {
    memory: u64,
    process: Process,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    places: Vec<(usize, Weak<Place>)>,
    /// How often each slot has been taken.
    turns: Vec<u64>,
}

#[derive(Debug)]
struct Place {
    owner: ThreadId,
    /// The number of the [`ThreadSlot`] that holds it.
    holder: AtomicU64,
    busy: AtomicU64,
}

/// A slot that a session holds until it is dropped, or until another session takes the slot over.
#[derive(Debug)]
pub struct ThreadSlot {
    place: Arc<Place>,
    number: u64,
    turn: u64,
    process: Process,
    /// Not `Send`: it stays on the thread of the system that took it.
    stays: PhantomData<*const ()>,
}

/// Why a slot cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotTaken {
    /// Another thread of the system holds it.
    ByAnotherThread,
    /// Its holder is [busy](ThreadSlot::set_busy).
    InUse,
}

impl std::fmt::Display for SlotTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SlotTaken::ByAnotherThread => {
                "another thread works under this number; give each thread a number of its own"
            }
            SlotTaken::InUse => {
                "a session of this number is in a transaction; end that before another joins"
            }
        })
    }
}

impl std::error::Error for SlotTaken {}

impl ThreadSlots {
    /// The slots of a new memory, which differs from all memories that this process has had.
    #[allow(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> ThreadSlots {
        ThreadSlots::of(Process::ANY)
    }

    /// As [`new`](ThreadSlots::new), of a memory that belongs to one process.
    pub fn of(process: Process) -> ThreadSlots {
        let memory = MEMORIES.fetch_add(1, Relaxed);
        ThreadSlots { memory, process, taken: Mutex::default() }
    }

    /// Whether the memory is that of another process, from which this one was forked: only dropping
    /// what leads to it is allowed.
    #[inline]
    pub fn are_inherited(&self) -> bool {
        !self.process.is_this()
    }

    /// The number of the memory, unique in this process.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Takes the slot of thread number `thread`, also from an earlier holder on the same thread of
    /// the system.
    ///
    /// # Errors
    /// When another thread of the system holds it, or its holder is [busy](ThreadSlot::set_busy).
    pub fn take(&self, thread: usize) -> Result<ThreadSlot, SlotTaken> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { places, turns } = &mut *taken;
        places.retain(|(_, place)| place.strong_count() > 0);
        let me = std::thread::current().id();
        let found = places.iter().find(|(number, _)| *number == thread);
        let (place, number) = match found.and_then(|(_, place)| place.upgrade()) {
            Some(place) if place.owner != me => return Err(SlotTaken::ByAnotherThread),
            Some(place) if place.busy.load(Relaxed) != 0 => return Err(SlotTaken::InUse),
            Some(place) => {
                let number = place.holder.load(Relaxed) + 1;
                place.holder.store(number, Relaxed);
                (place, number)
            }
            None => {
                let place = Arc::new(Place { owner: me, holder: 0.into(), busy: 0.into() });
                places.push((thread, Arc::downgrade(&place)));
                (place, 0)
            }
        };
        turns.resize(turns.len().max(thread + 1), 0);
        turns[thread] += 1;
        let (turn, process) = (turns[thread], self.process);
        Ok(ThreadSlot { place, number, turn, process, stays: PhantomData })
    }
}

/// The slots of a copy of the memory, all free: of the image that a simulated crash left.
impl Clone for ThreadSlots {
    fn clone(&self) -> ThreadSlots {
        ThreadSlots { memory: self.memory, process: self.process, taken: Mutex::default() }
    }
}

impl ThreadSlot {
    /// As [`ThreadSlots::are_inherited`].
    #[inline]
    pub fn is_inherited(&self) -> bool {
        !self.process.is_this()
    }

    /// Whether no other session has taken the slot over.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.place.holder.load(Relaxed) == self.number
    }

    /// How often this slot has been taken, this time included.
    #[inline]
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Sets whether the holder is busy, in which case no other session can take over.
    #[inline]
    pub fn set_busy(&self, is_busy: bool) {
        self.place.busy.store(is_busy.into(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_gets_the_slot_when_it_is_free_and_not_before() {
        let slots = ThreadSlots::new();
        let slot = slots.take(3).unwrap();
        let try_it = || slots.take(3).map(|_| ());
        let beside = || std::thread::scope(|scope| scope.spawn(try_it).join().unwrap());
        assert_eq!(beside(), Err(SlotTaken::ByAnotherThread));
        assert!(slots.take(4).is_ok(), "another number");
        assert_eq!((slot.turn(), slots.take(4).map(|slot| slot.turn())), (1, Ok(2)));
        drop(slot);
        assert_eq!(beside(), Ok(()));
    }

    #[test]
    fn no_session_takes_over_from_a_busy_one() {
        let slots = ThreadSlots::new();
        let first = slots.take(0).unwrap();
        first.set_busy(true);
        assert_eq!(slots.take(0).map(|_| ()), Err(SlotTaken::InUse));
        first.set_busy(false);
        let second = slots.take(0).unwrap();
        assert!(!first.is_held() && second.is_held());
        drop(second);
        assert!(!first.is_held(), "a slot that was lost does not come back");
        assert!(slots.take(0).unwrap().is_held());
    }

    #[test]
    fn a_forgotten_slot_stays_taken_for_other_threads_only() {
        let slots = ThreadSlots::new();
        std::mem::forget(slots.take(0).unwrap());
        assert!(slots.take(0).is_ok());
        let beside =
            std::thread::scope(|scope| scope.spawn(|| slots.take(0).map(|_| ())).join().unwrap());
        assert_eq!(beside, Err(SlotTaken::ByAnotherThread));
    }

    #[test]
    fn memories_differ_and_a_copy_does_not() {
        let (one, other) = (ThreadSlots::new(), ThreadSlots::new());
        assert_ne!(one.memory(), other.memory());
        assert_eq!(one.clone().memory(), one.memory());
    }
}
