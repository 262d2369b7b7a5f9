//! Ours, by the front door: a hash map and a B-tree in a pool.

use crate::store::{Store, Value, Worker};
use anyhow::Result;
use seawall::{
    BTree, BTreeField, Domain, Error, Map, MapField, Memory, Options, Persist, Pool, ReadError,
    Thread,
};
use std::ops::Range;
use std::path::Path;

#[derive(Clone, Copy, Persist)]
struct Hashed {
    entries: Map<u64, Value>,
}

#[derive(Clone, Copy, Persist)]
struct Ordered {
    entries: BTree<u64, Value>,
}

pub(super) fn map_by_line(folder: &Path) -> Result<Box<dyn Store>> {
    Ok(Box::new(seawall::open::<Hashed>(folder.join("a.pool"), options(Domain::Line))?))
}

pub(super) fn map_by_page(folder: &Path) -> Result<Box<dyn Store>> {
    Ok(Box::new(seawall::open::<Hashed>(folder.join("a.pool"), options(Domain::Page))?))
}

pub(super) fn tree_by_line(folder: &Path) -> Result<Box<dyn Store>> {
    Ok(Box::new(seawall::open::<Ordered>(folder.join("a.pool"), options(Domain::Line))?))
}

pub(super) fn tree_by_page(folder: &Path) -> Result<Box<dyn Store>> {
    Ok(Box::new(seawall::open::<Ordered>(folder.join("a.pool"), options(Domain::Page))?))
}

fn options(domain: Domain) -> Options {
    Options::default().domain(domain)
}

/// What both structures do alike, and the scan of those that have an order.
macro_rules! ours {
    ($Root:ident, $scan:expr) => {
        impl Store for Pool<$Root> {
            fn work(&self, body: &mut dyn FnMut(&mut dyn Worker) -> Result<()>) -> Result<()> {
                Pool::work(self, |thread| body(thread))
            }
        }

        impl<M: Memory> Worker for Thread<'_, $Root, M> {
            fn put(&mut self, entries: &[(u64, Value)]) -> Result<()> {
                self.transaction(|tx, root| {
                    for (key, value) in entries {
                        root.at($Root::ENTRIES).insert(tx, key, value)?;
                    }
                    Ok::<(), Error>(())
                })?;
                Ok(())
            }

            fn get(&mut self, keys: &[u64]) -> Result<u64> {
                let sum = self.read(|view, root| {
                    keys.iter().try_fold(0u64, |sum, key| {
                        let found = root.at($Root::ENTRIES).get(view, key)?;
                        Ok::<u64, ReadError>(sum.wrapping_add(found.map_or(0, |value| value[0])))
                    })
                })?;
                Ok(sum)
            }

            fn scan(&mut self, keys: Range<u64>) -> Result<Option<u64>> {
                $scan(self, keys)
            }
        }
    };
}

ours!(Hashed, |_: &mut Self, _| Ok(None));
ours!(Ordered, |thread: &mut Self, keys| {
    let found = thread.read(|view, root| root.at(Ordered::ENTRIES).range(view, keys))?;
    Ok(Some(found.fold(0u64, |sum, (_, value)| sum.wrapping_add(value[0]))))
});
