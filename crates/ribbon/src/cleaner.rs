//! The cleaner of a pool: a thread that flushes lines which the machine says were stored to.
//!
//! Ribbon (PACT'20) samples stores by hardware counters and cleans the lines ahead of the program's
//! own flush, which then is cheap where flushing a clean line is. The stores come from a
//! [`StoreSource`](seawall_memory::StoreSource) of the pool. Pages are narrowed down to lines by
//! what they held at the last look ([`prints`]).
//!
//! **It is only a hint.** A write-back may happen at any time without a request (caches evict), so
//! one more changes no promise, however wrong or late the hint is. But what
//! it knows is too little to leave out a flush of the program: a sample, or a page that was stored
//! to, does not say that it was the last store, nor whose. So no flush is ever skipped because of
//! it; that needs each store to pass a handle and its owner word (rules 1 to 3 in the head of
//! [`ribbon`](super)), which is the source `hook`.
//!
//! **Backing off.** A line that is found at the next look again was cleaned in vain; it is left out
//! the next 2, 4, 8, ... times. Looks come every millisecond, and up to every 100: rarer where they
//! find nothing, where more than half is in vain, and so that they take a ninth of a processor at
//! most. In [`Mode::Auto`](super::Mode::Auto) it begins without looking, and tests now and then
//! whether the program flushes its lines in less time if it does ([`ab_tests`](super::ab_tests)).

mod prints;
mod thread;

pub use thread::CleanerCounters;
pub(super) use thread::CleanerThread;

use super::backoff::Backoff;
use prints::Prints;
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt, RecentStores};
use std::io;
use std::time::Duration;

/// Lines that something is known of; another one with the same low bits drives a line out.
const ENTRIES: u64 = 4096;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_millis(100);
/// Rest after a look, for each time that it took.
const REST: u32 = 8;

#[derive(Clone, Copy)]
struct Entry {
    line: Line,
    /// The look that found it last, and the one that had it cleaned.
    found: u64,
    cleaned: u64,
    backoff: Backoff,
}

/// What one look came to, in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    found: u64,
    cleaned: u64,
    /// Found again right after it was cleaned, and left out.
    in_vain: u64,
}

struct Cleaner<'m, M> {
    memory: &'m M,
    entries: Box<[Entry]>,
    prints: Prints,
    /// The number of the present look.
    look: u64,
}

