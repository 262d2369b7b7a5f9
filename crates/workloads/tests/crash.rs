//! Crashes at every point of a short run of one thread, under two small persistency models: what
//! is there afterwards must be explained by the run, and planted mistakes must be found.
//!
//! `Epochs`: everything before the last order is there, and of each word since then any of its
//! values. `Px86`: of each line any prefix of its stores, from what was flushed and ordered on.

use crate::machines::{Event, Recorder};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::{Image, LINE_BYTES, Memory};
use seawall_workloads::{
    Contents, Explainer, Flaw, History, Layout, Setup, Visitor, WORKLOADS, Worker, Workload,
    with_workload,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const OPERATIONS: u64 = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Epochs,
    Px86,
}

/// What a crash finds, while the events of a run go by.
struct Media {
    model: Model,
    durable: Vec<u8>,
    /// Stores that may or may not have arrived, by the unit that keeps their order: word or line.
    pending: BTreeMap<u64, Vec<(u64, u64)>>,
    /// How many pending stores of a line the next order makes durable.
    flushed: BTreeMap<u64, usize>,
}

impl Media {
    fn new(model: Model, durable: Vec<u8>) -> Media {
        Media { model, durable, pending: BTreeMap::new(), flushed: BTreeMap::new() }
    }

    fn see(&mut self, event: Event) {
        match (event, self.model) {
            (Event::Store { at, value }, Model::Epochs) => {
                self.pending.entry(at).or_default().push((at, value));
            }
            (Event::Store { at, value }, Model::Px86) => {
                self.pending.entry(at / LINE_BYTES).or_default().push((at, value));
            }
            (Event::Flush { line }, Model::Px86) => {
                self.flushed.insert(line, self.pending.get(&line).map_or(0, Vec::len));
            }
            (Event::Order, Model::Epochs) => {
                for (at, value) in std::mem::take(&mut self.pending).into_values().flatten() {
                    put(&mut self.durable, at, value);
                }
            }
            (Event::Order, Model::Px86) => {
                for (line, count) in std::mem::take(&mut self.flushed) {
                    let stores = self.pending.entry(line).or_default();
                    for (at, value) in stores.drain(..count) {
                        put(&mut self.durable, at, value);
                    }
                }
                self.pending.retain(|_, stores| !stores.is_empty());
            }
            (Event::Flush { .. }, Model::Epochs) | (Event::Done, _) => {}
        }
    }

    /// An image that a crash now may leave; `keep` draws how many of n stores arrived.
    fn image(&self, mut keep: impl FnMut(usize) -> usize) -> Vec<u8> {
        let mut image = self.durable.clone();
        for stores in self.pending.values() {
            for (at, value) in &stores[..keep(stores.len())] {
                put(&mut image, *at, *value);
            }
        }
        image
    }
}

fn put(bytes: &mut [u8], at: u64, value: u64) {
    bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
}

fn up_to(rng: &mut Xoshiro256PlusPlus, n: usize) -> usize {
    (rng.next_u64() % (n as u64 + 1)) as usize
}

/// Calls `check` with images of crashes at every event: a few anywhere, many before an order.
fn crashes(
    media: &mut Media,
    events: &[(Event, usize)],
    rng: &mut Xoshiro256PlusPlus,
    mut check: impl FnMut(Vec<u8>, u64, usize) -> Result<(), String>,
) -> Result<(), String> {
    let (mut done, mut len) = (0, 0);
    for (event, len_then) in events {
        let samples = if matches!(event, Event::Order | Event::Done) { 12 } else { 1 };
        for _ in 0..samples {
            let mood = rng.next_u64() % 4;
            let image = media.image(|n| match (mood, rng.next_u64() % 8) {
                (0, 0) => 0,
                (0, _) => n,
                (1, 0) => n,
                (1, _) => 0,
                _ => up_to(rng, n),
            });
            check(image, done, len)?;
        }
        media.see(*event);
        done += u64::from(matches!(event, Event::Done));
        len = *len_then;
    }
    check(media.image(|n| n), done, len)
}

/// A short run, crashed under `model`; gives the first violation.
struct Crash {
    model: Model,
    flaw: Flaw,
    seed: u64,
}

impl Visitor for Crash {
    type Output = Result<(), String>;

