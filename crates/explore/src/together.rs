//! Recovery by several threads.
//!
//! The threads are fibers, and the search schedules them: whose turn it is, is a choice like that
//! of a value which a crash left open, so it is a word of the tree of what recovery reads
//! ([`Tree`](crate::tree::Tree)), beyond all words of memory. All schedules with a bounded number
//! of interruptions are tried, and where a thread ends or waits, each that could go on.
//!
//! Interruptions come before accesses to lines (of DRAM: words) that several threads use, if one
//! of them stores there, and before fences that a crash of recovery may separate: the argument is
//! that of [`interleavings`](crate::interleavings). What threads share is known only once they
//! have run, so an exploration is made anew until no recovery has come to share more.
//!
//! The threads are sequentially consistent: they have no store buffers.

use crate::access::{Users, shared_word};
use crate::crash::Turn;
use crate::crashed::CrashImage;
use crate::options::Search;
use crate::site::Site;
use crate::waiting::{Read, Wait, Waiting};
use rustc_hash::FxHashMap;
use seawall_fiber::{Pause, ScopedFiber, with_fibers};
use seawall_memory::{Addr, Fence, Memory, Space, Width, layer, lines_of, pieces_of};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::thread::panicking;

/// Threads of one recovery at most.
pub const RECOVERY_THREADS_MAX: usize = 64;

/// A choice of the thread that goes on before this call of a recovery: the first one by default.
/// Calls are counted over all threads, from 1, in the order in which they take effect.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Choice {
    call: u32,
    threads: Vec<u16>,
}

/// Which words the threads of recovery share, as far as is known.
#[derive(Clone, Default)]
pub(crate) struct Sharing {
    words: BTreeMap<u64, Users>,
    /// Some word has come to be shared.
    pub(crate) grew: bool,
}

impl Sharing {
    /// Takes note of an access; true if it may conflict with one of another thread.
    fn note(&mut self, word: u64, thread: usize, writes: bool) -> bool {
        let users = self.words.entry(word).or_default();
        self.grew |= users.add(thread as u16, writes) && users.are_several();
        users.conflict_with(thread as u16, writes)
    }

    /// Adds what another one knows.
    pub(crate) fn add(&mut self, other: &Sharing) {
        for (word, users) in &other.words {
            let own = self.words.entry(*word).or_default();
            let before = *own;
            own.join(*users);
            self.grew |= before != *own && own.are_several();
        }
    }
}

/// The threads of a recovery, while it runs several, and the choices among them.
pub(crate) struct Together {
    /// Words of the tree from this one on are choices.
    base: u32,
    choices: Vec<Choice>,
    /// The thread of each choice that this pass has made, or is to make.
    decided: Vec<Option<u64>>,
    numbers: FxHashMap<Choice, u32>,
    pub(crate) sharing: Sharing,
    /// Interruptions of one recovery at most.
    interruptions: usize,
    /// Interruptions that are left, calls so far, and the call before which a thread was chosen
    /// last, in this pass.
    left: usize,
    calls: u32,
    chosen: u32,
    /// The turns that are wanted where the path of the tree does not say.
    pub(crate) turns: Vec<Turn>,
    /// The thread that runs, and all threads.
    pub(crate) running: usize,
    pub(crate) threads: usize,
    /// Who wrote each word of DRAM last, and the stores to persistent memory before that.
    pub(crate) dram_writer: FxHashMap<u64, (u16, u32)>,
    /// Whether a recovery has ever run several.
    pub(crate) were_several: bool,
    /// Whether a crash shows the order of all stores, as of fences.
    orders_stores: bool,
}

impl Together {
    /// Of an image with so many words.
    pub(crate) fn new(words: usize, options: &Search) -> Together {
        let interruptions = options.recovery_interruptions;
        Together {
            base: words as u32,
            choices: Vec::new(),
            decided: Vec::new(),
            numbers: FxHashMap::default(),
            sharing: Sharing::default(),
            interruptions,
            left: interruptions,
            calls: 0,
            chosen: 0,
            turns: Vec::new(),
            running: 0,
            threads: 1,
            dram_writer: FxHashMap::default(),
            were_several: false,
            orders_stores: options.model.orders_all_stores(),
        }
    }

