//! fjall: a log-structured merge tree with a journal.

use crate::store::{Store, Value, Worker, bytes, first_word};
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::ops::Range;
use std::path::Path;

struct Fjall {
    database: Database,
    entries: Keyspace,
    mode: PersistMode,
}

pub(super) fn synced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, PersistMode::SyncAll)
}

pub(super) fn unsynced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, PersistMode::Buffer)
}

fn open(folder: &Path, mode: PersistMode) -> Result<Box<dyn Store>> {
    let database = Database::builder(folder).open()?;
    let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, entries, mode }))
}

impl Store for Fjall {
    fn work(&self, body: &mut dyn FnMut(&mut dyn Worker) -> Result<()>) -> Result<()> {
        body(&mut &*self)
    }
}

impl Worker for &Fjall {
    fn put(&mut self, entries: &[(u64, Value)]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(self.mode));
        for (key, value) in entries {
            batch.insert(&self.entries, key.to_be_bytes(), bytes(value));
        }
        batch.commit()?;
        Ok(())
    }

    fn get(&mut self, keys: &[u64]) -> Result<u64> {
        let mut sum = 0u64;
        for key in keys {
            let found = self.entries.get(key.to_be_bytes())?;
            sum = sum.wrapping_add(found.map_or(0, |found| first_word(&found)));
        }
        Ok(sum)
    }

    fn scan(&mut self, keys: Range<u64>) -> Result<Option<u64>> {
        let mut sum = 0u64;
        for entry in self.entries.range(keys.start.to_be_bytes()..keys.end.to_be_bytes()) {
            sum = sum.wrapping_add(first_word(&entry.value()?));
        }
        Ok(Some(sum))
    }
}
