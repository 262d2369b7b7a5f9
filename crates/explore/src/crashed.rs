//! The memory that recovery sees: a crash image that is decided only where it is read.
//!
//! A crash leaves each line with some number of its stores. The number matters only if recovery
//! reads the line, so a word keeps all its possible values until it is read; then one is chosen and
//! the images with other values are ruled out (reads-from choices in Jaaru, ASPLOS'21). One pass of
//! recovery thus stands for all images that it cannot distinguish. Nothing is copied and no process
//! is started; the next pass discards what recovery wrote.
//!
//! When power fails again during recovery, its own stores are one more layer on top: a word then
//! holds what recovery stored, if that persisted, or what the first crash left.
//!
//! Each access counts against a budget, so a recovery that loops ends as a finding.

use crate::open::{Open, Possible};
use crate::options::Search;
use crate::recovered::{Access, Did, LOGGED};
use crate::site::Site;
use crate::together::Together;
use crate::trace::{Event, Kind, Trace, lines_stored};
use crate::wide::{Part, Writes, extent};
use crate::words::{WordChange, Words};
use seawall_memory::{
    Addr, Fence, LINE_BYTES, Memory, Space, ThreadSlots, Width, lines_of, pieces_of,
};
use std::cell::{Cell, RefCell, RefMut};
use std::panic::Location;
use std::sync::Arc;
use std::thread::panicking;

/// The choice among the possible values of a word that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prefer {
    /// As little as possible persisted.
    Least,
    /// As much as possible.
    Most,
}

/// Persistent memory as a crash can have left it, with fresh, zeroed DRAM, for one thread; or, with
/// [`together`](CrashImage::together), for several.
pub struct CrashImage {
    pub(crate) start: Words,
    origin: Arc<[u8]>,
    dram: Words,
    dram_used: RefCell<Vec<u32>>,
    steps: Cell<u64>,
    limit: u64,
    open: RefCell<Open>,
    /// Whether some layer can have stored to a line, for each line.
    pub(crate) varies: Box<[Cell<bool>]>,
    /// The pass in which a word was decided, and its value.
    pub(crate) decided: Box<[Cell<(u32, u64)>]>,
    pub(crate) pass: Cell<u32>,
    /// The decisions of this pass, beyond those that it started with.
    reads: RefCell<Vec<(u32, u64)>>,
    pub(crate) prefer: Cell<Prefer>,
    recording: RefCell<Trace>,
    records: Cell<bool>,
    /// Whether it stores past the caches at the moment.
    pub(crate) non_temporal: Cell<bool>,
    /// What it stores at the moment is a piece of this.
    pub(crate) part: Cell<Part>,
    pub(crate) writes: Writes,
    /// Whether recovery has ever read persistent memory.
    has_read: Cell<bool>,
    /// What recovery does, if that is wanted.
    log: RefCell<Vec<Access>>,
    logs: Cell<bool>,
    /// The instruction that accesses memory, if recovery is a compiled program.
    pub(crate) instruction: Cell<Option<Site>>,
    /// Its threads, if it runs several.
    together: RefCell<Together>,
    has_several: Cell<bool>,
}

/// Crashes of recovery at most, of one search.
pub(crate) const DEPTH_MAX: usize = 15;

impl CrashImage {
    pub(crate) fn new(trace: &Trace, options: &Search) -> CrashImage {
        let limit = options.steps;
        let start = Words::with_room(&trace.start, trace.room);
        let lines = trace.room.div_ceil(LINE_BYTES) as usize;
        let (touched, lowest) = (vec![0; lines], vec![0; lines]);
        let image = CrashImage {
            decided: vec![Cell::new((0, 0)); lines * 8].into(),
            start,
            origin: trace.start.clone(),
            dram: Words::zeroed(trace.dram_bytes),
            dram_used: RefCell::default(),
            steps: Cell::new(limit),
            limit,
            open: RefCell::new(Open { touched, lowest, ..Open::default() }),
            varies: vec![Cell::new(false); lines].into(),
            pass: Cell::new(0),
            reads: RefCell::default(),
            prefer: Cell::new(Prefer::Least),
            recording: RefCell::new(Trace::empty(1)),
            records: Cell::new(false),
            non_temporal: Cell::new(false),
            part: Cell::new(Part::Alone),
            writes: Writes::default(),
            has_read: Cell::new(false),
            log: RefCell::default(),
            logs: Cell::new(false),
            instruction: Cell::new(None),
            together: RefCell::new(Together::new(lines * 8, options)),
            has_several: Cell::new(false),
        };
        image.may_store(trace);
        image
    }

