//! Crash images under three small persistency models.
//!
//! `Epochs` (one thread): all stores before the last order, and of each word any later value.
//! `Px86`: of each line any prefix of its stores, but at least those that a thread flushed and then
//! ordered. `Bep`, buffered epoch persistency (MICRO'15, sections 2.1 and 3): any set of epochs
//! that contains with an epoch its predecessors, and parts of epochs whose predecessors it
//! contains; an epoch follows the epoch before it in its thread, and the epoch of another thread
//! that last wrote a line that it reads or writes; an epoch that ended with a drain is always
//! contained. `BepLines`: the same, but the stores of a line arrive in order, as if whole lines
//! move.
//! the same, but the stores of a line arrive in their order, as where whole lines move.

use crate::machines::{Event, Moment};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use seawall_memory::LINE_BYTES;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    Epochs,
    Px86,
    Bep,
    BepLines,
}

/// Stores of a thread between two orders.
#[derive(Default)]
struct Epoch {
    stores: Vec<(u64, u64)>,
    follows: BTreeSet<usize>,
}

pub(crate) struct Media {
    model: Model,
    durable: Vec<u8>,
    /// Stores that may or may not have arrived, by the unit that keeps their order: word or line.
    pending: BTreeMap<u64, Vec<(u64, u64)>>,
    /// The end of the durable stores of a line, counted from its first store.
    arrived: BTreeMap<u64, usize>,
    /// The end of a thread's flushed stores of a line since its last order.
    flushed: Vec<BTreeMap<u64, usize>>,
    /// All epochs, each after those it follows; and the open one of each thread.
    epochs: Vec<Epoch>,
    open: Vec<usize>,
    writers: BTreeMap<u64, usize>,
    /// Epochs that were open when their thread drained: no crash loses them.
    drained: Vec<usize>,
}