    pub(crate) fn begin_pass(&mut self) {
        (self.left, self.calls, self.chosen) = (self.interruptions, 0, 0);
        (self.running, self.threads) = (0, 1);
        self.dram_writer.clear();
        self.decided.fill(None);
    }

    /// The thread that the choice of this word has led to, or is to lead to, in this pass.
    pub(crate) fn decided(&self, word: u32) -> Option<u64> {
        self.decided[(word - self.base) as usize]
    }

    pub(crate) fn decide(&mut self, word: u32, thread: u64) {
        self.decided[(word - self.base) as usize] = Some(thread);
    }

    /// The threads among which the word chooses, if it is a choice and not a word of memory.
    #[inline]
    pub(crate) fn choice(&self, word: u32) -> Option<&[u16]> {
        let number = word.checked_sub(self.base)?;
        Some(&self.choices[number as usize].threads)
    }

    /// Whether another thread may go first, before the next call.
    fn may_give_way(&self, is_place: bool) -> bool {
        let next = self.calls + 1;
        let is_wanted = || self.turns.iter().any(|(call, _)| *call == next);
        self.left > 0 && self.chosen != next && (is_place || is_wanted())
    }

    /// The word of a choice of the thread that goes on before this call, and its default: the
    /// thread that is wanted there, or the first one.
    fn choice_before(&mut self, call: u32, threads: Vec<u16>) -> (u32, u16) {
        self.chosen = call;
        let wanted = self.turns.iter().find(|(at, _)| *at == call).map(|(_, thread)| *thread);
        let wanted = wanted.filter(|thread| threads.contains(thread));
        let default = wanted.unwrap_or(threads[0]);
        let choice = Choice { call, threads };
        let next = self.choices.len() as u32;
        let number = *self.numbers.entry(choice.clone()).or_insert(next);
        if number == next {
            self.choices.push(choice);
            self.decided.push(None);
        }
        (self.base + number, default)
    }

    /// The choices on this path of the tree that are not the default.
    pub(crate) fn turns_of(&self, path: &[(u32, u64)]) -> Vec<Turn> {
        let turn = |&(word, thread): &(u32, u64)| {
            let Choice { call, threads } = &self.choices[word.checked_sub(self.base)? as usize];
            (threads[0] != thread as u16).then_some((*call, thread as u16))
        };
        path.iter().filter_map(turn).collect()
    }
}