    /// Whether images of this run can be looked at, too: it started from the same memory.
    pub(crate) fn fits(&self, trace: &Trace, options: &Search) -> bool {
        let room = self.start.room() >= trace.room;
        let rest = self.dram.bytes() == trace.dram_bytes && self.limit == options.steps;
        let same = Arc::ptr_eq(&self.origin, &trace.start) || self.start.begins_as(&trace.start);
        room && rest && same
    }

    /// Whether recovery has ever read persistent memory.
    pub(crate) fn has_read(&self) -> bool {
        self.has_read.get()
    }

    /// What recovery does with persistent memory while `recover` runs.
    pub(crate) fn logged(&self, recover: impl FnOnce()) -> Vec<Access> {
        self.logs.set(true);
        recover();
        self.logs.set(false);
        self.log.take()
    }

    #[cold]
    fn log(&self, did: Did, place: Site) {
        let mut log = self.log.borrow_mut();
        if log.len() == LOGGED {
            log.drain(..LOGGED / 2);
        }
        let Together { running, threads, .. } = *self.together.borrow();
        let thread = (threads > 1).then_some(running);
        log.push(Access { thread, did, place });
    }

    pub(crate) fn site(&self, caller: &'static Location<'static>) -> Site {
        self.instruction.get().unwrap_or(Site::Call(caller))
    }

