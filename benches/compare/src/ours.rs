//! seawall's side of each operation: the runtime's heap on this machine's memory.
//!
//! The timed code is that of a user's program: each thread joins a session, and runs transactions
//! as closures. The time includes the truncation of the log every few hundred transactions.

pub(crate) mod maps;

use crate::child::{self, Side};
use crate::contender::{Contender, Counts, POOL_BYTES, Sample, timed};
use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, getpid, kill_process};
use seawall_collections::BTree;
use seawall_memory::{Addr, LINE_BYTES};
use seawall_native::{NativeMemory, Pool, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Logging, Session, Tx, TxError};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const NAME: &str = "compare";
const UUID: u128 = 1;
const THREADS: u64 = 2;
const START_BYTES: u64 = 1 << 20;
const FIELD_BYTES: u64 = 256 << 10;
/// Links that a thread can hold.
const LINKS: u64 = crate::pmdk::LINKS;
const LOG_BYTES: u64 = 1 << 20;
const RANGES: u64 = 1000;
/// Ranges of a transaction that adds many.
const MANY: u64 = 1000;
const RANGE_BYTES: u64 = 512;

type Work<'m> = Session<'m, NativeMemory<'m>>;

/// A heap in a pool file.
pub(crate) struct OurPool {
    pool: Pool,
    heap: Heap,
    /// The DRAM that the heap does not use.
    spare: Addr,
}

/// Start of the DRAM that the heap does not use.
fn spare(options: &HeapOptions) -> u64 {
    options.dram_bytes().next_multiple_of(LINE_BYTES)
}

/// A heap that starts small and grows up to `bytes_max`.
fn options(bytes_max: u64) -> HeapOptions {
    HeapOptions {
        bytes: START_BYTES,
        bytes_max,
        threads: THREADS,
        log_bytes: LOG_BYTES,
        root_bytes: 64,
        ..HeapOptions::default()
    }
}

fn native(options: &HeapOptions) -> PoolOptions {
    let dram_bytes = spare(options) + BTree::dram_bytes(BTree::VERSIONS);
    let bytes_max = options.pm_bytes_max();
    PoolOptions { dram_bytes, bytes_max, ..PoolOptions::default() }
}

impl OurPool {
    /// A new pool that may grow to `bytes_max` bytes of objects, and whose programs may store in
    /// place, or not.
    pub(crate) fn create(path: &Path, bytes_max: u64, in_place: bool) -> Result<OurPool> {
        let options = HeapOptions { in_place, ..options(bytes_max) };
        let pool = Pool::create(path, options.pm_bytes(), &native(&options))?;
        let heap = Heap::create(&pool.memory(0), NAME, UUID, &options)?.flushing_early();
        Ok(OurPool { pool, heap, spare: Addr::dram(spare(&options)) })
    }

    /// Recovers the pool at `path`, which was created with the same `bytes_max`.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> Result<OurPool> {
        let options = options(bytes_max);
        let pool = Pool::open(path, &native(&options), |_, _| Ok(()))?;
        let (heap, _) = Heap::open(&pool.memory(0), NAME, pool.bytes())?;
        Ok(OurPool { pool, heap, spare: Addr::dram(spare(&options)) })
    }

    /// Runs `work` in a session of thread 0.
    fn work<T>(&self, work: impl FnOnce(&mut Work<'_>) -> Result<T>) -> Result<T> {
        let memory = self.pool.memory(0);
        let mut session = self.heap.join(&memory);
        work(&mut session)
    }

    /// Objects of `bytes` zeroed bytes, one for each thread.
    fn objects(&self, bytes: u64) -> Result<Vec<Addr>> {
        self.work(|session| {
            let zeros = vec![0; bytes as usize];
            let mut object = || {
                session.transaction(|tx| {
                    let at = tx.alloc(bytes)?;
                    tx.fill(at, &zeros)?;
                    Ok::<Addr, TxError>(at)
                })
            };
            Ok((0..THREADS).map(|_| object()).collect::<Result<Vec<Addr>, TxError>>()?)
        })
    }
}

