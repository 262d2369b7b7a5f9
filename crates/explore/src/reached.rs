//! The reached bitmap of hardware that moves objects: which lines of copies have persisted at a
//! crash (FFCCD, ISCA'22, sections 4.1 and 4.2).
//!
//! A copied line has a pending bit until it is written back, whatever is stored to it before then.
//! The write-back also sets the line's bit in the reached bitmap; both survive a crash, or neither
//! does. So the bit says only that the line kept its stores up to those of the copy: the bitmap has
//! no states of its own, and is derived from the lines. (That hardware writes the words of a line's
//! copy at once is not relied on here: a crash may separate them.)
//!
//! A program may read the bitmap while it runs, too. About every other line leaves the caches as
//! soon as it holds a copy (the schedule's seed decides which; with seed 0 none does), and its bit
//! is set then. The program sees the bits of the others only after a crash.

use crate::models::order::PersistOrder;
use crate::relocated::Copied;
use crate::trace::Trace;
use rustc_hash::FxHasher;
use seawall_memory::relocation::{RELOCATION_PAGE, Relocation};
use seawall_memory::{Addr, LINE_BYTES};
use std::hash::{Hash, Hasher};

impl Trace {
    /// Records the line at `at` as one of a copy, whose stores to it are in the trace already;
    /// `None` if the directory does not cover it.
    pub(crate) fn add_copied(&mut self, registers: &Relocation, at: Addr) -> Option<Copied> {
        let page = registers.page_of(at)?;
        let line = self.line(at.line());
        let stores = self.lines[line as usize].stores.len() as u32;
        let word = (registers.reached(page).offset() / 8) as u32;
        let bit = (at.offset() % RELOCATION_PAGE / LINE_BYTES) as u32;
        let event = self.events.len() as u32;
        let copied = Copied { event, line, stores, word, bit };
        self.relocated.copied.push(copied);
        Some(copied)
    }
}

impl Copied {
    /// Whether the line leaves the caches as soon as it holds its first copy.
    pub(crate) fn leaves(&self, seed: u64) -> bool {
        let mut hasher = FxHasher::default();
        (seed, self.word, self.bit).hash(&mut hasher);
        seed > 0 && hasher.finish() >> 32 & 1 == 1
    }