    /// The images that are not ruled out.
    pub(crate) fn open(&self) -> RefMut<'_, Open> {
        self.open.borrow_mut()
    }

    /// Restarts once more: keeps persistent memory as it is, and zeroes DRAM. Crashes of recovery
    /// are explored before the first restart only.
    pub fn restart(&self) {
        for word in self.dram_used.borrow_mut().drain(..) {
            self.dram.set_word(word, 0);
        }
        self.records.set(false);
    }

    /// Sets the crash after `event` events of the run, when the pool has `bytes` bytes; false if
    /// the pool is as long as before.
    pub(crate) fn set_crash(&self, trace: &Trace, event: usize, bytes: u64) -> bool {
        self.open.borrow_mut().reached = trace.relocated.before(event);
        self.set_bytes(bytes)
    }

    /// Sets the length of the pool; false if it is as long as before.
    pub(crate) fn set_bytes(&self, bytes: u64) -> bool {
        let is_new = self.start.bytes() != bytes;
        self.start.set_bytes(bytes);
        is_new
    }

    /// Bytes of persistent memory at the crash, including what the run, and recovery since, have
    /// [grown](Space::grow) it by.
    pub fn pm_bytes(&self) -> u64 {
        self.start.bytes()
    }

    /// Bytes of volatile memory.
    pub fn dram_bytes(&self) -> u64 {
        self.dram.bytes()
    }

    /// Runs `recover` with the values of `path` for its words and preferred values for all others;
    /// returns its result, and its further reads.
    pub(crate) fn pass<T>(
        &self,
        path: &[(u32, u64)],
        prefer: Prefer,
        records: bool,
        recover: impl FnOnce(&Self) -> T,
    ) -> Pass<T> {
        self.pass.set(self.pass.get() + 1);
        let pass = self.pass.get();
        self.together_mut().begin_pass();
        self.has_several.set(false);
        for &(word, value) in path {
            match self.decided.get(word as usize) {
                Some(decided) => decided.set((pass, value)),
                None => self.together_mut().decide(word, value),
            }
        }
        self.reads.borrow_mut().clear();
        self.prefer.set(prefer);
        self.steps.set(self.limit);
        self.non_temporal.set(false);
        self.part.set(Part::Alone);
        self.writes.reset();
        self.records.set(records);
        let (marks, bytes) = (self.open().mark(), self.pm_bytes());
        let result = crate::guard::guarded(|| recover(self));
        self.open().undo(marks);
        self.set_bytes(bytes);
        self.restart();
        let recording = self.recording.replace(Trace::empty(1));
        Pass { result, reads: self.reads.take(), recording }
    }

    /// Marks the lines that the run stored to as varying; true if one did not vary.
    pub(crate) fn may_store(&self, trace: &Trace) -> bool {
        let new = lines_stored(trace).map(|line| !self.varies[line].replace(true));
        new.fold(false, |any, new| any | new)
    }

    pub(crate) fn together_mut(&self) -> RefMut<'_, Together> {
        self.together.borrow_mut()
    }

    /// Threads that recovery runs at the moment.
    pub(crate) fn threads(&self) -> usize {
        self.together.borrow().threads
    }

    /// Whether what recovery does is recorded, as a crash may cut it short.
    pub(crate) fn is_recorded(&self) -> bool {
        self.records.get()
    }

    /// From here on recovery runs so many threads; they know what was stored so far.
    pub(crate) fn begin_together(&self, threads: usize) {
        self.together_mut().threads = threads;
        self.has_several.set(threads > 1);
        self.together_mut().were_several |= threads > 1;
        (1..threads).for_each(|thread| self.learn(thread));
    }

    /// The threads have ended, and the first one goes on: it knows what they stored.
    pub(crate) fn end_together(&self) {
        self.learn(0);
        let mut together = self.together_mut();
        (together.running, together.threads) = (0, 1);
        self.has_several.set(false);
    }

    fn learn(&self, thread: usize) {
        self.together_mut().running = thread;
        let stores = self.recording.borrow().stores.len() as u32;
        self.note(Kind::Sync { stores }, self.site(Location::caller()));
    }

    /// What a choice of a thread, a word of the tree, is: as the path says, or this.
    pub(crate) fn decide_choice(&self, word: u32, default: u64) -> u64 {
        let mut together = self.together_mut();
        let known = together.decided(word);
        if known.is_none() {
            together.decide(word, default);
            self.reads.borrow_mut().push((word, default));
        }
        known.unwrap_or(default)
    }

    /// Whether stores go past the caches from here on.
    pub(crate) fn set_non_temporal(&self, is_so: bool) {
        self.non_temporal.set(is_so);
    }

    /// The word at `at`, without a load.
    pub(crate) fn peek(&self, at: Addr) -> u64 {
        match at.is_pm() {
            true => self.word(self.start.place(at, Width::B8).0 as u32),
            false => self.dram.load(at, Width::B8),
        }
    }

    /// Whether the word of the tree is a choice among threads, and not a word of memory.
    #[inline]
    pub(crate) fn is_choice(&self, word: u32) -> bool {
        self.together.borrow().choice(word).is_some()
    }

    /// The value of the word, if it is the same in all images that are not ruled out.
    #[inline]
    pub(crate) fn only(&self, word: u32) -> Option<u64> {
        if self.is_choice(word) {
            return None;
        }
        self.open.borrow().only(word, || self.start.word(word))
    }

    /// The possible values of the word, from the least to the most persisted; false if there are
    /// more.
    pub(crate) fn possible(&self, word: u32) -> (Vec<Possible>, bool) {
        if let Some(threads) = self.together.borrow().choice(word) {
            let one = |&thread| Possible { value: u64::from(thread), keeps: Vec::new() };
            return (threads.iter().map(one).collect(), true);
        }
        self.open.borrow().possible(word, self.start.word(word))
    }

    #[inline]
    pub(crate) fn step(&self) {
        let left = self.steps.get();
        // What is dropped in a panic may access memory, too.
        let is_over = left == 0 && !panicking();
        assert!(!is_over, "more than {} memory accesses: it does not end", self.limit);
        self.steps.set(left.saturating_sub(1));
    }

    #[inline]
    fn word(&self, word: u32) -> u64 {
        let (pass, value) = self.decided[word as usize].get();
        if pass == self.pass.get() {
            return value;
        }
        if !self.varies[word as usize / 8].get() {
            return self.start.word(word);
        }
        self.decide(word)
    }

    fn decide(&self, word: u32) -> u64 {
        if let Some(value) = self.only(word) {
            self.decided[word as usize].set((self.pass.get(), value));
            self.reads.borrow_mut().push((word, value));
            return value;
        }
        let (mut possible, _) = self.possible(word);
        let chosen = match self.prefer.get() {
            Prefer::Least => possible.swap_remove(0),
            Prefer::Most => possible.pop().expect("a word has a value"),
        };
        let kept = self.open().keep(&chosen.keeps);
        debug_assert!(kept, "what is possible can be kept");
        self.decided[word as usize].set((self.pass.get(), chosen.value));
        self.reads.borrow_mut().push((word, chosen.value));
        chosen.value
    }

    pub(crate) fn note(&self, kind: Kind, at: Site) {
        if self.records.get() {
            let thread = self.together.borrow().running as u16;
            self.recording.borrow_mut().events.push(Event { thread, operation: 0, kind, at });
        }
    }

    /// Stores the bits of a mask, of an aligned word.
    #[inline]
    #[track_caller]
    fn put(&self, at: Addr, mask: u64, value: u64, locked: bool) {
        let word = self.start.place_bits(at, mask);
        let new = match mask {
            u64::MAX => value,
            _ => self.word(word) & !mask | value,
        };
        if self.logs.get() {
            let (part, width) = extent(at, mask);
            let value = new >> (8 * (part.bits() % 8)) & width.mask();
            self.log(Did::Wrote(part, width, value), self.site(Location::caller()));
        }
        let decided = (self.pass.get(), new);
        let (pass, known) = self.decided[word as usize].replace(decided);
        if self.records.get() {
            let is_known = pass == self.pass.get();
            let below = || self.only(word).unwrap_or(self.start.word(word));
            let old = if is_known { known } else { below() };
            let change = WordChange { word, old, new };
            let ((at, width), part) = (extent(at, mask), self.part.get());
            let store = self.recording.borrow_mut().add_store(at, width, change, part);
            let kind = match (locked, self.non_temporal.get()) {
                (true, _) => Kind::Locked { store: Some(store) },
                (false, true) => Kind::StoreNt { store },
                (false, false) => Kind::Store { store },
            };
            self.note(kind, self.site(Location::caller()));
        }
    }

    /// Stores the bits of a mask, of an aligned word.
    #[track_caller]
    pub(crate) fn put_bits(&self, at: Addr, mask: u64, value: u64) {
        self.step();
        if at.is_pm() { self.put(at, mask, value, false) } else { self.put_dram(at, mask, value) }
    }

    /// What the pieces of a new write of so many words are.
    pub(crate) fn part_of(&self, words: usize) -> Part {
        self.writes.of_words(words)
    }

    /// Stores the bits of a mask, of an aligned word, as a piece of a write.
    #[track_caller]
    pub(crate) fn put_part(&self, part: Part, at: Addr, mask: u64, value: u64) {
        let outer = self.part.replace(part);
        self.put_bits(at, mask, value);
        self.part.set(outer);
    }

    /// Records a load where other threads may have stored what it reads.
    #[cold]
    #[track_caller]
    fn note_load(&self, at: Addr) {
        if !self.records.get() {
            return;
        }
        let (word, caller) = (at.offset() / 8, self.site(Location::caller()));
        if at.is_pm() {
            let line = self.recording.borrow_mut().line(at.line());
            return self.note(Kind::Read { line, word: word as u32, from: None }, caller);
        }
        let together = self.together.borrow();
        let last = together.dram_writer.get(&word).copied();
        let other = last.filter(|(writer, _)| usize::from(*writer) != together.running);
        drop(together);
        if let Some((_, stores)) = other {
            self.note(Kind::Sync { stores }, caller);
        }
    }

    fn put_dram(&self, at: Addr, mask: u64, value: u64) {
        if self.records.get() && self.has_several.get() {
            let stores = self.recording.borrow().stores.len() as u32;
            let mut together = self.together_mut();
            let writer = (together.running as u16, stores);
            together.dram_writer.insert(at.offset() / 8, writer);
        }
        let change = self.dram.store_bits(at, mask, value);
        if change.old == 0 && change.new != 0 {
            self.dram_used.borrow_mut().push(change.word);
        }
    }

    #[track_caller]
    fn update(&self, at: Addr, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let old = self.load_bits(at, Width::B8);
        match change(old) {
            Some(new) if at.is_pm() => self.put(at, u64::MAX, new, true),
            Some(new) => {
                self.put_dram(at, u64::MAX, new);
                self.note(Kind::Locked { store: None }, self.site(Location::caller()));
            }
            None => {}
        }
        old
    }
}

