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

use crate::models::order::{Cut, PersistOrder};
use crate::reached::{OPEN_MAX, combinations};
use crate::recovered::{Access, Did, LOGGED};
use crate::relocated::Copied;
use crate::trace::{Event, Kind, Trace};
use crate::words::LineIndex;
use crate::words::{WordChange, Words};
use rustc_hash::FxHashMap;
use seawall_memory::{Addr, Fence, LINE_BYTES, Memory, Space, ThreadSlots, Width, lines_of};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;

/// A run, of the program or of recovery, that a crash cut short, and the order in which its stores
/// can have persisted.
pub(crate) struct Layer {
    pub(crate) trace: Arc<Trace>,
    pub(crate) order: PersistOrder,
}

/// A restriction: a line of a layer keeps `low` to `high` of its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) layer: usize,
    pub(crate) line: LineIndex,
    pub(crate) low: u32,
    pub(crate) high: u32,
}

/// A possible value of a word, and the restrictions that it implies for the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Possible {
    pub(crate) value: u64,
    pub(crate) keeps: Vec<Keep>,
}

/// The choice among the possible values of a word that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prefer {
    /// As little as possible persisted.
    Least,
    /// As much as possible.
    Most,
}

/// Persistent memory as a crash can have left it, with fresh, zeroed DRAM, for one thread.
pub struct CrashImage {
    start: Words,
    origin: Arc<[u8]>,
    dram: Words,
    dram_used: RefCell<Vec<u32>>,
    steps: Cell<u64>,
    limit: u64,
    pub(crate) open: RefCell<Open>,
    /// Whether some layer can have stored to a line, for each line.
    varies: RefCell<Vec<bool>>,
    /// The pass in which a word was decided, and its value.
    decided: RefCell<Vec<(u32, u64)>>,
    pass: Cell<u32>,
    /// The decisions of this pass, beyond those that it started with.
    reads: RefCell<Vec<(u32, u64)>>,
    prefer: Cell<Prefer>,
    recording: RefCell<Trace>,
    records: Cell<bool>,
    /// Whether recovery has ever read persistent memory.
    has_read: Cell<bool>,
    /// What recovery does, if that is wanted.
    log: RefCell<Vec<Access>>,
    logs: Cell<bool>,
}

/// The images that are not ruled out.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) layers: Vec<Layer>,
    /// For each line the layers that have a log of it, as bits.
    touched: Vec<u16>,
    /// For each line its log in the lowest layer, if that has one.
    lowest: Vec<LineIndex>,
    /// The bits of reached bitmaps that lines decide, by word.
    pub(crate) reached: FxHashMap<u32, Vec<Copied>>,
}

/// Crashes of recovery at most, of one search.
pub(crate) const DEPTH_MAX: usize = 15;

impl Open {
    /// The log of the word in a layer that has one of its line.
    #[inline]
    pub(crate) fn log_of(&self, layer: usize, word: u32) -> LineIndex {
        let Layer { trace, .. } = &self.layers[layer];
        match layer {
            0 => trace.lane_of(self.lowest[word as usize / 8], word),
            _ => trace.log_of(word).expect("the layer touched the line"),
        }
    }

    /// The layers that have a log of the word's line, from the top.
    #[inline]
    pub(crate) fn layers_of(&self, word: u32) -> impl Iterator<Item = usize> + use<> {
        let mut bits = self.touched[word as usize / 8];
        std::iter::from_fn(move || {
            let top = bits.checked_ilog2()?;
            bits ^= 1 << top;
            Some(top as usize)
        })
    }

    fn bits_of(&self, word: u32) -> &[Copied] {
        match self.reached.is_empty() {
            true => &[],
            false => self.reached.get(&word).map_or(&[], Vec::as_slice),
        }
    }
}

impl CrashImage {
    pub(crate) fn new(trace: &Trace, limit: u64) -> CrashImage {
        let start = Words::with_room(&trace.start, trace.room);
        let lines = trace.room.div_ceil(LINE_BYTES) as usize;
        let (touched, lowest) = (vec![0; lines], vec![0; lines]);
        let image = CrashImage {
            decided: RefCell::new(vec![(0, 0); lines * 8]),
            start,
            origin: trace.start.clone(),
            dram: Words::zeroed(trace.dram_bytes),
            dram_used: RefCell::default(),
            steps: Cell::new(limit),
            limit,
            open: RefCell::new(Open { touched, lowest, ..Open::default() }),
            varies: RefCell::new(vec![false; lines]),
            pass: Cell::new(0),
            reads: RefCell::default(),
            prefer: Cell::new(Prefer::Least),
            recording: RefCell::new(Trace::empty(1)),
            records: Cell::new(false),
            has_read: Cell::new(false),
            log: RefCell::default(),
            logs: Cell::new(false),
        };
        image.may_store(trace);
        image
    }