/// An operation that runs in a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Add and write one range of this number of bytes, commit.
    Tx64(Logging),
    Tx256(Logging),
    Tx1024(Logging),
    Tx64K(Logging),
    /// Add and write 1000 ranges of 64 B, one after the other, commit.
    TxMany(Logging),
    /// The same with four ranges of 64 B.
    TxFour(Logging),
    /// Add and write 64 B, abort.
    TxAbort(Logging),
    /// Allocate 64 B and link them, then unlink and free them.
    AllocFree,
    /// Allocate 64 B and link them in one transaction.
    TxAlloc,
}

/// Does an operation `count` times.
pub(crate) struct Small {
    pool: Rc<OurPool>,
    operation: Operation,
    count: u64,
    fields: Vec<Addr>,
    links: Vec<Addr>,
}

impl Small {
    pub(crate) fn new(pool: &Rc<OurPool>, operation: Operation, count: u64) -> Result<Small> {
        let fields = pool.objects(FIELD_BYTES)?;
        let links = pool.objects(LINKS * 8)?;
        let is_limited = matches!(operation, Operation::TxAlloc);
        let count = if is_limited { count.min(LINKS) } else { count };
        Ok(Small { pool: Rc::clone(pool), operation, count, fields, links })
    }
}

impl Contender for Small {
    fn round(&mut self, threads: usize) -> Result<Vec<Sample>> {
        let (pool, operation, count) = (&*self.pool, self.operation, self.count);
        let (fields, links) = (&self.fields, &self.links);
        let sample = timed(threads, count, |thread, gate| {
            let memory = pool.pool.memory(thread);
            let mut session = pool.heap.join(&memory);
            let places = (fields[thread], links[thread]);
            let before = memory.counters();
            let done = gate.time(|| run(&mut session, operation, places, count));
            let after = memory.counters();
            done?;
            if matches!(operation, Operation::TxAlloc) {
                for i in (0..count).rev() {
                    session.free_from(links[thread].plus(8 * i))?;
                }
            }
            Ok(Some(Counts {
                fences: after.fences - before.fences,
                lines: after.flushed_lines - before.flushed_lines,
            }))
        })?;
        Ok(vec![sample])
    }
}

fn run(
    session: &mut Work<'_>,
    operation: Operation,
    (field, links): (Addr, Addr),
    count: u64,
) -> Result<(), TxError> {
    match operation {
        Operation::Tx64(kind) => changes::<1, 64>(session, kind, field, count),
        Operation::Tx256(kind) => changes::<1, 256>(session, kind, field, count),
        Operation::Tx1024(kind) => changes::<1, 1024>(session, kind, field, count),
        Operation::Tx64K(kind) => changes::<1, 65536>(session, kind, field, count),
        Operation::TxMany(kind) => (0..count).try_for_each(|i| {
            session.transaction_with(kind, |tx| {
                (0..MANY).map(|range| field.plus(256 * range)).try_for_each(|at| {
                    tx.add(&[(at, 64)])?;
                    tx.write(at, &[i as u8; 64])
                })
            })
        }),
        Operation::TxFour(kind) => changes::<4, 64>(session, kind, field, count),
        Operation::TxAbort(kind) => (0..count).try_for_each(|i| abort(session, kind, field, i)),
        Operation::AllocFree => (0..count).try_for_each(|_| {
            session.alloc_into(links, 64, &[])?;
            session.free_from(links)
        }),
        Operation::TxAlloc => (0..count).try_for_each(|i| {
            session.transaction(|tx| {
                let at = tx.alloc(64)?;
                tx.store(links.plus(8 * i), at)
            })
        }),
    }
}

fn changes<const RANGES: usize, const BYTES: usize>(
    session: &mut Work<'_>,
    kind: Logging,
    field: Addr,
    count: u64,
) -> Result<(), TxError> {
    (0..count).try_for_each(|i| {
        session.transaction_with(kind, |tx| change::<RANGES, BYTES>(tx, field, i))
    })
}

