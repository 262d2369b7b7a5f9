//! A tree like BzTree ("BzTree: A High-Performance Latch-free Range Index for Non-Volatile Memory",
//! Arulraj et al., VLDB'18), one of the programs of FFCCD (ISCA'22).
//!
//! A leaf is append-only, and its status word holds the number of its records and of those that are
//! deleted. A full leaf is consolidated: its remaining records go into a new leaf, or two, which
//! replace it in its parent. A leaf with many deleted records is consolidated too, together with
//! its neighbour if both have few. An inner node with new children is replaced by a copy; only a
//! pointer to a child changes in place.
//!
//! Differences: records point to values that are separate objects, and a deleted record has a null
//! pointer; locks and the runtime's transactions replace PMwCAS; replaced nodes are freed at once,
//! because no thread reads without the lock.
//!
//! Its planted bug: a consolidated leaf is not freed.

use super::inner::{Edit, Index, Path};
use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Read, Walk, broken};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// A tree like BzTree.
pub struct BzTree;

/// The greatest number of records of a leaf.
const RECORDS: usize = 31;
/// The greatest number of records of a new leaf: otherwise there are two.
const STARTED_MAX: usize = 23;
/// A leaf with fewer live records is consolidated with its neighbour, if possible.
const SPARSE: usize = 8;

/// The tree of a part.
#[derive(Clone, Copy, Persist)]
pub struct Tree<'p> {
    entries: u64,
    index: Index<'p, Leaf<'p>>,
}

/// Records in the order of their insertion.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Leaf<'p> {
    status: Status,
    keys: [u64; RECORDS],
    values: [Option<Ptr<'p, Value128>>; RECORDS],
}

/// The status word of a leaf.
#[derive(Clone, Copy, PartialEq, Persist)]
pub(crate) struct Status {
    count: u32,
    gone: u32,
}

type At<'p> = Ptr<'p, Leaf<'p>>;
type Records<'p> = Vec<(u64, Ptr<'p, Value128>)>;

impl<'p> Leaf<'p> {
    fn of(records: &[(u64, Ptr<'p, Value128>)]) -> Leaf<'p> {
        let status = Status { count: records.len() as u32, gone: 0 };
        let mut leaf = Leaf { status, keys: [0; RECORDS], values: [None; RECORDS] };
        for (place, (key, value)) in records.iter().enumerate() {
            (leaf.keys[place], leaf.values[place]) = (*key, Some(*value));
        }
        leaf
    }

    /// The live records, in ascending order of keys.
    fn records(&self) -> Records<'p> {
        let all = self.keys.into_iter().zip(self.values);
        let mut there: Records<'p> = all.filter_map(|(key, value)| Some((key, value?))).collect();
        there.sort_unstable_by_key(|(key, _)| *key);
        there
    }

    fn place(&self, key: u64) -> Option<usize> {
        (0..RECORDS).rev().find(|place| self.keys[*place] == key && self.values[*place].is_some())
    }
}

/// The path to the leaf of a key, and the leaf; `None` if the tree is empty.
type Found<'p> = Option<(Path<'p, Leaf<'p>>, At<'p>, Leaf<'p>)>;

fn find<'p, R: Read<'p>>(
    reader: &R,
    tree: Ptr<'p, Tree<'p>>,
    key: u64,
) -> Result<Found<'p>, R::Error> {
    let path = Index::path(reader, tree.at(Tree::INDEX), key)?;
    let Some(at) = Index::leaf(reader, &path)? else { return Ok(None) };
    let leaf = reader.get(at)?;
    if leaf.status.count as usize > RECORDS {
        return Err(broken("the status of a leaf is impossible").into());
    }
    Ok(Some((path, at, leaf)))
}

fn edit<'e, 'p, 't, 'm, M: Memory>(
    tx: &'e mut Tx<'p, 't, 'm, M>,
    tree: Ptr<'p, Tree<'p>>,
) -> Edit<'e, 'p, 't, 'm, M, Leaf<'p>> {
    Edit { tx, index: tree.at(Tree::INDEX), copies: true }
}

/// Replaces a leaf by a new one with these records, or by two, and frees it.
fn consolidate<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    path: Path<'p, Leaf<'p>>,
    records: &[(u64, Ptr<'p, Value128>)],
    slip: bool,
) -> Result<(), TxError> {
    if let Some(old) = Index::leaf(tx, &path)?.filter(|_| !slip) {
        tx.free(old)?;
    }
    let is_one = records.len() <= STARTED_MAX;
    let (lower, upper) = records.split_at(if is_one { records.len() } else { records.len() / 2 });
    let leaf = tx.alloc(Leaf::of(lower))?;
    edit(tx, tree).replace(&path, leaf)?;
    if is_one {
        return Ok(());
    }
    let leaf = tx.alloc(Leaf::of(upper))?;
    edit(tx, tree).split(path, upper[0].0, leaf)
}

fn insert<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    value: Value128,
    slip: bool,
) -> Result<(), TxError> {
    let key = value.key;
    let value = tx.alloc(value)?;
    let Some((path, at, leaf)) = find(tx, tree, key)? else {
        let leaf = tx.alloc(Leaf::of(&[(key, value)]))?;
        tx.update(tree.at(Tree::ENTRIES), |entries| entries + 1)?;
        return edit(tx, tree).start(leaf);
    };
    let old = leaf.place(key);
    match old.and_then(|place| leaf.values[place]) {
        Some(old) => tx.free(old)?,
        None => tx.update(tree.at(Tree::ENTRIES), |entries| entries + 1)?,
    }
    let Status { count, gone } = leaf.status;
    if count as usize == RECORDS {
        let mut records = leaf.records();
        records.retain(|(there, _)| *there != key);
        records.insert(records.partition_point(|(there, _)| *there < key), (key, value));
        return consolidate(tx, tree, path, &records, slip);
    }
    if let Some(old) = old {
        tx.set(at.at(Leaf::VALUES).index(old), None)?;
    }
    tx.set(at.at(Leaf::KEYS).index(count as usize), key)?;
    tx.set(at.at(Leaf::VALUES).index(count as usize), Some(value))?;
    let gone = gone + u32::from(old.is_some());
    tx.set(at.at(Leaf::STATUS), Status { count: count + 1, gone })
}

