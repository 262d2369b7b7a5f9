//! A thread's handle with a Ribbon around it: the thread's side of the FIFO.
//!
//! Where a thread flushes by itself, which is most of the time where flushers do not pay, a flush
//! and a fence go straight to the machine below, for one look at a flag and a few counters.

use super::ab_tests::{AbTests, Variant};
use super::counts::ThreadCounts;
use super::flaws::RibbonFlaw;
use super::threads::Waker;
use super::{
    BATCH_LINES, BELLS, CLAIMED, DONE, Fifo, PUSHED, Ribbon, count_of, generation_of, word_of,
};
use seawall_memory::{Addr, Fence, Line, Memory, MemoryExt, ThreadSlots, lines_of};
use std::cell::{Cell, RefCell};
use std::ops::Deref;

mod below;
mod seam;
mod stores;

pub use below::StoreBelow;
use stores::Seen;

/// Fences with lines from one publishing of the counts to the next.
const PUBLISH: u64 = 64;
/// What no line is.
const NO_LINE: Line = Line(u64::MAX);

/// What the thread does until its A/B tests choose the next variant.
#[derive(Clone, Copy)]
struct Way {
    decouples: bool,
    /// Fences until then, after those of the current span.
    fences: u64,
}

/// One thread's memory with its flushes left to flushers; see [`Ribbon::join`].
///
/// It promises exactly what [`Memory`] does: what was flushed is durable after the thread's next
/// drain, ordered by its next order, and by a locked operation where the machine below orders it by
/// one. Dropping it drains, unless the thread is panicking, or the memory is that of the process
/// that this one was forked from: a request that no fence followed was promised nothing. `H` holds
/// the handle below: a reference, or a box that owns it.
pub struct RibbonMemory<'m, H: Deref<Target: Memory>> {
    memory: H,
    ribbon: Ribbon,
    fifo: Fifo,
    waker: Option<&'m dyn Waker>,
    /// Requests in the FIFO since it began; those that are published; those at the last fence.
    pushed: Cell<u64>,
    published: Cell<u64>,
    base: Cell<u64>,
    /// Requests that this thread has executed itself in this generation.
    own: Cell<u64>,
    generation: Cell<u64>,
    /// Flushes go straight to the machine below, and nothing is in the FIFO: the way changes at
    /// fences only.
    is_plain: Cell<bool>,
    /// Lines are handed on; by the hook also skipped, once all threads mark theirs.
    cleans: Cell<bool>,
    hands_on: Cell<bool>,
    /// A store has to be marked or counted.
    watches: Cell<bool>,
    way: Cell<Way>,
    /// Lines flushed so far, or skipped; the same at the last fence.
    lines: Cell<u64>,
    fenced: Cell<u64>,
    /// Fences with lines until the counts are published, or the next variant is due.
    span: Cell<u64>,
    /// Of the lines so far, those that were not flushed at once, as the way says.
    not_inline: Cell<u64>,
    /// Times that a bell was rung, by earlier handles of this thread too.
    rings: Cell<u64>,
    /// No locked operation of `settle_stores` since the last fence.
    may_overtake: Cell<bool>,
    /// The line that was stored to last, while nothing needs to be done before another store to it.
    stored: Cell<Line>,
    /// Lines since the FIFO was found full.
    full_for: Cell<u64>,
    tests: RefCell<AbTests>,
    early: Option<Seen>,
    /// What earlier handles of this thread have counted.
    before: ThreadCounts,
    counts: Cell<ThreadCounts>,
    counts_published: Cell<ThreadCounts>,
}

