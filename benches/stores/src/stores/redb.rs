//! redb: a copy-on-write B-tree in one file. One writer at a time.

use crate::store::{Store, Value, Worker, bytes, first_word};
use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::ops::Range;
use std::path::Path;

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");

struct Redb {
    database: Database,
    durability: Durability,
}

pub(super) fn synced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, Durability::Immediate)
}

pub(super) fn unsynced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, Durability::None)
}

fn open(folder: &Path, durability: Durability) -> Result<Box<dyn Store>> {
    let database = Database::create(folder.join("a.redb"))?;
    let first = database.begin_write()?;
    first.open_table(ENTRIES)?;
    first.commit()?;
    Ok(Box::new(Redb { database, durability }))
}

impl Store for Redb {
    fn work(&self, body: &mut dyn FnMut(&mut dyn Worker) -> Result<()>) -> Result<()> {
        body(&mut &*self)
    }
}

impl Worker for &Redb {
    fn put(&mut self, entries: &[(u64, Value)]) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let mut table = transaction.open_table(ENTRIES)?;
        for (key, value) in entries {
            table.insert(key, bytes(value).as_slice())?;
        }
        drop(table);
        transaction.commit()?;
        Ok(())
    }

    fn get(&mut self, keys: &[u64]) -> Result<u64> {
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        let mut sum = 0u64;
        for key in keys {
            sum = sum.wrapping_add(table.get(key)?.map_or(0, |found| first_word(found.value())));
        }
        Ok(sum)
    }

    fn scan(&mut self, keys: Range<u64>) -> Result<Option<u64>> {
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        let mut sum = 0u64;
        for entry in table.range(keys)? {
            sum = sum.wrapping_add(first_word(entry?.1.value()));
        }
        Ok(Some(sum))
    }
}
