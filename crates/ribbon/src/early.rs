//! Lines that are cleaned before the program asks for it: a thread's side of the flushes that are
//! skipped. The rules that make it safe, and why, are in the head of [`ribbon`](super).
//!
//! A line is handed on when the thread stores to another one: programs write the words of a line
//! one after the other. Cleaning is in vain if the line is stored to again, or its flush asked for,
//! before it is done; a line where that happens is left out the next 2, 4, 8, ... times.
//!
//! What a thread knows of its lines is in its own process memory, one entry for all lines with the
//! same low bits; a newer line drives an older one out, which costs a flush and nothing else. A
//! machine that counts instructions counts each look-up.

use super::backoff::Backoff;
use super::flaws::RibbonFlaw;
use super::ring::EarlyRing;
use super::{Fifo, Ribbon, SHARED};
use seawall_memory::{Addr, Line, Memory, MemoryExt};

/// Lines that a thread knows something of.
const ENTRIES: u64 = 4096;
/// Instructions of a look-up.
const LOOK_UP: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct Entry {
    line: Line,
    /// The request by which it was handed on, from 1; 0: it was not, or was stored to since.
    request: u64,
    /// Its flush was skipped since.
    used: bool,
    backoff: Backoff,
}

impl Entry {
    fn new(line: Line) -> Entry {
        Entry { line, request: 0, used: false, backoff: Backoff::default() }
    }

    fn was_in_vain(&mut self) {
        self.backoff.was_in_vain();
        self.request = 0;
    }
}

#[derive(Debug)]
pub(super) struct Early {
    entries: Box<[Entry]>,
    /// The line that was stored to last, if it is the thread's own and not handed on yet.
    open: Option<Line>,
    ring: EarlyRing,
    /// The last request that is forgotten: it says nothing of its line any more.
    forgotten: u64,
    pub(super) in_vain: u64,
}

impl Early {
    pub(super) fn new<M: Memory>(memory: &M, fifo: Fifo) -> Early {
        let ring = EarlyRing::new(memory, fifo);
        Early {
            entries: vec![Entry::new(Line(u64::MAX)); ENTRIES as usize].into_boxed_slice(),
            open: None,
            forgotten: ring.last(),
            ring,
            in_vain: 0,
        }
    }

    /// What is known of the line, or of another one with the same low bits.
    fn entry(&mut self, line: Line) -> &mut Entry {
        let forgotten = self.forgotten;
        let entry = &mut self.entries[(line.0 % ENTRIES) as usize];
        if entry.request <= forgotten {
            (entry.request, entry.used) = (0, false);
        }
        entry
    }

    /// No line is known to be clean: stores to lines that were handed on so far may have gone by.
    pub(super) fn forget(&mut self) {
        (self.forgotten, self.open) = (self.ring.last(), None);
    }

    /// The thread has stored to the line, its own or not. True if flushers are shown something new.
    pub(super) fn stored<M: Memory>(
        &mut self,
        memory: &M,
        ribbon: &Ribbon,
        line: Line,
        is_own: bool,
    ) -> bool {
        memory.work(LOOK_UP);
        let flaws = [RibbonFlaw::SkipsRewritten, RibbonFlaw::HandsOnBeforeStore];
        let keeps = flaws.into_iter().any(|flaw| ribbon.options.has(flaw));
        let entry = self.entry(line);
        if entry.line != line {
            *entry = Entry::new(line);
        } else if entry.request > 0 && !keeps {
            if entry.used {
                (entry.request, entry.used) = (0, false);
            } else {
                entry.was_in_vain();
                self.in_vain += 1;
            }
        }
        let left = std::mem::replace(&mut self.open, is_own.then_some(line));
        left.filter(|left| *left != line)
            .is_some_and(|left| self.hand_on(memory, left, ribbon.options.chunk))
    }

    /// Asks for the line to be cleaned, unless recent requests were in vain. True if flushers get
    /// something new.
    pub(super) fn hand_on<M: Memory>(&mut self, memory: &M, line: Line, chunk: u64) -> bool {
        let is_full = self.ring.is_full(memory);
        let entry = self.entry(line);
        if entry.line != line || entry.request > 0 || is_full || entry.backoff.leaves_out() {
            return false;
        }
        let request = self.ring.push(memory, line);
        let entry = self.entry(line);
        (entry.request, entry.used) = (request, false);
        self.ring.show(memory, chunk)
    }

    /// The program asks for a flush of the line: true if none is needed. `settle` lets no later
    /// load overtake what the thread stored before its last fence.
    pub(super) fn skips<M: Memory>(
        &mut self,
        memory: &M,
        ribbon: &Ribbon,
        line: Line,
        settle: impl FnOnce(),
    ) -> bool {
        memory.work(LOOK_UP);
        if self.open == Some(line) {
            self.open = None;
        }
        let request = match self.entry(line) {
            entry if entry.line == line && entry.request > 0 => entry.request,
            _ => return false,
        };
        let is_clean =
            self.ring.has_done(memory, request) || ribbon.options.has(RibbonFlaw::SkipsUndone);
        if !is_clean {
            self.entry(line).was_in_vain();
            self.in_vain += 1;
            return false;
        }
        settle();
        let owner: u64 = memory.load(ribbon.owner_word(line));
        let is_own =
            owner == memory.thread() as u64 + 1 || ribbon.options.has(RibbonFlaw::SkipsShared);
        let entry = self.entry(line);
        entry.used = true;
        entry.backoff.has_paid();
        if !is_own {
            entry.request = 0;
        }
        is_own
    }
}

impl Ribbon {
    /// Before the thread stores to the line: makes it the owner, or the line shared. True if it is
    /// the owner.
    #[inline]
    pub(super) fn own<M: Memory>(&self, memory: &M, line: Line) -> bool {
        let at = self.owner_word(line);
        let mine = memory.thread() as u64 + 1;
        let mut owner: u64 = memory.load(at);
        if owner != mine && owner != SHARED {
            owner = Ribbon::change_owner(memory, at, owner, mine);
        }
        owner == mine
    }

    #[cold]
    fn change_owner<M: Memory>(memory: &M, at: Addr, mut owner: u64, mine: u64) -> u64 {
        while owner != mine && owner != SHARED {
            let next = if owner == 0 { mine } else { SHARED };
            owner = match memory.compare_exchange(at, owner, next) {
                Ok(_) => next,
                Err(now) => now,
            };
        }
        owner
    }
}