impl Media {
    pub(crate) fn new(model: Model, threads: usize, durable: Vec<u8>) -> Media {
        Media {
            model,
            durable,
            pending: BTreeMap::new(),
            arrived: BTreeMap::new(),
            flushed: vec![BTreeMap::new(); threads],
            epochs: (0..threads).map(|_| Epoch::default()).collect(),
            open: (0..threads).collect(),
            writers: BTreeMap::new(),
            drained: Vec::new(),
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.open.len()
    }

    /// Whether a crash loses no operation that had ended.
    pub(crate) fn keeps_completed(&self) -> bool {
        !self.is_bep()
    }

    fn is_bep(&self) -> bool {
        matches!(self.model, Model::Bep | Model::BepLines)
    }

    pub(crate) fn see(&mut self, moment: &Moment) {
        match self.model {
            Model::Epochs => self.see_epochs(moment.event),
            Model::Px86 => self.see_px86(moment.event, moment.thread),
            Model::Bep | Model::BepLines => self.see_bep(moment.event, moment.thread),
        }
    }

    fn see_epochs(&mut self, event: Event) {
        match event {
            Event::Store { at, value } => self.pending.entry(at).or_default().push((at, value)),
            Event::Order | Event::Drain => {
                for (at, value) in std::mem::take(&mut self.pending).into_values().flatten() {
                    put(&mut self.durable, at, value);
                }
            }
            Event::Load { .. } | Event::Flush { .. } | Event::Done => {}
        }
    }

    fn see_px86(&mut self, event: Event, thread: usize) {
        match event {
            Event::Store { at, value } => {
                self.pending.entry(at / LINE_BYTES).or_default().push((at, value));
            }
            Event::Flush { line } => {
                let arrived = self.arrived.get(&line).copied().unwrap_or(0);
                let written = arrived + self.pending.get(&line).map_or(0, Vec::len);
                self.flushed[thread].insert(line, written);
            }
            Event::Order | Event::Drain => {
                for (line, until) in std::mem::take(&mut self.flushed[thread]) {
                    let arrived = self.arrived.entry(line).or_default();
                    let stores = self.pending.entry(line).or_default();
                    for (at, value) in stores.drain(..until.saturating_sub(*arrived)) {
                        put(&mut self.durable, at, value);
                        *arrived += 1;
                    }
                }
            }
            Event::Load { .. } | Event::Done => {}
        }
    }

    fn see_bep(&mut self, event: Event, thread: usize) {
        match event {
            Event::Load { line } => self.conflict(line, thread),
            Event::Store { at, value } => {
                self.conflict(at / LINE_BYTES, thread);
                self.epochs[self.open[thread]].stores.push((at, value));
                self.writers.insert(at / LINE_BYTES, self.open[thread]);
            }
            Event::Order => self.close(thread),
            Event::Drain => {
                self.drained.push(self.open[thread]);
                self.close(thread);
            }
            Event::Flush { .. } | Event::Done => {}
        }
    }

    fn close(&mut self, thread: usize) {
        let follows = BTreeSet::from([self.open[thread]]);
        self.open[thread] = self.epochs.len();
        self.epochs.push(Epoch { stores: Vec::new(), follows });
    }

    /// Orders the open epoch of `thread` after the last writer of `line`, and splits that writer's
    /// epoch if it is open. The earlier part of `thread`'s epoch is split off too, so that epochs
    /// stay sorted.
    fn conflict(&mut self, line: u64, thread: usize) {
        let Some(writer) = self.writers.get(&line).copied() else { return };
        if writer == self.open[thread] || self.epochs[self.open[thread]].follows.contains(&writer) {
            return;
        }
        if let Some(other) = self.open.iter().position(|open| *open == writer) {
            self.close(other);
        }
        if writer > self.open[thread] {
            self.close(thread);
        }
        self.epochs[self.open[thread]].follows.insert(writer);
    }

    /// A random image that a crash can leave now.
    pub(crate) fn image(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let mood = rng.next_u64() % 4;
        let mut keep = |n: usize| match (mood, rng.next_u64() % 8) {
            (0, 1..) | (1, 0) => n,
            (0, 0) | (1, 1..) => 0,
            (_, _) => (rng.next_u64() % (n as u64 + 1)) as usize,
        };
        let mut image = self.durable.clone();
        for stores in self.pending.values() {
            for (at, value) in &stores[..keep(stores.len())] {
                put(&mut image, *at, *value);
            }
        }
        if self.is_bep() {
            self.add_epochs(&mut image, rng);
        }
        image
    }

    fn add_epochs(&self, image: &mut [u8], rng: &mut Xoshiro256PlusPlus) {
        let mut whole = vec![false; self.epochs.len()];
        self.drained.iter().for_each(|epoch| whole[*epoch] = true);
        for _ in 0..self.threads() {
            let recent = rng.next_u64() % 8 * (rng.next_u64() % 8) + 1;
            let back = (rng.next_u64() % recent) as usize;
            whole[self.epochs.len().saturating_sub(1 + back)] = true;
        }
        for epoch in (0..whole.len()).rev() {
            if whole[epoch] {
                self.epochs[epoch].follows.iter().for_each(|before| whole[*before] = true);
            }
        }
        for (index, epoch) in self.epochs.iter().enumerate() {
            let ready = epoch.follows.iter().all(|before| whole[*before]);
            let mut last = BTreeMap::new();
            for (at, value) in epoch.stores.iter().filter(|_| ready) {
                let unit = if self.model == Model::BepLines { at / LINE_BYTES } else { *at };
                let stopped: &mut bool = last.entry(unit).or_default();
                *stopped |= !whole[index] && rng.next_u64().is_multiple_of(2);
                if !*stopped {
                    put(image, *at, *value);
                }
            }
        }
    }

    /// The image with all stores.
    pub(crate) fn whole(&self) -> Vec<u8> {
        let mut image = self.durable.clone();
        let epochs = self.epochs.iter().flat_map(|epoch| &epoch.stores);
        for (at, value) in self.pending.values().flatten().chain(epochs) {
            put(&mut image, *at, *value);
        }
        image
    }
}

fn put(bytes: &mut [u8], at: u64, value: u64) {
    bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
}