/// The outcome of a pass of recovery.
pub(crate) struct Pass<T> {
    /// Its result, or the message of its panic.
    pub(crate) result: Result<T, String>,
    pub(crate) reads: Vec<(u32, u64)>,
    pub(crate) recording: Trace,
}

impl Memory for CrashImage {
    fn thread(&self) -> usize {
        0
    }

    /// Recovery starts its threads itself.
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }

    #[inline]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.step();
        if self.has_several.get() {
            self.note_load(at);
        }
        if !at.is_pm() {
            return self.dram.load(at, width);
        }
        self.has_read.set(true);
        let (word, shift) = self.start.place(at, width);
        let value = self.word(word as u32) >> shift & width.mask();
        if self.logs.get() {
            self.log(Did::Read(at, width, value), self.site(Location::caller()));
        }
        value
    }

    #[inline]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let region = if at.is_pm() { &self.start } else { &self.dram };
        let (_, shift) = region.place(at, width);
        let word = Addr::from_bits(at.bits() & !7);
        self.put_bits(word, width.mask() << shift, (value & width.mask()) << shift);
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let old = self.update(at, |old| (old == current).then_some(new));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.update(at, |_| Some(new))
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.update(at, |old| Some(old.wrapping_add(by)))
    }

    fn flush(&self, at: Addr, len: u64) {
        if !self.records.get() || !at.is_pm() || len == 0 {
            return;
        }
        let end = at.offset().saturating_add(len);
        assert!(end <= self.pm_bytes(), "flush of {len} bytes from {at}, past the pool");
        for line in lines_of(at, len) {
            let line = self.recording.borrow_mut().line(line);
            self.note(Kind::Flush { line }, self.site(Location::caller()));
        }
    }

    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        let part = match self.part.get() {
            Part::Alone => self.part_of(pieces_of(at, from).count()),
            outer => outer,
        };
        for (at, mask, value) in pieces_of(at, from) {
            self.put_part(part, at, mask, value);
        }
    }

    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.non_temporal.set(true);
        self.write(at, from);
        self.non_temporal.set(false);
    }

    fn fence(&self, fence: Fence) {
        if self.logs.get() {
            self.log(Did::Fenced(fence), self.site(Location::caller()));
        }
        self.note(fence.into(), self.site(Location::caller()));
    }

    fn work(&self, _: u32) {}
    fn output(&self, _: u64) {}

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let now = self.load_bits(at, Width::B8);
        assert!(now != value, "recovery waits for ever at {at}, which holds {value:#x}");
        now
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }
}

/// Pages that recovery discards keep their content.
impl Space for &CrashImage {
    fn grow(&self, bytes: u64) -> bool {
        self.step();
        if bytes > self.pm_bytes() && bytes <= self.start.room() {
            self.start.set_bytes(bytes);
            self.note(Kind::Grow { bytes }, self.site(Location::caller()));
        }
        bytes <= self.pm_bytes()
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
