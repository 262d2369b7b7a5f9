//! The lock of a pool: one transaction, or several reads. Neither kind starves the other.
//!
//! One kind is preferred: while a thread of it waits, none of the other kind enters. The two take
//! turns at that for as long as both have work, as in phase-fair locks (Brandenburg and Anderson,
//! "Spin-Based Reader-Writer Synchronization for Multiprocessor Real-Time Systems", 2010). In a
//! turn many transactions or reads go by, as a change of kinds costs more than each of them. A
//! thread begins a turn of its kind when it has waited for a while and the turn of the others has
//! ended; the new one is as long as it has waited, so a thread that the system has not let run gets
//! that time back. Where machines have no clock, a turn ends as soon as a thread of the other kind
//! waits.
//!
//! It is a word of volatile memory behind that of the heap, taken through the seam, so that threads
//! exclude each other on simulated and explored machines, too.

use seawall_memory::{Addr, Clock, LINE_BYTES, Memory, MemoryExt};

/// Added for each read that is in progress.
const READ: u64 = 1;
const READS: u64 = (1 << 11) - 1;
/// Set while a transaction is in progress.
const WRITE: u64 = 1 << 11;
/// Set while transactions are preferred.
const PREFERS_WRITES: u64 = 1 << 12;
/// Added for each thread that waits to read, or to write.
const READ_WAITS: u64 = 1 << 32;
const READS_WAIT: u64 = ((1 << 11) - 1) << 32;
const WRITE_WAITS: u64 = 1 << 43;
const WRITES_WAIT: u64 = ((1 << 11) - 1) << 43;
/// Added at each release, and carried off the top: a thread that waits sees that something was
/// released, though the rest of the word is as before.
const RELEASE: u64 = 1 << 54;

/// Offset of the word that holds the time at which the turn of the preferred kind ends.
const TURN_ENDS: u64 = 8;
/// The length of a turn, in the units of the machine's clock: from some tens of microseconds to
/// some milliseconds.
const TURN_MIN: u64 = 100_000;
const TURN_MAX: u64 = 10_000_000;

/// Bytes of volatile memory that it takes.
pub(crate) const LOCK_BYTES: u64 = LINE_BYTES;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLock {
    word: Addr,
}

/// Reads or transactions, as bits of the word.
struct Kind {
    /// What one that is in progress adds.
    held: u64,
    /// What keeps it out.
    excluded_by: u64,
    /// What one that waits adds.
    waits: u64,
    /// The threads of the other kind that wait.
    others_wait: u64,
    /// [`PREFERS_WRITES`] while it is preferred.
    preferred: u64,
}

const READER: Kind = Kind {
    held: READ,
    excluded_by: WRITE,
    waits: READ_WAITS,
    others_wait: WRITES_WAIT,
    preferred: 0,
};

const WRITER: Kind = Kind {
    held: WRITE,
    excluded_by: WRITE | READS,
    waits: WRITE_WAITS,
    others_wait: READS_WAIT,
    preferred: PREFERS_WRITES,
};

impl Kind {
    fn is_preferred(&self, state: u64) -> bool {
        state & PREFERS_WRITES == self.preferred
    }

    fn may_enter(&self, state: u64) -> bool {
        state & self.excluded_by == 0 && (state & self.others_wait == 0 || self.is_preferred(state))
    }
}

/// The lock, held until this is dropped.
pub(crate) struct Held<'m, M: Memory> {
    memory: &'m M,
    word: Addr,
    held: u64,
}

impl PoolLock {
    pub(crate) const fn at(word: Addr) -> PoolLock {
        PoolLock { word }
    }

    /// Waits until no other thread holds it, and none that reads is to go first.
    #[inline]
    pub(crate) fn write<'m, M: Memory>(&self, memory: &'m M) -> Held<'m, M> {
        self.enter(memory, &WRITER)
    }

    /// Waits until no transaction has it, and none is to go first.
    #[inline]
    pub(crate) fn read<'m, M: Memory>(&self, memory: &'m M) -> Held<'m, M> {
        self.enter(memory, &READER)
    }

    #[inline]
    fn enter<'m, M: Memory>(&self, memory: &'m M, kind: &Kind) -> Held<'m, M> {
        let state: u64 = memory.load(self.word);
        let enters = kind.may_enter(state)
            && memory.compare_exchange(self.word, state, state + kind.held).is_ok();
        if !enters {
            self.wait(memory, kind);
        }
        Held { memory, word: self.word, held: kind.held }
    }

    /// Enters when others let it.
    #[cold]
    fn wait<M: Memory>(&self, memory: &M, kind: &Kind) {
        let now = || memory.clock().map(|clock| clock.now());
        let begun = now();
        memory.fetch_add(self.word, kind.waits);
        loop {
            let state: u64 = memory.load(self.word);
            let waited = || now().zip(begun).map(|(now, begun)| (now, now.saturating_sub(begun)));
            if kind.may_enter(state) {
                let next = state + kind.held - kind.waits;
                if memory.compare_exchange(self.word, state, next).is_ok() {
                    return;
                }
            } else if !kind.is_preferred(state) && self.may_begin_turn(memory, waited()) {
                let _ = memory.compare_exchange(self.word, state, state ^ PREFERS_WRITES);
            } else {
                memory.sleep_while(self.word, state);
            }
        }
    }

    /// Whether the turn of the other kind is over for a thread that has `waited` by now; notes the
    /// end of its own then.
    fn may_begin_turn<M: Memory>(&self, memory: &M, waited: Option<(u64, u64)>) -> bool {
        let Some((now, waited)) = waited else { return true };
        let ends = self.word.plus(TURN_ENDS);
        let may = waited >= TURN_MIN && now >= memory.load(ends);
        if may {
            memory.store(ends, now.saturating_add(waited.min(TURN_MAX)));
        }
        may
    }
}

