//! A pool as Python opens it: named maps of bytes to bytes, which change in transactions.
//!
//! All maps are one tree. A key of it is the name of the map, a zero, and the key there, so the
//! entries of a map stand together, in the order of their keys. Beside it is how many entries each
//! map has.

use crate::failure::Failure;
use pyo3::prelude::*;
use seawall::{BTree, BTreeField, Domain, Error, MapField, Options, Persist};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

/// What is between the name of a map and a key; no name has one.
const BETWEEN: u8 = 0;

#[derive(Clone, Copy, Persist)]
struct Maps {
    entries: BTree<[u8], [u8]>,
    counts: BTree<str, u64>,
}

/// An entry: key and value.
type Entry = (Vec<u8>, Vec<u8>);

/// A change: the map, the key, and the value; none to remove it.
type Change = (String, Vec<u8>, Option<Vec<u8>>);

/// An open pool.
#[pyclass(frozen, module = "seawall._seawall")]
pub(crate) struct PoolFile {
    pool: RwLock<Option<seawall::Pool<Maps>>>,
    path: PathBuf,
    /// The process that has opened it: a fork must not go on with it.
    process: u32,
}

impl PoolFile {
    /// Does `act` while Python goes on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&seawall::Pool<Maps>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let path = self.path.display();
        if self.process != std::process::id() {
            let text = format!("{path} was opened by another process; open it in this one");
            return Err(Failure::new(text));
        }
        py.detach(|| {
            let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner);
            let pool = pool.as_ref();
            act(pool.ok_or_else(|| Failure::new(format!("{path} is closed; open it again")))?)
        })
    }
}

/// The most bytes of a key and the name of its map together.
const KEY_BYTES_MAX: usize = 1791;

/// Refuses a key that is too long for its map.
fn check_key(map: &str, key: &[u8]) -> Result<(), Failure> {
    let most = KEY_BYTES_MAX.saturating_sub(map.len());
    if key.len() <= most {
        return Ok(());
    }
    Err(Failure::new(format!(
        "a key of {} bytes in the map '{map}', where keys may have {most}: a key and the name of \
         its map have at most {KEY_BYTES_MAX} bytes together",
        key.len(),
    )))
}

fn key_of(map: &str, key: &[u8]) -> Vec<u8> {
    [map.as_bytes(), &[BETWEEN], key].concat()
}

#[pymethods]
impl PoolFile {
    /// Opens the pool at `path`, or creates it with these options.
    #[new]
    #[pyo3(signature = (path, bytes_max, log_bytes, domain))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        bytes_max: Option<u64>,
        log_bytes: Option<u64>,
        domain: Option<&str>,
    ) -> Result<PoolFile, Failure> {
        let mut options = Options::default();
        options.bytes_max = bytes_max.unwrap_or(options.bytes_max);
        options.log_bytes = log_bytes.unwrap_or(options.log_bytes);
        options.domain = domain.map(|name| Domain::parse(name, "domain")).transpose()?;
        let pool = py.detach(|| seawall::open::<Maps>(&path, options))?;
        Ok(PoolFile { pool: RwLock::new(Some(pool)), path, process: std::process::id() })
    }

    /// The value of a key in a map.
    fn get(&self, py: Python<'_>, map: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let key = key_of(map, key);
        self.with(
            py,
            |pool| Ok(pool.read(|view, root| root.at(Maps::ENTRIES).get(view, &key[..]))?),
        )
    }

    /// All entries of a map, in the order of their keys.
    fn items(&self, py: Python<'_>, map: &str) -> Result<Vec<Entry>, Failure> {
        let (first, behind) = (key_of(map, &[]), [map.as_bytes(), &[BETWEEN + 1]].concat());
        let head = first.len();
        self.with(py, |pool| {
            let range = first..behind;
            let found = pool.read(|view, root| root.at(Maps::ENTRIES).range(view, range))?;
            Ok(found.map(|(key, value)| (key[head..].to_vec(), value)).collect())
        })
    }

    /// The names of the maps that have entries, and how many.
    fn counts(&self, py: Python<'_>) -> Result<Vec<(String, u64)>, Failure> {
        self.with(py, |pool| {
            Ok(pool.read(|view, root| root.at(Maps::COUNTS).iter(view))?.collect())
        })
    }

    /// How many entries a map has.
    fn count(&self, py: Python<'_>, map: &str) -> Result<u64, Failure> {
        self.with(py, |pool| {
            let count = pool.read(|view, root| root.at(Maps::COUNTS).get(view, map))?;
            Ok(count.unwrap_or(0))
        })
    }

    /// Makes all changes in one transaction, which is durable when this returns.
    fn apply(&self, py: Python<'_>, changes: Vec<Change>) -> Result<(), Failure> {
        changes.iter().try_for_each(|(map, key, _)| check_key(map, key))?;
        self.with(py, |pool| {
            pool.transaction(|tx, root| {
                for (map, key, value) in &changes {
                    let (entries, counts) = (root.at(Maps::ENTRIES), root.at(Maps::COUNTS));
                    let key = key_of(map, key);
                    let had = match value {
                        Some(value) => entries.insert(tx, &key[..], &value[..])?.is_some(),
                        None => entries.remove(tx, &key[..])?.is_some(),
                    };
                    if had == value.is_some() {
                        continue;
                    }
                    let before = counts.get(tx, map)?.unwrap_or(0);
                    match value {
                        Some(_) => counts.insert(tx, map, &(before + 1))?,
                        None if before > 1 => counts.insert(tx, map, &(before - 1))?,
                        None => counts.remove(tx, map)?,
                    };
                }
                Ok::<(), Error>(())
            })?;
            Ok(())
        })
    }

    /// What committed data survives, in words, and whether that includes a power failure.
    fn durability(&self, py: Python<'_>) -> Result<(String, bool), Failure> {
        self.with(py, |pool| {
            let durability = pool.durability();
            Ok((durability.to_string(), durability.is_durable()))
        })
    }

    /// Bytes of the file that are in use.
    fn bytes_used(&self, py: Python<'_>) -> Result<u64, Failure> {
        self.with(py, |pool| Ok(pool.bytes()))
    }

    /// Closes it; what is committed stays.
    fn close(&self, py: Python<'_>) {
        if self.process != std::process::id() {
            return;
        }
        py.detach(|| drop(self.pool.write().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The pool of the process that this one was forked from, which goes on with it.
            let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(pool.take());
        }
    }
}
