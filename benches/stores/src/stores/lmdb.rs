//! LMDB, by heed: a copy-on-write B-tree in a mapped file. One writer at a time.

use crate::store::{Store, Value, Worker, bytes, first_word};
use anyhow::Result;
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::ops::Range;
use std::path::Path;

/// The most bytes of the file.
const MAP_BYTES: usize = 1 << 30;

struct Lmdb {
    env: Env,
    entries: Database<'static, U64<BigEndian>, Bytes>,
}

pub(super) fn synced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, EnvFlags::empty())
}

pub(super) fn unsynced(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, EnvFlags::NO_SYNC)
}

fn open(folder: &Path, flags: EnvFlags) -> Result<Box<dyn Store>> {
    let mut options = EnvOpenOptions::new();
    // SAFETY: NO_SYNC can leave a broken file when power fails, which a measurement does not read.
    unsafe { options.map_size(MAP_BYTES).flags(flags) };
    // SAFETY: nothing else opens or changes the file, which is in a folder of its own.
    let env = unsafe { options.open(folder)? };
    let first = env.write_txn()?;
    let made = env.create_databases_and_commit(first, |opener, first| {
        opener.create_database(first, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let entries = made.unwrap_commit();
    Ok(Box::new(Lmdb { env, entries }))
}

impl Store for Lmdb {
    fn work(&self, body: &mut dyn FnMut(&mut dyn Worker) -> Result<()>) -> Result<()> {
        body(&mut &*self)
    }
}

impl Worker for &Lmdb {
    fn put(&mut self, entries: &[(u64, Value)]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in entries {
            self.entries.put(&mut transaction, key, &bytes(value))?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn get(&mut self, keys: &[u64]) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        let mut sum = 0u64;
        for key in keys {
            sum = sum.wrapping_add(self.entries.get(&transaction, key)?.map_or(0, first_word));
        }
        Ok(sum)
    }

    fn scan(&mut self, keys: Range<u64>) -> Result<Option<u64>> {
        let transaction = self.env.read_txn()?;
        let mut sum = 0u64;
        for entry in self.entries.range(&transaction, &keys)? {
            sum = sum.wrapping_add(first_word(entry?.1));
        }
        Ok(Some(sum))
    }
}
