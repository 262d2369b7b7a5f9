//! What a thread does around its stores: marks their lines, hands them on, has them sampled.
//!
//! The hook sees each store while a thread of the Ribbon skips flushes (`phases`), and knows which
//! lines are clean (`early`); a sampler sees one store per period, and knows nothing (`sampler`).

use super::super::early::Early;
use super::super::flaws::RibbonFlaw;
use super::super::phases::Phases;
use super::super::sampler::Sampler;
use super::super::{BELLS, EarlyStores, Fifo, Ribbon, SEEN};
use super::{NO_LINE, RibbonMemory};
use seawall_memory::{Addr, Line, Memory, lines_of};
use std::cell::RefCell;
use std::ops::Deref;

/// What the thread knows of its stores, so that their lines are cleaned early.
pub(super) enum Seen {
    Hooked(RefCell<Early>, RefCell<Phases>),
    Sampled(RefCell<Sampler>),
}

impl Seen {
    pub(super) fn new<M: Memory>(ribbon: &Ribbon, memory: &M, fifo: Fifo) -> Option<Seen> {
        match ribbon.options.early {
            EarlyStores::None => None,
            EarlyStores::Hook => {
                let early = RefCell::new(Early::new(memory, fifo));
                Some(Seen::Hooked(early, RefCell::new(Phases::join(memory, ribbon, fifo))))
            }
            EarlyStores::Samples { every } => {
                Some(Seen::Sampled(RefCell::new(Sampler::new(memory, fifo, every))))
            }
        }
    }

    pub(super) fn in_vain(&self) -> u64 {
        match self {
            Seen::Hooked(early, _) => early.borrow().in_vain,
            Seen::Sampled(sampler) => sampler.borrow().in_vain,
        }
    }
}

