//! One hot path of the library, so often and nothing else, so that its instructions can be counted:
//! `cargo run -p seawall-xtask -- counts` runs it under Valgrind and compares them with
//! `validation/instructions.toml`.
//!
//! `cargo bench -p seawall --bench paths` lists the paths, `-- NAME TIMES` runs one.

use seawall::{Error, Map, MapField, Options, Persist};
use seawall_memory::{Addr, Memory};
use seawall_native::{Pool as File, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Logging, Session, TxError};
use std::hint::black_box;

const KEYS: u64 = 1000;

#[derive(Clone, Copy, Persist)]
struct Root {
    numbers: Map<u64, u64>,
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The names of the paths, and what runs each so often.
const PATHS: &[(&str, fn(u64) -> Outcome)] = &[
    ("map-get", |times| maps(times, false)),
    ("map-insert", |times| maps(times, true)),
    ("tx-64-undo", |times| changes(times, Logging::Undo, 64)),
    ("tx-1024-undo", |times| changes(times, Logging::Undo, 1024)),
    ("tx-64-redo", |times| changes(times, Logging::Redo, 64)),
    ("alloc-free", alloc_free),
];

/// Looks up the keys of a map in one read, or inserts each again in a transaction of its own.
fn maps(times: u64, inserts: bool) -> Outcome {
    let folder = tempfile::tempdir()?;
    let options = Options::default().threads(1);
    let pool = seawall::open::<Root>(folder.path().join("a.pool"), options)?;
    let insert = |key: u64| {
        pool.transaction(|tx, root| root.at(Root::NUMBERS).insert(tx, &key, &key)).map(drop)
    };
    (0..KEYS).try_for_each(insert)?;
    if inserts {
        return Ok((0..times).try_for_each(|i| insert(i % KEYS))?);
    }
    pool.read(|view, root| {
        for i in 0..times {
            black_box(root.at(Root::NUMBERS).get(view, &(i % KEYS))?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}

/// Runs `work` in a session on a new heap.
fn in_heap(work: impl FnOnce(&mut dyn Paths) -> Result<(), TxError>) -> Outcome {
    let options = HeapOptions { threads: 1, root_bytes: 64, in_place: true, ..Default::default() };
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let file = File::temporary(options.pm_bytes(), &file)?;
    let memory = file.memory(0);
    let heap = Heap::create(&memory, "paths", 1, &options)?;
    let mut session = heap.join(&memory);
    Ok(work(&mut session)?)
}

/// The paths of a session.
trait Paths {
    fn change(&mut self, times: u64, kind: Logging, bytes: u64) -> Result<(), TxError>;
    fn alloc_free(&mut self, times: u64) -> Result<(), TxError>;
}

impl<M: Memory> Paths for Session<'_, M> {
    fn change(&mut self, times: u64, kind: Logging, bytes: u64) -> Result<(), TxError> {
        let at: Addr = self.transaction(|tx| tx.alloc(bytes))?;
        let mut content = vec![0; bytes as usize];
        (0..times).try_for_each(|i| {
            content.fill(i as u8);
            self.transaction_with(kind, |tx| {
                tx.add(&[(at, bytes)])?;
                tx.write(at, &content)
            })
        })
    }

    fn alloc_free(&mut self, times: u64) -> Result<(), TxError> {
        let link = self.heap().root();
        (0..times).try_for_each(|_| {
            self.alloc_into(link, 64, &[])?;
            self.free_from(link)
        })
    }
}

fn changes(times: u64, kind: Logging, bytes: u64) -> Outcome {
    in_heap(|session| session.change(times, kind, bytes))
}

fn alloc_free(times: u64) -> Outcome {
    in_heap(|session| session.alloc_free(times))
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
