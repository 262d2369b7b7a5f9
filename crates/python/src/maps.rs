//! Named maps of bytes to bytes in a pool, and changes to them that are not made yet.
//!
//! All maps are one tree. A key of it is the name of the map, a zero, and the key there, so the
//! entries of a map stand together, in the order of their keys. Beside it is how many entries each
//! map has. A map may hold records of one kind; the map [`TYPES`] has the text of it.

use crate::failure::Failure;
use seawall::{BTree, BTreeField, Error, MapField, Persist};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The map that says of what kind the records of other maps are.
const TYPES: &str = "seawall.types";
/// What is between the name of a map and a key; no name has one.
const BETWEEN: u8 = 0;
/// The most bytes of a key and the name of its map together.
const KEY_BYTES_MAX: usize = 1791;

#[derive(Clone, Copy, Persist)]
pub(crate) struct Maps {
    entries: BTree<[u8], [u8]>,
    counts: BTree<str, u64>,
}

/// The maps of a pool.
pub(crate) struct Pool {
    pub(crate) pool: seawall::Pool<Maps>,
    /// Whether a map may hold records.
    has_kinds: AtomicBool,
}

impl Pool {
    /// The maps of a pool that was opened.
    pub(crate) fn new(pool: seawall::Pool<Maps>) -> Result<Pool, Failure> {
        let pool = Pool { pool, has_kinds: AtomicBool::new(true) };
        let has_kinds = Changes::default().on(&pool).count(TYPES)? > 0;
        Ok(Pool { has_kinds: has_kinds.into(), ..pool })
    }
}

/// An entry: key and value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// Changes that are made together, or not at all: of each key its value, or none if it goes.
#[derive(Default)]
pub(crate) struct Changes(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

/// Refuses what cannot be the name of a map.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    if name.as_bytes().contains(&BETWEEN) {
        return Err(Failure::new(format!("{name:?} has a zero in it; name a map without one")));
    }
    if name == TYPES {
        return Err(Failure::new(format!(
            "'{name}' is the map of the types of the others; name a map otherwise"
        )));
    }
    Ok(())
}

fn key_of(map: &str, key: &[u8]) -> Vec<u8> {
    [map.as_bytes(), &[BETWEEN], key].concat()
}

/// Where the entries of a map are.
fn range_of(map: &str) -> Range<Vec<u8>> {
    key_of(map, &[])..[map.as_bytes(), &[BETWEEN + 1]].concat()
}

/// The name of the map of a key of the tree.
fn map_of(key: &[u8]) -> String {
    let name = key.split(|byte| *byte == BETWEEN).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// An entry of a map, by its key there. In a damaged pool a key may be found that lacks the map.
fn without_name((key, value): Entry, head: usize) -> Result<Entry, Failure> {
    match key.get(head..) {
        Some(key) => Ok((key.into(), value)),
        None => Err(Failure::new(
            "the pool is damaged: a key lacks the name of its map; restore the file from a copy",
        )),
    }
}

fn check_key(map: &str, key: &[u8]) -> Result<(), Failure> {
    if map.len() + key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let most = KEY_BYTES_MAX.saturating_sub(map.len());
    Err(Failure::new(format!(
        "a key of {} bytes in the map '{map}', where keys may have {most}: a key and the name of \
         its map have at most {KEY_BYTES_MAX} bytes together",
        key.len(),
    )))
}

/// What a pool holds once changes are made.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) changes: &'a Changes,
}

impl Seen<'_> {
    pub(crate) fn get(self, map: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let key = key_of(map, key);
        match self.changes.0.get(&key) {
            Some(value) => Ok(value.clone()),
            None => self.committed(&key),
        }
    }

    fn committed(self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.pool.pool.read(|view, root| root.at(Maps::ENTRIES).get(view, key))?)
    }

    /// All entries of a map, in the order of their keys.
    pub(crate) fn items(self, map: &str) -> Result<Vec<Entry>, Failure> {
        let range = range_of(map);
        let head = range.start.len();
        let found = self.pool.pool.read(|view, root| {
            let found = root.at(Maps::ENTRIES).range(view, range.clone())?;
            Ok::<_, Error>(found.collect::<Vec<Entry>>())
        })?;
        let mut changed = self.changes.0.range(range).peekable();
        if changed.peek().is_none() {
            return found.into_iter().map(|entry| without_name(entry, head)).collect();
        }
        let mut items: BTreeMap<Vec<u8>, Vec<u8>> = found.into_iter().collect();
        for (key, value) in changed {
            match value {
                Some(value) => items.insert(key.clone(), value.clone()),
                None => items.remove(key),
            };
        }
        items.into_iter().map(|entry| without_name(entry, head)).collect()
    }

    /// How many entries a map has.
    pub(crate) fn count(self, map: &str) -> Result<u64, Failure> {
        let count = self.pool.pool.read(|view, root| root.at(Maps::COUNTS).get(view, map))?;
        let mut count = count.unwrap_or(0);
        for (key, value) in self.changes.0.range(range_of(map)) {
            let (is, was) = (value.is_some(), self.committed(key)?.is_some());
            count = count.saturating_add(u64::from(is)).saturating_sub(u64::from(was));
        }
        Ok(count)
    }

    /// The names of the maps that have entries, in order.
    pub(crate) fn names(self) -> Result<Vec<String>, Failure> {
        let counts = self.pool.pool.read(|view, root| {
            let counts = root.at(Maps::COUNTS).iter(view)?;
            Ok::<_, Error>(counts.collect::<BTreeMap<String, u64>>())
        })?;
        let mut names: BTreeMap<String, bool> =
            counts.into_iter().map(|(name, count)| (name, count > 0)).collect();
        for name in self.changes.0.keys().map(|key| map_of(key)) {
            let has = self.count(&name)? > 0;
            names.insert(name, has);
        }
        let there = names.into_iter().filter(|(name, has)| *has && name != TYPES);
        Ok(there.map(|(name, _)| name).collect())
    }

    /// What kind of records a map is said to hold, unless `kind` may be written to it.
    fn other_kind(self, map: &str, kind: Option<&str>) -> Result<Option<Kind>, Failure> {
        if kind.is_none() && !self.pool.has_kinds.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let noted = self.get(TYPES, map.as_bytes())?;
        let noted = noted.map(|text| String::from_utf8_lossy(&text).into_owned());
        if noted.as_deref() == kind {
            return Ok(None);
        }
        Ok(Some(Kind { noted, is_empty: self.count(map)? == 0 }))
    }

    /// Refuses a map that holds records of another kind, or bytes; none is that of bytes.
    pub(crate) fn check_kind(self, map: &str, kind: Option<&str>) -> Result<(), Failure> {
        self.other_kind(map, kind)?.map_or(Ok(()), |other| other.check(map, kind))
    }
}