impl<'m, H: Deref<Target: Memory>> RibbonMemory<'m, H> {
    pub(super) fn new(ribbon: Ribbon, memory: H) -> RibbonMemory<'m, H> {
        let (thread, threads) = (memory.thread() as u64, ribbon.options.threads);
        assert!(thread < threads, "thread {thread} in a Ribbon for {threads}");
        let fifo = ribbon.fifo(thread);
        let counts = ThreadCounts::read(&*memory, fifo);
        let pushed: u64 = memory.load(fifo.word(PUSHED));
        let (tests, variant) = AbTests::new(ribbon.options.mode, ribbon.options.cleans());
        let early = Seen::new(&ribbon, &*memory, fifo);
        let generation = generation_of(memory.load(fifo.word(CLAIMED)));
        let rings = memory.load(fifo.rings());
        let joined = RibbonMemory {
            memory,
            fifo,
            waker: None,
            pushed: Cell::new(pushed),
            published: Cell::new(pushed),
            base: Cell::new(pushed),
            own: Cell::new(0),
            generation: Cell::new(generation),
            is_plain: Cell::new(false),
            cleans: Cell::new(false),
            hands_on: Cell::new(false),
            watches: Cell::new(false),
            way: Cell::new(Way { decouples: false, fences: 0 }),
            lines: Cell::new(counts.inline),
            fenced: Cell::new(counts.inline),
            span: Cell::new(0),
            not_inline: Cell::new(0),
            rings: Cell::new(rings),
            may_overtake: Cell::new(true),
            stored: Cell::new(NO_LINE),
            full_for: Cell::new(0),
            tests: RefCell::new(tests),
            early,
            before: counts,
            counts: Cell::new(counts),
            counts_published: Cell::new(counts),
            ribbon,
        };
        joined.begin_generation();
        joined.use_variant(variant);
        joined
    }

    /// The handle, with something to call when flushers have been asked to get up
    /// ([`Flusher::lie_down`](super::Flusher::lie_down)).
    #[must_use]
    pub fn with_waker(mut self, waker: &'m dyn Waker) -> RibbonMemory<'m, H> {
        self.waker = Some(waker);
        self
    }

    /// The handle below.
    pub fn inner(&self) -> &H::Target {
        &self.memory
    }

    /// True if flushes are left to the flushers at present.
    pub fn decouples(&self) -> bool {
        self.way.get().decouples
    }

    /// Executes, or waits for, all requests of the thread, drains, and publishes its counts, as
    /// dropping the handle does.
    pub fn leave(self) {}

    fn use_variant(&self, variant: Variant) {
        let Variant { decouples, early, fences } = variant;
        let span = fences.min(PUBLISH);
        self.span.set(span);
        self.way.set(Way { decouples, fences: fences - span });
        self.is_plain.set(!decouples);
        self.set_early(early);
    }

    fn has(&self, flaw: RibbonFlaw) -> bool {
        self.ribbon.options.has(flaw)
    }

    fn count(&self, change: impl FnOnce(&mut ThreadCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    #[track_caller]
    fn flush_line(&self, line: Line) {
        self.memory.flush(line.start(), 1);
    }

    #[cold]
    #[track_caller]
    fn flush_as_agreed(&self, at: Addr, len: u64) {
        let way = self.way.get();
        let (mut lines, mut inline) = (0, 0);
        for line in lines_of(at, len) {
            lines += 1;
            if self.skips(line) {
                self.count(|counts| counts.skipped += 1);
            } else if !way.decouples {
                inline += 1;
                self.flush_line(line);
            } else if self.pushed.get() - self.base.get() < self.fifo.lines || self.empties() {
                self.memory.store(self.fifo.slot(self.pushed.get()), line.start().bits());
                self.pushed.set(self.pushed.get() + 1);
            } else {
                self.count(|counts| counts.full += 1);
                self.flush_line(line);
            }
        }
        if self.pushed.get() - self.published.get() >= self.ribbon.options.chunk {
            self.publish();
        }
        self.lines.set(self.lines.get() + lines);
        self.not_inline.set(self.not_inline.get() + lines - inline);
    }

    /// Shows the flushers what was pushed.
    fn publish(&self) {
        let pushed = self.pushed.get();
        if self.published.replace(pushed) != pushed {
            self.memory.store(self.fifo.word(PUSHED), pushed);
            self.ring(&BELLS);
        }
    }

    /// Rings for the flushers that rest. What it stores to a bell was never there before, so
    /// a flusher that looked at the bell before notices; nothing needs to be locked.
    fn ring(&self, bells: &[u64]) {
        for bell in bells {
            let resting = self.ribbon.resting(*bell);
            if self.memory.load::<u64>(resting) == 0 {
                continue;
            }
            self.memory.store(resting, 0u64);
            self.rings.set(self.rings.get() + 1);
            self.memory.store(self.fifo.rings(), self.rings.get());
            let once = word_of(self.memory.thread() as u64 + 1, self.rings.get());
            self.memory.store(self.ribbon.word(*bell), once);
            if let Some(waker) = self.waker {
                waker.wake();
            }
        }
    }

    /// The FIFO is full: true if all of it has been done meanwhile, which is looked at from time to
    /// time.
    fn empties(&self) -> bool {
        self.publish();
        let waited = self.full_for.get();
        self.full_for.set(waited + 1);
        if !waited.is_multiple_of(BATCH_LINES) || !self.is_done(self.done_word()) {
            return false;
        }
        self.full_for.set(0);
        self.base.set(self.pushed.get());
        true
    }

    fn done_word(&self) -> u64 {
        self.memory.load(self.fifo.word(DONE))
    }

    fn is_done(&self, done: u64) -> bool {
        count_of(done.wrapping_add(self.own.get())) == count_of(self.pushed.get())
    }

    fn has_requests(&self) -> bool {
        self.pushed.get() != self.base.get()
    }

    /// Executes what no flusher has taken on. Nothing is claimed that is not published.
    fn work_off(&self) {
        self.publish();
        let (at, pushed) = (self.fifo.word(CLAIMED), self.pushed.get());
        while self.has_requests() {
            let claimed: u64 = self.memory.load(at);
            let lines = count_of(pushed.wrapping_sub(claimed));
            let next = word_of(generation_of(claimed), pushed);
            if lines == 0 {
                return;
            }
            if self.memory.compare_exchange(at, claimed, next).is_ok() {
                (pushed - lines..pushed).for_each(|number| self.execute(number));
                self.set_own(self.own.get() + lines);
                return self.count(|counts| counts.by_owner += lines);
            }
        }
    }

    fn execute(&self, number: u64) {
        let line = Addr::from_bits(self.memory.load(self.fifo.slot(number)));
        self.memory.flush(line, 1);
    }

    /// Waits until the flushers have done what they took on. True if the thread had to do that
    /// itself: then it is flushed, and not fenced.
    fn await_flushers(&self) -> bool {
        let mut polls = 0;
        let mut took_over = false;
        while self.has_requests() && !self.has(RibbonFlaw::WaitsForClaims) {
            let done = self.done_word();
            if self.is_done(done) {
                break;
            }
            match self.ribbon.options.patience {
                None => {
                    self.memory.spin_while(self.fifo.word(DONE), done);
                }
                Some(patience) if polls < patience => {
                    polls += 1;
                    std::hint::spin_loop();
                }
                Some(_) => {
                    self.take_over();
                    took_over = true;
                    break;
                }
            }
        }
        self.base.set(self.pushed.get());
        took_over
    }

    #[cold]
    fn take_over(&self) {
        (self.base.get()..self.pushed.get()).for_each(|number| self.execute(number));
        self.begin_generation();
        self.count(|counts| counts.takeovers += 1);
    }

    /// Nothing is pending, and no flusher may claim or count what was.
    fn begin_generation(&self) {
        let keeps = self.has(RibbonFlaw::KeepsGeneration);
        let word = word_of(self.generation.get() + u64::from(!keeps), self.pushed.get());
        self.generation.set(generation_of(word));
        self.memory.swap(self.fifo.word(CLAIMED), word);
        self.memory.swap(self.fifo.word(DONE), word);
        self.set_own(0);
    }

    fn set_own(&self, own: u64) {
        self.own.set(own);
        self.memory.store(ThreadCounts::own_word(self.fifo), own);
    }

    #[track_caller]
    fn fence_requests(&self, fence: Fence) {
        self.work_off();
        self.memory.fence(fence);
        if self.await_flushers() {
            self.memory.fence(fence);
        }
        if self.ribbon.options.period > 0 {
            self.publish_counts();
        }
        self.has_fenced();
    }

    /// Before a locked operation, which fences what this thread has flushed itself.
    #[inline]
    fn settle(&self) {
        if self.has_requests() && !self.has(RibbonFlaw::LockedWaitsForNothing) {
            self.work_off();
            self.await_flushers();
        }
    }

    /// Counts a fence that had something to do.
    #[inline]
    fn has_fenced(&self) {
        if let Some(Seen::Hooked(_, phases)) = &self.early {
            self.may_overtake.set(true);
            self.look_at_phase(phases);
        }
        let lines = self.lines.get();
        if lines != self.fenced.get() {
            let span = self.span.get() - 1;
            self.span.set(span);
            if span == 0 {
                self.consider();
            }
            self.fenced.set(lines);
        }
    }

    #[cold]
    fn consider(&self) {
        self.publish_counts();
        let way = self.way.get();
        if way.fences > 0 {
            let span = way.fences.min(PUBLISH);
            self.span.set(span);
            return self.way.set(Way { fences: way.fences - span, ..way });
        }
        let mut tests = self.tests.borrow_mut();
        let is_late = self.cleans.get() && !self.hands_on.get();
        let extended = if is_late { tests.extend_run_in() } else { None };
        let next = || tests.next(self.memory.now(), self.lines.get());
        let variant = extended.unwrap_or_else(next);
        drop(tests);
        self.use_variant(variant);
    }

    fn publish_counts(&self) {
        let mut counts = self.counts.get();
        counts.inline = self.lines.get() - self.not_inline.get();
        counts.switches = self.before.switches + self.tests.borrow().switches;
        counts.in_vain = self.before.in_vain + self.early.as_ref().map_or(0, Seen::in_vain);
        counts.publish(self.counts_published.replace(counts), &*self.memory, self.fifo);
    }
}

impl<H: Deref<Target: Memory>> Drop for RibbonMemory<'_, H> {
    fn drop(&mut self) {
        let is_inherited = self.memory.slots().is_some_and(ThreadSlots::are_inherited);
        if is_inherited || std::thread::panicking() {
            return;
        }
        self.settle();
        self.memory.drain();
        self.publish_counts();
        if let Some(Seen::Hooked(_, phases)) = &self.early {
            phases.borrow_mut().leave(&*self.memory);
        }
    }
}
