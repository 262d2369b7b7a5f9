//! On this machine, with flushers that are threads.

use super::scene::EVERY_SOURCE;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::{NativeMemory, Pool, PoolOptions};
use seawall_ribbon::threads::{Crew, with_flushers};
use seawall_ribbon::{Mode, Ribbon, RibbonCounts, RibbonOptions};
use seawall_runtime::Arena;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const LINES: u64 = 64;

fn place(options: &RibbonOptions) -> (Pool, Ribbon, Addr) {
    let mut arena = Arena::new();
    let ribbon = Ribbon::place(&mut arena, options).expect("good options");
    let data = arena.pm(options.threads * LINES * 64);
    let pool = PoolOptions { dram_bytes: arena.dram_bytes(), ..PoolOptions::default() };
    (Pool::temporary(arena.pm_bytes().max(4096), &pool).expect("there is room"), ribbon, data)
}

fn write(crew: &Crew, pool: &Pool, thread: u64, data: Addr, rounds: u64) {
    let memory = pool.memory(thread as usize);
    let memory = crew.join(&memory);
    let own = data.plus(thread * LINES * 64);
    for round in 1..=rounds {
        for line in 0..LINES {
            memory.store(own.plus(64 * line), round);
            memory.flush(own.plus(64 * line), 8);
        }
        memory.drain();
    }
}

fn run(options: &RibbonOptions, rounds: u64) -> (RibbonCounts, u64) {
    let (pool, ribbon, data) = place(options);
    let lost = with_flushers(
        &ribbon,
        |thread| pool.memory(thread),
        |crew| {
            std::thread::scope(|scope| {
                for thread in 0..options.threads {
                    let pool = &pool;
                    scope.spawn(move || write(crew, pool, thread, data, rounds));
                }
            });
            crew.lost()
        },
    );
    let memory = pool.memory(0);
    for line in 0..options.threads * LINES {
        assert_eq!(memory.load::<u64>(data.plus(64 * line)), rounds);
    }
    (ribbon.counts(&memory), lost)
}

#[test]
fn every_line_is_executed_by_somebody() {
    for (threads, flushers) in [(1, 0), (1, 1), (2, 1), (2, 3)] {
        for early in &EVERY_SOURCE[..if flushers == 0 { 1 } else { EVERY_SOURCE.len() }] {
            let options = RibbonOptions {
                mode: Mode::Always,
                early: *early,
                ..RibbonOptions::for_processors(threads, flushers)
            };
            let (counts, _) = run(&options, 200);
            let all = counts.pushed + counts.skipped + counts.full + counts.inline;
            assert_eq!(all, 200 * threads * LINES, "{counts:?}");
            assert_eq!(counts.depth, 0);
            if counts.takeovers == 0 {
                assert_eq!(counts.by_flushers + counts.by_owners, counts.pushed, "{counts:?}");
            }
        }
    }
}

#[test]
fn auto_decides_for_one_of_the_two_and_all_lines_are_counted() {
    let (counts, _) = run(&RibbonOptions::for_processors(1, 1), 2_000);
    assert_eq!(counts.pushed + counts.inline + counts.full, 2_000 * LINES, "{counts:?}");
    assert!(counts.inline >= 64 * LINES, "it begins without flushers: {counts:?}");
    assert!(counts.pushed > 0, "it tries them: {counts:?}");
}

#[test]
fn flushers_that_panic_are_counted_and_hang_nobody() {
    let options = RibbonOptions { mode: Mode::Always, ..RibbonOptions::for_processors(1, 2) };
    let (pool, ribbon, data) = place(&options);
    let handle = |thread: usize| -> NativeMemory<'_> {
        assert!(thread != 1, "this flusher gets no memory");
        pool.memory(thread)
    };
    let lost = with_flushers(&ribbon, handle, |crew| {
        write(crew, &pool, 0, data, 50);
        while crew.lost() == 0 {
            std::thread::yield_now();
        }
        write(crew, &pool, 0, data, 50);
        crew.lost()
    });
    assert_eq!(lost, 1);
    assert_eq!(ribbon.counts(&pool.memory(0)).pushed, 100 * LINES);
}

#[test]
fn if_the_flusher_that_estimates_panics_all_others_work() {
    let (pool, ribbon, _) = place(&RibbonOptions::for_processors(1, 3));
    let is_first = AtomicBool::new(true);
    let handle = |thread: usize| {
        assert!(thread != 1 || !is_first.swap(false, Relaxed), "no memory at first");
        pool.memory(thread)
    };
    ribbon.set_active(&pool.memory(0), 1);
    with_flushers(&ribbon, handle, |crew| {
        while crew.lost() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(ribbon.active(&pool.memory(0)), 3);
    });
}

#[test]
fn a_body_that_panics_ends_the_flushers() {
    let (pool, ribbon, data) = place(&RibbonOptions::for_processors(1, 2));
    let panics = AssertUnwindSafe(|| {
        with_flushers(
            &ribbon,
            |thread| pool.memory(thread),
            |crew| {
                write(crew, &pool, 0, data, 5);
                panic!("a bug of the program")
            },
        )
    });
    assert!(catch_unwind(panics).is_err());
}