/// Adds and writes the ranges of transaction `i`, which are spread evenly over the field.
#[inline]
fn change<const RANGES: usize, const BYTES: usize>(
    tx: &mut Tx<'_, '_, NativeMemory<'_>>,
    field: Addr,
    i: u64,
) -> Result<(), TxError> {
    let part = FIELD_BYTES / RANGES as u64;
    let first = field.plus(i * BYTES as u64 % part);
    let places: [Addr; RANGES] = std::array::from_fn(|range| first.plus(range as u64 * part));
    tx.add(&places.map(|at| (at, BYTES as u64)))?;
    places.iter().try_for_each(|at| tx.write(*at, &[i as u8; BYTES]))
}

/// The error that aborts a transaction on purpose.
enum Ended {
    OnPurpose,
    By(TxError),
}

impl From<TxError> for Ended {
    fn from(error: TxError) -> Ended {
        Ended::By(error)
    }
}

fn abort(session: &mut Work<'_>, kind: Logging, field: Addr, i: u64) -> Result<(), TxError> {
    let outcome = session.transaction_with(kind, |tx| {
        change::<1, 64>(tx, field, i)?;
        Err::<(), Ended>(Ended::OnPurpose)
    });
    match outcome {
        Err(Ended::By(error)) => Err(error),
        Err(Ended::OnPurpose) | Ok(()) => Ok(()),
    }
}

/// Creates a pool that may grow to 1 GiB.
pub(crate) struct Create {
    path: PathBuf,
}

impl Create {
    pub(crate) fn new(folder: &Path) -> Create {
        Create { path: folder.join("created.pool") }
    }
}

impl Contender for Create {
    fn round(&mut self, _: usize) -> Result<Vec<Sample>> {
        let sample = timed(1, 1, |_, gate| {
            gate.time(|| OurPool::create(&self.path, POOL_BYTES, false))?;
            Ok(None)
        })?;
        fs::remove_file(&self.path)?;
        Ok(vec![sample])
    }
}

/// Opens a pool whose last user was killed in a transaction, and allocates once.
pub(crate) struct Reopen {
    path: PathBuf,
}

impl Reopen {
    pub(crate) fn new(folder: &Path, objects: u64) -> Result<Reopen> {
        let path = folder.join("killed.pool");
        let pool = OurPool::create(&path, POOL_BYTES, false)?;
        pool.work(|session| {
            let ranges = session.transaction(|tx| tx.alloc(RANGES * RANGE_BYTES))?;
            session.transaction(|tx| tx.store(pool.heap.root(), ranges))?;
            (0..objects).try_for_each(|_| allocate(session))
        })?;
        Ok(Reopen { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn allocate(session: &mut Work<'_>) -> Result<()> {
    session.transaction(|tx| tx.alloc(64))?;
    Ok(())
}

impl Contender for Reopen {
    fn round(&mut self, _: usize) -> Result<Vec<Sample>> {
        child::killed_in_transaction(Side::Ours, &self.path)?;
        let sample = timed(1, 1, |_, gate| {
            gate.time(|| {
                let pool = OurPool::open(&self.path, POOL_BYTES)?;
                pool.work(allocate)?;
                Ok::<OurPool, anyhow::Error>(pool)
            })?;
            Ok(None)
        })?;
        Ok(vec![sample])
    }
}

/// Opens the pool at `path`, adds and overwrites 1000 ranges of 512 B, and dies by `SIGKILL`.
///
/// # Errors
/// Always, when it returns.
pub(crate) fn die_in_transaction(path: &Path) -> Result<()> {
    let pool = OurPool::open(path, POOL_BYTES)?;
    pool.work(|session| {
        let ranges: Addr = session.load(pool.heap.root());
        ensure!(!ranges.is_null(), "the pool has no ranges to change");
        session.transaction_with(Logging::Undo, |tx| {
            for range in 0..RANGES {
                let at = ranges.plus(range * RANGE_BYTES);
                tx.add(&[(at, RANGE_BYTES)])?;
                tx.write(at, &[range as u8; RANGE_BYTES as usize])?;
            }
            let _refused = kill_process(getpid(), Signal::KILL);
            Ok::<(), TxError>(())
        })?;
        Ok(())
    })
    .context("still alive")
}
