//! Trees of keys of any length: a B+tree for each slice of a key.
//!
//! Integers are keys of one slice, the word that has their order. A string is cut into slices of 7
//! bytes, in the manner of Masstree (EuroSys'12, section 4.1): a slice is a word of 7 bytes and a
//! mark, which says how many of these the key ends with, or that it goes on. A slice with which a
//! key ends leads to the value; one with which it goes on leads to a link, a block with the anchor
//! of the tree of next slices. Trees that become empty are freed with their links.

use super::bytes;
use crate::{BTree as Tree, BTreeError, Damage};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{AccessError, Heap, Session, Tx, TxError};
use std::collections::HashSet;
use std::ops::Bound;

/// Version words that all trees of a heap share.
pub(super) const VERSIONS: u64 = 1 << 10;

/// Bytes of volatile memory behind those of the heap that fields of this kind need.
pub const DRAM_BYTES: u64 = Tree::dram_bytes(VERSIONS);

/// Bytes of a key in a slice.
const SLICE_BYTES: usize = 7;
/// The mark of a slice with which a key goes on.
const GOES_ON: u64 = 8;
/// The most slices of a key.
pub(super) const SLICES_MAX: usize = 256;
/// The most bytes of a key.
pub(super) const KEY_BYTES_MAX: usize = SLICES_MAX * SLICE_BYTES;

pub(super) const LINK_BYTES: u64 = 16;

/// Whether a key goes on behind a slice with a mark.
pub(super) fn goes_on(slice: u64) -> bool {
    slice & 0xff == GOES_ON
}

/// The slices of a string; their order is that of the strings.
pub(super) fn slices_of(key: &[u8]) -> Vec<u64> {
    let slice = |part: &[u8], mark: u64| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_be_bytes(word) | mark
    };
    let mut slices = Vec::with_capacity(key.len() / SLICE_BYTES + 1);
    let mut rest = key;
    while rest.len() > SLICE_BYTES {
        let (part, behind) = rest.split_at(SLICE_BYTES);
        slices.push(slice(part, GOES_ON));
        rest = behind;
    }
    slices.push(slice(rest, rest.len() as u64));
    slices
}

/// The string that was cut into `slices`. A mark that no slice has stands for a whole slice.
pub(super) fn joined(slices: &[u64]) -> Vec<u8> {
    let part = |slice: &u64| {
        let length = (slice & 0xff).min(SLICE_BYTES as u64) as usize;
        slice.to_be_bytes().into_iter().take(length)
    };
    slices.iter().flat_map(part).collect()
}

/// An end of the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// A key in slices, and the word of its value.
type Found = (Vec<u64>, u64);

/// What is done with each entry of a walk: what reads, the key in slices, the word of its value.
type Each<'e, R> = &'e mut dyn FnMut(&mut R, &[u64], u64) -> Result<(), <R as Reads>::Error>;

fn access_error(error: BTreeError) -> AccessError {
    match error {
        BTreeError::Heap(TxError::Access(error)) => error,
        BTreeError::Heap(other) => AccessError::Damaged { what: other.to_string() },
        BTreeError::Damage(damage) => AccessError::Damaged { what: format!("a tree: {damage}") },
    }
}

fn tx_error(error: BTreeError) -> TxError {
    match error {
        BTreeError::Heap(error) => error,
        damage => access_error(damage).into(),
    }
}

pub(super) fn versions_of(heap: &Heap) -> Addr {
    Addr::dram(heap.dram_bytes())
}

/// What reads trees: a session, or a transaction.
pub(super) trait Reads {
    type Error: From<AccessError>;

    /// The tree whose anchor is at `at`, if one was made there.
    fn tree(&mut self, at: Addr) -> Result<Option<Tree>, Self::Error>;
    fn get(&mut self, tree: &Tree, slice: u64) -> Result<Option<u64>, Self::Error>;
    fn end(&mut self, tree: &Tree, end: End) -> Result<Option<(u64, u64)>, Self::Error>;
    fn range(
        &mut self,
        tree: &Tree,
        range: (Bound<u64>, Bound<u64>),
    ) -> Result<Vec<(u64, u64)>, Self::Error>;
    /// How many bytes the object at `at` holds.
    fn length(&mut self, at: Addr) -> Result<u64, Self::Error>;
    /// Reads the bytes of the object at `at`, as many as its [`length`](Reads::length).
    fn content(&mut self, at: Addr, into: &mut [u8]);
}