impl CrashImage {
    /// Runs `body` in `threads` threads at once, each with its own handle, and returns when all
    /// have ended. Thread 0 goes on where this recovery is: what was flushed and not ordered
    /// before belongs to it.
    ///
    /// The search tries every schedule of the threads with at most
    /// [`Search::recovery_interruptions`](crate::Search) interruptions.
    ///
    /// ```
    /// use seawall_explore::{CrashImage, Model, Schedule, Search, check, record, search};
    /// use seawall_memory::{Addr, Image, Memory, MemoryExt};
    ///
    /// const SUM: Addr = Addr::pm(64);
    /// let run = record(Image::new(4096, 0), &Schedule::default(), |memory| memory.drain())?;
    /// let recover = |image: &CrashImage| {
    ///     image.together(2, |memory| {
    ///         let sum: u64 = memory.load(SUM); // forgot: fetch_add
    ///         memory.store(SUM, sum + 1);
    ///     });
    ///     Ok(image.load::<u64>(SUM))
    /// };
    /// let both = |sum: &u64, _: &_| if *sum == 2 { Ok(()) } else { Err(format!("{sum} of 2")) };
    /// let options = Search { depth: 0, ..Search::new(Model::Px86) };
    /// let outcome = search(&run, &options, &check(recover, both));
    /// assert_eq!(outcome.finding.expect("both may read 0").message, "1 of 2");
    /// # Ok::<(), seawall_explore::RunError>(())
    /// ```
    ///
    /// # Panics
    /// If a thread does, or if all of them wait. If `threads` is 0 or over
    /// [`RECOVERY_THREADS_MAX`], or if a thread of a recovery calls this.
    pub fn together(&self, threads: usize, body: impl Fn(&RecoveryThread<'_>)) {
        assert!(
            (1..=RECOVERY_THREADS_MAX).contains(&threads),
            "recovery by {threads} threads: it must be 1 to {RECOVERY_THREADS_MAX}"
        );
        assert!(self.threads() == 1, "a thread of a recovery cannot start others");
        self.begin_together(threads);
        let waiting = &Waiting::new(threads);
        let body = |thread: usize, pause: &Pause<'_>| {
            let non_temporal = Cell::new(false);
            body(&RecoveryThread { image: self, waiting, thread, non_temporal, pause });
        };
        let ended = with_fibers(threads, &body, |fibers| self.drive(fibers, waiting));
        self.end_together();
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => resume_unwind(panic),
            Err(error) => panic!("no memory for the stack of a thread of recovery: {error}"),
        }
    }

    fn drive(&self, fibers: &mut [ScopedFiber<'_>], waiting: &Waiting) -> std::thread::Result<()> {
        let mut last = None;
        loop {
            let word = |at| self.peek(at);
            let ready = waiting.ready(word);
            let running = last.filter(|&last| waiting.is_ready(last, word));
            let Some(&first) = ready.first() else {
                return match waiting.stuck() {
                    None => Ok(()),
                    Some(who) => catch_unwind(|| panic!("recovery waits for ever: {who}")),
                };
            };
            let after = ready.iter().copied().find(|&thread| Some(thread) > last);
            let default = running.or(after).unwrap_or(first);
            // Threads that only repeat themselves go on in turn, which is no choice.
            let is_choice = ready.len() > 1 && waiting.is_ready(first, word);
            let thread = match is_choice {
                false => default,
                true => {
                    let others = ready.iter().filter(|&&thread| thread != default);
                    let all = std::iter::once(&default).chain(others);
                    self.choose(all.map(|&thread| thread as u16).collect())
                }
            };
            let mut together = self.together_mut();
            let is_interrupted = running.is_some_and(|running| running != thread);
            together.left = together.left.saturating_sub(usize::from(is_interrupted));
            drop(together);
            let fiber = &mut fibers[thread];
            catch_unwind(AssertUnwindSafe(|| fiber.resume()))?;
            if fiber.is_done() {
                waiting.end(thread);
            }
            last = Some(thread);
        }
    }

    /// The thread that goes on, of these; the first one is the default.
    fn choose(&self, threads: Vec<u16>) -> usize {
        let mut together = self.together_mut();
        let next = together.calls + 1;
        let (word, default) = together.choice_before(next, threads);
        drop(together);
        self.decide_choice(word, u64::from(default)) as usize
    }
}

/// What tests change about which calls are places.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weaker {
    Not,
    /// Every call is one.
    EachCall,
    /// Fences are none.
    Fences,
    /// What threads share only after an interruption is none before it.
    OneRound,
}

#[cfg(test)]
thread_local! {
    static WEAKER: std::cell::Cell<Weaker> = const { std::cell::Cell::new(Weaker::Not) };
}

#[cfg(test)]
pub(crate) fn is_one_round() -> bool {
    WEAKER.get() == Weaker::OneRound
}

/// One thread's handle on the memory that a recovery by several threads sees.
pub struct RecoveryThread<'a> {
    image: &'a CrashImage,
    waiting: &'a Waiting,
    thread: usize,
    /// Whether it stores past the caches at the moment.
    non_temporal: Cell<bool>,
    pause: &'a Pause<'a>,
}

