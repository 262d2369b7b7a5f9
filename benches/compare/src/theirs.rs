//! libpmemobj's side of each operation.

use crate::child;
use crate::contender::{Contender, Counts, Gate, POOL_BYTES, Sample, timed};
use crate::keys::Keys;
use crate::pmdk::{self, LINKS, MapKind, Operation, Pool};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Runs `work` inside the gate, counting if the counting library is there.
fn counted(gate: &Gate<'_>, work: impl FnOnce() -> Result<()>) -> Result<Option<Counts>> {
    let read = || pmdk::counts().map(|(fences, lines)| Counts { fences, lines });
    let before = read();
    gate.time(work)?;
    Ok(read().zip(before).map(|(after, before)| after.since(before)))
}

/// An operation that is one call in a loop.
pub(crate) struct Small {
    pool: Rc<Pool>,
    operation: Operation,
    count: u64,
}

impl Small {
    pub(crate) fn new(pool: &Rc<Pool>, operation: Operation, count: u64) -> Small {
        let is_limited = matches!(operation, Operation::TxAlloc);
        let count = if is_limited { count.min(LINKS) } else { count };
        Small { pool: Rc::clone(pool), operation, count }
    }
}

impl Contender for Small {
    fn round(&mut self, threads: usize) -> Result<Vec<Sample>> {
        let (pool, operation, count) = (&*self.pool, self.operation, self.count);
        let sample = timed(threads, count, |thread, gate| {
            counted(gate, || pool.run(operation, thread, count))
        })?;
        if matches!(operation, Operation::TxAlloc) {
            for thread in 0..threads {
                pool.run(Operation::FreeLinked, thread, 0)?;
            }
        }
        Ok(vec![sample])
    }
}

/// Insert, look up and remove all keys, starting and ending with an empty map.
pub(crate) struct Map {
    pool: Rc<Pool>,
    kind: MapKind,
    keys: Rc<Keys>,
}

impl Map {
    pub(crate) fn new(pool: &Rc<Pool>, kind: MapKind, keys: &Rc<Keys>) -> Map {
        Map { pool: Rc::clone(pool), kind, keys: Rc::clone(keys) }
    }
}

impl Contender for Map {
    fn round(&mut self, threads: usize) -> Result<Vec<Sample>> {
        let map = self.pool.map(self.kind, threads > 1)?;
        let (keys, share) = (&*self.keys, self.keys.share(threads));
        let insert = timed(threads, share, |thread, gate| {
            let mine = keys.inserted(thread, threads);
            counted(gate, || map.insert(mine))
        })?;
        let lookup = timed(threads, share, |thread, gate| {
            let mine = keys.looked_up(thread, threads);
            counted(gate, || {
                let found = map.lookup(mine);
                ensure!(found == mine.len(), "{:?}: {found} of {} keys", self.kind, mine.len());
                Ok(())
            })
        })?;
        let remove = timed(threads, share, |thread, gate| {
            let mine = keys.removed(thread, threads);
            counted(gate, || map.remove(mine))
        })?;
        ensure!(map.count() == 0, "{:?} holds {} keys of none", self.kind, map.count());
        map.delete()?;
        Ok(vec![insert, lookup, remove])
    }
}

/// Makes a pool of 1 GiB.
pub(crate) struct Create {
    path: PathBuf,
}

impl Create {
    pub(crate) fn new(folder: &Path) -> Create {
        Create { path: folder.join("created.pmdk") }
    }
}

impl Contender for Create {
    fn round(&mut self, _: usize) -> Result<Vec<Sample>> {
        let sample = timed(1, 1, |_, gate| {
            gate.time(|| Pool::create(&self.path, POOL_BYTES))?;
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
        let path = folder.join("killed.pmdk");
        let pool = Pool::create(&path, POOL_BYTES)?;
        pool.run(Operation::AllocLost, 0, objects)?;
        Ok(Reopen { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Contender for Reopen {
    fn round(&mut self, _: usize) -> Result<Vec<Sample>> {
        child::killed_in_transaction(child::Side::Theirs, &self.path)?;
        let sample = timed(1, 1, |_, gate| {
            gate.time(|| {
                let pool = Pool::open(&self.path)?;
                pool.run(Operation::AllocLost, 0, 1)?;
                Ok::<Pool, anyhow::Error>(pool)
            })?;
            Ok(None)
        })?;
        Ok(vec![sample])
    }
}