impl<M: Memory> Reads for Tx<'_, '_, M> {
    type Error = TxError;

    fn tree(&mut self, at: Addr) -> Result<Option<Tree>, TxError> {
        if !at.bits().is_multiple_of(8) || !self.is_data(at, LINK_BYTES) {
            return Err(AccessError::NoData { at, bytes: LINK_BYTES }.into());
        }
        if self.load::<u64>(at) == 0 {
            return Ok(None);
        }
        let dram = versions_of(&self.heap());
        Tree::open_in(self, at, dram, VERSIONS).map(Some).map_err(tx_error)
    }

    fn get(&mut self, tree: &Tree, slice: u64) -> Result<Option<u64>, TxError> {
        tree.get_in(self, slice).map_err(tx_error)
    }

    fn end(&mut self, tree: &Tree, end: End) -> Result<Option<(u64, u64)>, TxError> {
        let found = match end {
            End::First => tree.first_in(self),
            End::Last => tree.last_in(self),
        };
        found.map_err(tx_error)
    }

    fn range(
        &mut self,
        tree: &Tree,
        range: (Bound<u64>, Bound<u64>),
    ) -> Result<Vec<(u64, u64)>, TxError> {
        let mut found = Vec::new();
        tree.range_in(self, range, |slice, word| found.push((slice, word))).map_err(tx_error)?;
        Ok(found)
    }

    fn length(&mut self, at: Addr) -> Result<u64, TxError> {
        Ok(bytes::length_in_tx(self, at)?)
    }

    fn content(&mut self, at: Addr, into: &mut [u8]) {
        self.read(bytes::content_at(at), into);
    }
}

impl<M: Memory> Reads for Session<'_, M> {
    type Error = AccessError;

    fn tree(&mut self, at: Addr) -> Result<Option<Tree>, AccessError> {
        if !at.bits().is_multiple_of(8) || !self.is_data(at, LINK_BYTES) {
            return Err(AccessError::NoData { at, bytes: LINK_BYTES });
        }
        if self.load::<u64>(at) == 0 {
            return Ok(None);
        }
        let dram = versions_of(&self.heap());
        Tree::open(self, at, dram, VERSIONS).map(Some).map_err(access_error)
    }

    fn get(&mut self, tree: &Tree, slice: u64) -> Result<Option<u64>, AccessError> {
        tree.get(self, slice).map_err(access_error)
    }

    fn end(&mut self, tree: &Tree, end: End) -> Result<Option<(u64, u64)>, AccessError> {
        let found = match end {
            End::First => tree.first(self),
            End::Last => tree.last(self),
        };
        found.map_err(access_error)
    }

    fn range(
        &mut self,
        tree: &Tree,
        range: (Bound<u64>, Bound<u64>),
    ) -> Result<Vec<(u64, u64)>, AccessError> {
        let mut found = Vec::new();
        tree.range(self, range, |slice, word| found.push((slice, word))).map_err(access_error)?;
        Ok(found)
    }

    fn length(&mut self, at: Addr) -> Result<u64, AccessError> {
        bytes::length_outside(self, at)
    }

    fn content(&mut self, at: Addr, into: &mut [u8]) {
        self.memory().read(bytes::content_at(at), into);
    }
}

/// The trees of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers {
    /// Where the anchor of the first tree is.
    at: Addr,
    /// False for integers, whose words have no marks.
    has_marks: bool,
}

impl Layers {
    pub(super) fn new(at: Addr, has_marks: bool) -> Layers {
        Layers { at, has_marks }
    }

    fn goes_on(self, slice: u64) -> bool {
        self.has_marks && goes_on(slice)
    }

    /// The word of the value of a key.
    pub(super) fn get<R: Reads>(self, reads: &mut R, key: &[u64]) -> Result<Option<u64>, R::Error> {
        let mut at = self.at;
        for slice in key {
            let Some(tree) = reads.tree(at)? else { return Ok(None) };
            let Some(word) = reads.get(&tree, *slice)? else { return Ok(None) };
            if !self.goes_on(*slice) {
                return Ok(Some(word));
            }
            at = Addr::from_bits(word);
        }
        Ok(None)
    }

