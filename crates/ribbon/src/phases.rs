//! Phases in which all threads mark the lines that they store to, so that some may skip flushes:
//! while no thread skips any, a store needs no look at the owner table.
//!
//! A phase begins when a thread has lines cleaned and no other one does, and ends when no thread
//! does any more. The shared word counts phases, and the threads that want the present one. Each
//! thread looks at it at its fences, and then says, in a word of its own, which phase it has seen
//! last; its stores from then on are marked. A thread hands lines on only once every thread has
//! seen the phase (a grace period, as of read-copy-update: McKenney and Slingwine, PDCS'98). So
//! stores without a mark were made before that, and are covered as those are that were made before
//! the table began. A thread that never fences holds up the skips of others, and nothing else.
//!
//! Threads come and go. One that joins says what it has seen by a locked operation, and looks
//! again: either it sees the phase, or the thread that began the phase sees it. One that has left
//! stores nothing; one that was lost holds up the skips of others until its place is taken again.

use super::flaws::RibbonFlaw;
use super::{Fifo, PHASE, Ribbon, SEEN, change};
use seawall_memory::{Addr, Memory, MemoryExt};

/// The word of all: how many phases there have been, and how many threads want the present one.
const WANTED_BITS: u32 = 16;
const WANTED_MASK: u64 = (1 << WANTED_BITS) - 1;

/// What a thread says: the number of the phase that it has seen, above these; 0 if there is no such
/// thread.
const JOINED: u64 = 1;
const WANTS: u64 = 2;
const SEEN_SHIFT: u32 = 2;

/// One thread's part in it.
#[derive(Debug)]
pub(super) struct Phases {
    word: Addr,
    seen: Addr,
    /// The word as it was seen last.
    phase: u64,
    /// The thread wants the present phase.
    wants: bool,
    /// It does, and all threads have seen it.
    is_ready: bool,
}

impl Phases {
    pub(super) fn join<M: Memory>(memory: &M, ribbon: &Ribbon, fifo: Fifo) -> Phases {
        let (word, seen) = (ribbon.word(PHASE), fifo.word(SEEN));
        let mut phases = Phases { word, seen, phase: 0, wants: false, is_ready: false };
        loop {
            phases.phase = memory.load(word);
            if memory.swap(seen, phases.said()) & WANTS > 0 {
                phases.end(memory);
            }
            let is_blind = ribbon.options.has(RibbonFlaw::JoinsBlindly);
            if is_blind || memory.load::<u64>(word) == phases.phase {
                return phases;
            }
        }
    }

    /// What the thread says that it has seen.
    fn said(&self) -> u64 {
        let wants = if self.wants { WANTS } else { 0 };
        self.phase >> WANTED_BITS << SEEN_SHIFT | wants | JOINED
    }

    fn say<M: Memory>(&self, memory: &M) {
        memory.store(self.seen, self.said());
    }

    /// True if the thread has to mark the lines that it stores to.
    pub(super) fn marks(&self) -> bool {
        self.wants || self.phase & WANTED_MASK > 0
    }

    /// True if what the thread hands on may be skipped later.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Wants a phase, and begins one if there is none.
    pub(super) fn begin<M: Memory>(&mut self, memory: &M, ribbon: &Ribbon) {
        let begun = |phase: u64| match phase & WANTED_MASK {
            0 => ((phase >> WANTED_BITS) + 1) << WANTED_BITS | 1,
            _ => phase + 1,
        };
        self.phase = change(memory, self.word, begun);
        self.wants = true;
        self.say(memory);
        self.await_others(memory, ribbon);
    }

    /// Wants it no more.
    pub(super) fn end<M: Memory>(&mut self, memory: &M) {
        (self.wants, self.is_ready) = (false, false);
        self.phase = change(memory, self.word, |phase| phase - 1);
        self.say(memory);
    }

    /// At a fence: which phase there is, and whether all have seen it.
    #[inline]
    pub(super) fn look<M: Memory>(&mut self, memory: &M, ribbon: &Ribbon) {
        let phase: u64 = memory.load(self.word);
        if phase != self.phase {
            let before = self.said();
            self.phase = phase;
            if self.said() != before {
                self.say(memory);
            }
        }
        if self.wants && !self.is_ready {
            self.await_others(memory, ribbon);
        }
    }

    #[cold]
    fn await_others<M: Memory>(&mut self, memory: &M, ribbon: &Ribbon) {
        let has_seen = |thread| {
            let said: u64 = memory.load(ribbon.fifo(thread).word(SEEN));
            said == 0 || said >> SEEN_SHIFT >= self.phase >> WANTED_BITS
        };
        self.is_ready =
            ribbon.options.has(RibbonFlaw::NoGrace) || (0..ribbon.options.threads).all(has_seen);
    }

    /// The thread stores nothing any more.
    pub(super) fn leave<M: Memory>(&mut self, memory: &M) {
        if self.wants {
            self.end(memory);
        }
        memory.store(self.seen, 0u64);
    }
}
