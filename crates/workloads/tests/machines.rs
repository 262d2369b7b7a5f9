//! Two test machines: one that records loads, stores, flushes and orders of threads that run in
//! turns of one operation, and one that several OS threads share.

use seawall_memory::{Addr, Fence, Image, Memory, Space, ThreadSlots, Width, layer, lines_of};
use seawall_workloads::History;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// An event of a persistency model. Addresses are offsets into the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Load { line: u64 },
    Store { at: u64, value: u64 },
    Flush { line: u64 },
    Order,
    Drain,
    Done,
}

/// An event, the thread that caused it, and the length of the history at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) event: Event,
    pub(crate) thread: usize,
    pub(crate) len: usize,
}

/// An image that records the accesses to it.
pub(crate) struct Recorder {
    image: Image,
    thread: Cell<usize>,
    history: Arc<History>,
    events: RefCell<Vec<Moment>>,
}

impl Recorder {
    pub(crate) fn new(image: Image, history: Arc<History>) -> Recorder {
        Recorder { image, thread: Cell::new(0), history, events: RefCell::default() }
    }

    pub(crate) fn into_events(self) -> Vec<Moment> {
        self.events.into_inner()
    }

    fn record(&self, event: Event) {
        let (thread, len) = (self.thread.get(), self.history.len());
        self.events.borrow_mut().push(Moment { event, thread, len });
    }

    /// The word that holds `at` was stored to.
    fn record_word(&self, at: Addr) {
        if at.is_pm() {
            let word = Addr::from_bits(at.bits() & !7);
            let value = self.image.load_bits(word, Width::B8);
            self.record(Event::Store { at: word.offset(), value });
        }
    }

    /// Sets the running thread.
    pub(crate) fn turn(&self, thread: usize) {
        self.thread.set(thread);
    }
}

impl layer::Layer for Recorder {
    type Below = Image;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Image {
        &self.image
    }

    fn thread(&self) -> usize {
        self.thread.get()
    }
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        if at.is_pm() {
            self.record(Event::Load { line: at.line().0 });
        }
        self.image.load_bits(at, width)
    }
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.image.store_bits(at, width, value);
        self.record_word(at);
    }
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let before = self.image.compare_exchange(at, current, new);
        self.record_word(at);
        before
    }
    fn swap(&self, at: Addr, new: u64) -> u64 {
        let before = self.image.swap(at, new);
        self.record_word(at);
        before
    }
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        let before = self.image.fetch_add(at, by);
        self.record_word(at);
        before
    }
    fn flush(&self, at: Addr, len: u64) {
        for line in lines_of(at, len) {
            self.record(Event::Flush { line: line.0 });
        }
    }
    fn fence(&self, fence: Fence) {
        match fence {
            Fence::Order | Fence::Join => self.record(Event::Order),
            Fence::Drain => self.record(Event::Drain),
            Fence::Strand => {}
        }
    }
    fn work(&self, _: u32) {}
    fn output(&self, _: u64) {
        self.record(Event::Done);
    }
}

/// Memory that OS threads share: every access is sequentially consistent.
#[derive(Clone)]
pub(crate) struct Shared {
    pm: Arc<Vec<AtomicU64>>,
    dram: Arc<Vec<AtomicU64>>,
    thread: usize,
}

impl Shared {
    pub(crate) fn new(pm_bytes: u64, dram_bytes: u64) -> Shared {
        let zeros = |bytes: u64| Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
        Shared { pm: zeros(pm_bytes), dram: zeros(dram_bytes), thread: 0 }
    }

    pub(crate) fn of(&self, thread: usize) -> Shared {
        Shared { thread, ..self.clone() }
    }

    fn word(&self, at: Addr) -> &AtomicU64 {
        assert!(at.offset().is_multiple_of(8));
        let region = if at.is_pm() { &self.pm } else { &self.dram };
        &region[at.offset() as usize / 8]
    }
}

impl Shared {
    /// The word that holds `at`, and the offset in it.
    fn word_of(&self, at: Addr) -> (&AtomicU64, u64) {
        (self.word(Addr::from_bits(at.bits() & !7)), 8 * (at.bits() % 8))
    }
}

impl Memory for Shared {
    fn thread(&self) -> usize {
        self.thread
    }
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let (word, shift) = self.word_of(at);
        word.load(SeqCst) >> shift & width.mask()
    }
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let (word, shift) = self.word_of(at);
        let mask = width.mask() << shift;
        word.fetch_update(SeqCst, SeqCst, |old| Some(old & !mask | value << shift & mask))
            .expect("it always stores");
    }
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, SeqCst, SeqCst)
    }
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.word(at).swap(new, SeqCst)
    }
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.word(at).fetch_add(by, SeqCst)
    }
    fn flush(&self, _: Addr, _: u64) {}
    fn fence(&self, _: Fence) {}
    fn work(&self, _: u32) {}
    fn output(&self, _: u64) {}
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        loop {
            match self.word(at).load(SeqCst) {
                same if same == value => std::thread::yield_now(),
                other => return other,
            }
        }
    }
    fn space(&self) -> Option<impl Space> {
        Some(self)
    }
}

impl Space for &Shared {
    fn grow(&self, bytes: u64) -> bool {
        bytes <= 8 * self.pm.len() as u64
    }
    fn will_write(&self, _: Addr, _: u64) {}
    fn discard(&self, _: Addr, _: u64) {}
    fn bring_back(&self, _: Addr, _: u64) -> bool {
        true
    }
    fn hole(&self, _: Addr, _: u64) -> Option<(Addr, u64)> {
        None
    }
}
