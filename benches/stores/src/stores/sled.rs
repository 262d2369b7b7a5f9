//! sled: a tree of pages with a log. A transaction of several changes is a batch.

use crate::store::{Store, Value, Worker, bytes, first_word};
use anyhow::Result;
use sled::{Batch, Config, Db};
use std::ops::Range;
use std::path::Path;

struct Sled {
    database: Db,
    is_synced: bool,
}

pub(super) fn synced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, true)
}

pub(super) fn unsynced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, false)
}

fn open(folder: &Path, is_synced: bool) -> Result<Box<dyn Store>> {
    let every = if is_synced { None } else { Some(500) };
    let database = Config::new().path(folder).flush_every_ms(every).open()?;
    Ok(Box::new(Sled { database, is_synced }))
}

impl Store for Sled {
    fn work(&self, body: &mut dyn FnMut(&mut dyn Worker) -> Result<()>) -> Result<()> {
        body(&mut &*self)
    }
}

impl Worker for &Sled {
    fn put(&mut self, entries: &[(u64, Value)]) -> Result<()> {
        if let [(key, value)] = entries {
            self.database.insert(key.to_be_bytes(), bytes(value).as_slice())?;
        } else {
            let mut batch = Batch::default();
            for (key, value) in entries {
                batch.insert(&key.to_be_bytes(), bytes(value).as_slice());
            }
            self.database.apply_batch(batch)?;
        }
        if self.is_synced {
            self.database.flush()?;
        }
        Ok(())
    }

    fn get(&mut self, keys: &[u64]) -> Result<u64> {
        let mut sum = 0u64;
        for key in keys {
            let found = self.database.get(key.to_be_bytes())?;
            sum = sum.wrapping_add(found.map_or(0, |found| first_word(&found)));
        }
        Ok(sum)
    }

    fn scan(&mut self, keys: Range<u64>) -> Result<Option<u64>> {
        let mut sum = 0u64;
        for entry in self.database.range(keys.start.to_be_bytes()..keys.end.to_be_bytes()) {
            sum = sum.wrapping_add(first_word(&entry?.1));
        }
        Ok(Some(sum))
    }
}
