//! What a Ribbon has done, readable by any thread while it runs.
//!
//! Each number has one writer, which keeps it on a line of its own and adds to it with plain
//! stores: nothing is locked for counting. Threads publish theirs at fences, and not at each, so a
//! sum is a little behind until they leave.

use super::{
    CLAIMED, COUNTS, DONE, EARLY_DONE, EARLY_PUSHED, Fifo, PUSHED, RATE, Ribbon, count_of,
};
use seawall_memory::{Addr, Memory, MemoryExt};

/// What has happened since the Ribbon was placed; all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RibbonCounts {
    /// Lines that owners put into FIFOs.
    pub pushed: u64,
    /// Of those, lines that their owner executed at a fence, as no flusher had taken them on.
    pub by_owners: u64,
    /// Lines that flushers executed for FIFOs.
    pub by_flushers: u64,
    /// Lines that threads flushed at once, as it was cheaper or the mode says so.
    pub inline: u64,
    /// Lines that threads flushed at once, as the FIFO was full.
    pub full: u64,
    /// Lines that were known to be clean, and not flushed.
    pub skipped: u64,
    /// Lines that were handed on to be cleaned early.
    pub handed_on: u64,
    /// Of those, lines that were stored to again before their flush was asked for.
    pub in_vain: u64,
    /// Lines that flushers cleaned early.
    pub cleaned: u64,
    /// Fences of flushers.
    pub flusher_fences: u64,
    /// Times that an owner did the work of a flusher that did not come back.
    pub takeovers: u64,
    /// Trials that ended with the other way of flushing ([`Mode::Auto`](super::Mode::Auto)).
    pub switches: u64,
    /// Requests in FIFOs now that are not done.
    pub depth: u64,
    /// Flushers that work now.
    pub active: u64,
    /// Lines flushed in 2^20 units of the machine's clock, when last measured; 0 without a period.
    pub rate: u64,
}

impl RibbonCounts {
    /// Lines whose flush the program asked for, skipped or not.
    pub fn asked(&self) -> u64 {
        self.pushed + self.inline + self.full + self.skipped
    }

    /// Lines that were flushed, by whomever, asked for or early. What an owner did in the place of
    /// a flusher that did not come back is not among them.
    pub fn lines(&self) -> u64 {
        self.by_owners + self.by_flushers + self.inline + self.full + self.cleaned
    }
}

/// The numbers of a thread that it keeps in its `COUNTS` line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadCounts {
    pub(super) by_owner: u64,
    pub(super) inline: u64,
    pub(super) full: u64,
    pub(super) skipped: u64,
    pub(super) in_vain: u64,
    pub(super) switches: u64,
    pub(super) takeovers: u64,
}

impl ThreadCounts {
    const WORDS: usize = 7;

    fn words(self) -> [u64; ThreadCounts::WORDS] {
        let ThreadCounts { by_owner, inline, full, skipped, in_vain, switches, takeovers } = self;
        [by_owner, inline, full, skipped, in_vain, switches, takeovers]
    }

    fn of(words: [u64; ThreadCounts::WORDS]) -> ThreadCounts {
        let [by_owner, inline, full, skipped, in_vain, switches, takeovers] = words;
        ThreadCounts { by_owner, inline, full, skipped, in_vain, switches, takeovers }
    }

    /// Of the present generation, the requests that the owner has executed: behind the others.
    pub(super) fn own_word(fifo: Fifo) -> Addr {
        ThreadCounts::place(fifo, ThreadCounts::WORDS)
    }

    fn place(fifo: Fifo, word: usize) -> Addr {
        fifo.word(COUNTS).plus(8 * word as u64)
    }

    pub(super) fn read<M: Memory>(memory: &M, fifo: Fifo) -> ThreadCounts {
        ThreadCounts::of(std::array::from_fn(|word| memory.load(ThreadCounts::place(fifo, word))))
    }

    /// Stores those that differ from what was published `before`.
    pub(super) fn publish<M: Memory>(self, before: ThreadCounts, memory: &M, fifo: Fifo) {
        for (word, (new, old)) in self.words().into_iter().zip(before.words()).enumerate() {
            if new != old {
                memory.store(ThreadCounts::place(fifo, word), new);
            }
        }
    }
}

/// The words of a flusher's line.
pub(super) const FLUSHER_LINES: u64 = 0;
pub(super) const FLUSHER_CLEANED: u64 = 8;
pub(super) const FLUSHER_FENCES: u64 = 16;

impl Ribbon {
    /// What has happened so far. The numbers are read one after the other, while threads go on.
    pub fn counts<M: Memory>(&self, memory: &M) -> RibbonCounts {
        let mut sum = RibbonCounts {
            active: self.active(memory),
            rate: memory.load(self.word(RATE)),
            ..RibbonCounts::default()
        };
        for thread in 0..self.options.threads {
            let fifo = self.fifo(thread);
            let own: u64 = memory.load(ThreadCounts::own_word(fifo));
            let done: u64 = memory.load(fifo.word(DONE));
            let pushed: u64 = memory.load(fifo.word(PUSHED));
            let counts = ThreadCounts::read(memory, fifo);
            sum.pushed += pushed;
            let depth = count_of(pushed.wrapping_sub(done.wrapping_add(own)));
            sum.depth += depth.min(self.options.fifo_lines);
            sum.by_owners += counts.by_owner;
            sum.inline += counts.inline;
            sum.full += counts.full;
            sum.skipped += counts.skipped;
            sum.in_vain += counts.in_vain;
            sum.switches += counts.switches;
            sum.takeovers += counts.takeovers;
            sum.handed_on += memory.load::<u64>(fifo.word(EARLY_PUSHED));
        }
        for index in 0..self.options.flushers {
            let line = self.flusher_line(index);
            sum.by_flushers += memory.load::<u64>(line.plus(FLUSHER_LINES));
            sum.cleaned += memory.load::<u64>(line.plus(FLUSHER_CLEANED));
            sum.flusher_fences += memory.load::<u64>(line.plus(FLUSHER_FENCES));
        }
        sum
    }

    /// Lines that have been written back so far, as far as published: what the tuner measures.
    pub(super) fn lines_flushed<M: Memory>(&self, memory: &M) -> u64 {
        let by_owner = |thread| {
            let counts = ThreadCounts::read(memory, self.fifo(thread));
            counts.by_owner + counts.inline + counts.full
        };
        let by_flusher = |index| {
            let line = self.flusher_line(index);
            memory.load::<u64>(line.plus(FLUSHER_LINES))
                + memory.load::<u64>(line.plus(FLUSHER_CLEANED))
        };
        (0..self.options.threads).map(by_owner).sum::<u64>()
            + (0..self.options.flushers).map(by_flusher).sum::<u64>()
    }

    /// True if an owner has something that no flusher has taken on.
    pub(super) fn has_work<M: Memory>(&self, memory: &M, cleans: bool) -> bool {
        (0..self.options.threads).any(|thread| {
            let fifo = self.fifo(thread);
            let differ = |one, other| {
                let other: u64 = memory.load(fifo.word(other));
                count_of(memory.load(fifo.word(one))) != count_of(other)
            };
            differ(CLAIMED, PUSHED) || (cleans && differ(EARLY_DONE, EARLY_PUSHED))
        })
    }
}