    fn visit<W: Workload>(self) -> Result<(), String> {
        let Crash { model, flaw, seed } = self;
        let setup = Setup { threads: 1, seed, entries: 8, search_percent: 10, flaw };
        let layout = W::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&image, &setup);
        let before = workload.contents(&image).expect("just made");
        let (pm, dram) = image.into_parts();
        let mut media = Media::new(model, pm.clone());

        let history = Arc::new(History::new());
        let running = Image::from_pm(pm, layout.dram_bytes);
        for (word, bytes) in dram.chunks_exact(8).enumerate() {
            let value = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            running.store(seawall_memory::Addr::dram(8 * word as u64), value);
        }
        let recorder = Recorder::new(running, history.clone());
        let mut worker = Worker::new(&setup, 0, history.clone());
        while worker.number < OPERATIONS {
            workload.step(&recorder, &mut worker);
            worker.number += 1;
            recorder.output(worker.number);
        }
        let run = Checked { before, index: history.index(), layout, model };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut nested = rng.clone();
        crashes(&mut media, &recorder.into_events(), &mut rng, |image, done, len| {
            run.check::<W>(image, done, len, &mut nested)
        })
    }
}

/// What every image of a run is held against.
struct Checked {
    before: Contents,
    index: Explainer,
    layout: Layout,
    model: Model,
}

impl Checked {
    fn check<W: Workload>(
        &self,
        image: Vec<u8>,
        done: u64,
        len: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), String> {
        let (pm, contents) = self.recover::<W>(image.clone())?;
        let explained = self.index.explain_first(len, &self.before, &contents, &[done]);
        explained.map_err(|violation| violation.to_string())?;
        let (again, same) = self.recover::<W>(pm.clone())?;
        if same != contents || again != pm {
            return Err("a second recovery changes something".to_owned());
        }
        if pm != image && rng.next_u64().is_multiple_of(4) {
            self.crash_in_recovery::<W>(image, &contents, rng)?;
        }
        Ok(())
    }

    fn recover<W: Workload>(&self, image: Vec<u8>) -> Result<(Vec<u8>, Contents), String> {
        let image = Image::from_pm(image, self.layout.dram_bytes);
        let opened = W::open(&image, self.layout).map_err(|damage| damage.to_string())?;
        let contents = opened.contents(&image).map_err(|damage| damage.to_string())?;
        Ok((image.into_pm(), contents))
    }

    /// Recovery that is itself cut short must lead to the same contents.
    fn crash_in_recovery<W: Workload>(
        &self,
        image: Vec<u8>,
        contents: &Contents,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), String> {
        let mut media = Media::new(self.model, image.clone());
        let image = Image::from_pm(image, self.layout.dram_bytes);
        let recorder = Recorder::new(image, Arc::new(History::new()));
        W::open(&recorder, self.layout).map_err(|damage| damage.to_string())?;
        crashes(&mut media, &recorder.into_events(), rng, |image, _, _| {
            let (_, again) = self.recover::<W>(image)?;
            if again == *contents {
                return Ok(());
            }
            Err("a crash in recovery changes the contents".to_owned())
        })
    }
}

fn crash(name: &str, model: Model, flaw: Flaw, seed: u64) -> Result<(), String> {
    with_workload(name, Crash { model, flaw, seed }).expect("a workload of the table")
}

fn five() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().filter(|entry| entry.default).map(|entry| entry.name)
}

#[test]
fn every_crash_leaves_a_prefix_of_the_run_that_has_all_completed_operations() {
    for name in five() {
        for seed in 1..=2 {
            for model in [Model::Epochs, Model::Px86] {
                let found = crash(name, model, Flaw::None, seed);
                assert_eq!(found, Ok(()), "{name} under {model:?} with seed {seed}");
            }
        }
    }
}

#[test]
fn an_update_that_is_visible_before_it_is_recoverable_is_caught() {
    for name in five() {
        for model in [Model::Epochs, Model::Px86] {
            let found = crash(name, model, Flaw::NoOrder, 1);
            assert!(found.is_err(), "{name} without the order passes under {model:?}");
        }
    }
}

#[test]
fn a_first_step_that_is_not_flushed_is_caught_where_flushes_matter() {
    for name in five() {
        let found = crash(name, Model::Px86, Flaw::NoFlush, 1);
        assert!(found.is_err(), "{name} without the flush passes under Px86");
        assert_eq!(crash(name, Model::Epochs, Flaw::NoFlush, 1), Ok(()), "{name}");
    }
}