    /// The entry at an end of the order.
    pub(super) fn end<R: Reads>(self, reads: &mut R, end: End) -> Result<Option<Found>, R::Error> {
        let (mut at, mut key) = (self.at, Vec::new());
        while key.len() < SLICES_MAX {
            let Some(tree) = reads.tree(at)? else { break };
            let Some((slice, word)) = reads.end(&tree, end)? else { break };
            key.push(slice);
            if !self.goes_on(slice) {
                return Ok(Some((key, word)));
            }
            at = Addr::from_bits(word);
        }
        if key.is_empty() { Ok(None) } else { Err(broken("a link leads to no entry").into()) }
    }

    /// How many entries there are.
    pub(super) fn len<R: Reads>(self, reads: &mut R) -> Result<u64, R::Error> {
        let mut count = 0;
        self.range(
            reads,
            &(Bound::Unbounded, Bound::Unbounded),
            &mut |_: &mut R, _: &[u64], _| {
                count += 1;
                Ok(())
            },
        )?;
        Ok(count)
    }

    /// Passes the entries between two bounds to `each`, in order.
    pub(super) fn range<R: Reads>(
        self,
        reads: &mut R,
        range: &(Bound<Vec<u64>>, Bound<Vec<u64>>),
        each: Each<'_, R>,
    ) -> Result<(), R::Error> {
        let mut walk = Walk { layers: self, range, key: Vec::new(), seen: HashSet::new() };
        walk.layer(reads, self.at, (true, true), each)
    }

    /// Lets a key lead to `word`; returns the word before.
    pub(super) fn insert<M: Memory>(
        self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u64],
        word: u64,
    ) -> Result<Option<u64>, TxError> {
        let mut at = self.at;
        let (last, before) = key.split_last().expect("a key has a slice");
        for slice in before {
            let tree = tree_to_change(tx, at)?;
            at = match tx.get(&tree, *slice)? {
                Some(link) => Addr::from_bits(link),
                None => {
                    let link = tx.alloc(LINK_BYTES)?;
                    tx.fill(link, &[0; LINK_BYTES as usize])?;
                    tree.insert_in(tx, *slice, link.bits()).map_err(tx_error)?;
                    link
                }
            };
        }
        let tree = tree_to_change(tx, at)?;
        tree.insert_in(tx, *last, word).map_err(tx_error)
    }

    /// Removes a key, and trees that become empty; returns the word that it led to.
    pub(super) fn remove<M: Memory>(
        self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u64],
    ) -> Result<Option<u64>, TxError> {
        let mut way: Vec<(Tree, u64, Addr)> = Vec::new();
        let mut at = self.at;
        for slice in key {
            let Some(tree) = tx.tree(at)? else { return Ok(None) };
            let Some(word) = tx.get(&tree, *slice)? else { return Ok(None) };
            way.push((tree, *slice, at));
            at = Addr::from_bits(word);
        }
        let word = at.bits();
        while let Some((tree, slice, link)) = way.pop() {
            tree.remove_in(tx, slice).map_err(tx_error)?;
            if way.is_empty() || tx.end(&tree, End::First)?.is_some() {
                break;
            }
            tree.free_in(tx).map_err(tx_error)?;
            tx.free(link)?;
        }
        Ok(Some(word))
    }

    /// Frees all trees, and passes the word of each value to `each`.
    pub(super) fn clear<M: Memory>(
        self,
        tx: &mut Tx<'_, '_, M>,
        mut each: impl FnMut(&mut Tx<'_, '_, M>, u64) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        let mut open = vec![self.at];
        let mut seen = HashSet::new();
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                return Err(broken("two links lead to one tree").into());
            }
            let Some(tree) = tx.tree(at)? else { continue };
            for (slice, word) in Reads::range(tx, &tree, (Bound::Unbounded, Bound::Unbounded))? {
                match self.goes_on(slice) {
                    true => open.push(Addr::from_bits(word)),
                    false => each(tx, word)?,
                }
            }
            tree.free_in(tx).map_err(tx_error)?;
            if at != self.at {
                tx.free(at)?;
            }
        }
        Ok(())
    }
}

fn broken(what: &str) -> AccessError {
    access_error(Damage::Broken(what.to_owned()).into())
}

fn tree_to_change<M: Memory>(tx: &mut Tx<'_, '_, M>, at: Addr) -> Result<Tree, TxError> {
    match tx.tree(at)? {
        Some(tree) => Ok(tree),
        None => {
            let dram = versions_of(&tx.heap());
            Tree::create_in(tx, at, dram, VERSIONS).map_err(tx_error)
        }
    }
}

