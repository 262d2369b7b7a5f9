//! A thread's handle with a Ribbon around it: the thread's side of the FIFO.
//!
//! Where a thread flushes by itself, which is most of the time where flushers do not pay, a flush
//! and a fence go straight to the machine below, for one look at a flag and a few counters.

use super::counts::ThreadCounts;
use super::early::Early;
use super::judge::{Conduct, Judge};
use super::threads::Waker;
use super::{
    BATCH_LINES, BELLS, CLAIMED, DONE, EARLY_PUSHED, Fifo, PUSHED, Ribbon, RibbonFlaw, count_of,
    generation_of, word_of,
};
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, Width, lines_of};
use std::cell::{Cell, RefCell};

/// Fences with lines from one publishing of the counts to the next.
const PUBLISH: u64 = 64;
/// What no line is.
const NO_LINE: Line = Line(u64::MAX);

/// What the thread does until the judge is asked again.
#[derive(Clone, Copy)]
struct Way {
    decouples: bool,
    times: bool,
    /// Fences until then, after those of the present span.
    ask_in: u64,
}

/// One thread's memory with its flushes left to flushers; see [`Ribbon::join`].
///
/// It promises exactly what [`Memory`] does: what was flushed is durable after the thread's next
/// drain, ordered by its next order, and by a locked operation where the machine below orders it by
/// one. Dropping it drains, unless the thread is panicking: a request that no fence followed was
/// promised nothing.
pub struct RibbonMemory<'m, M: Memory> {
    memory: &'m M,
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
    /// Flushes go straight to the machine below.
    is_plain: Cell<bool>,
    way: Cell<Way>,
    /// Lines flushed since the last fence, and time spent.
    lines: Cell<u64>,
    spent: Cell<u64>,
    /// Fences with lines until the counts are published, or the judge is asked.
    span: Cell<u64>,
    inline: Cell<u64>,
    /// Times that a bell was rung, or more: each time something was pushed, or handed on.
    rings: Cell<u64>,
    /// The line that was stored to last, while nothing needs to be done before another store to it.
    stored: Cell<Line>,
    /// Lines since the FIFO was found full.
    full_for: Cell<u64>,
    judge: RefCell<Judge>,
    early: Option<RefCell<Early>>,
    counts: Cell<ThreadCounts>,
    counts_published: Cell<ThreadCounts>,
}

