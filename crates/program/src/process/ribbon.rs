//! A Ribbon around the threads of a program (PACT'20): what they flush goes to flushers on cores of
//! their own, whatever instruction asks for it.
//!
//! A thread joins the Ribbon when it starts on a core and leaves it when it ends. The Ribbon's
//! words are DRAM of the machine alone, at addresses where the program has nothing. Code that was
//! not compiled with `seawall cc` stores unseen here as it does without: the store counts for the
//! Ribbon when the machine takes it over.
//!
//! `clflush` is ordered by itself; one that is left to a flusher is ordered by the thread's next
//! fence, as `clwb` is. A program that relies on the order of `clflush` alone is not safe with a
//! Ribbon, and a crash shows it.

use crate::process::machine::Machine;
use crate::process::pages::pages;
use crate::request::PAGE;
use seawall_memory::{Addr, Fence, Memory, Width};
use seawall_ribbon::{Ribbon, RibbonCounts, RibbonError, RibbonMemory, RibbonOptions, StoreBelow};
use seawall_sim::{Cycle, Program, SimMemory};
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

/// Where the words of the Ribbon are: between the program's mappings and its stacks.
const WORDS: u64 = 0x2f00_0000_0000;

/// The Ribbon of a run.
pub(crate) struct Crew {
    ribbon: Ribbon,
    bytes: u64,
    is_mapped: Cell<bool>,
    /// Measuring has ended before the program.
    is_over: Cell<bool>,
    counts: Cell<Option<RibbonCounts>>,
}

impl Crew {
    /// For a program that may run `threads` threads at a time.
    pub(crate) fn new(options: &RibbonOptions, threads: usize) -> Result<Rc<Crew>, RibbonError> {
        let options = RibbonOptions { threads: threads as u64, ..options.clone() };
        let mut bytes = 0;
        let ribbon = Ribbon::placed(&options, |taken| {
            bytes = taken;
            Ok::<_, RibbonError>(Addr::from_bits(WORDS))
        })?;
        let (is_mapped, is_over, counts) = Default::default();
        Ok(Rc::new(Crew { ribbon, bytes, is_mapped, is_over, counts }))
    }

    /// The programs of its flushers.
    pub(crate) fn flushers(self: &Rc<Crew>) -> impl Iterator<Item = Program> {
        (0..self.ribbon.options().flushers).map(|index| -> Program {
            let crew = self.clone();
            Box::new(move |memory| {
                crew.map(memory);
                crew.ribbon.serve(memory, index);
            })
        })
    }

    /// The view of the threads that run on a core.
    pub(crate) fn core<'m, 'a>(&'m self, memory: &'m SimMemory<'a>) -> RibbonCore<'m, 'a> {
        self.map(memory);
        RibbonCore { crew: self, memory, thread: RefCell::new(None), locked: Cell::new(None) }
    }

    /// What the Ribbon has done, once the program has ended.
    pub(crate) fn counts(&self) -> Option<RibbonCounts> {
        self.counts.get()
    }

    /// The first one who comes gives the machine the Ribbon's words.
    fn map(&self, memory: &SimMemory<'_>) {
        if !self.is_mapped.replace(true) {
            let pages = (WORDS..WORDS + self.bytes).step_by(PAGE as usize);
            pages.for_each(|page| memory.map(page, false, &[]));
        }
    }
}

/// A core on which threads of the program run, each in the Ribbon while it does.
pub(crate) struct RibbonCore<'m, 'a> {
    crew: &'m Crew,
    memory: &'m SimMemory<'a>,
    thread: RefCell<Option<RibbonMemory<'m, &'m SimMemory<'a>>>>,
    /// The store of the locked instruction that is going on.
    locked: Cell<Option<StoreBelow>>,
}

impl<'m, 'a> RibbonCore<'m, 'a> {
    /// A thread begins to run on it.
    pub(crate) fn join(&self) {
        let joined = self.crew.ribbon.join(self.memory);
        self.thread.replace(Some(joined));
    }

    fn thread(&self) -> Ref<'_, RibbonMemory<'m, &'m SimMemory<'a>>> {
        Ref::map(self.thread.borrow(), |thread| thread.as_ref().expect("a thread runs on the core"))
    }

    /// Performs a store to these bytes.
    fn store_below(&self, at: u64, bytes: u64, store: impl FnOnce()) {
        if !pages().is_persistent(at) {
            return store();
        }
        let thread = self.thread();
        let told = thread.before_store_below(Addr::from_bits(at), bytes);
        store();
        thread.after_store_below(told);
    }
}

impl Machine for RibbonCore<'_, '_> {
    fn map(&self, page: u64, is_pm: bool, contents: &[u8]) {
        Machine::map(self.memory, page, is_pm, contents);
    }