/// A walk through the trees between two bounds.
struct Walk<'r> {
    layers: Layers,
    range: &'r (Bound<Vec<u64>>, Bound<Vec<u64>>),
    /// The slices on the way to the tree.
    key: Vec<u64>,
    seen: HashSet<Addr>,
}

impl Walk<'_> {
    /// The slice of a bound in this tree, if the way so far is the bound's.
    fn slice_of(&self, bound: &Bound<Vec<u64>>, is_on_it: bool) -> Option<u64> {
        match bound {
            Bound::Included(key) | Bound::Excluded(key) if is_on_it => {
                key.get(self.key.len()).copied()
            }
            _ => None,
        }
    }

    /// Finds what is in the tree at `at`; `on` says whether the way so far is that of the lower and
    /// of the upper bound.
    fn layer<R: Reads>(
        &mut self,
        reads: &mut R,
        at: Addr,
        on: (bool, bool),
        each: Each<'_, R>,
    ) -> Result<(), R::Error> {
        if !self.seen.insert(at) || self.key.len() >= SLICES_MAX {
            return Err(broken("two links lead to one tree").into());
        }
        let Some(tree) = reads.tree(at)? else { return Ok(()) };
        let low = self.slice_of(&self.range.0, on.0);
        let high = self.slice_of(&self.range.1, on.1);
        if low > high && high.is_some() {
            return Ok(());
        }
        let included = |slice: Option<u64>| slice.map_or(Bound::Unbounded, Bound::Included);
        for (slice, word) in reads.range(&tree, (included(low), included(high)))? {
            let on = (low == Some(slice), high == Some(slice));
            self.key.push(slice);
            if self.layers.goes_on(slice) {
                self.layer(reads, Addr::from_bits(word), on, each)?;
            } else {
                let is_out = on.0 && matches!(self.range.0, Bound::Excluded(_))
                    || on.1 && matches!(self.range.1, Bound::Excluded(_));
                if !is_out {
                    each(reads, &self.key, word)?;
                }
            }
            self.key.pop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{BTree, BTreeField, MapField};
    use seawall_memory::Image;
    use seawall_runtime::typed::{self, Persist};
    use seawall_runtime::{HeapError, HeapOptions};

    #[derive(Clone, Copy, Persist)]
    struct Root {
        map: BTree<str, u64>,
    }

    #[test]
    fn a_tree_that_leads_to_itself_is_damage_and_no_endless_walk() {
        let options = HeapOptions { threads: 1, ..typed::options::<Root>() };
        let memory = Image::new(options.pm_bytes(), options.dram_bytes() + DRAM_BYTES);
        typed::create::<Root, _, HeapError>(&memory, "layers", 1, &options, |pool| {
            let (mut session, map) = (pool.join(&memory), pool.root().at(Root::MAP));
            session.transaction(|tx| {
                map.insert(tx, "abcdefg, and on", &1)?;
                let (at, below) = tx.place(map)?;
                let tree = below.tree(at)?.expect("it has an entry");
                let slice = slices_of(b"abcdefg, and on")[0];
                tree.insert_in(below, slice, at.bits()).map_err(tx_error).map(drop)
            })?;
            let damaged = |error: &AccessError| matches!(error, AccessError::Damaged { .. });
            assert!(map.iter(&mut session).is_err_and(|error| damaged(&error)));
            assert!(map.len(&mut session).is_err_and(|error| damaged(&error)));
            assert!(map.first_key_value(&mut session).is_err_and(|error| damaged(&error)));
            assert_eq!(map.get(&mut session, "abcdefg, and on")?, None);
            let cleared: Result<(), TxError> = session.transaction(|tx| map.clear(tx));
            assert!(cleared.is_err());
            let long = "x".repeat(KEY_BYTES_MAX + 1);
            let refused: Result<_, TxError> = session.transaction(|tx| map.insert(tx, &long, &1));
            assert!(matches!(refused, Err(TxError::TooLong { .. })), "{refused:?}");
            Ok(())
        })
        .expect("room");
    }

    #[test]
    fn slices_have_the_order_of_strings_and_are_joined_again() {
        let parts = ["", "\0", "\0\0", "a", "a\0", "abcdefg", "abcdefg\0", "abcdefgh", "abcdefh"];
        let keys: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        assert!(keys.is_sorted() && keys.iter().map(|key| slices_of(key)).is_sorted());
        assert!(keys.iter().all(|key| joined(&slices_of(key)) == *key));
        assert_eq!(slices_of(b"abcdefgh").len(), 2);
    }
}
