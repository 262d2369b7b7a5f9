//! One hot path of the library, so often and nothing else, so that its instructions can be counted:
//! `cargo run -p seawall-xtask -- counts` runs it under Valgrind and compares them with
//! `validation/instructions.toml`.
//!
//! `cargo bench -p seawall --bench paths` lists the paths, `-- NAME TIMES` runs one.

use seawall::{Error, Map, MapField, Options, Persist};
use seawall_collections::{KvMap, MapOptions};
use seawall_memory::Addr;
use seawall_native::{NativeMemory, Pool as File, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Logging, RouteChoice, Session};
use std::hint::black_box;

const KEYS: u64 = 1000;

#[derive(Clone, Copy, Persist)]
struct Root {
    numbers: Map<u64, u64>,
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Runs a path so often.
type Path = fn(u64) -> Outcome;

/// The paths and their names.
const PATHS: &[(&str, Path)] = &[
    ("pool-read", |times| maps(times, Way::Nothing)),
    ("map-get", |times| maps(times, Way::Get)),
    ("map-insert", |times| maps(times, Way::Insert)),
    ("pool-insert", |times| maps(times, Way::PoolInsert)),
    ("kv-get", kv_get),
    ("tx-64-undo", |times| changes(times, Logging::Undo, 64)),
    ("tx-1024-undo", |times| changes(times, Logging::Undo, 1024)),
    ("tx-64-redo", |times| changes(times, Logging::Redo, 64)),
    ("alloc-free", alloc_free),
];

/// What is done with a map of a pool.
#[derive(Clone, Copy)]
enum Way {
    /// A read of the pool that reads nothing.
    Nothing,
    /// Look-ups in one read.
    Get,
    /// Each key again, in a transaction of its own, by one handle.
    Insert,
    /// The same without a handle.
    PoolInsert,
}

fn maps(times: u64, way: Way) -> Outcome {
    let folder = tempfile::tempdir()?;
    let options = Options::default().threads(1);
    let pool = seawall::open::<Root>(folder.path().join("a.pool"), options)?;
    let insert = |key: u64| {
        pool.transaction(|tx, root| root.at(Root::NUMBERS).insert(tx, &key, &key)).map(drop)
    };
    (0..KEYS).try_for_each(insert)?;
    let mut keys = (0..times).map(|i| i % KEYS);
    match way {
        Way::Nothing => keys.try_for_each(|_| pool.read(|_, _| Ok::<_, Error>(()))),
        Way::Get => pool.read(|view, root| {
            keys.try_for_each(|key| {
                let found = root.at(Root::NUMBERS).get(view, &key)?;
                black_box(found);
                Ok::<_, Error>(())
            })
        }),
        Way::Insert => pool.work(|thread| {
            keys.try_for_each(|key| {
                thread
                    .transaction(|tx, root| root.at(Root::NUMBERS).insert(tx, &key, &key))
                    .map(drop)
            })
        }),
        Way::PoolInsert => keys.try_for_each(insert),
    }?;
    Ok(())
}

/// A session on a mapped pool.
type Work<'m> = Session<'m, NativeMemory<'m>>;

/// Runs `work` in a session on a new heap.
fn in_heap(work: impl FnOnce(&mut Work<'_>) -> Outcome) -> Outcome {
    let options = HeapOptions { threads: 1, root_bytes: 64, in_place: true, ..Default::default() };
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let file = File::temporary(options.pm_bytes(), &file)?;
    let memory = file.memory(0);
    let heap = Heap::create(&memory, "paths", 1, &options)?;
    let mut session = heap.join(&memory);
    // The adaptive one asks a clock, and so takes other instructions in each run.
    session.set_log_route(RouteChoice::Uncached);
    work(&mut session)
}

/// The table of byte strings without a field around it.
fn kv_get(times: u64) -> Outcome {
    in_heap(|session| {
        let (link, small) = (session.heap().root(), MapOptions { segment_lines: 16, depth: 1 });
        let map = session.transaction(|tx| KvMap::create(tx, link, &small))?;
        for key in 0..KEYS {
            map.insert(session, &key.to_le_bytes(), &key.to_le_bytes())?;
        }
        for i in 0..times {
            black_box(map.get(session.memory(), &(i % KEYS).to_le_bytes())?);
        }
        Ok(())
    })
}

/// Transactions that each add and write one range.
fn changes(times: u64, kind: Logging, bytes: u64) -> Outcome {
    in_heap(|session| {
        let at: Addr = session.transaction(|tx| tx.alloc(bytes))?;
        let mut content = vec![0; bytes as usize];
        for i in 0..times {
            content.fill(i as u8);
            session.transaction_with(kind, |tx| {
                tx.add(&[(at, bytes)])?;
                tx.write(at, &content)
            })?;
        }
        Ok(())
    })
}

fn alloc_free(times: u64) -> Outcome {
    in_heap(|session| {
        let link = session.heap().root();
        for _ in 0..times {
            session.alloc_into(link, 64, &[])?;
            session.free_from(link)?;
        }
        Ok(())
    })
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [name, times] = &words[..] else {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let (_, path) = PATHS.iter().find(|(known, _)| known == name).ok_or("no such path")?;
    path(times.parse()?)
}