/// What a map holds that is of another kind than what is asked for.
struct Kind {
    noted: Option<String>,
    is_empty: bool,
}

impl Kind {
    /// A map that is empty may hold anything from now on.
    fn check(&self, map: &str, kind: Option<&str>) -> Result<(), Failure> {
        let holds = self.noted.as_deref().unwrap_or("bytes without a type");
        match kind {
            _ if self.is_empty => Ok(()),
            Some(kind) => Err(Failure::new(format!(
                "the map '{map}' holds {holds}, and not {kind}: open it as that, or empty it first"
            ))),
            None => Err(Failure::new(format!(
                "the map '{map}' holds {holds}, and bytes are none: change it by Pool.typed, or \
                 empty it first"
            ))),
        }
    }
}

impl Changes {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn on<'a>(&'a self, pool: &'a Pool) -> Seen<'a> {
        Seen { pool, changes: self }
    }

    /// Puts an entry into a map, a record of that kind if there is one.
    pub(crate) fn put(
        &mut self,
        pool: &Pool,
        map: &str,
        key: &[u8],
        value: &[u8],
        kind: Option<&str>,
    ) -> Result<(), Failure> {
        check_key(map, key)?;
        self.note_kind(pool, map, kind)?;
        self.0.insert(key_of(map, key), Some(value.to_vec()));
        Ok(())
    }

    /// Puts entries into a map, all or none.
    pub(crate) fn put_all(
        &mut self,
        pool: &Pool,
        map: &str,
        entries: &[Entry],
        kind: Option<&str>,
    ) -> Result<(), Failure> {
        entries.iter().try_for_each(|(key, _)| check_key(map, key))?;
        entries.iter().try_for_each(|(key, value)| self.put(pool, map, key, value, kind))
    }

    /// Puts an entry into a map that has none of that key, or returns the value that it has.
    pub(crate) fn put_new(
        &mut self,
        pool: &Pool,
        map: &str,
        key: &[u8],
        value: &[u8],
        kind: Option<&str>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let there = self.on(pool).get(map, key)?;
        if there.is_none() {
            self.put(pool, map, key, value, kind)?;
        }
        Ok(there)
    }

    /// Writes what kind of records a map holds from now on, if that is another one.
    fn note_kind(&mut self, pool: &Pool, map: &str, kind: Option<&str>) -> Result<(), Failure> {
        let Some(other) = self.on(pool).other_kind(map, kind)? else { return Ok(()) };
        other.check(map, kind)?;
        check_key(TYPES, map.as_bytes())?;
        pool.has_kinds.store(true, Ordering::Relaxed);
        let kind = kind.map(|kind| kind.as_bytes().to_vec());
        self.0.insert(key_of(TYPES, map.as_bytes()), kind);
        Ok(())
    }

    /// Removes an entry, and returns its value.
    pub(crate) fn remove(
        &mut self,
        pool: &Pool,
        map: &str,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Failure> {
        let value = self.on(pool).get(map, key)?;
        if value.is_some() {
            self.0.insert(key_of(map, key), None);
        }
        Ok(value)
    }

    /// Removes all entries of a map.
    pub(crate) fn clear(&mut self, pool: &Pool, map: &str) -> Result<(), Failure> {
        let items = self.on(pool).items(map)?;
        self.0.extend(items.into_iter().map(|(key, _)| (key_of(map, &key), None)));
        Ok(())
    }

    /// Makes all changes in one transaction, which is durable when this returns.
    pub(crate) fn make(&self, pool: &Pool) -> Result<(), Failure> {
        pool.pool.transaction(|tx, root| {
            let (entries, counts) = (root.at(Maps::ENTRIES), root.at(Maps::COUNTS));
            for (key, value) in &self.0 {
                let had = match value {
                    Some(value) => entries.insert(tx, &key[..], &value[..])?.is_some(),
                    None => entries.remove(tx, &key[..])?.is_some(),
                };
                if had == value.is_some() {
                    continue;
                }
                let map = map_of(key);
                let before = counts.get(tx, &map)?.unwrap_or(0);
                match value {
                    Some(_) => counts.insert(tx, &map, &before.saturating_add(1))?,
                    None if before > 1 => counts.insert(tx, &map, &(before - 1))?,
                    None => counts.remove(tx, &map)?,
                };
            }
            Ok::<(), Error>(())
        })?;
        Ok(())
    }
}