impl<'m, M: Memory> RibbonMemory<'m, M> {
    pub(super) fn new(ribbon: Ribbon, memory: &'m M) -> RibbonMemory<'m, M> {
        let (thread, threads) = (memory.thread() as u64, ribbon.options.threads);
        assert!(thread < threads, "thread {thread} in a Ribbon for {threads}");
        let fifo = ribbon.fifo(thread);
        let counts = ThreadCounts::read(memory, fifo);
        let pushed: u64 = memory.load(fifo.word(PUSHED));
        let (judge, conduct) = Judge::new(ribbon.options.mode);
        let early = ribbon.options.early.then(|| RefCell::new(Early::new(memory, fifo)));
        let joined = RibbonMemory {
            memory,
            fifo,
            waker: None,
            pushed: Cell::new(pushed),
            published: Cell::new(pushed),
            base: Cell::new(pushed),
            own: Cell::new(0),
            generation: Cell::new(generation_of(memory.load(fifo.word(CLAIMED)))),
            is_plain: Cell::new(false),
            way: Cell::new(Way { decouples: false, times: false, ask_in: 0 }),
            lines: Cell::new(0),
            spent: Cell::new(0),
            span: Cell::new(0),
            inline: Cell::new(counts.inline),
            rings: Cell::new(pushed + memory.load::<u64>(fifo.word(EARLY_PUSHED))),
            stored: Cell::new(NO_LINE),
            full_for: Cell::new(0),
            judge: RefCell::new(judge),
            early,
            counts: Cell::new(counts),
            counts_published: Cell::new(counts),
            ribbon,
        };
        joined.begin_generation();
        joined.behave(conduct);
        joined
    }

    /// The handle, with something to call when flushers have been asked to get up
    /// ([`Flusher::lie_down`](super::Flusher::lie_down)).
    #[must_use]
    pub fn with_waker(mut self, waker: &'m dyn Waker) -> RibbonMemory<'m, M> {
        self.waker = Some(waker);
        self
    }

    /// The handle below.
    pub fn inner(&self) -> &'m M {
        self.memory
    }

    /// True if flushes are left to the flushers at present.
    pub fn decouples(&self) -> bool {
        self.way.get().decouples
    }

    /// Executes, or waits for, all requests of the thread, drains, and publishes its counts, as
    /// dropping the handle does.
    pub fn leave(self) {}

    fn behave(&self, conduct: Conduct) {
        let Conduct { decouples, times, ask_in } = conduct;
        let span = ask_in.min(PUBLISH);
        self.span.set(span);
        self.way.set(Way { decouples, times, ask_in: ask_in - span });
        self.is_plain.set(!decouples && !times && self.early.is_none());
    }

    fn flaw(&self) -> RibbonFlaw {
        self.ribbon.options.flaw
    }

    fn count(&self, change: impl FnOnce(&mut ThreadCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    #[track_caller]
    fn flush_line(&self, line: Line) {
        self.memory.flush(line.start(), LINE_BYTES);
    }

    fn now(&self) -> u64 {
        if self.way.get().times { self.memory.now() } else { 0 }
    }

    #[cold]
    #[track_caller]
    fn flush_as_agreed(&self, at: Addr, len: u64) {
        let (began, way) = (self.now(), self.way.get());
        let mut lines = 0;
        for line in lines_of(at, len) {
            lines += 1;
            if self.skips(line) {
                self.count(|counts| counts.skipped += 1);
            } else if !way.decouples {
                self.inline.set(self.inline.get() + 1);
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
        self.spent.set(self.spent.get() + self.now().wrapping_sub(began));
    }

    fn skips(&self, line: Line) -> bool {
        let Some(early) = &self.early else { return false };
        if self.stored.get() == line {
            self.stored.set(NO_LINE);
        }
        early.borrow_mut().skips(self.memory, &self.ribbon, self.fifo, line)
    }

    /// Shows the flushers what was pushed.
    fn publish(&self) {
        let pushed = self.pushed.get();
        if self.published.replace(pushed) != pushed {
            self.memory.store(self.fifo.word(PUSHED), pushed);
            self.ring(&BELLS);
        }
    }

    /// Rings for the flushers that rest. What it stores to a bell was never there before, so whoever
    /// looked at the bell before notices; nothing needs to be locked.
    fn ring(&self, bells: &[u64]) {
        for bell in bells {
            let resting = self.ribbon.resting(*bell);
            if self.memory.load::<u64>(resting) == 0 {
                continue;
            }
            self.memory.store(resting, 0u64);
            self.rings.set(self.rings.get() + 1);
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
                self.own.set(self.own.get() + lines);
                return self.count(|counts| counts.by_owner += lines);
            }
        }
    }

    fn execute(&self, number: u64) {
        let line = Addr::from_bits(self.memory.load(self.fifo.slot(number)));
        self.memory.flush(line, LINE_BYTES);
    }

    /// Waits until the flushers have done what they took on. True if the thread had to do that
    /// itself: then it is flushed, and not fenced.
    fn await_flushers(&self) -> bool {
        let mut polls = 0;
        let mut took_over = false;
        while self.has_requests() && self.flaw() != RibbonFlaw::WaitsForClaims {
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

    /// Nothing is pending, and nobody may claim or count what was.
    fn begin_generation(&self) {
        let keeps = self.flaw() == RibbonFlaw::KeepsGeneration;
        let word = word_of(self.generation.get() + u64::from(!keeps), self.pushed.get());
        self.generation.set(generation_of(word));
        self.memory.swap(self.fifo.word(CLAIMED), word);
        self.memory.swap(self.fifo.word(DONE), word);
        self.own.set(0);
    }

    #[track_caller]
    fn fence(&self, drains: bool) {
        let began = self.now();
        self.work_off();
        self.fence_below(drains);
        if self.await_flushers() {
            self.fence_below(drains);
        }
        self.spent.set(self.spent.get() + self.now().wrapping_sub(began));
        self.fenced();
    }

    #[track_caller]
    fn fence_below(&self, drains: bool) {
        if drains {
            self.memory.drain();
        } else {
            self.memory.order();
        }
    }

    /// Before a locked operation, which fences what this thread has flushed itself.
    #[inline]
    fn settle(&self) {
        if self.has_requests() && self.flaw() != RibbonFlaw::LockedWaitsForNothing {
            self.work_off();
            self.await_flushers();
        }
    }

    /// Counts a fence that had something to do.
    #[inline]
    fn fenced(&self) {
        if self.lines.get() > 0 {
            self.span.set(self.span.get() - 1);
            if self.span.get() == 0 {
                self.consider();
            }
            self.lines.set(0);
        }
    }

    #[cold]
    fn consider(&self) {
        self.publish_counts();
        let way = self.way.get();
        if way.ask_in > 0 {
            let span = way.ask_in.min(PUBLISH);
            self.span.set(span);
            return self.way.set(Way { ask_in: way.ask_in - span, ..way });
        }
        let has_time = self.memory.now() != 0;
        let spent = self.spent.replace(0);
        self.behave(self.judge.borrow_mut().ask(spent, self.lines.get(), has_time));
    }

    fn publish_counts(&self) {
        let mut counts = self.counts.get();
        counts.inline = self.inline.get();
        counts.switches = self.judge.borrow().switches;
        counts.in_vain = self.early.as_ref().map_or(0, |early| early.borrow().in_vain);
        counts.publish(self.counts_published.replace(counts), self.memory, self.fifo);
    }

    /// Before a store to these bytes. Gives whether all of their lines are the thread's own, for
    /// [`after_store`](RibbonMemory::after_store); `None` if there is nothing to be done.
    #[inline]
    fn before_store(&self, at: Addr, len: u64) -> Option<bool> {
        let early = self.early.as_ref()?;
        let stored = self.stored.get();
        let is_known = lines_of(at, len).all(|line| line == stored);
        (at.is_pm() && !is_known).then(|| self.own_lines(early, at, len))
    }

    #[cold]
    fn own_lines(&self, early: &RefCell<Early>, at: Addr, len: u64) -> bool {
        match self.flaw() {
            RibbonFlaw::OwnsLate => return true,
            RibbonFlaw::HandsOnBeforeStore => {
                let mut early = early.borrow_mut();
                for line in lines_of(at, len) {
                    early.stored(self.memory, &self.ribbon, self.fifo, line, false);
                    early.hand_on(self.memory, self.fifo, line, 1);
                }
            }
            _ => {}
        }
        let mut all = true;
        for line in lines_of(at, len) {
            all &= self.ribbon.own(self.memory, line);
        }
        all
    }

    /// After it.
    #[inline]
    fn after_store(&self, at: Addr, len: u64, is_own: Option<bool>) {
        if let (Some(early), Some(is_own)) = (&self.early, is_own) {
            self.note_store(early, at, len, is_own);
        }
    }

    #[cold]
    fn note_store(&self, early: &RefCell<Early>, at: Addr, len: u64, is_own: bool) {
        let mut early = early.borrow_mut();
        let mut shows = false;
        for line in lines_of(at, len) {
            if self.flaw() == RibbonFlaw::OwnsLate {
                self.ribbon.own(self.memory, line);
            }
            shows |= early.stored(self.memory, &self.ribbon, self.fifo, line, is_own);
            self.stored.set(line);
        }
        if shows {
            self.ring(&BELLS[..1]);
        }
    }
}

impl<M: Memory> Drop for RibbonMemory<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.settle();
        self.memory.drain();
        self.publish_counts();
    }
}

/// All that is not about stores, flushes and fences goes to the machine below as it is.
impl<M: Memory> Memory for RibbonMemory<'_, M> {
    #[inline]
    fn thread(&self) -> usize {
        self.memory.thread()
    }

    #[inline]
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.memory.load_bits(at, width)
    }

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let is_own = self.before_store(at, width.bytes());
        self.memory.store_bits(at, width, value);
        self.after_store(at, width.bytes(), is_own);
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.settle();
        let is_own = self.before_store(at, 8);
        let outcome = self.memory.compare_exchange(at, current, new);
        self.after_store(at, 8, is_own);
        outcome
    }

    #[inline]
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.settle();
        let is_own = self.before_store(at, 8);
        let before = self.memory.swap(at, new);
        self.after_store(at, 8, is_own);
        before
    }