    /// Whether the line kept the copy; `None` if both are possible.
    pub(crate) fn is_kept(&self, order: &PersistOrder) -> Option<bool> {
        let (low, high) = order.window(self.line);
        match (low >= self.stores, high < self.stores) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// Undecided bits of a word up to which all their combinations are tried.
pub(crate) const OPEN_MAX: usize = 6;

/// Masks of `count` bits, from none to all: every combination; or, if there are more than
/// [`OPEN_MAX`], each bit alone, all but each, and all up to each.
pub(crate) fn combinations(count: usize) -> Vec<u64> {
    if count <= OPEN_MAX {
        return (0..1 << count).collect();
    }
    let all = u64::MAX >> (64 - count);
    let few = (0..count).flat_map(|bit| [1 << bit, all ^ 1 << bit, all >> (count - 1 - bit)]);
    let mut masks: Vec<u64> = few.chain([0, all]).collect();
    masks.sort_unstable_by_key(|mask: &u64| (mask.count_ones(), *mask));
    masks.dedup();
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrashImage, CrashPoint, Model, Schedule, Search, check, record, search};
    use seawall_memory::relocation::Relocate;
    use seawall_memory::{Image, Memory, MemoryExt};
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;
    use std::rc::Rc;

    const FROM: Addr = Addr::pm(0);
    const TO: Addr = Addr::pm(4096 + 128);
    const REGISTERS: Relocation =
        Relocation { directory: Addr::pm(8192), pages: 2, filters: Addr::pm(12288) };

    fn start() -> Image {
        let start = Image::new(16384, 0);
        (0..512).for_each(|word| start.store(FROM.plus(8 * word), 100 + word));
        start
    }

    fn schedule(seed: u64) -> Schedule {
        Schedule { seed, ..Schedule::default() }
    }

    /// Copies an object of two lines, then changes one line of the copy.
    fn copies(memory: &impl Memory) {
        memory.set_relocation(Some(REGISTERS));
        memory.relocate(TO, FROM, 128);
        memory.store(TO.plus(64), 7u64);
        memory.persist(TO.plus(64), 8);
    }

    #[test]
    fn a_bit_is_set_with_the_line_whatever_was_stored_there_since_and_with_no_other() {
        let trace = record(start(), &schedule(0), |memory| copies(memory)).unwrap();
        let seen = RefCell::new(BTreeSet::new());
        let recover = |image: &CrashImage| {
            let bits: u64 = image.load(REGISTERS.reached(1));
            let words = [0, 56, 64, 120].map(|at| image.load::<u64>(TO.plus(at)));
            Ok((bits >> 2, words))
        };
        let judge = |(bits, words): &(u64, [u64; 4]), _: &CrashPoint| {
            seen.borrow_mut().insert((*bits, *words));
            let is_whole = [words[1] == 107, words[3] == 115];
            let is_told = [bits & 1 == 1, bits & 2 == 2];
            if is_whole == is_told { Ok(()) } else { Err(format!("{bits:b} {words:?}")) }
        };
        let outcome = search(&trace, &Search::new(Model::Px86), &check(recover, judge));
        assert!(outcome.finding.is_none(), "{:?}", outcome.finding);
        let seen = seen.into_inner();
        for bits in 0..4 {
            assert!(seen.iter().any(|(of, _)| *of == bits), "{bits} of {seen:?}");
        }
        assert!(seen.contains(&(2, [0, 0, 7, 115])), "{seen:?}");
    }

    #[test]
    fn a_line_of_which_a_program_is_told_that_it_has_left_the_caches_is_there_with_its_first_copy()
    {
        let told = Rc::new(Cell::new(0));
        let tell = told.clone();
        let trace = record(start(), &schedule(1), move |memory| {
            memory.set_relocation(Some(REGISTERS));
            let page = Addr::pm(4096);
            memory.relocate(page, FROM, 512);
            tell.set(memory.load::<u64>(REGISTERS.reached(1)));
            // Later copies to these lines change no bit, and may be lost.
            (0..8).for_each(|line| memory.relocate(page.plus(64 * line + 32), FROM, 32));
            assert_eq!(memory.load::<u64>(REGISTERS.reached(1)), tell.get());
            memory.output(1);
        });
        let told = (trace.unwrap(), told.get());
        assert!((1..8).contains(&told.1.count_ones()), "{:b}", told.1);
        let lost = Cell::new(0);
        let recover = |image: &CrashImage| {
            let word = |line, at| image.load::<u64>(Addr::pm(4096 + 64 * line + at));
            let lines = (0..8).filter(|line| told.1 >> line & 1 == 1);
            Ok(lines.map(|line| (word(line, 0) == 100 + 8 * line, word(line, 32) == 100)).collect())
        };
        let judge = |lines: &Vec<(bool, bool)>, point: &CrashPoint| {
            lost.set(lost.get() + lines.iter().filter(|(_, second)| !second).count());
            match point.outputs[0] == 0 || lines.iter().all(|(first, _)| *first) {
                true => Ok(()),
                false => Err(format!("{lines:?}")),
            }
        };
        let outcome = search(&told.0, &Search::new(Model::Px86), &check(recover, judge));
        assert!(outcome.finding.is_none() && lost.get() > 0, "{:?}", outcome.finding);
    }

    #[test]
    fn of_many_open_bits_not_all_combinations_are_tried_but_from_none_to_all() {
        assert_eq!(combinations(0), [0]);
        assert_eq!(combinations(2), [0, 1, 2, 3]);
        for count in [7, 40, 64] {
            let masks = combinations(count);
            let all = u64::MAX >> (64 - count);
            assert_eq!((masks[0], masks[masks.len() - 1]), (0, all));
            assert!(masks.len() <= 3 * count, "{}", masks.len());
            assert!((0..count).all(|bit| masks.contains(&(1 << bit))));
            assert!((0..count).all(|bit| masks.contains(&(all ^ 1 << bit))));
        }
    }
}