    /// Whether images of this run can be looked at, too: it started from the same memory.
    pub(crate) fn fits(&self, trace: &Trace, limit: u64) -> bool {
        let room = self.start.room() >= trace.room;
        let rest = self.dram.bytes() == trace.dram_bytes && self.limit == limit;
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
    fn log(&self, did: Did, place: &'static Location<'static>) {
        let mut log = self.log.borrow_mut();
        if log.len() == LOGGED {
            log.drain(..LOGGED / 2);
        }
        log.push(Access { did, place });
    }

    pub(crate) fn layers(&self) -> usize {
        self.open.borrow().layers.len()
    }

    pub(crate) fn push(&self, layer: Layer) {
        let mut open = self.open.borrow_mut();
        let at = open.layers.len();
        for (number, log) in layer.trace.lines.iter().enumerate() {
            open.touched[log.line.0 as usize] |= 1 << at;
            if at == 0 && log.lane.unwrap_or(0) == 0 {
                open.lowest[log.line.0 as usize] = number as LineIndex;
            }
        }
        open.layers.push(layer);
    }

    pub(crate) fn pop(&self) -> Layer {
        let mut open = self.open.borrow_mut();
        let layer = open.layers.pop().expect("a layer was put there");
        let at = open.layers.len();
        for log in &layer.trace.lines {
            open.touched[log.line.0 as usize] &= !(1 << at);
        }
        layer
    }

    /// The largest image of each layer that is not ruled out.
    pub(crate) fn largest(&self) -> Vec<Cut> {
        self.open.borrow().layers.iter().map(|layer| layer.order.largest()).collect()
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
        for &(word, value) in path {
            self.decided.borrow_mut()[word as usize] = (pass, value);
        }
        self.reads.borrow_mut().clear();
        self.prefer.set(prefer);
        self.steps.set(self.limit);
        self.records.set(records);
        let (marks, bytes) = (self.mark(), self.pm_bytes());
        let result = crate::guard::guarded(|| recover(self));
        self.undo(marks);
        self.set_bytes(bytes);
        self.restart();
        let recording = self.recording.replace(Trace::empty(1));
        Pass { result, reads: self.reads.take(), recording }
    }

    pub(crate) fn mark(&self) -> Vec<usize> {
        self.open.borrow_mut().layers.iter_mut().map(|layer| layer.order.mark()).collect()
    }

    pub(crate) fn undo(&self, marks: Vec<usize>) {
        for (layer, mark) in self.open.borrow_mut().layers.iter_mut().zip(marks) {
            layer.order.undo(mark);
        }
    }

    /// Rules out all images that the restrictions exclude; returns false if none is left.
    pub(crate) fn keep(&self, keeps: &[Keep]) -> bool {
        let layers = &mut self.open.borrow_mut().layers;
        keeps.iter().all(|keep| layers[keep.layer].order.keep(keep.line, keep.low, keep.high))
    }

    /// Leaves the images in which the topmost layer has one more store of `first` than before it
    /// grew, and no line of `before` has; false if there are none.
    pub(crate) fn keep_new(&self, first: Option<(u32, u32)>, before: &[(u32, u32)]) -> bool {
        let layers = &mut self.open.borrow_mut().layers;
        let order = &mut layers.last_mut().expect("a layer was put there").order;
        first.is_none_or(|(line, old)| order.keep(line, old + 1, u32::MAX))
            && before.iter().all(|&(line, old)| order.keep(line, 0, old))
    }

    /// The line of a log of the topmost layer.
    pub(crate) fn line_of_top(&self, log: LineIndex) -> u32 {
        let open = self.open.borrow();
        let Layer { trace, .. } = open.layers.last().expect("a layer was put there");
        trace.lines[log as usize].line.0 as u32
    }

    /// Whether words of the line persisted out of order, in all images that are not ruled out.
    pub(crate) fn is_torn(&self, word: u32) -> bool {
        let open = self.open.borrow();
        open.layers_of(word).any(|layer| {
            let Layer { trace, order } = &open.layers[layer];
            let log = open.log_of(layer, word);
            if trace.lines[log as usize].lane.is_none() {
                return false;
            }
            let first = trace.line_of(log);
            let (mut last_kept, mut first_lost) = (None, None);
            for log in first..first + 8 {
                let stores = &trace.lines[log as usize].stores;
                let (low, high) = order.window(log);
                let stored = (order.stored(log) as usize).min(stores.len());
                let kept = (low as usize).checked_sub(1).map(|at| stores[at]);
                last_kept = last_kept.max(kept);
                let lost = stores[..stored].get(high as usize).copied();
                first_lost = match (first_lost, lost) {
                    (Some(first), Some(lost)) => Some(u32::min(first, lost)),
                    (first, lost) => first.or(lost),
                };
            }
            first_lost.is_some_and(|lost| last_kept.is_some_and(|kept| kept > lost))
        })
    }

    /// Marks the lines that the run stored to as varying; true if one did not vary.
    pub(crate) fn may_store(&self, trace: &Trace) -> bool {
        let mut varies = self.varies.borrow_mut();
        let stored = trace.lines.iter().filter(|log| !log.stores.is_empty());
        let stored = stored.map(|log| log.line.0 as usize);
        let bits = trace.relocated.copied.iter().map(|bit| bit.word as usize / 8);
        let new = stored.chain(bits).map(|line| !std::mem::replace(&mut varies[line], true));
        new.fold(false, |any, new| any | new)
    }

    /// The value of the word, if it is the same in all images that are not ruled out.
    #[inline]
    pub(crate) fn only(&self, word: u32) -> Option<u64> {
        let open = self.open.borrow();
        let mut of_lines = 0;
        for copied in open.bits_of(word).iter().filter(|_| !open.layers.is_empty()) {
            of_lines |= u64::from(copied.is_kept(&open.layers[0].order)?) << copied.bit;
        }
        for layer in open.layers_of(word) {
            let Layer { trace, order } = &open.layers[layer];
            let line = open.log_of(layer, word);
            let history = &trace.lines[line as usize].words[word as usize % 8];
            if history.is_empty() {
                continue;
            }
            let (low, high) = order.window(line);
            let next = history.partition_point(|(stores, _)| *stores <= low);
            if history.get(next).is_some_and(|(stores, _)| *stores <= high) {
                return None;
            }
            if let Some(last) = next.checked_sub(1) {
                return Some(history[last].1 | of_lines);
            }
        }
        Some(self.start.word(word) | of_lines)
    }

    /// The possible values of the word, from the least to the most persisted; false if there are
    /// more.
    pub(crate) fn possible(&self, word: u32) -> (Vec<Possible>, bool) {
        let open = &*self.open.borrow();
        let below = self.possible_below(open, open.layers.len(), word);
        let copied = open.bits_of(word);
        if copied.is_empty() {
            return (below, true);
        }
        let (mut set, mut undecided) = (0, Vec::new());
        for copied in copied {
            match copied.is_kept(&open.layers[0].order) {
                Some(is_kept) => set |= u64::from(is_kept) << copied.bit,
                None => undecided.push(copied),
            }
        }
        let with = |possible: &Possible, mask: u64| {
            let mut possible = possible.clone();
            possible.value |= set;
            for (number, Copied { line, stores, bit, .. }) in undecided.iter().enumerate() {
                let is_kept = mask >> number & 1 == 1;
                let (low, high) = if is_kept { (*stores, u32::MAX) } else { (0, stores - 1) };
                possible.value |= u64::from(is_kept) << bit;
                possible.keeps.push(Keep { layer: 0, line: *line, low, high });
            }
            possible
        };
        let masks = combinations(undecided.len());
        let all = masks.iter().flat_map(|mask| below.iter().map(|below| with(below, *mask)));
        (all.collect(), undecided.len() <= OPEN_MAX)
    }

    /// The possible values in the layers below `top`.
    fn possible_below(&self, open: &Open, top: usize, word: u32) -> Vec<Possible> {
        let Some(layer) = open.layers_of(word).find(|layer| *layer < top) else {
            return vec![Possible { value: self.start.word(word), keeps: Vec::new() }];
        };
        let Layer { trace, order } = &open.layers[layer];
        let line = open.log_of(layer, word);
        let history = &trace.lines[line as usize].words[word as usize % 8];
        let (low, high) = order.window(line);
        let mut next = history.partition_point(|(stores, _)| *stores <= low);
        let after = |at: usize| history.get(at).map_or(high, |(stores, _)| (stores - 1).min(high));
        let keep = |low, high| Keep { layer, line, low, high };
        let mut all = match next.checked_sub(1) {
            Some(at) => {
                vec![Possible { value: history[at].1, keeps: vec![keep(low, after(next))] }]
            }
            None => self.possible_below(open, layer, word),
        };
        if next == 0 && after(next) < high {
            all.iter_mut().for_each(|possible| possible.keeps.push(keep(low, after(next))));
        }
        while next < history.len() && history[next].0 <= high {
            let (from, value) = history[next];
            next += 1;
            match all.last_mut().map(|last| (last.value, &mut last.keeps[..])) {
                Some((same, [only])) if same == value && only.layer == layer => {
                    only.high = after(next);
                }
                _ => all.push(Possible { value, keeps: vec![keep(from, after(next))] }),
            }
        }
        all
    }

    #[inline]
    fn step(&self) {
        let left = self.steps.get();
        assert!(left > 0, "more than {} memory accesses: it does not end", self.limit);
        self.steps.set(left - 1);
    }

    #[inline]
    fn word(&self, word: u32) -> u64 {
        let (pass, value) = self.decided.borrow()[word as usize];
        if pass == self.pass.get() {
            return value;
        }
        if !self.varies.borrow()[word as usize / 8] {
            return self.start.word(word);
        }
        self.decide(word)
    }

    fn decide(&self, word: u32) -> u64 {
        if let Some(value) = self.only(word) {
            self.decided.borrow_mut()[word as usize] = (self.pass.get(), value);
            self.reads.borrow_mut().push((word, value));
            return value;
        }
        let (mut possible, _) = self.possible(word);
        let chosen = match self.prefer.get() {
            Prefer::Least => possible.swap_remove(0),
            Prefer::Most => possible.pop().expect("a word has a value"),
        };
        let kept = self.keep(&chosen.keeps);
        debug_assert!(kept, "what is possible can be kept");
        self.decided.borrow_mut()[word as usize] = (self.pass.get(), chosen.value);
        self.reads.borrow_mut().push((word, chosen.value));
        chosen.value
    }

    fn note(&self, kind: Kind, at: &'static Location<'static>) {
        if self.records.get() {
            self.recording.borrow_mut().events.push(Event { thread: 0, operation: 0, kind, at });
        }
    }

    #[track_caller]
    fn put(&self, at: Addr, width: Width, value: u64, locked: bool) {
        let (word, shift) = self.start.place(at, width);
        if self.logs.get() {
            self.log(Did::Wrote(at, width, value), Location::caller());
        }
        let word = word as u32;
        let new = match width {
            Width::B8 => value,
            _ => self.word(word) & !(width.mask() << shift) | (value & width.mask()) << shift,
        };
        let decided = (self.pass.get(), new);
        let (pass, known) =
            std::mem::replace(&mut self.decided.borrow_mut()[word as usize], decided);
        if self.records.get() {
            let is_known = pass == self.pass.get();
            let below = || self.only(word).unwrap_or(self.start.word(word));
            let old = if is_known { known } else { below() };
            let change = WordChange { word, old, new };
            let store = self.recording.borrow_mut().add_store(at, width, change);
            let kind = match locked {
                true => Kind::Locked { store: Some(store) },
                false => Kind::Store { store },
            };
            self.note(kind, Location::caller());
        }
    }

    fn put_dram(&self, at: Addr, width: Width, value: u64) {
        let change = self.dram.store(at, width, value);
        if change.old == 0 && change.new != 0 {
            self.dram_used.borrow_mut().push(change.word);
        }
    }

    #[track_caller]
    fn update(&self, at: Addr, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let old = self.load_bits(at, Width::B8);
        match change(old) {
            Some(new) if at.is_pm() => self.put(at, Width::B8, new, true),
            Some(new) => {
                self.put_dram(at, Width::B8, new);
                self.note(Kind::Locked { store: None }, Location::caller());
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

    /// Recovery runs as one thread.
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }

    #[inline]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.step();
        if !at.is_pm() {
            return self.dram.load(at, width);
        }
        self.has_read.set(true);
        let (word, shift) = self.start.place(at, width);
        let value = self.word(word as u32) >> shift & width.mask();
        if self.logs.get() {
            self.log(Did::Read(at, width, value), Location::caller());
        }
        value
    }

    #[inline]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.step();
        if at.is_pm() { self.put(at, width, value, false) } else { self.put_dram(at, width, value) }
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
            self.note(Kind::Flush { line }, Location::caller());
        }
    }

    fn fence(&self, fence: Fence) {
        if self.logs.get() {
            self.log(Did::Fenced(fence), Location::caller());
        }
        self.note(fence.into(), Location::caller());
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
            self.note(Kind::Grow { bytes }, Location::caller());
        }
        bytes <= self.pm_bytes()
    }

    fn will_write(&self, _: Addr, _: u64) {}

    fn discard(&self, _: Addr, _: u64) {}

    fn bring_back(&self, _: Addr, _: u64) -> bool {
        true
    }
}
