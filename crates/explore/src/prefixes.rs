//! What runs of one program have in common: the moments at which they had done the same.
//!
//! Two runs have come just as far if each thread has made the same calls and read the same stores,
//! the stores of each line came in the same order, and so did the fences of all threads. Then a
//! crash leaves the same images, and what was promised is the same. What a thread learns of the
//! others when it reads, and when it executes a locked operation, is part of what it did: their
//! stores to lines that several threads use, as another thread can flush or order no others.

use crate::interleavings::{Reduction, Schedules, Users};
use crate::trace::{Event, Kind, Trace};
use crate::walk::is_failure_point;
use crate::wide::Part;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

pub(crate) struct Prefixes {
    seen: FxHashSet<u64>,
    reduction: Reduction,
}

impl Prefixes {
    pub(crate) fn new(reduction: Reduction) -> Prefixes {
        Prefixes { seen: FxHashSet::default(), reduction }
    }

    /// Marks the failure points of the run that an earlier one has shown; false if all are.
    pub(crate) fn follow(
        &mut self,
        how: &Schedules,
        words: &FxHashMap<u64, Users>,
        trace: &mut Trace,
    ) -> bool {
        let mut so_far = SoFar::new(trace, words, self.reduction);
        let mut is_new = false;
        let mut repeats = vec![false; trace.events.len() + 1];
        for (at, repeats) in repeats.iter_mut().enumerate() {
            if is_failure_point(trace, at, how.model, how.thorough) {
                let new = self.seen.insert(so_far.hash());
                *repeats = !new;
                is_new |= new;
            }
            if let Some(event) = trace.events.get(at) {
                so_far.follow(trace, event, how.model.orders_all_stores());
            }
        }
        trace.repeats = repeats;
        is_new
    }
}

/// A hash of what a run has done so far.
struct SoFar {
    threads: Vec<FxHasher>,
    lines: Vec<FxHasher>,
    fences: FxHasher,
    /// Sums over the threads and over the lines.
    sums: [u64; 2],
    /// Stores of each thread.
    stores: Vec<u32>,
    /// The last store of each line: thread, and number in the thread.
    writers: Vec<(u16, u32)>,
    /// Whether several threads use the line.
    shared: Vec<bool>,
    /// For each number of stores so far, a hash of how many of each thread are to shared lines.
    known: Vec<u64>,
    counts: Vec<u32>,
    /// What the last store of each thread was a piece of.
    parts: Vec<Part>,
    reduction: Reduction,
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

impl SoFar {
    fn new(trace: &Trace, words: &FxHashMap<u64, Users>, reduction: Reduction) -> SoFar {
        let lines = trace.lines.len();
        let is_shared = |word: u64| words.get(&word).is_some_and(|users| users.are_several());
        SoFar {
            threads: vec![FxHasher::default(); trace.threads],
            lines: vec![FxHasher::default(); lines],
            fences: FxHasher::default(),
            sums: [0; 2],
            stores: vec![0; trace.threads],
            writers: vec![(0, 0); lines],
            shared: trace.lines.iter().map(|log| is_shared(log.line.start().bits() / 8)).collect(),
            known: vec![0],
            counts: vec![0; trace.threads],
            parts: vec![Part::Alone; trace.threads],
            reduction,
        }
    }

    fn hash(&self) -> u64 {
        if self.reduction == Reduction::OrderOfStores {
            return hash_of((self.fences.finish(), self.sums[0]));
        }
        hash_of((self.fences.finish(), self.sums))
    }

    fn follow(&mut self, trace: &Trace, event: &Event, every_store: bool) {
        let thread = usize::from(event.thread);
        let own = self.threads[thread].clone();
        let before = hash_of((thread, own.finish()));
        let mut own = own;
        event.at.hash(&mut own);
        let line = |line: u32| trace.lines[line as usize].line.0;
        match event.kind {
            Kind::Read { word, from: Some(from), .. } => {
                (8, word, self.known[from as usize]).hash(&mut own);
            }
            Kind::Read { line, word, from: None } => {
                let (writer, number) = self.writers[line as usize];
                (0, word, writer, number, self.now()).hash(&mut own);
            }
            Kind::Sync { stores } => (1, self.known[stores as usize]).hash(&mut own),
            Kind::Flush { line: of } => (2, line(of)).hash(&mut own),
            Kind::WroteBack { line: of } => (6, line(of)).hash(&mut own),
            Kind::Output { number } => (3, number).hash(&mut own),
            Kind::Grow { bytes } => (5, bytes).hash(&mut own),
            Kind::Locked { .. } => (7, self.now()).hash(&mut own),
            Kind::Failed => (9, self.now()).hash(&mut own),
            _ => {}
        }
        if let Some(store) = event.kind.store() {
            let store = &trace.stores[store as usize];
            let last = std::mem::replace(&mut self.parts[thread], store.part);
            let is_same = store.part == last;
            (4, store.at.bits(), store.new, store.part.is_torn(), is_same).hash(&mut own);
            self.store(trace, thread, store.line as usize);
        }
        self.sums[0] =
            self.sums[0].wrapping_sub(before).wrapping_add(hash_of((thread, own.finish())));
        self.threads[thread] = own;
        let is_met = event.kind.store().is_some() || matches!(event.kind, Kind::Read { .. });
        let is_ordered = event.kind.is_fence() || (every_store && is_met);
        if is_ordered && self.reduction != Reduction::OrderOfFences {
            (thread, self.stores[thread]).hash(&mut self.fences);
        }
    }

    /// What all threads have stored to shared lines.
    fn now(&self) -> u64 {
        self.known[self.known.len() - 1]
    }

    fn store(&mut self, trace: &Trace, thread: usize, line: usize) {
        let own = &mut self.stores[thread];
        *own += 1;
        let number = trace.lines[line].line.0;
        let hash = &mut self.lines[line];
        // A line without stores adds nothing: lines differ in when they are first used.
        let before = if self.writers[line].1 == 0 { 0 } else { hash_of((number, hash.finish())) };
        (thread, *own).hash(hash);
        self.writers[line] = (thread as u16, *own);
        let after = hash_of((number, hash.finish()));
        self.sums[1] = self.sums[1].wrapping_sub(before).wrapping_add(after);
        let mut known = self.now();
        if self.shared[line] {
            let count = &mut self.counts[thread];
            known = known.wrapping_sub(hash_of((thread, *count)));
            *count += 1;
            known = known.wrapping_add(hash_of((thread, *count)));
        }
        self.known.push(known);
    }
}
