//! Giving space back: a node that few keys are left in joins a neighbour.
//!
//! A node of which a quarter or less is used goes into one of its neighbours under the same parent,
//! if that is no more than three quarters full then, so that neither the next insert nor the next
//! removal undoes it; a node with nothing left goes wherever it fits. An inner node with a single
//! child and neighbours that are full takes half of what one of them has. A root with a single
//! child is freed, and the child is the root. A tree from which all keys are removed is an empty
//! leaf again.
//!
//! A step writes the node that stays, the parent, and a byte for what is freed. The node above,
//! which has one key less, is looked at next: in a transaction of its own, so that none grows with
//! the height of the tree, unless all of it is part of a caller's.

use super::descend::{Way, anchor_word};
use super::node::{Entry, Inner, Leaf, fingerprint};
use super::versions::{Walker, Writer};
use super::{BTreeError, BTreeFlaw, Tree};
use crate::Damage;
use crate::reads::{Reads, Within};
use seawall_memory::{Addr, Memory};
use seawall_runtime::Tx;

/// A node and the version that it was seen at.
type Seen = (Addr, u64);

/// A node that is sparse, and its parent, in which it is child `index` of at least two.
struct Sparse {
    node: Seen,
    parent: Seen,
    index: usize,
    level: u64,
}

/// A node that is sparse and one of its neighbours.
struct Pair<const KEYS: usize> {
    parent: Inner<KEYS>,
    /// The one with the lower keys first.
    nodes: [Addr; 2],
    /// Number of the first one among the children of the parent, and of the key between.
    index: usize,
    level: u64,
    /// Which of the two is the sparse one.
    sparse: usize,
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Whether a node of that level with `count` entries or keys should join another.
    #[inline]
    pub(super) const fn is_sparse(level: u64, count: usize) -> bool {
        4 * count <= if level == 0 { SLOTS } else { KEYS }
    }

    /// Whether two nodes of that level, with `sparse` and `other` entries or keys, become one.
    fn fit(level: u64, sparse: usize, other: usize) -> bool {
        let (all, room) =
            if level == 0 { (sparse + other, SLOTS) } else { (sparse + other + 1, KEYS) };
        4 * all <= 3 * room || (sparse == 0 && all <= room)
    }

    fn count_in(from: &impl Reads, level: u64, node: Addr) -> usize {
        if level == 0 { Leaf::<SLOTS>(node).count(from) } else { Inner::<KEYS>(node).count(from) }
    }