    #[inline]
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.settle();
        let is_own = self.before_store(at, 8);
        let before = self.memory.fetch_add(at, by);
        self.after_store(at, 8, is_own);
        before
    }

    #[inline]
    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        if !self.is_plain.get() && at.is_pm() {
            return self.flush_as_agreed(at, len);
        }
        self.memory.flush(at, len);
        if at.is_pm() {
            let lines = lines_of(at, len).count() as u64;
            self.inline.set(self.inline.get() + lines);
            self.lines.set(self.lines.get() + lines);
        }
    }

    #[inline]
    #[track_caller]
    fn order(&self) {
        if !self.is_plain.get() || self.has_requests() {
            return self.fence(false);
        }
        self.memory.order();
        self.fenced();
    }

    #[inline]
    #[track_caller]
    fn strand(&self) {
        self.memory.strand();
    }

    #[inline]
    #[track_caller]
    fn drain(&self) {
        if !self.is_plain.get() || self.has_requests() {
            return self.fence(true);
        }
        self.memory.drain();
        self.fenced();
    }

    #[inline]
    fn work(&self, instructions: u32) {
        self.memory.work(instructions);
    }

    #[inline]
    fn now(&self) -> u64 {
        self.memory.now()
    }

    fn grow(&self, bytes: u64) -> bool {
        self.memory.grow(bytes)
    }

    #[inline]
    #[track_caller]
    fn will_write(&self, at: Addr, len: u64) {
        self.memory.will_write(at, len);
    }

    #[inline]
    #[track_caller]
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        self.memory.spin_while(at, value)
    }

    #[inline]
    #[track_caller]
    fn output(&self, number: u64) {
        self.memory.output(number);
    }

    #[inline]
    #[track_caller]
    fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        self.memory.load_line(at)
    }

    #[inline]
    #[track_caller]
    fn read(&self, at: Addr, into: &mut [u8]) {
        self.memory.read(at, into);
    }

    #[inline]
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        let is_own = self.before_store(at, from.len() as u64);
        self.memory.write(at, from);
        self.after_store(at, from.len() as u64, is_own);
    }

    /// Not left to anybody: the bytes go past the caches, or the machine below flushes them.
    #[inline]
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        let is_own = self.before_store(at, from.len() as u64);
        self.memory.write_nt(at, from);
        self.after_store(at, from.len() as u64, is_own);
    }

    #[track_caller]
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        self.settle();
        let is_own = self.before_store(to, len);
        self.memory.relocate(to, from, len);
        self.after_store(to, len, is_own);
    }

    #[inline]
    fn forward(&self, at: Addr) -> Addr {
        self.memory.forward(at)
    }
}