impl<'m, M: Memory> Cleaner<'m, M> {
    fn new(memory: &'m M) -> Cleaner<'m, M> {
        let line = Line(u64::MAX);
        let entry = Entry { line, found: 0, cleaned: 0, backoff: Backoff::default() };
        let entries = vec![entry; ENTRIES as usize].into_boxed_slice();
        // Look 1 was never: so no line was cleaned at the look before the first.
        Cleaner { memory, entries, prints: Prints::default(), look: 1 }
    }

    /// Cleans what was stored to since the last look, and fences.
    fn look(&mut self, source: &mut dyn RecentStores) -> io::Result<Look> {
        self.look += 1;
        let mut look = Look::default();
        let found = source.find(&mut |first, bytes| self.look_at(first, bytes, &mut look));
        if look.cleaned > 0 {
            self.memory.drain();
        }
        found.map(|()| look)
    }

    fn look_at(&mut self, first: Addr, bytes: u64, look: &mut Look) {
        if bytes <= LINE_BYTES {
            return self.found(first.line(), look);
        }
        let mut prints = std::mem::take(&mut self.prints);
        prints.changed(self.memory, first, bytes, |line| self.found(line, look));
        self.prints = prints;
    }

    fn found(&mut self, line: Line, look: &mut Look) {
        let now = self.look;
        let entry = &mut self.entries[(line.0 % ENTRIES) as usize];
        if entry.line != line {
            *entry = Entry { line, found: 0, cleaned: 0, backoff: Backoff::default() };
        }
        let before = std::mem::replace(&mut entry.found, now);
        if before == now {
            return;
        }
        look.found += 1;
        if before + 1 < now {
            entry.backoff.has_paid();
        }
        if entry.backoff.leaves_out() {
            return;
        }
        if entry.cleaned + 1 == now {
            entry.backoff.was_in_vain();
            look.in_vain += 1;
            return;
        }
        entry.cleaned = now;
        self.memory.flush(line.start(), 1);
        look.cleaned += 1;
    }
}

/// How long to rest until the next look.
struct Pace {
    interval: Duration,
}

impl Pace {
    fn after(&mut self, look: Look, took: Duration) -> Duration {
        let is_worth_it = look.cleaned > look.in_vain;
        let next = if is_worth_it { self.interval / 2 } else { self.interval * 2 };
        self.interval = next.clamp(INTERVAL, INTERVAL_MAX);
        self.interval.max(took * REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Fence, Image, layer};
    use std::cell::RefCell;

    /// Writes down what is flushed and when it is fenced.
    struct Noting {
        memory: Image,
        flushed: RefCell<Vec<u64>>,
    }

    impl layer::Layer for Noting {
        type Below = Image;

        fn below(&self) -> &Image {
            &self.memory
        }

        fn flush(&self, at: Addr, _: u64) {
            self.flushed.borrow_mut().push(at.line().0);
        }
        fn fence(&self, fence: Fence) {
            if fence == Fence::Drain {
                self.flushed.borrow_mut().push(u64::MAX);
            }
        }
    }

    fn noting() -> Noting {
        Noting { memory: Image::new(1 << 16, 0), flushed: RefCell::default() }
    }

    struct Told(Vec<(u64, u64)>);

    impl RecentStores for Told {
        fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()> {
            self.0.iter().for_each(|(first, bytes)| found(Addr::pm(*first), *bytes));
            Ok(())
        }
    }

    #[test]
    fn lines_are_flushed_once_a_look_and_fenced() {
        let memory = noting();
        let mut cleaner = Cleaner::new(&memory);
        let look = cleaner.look(&mut Told(vec![(128, 64), (640, 64), (128, 64)])).unwrap();
        assert_eq!(look, Look { found: 2, cleaned: 2, in_vain: 0 });
        assert_eq!(memory.flushed.take(), [2, 10, u64::MAX]);
        assert_eq!(cleaner.look(&mut Told(vec![])).unwrap(), Look::default());
        assert_eq!(memory.flushed.take(), [0; 0], "no fence for nothing");
    }

    #[test]
    fn of_a_page_only_lines_that_hold_something_else_are_flushed() {
        let memory = noting();
        let mut cleaner = Cleaner::new(&memory);
        let mut page = Told(vec![(4096, 8192)]);
        for (at, value) in [(4096, 1u64), (4096 + 72, 2), (12_280, 3)] {
            memory.store(Addr::pm(at), value);
        }
        cleaner.look(&mut page).unwrap();
        assert_eq!(memory.flushed.take(), [64, 65, 191, u64::MAX]);
        memory.store(Addr::pm(8192), 4u64);
        cleaner.look(&mut page).unwrap();
        assert_eq!(memory.flushed.take(), [128, u64::MAX]);
    }

    #[test]
    fn a_line_that_is_rewritten_all_the_time_is_cleaned_ever_more_rarely_and_a_quiet_one_always() {
        let memory = noting();
        let mut cleaner = Cleaner::new(&memory);
        let mut at = Vec::new();
        for look in 0..200 {
            let lines = if look % 2 == 0 { vec![(64, 64), (640, 64)] } else { vec![(64, 64)] };
            cleaner.look(&mut Told(lines)).unwrap();
            let flushed = memory.flushed.take();
            at.extend(flushed.contains(&1).then_some(look));
            assert_eq!(flushed.contains(&10), look % 2 == 0, "{look}");
        }
        assert_eq!(at, [0, 4, 10, 20, 38, 72, 138]);
    }

    #[test]
    fn looks_become_rare_where_they_are_not_worth_it_and_never_take_a_processor() {
        let mut pace = Pace { interval: INTERVAL };
        let (short, nothing) = (Duration::from_micros(10), Look::default());
        let useful = Look { found: 9, cleaned: 9, in_vain: 3 };
        let vain = Look { found: 9, cleaned: 4, in_vain: 5 };
        let millis = |looks: &[Look], pace: &mut Pace| -> Vec<u128> {
            looks.iter().map(|look| pace.after(*look, short).as_millis()).collect()
        };
        assert_eq!(millis(&[useful, nothing, vain, nothing], &mut pace), [1, 2, 4, 8]);
        assert_eq!(millis(&[nothing; 6], &mut pace), [16, 32, 64, 100, 100, 100]);
        assert_eq!(millis(&[useful; 8], &mut pace), [50, 25, 12, 6, 3, 1, 1, 1]);
        assert_eq!(pace.after(useful, Duration::from_millis(40)).as_millis(), 320);
    }
}
