//! Kernels with checkpoints compute the plain result, also after any crash, from the last complete
//! checkpoint on.

use crate::machines::{Event, Recorder, Shared};
use crate::media::{Media, Model};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::Image;
use seawall_workloads::kernels::{Lu, Ocean, Radix};
use seawall_workloads::{Checkpointed, Flaw, History, Input, Kernel, Layout, Phased};
use std::sync::{Arc, Barrier};

/// Runs all threads of `input` at once.
fn run<K: Kernel>(kernel: &K, memory: &Shared, threads: usize) {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (memory, kernel, start) = (memory.of(thread), kernel.clone(), &start);
            scope.spawn(move || {
                start.wait();
                kernel.run(&memory);
            });
        }
    });
}

fn shared<K: Phased>() {
    for threads in [1, 4, 24] {
        let input = Input { threads, size: K::SMALL, seed: 1 };
        let layout = Checkpointed::<K>::layout(&input);
        let memory = Shared::new(layout.pm_bytes, layout.dram_bytes);
        let kernel = Checkpointed::<K>::create(&memory, &input);
        assert_eq!(kernel.recover(&memory), Ok(0), "the input is a checkpoint");
        run(&kernel, &memory, threads);
        assert_eq!(kernel.check(&memory), Ok(()), "{} with {threads} threads", K::NAME);
        let phases = kernel.recover(&memory).expect("the last checkpoint");
        assert!(phases >= 2, "{}", K::NAME);
        assert_eq!(kernel.check(&memory), Ok(()), "it is the result");
    }
}

#[test]
fn a_kernel_with_checkpoints_gives_the_plain_result_and_its_last_checkpoint_is_the_result() {
    shared::<Lu>();
    shared::<Radix>();
    shared::<Ocean>();
}

/// Crashes a run of one thread at some of its fences and stores, and continues each; returns the
/// least and the greatest number of recovered phases.
fn crashed<K: Phased>(model: Model, flaw: Flaw) -> Result<(u64, u64), String> {
    let input = Input { threads: 1, size: K::SMALL, seed: 1 };
    let layout = Checkpointed::<K>::layout(&input);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let kernel = Checkpointed::<K>::create(&image, &input).with_flaw(flaw);
    let mut media = Media::new(model, 1, image.clone().into_pm());
    let recorder = Recorder::new(image, Arc::new(History::new()));
    kernel.run(&recorder);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut done, mut found) = (0, (u64::MAX, 0));
    let events = recorder.into_events();
    let stores_apart = events.len() as u64 / 20;
    for moment in &events {
        let samples = match moment.event {
            Event::Drain | Event::Done => 3,
            Event::Store { .. } => u64::from(rng.next_u64().is_multiple_of(stores_apart)),
            _ => 0,
        };
        for _ in 0..samples {
            let phases = go_on(&kernel, media.image(&mut rng), layout)?;
            if phases < done {
                return Err(format!("checkpoint {done} was complete, {phases} was recovered"));
            }
            found = (found.0.min(phases), found.1.max(phases));
        }
        media.see(moment);
        done += u64::from(matches!(moment.event, Event::Done));
    }
    Ok(found)
}

fn go_on<K: Phased>(
    kernel: &Checkpointed<K>,
    image: Vec<u8>,
    layout: Layout,
) -> Result<u64, String> {
    let image = Image::from_pm(image, layout.dram_bytes);
    let kernel = kernel.clone().with_flaw(Flaw::None);
    let phases = kernel.recover(&image).map_err(|damage| damage.to_string())?;
    kernel.run(&image);
    kernel.check(&image).map_err(|damage| damage.to_string())?;
    Ok(phases)
}

#[test]
fn a_run_that_a_crash_cut_short_goes_on_from_the_last_complete_checkpoint() {
    for model in [Model::Epochs, Model::Px86, Model::Bep] {
        let results = [
            crashed::<Lu>(model, Flaw::None),
            crashed::<Radix>(model, Flaw::None),
            crashed::<Ocean>(model, Flaw::None),
        ];
        for (result, phases) in results.into_iter().zip([4, 2, 2]) {
            let (least, most) = result.unwrap_or_else(|error| panic!("{model:?}: {error}"));
            assert_eq!(least, 0, "some crash came before the first checkpoint");
            assert!(most >= phases - 1, "{model:?}: {most} of {phases}");
        }
    }
}

#[test]
fn a_checkpoint_that_is_committed_before_it_is_durable_is_caught() {
    for model in [Model::Epochs, Model::Px86, Model::Bep] {
        assert!(crashed::<Lu>(model, Flaw::NoOrder).is_err(), "{model:?}");
    }
    assert!(crashed::<Ocean>(Model::Px86, Flaw::NoFlush).is_err());
    assert!(crashed::<Radix>(Model::Px86, Flaw::NoFlush).is_err());
}
