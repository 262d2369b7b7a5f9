//! What counting dirty bytes costs on this machine, against the same program uncounted, in one run.
//!
//! `cargo bench -p seawall-ribbon --bench dirtiness`. Each row runs a program on the machine's
//! memory as it is and through a counting handle in turn, pass by pass, and prints the median time
//! of an operation of each, and the median and the quartiles of the ratios of the pairs. The heap
//! programs commit a redo transaction an operation; the others are the worst that can be: stores,
//! and stores with flushes, and nothing else. Files are in the folder for temporary files
//! (`TMPDIR`).

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::{Pool, PoolOptions};
use seawall_ribbon::Dirtiness;
use seawall_runtime::{Heap, HeapOptions, RouteChoice, Session, TxError};
use std::time::Instant;

const PASSES: usize = 101;
const OPERATIONS: u64 = 4096;

/// Words at one end of the pool, for programs without a heap.
const WORDS: u64 = 1 << 16;

fn nanoseconds(operations: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e9 / operations as f64
}

fn stores(memory: &impl Memory) -> f64 {
    nanoseconds(OPERATIONS, || {
        for number in 0..OPERATIONS {
            memory.store(Addr::pm(8 * (number * 29 % WORDS)), number);
        }
    })
}

fn flushes(memory: &impl Memory) -> f64 {
    nanoseconds(OPERATIONS, || {
        for number in 0..OPERATIONS {
            let at = Addr::pm(8 * (number * 29 % WORDS));
            memory.store(at, number);
            memory.flush(at, 8);
            if number % 8 == 7 {
                memory.drain();
            }
        }
    })
}

/// Objects of three sizes come and go, as entries with keys and values do.
fn objects<M: Memory>(session: &mut Session<'_, M>, slots: &mut [Addr], stores: u64) -> f64 {
    nanoseconds(OPERATIONS, || {
        for number in 0..OPERATIONS {
            let slot = (number * 29 % slots.len() as u64) as usize;
            let old = slots[slot];
            let changed = session.transaction(|tx| {
                let at = tx.alloc(40 + number % 3 * 24)?;
                (0..stores).try_for_each(|word| tx.store(at.plus(8 * word), number))?;
                if !old.is_null() {
                    tx.free(old)?;
                }
                Ok::<_, TxError>(at)
            });
            slots[slot] = changed.expect("room");
        }
    })
}

fn row(name: &str, mut pass: impl FnMut() -> (f64, f64)) {
    let times: Vec<(f64, f64)> = (0..PASSES + 4).map(|_| pass()).skip(4).collect();
    let quartiles = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| values[quarter * (values.len() - 1) / 4])
    };
    let plain = quartiles(times.iter().map(|time| time.0).collect());
    let counted = quartiles(times.iter().map(|time| time.1).collect());
    let ratios = quartiles(times.iter().map(|(plain, counted)| counted / plain).collect());
    println!(
        "{name:34} {:8.1} {:8.1}   {:.3} ({:.3} to {:.3})",
        plain[1], counted[1], ratios[1], ratios[0], ratios[2]
    );
}

fn main() {
    println!("{:34} {:>8} {:>8}   ratio, quartiles", "operation", "ns", "counted");
    let options = HeapOptions { bytes: 4 << 20, bytes_max: 4 << 20, ..HeapOptions::default() };
    let places = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &places).expect("there is room");
    let (plain, below) = (pool.memory(0), pool.memory(0));
    let dirtiness = Dirtiness::new(options.pm_bytes());
    let counted = dirtiness.join(&below);
    row("store", || (stores(&plain), stores(&counted)));
    row("store and flush, a fence for 8", || (flushes(&plain), flushes(&counted)));
    for (name, stores) in [("object of 2 words replaced", 2), ("object of 5 words replaced", 5)] {
        let pools = [(); 2].map(|()| Pool::temporary(options.pm_bytes(), &places).expect("room"));
        let [plain, below] = [pools[0].memory(0), pools[1].memory(0)];
        let dirtiness = Dirtiness::new(options.pm_bytes());
        let counted = dirtiness.join(&below);
        let one = Heap::create(&plain, "bench", 1, &options).expect("good options");
        let other = Heap::create(&counted, "bench", 1, &options).expect("good options");
        let (mut one, mut other) = (one.join(&plain), other.join(&counted));
        one.set_log_route(RouteChoice::Cached);
        other.set_log_route(RouteChoice::Cached);
        let mut slots = [vec![Addr::NULL; 1000], vec![Addr::NULL; 1000]];
        row(name, || {
            let [plain, counted] = &mut slots;
            (objects(&mut one, plain, stores), objects(&mut other, counted, stores))
        });
        let counts = dirtiness.counts();
        println!("{:34} dirtiness {:.1} %", "", 100.0 * counts.dirtiness());
    }
}
