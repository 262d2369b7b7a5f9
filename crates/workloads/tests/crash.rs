//! Crashes at every point of a short run, under small persistency models: the run must explain the
//! content afterwards, and planted bugs must be found.

use crate::machines::{Event, Moment, Recorder};
use crate::media::{Media, Model};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::{Image, Memory};
use seawall_workloads::{
    Collect, Contents, Cost, Explainer, Flaw, History, Layout, RequestMix, Setup, Visitor,
    WORKLOADS, Worker, Workload, with_workload,
};
use std::sync::Arc;

const OPERATIONS: u64 = 14;
/// The operations of an application, which have many times more crash points, and of one with
/// batches.
const APP_OPERATIONS: u64 = 5;
const BATCHES: u64 = 2;
/// Bytes of all images of a run, and of all of a recovery: a large pool is crashed at fewer of its
/// stores and fences. In the long run, `SEAWALL_IMAGES=4`, they are so many times as many.
const BYTES: u64 = 1 << 30;
const BYTES_OF_RECOVERY: u64 = 1 << 26;

fn times() -> u64 {
    std::env::var("SEAWALL_IMAGES").map_or(1, |times| times.parse().expect("a number"))
}

/// One in how many of a run's stores and fences is crashed so that all images have `bytes` at most.
fn one_within(bytes: u64, moments: &[Moment], pool: u64) -> u64 {
    (moments.len() as u64 * pool / (bytes * times())).max(1)
}

/// Calls `check` with images of crashes at every store and fence: many before a fence, few
/// elsewhere; or at one in `one_of` of them.
fn crashes(
    media: &mut Media,
    (moments, one_of): (&[Moment], u64),
    rng: &mut Xoshiro256PlusPlus,
    mut check: impl FnMut(Vec<u8>, &[u64], usize) -> Result<(), String>,
) -> Result<(), String> {
    let (mut done, mut len) = (vec![0; media.threads()], 0);
    for moment in moments {
        let samples = match moment.event {
            Event::Order | Event::Drain | Event::Done => 12,
            Event::Store { .. } => 1,
            Event::Load { .. } | Event::Flush { .. } => 0,
        };
        let is_one = one_of == 1 || rng.next_u64().is_multiple_of(one_of);
        let samples = if is_one { samples } else { 0 };
        for _ in 0..samples {
            check(media.image(rng), &done, len)?;
        }
        media.see(moment);
        if matches!(moment.event, Event::Done) && media.keeps_completed() {
            done[moment.thread] += 1;
        }
        len = moment.len;
    }
    check(media.whole(), &done, len)
}

/// A short run, crashed under `model`; returns the first violation.
pub(crate) struct Crash {
    pub(crate) model: Model,
    pub(crate) flaw: Flaw,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Crashes at one in this number of stores and fences.
    pub(crate) one_of: u64,
    /// Entries at the start.
    pub(crate) entries: u64,
    /// Operations of all threads; `None`: enough for the workload.
    pub(crate) operations: Option<u64>,
    pub(crate) mix: Option<RequestMix>,
    /// The defragmentation during the run.
    pub(crate) collect: Collect,
    /// What transactions cost.
    pub(crate) cost: Cost,
}

impl Default for Crash {
    fn default() -> Crash {
        Crash {
            model: Model::Px86,
            flaw: Flaw::None,
            seed: 1,
            threads: 1,
            one_of: 1,
            entries: 8,
            operations: None,
            mix: None,
            collect: Collect::Nobody,
            cost: Cost::Lean,
        }
    }
}

impl Visitor for Crash {
    type Output = Result<(), String>;

    fn visit<W: Workload>(self) -> Result<(), String> {
        let Crash { model, flaw, seed, threads, one_of, entries, mix, collect, cost, .. } = self;
        let search_percent = 10;
        let setup = Setup { threads, seed, entries, search_percent, mix, collect, cost, flaw };
        let layout = W::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&image, &setup);
        let before = workload.contents(&image).expect("just made");
        let mut media = Media::new(model, threads, image.clone().into_pm());