impl<M: Memory> Drop for Held<'_, M> {
    fn drop(&mut self) {
        // A machine that ends with this thread takes no more accesses; in the child of a fork the
        // lock is the parent's.
        let goes_on = match self.memory.slots() {
            Some(slots) => !slots.are_inherited(),
            None => !std::thread::panicking(),
        };
        if !goes_on {
            return;
        }
        let before = self.memory.fetch_add(self.word, RELEASE.wrapping_sub(self.held));
        if before & (READS_WAIT | WRITES_WAIT) != 0 {
            self.memory.wake(self.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;
    use seawall_native::{Pool, PoolOptions};
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::{Duration, Instant};

    const LOCK: PoolLock = PoolLock::at(Addr::dram(0));

    fn image() -> Image {
        Image::new(4096, LOCK_BYTES)
    }

    fn state(image: &Image) -> u64 {
        image.load::<u64>(LOCK.word) & (RELEASE - 1)
    }

    #[test]
    fn reads_share_it_and_a_transaction_has_it_alone() {
        let image = image();
        let held = (LOCK.read(&image), LOCK.read(&image));
        assert_eq!(state(&image), 2 * READ);
        drop(held);
        let held = LOCK.write(&image);
        assert_eq!(state(&image), WRITE);
        drop(held);
        assert_eq!(state(&image), 0);
    }

    #[test]
    #[should_panic(expected = "waits for itself")]
    fn a_read_waits_for_a_transaction() {
        let image = image();
        let _held = LOCK.write(&image);
        drop(LOCK.read(&image));
    }

    #[test]
    fn the_kind_that_is_not_preferred_waits_for_those_that_wait() {
        for (waits, prefers, reads, writes) in [
            (WRITE_WAITS, PREFERS_WRITES, false, true),
            (WRITE_WAITS, 0, true, true),
            (READ_WAITS, PREFERS_WRITES, true, true),
            (READ_WAITS, 0, true, false),
        ] {
            let state = waits | prefers;
            assert_eq!((READER.may_enter(state), WRITER.may_enter(state)), (reads, writes));
        }
    }

    #[test]
    fn a_turn_lasts_as_long_as_its_thread_has_waited() {
        let image = image();
        let may = |now, waited| LOCK.may_begin_turn(&image, Some((now, waited)));
        let begun = 100 * TURN_MAX;
        assert!(!may(begun, TURN_MIN - 1));
        assert!(may(begun, 3 * TURN_MIN));
        assert!(!may(begun + 3 * TURN_MIN - 1, TURN_MAX), "the turn of the others has not ended");
        assert!(may(begun + 3 * TURN_MIN, 9 * TURN_MAX));
        assert!(!may(begun + 3 * TURN_MIN + TURN_MAX - 1, TURN_MAX));
        assert!(may(begun + 3 * TURN_MIN + TURN_MAX, TURN_MIN));
    }

    /// Each read ends when the next one has begun, unless that takes so long that it must be held
    /// off: without a turn for the transaction one of two threads reads at any time.
    #[test]
    fn readers_that_overlap_at_any_time_let_a_transaction_in() {
        /// Longer than any system keeps a thread that may run from running.
        const PATIENCE: Duration = Duration::from_secs(30);
        let options = PoolOptions { dram_bytes: LOCK_BYTES, ..PoolOptions::default() };
        let pool = &Pool::temporary(4096, &options).expect("room");
        let (reads, has_entered) = (&AtomicUsize::new(0), &AtomicBool::new(false));
        let started = Instant::now();
        let read = |reader| {
            let memory = pool.memory(reader);
            while !has_entered.load(SeqCst) && started.elapsed() < PATIENCE {
                let held = LOCK.read(&memory);
                let (number, begun) = (reads.fetch_add(1, SeqCst) + 1, Instant::now());
                while reads.load(SeqCst) == number && begun.elapsed() < Duration::from_millis(50) {
                    std::thread::yield_now();
                }
                drop(held);
            }
        };
        std::thread::scope(|scope| {
            (0..2).for_each(|reader| drop(scope.spawn(move || read(reader))));
            scope.spawn(|| {
                let memory = pool.memory(2);
                while reads.load(SeqCst) < 10 {
                    std::thread::yield_now();
                }
                let held = LOCK.write(&memory);
                has_entered.store(true, SeqCst);
                drop(held);
            });
        });
        let (reads, waited) = (reads.load(SeqCst), started.elapsed());
        assert!(waited < PATIENCE, "the transaction entered after all of {reads} reads");
    }
}
