//! A tree like FPTree ("FPTree: A Hybrid SCM-DRAM Persistent and Concurrent B-Tree for Storage
//! Class Memory", Oukid et al., SIGMOD'16), one of the programs of FFCCD (ISCA'22).
//!
//! The entries of a leaf are unordered: a bitmap marks the valid ones, and a fingerprint of one
//! byte for each selects the keys to compare. A full leaf moves the upper half of its keys to a new
//! leaf behind it; an empty one is freed. Leaves are linked in the order of their keys.
//!
//! Differences: inner nodes persist here too, so that opening rebuilds nothing; values are separate
//! objects; the runtime's transactions replace its micro-logs.
//!
//! Its planted bug: a new entry gets no fingerprint.

use super::inner::{Edit, Index, Path};
use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Read, Walk, broken, spread};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Bytes, Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// A tree like FPTree.
pub struct FpTree;

/// Entries of a leaf.
const ENTRIES: usize = 28;
const FULL: u64 = (1 << ENTRIES) - 1;

/// The tree of a part.
#[derive(Clone, Copy, Persist)]
pub struct Tree<'p> {
    entries: u64,
    first: Option<Ptr<'p, Leaf<'p>>>,
    index: Index<'p, Leaf<'p>>,
}

/// Entries, unordered.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Leaf<'p> {
    /// Bit i: entry i is valid.
    bitmap: u64,
    next: Option<Ptr<'p, Leaf<'p>>>,
    fingerprints: Bytes<ENTRIES>,
    keys: [u64; ENTRIES],
    values: [Option<Ptr<'p, Value128>>; ENTRIES],
}

type At<'p> = Ptr<'p, Leaf<'p>>;

fn fingerprint(key: u64) -> u8 {
    (spread(key) >> 56) as u8
}

impl<'p> Leaf<'p> {
    fn empty() -> Leaf<'p> {
        Leaf {
            bitmap: 0,
            next: None,
            fingerprints: Bytes([0; ENTRIES]),
            keys: [0; ENTRIES],
            values: [None; ENTRIES],
        }
    }

    fn has(bitmap: u64, entry: usize) -> bool {
        bitmap >> entry & 1 == 1
    }

    fn add(&mut self, entry: usize, key: u64, value: Option<Ptr<'p, Value128>>) {
        self.bitmap |= 1 << entry;
        self.fingerprints.0[entry] = fingerprint(key);
        (self.keys[entry], self.values[entry]) = (key, value);
    }
}

/// The entry of a leaf with the key.
fn entry_of<'p, R: Read<'p>>(
    reader: &R,
    leaf: At<'p>,
    key: u64,
) -> Result<Option<usize>, R::Error> {
    let bitmap = reader.get(leaf.at(Leaf::BITMAP))?;
    let Bytes(fingerprints) = reader.get(leaf.at(Leaf::FINGERPRINTS))?;
    let wanted = fingerprint(key);
    for entry in (0..ENTRIES).filter(|entry| Leaf::has(bitmap, *entry)) {
        if fingerprints[entry] == wanted && reader.get(leaf.at(Leaf::KEYS).index(entry))? == key {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn value_of<'p, R: Read<'p>>(
    reader: &R,
    leaf: At<'p>,
    entry: usize,
) -> Result<Ptr<'p, Value128>, R::Error> {
    let value = reader.get(leaf.at(Leaf::VALUES).index(entry))?;
    value.ok_or_else(|| broken("an entry of a leaf has no value").into())
}

fn edit<'e, 'p, 't, 'm, M: Memory>(
    tx: &'e mut Tx<'p, 't, 'm, M>,
    tree: Ptr<'p, Tree<'p>>,
) -> Edit<'e, 'p, 't, 'm, M, Leaf<'p>> {
    Edit { tx, index: tree.at(Tree::INDEX), copies: false }
}

/// Fills a free entry of a leaf; the bitmap makes it valid.
fn fill<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    leaf: At<'p>,
    value: Value128,
    slip: bool,
) -> Result<(), TxError> {
    let bitmap = tx.get(leaf.at(Leaf::BITMAP))?;
    let entry = bitmap.trailing_ones() as usize;
    if !slip {
        let key = value.key;
        tx.update(leaf.at(Leaf::FINGERPRINTS), |Bytes(mut fingerprints)| {
            fingerprints[entry] = fingerprint(key);
            Bytes(fingerprints)
        })?;
    }
    tx.set(leaf.at(Leaf::KEYS).index(entry), value.key)?;
    let value = tx.alloc(value)?;
    tx.set(leaf.at(Leaf::VALUES).index(entry), Some(value))?;
    tx.set(leaf.at(Leaf::BITMAP), bitmap | 1 << entry)
}

/// Moves the upper half of a full leaf's keys to a new leaf; returns their least key, and the new
/// leaf.
fn split<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    path: Path<'p, Leaf<'p>>,
    at: At<'p>,
) -> Result<(u64, At<'p>), TxError> {
    let leaf = tx.get(at)?;
    let mut sorted = leaf.keys;
    sorted.sort_unstable();
    let middle = sorted[ENTRIES / 2];
    let (mut lower, mut upper) = (leaf, Leaf { next: leaf.next, ..Leaf::empty() });
    for entry in (0..ENTRIES).filter(|entry| leaf.keys[*entry] >= middle) {
        upper.add(upper.bitmap.trailing_ones() as usize, leaf.keys[entry], leaf.values[entry]);
        lower.bitmap &= !(1 << entry);
        lower.values[entry] = None;
    }
    let new = tx.alloc(upper)?;
    tx.set(at, Leaf { next: Some(new), ..lower })?;
    edit(tx, tree).split(path, middle, new)?;
    Ok((middle, new))
}