    /// Joins the node of `level` that has `key` in its range with a neighbour if it is sparse; one
    /// above it first if it has no neighbour. Gives the level to go on with, if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn merge<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        level: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let (spot, Way(way)) = self.descend::<Way>(&mut Writer(tx), key, level)?;
        if spot.level < level {
            return Ok(None);
        }
        let within = Within(tx);
        let has_keys = |(node, ..): &(Addr, u64, usize)| Inner::<KEYS>(*node).count(&within) > 0;
        let root = way.first().copied().unwrap_or((spot.at, spot.seen, 0));
        let root_level = level + way.len() as u64;
        if root_level > 0 && !has_keys(&root) {
            self.lower(tx, (root.0, root.1), root_level)?;
            return Ok(Some(level));
        }
        let Some(above) = way.iter().rposition(has_keys) else { return Ok(None) };
        let node =
            way.get(above + 1).map_or((spot.at, spot.seen), |(node, seen, _)| (*node, *seen));
        let node_level = root_level - 1 - above as u64;
        if !Self::is_sparse(node_level, Self::count_in(&within, node_level, node.0)) {
            return Ok(None);
        }
        let (parent, seen, index) = way[above];
        let sparse = Sparse { node, parent: (parent, seen), index, level: node_level };
        match self.join(tx, &sparse)? {
            Some(true) if node_level == level => Ok(Some(level + 1)),
            Some(_) => Ok(Some(level)),
            None => Ok(None),
        }
    }

    /// Joins a sparse node with a neighbour; false if others came between, nothing if no neighbour
    /// has room.
    fn join<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        sparse: &Sparse,
    ) -> Result<Option<bool>, BTreeError> {
        let Sparse { node, parent, index, level } = *sparse;
        let above = Inner::<KEYS>(parent.0);
        let few = Self::count_in(&Within(tx), level, node.0);
        let last = above.count(&Within(tx));
        let mut full = None;
        for other in [index.checked_sub(1), Some(index + 1).filter(|other| *other <= last)] {
            let Some(other) = other else { continue };
            let at = above.child(&Within(tx), other);
            let mut writer = Writer(tx);
            let seen = writer.version(self.versions.of(at))?;
            if !self.still(&writer, parent.0, parent.1) {
                return Ok(Some(false));
            }
            self.admit(&writer, at, level)?;
            let nodes = if other < index { [at, node.0] } else { [node.0, at] };
            let pair = Pair {
                parent: above,
                nodes,
                index: other.min(index),
                level,
                sparse: usize::from(other < index),
            };
            if Self::fit(level, few, Self::count_in(&writer, level, at)) {
                if !self.lock(tx, [parent, node, (at, seen)]) {
                    return Ok(Some(false));
                }
                match level {
                    0 => self.join_leaves(tx, &pair)?,
                    _ => self.join_inners(tx, &pair)?,
                }
                return Ok(Some(true));
            }
            full = Some((pair, seen));
        }
        let Some((pair, seen)) = full.filter(|_| level > 0 && few == 0) else { return Ok(None) };
        if !self.lock(tx, [parent, node, (pair.nodes[1 - pair.sparse], seen)]) {
            return Ok(Some(false));
        }
        self.join_inners(tx, &pair)?;
        Ok(Some(true))
    }

    /// Moves what a leaf has to the free slots of its neighbour.
    fn join_leaves<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        pair: &Pair<KEYS>,
    ) -> Result<(), BTreeError> {
        let [from, to] = [pair.sparse, 1 - pair.sparse].map(|at| Leaf::<SLOTS>(pair.nodes[at]));
        let mut entries: Vec<Entry> = Vec::new();
        from.entries(&Within(tx), |entry| entries.push(entry));
        let mut prints = to.all_prints(&Within(tx));
        let free = |prints: &[u64], slot: usize| prints[slot / 8] >> (8 * (slot % 8)) & 0xff == 0;
        let mut slots =
            (0..SLOTS).filter(|slot| free(&prints, *slot)).collect::<Vec<_>>().into_iter();
        for (key, value, _) in entries {
            let Some(slot) = slots.next() else {
                return Err(Damage::Broken(format!("the leaf at {} is too full", to.0)).into());
            };
            self.store(tx, to.slot(slot), &[key, value], None)?;
            prints[slot / 8] |= fingerprint(key) << (8 * (slot % 8));
        }
        self.store(tx, to.prints(0), &prints, None)?;
        self.take_child(tx, pair, pair.sparse)
    }

    /// Puts what two inner nodes have into the first, or half of it into each.
    fn join_inners<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        pair: &Pair<KEYS>,
    ) -> Result<(), BTreeError> {
        let [left, right] = pair.nodes.map(Inner::<KEYS>);
        let (mut keys, mut children) = left.content(&Within(tx));
        let before = keys.len();
        let (more, others) = right.content(&Within(tx));
        keys.push(pair.parent.key(&Within(tx), pair.index));
        keys.extend(more);
        children.extend(others);
        let (none, level) = (None, pair.level);
        if keys.len() <= KEYS {
            self.rewrite(tx, left, level, (&keys, &children), before + 1, none)?;
            return self.take_child(tx, pair, 1);
        }
        let cut = keys.len() / 2;
        let (low, high) = (&keys[..cut], &keys[cut + 1..]);
        self.rewrite(tx, left, level, (low, &children[..=cut]), before.min(cut) + 1, none)?;
        self.rewrite(tx, right, level, (high, &children[cut + 1..]), 0, none)?;
        self.store(tx, pair.parent.key_at(pair.index), &[keys[cut]], none)
    }

    /// Takes a node of the pair out of its parent, with the key between, and frees it.
    fn take_child<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        pair: &Pair<KEYS>,
        which: usize,
    ) -> Result<(), BTreeError> {
        let (mut keys, mut children) = pair.parent.content(&Within(tx));
        keys.remove(pair.index);
        let child = pair.index + which;
        children.remove(child);
        let content = (&keys[..], &children[..]);
        self.rewrite(
            tx,
            pair.parent,
            pair.level + 1,
            content,
            child,
            Some(BTreeFlaw::EarlyUnlink),
        )?;
        Ok(tx.free(pair.nodes[which])?)
    }

    /// Frees a root that has a single child, which becomes the root, if others do not come between.
    fn lower<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        root: Seen,
        level: u64,
    ) -> Result<(), BTreeError> {
        let mut writer = Writer(tx);
        let seen = writer.version(self.versions.of(self.anchor))?;
        let word = writer.word(self.anchor);
        if word != anchor_word(root.0, level) || !self.lock(tx, [(self.anchor, seen), root]) {
            return Ok(());
        }
        let child = Inner::<KEYS>(root.0).child(&Within(tx), 0);
        tx.free(root.0)?;
        Ok(tx.store(self.anchor, anchor_word(child, level - 1))?)
    }
}