impl RecoveryThread<'_> {
    /// Lets another thread run before an access, where that may matter. Fences matter to a crash of
    /// this recovery only.
    fn step(&self, access: Option<(Addr, bool)>, is_fence: bool) {
        let is_place = {
            let mut together = self.image.together_mut();
            let is_store = access.is_some_and(|(at, writes)| writes && at.is_pm());
            let is_fence = is_fence || is_store && together.orders_stores;
            let is_fence = is_fence && self.image.is_recorded();
            let conflicts = access.is_some_and(|(at, writes)| {
                together.sharing.note(shared_word(at), self.thread, writes)
            });
            #[cfg(test)]
            let is_fence = is_fence && WEAKER.get() != Weaker::Fences;
            conflicts || is_fence
        };
        self.step_at(is_place);
    }

    /// Counts a call, after another thread has run if this is a place and one is chosen.
    fn step_at(&self, is_place: bool) {
        #[cfg(test)]
        let is_place = is_place || WEAKER.get() == Weaker::EachCall;
        if self.image.together_mut().may_give_way(is_place) {
            self.give_way();
        }
        let mut together = self.image.together_mut();
        together.calls += 1;
        together.running = self.thread;
    }

    /// A thread that panics, or is over before its end, drops what it holds without a pause.
    fn give_way(&self) {
        if panicking() {
            return;
        }
        let word = |at| self.image.peek(at);
        let is_other = |&other: &usize| other != self.thread && self.waiting.is_ready(other, word);
        if (0..self.waiting.threads()).any(|other| is_other(&other)) {
            self.pause.pause();
        }
    }

    #[track_caller]
    fn note_repeat(&self, at: Addr, value: u64) {
        if panicking() {
            return;
        }
        let read: Read = (at, value, Site::Call(Location::caller()));
        self.waiting.note_repeat(self.thread, read, || self.pause.pause());
    }

    /// A locked operation: `change` tells whether it stored, given what it returns.
    #[track_caller]
    fn locked<T>(&self, at: Addr, change: impl FnOnce() -> T, stored: impl FnOnce(&T) -> bool) -> T
    where
        T: Copy,
    {
        self.step(Some((at, true)), true);
        let result = change();
        if stored(&result) {
            self.waiting.note_progress(self.thread);
        }
        result
    }
}

impl layer::Layer for RecoveryThread<'_> {
    type Below = CrashImage;

    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &CrashImage {
        self.image
    }

    fn thread(&self) -> usize {
        self.thread
    }

    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.step(Some((at, false)), false);
        let value = self.image.load_bits(at, width);
        self.note_repeat(at, value);
        value
    }

    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.step(Some((at, true)), false);
        self.image.set_non_temporal(self.non_temporal.get());
        self.image.store_bits(at, width, value);
        self.image.set_non_temporal(false);
        self.waiting.note_progress(self.thread);
    }

    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let swap = || self.image.compare_exchange(at, current, new);
        let result = self.locked(at, swap, Result::is_ok);
        if let Err(old) = result {
            self.note_repeat(at, old);
        }
        result
    }

    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.locked(at, || self.image.swap(at, new), |_| true)
    }

    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.locked(at, || self.image.fetch_add(at, by), |_| true)
    }

    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        if at.is_pm() && len > 0 {
            lines_of(at, len).for_each(|line| self.step(Some((line.start(), true)), false));
        }
        self.image.flush(at, len);
    }

    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        let part = self.image.part_of(pieces_of(at, from).count());
        for (at, mask, value) in pieces_of(at, from) {
            self.step(Some((at, true)), false);
            self.image.set_non_temporal(self.non_temporal.get());
            self.image.put_part(part, at, mask, value);
            self.image.set_non_temporal(false);
            self.waiting.note_progress(self.thread);
        }
    }

    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.non_temporal.set(true);
        Memory::write(self, at, from);
        self.non_temporal.set(false);
    }

    #[track_caller]
    fn fence(&self, fence: Fence) {
        self.step(None, true);
        self.image.fence(fence);
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }

    #[track_caller]
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        loop {
            let now = Memory::load_bits(self, at, Width::B8);
            if now != value || panicking() {
                return now;
            }
            self.waiting.wait_for(self.thread, Wait::Word(at, value), || self.pause.pause());
        }
    }
}

impl Space for &RecoveryThread<'_> {
    /// The others see the length wherever they go on, so another thread may always run before.
    fn grow(&self, bytes: u64) -> bool {
        self.step_at(true);
        Space::grow(&self.image, bytes)
    }

    fn will_write(&self, at: Addr, len: u64) {
        Space::will_write(&self.image, at, len);
    }

    fn discard(&self, at: Addr, len: u64) {
        Space::discard(&self.image, at, len);
    }

    fn bring_back(&self, at: Addr, len: u64) -> bool {
        Space::bring_back(&self.image, at, len)
    }

    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        Space::hole(&self.image, at, len)
    }
}

#[cfg(test)]
mod tests;
