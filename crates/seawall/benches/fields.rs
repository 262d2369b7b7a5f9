//! What a look-up in a field costs, and which part of it is the facade's.
//!
//! `cargo bench -p seawall --bench fields`. Nanoseconds for each operation, medians of some rounds,
//! in a pool of one thread on a file in the folder for temporary files; the last lines are the map
//! of `seawall-collections` without a field around it.

use seawall::{BTree, Error, Map, MapField, Options, Persist};
use seawall_collections::{KvMap, MapOptions};
use seawall_native::{Pool as File, PoolOptions};
use seawall_runtime::{Heap, HeapOptions};
use std::hint::black_box;
use std::time::Instant;

const KEYS: u64 = 1000;
const OPERATIONS: u64 = 100_000;
const ROUNDS: usize = 7;

#[derive(Clone, Copy, Persist)]
struct Root {
    numbers: Map<u64, u64>,
    names: Map<str, str>,
    order: BTree<u64, u64>,
    sorted: BTree<str, u64>,
}

/// Prints the median of the rounds of `run`, which runs `OPERATIONS` operations.
fn measure(what: &str, mut run: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed().as_secs_f64() * 1e9 / OPERATIONS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{what:<44} {:>8.0} ns", rounds[ROUNDS / 2]);
}

fn name(key: u64) -> String {
    format!("a key of some length {key}")
}

fn fields() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let options = Options::default().threads(1);
    let pool = seawall::open::<Root>(folder.path().join("a.pool"), options)?;
    let names: Vec<String> = (0..KEYS).map(name).collect();
    for key in 0..KEYS {
        pool.transaction(|tx, root| {
            root.at(Root::NUMBERS).insert(tx, &key, &key)?;
            root.at(Root::ORDER).insert(tx, &key, &key)?;
            root.at(Root::SORTED).insert(tx, &names[key as usize], &key)?;
            root.at(Root::NAMES).insert(tx, &names[key as usize], &names[key as usize]).map(drop)
        })?;
    }
    measure("Pool::read of nothing", || {
        (0..OPERATIONS).for_each(|_| pool.read(|_, _| Ok::<_, Error>(())).expect("whole"));
    });
    measure("Pool::read, Map<u64, u64>::get", || {
        for key in 0..OPERATIONS {
            let key = key % KEYS;
            let found = pool.read(|view, root| root.at(Root::NUMBERS).get(view, &key));
            black_box(found.expect("whole"));
        }
    });
    pool.work(|thread| {
        measure("Thread::read of nothing", || {
            (0..OPERATIONS).for_each(|_| thread.read(|_, _| Ok::<_, Error>(())).expect("whole"));
        });
    });
    pool.read(|view, root| {
        measure("Map<u64, u64>::get in a read", || {
            for key in 0..OPERATIONS {
                let found = root.at(Root::NUMBERS).get(view, &(key % KEYS));
                black_box(found.expect("whole"));
            }
        });
        measure("Map<str, str>::get in a read", || {
            for key in 0..OPERATIONS {
                let found = root.at(Root::NAMES).get(view, &names[(key % KEYS) as usize]);
                black_box(found.expect("whole"));
            }
        });
        measure("BTree<u64, u64>::get in a read", || {
            for key in 0..OPERATIONS {
                let found = root.at(Root::ORDER).get(view, &(key % KEYS));
                black_box(found.expect("whole"));
            }
        });
        measure("BTree<str, u64>::get in a read", || {
            for key in 0..OPERATIONS {
                let found = root.at(Root::SORTED).get(view, &names[(key % KEYS) as usize]);
                black_box(found.expect("whole"));
            }
        });
        Ok::<_, Error>(())
    })?;
    measure("Pool::transaction, Map<u64, u64>::insert", || {
        for key in 0..OPERATIONS {
            let key = key % KEYS;
            let old = pool.transaction(|tx, root| root.at(Root::NUMBERS).insert(tx, &key, &key));
            black_box(old.expect("room"));
        }
    });
    Ok(())
}

fn bare() -> Result<(), Box<dyn std::error::Error>> {
    let options = HeapOptions { threads: 1, ..HeapOptions::default() };
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let file = File::temporary(options.pm_bytes(), &file)?;
    let memory = file.memory(0);
    let heap = Heap::create(&memory, "bare", 1, &options)?;
    let mut session = heap.join(&memory);
    let map = session.transaction(|tx| {
        KvMap::create(tx, heap.root(), &MapOptions { segment_lines: 16, depth: 1 })
    })?;
    for key in 0..KEYS {
        map.insert(&mut session, &key.to_le_bytes(), &key.to_le_bytes())?;
    }
    measure("KvMap::get, 8 bytes to 8", || {
        for key in 0..OPERATIONS {
            black_box(map.get(&memory, &(key % KEYS).to_le_bytes()).expect("sound"));
        }
    });
    measure("KvMap::insert, 8 bytes to 8", || {
        for key in 0..OPERATIONS {
            let key = (key % KEYS).to_le_bytes();
            black_box(map.insert(&mut session, &key, &key).expect("room"));
        }
    });
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fields()?;
    bare()
}
