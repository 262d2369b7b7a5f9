//! What a store is to the measurements, and the settings in which each one runs.

use anyhow::Result;
use std::ops::Range;
use std::path::Path;

/// 64 bytes; the first word is the key's, so that a wrong answer is noticed.
pub(crate) type Value = [u64; 8];

/// The value of `key` after its change `number`.
pub(crate) fn value(key: u64, number: u64) -> Value {
    let mut value = [number; 8];
    value[0] = key;
    value
}

/// The bytes of a value, for stores that keep bytes.
pub(crate) fn bytes(value: &Value) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (into, word) in bytes.chunks_exact_mut(8).zip(value) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The first word of a value's bytes; 0 if there are too few.
pub(crate) fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// What one thread does in a store. Keys are in the order of numbers.
pub(crate) trait Worker {
    /// Puts the entries in one transaction, which is as durable as the setting says when this
    /// returns.
    fn put(&mut self, entries: &[(u64, Value)]) -> Result<()>;

    /// Looks keys up, in one read transaction where the store has such; returns the sum of the
    /// first words that it found.
    fn get(&mut self, keys: &[u64]) -> Result<u64>;

    /// Reads the values of a range of keys; returns the sum of their first words. `None` if the
    /// store has no order.
    fn scan(&mut self, keys: Range<u64>) -> Result<Option<u64>>;
}

/// An open store, shared by threads.
pub(crate) trait Store: Sync {
    /// Lends the calling thread what it works with.
    fn work(&self, body: &mut dyn FnMut(&mut dyn Worker) -> Result<()>) -> Result<()>;
}

/// A store in one setting.
pub(crate) struct Contender {
    pub(crate) store: &'static str,
    pub(crate) setting: &'static str,
    /// Whether the setting waits for the medium, as far as the store can.
    pub(crate) is_synced: bool,
    /// What is left of what had been committed when the process is killed, and when power fails,
    /// by its documentation.
    pub(crate) promise: [&'static str; 2],
    pub(crate) open: fn(&Path) -> Result<Box<dyn Store>>,
}

impl Contender {
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.store, self.setting)
    }
}
