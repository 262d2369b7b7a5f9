//! Handles of any machine: accesses reach the machine, and say where they are made.

use seawall_any::{AnyMemory, AnyStructure, of};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Width};
use seawall_native::{Pool, PoolOptions};
use seawall_workloads::{Hash, History, Setup, Worker, Workload};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex};

#[test]
fn accesses_of_each_width_reach_the_machine_from_the_thread_that_makes_them() {
    let image = Image::new(64, 0);
    let memory = AnyMemory::image_in_turns(&image, 3);
    assert_eq!((memory.thread(), AnyMemory::image(&image).thread()), (3, 0));
    for width in [Width::B1, Width::B2, Width::B4, Width::B8] {
        let value = 0x8877_6655_4433_2211 & width.mask();
        memory.store_bits(Addr::pm(8), width, value);
        assert_eq!(memory.load_bits(Addr::pm(8), width), value);
        assert_eq!(image.load_bits(Addr::pm(8), Width::B8), value, "what is higher stays zero");
    }
    assert!(memory.of_host().is_none());
}

#[test]
fn what_runs_on_the_host_has_the_handle_of_the_host() {
    let pool = Pool::temporary(1 << 16, &PoolOptions::default()).unwrap();
    let host = pool.memory(0);
    let memory = AnyMemory::native(&host);
    memory.store(Addr::pm(0), 7u64);
    assert_eq!(memory.of_host().map(|host| host.load::<u64>(Addr::pm(0))), Some(7));
}

/// The explorer names the lines of a program by this.
#[test]
fn the_place_of_an_access_is_that_of_the_program() {
    let image = Image::new(64, 0);
    let memory = AnyMemory::image(&image);
    let file = Arc::new(Mutex::new(String::new()));
    let told = file.clone();
    let before = take_hook();
    set_hook(Box::new(move |info| {
        *told.lock().unwrap() = info.location().map_or("", |place| place.file()).to_owned();
    }));
    let wrong: [&dyn Fn(); 4] = [
        &|| assert_eq!(memory.load::<u64>(Addr::pm(64)), 0),
        &|| assert_eq!(memory.load::<u16>(Addr::pm(64)), 0),
        &|| memory.store(Addr::pm(64), 1u64),
        &|| memory.store(Addr::pm(64), 1u8),
    ];
    let found = wrong.map(|access| {
        let panicked = catch_unwind(AssertUnwindSafe(access)).is_err();
        (panicked, std::mem::take(&mut *file.lock().unwrap()))
    });
    set_hook(before);
    for (panicked, file) in found {
        assert!(panicked && file.ends_with("handles.rs"), "{file}");
    }
}

/// Runs 50 operations of a workload, and returns what it holds then.
fn fill(memory: &AnyMemory<'_, '_>, setup: &Setup, is_native: bool) -> Vec<(u64, u64)> {
    let hash: Arc<dyn AnyStructure> = of::<Hash>().create(memory, setup);
    let mut joined = match memory.of_host().filter(|_| is_native) {
        Some(host) => hash.join_native(host),
        None => hash.join(memory),
    };
    let mut worker = Worker::new(setup, 0, Arc::new(History::off()));
    while worker.number < 50 {
        joined.step(&mut worker);
        worker.number += 1;
    }
    drop(joined);
    hash.contents(memory).unwrap().into_iter().collect()
}

#[test]
fn a_workload_does_the_same_on_any_machine_and_on_the_bare_host() {
    let setup = Setup { entries: 16, search_percent: 0, ..of::<Hash>().setup(1) };
    let layout = of::<Hash>().layout(&setup);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let expected = fill(&AnyMemory::image(&image), &setup, false);
    assert_ne!(expected.len(), 0);
    for is_native in [false, true] {
        let options = PoolOptions { dram_bytes: layout.dram_bytes, ..PoolOptions::default() };
        let pool = Pool::temporary(layout.pm_bytes, &options).unwrap();
        assert_eq!(fill(&AnyMemory::native(&pool.memory(0)), &setup, is_native), expected);
    }
    let crashed = Image::from_pm(image.into_pm(), layout.dram_bytes);
    let opened = of::<Hash>().open(&AnyMemory::image(&crashed), layout, setup.flaw).unwrap();
    let after: Vec<_> = opened.contents(&AnyMemory::image(&crashed)).unwrap().into_iter().collect();
    assert_eq!(after, expected);
    assert_eq!(of::<Hash>().name(), Hash::NAME);
}
