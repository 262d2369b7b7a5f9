//! seawall's maps, run as `pmdk/map.c` runs libpmemobj's.

use super::{OurPool, Work};
use crate::contender::{Contender, Counts, Sample, timed};
use crate::keys::Keys;
use anyhow::{Result, ensure};
use seawall_collections::BTree;
use seawall_collections::{Map, MapOptions};
use seawall_memory::Addr;
use seawall_runtime::TxError;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Bytes of a pool for each key: the largest map of this folder, twice.
const BYTES_PER_KEY: u64 = 128;
/// Objects that touch the pool before it is measured.
const TOUCH_BYTES: u64 = 1 << 20;

/// A map from `u64` to `u64`, found at the root of its pool; each thread opens it for itself.
pub(crate) trait Keyed: Sized {
    fn create(pool: &OurPool, session: &mut Work<'_>) -> Result<()>;
    fn open(pool: &OurPool, session: &mut Work<'_>) -> Result<Self>;
    fn insert(&self, session: &mut Work<'_>, key: u64, value: u64) -> Result<()>;
    fn get(&self, session: &mut Work<'_>, key: u64) -> Result<Option<u64>>;
    fn remove(&self, session: &mut Work<'_>, key: u64) -> Result<Option<u64>>;
}

impl Keyed for Map {
    fn create(pool: &OurPool, session: &mut Work<'_>) -> Result<()> {
        session.transaction(|tx| Map::create(tx, pool.heap.root(), &MapOptions::default()))?;
        Ok(())
    }

    fn open(pool: &OurPool, session: &mut Work<'_>) -> Result<Map> {
        Ok(Map::open(session, pool.heap.root())?)
    }

    fn insert(&self, session: &mut Work<'_>, key: u64, value: u64) -> Result<()> {
        self.insert(session, key, value)?;
        Ok(())
    }

    fn get(&self, session: &mut Work<'_>, key: u64) -> Result<Option<u64>> {
        Ok(self.get(session.memory(), key)?)
    }

    fn remove(&self, session: &mut Work<'_>, key: u64) -> Result<Option<u64>> {
        Ok(self.remove(session, key)?)
    }
}

impl Keyed for BTree {
    fn create(pool: &OurPool, session: &mut Work<'_>) -> Result<()> {
        BTree::create(session, pool.heap.root(), pool.spare, BTree::VERSIONS)?;
        Ok(())
    }

    fn open(pool: &OurPool, session: &mut Work<'_>) -> Result<BTree> {
        Ok(BTree::open(session, pool.heap.root(), pool.spare, BTree::VERSIONS)?)
    }

    fn insert(&self, session: &mut Work<'_>, key: u64, value: u64) -> Result<()> {
        self.insert(session, key, value)?;
        Ok(())
    }

    fn get(&self, session: &mut Work<'_>, key: u64) -> Result<Option<u64>> {
        Ok(self.get(session, key)?)
    }

    fn remove(&self, session: &mut Work<'_>, key: u64) -> Result<Option<u64>> {
        Ok(self.remove(session, key)?)
    }
}

/// Insert, look up and remove all keys, in a new pool each round.
pub(crate) struct Maps<K> {
    path: PathBuf,
    keys: Rc<Keys>,
    kind: PhantomData<K>,
}

impl<K: Keyed> Maps<K> {
    pub(crate) fn new(folder: &Path, keys: &Rc<Keys>) -> Maps<K> {
        Maps { path: folder.join("map.pool"), keys: Rc::clone(keys), kind: PhantomData }
    }

    fn phases(&self, pool: &OurPool, threads: usize) -> Result<Vec<Sample>> {
        let (keys, share) = (&*self.keys, self.keys.share(threads));
        let phase = |what: fn(&K, &mut Work<'_>, &[u64]) -> Result<()>,
                     part: fn(&Keys, usize, usize) -> &[u64]| {
            timed(threads, share, |thread, gate| {
                let memory = pool.pool.memory(thread);
                let mut session = pool.heap.join(&memory);
                let map = K::open(pool, &mut session);
                let before = memory.counters();
                gate.time(|| what(&map?, &mut session, part(keys, thread, threads)))?;
                let after = memory.counters();
                Ok(Some(Counts {
                    fences: after.fences - before.fences,
                    lines: after.flushed_lines - before.flushed_lines,
                }))
            })
        };
        Ok(vec![
            phase(insert_all, Keys::inserted)?,
            phase(look_up_all, Keys::looked_up)?,
            phase(remove_all, Keys::removed)?,
        ])
    }
}

fn insert_all<K: Keyed>(map: &K, session: &mut Work<'_>, keys: &[u64]) -> Result<()> {
    keys.iter().try_for_each(|key| map.insert(session, *key, key | 1))
}

fn look_up_all<K: Keyed>(map: &K, session: &mut Work<'_>, keys: &[u64]) -> Result<()> {
    let mut found = 0;
    for key in keys {
        found += usize::from(map.get(session, *key)? == Some(key | 1));
    }
    ensure!(found == keys.len(), "{found} of {} keys", keys.len());
    Ok(())
}

fn remove_all<K: Keyed>(map: &K, session: &mut Work<'_>, keys: &[u64]) -> Result<()> {
    for key in keys {
        ensure!(map.remove(session, *key)?.is_some(), "key {key} is not there");
    }
    Ok(())
}

/// Grows the pool and touches its pages, as the round that does not count does for libpmemobj's.
fn touch(session: &mut Work<'_>, bytes: u64) -> Result<()> {
    let zeros = vec![0; TOUCH_BYTES as usize];
    let mut objects: Vec<Addr> = Vec::new();
    for _ in 0..bytes.div_ceil(TOUCH_BYTES) {
        objects.push(session.transaction(|tx| {
            let at = tx.alloc(TOUCH_BYTES)?;
            tx.fill(at, &zeros)?;
            Ok::<Addr, TxError>(at)
        })?);
    }
    objects.into_iter().rev().try_for_each(|at| session.transaction(|tx| tx.free(at)))?;
    Ok(())
}

impl<K: Keyed> Contender for Maps<K> {
    fn round(&mut self, threads: usize) -> Result<Vec<Sample>> {
        let bytes = (self.keys.share(1) * BYTES_PER_KEY).max(8 * TOUCH_BYTES);
        let pool = OurPool::create(&self.path, 4 * bytes, false)?;
        pool.work(|session| {
            touch(session, bytes)?;
            K::create(&pool, session)
        })?;
        let samples = self.phases(&pool, threads);
        drop(pool);
        fs::remove_file(&self.path)?;
        samples
    }
}