impl<H: Deref<Target: Memory>> RibbonMemory<'_, H> {
    /// True if lines are cleaned early, and by the hook flushes skipped, at present.
    pub fn is_early(&self) -> bool {
        self.cleans.get()
    }

    /// Begins or ends, for this thread, to have lines cleaned early; nothing without
    /// [`RibbonOptions::early`](crate::RibbonOptions::early). In mode auto the thread may decide
    /// otherwise later.
    ///
    /// While it is off, stores make lines the thread's own or shared as before (rule 1), as long as
    /// other threads rely on that. They cancel nothing (rule 2), so what was handed on before is
    /// forgotten when it is on again: a line is skipped only for what was handed on since then.
    /// Nothing is, before each other thread of the Ribbon has fenced. Samples skip nothing, and are
    /// not taken while it is off.
    pub fn set_early(&self, on: bool) {
        let Some(seen) = &self.early else { return };
        let was_on = self.cleans.replace(on);
        match seen {
            Seen::Sampled(_) => {
                self.hands_on.set(on);
                self.watches.set(on);
            }
            Seen::Hooked(early, phases) => {
                let mut phases = phases.borrow_mut();
                if on && !was_on {
                    if !self.has(RibbonFlaw::RemembersPause) {
                        early.borrow_mut().forget();
                    }
                    phases.begin(&*self.memory, &self.ribbon);
                } else if was_on && !on {
                    phases.end(&*self.memory);
                }
                self.follow(&phases);
                self.is_plain.set(!self.way.get().decouples && !on);
            }
        }
    }

    /// Does as the phase asks.
    fn follow(&self, phases: &Phases) {
        self.hands_on.set(self.cleans.get() && phases.is_ready());
        self.watches.set(phases.marks());
        self.stored.set(NO_LINE);
    }

    /// At a fence: a phase may have begun, or all may have seen it.
    #[inline]
    pub(super) fn look_at_phase(&self, phases: &RefCell<Phases>) {
        let mut phases = phases.borrow_mut();
        let before = (phases.marks(), phases.is_ready());
        phases.look(&*self.memory, &self.ribbon);
        if (phases.marks(), phases.is_ready()) != before {
            self.follow(&phases);
        }
    }

    pub(super) fn skips(&self, line: Line) -> bool {
        let Some(Seen::Hooked(early, _)) = self.early.as_ref().filter(|_| self.hands_on.get())
        else {
            return false;
        };
        if self.stored.get() == line {
            self.stored.set(NO_LINE);
        }
        early.borrow_mut().skips(&*self.memory, &self.ribbon, line, || self.settle_stores())
    }

    /// No load from here on is earlier than the stores before the last fence: a locked operation,
    /// unless there was one since that fence.
    fn settle_stores(&self) {
        if self.may_overtake.replace(false) && !self.has(RibbonFlaw::LooksEarly) {
            self.memory.fetch_add(self.fifo.word(SEEN), 0);
        }
    }

    /// Before a store to these bytes. Gives whether all of their lines are the thread's own, for
    /// `after_store`; `None` if there is nothing to be done.
    #[inline]
    pub(super) fn before_store(&self, at: Addr, len: u64) -> Option<bool> {
        if self.watches.get() { self.before_watched_store(at, len) } else { None }
    }

    /// Out of line: while no thread skips, or samples, a store costs a look at one flag.
    #[inline(never)]
    fn before_watched_store(&self, at: Addr, len: u64) -> Option<bool> {
        let Some(Seen::Hooked(early, _)) = &self.early else { return at.is_pm().then_some(false) };
        let stored = self.stored.get();
        if lines_of(at, len).all(|line| line == stored) || !at.is_pm() {
            return None;
        }
        if self.hands_on.get() {
            return Some(self.own_lines(early, at, len));
        }
        self.mark(at, len);
        None
    }

    /// Rule 1 alone, before a store of a thread that hands nothing on.
    fn mark(&self, at: Addr, len: u64) {
        if !self.has(RibbonFlaw::UnmarkedInPause) || self.cleans.get() {
            for line in lines_of(at, len) {
                self.ribbon.own(&*self.memory, line);
                self.stored.set(line);
            }
        }
    }

    #[cold]
    fn own_lines(&self, early: &RefCell<Early>, at: Addr, len: u64) -> bool {
        if self.has(RibbonFlaw::OwnsLate) {
            return true;
        }
        if self.has(RibbonFlaw::HandsOnBeforeStore) {
            let mut early = early.borrow_mut();
            for line in lines_of(at, len) {
                early.stored(&*self.memory, &self.ribbon, line, false);
                early.hand_on(&*self.memory, line, 1);
            }
        }
        let mut all = true;
        for line in lines_of(at, len) {
            all &= self.ribbon.own(&*self.memory, line);
        }
        all
    }

    /// After it.
    #[inline]
    pub(super) fn after_store(&self, at: Addr, len: u64, is_own: Option<bool>) {
        match (&self.early, is_own) {
            (Some(Seen::Hooked(early, _)), Some(is_own)) => self.note_store(early, at, len, is_own),
            (Some(Seen::Sampled(sampler)), Some(_)) => self.sample_store(sampler, at, len),
            _ => {}
        }
    }

    #[cold]
    fn sample_store(&self, sampler: &RefCell<Sampler>, at: Addr, len: u64) {
        let (fences, chunk) = (self.fenced.get(), self.ribbon.options.chunk);
        let mut sampler = sampler.borrow_mut();
        if sampler.stored(&*self.memory, (at, len), fences, chunk) {
            self.ring(&BELLS[..1]);
        }
    }

    #[cold]
    fn note_store(&self, early: &RefCell<Early>, at: Addr, len: u64, is_own: bool) {
        let mut early = early.borrow_mut();
        let mut shows = false;
        for line in lines_of(at, len) {
            if self.has(RibbonFlaw::OwnsLate) {
                self.ribbon.own(&*self.memory, line);
            }
            shows |= early.stored(&*self.memory, &self.ribbon, line, is_own);
            self.stored.set(line);
        }
        if shows {
            self.ring(&BELLS[..1]);
        }
    }
}
