//! Handles of any machine: accesses reach the machine, and say where they are made.

use seawall_any::{AnyMemory, Joined, of};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Width};
use seawall_native::{Pool, PoolOptions};
use seawall_ribbon::Ribbon;
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

/// Runs 50 operations.
fn run(mut joined: Box<dyn Joined + '_>, setup: &Setup) {
    let mut worker = Worker::new(setup, 0, Arc::new(History::off()));
    while worker.number < 50 {
        joined.step(&mut worker);
        worker.number += 1;
    }
}

#[test]
fn a_workload_does_the_same_on_any_machine_and_on_the_host_with_a_ribbon_and_without() {
    let setup = Setup { entries: 16, search_percent: 0, ..of::<Hash>().setup(1) };
    let layout = of::<Hash>().layout(&setup);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let expected = {
        let memory = AnyMemory::image(&image);
        let hash = of::<Hash>().create(&memory, &setup);
        run(hash.join(&memory), &setup);
        hash.contents(&memory).unwrap()
    };
    assert_ne!(expected.len(), 0);
    let options = PoolOptions { dram_bytes: layout.dram_bytes, ..PoolOptions::default() };
    let pool = || Pool::temporary(layout.pm_bytes, &options).unwrap();
    for is_bare in [false, true] {
        let pool = pool();
        let bare = pool.memory(0);
        let memory = AnyMemory::native(&bare);
        let hash = of::<Hash>().create(&memory, &setup);
        run(if is_bare { hash.join_native(&bare) } else { hash.join(&memory) }, &setup);
        assert_eq!(hash.contents(&memory).unwrap(), expected);
    }
    let pool = pool().flush(Ribbon::auto()).unwrap();
    let hash = of::<Hash>().create(&AnyMemory::native_ribbon(pool.memory(0)), &setup);
    run(hash.join_ribbon(&pool.memory(0)), &setup);
    let after = hash.contents(&AnyMemory::native_ribbon(pool.memory(0))).unwrap();
    assert_eq!(after, expected);
    let crashed = Image::from_pm(image.into_pm(), layout.dram_bytes);
    let opened = of::<Hash>().open(&AnyMemory::image(&crashed), layout, setup.flaw).unwrap();
    assert_eq!(opened.contents(&AnyMemory::image(&crashed)).unwrap(), expected);
    assert_eq!(of::<Hash>().name(), Hash::NAME);
}