    fn wait_for_address(&self, known: Cycle) {
        Machine::wait_for_address(self.memory, known);
    }

    fn arrived(&self) -> Cycle {
        Machine::arrived(self.memory)
    }

    #[inline]
    fn load(&self, at: u64, width: Width) -> u64 {
        Machine::load(self.memory, at, width)
    }

    fn load_words(&self, at: u64, into: &mut [u64]) {
        Machine::load_words(self.memory, at, into);
    }

    fn store(&self, at: u64, width: Width, value: u64) {
        self.store_below(at, width.bytes(), || Machine::store(self.memory, at, width, value));
    }

    fn store_words(&self, at: u64, words: &[u64], masks: &[u64]) {
        let bytes = 8 * words.len() as u64;
        self.store_below(at, bytes, || Machine::store_words(self.memory, at, words, masks));
    }

    fn streams(&self, at: u64) -> bool {
        Machine::streams(self.memory, at)
    }

    fn stream(&self, at: u64, bytes: &[u8]) {
        self.store_below(at, bytes.len() as u64, || Machine::stream(self.memory, at, bytes));
    }

    fn stream_line(&self, at: u64, words: [u64; 8]) {
        self.store_below(at, 64, || Machine::stream_line(self.memory, at, words));
    }

    /// What the Ribbon has to do before is done before: from here to `unlock` nothing may happen.
    fn lock(&self, at: u64, bytes: usize) -> [u64; 2] {
        let thread = self.thread();
        match pages().is_persistent(at) {
            true => {
                let told = thread.before_locked_below(Addr::from_bits(at), bytes as u64);
                self.locked.set(Some(told));
            }
            false => thread.before_locked(),
        }
        Machine::lock(self.memory, at, bytes)
    }

    fn unlock(&self, at: u64, bytes: usize, words: Option<[u64; 2]>) {
        Machine::unlock(self.memory, at, bytes, words);
        if let Some(told) = self.locked.take() {
            self.thread().after_store_below(told);
        }
    }

    fn flush(&self, line: u64) {
        match pages().is_persistent(line) {
            true => Memory::flush(&*self.thread(), Addr::from_bits(line), 64),
            false => Machine::flush(self.memory, line),
        }
    }

    fn flush_in_order(&self, line: u64) {
        self.flush(line);
        if !self.thread().decouples() {
            Machine::fence(self.memory, Fence::Order);
        }
    }

    fn fence(&self, fence: Fence) {
        Memory::fence(&*self.thread(), fence);
    }

    fn full_fence(&self) {
        self.thread().before_locked();
        Machine::full_fence(self.memory);
    }

    fn work(&self, instructions: u64) {
        Machine::work(self.memory, instructions);
    }

    fn frame(&self, at: u64, loads: u32, stores: u32, value: u64) -> bool {
        let frame = || Machine::frame(self.memory, at, loads, stores, value);
        match stores {
            0 => frame(),
            _ => {
                self.store_below(at, 8, || _ = frame());
                true
            }
        }
    }

    fn wait_while(&self, at: u64, value: u64) -> u64 {
        Machine::wait_while(self.memory, at, value)
    }

    fn output(&self, number: u64) {
        Machine::output(self.memory, number);
    }

    fn nanoseconds(&self) -> u64 {
        Machine::nanoseconds(self.memory)
    }

    fn set_site(&self, site: u32) {
        Machine::set_site(self.memory, site);
    }

    /// The thread that has run here, if there was one, has ended; the next one joins.
    fn park(&self) {
        drop(self.thread.take());
        Machine::park(self.memory);
        self.join();
    }

    fn unpark(&self, core: usize) {
        Machine::unpark(self.memory, core);
    }

    /// The thread stays in the Ribbon: flushers go on with what it has asked for.
    fn sleep(&self, deadline: Option<u64>) -> bool {
        Machine::sleep(self.memory, deadline)
    }

    fn look(&self, at: u64) -> u64 {
        Machine::look(self.memory, at)
    }

    fn turn(&self, at: u64) {
        Machine::turn(self.memory, at);
    }

    fn begin_region(&self) {
        self.crew.is_over.set(false);
        Machine::begin_region(self.memory);
    }

    fn end_region(&self) {
        self.crew.is_over.set(true);
        Machine::end_region(self.memory);
    }

    /// Counting is no part of what is measured.
    fn end(&self) {
        let thread = self.thread();
        thread.before_locked();
        if !self.crew.is_over.get() {
            Machine::end_region(self.memory);
        }
        thread.show_counts();
        self.crew.counts.set(Some(self.crew.ribbon.counts(self.memory)));
        Machine::end(self.memory);
    }
}