fn insert<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    value: Value128,
    slip: bool,
) -> Result<(), TxError> {
    let path = Index::path(tx, tree.at(Tree::INDEX), value.key)?;
    let leaf = Index::leaf(tx, &path)?;
    let found = leaf.map_or(Ok(None), |leaf| entry_of(tx, leaf, value.key))?;
    if let (Some(leaf), Some(entry)) = (leaf, found) {
        let at = value_of(tx, leaf, entry)?;
        return tx.set(at, value);
    }
    tx.update(tree.at(Tree::ENTRIES), |entries| entries + 1)?;
    let Some(mut leaf) = leaf else {
        let leaf = tx.alloc(Leaf::empty())?;
        tx.set(tree.at(Tree::FIRST), Some(leaf))?;
        edit(tx, tree).start(leaf)?;
        return fill(tx, leaf, value, slip);
    };
    if tx.get(leaf.at(Leaf::BITMAP))? == FULL {
        let (middle, upper) = split(tx, tree, path, leaf)?;
        leaf = if value.key < middle { leaf } else { upper };
    }
    fill(tx, leaf, value, slip)
}

fn remove<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    key: u64,
) -> Result<(), TxError> {
    let path = Index::path(tx, tree.at(Tree::INDEX), key)?;
    let Some(leaf) = Index::leaf(tx, &path)? else { return Ok(()) };
    let Some(entry) = entry_of(tx, leaf, key)? else { return Ok(()) };
    let value = value_of(tx, leaf, entry)?;
    tx.free(value)?;
    tx.update(tree.at(Tree::ENTRIES), |entries| entries - 1)?;
    let bitmap = tx.get(leaf.at(Leaf::BITMAP))? & !(1 << entry);
    if bitmap != 0 {
        tx.set(leaf.at(Leaf::VALUES).index(entry), None)?;
        return tx.set(leaf.at(Leaf::BITMAP), bitmap);
    }
    let next = tx.get(leaf.at(Leaf::NEXT))?;
    match Index::before(tx, &path)? {
        Some(before) => tx.set(before.at(Leaf::NEXT), next)?,
        None => tx.set(tree.at(Tree::FIRST), next)?,
    }
    tx.free(leaf)?;
    edit(tx, tree).remove(path)
}

/// Checks the entries of a leaf, whose keys must be in the range; returns their number.
fn check_leaf<'p, M: Memory>(
    session: &Session<'p, '_, M>,
    leaf: &Leaf<'p>,
    (low, end): (u64, Option<u64>),
    walk: &mut Walk<'_>,
) -> Result<u64, Damage> {
    let Leaf { bitmap, fingerprints, keys, values, .. } = leaf;
    walk.ensure(*bitmap != 0 && *bitmap <= FULL, || format!("a leaf has bitmap {bitmap:#x}"))?;
    for entry in 0..ENTRIES {
        let (key, is_there) = (keys[entry], Leaf::has(*bitmap, entry));
        walk.ensure(values[entry].is_some() == is_there, || {
            format!("the bitmap and the value of entry {entry} of a leaf differ, key {key}")
        })?;
        let Some(value) = values[entry] else { continue };
        walk.object("value")?;
        let value = session.get(value)?;
        value.check()?;
        walk.ensure(fingerprints.0[entry] == fingerprint(key), || {
            format!("key {key} has the fingerprint of another")
        })?;
        let is_between = low <= key && end.is_none_or(|end| key < end);
        walk.ensure(is_between, || format!("key {key} is in the wrong leaf"))?;
        walk.ensure(value.key == key, || {
            format!("key {key} of a leaf leads to the value of key {}", value.key)
        })?;
        walk.entry(key, value.tag)?;
    }
    Ok(u64::from(bitmap.count_ones()))
}

impl ChurnStructure for FpTree {
    const NAME: &'static str = "c-fptree";
    const ABOUT: &'static str = "a tree with fingerprints, like FPTree, that grows and shrinks";
    const ENTRY_BYTES: u64 = 184;
    type Part = Tree<'static>;

    fn empty<'p>(_: u64) -> Tree<'p> {
        Tree { entries: 0, first: None, index: Index::empty() }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        let value = Value128::new(change.key, change.tag);
        change.lane.transaction(session, |tx| insert(tx, tree, value, change.slip))
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| remove(tx, tree, change.key))
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let path = Index::path(session, tree.at(Tree::INDEX), key)?;
        let Some(leaf) = Index::leaf(session, &path)? else { return Ok(None) };
        let Some(entry) = entry_of(session, leaf, key)? else { return Ok(None) };
        session.get(value_of(session, leaf, entry)?.at(Value128::TAG)).map(Some)
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let mut linked = 0;
        let mut next = session.get(tree.at(Tree::FIRST))?;
        Index::check(session, tree.at(Tree::INDEX), walk, |walk, at, range| {
            walk.object("leaf")?;
            walk.ensure(next == Some(at), || {
                format!("the leaf of keys from {} is not behind the one before it", range.0)
            })?;
            let leaf = session.get(at)?;
            next = leaf.next;
            linked += check_leaf(session, &leaf, range, walk)?;
            Ok(())
        })?;
        walk.ensure(next.is_none(), || "a leaf is behind the last one".to_owned())?;
        let counted = session.get(tree.at(Tree::ENTRIES))?;
        walk.ensure(linked == counted, || {
            format!("{linked} entries are linked, {counted} are counted")
        })
    }
}
