//! A B+ tree whose leaves point to values ("BT" of FFCCD, ISCA'22).
//!
//! Its nodes have up to 15 entries. A sparse node is merged with a neighbour; an empty one is
//! freed.
//!
//! Its planted bug: a value is freed in a transaction before the one that unlinks it.

use super::inner::{Edit, Index, Path};
use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Read, Walk, broken};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// A B+ tree.
pub struct Bt;

/// The greatest number of entries of a leaf; with fewer than the second number, it is merged with a
/// neighbour if both have no more than the third.
const ENTRIES: usize = 15;
const SPARSE: usize = 5;
const JOINED_MAX: usize = 11;

/// The tree of a part.
#[derive(Clone, Copy, Persist)]
pub struct Tree<'p> {
    entries: u64,
    index: Index<'p, Leaf<'p>>,
}

/// Entries in ascending order of keys.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Leaf<'p> {
    count: u64,
    keys: [u64; ENTRIES],
    values: [Option<Ptr<'p, Value128>>; ENTRIES],
}

type Entries<'p> = Vec<(u64, Ptr<'p, Value128>)>;

impl<'p> Leaf<'p> {
    fn of(entries: &[(u64, Ptr<'p, Value128>)]) -> Leaf<'p> {
        let count = entries.len() as u64;
        let mut leaf = Leaf { count, keys: [0; ENTRIES], values: [None; ENTRIES] };
        for (place, (key, value)) in entries.iter().enumerate() {
            (leaf.keys[place], leaf.values[place]) = (*key, Some(*value));
        }
        leaf
    }

    fn entries(&self) -> Result<Entries<'p>, AccessError> {
        let all = self.keys.into_iter().zip(self.values);
        let there: Option<Entries<'p>> =
            all.take(self.count as usize).map(|(key, value)| Some((key, value?))).collect();
        let there = there.filter(|there| there.len() as u64 == self.count && self.count > 0);
        there.ok_or_else(|| broken("a leaf has an impossible number of entries"))
    }
}

/// The path to the leaf of a key, the leaf, and its entries; `None` if the tree is empty.
type Found<'p> = Option<(Path<'p, Leaf<'p>>, Ptr<'p, Leaf<'p>>, Entries<'p>)>;

fn find<'p, R: Read<'p>>(
    reader: &R,
    tree: Ptr<'p, Tree<'p>>,
    key: u64,
) -> Result<Found<'p>, R::Error> {
    let path = Index::path(reader, tree.at(Tree::INDEX), key)?;
    let Some(leaf) = Index::leaf(reader, &path)? else { return Ok(None) };
    let entries = reader.get(leaf)?.entries()?;
    Ok(Some((path, leaf, entries)))
}

fn edit<'e, 'p, 't, 'm, M: Memory>(
    tx: &'e mut Tx<'p, 't, 'm, M>,
    tree: Ptr<'p, Tree<'p>>,
) -> Edit<'e, 'p, 't, 'm, M, Leaf<'p>> {
    Edit { tx, index: tree.at(Tree::INDEX), copies: false }
}

fn insert<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    value: Value128,
) -> Result<(), TxError> {
    let key = value.key;
    let Some((path, leaf, mut entries)) = find(tx, tree, key)? else {
        let value = tx.alloc(value)?;
        let leaf = tx.alloc(Leaf::of(&[(key, value)]))?;
        tx.update(tree.at(Tree::ENTRIES), |entries| entries + 1)?;
        return edit(tx, tree).start(leaf);
    };
    let place = match entries.binary_search_by_key(&key, |(key, _)| *key) {
        Ok(place) => return tx.set(entries[place].1, value),
        Err(place) => place,
    };
    entries.insert(place, (key, tx.alloc(value)?));
    tx.update(tree.at(Tree::ENTRIES), |entries| entries + 1)?;
    if entries.len() <= ENTRIES {
        return tx.set(leaf, Leaf::of(&entries));
    }
    let right = entries.split_off(entries.len() / 2);
    tx.set(leaf, Leaf::of(&entries))?;
    let added = tx.alloc(Leaf::of(&right))?;
    edit(tx, tree).split(path, right[0].0, added)
}

