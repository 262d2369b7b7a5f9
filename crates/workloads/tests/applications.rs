//! Crashes of applications like WHISPER's that share data between threads: each survives them, and
//! its planted bugs are found.

use crate::crash::Crash;
use crate::media::Model;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::{Addr, Image, MemoryExt};
use seawall_workloads::{Flaw, Setup, Visitor, Workload, with_workload};

/// Each with the length of its transactions: crashes come at one in this number of stores and
/// fences.
const APPLICATIONS: [(&str, u64); 4] =
    [("ycsb", 24), ("tpcc", 160), ("vacation", 2), ("memcached", 2)];
const MODELS: [Model; 3] = [Model::Epochs, Model::Px86, Model::Bep];

fn crash(
    (name, one_of): (&str, u64),
    model: Model,
    flaw: Flaw,
    (seed, threads): (u64, usize),
) -> Result<(), String> {
    let run = Crash { model, flaw, seed, threads, one_of, ..Crash::default() };
    with_workload(name, run).expect("a workload of the table")
}

#[test]
fn every_crash_of_an_application_leaves_what_had_committed_and_no_part_of_what_had_not() {
    for app in APPLICATIONS {
        for (seed, model) in (1..=3).flat_map(|seed| MODELS.map(|model| (seed, model))) {
            let found = crash(app, model, Flaw::None, (seed, 1));
            assert_eq!(found, Ok(()), "{} under {model:?} with seed {seed}", app.0);
        }
    }
}

#[test]
fn what_several_threads_of_an_application_commit_is_there_in_their_order() {
    for app in APPLICATIONS {
        for (seed, model) in (1..=3).flat_map(|seed| [(seed, Model::Bep), (seed, Model::Px86)]) {
            let found = crash(app, model, Flaw::None, (seed, 3));
            assert_eq!(found, Ok(()), "{} under {model:?} with seed {seed}", app.0);
        }
    }
}

#[test]
fn a_change_that_its_log_does_not_precede_is_caught() {
    for app in APPLICATIONS {
        for model in MODELS {
            let found = crash(app, model, Flaw::NoOrder, (1, 1));
            assert!(found.is_err(), "{} without the order passes under {model:?}", app.0);
        }
    }
}

#[test]
fn a_log_that_is_not_flushed_is_caught_where_flushes_matter() {
    for app in APPLICATIONS {
        let found = crash(app, Model::Px86, Flaw::NoFlush, (1, 1));
        assert!(found.is_err(), "{} without the flush passes under Px86", app.0);
        assert_eq!(crash(app, Model::Epochs, Flaw::NoFlush, (1, 1)), Ok(()), "{}", app.0);
    }
}

/// Opens pools in which some words are wild.
pub(crate) struct Wild;

impl Visitor for Wild {
    type Output = u64;

    fn visit<W: Workload>(self) -> u64 {
        let setup = Setup { entries: 6, ..Setup::of::<W>(2) };
        let layout = W::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        W::create(&image, &setup);
        let whole = image.into_pm();
        let used: Vec<u64> = (192..whole.len() as u64)
            .step_by(8)
            .filter(|at| whole[*at as usize..*at as usize + 8] != [0; 8])
            .collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut refused = 0;
        for _ in 0..400 {
            let image = Image::from_pm(whole.clone(), layout.dram_bytes);
            for _ in 0..1 + rng.next_u64() % 3 {
                let [at, from] = [0, 1].map(|_| used[rng.next_u64() as usize % used.len()]);
                let wild = match rng.next_u64() % 5 {
                    0 => rng.next_u64(),
                    1 => u64::MAX - rng.next_u64() % 100,
                    2 => rng.next_u64() % 20,
                    3 => at & !63,
                    _ => image.load(Addr::pm(from)),
                };
                let at = if rng.next_u64().is_multiple_of(8) { 192 + 8 * (wild % 256) } else { at };
                image.store(Addr::pm(at), wild);
            }
            let opened = W::open(&image, layout).and_then(|app| app.contents(&image));
            refused += u64::from(opened.is_err());
        }
        refused
    }
}

#[test]
fn wild_bytes_are_refused_and_never_a_panic_or_a_loop() {
    for (name, _) in APPLICATIONS {
        let refused = with_workload(name, Wild).expect("a workload of the table");
        assert!(refused > 80, "{name}: {refused}");
    }
}
