//! What runs of one program have in common: the moments that one crash cannot tell apart.
//!
//! Two moments, of whatever runs, are alike if
//!
//! - each thread has made the same calls, and they returned the same: so it has done and reported
//!   the same, and the same was promised;
//! - the model leaves the same images: each line has the same durable words, the same stores after
//!   them in the same order, and the same of these are ordered before others.
//!
//! A judgement sees nothing else, so one of them is enough. Nothing is derived from the order of
//! the calls: the model itself follows the run, and says what may persist.

use crate::places::Reduction;
use crate::trace::{Event, Kind, LineLog, Trace};
use crate::walk::{Walk, is_failure_point};
use rustc_hash::{FxHashSet, FxHasher};
use seawall_memory::Model;
use std::hash::{Hash, Hasher};

pub(crate) struct Prefixes {
    seen: FxHashSet<u64>,
    reduction: Reduction,
}

impl Prefixes {
    pub(crate) fn new(reduction: Reduction) -> Prefixes {
        Prefixes { seen: FxHashSet::default(), reduction }
    }

    /// Marks the failure points of the run that an earlier one has shown; false if all are. All
    /// models are of one kind of machine.
    pub(crate) fn follow(&mut self, models: &[Model], thorough: bool, trace: &mut Trace) -> bool {
        let by_lanes = trace.by_lanes(models[0]);
        let mut moment = Moment::new(by_lanes.as_ref().unwrap_or(trace), models);
        let mut is_new = false;
        let mut repeats = vec![false; trace.events.len() + 1];
        for (at, repeats) in repeats.iter_mut().enumerate() {
            if is_failure_point(trace, at, models[0], thorough) {
                let new = self.seen.insert(moment.hash(self.reduction));
                *repeats = !new;
                is_new |= new;
            }
            moment.advance();
        }
        trace.repeats = repeats;
        is_new
    }
}

/// A moment of a run.
struct Moment<'t> {
    trace: &'t Trace,
    /// What each thread has called, with what that returned, as a hash; and their sum.
    threads: Vec<u64>,
    sum: u64,
    /// Accesses so far.
    accesses: usize,
    /// What each model says.
    models: Vec<Images<'t>>,
}

/// What a model says of a run so far.
struct Images<'t> {
    walk: Walk<'t>,
    /// Of each log: its durable stores and all, as they were, and its hash then.
    lines: Vec<((u32, u32), u64)>,
}

/// A hash that may be summed up: the hasher alone is linear, so that sums of what it returns do not
/// tell whose part is whose. (The last step is that of SplitMix64: Steele, Lea, Flood, OOPSLA'14.)
pub(crate) fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    let mut hash = hasher.finish();
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        hash = (hash ^ hash >> shift).wrapping_mul(factor);
    }
    hash ^ hash >> 31
}

impl<'t> Moment<'t> {
    fn new(trace: &'t Trace, models: &[Model]) -> Moment<'t> {
        let lines = vec![((0, 0), 0); trace.lines.len()];
        let images =
            |model: &Model| Images { walk: Walk::new(trace, *model), lines: lines.clone() };
        Moment {
            trace,
            threads: vec![0; trace.threads],
            sum: 0,
            accesses: 0,
            models: models.iter().map(images).collect(),
        }
    }

    fn hash(&mut self, reduction: Reduction) -> u64 {
        let mut hasher = FxHasher::default();
        self.sum.hash(&mut hasher);
        if reduction != Reduction::Images {
            self.models.iter_mut().for_each(|images| images.hash(&mut hasher));
        }
        hasher.finish()
    }

    /// The next event takes effect, after the calls without an event that came before it.
    fn advance(&mut self) {
        let Some(event) = self.models[0].walk.next_event() else { return };
        let events = self.models[0].walk.point.event;
        while let Some(access) = self.trace.accesses.get(self.accesses)
            && access.events as usize <= events
        {
            self.accesses += 1;
            if let Some(returned) = access.returned {
                self.note(access.thread, (access.word, returned));
            }
        }
        match event.kind {
            // What it read, it returned.
            Kind::Read { .. } | Kind::Sync { .. } => {}
            _ => self.note(event.thread, (event.at, done(self.trace, event))),
        }
        for images in &mut self.models {
            images.walk.advance();
        }
    }

    /// The thread has done this.
    fn note(&mut self, thread: u16, what: impl Hash) {
        let own = &mut self.threads[usize::from(thread)];
        self.sum = self.sum.wrapping_sub(hash_of((thread, *own)));
        *own = hash_of((*own, what));
        self.sum = self.sum.wrapping_add(hash_of((thread, *own)));
    }
}

/// What a call did, as numbers that mean the same in every run.
fn done(trace: &Trace, event: &Event) -> (u8, u64, u64) {
    let line = |line: u32| trace.lines[line as usize].line.0;
    let store = |store: u32| {
        let store = &trace.stores[store as usize];
        (store.at.bits(), store.new)
    };
    let (kind, (what, value)) = match event.kind {
        Kind::Store { store: of } => (0, store(of)),
        Kind::StoreNt { store: of } => (1, store(of)),
        Kind::Locked { store: of } => (2, of.map_or((0, 0), store)),
        Kind::Flush { line: of } => (3, (line(of), 0)),
        Kind::WroteBack { line: of } => (4, (line(of), 0)),
        Kind::Output { number } => (5, (number, 0)),
        Kind::Grow { bytes } => (6, (bytes, 0)),
        Kind::Order => (7, (0, 0)),
        Kind::Drain => (8, (0, 0)),
        Kind::Strand => (9, (0, 0)),
        Kind::Join => (10, (0, 0)),
        Kind::FlushElsewhere => (11, (0, 0)),
        Kind::Failed => (13, (0, 0)),
        Kind::Read { .. } | Kind::Sync { .. } => (12, (0, 0)),
    };
    (kind, what, value)
}

impl Images<'_> {
    fn hash(&mut self, hasher: &mut FxHasher) {
        let Walk { trace, state, point, pm_bytes, .. } = &self.walk;
        pm_bytes.hash(hasher);
        let mut sum = 0u64;
        for ((log, cached), number) in trace.lines.iter().zip(&mut self.lines).zip(0..) {
            let now = state.order.window(number);
            if cached.0 != now {
                *cached = (now, hash_of_line(log, now));
            }
            sum = sum.wrapping_add(cached.1);
        }
        sum.hash(hasher);
        let name = |log: u32| {
            let log = &trace.lines[log as usize];
            (log.line.0, log.lane)
        };
        state.order.shape(name).hash(hasher);
        if !trace.relocated.copied.is_empty() {
            let bits = trace.relocated.before(point.event);
            let bits = bits.into_values().flatten();
            let bits = bits.map(|of| hash_of((of.word, of.bit, name(of.line), of.stores)));
            bits.fold(0, u64::wrapping_add).hash(hasher);
        }
    }
}

/// The words of the line after its durable stores, and its stores from there on.
fn hash_of_line(log: &LineLog, (durable, stored): (u32, u32)) -> u64 {
    if stored == 0 {
        return 0;
    }
    let name = hash_of((log.line.0, log.lane));
    let mut sum = 0u64;
    for (word, values) in log.words.iter().enumerate() {
        let known = values.partition_point(|(from, _)| *from <= durable);
        let last = known.checked_sub(1).map(|last| (0, values[last].1));
        let later = values[known..].iter().map(|(at, value)| (at - durable, *value));
        for (at, value) in last.into_iter().chain(later.filter(|(at, _)| *at <= stored - durable)) {
            sum = sum.wrapping_add(hash_of((name, word, at, value)));
        }
    }
    sum
}