/// Unlinks the entry of a key, if there is one; returns its value, which is not freed.
fn unlink<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    key: u64,
) -> Result<Option<Ptr<'p, Value128>>, TxError> {
    let Some((path, leaf, mut entries)) = find(tx, tree, key)? else { return Ok(None) };
    let place = entries.binary_search_by_key(&key, |(key, _)| *key);
    let Ok(place) = place else { return Ok(None) };
    let (_, value) = entries.remove(place);
    tx.update(tree.at(Tree::ENTRIES), |entries| entries - 1)?;
    if entries.is_empty() {
        tx.free(leaf)?;
        edit(tx, tree).remove(path)?;
        return Ok(Some(value));
    }
    tx.set(leaf, Leaf::of(&entries))?;
    if entries.len() < SPARSE {
        join(tx, tree, &path)?;
    }
    Ok(Some(value))
}

/// Merges a leaf with a neighbour, if both have few entries.
fn join<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    tree: Ptr<'p, Tree<'p>>,
    path: &Path<'p, Leaf<'p>>,
) -> Result<(), TxError> {
    let Some([to_left, to_right]) = Index::pair(tx, path)? else { return Ok(()) };
    let (left, right) = (Index::leaf(tx, &to_left)?, Index::leaf(tx, &to_right)?);
    let (Some(left), Some(right)) = (left, right) else { return Ok(()) };
    let mut entries = tx.get(left)?.entries()?;
    entries.append(&mut tx.get(right)?.entries()?);
    if entries.len() > JOINED_MAX {
        return Ok(());
    }
    tx.set(left, Leaf::of(&entries))?;
    tx.free(right)?;
    edit(tx, tree).remove(to_right)
}

impl ChurnStructure for Bt {
    const NAME: &'static str = "c-bt";
    const ABOUT: &'static str = "a B+ tree of typed nodes and values that grows and shrinks";
    const ENTRY_BYTES: u64 = 184;
    type Part = Tree<'static>;

    fn empty<'p>(_: u64) -> Tree<'p> {
        Tree { entries: 0, index: Index::empty() }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change
            .lane
            .transaction(session, |tx| insert(tx, tree, Value128::new(change.key, change.tag)))
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        if change.slip {
            let found = find(session, tree, change.key)?;
            let entries = found.map(|(_, _, entries)| entries).unwrap_or_default();
            if let Some((_, value)) = entries.iter().find(|(key, _)| *key == change.key) {
                change.lane.transaction(session, |tx| tx.free(*value))?;
            }
        }
        change.lane.transaction(session, |tx| match unlink(tx, tree, change.key)? {
            Some(value) if !change.slip => tx.free(value),
            _ => Ok(()),
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let Some((_, _, entries)) = find(session, tree, key)? else { return Ok(None) };
        let place = entries.binary_search_by_key(&key, |(key, _)| *key).ok();
        place.map(|place| session.get(entries[place].1.at(Value128::TAG))).transpose()
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let mut linked = 0;
        Index::check(session, tree.at(Tree::INDEX), walk, |walk, at, (low, end)| {
            walk.object("leaf")?;
            let mut least = low;
            for (key, value) in session.get(at)?.entries()? {
                walk.object("value")?;
                let value = session.get(value)?;
                value.check()?;
                let is_between = least <= key && end.is_none_or(|end| key < end);
                walk.ensure(is_between, || format!("key {key} of a leaf is not in order"))?;
                walk.ensure(value.key == key, || {
                    format!("key {key} of a leaf leads to the value of key {}", value.key)
                })?;
                walk.entry(key, value.tag)?;
                (least, linked) = (key.saturating_add(1), linked + 1);
            }
            Ok(())
        })?;
        let counted = session.get(tree.at(Tree::ENTRIES))?;
        walk.ensure(linked == counted, || {
            format!("{linked} entries are linked, {counted} are counted")
        })
    }
}
