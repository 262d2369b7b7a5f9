//! Who works with a memory: one program, and of each thread number one session.
//!
//! Two sessions of one thread number would give one block to two objects, and write their logs over
//! each other; the memory of another pool would be worked on without its recovery. Both are
//! mistakes that safe code can make, so whoever stands above the seam asks here and refuses them.
//! What is kept here is the host's: no access of the machine, nothing that survives a crash, no
//! cycle of a simulation. Machines that run their threads themselves, as fibers, have no slots:
//! they begin each thread once, and none of them goes on when one has panicked.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;

static MEMORIES: AtomicU64 = AtomicU64::new(1);

/// The slots of a memory, one for each thread number.
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
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    places: Vec<(usize, Weak<Place>)>,
    /// How often each thread number has been sat under.
    turns: Vec<u64>,
}

#[derive(Debug)]
struct Place {
    owner: ThreadId,
    /// Who sat down last: the number of a [`ThreadSlot`].
    holder: AtomicU64,
    busy: AtomicU64,
}

/// A thread number that a session works under, until it is dropped or another takes over.
#[derive(Debug)]
pub struct ThreadSlot {
    place: Arc<Place>,
    number: u64,
    turn: u64,
    /// It stays on the thread of the system that took it.
    stays: PhantomData<*const ()>,
}

/// Why a slot cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotTaken {
    /// Another thread of the system has it.
    ByAnotherThread,
    /// Who has it is in the middle of something.
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
    /// Those of a memory that is another one than all others of this process, also of those that
    /// are gone.
    #[allow(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> ThreadSlots {
        let memory = MEMORIES.fetch_add(1, Relaxed);
        ThreadSlots { memory, taken: Mutex::default() }
    }

    /// The number that tells the memory from all others of this process.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Sits down on the slot of thread number `thread`. An earlier holder on the same thread of the
    /// system has lost it then.
    ///
    /// # Errors
    /// When another thread of the system has it, or the earlier holder is
    /// [busy](ThreadSlot::set_busy).
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
        Ok(ThreadSlot { place, number, turn: turns[thread], stays: PhantomData })
    }
}

/// The same memory, as it was: what is left of a crash that was tried on a copy. Nobody sits there.
impl Clone for ThreadSlots {
    fn clone(&self) -> ThreadSlots {
        ThreadSlots { memory: self.memory, taken: Mutex::default() }
    }
}

impl ThreadSlot {
    /// True unless another has taken over.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.place.holder.load(Relaxed) == self.number
    }

    /// How often somebody has sat under this thread number, this time included.
    #[inline]
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Says whether the holder is in the middle of something, so that nobody may take over.
    #[inline]
    pub fn set_busy(&self, is_busy: bool) {
        self.place.busy.store(is_busy.into(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_gets_the_seat_when_it_is_free_and_not_before() {
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
    fn nobody_takes_over_from_who_is_busy() {
        let slots = ThreadSlots::new();
        let first = slots.take(0).unwrap();
        first.set_busy(true);
        assert_eq!(slots.take(0).map(|_| ()), Err(SlotTaken::InUse));
        first.set_busy(false);
        let second = slots.take(0).unwrap();
        assert!(!first.is_held() && second.is_held());
        drop(second);
        assert!(!first.is_held(), "what was lost does not come back");
        assert!(slots.take(0).unwrap().is_held());
    }

    #[test]
    fn a_forgotten_seat_stays_taken_for_other_threads_only() {
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