fn remove<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    key: u64,
    slip: bool,
) -> Result<(), TxError> {
    let Some((path, at, leaf)) = find(tx, tree, key)? else { return Ok(()) };
    let Some(place) = leaf.place(key) else { return Ok(()) };
    let Some(value) = leaf.values[place] else { return Ok(()) };
    tx.free(value)?;
    tx.update(tree.at(Tree::ENTRIES), |entries| entries - 1)?;
    let mut left = leaf.records();
    left.retain(|(there, _)| *there != key);
    if left.is_empty() {
        tx.free(at)?;
        return edit(tx, tree).remove(path);
    }
    let gone = leaf.status.gone + 1;
    let is_stale = gone as usize > RECORDS / 2;
    if (is_stale || left.len() < SPARSE) && join(tx, tree, &path, &left, slip)? {
        return Ok(());
    }
    if is_stale {
        return consolidate(tx, tree, path, &left, slip);
    }
    tx.set(at.at(Leaf::VALUES).index(place), None)?;
    tx.set(at.at(Leaf::STATUS), Status { gone, ..leaf.status })
}

/// Merges a leaf, with these remaining records, with a neighbour, if they fit into one leaf.
fn join<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    path: &Path<'p, Leaf<'p>>,
    left: &[(u64, Ptr<'p, Value128>)],
    slip: bool,
) -> Result<bool, TxError> {
    let Some([to_lower, to_upper]) = Index::pair(tx, path)? else { return Ok(false) };
    let other = if to_lower == *path { &to_upper } else { &to_lower };
    let Some(other) = Index::leaf(tx, other)? else { return Ok(false) };
    let mut records = tx.get(other)?.records();
    records.extend_from_slice(left);
    records.sort_unstable_by_key(|(key, _)| *key);
    if records.len() > STARTED_MAX {
        return Ok(false);
    }
    if let Some(upper) = Index::leaf(tx, &to_upper)? {
        tx.free(upper)?;
    }
    consolidate(tx, tree, to_lower, &records, slip)?;
    edit(tx, tree).remove(to_upper)?;
    Ok(true)
}

impl ChurnStructure for BzTree {
    const NAME: &'static str = "c-bztree";
    const ABOUT: &'static str = "a tree of leaves that are appended to, like BzTree";
    const ENTRY_BYTES: u64 = 200;
    type Part = Tree<'static>;

    fn empty<'p>(_: u64) -> Tree<'p> {
        Tree { entries: 0, index: Index::empty() }
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
        change.lane.transaction(session, |tx| remove(tx, tree, change.key, change.slip))
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let Some((_, _, leaf)) = find(session, tree, key)? else { return Ok(None) };
        let value = leaf.place(key).and_then(|place| leaf.values[place]);
        value.map(|value| session.get(value.at(Value128::TAG))).transpose()
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let mut linked = 0;
        Index::check(session, tree.at(Tree::INDEX), walk, |walk, at, (low, end)| {
            walk.object("leaf")?;
            let leaf = session.get(at)?;
            let (Status { count, gone }, records) = (leaf.status, leaf.records());
            let there = records.len() as u64;
            let behind = leaf.values.iter().skip(count as usize).flatten().count();
            let adds_up = u64::from(gone) + there == u64::from(count) && behind == 0 && there > 0;
            walk.ensure(adds_up, || {
                format!("a leaf says {count} records, {gone} of them gone, and has {there}")
            })?;
            for (key, value) in records {
                walk.object("value")?;
                let value = session.get(value)?;
                value.check()?;
                let is_between = low <= key && end.is_none_or(|end| key < end);
                walk.ensure(is_between, || format!("key {key} is in the wrong leaf"))?;
                walk.ensure(value.key == key, || {
                    format!("the record of key {key} leads to the value of key {}", value.key)
                })?;
                walk.entry(key, value.tag)?;
            }
            linked += there;
            Ok(())
        })?;
        let counted = session.get(tree.at(Tree::ENTRIES))?;
        walk.ensure(linked == counted, || {
            format!("{linked} entries are linked, {counted} are counted")
        })
    }
}