        let history = Arc::new(History::new());
        let recorder = Recorder::new(image, history.clone());
        let worker = |thread| Worker::new(&setup, thread, history.clone());
        let mut workers: Vec<Worker> = (0..threads).map(worker).collect();
        let join = |thread| {
            recorder.turn(thread);
            workload.join(&recorder)
        };
        let mut locals: Vec<_> = (0..threads).map(join).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let usual = match W::NAME {
            "echo" => BATCHES,
            name if APPS.contains(&name) => APP_OPERATIONS,
            _ => OPERATIONS,
        };
        for _ in 0..self.operations.unwrap_or(usual) {
            let thread = (rng.next_u64() % threads as u64) as usize;
            let worker = &mut workers[thread];
            recorder.turn(thread);
            workload.step(&recorder, &mut locals[thread], worker);
            worker.number += 1;
            recorder.output(worker.number);
        }
        let run = Checked { before, index: history.index(), layout, model, threads };
        let mut nested = rng.clone();
        drop(locals);
        let moments = recorder.into_events();
        let one_of = one_of.max(one_within(BYTES, &moments, layout.pm_bytes));
        crashes(&mut media, (&moments, one_of), &mut rng, |image, done, len| {
            run.check::<W>(image, done, len, &mut nested)
        })
    }
}

/// The reference for every image of a run.
struct Checked {
    before: Contents,
    index: Explainer,
    layout: Layout,
    model: Model,
    threads: usize,
}

impl Checked {
    fn check<W: Workload>(
        &self,
        image: Vec<u8>,
        done: &[u64],
        len: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), String> {
        let (pm, contents) = self.recover::<W>(image.clone())?;
        let explained = self.index.explain_first(len, &self.before, &contents, done);
        explained.map_err(|violation| violation.to_string())?;
        let (again, same) = self.recover::<W>(pm.clone())?;
        // A heap can begin another generation of its logs.
        if same != contents || again != pm && !W::IN_HEAP {
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

    /// A crash during recovery must lead to the same contents.
    fn crash_in_recovery<W: Workload>(
        &self,
        image: Vec<u8>,
        contents: &Contents,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), String> {
        let mut media = Media::new(self.model, self.threads, image.clone());
        let image = Image::from_pm(image, self.layout.dram_bytes);
        let recorder = Recorder::new(image, Arc::new(History::new()));
        W::open(&recorder, self.layout).map_err(|damage| damage.to_string())?;
        let moments = recorder.into_events();
        let one_of = one_within(BYTES_OF_RECOVERY, &moments, self.layout.pm_bytes);
        crashes(&mut media, (&moments, one_of), rng, |image, _, _| {
            let (_, again) = self.recover::<W>(image)?;
            if again == *contents {
                return Ok(());
            }
            Err("a crash in recovery changes the contents".to_owned())
        })
    }
}

fn crash(name: &str, model: Model, flaw: Flaw, seed: u64) -> Result<(), String> {
    let threads = 1;
    let run = Crash { model, flaw, seed, threads, ..Crash::default() };
    with_workload(name, run).expect("a workload of the table")
}

/// The workloads with their own log, above a pool without a heap.
const APPS: [&str; 6] = ["echo", "redis", "ctree", "hashmap", "redis-ycsb", "redis-tpcc"];

/// One seed, or as many as this in the long run.
fn seeds(many: u64) -> impl Iterator<Item = u64> {
    1..=if times() > 1 { many } else { 1 }
}

/// The five of MICRO'15, and the applications.
fn logged() -> impl Iterator<Item = &'static str> {
    let five = WORKLOADS.iter().filter(|entry| entry.default).map(|entry| entry.name);
    five.chain(APPS)
}

#[test]
fn every_crash_leaves_a_prefix_of_the_run_that_has_all_completed_operations() {
    for name in logged() {
        for seed in seeds(2) {
            for model in [Model::Epochs, Model::Px86, Model::Bep] {
                let found = crash(name, model, Flaw::None, seed);
                assert_eq!(found, Ok(()), "{name} under {model:?} with seed {seed}");
            }
        }
    }
}

#[test]
fn what_threads_do_to_the_same_entries_persists_in_their_order() {
    for name in logged() {
        for (seed, model) in seeds(3).flat_map(|seed| [(seed, Model::Bep), (seed, Model::Px86)]) {
            let run = Crash { model, seed, threads: 3, ..Crash::default() };
            let found = with_workload(name, run).expect("a workload of the table");
            assert_eq!(found, Ok(()), "{name} under {model:?} with seed {seed}");
        }
    }
}

#[test]
fn an_update_that_is_visible_before_it_is_recoverable_is_caught() {
    for name in logged() {
        for model in [Model::Epochs, Model::Px86, Model::Bep] {
            let found = crash(name, model, Flaw::NoOrder, 1);
            assert!(found.is_err(), "{name} without the order passes under {model:?}");
        }
    }
}

#[test]
fn a_first_step_that_is_not_flushed_is_caught_where_flushes_matter() {
    for name in logged() {
        let found = crash(name, Model::Px86, Flaw::NoFlush, 1);
        assert!(found.is_err(), "{name} without the flush passes under Px86");
        assert_eq!(crash(name, Model::Epochs, Flaw::NoFlush, 1), Ok(()), "{name}");
    }
}
