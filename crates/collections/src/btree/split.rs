//! Making room: a full node moves half of its entries to a new one.
//!
//! A split writes the new node, what is left of the old one, and the link above it, or a new root.
//! A node above that is full too is split first: in a transaction of its own, so that none grows
//! with the height of the tree, unless all of it is part of a caller's. Where a key goes behind all
//! others, the last node of a level keeps all but its end, so that ascending keys leave full nodes
//! behind.

use super::descend::{Bounds, HEIGHT_MAX, Spot, anchor_word};
use super::node::{Inner, Leaf};
use super::versions::Writer;
use super::{BTreeError, BTreeFlaw, Tree};
use crate::Damage;
use crate::reads::Within;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Tx;

/// A new node to be linked behind the node that it was split from.
struct Link {
    parent: Addr,
    left: Addr,
    right: Addr,
    separator: u64,
    /// Level of the parent.
    level: u64,
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Brings the leaf that has `key` in its range nearer to having room: splits the node of
    /// `level` above it if that is full, or says that the one above must be split first. Gives the
    /// level to go on with; none when there is room.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        level: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let (spot, bounds) = self.descend::<Bounds>(&mut Writer(tx), key, level)?;
        if spot.level < level {
            return Ok(Some(spot.level));
        }
        let within = Within(tx);
        let is_full = match level {
            0 => Leaf::<SLOTS>(spot.at).free(&within).is_none(),
            _ => Inner::<KEYS>(spot.at).count(&within) == KEYS,
        };
        if is_full {
            let is_root = spot.parent == self.anchor;
            if !is_root && Inner::<KEYS>(spot.parent).count(&within) == KEYS {
                return Ok(Some(level + 1));
            }
            if !self.lock(tx, [(spot.parent, spot.parent_seen), (spot.at, spot.seen)]) {
                return Ok(Some(level));
            }
            match level {
                0 => self.split_leaf(tx, &spot, &bounds, key)?,
                _ => self.split_inner(tx, &spot, &bounds, key)?,
            }
        }
        Ok(level.checked_sub(1))
    }

    /// Moves the upper entries of a leaf to a new one and links it.
    fn split_leaf<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        spot: &Spot,
        bounds: &Bounds,
        key: u64,
    ) -> Result<(), BTreeError> {
        let leaf = Leaf::<SLOTS>(spot.at);
        let mut entries = Vec::with_capacity(SLOTS);
        leaf.entries(&Within(tx), |entry| entries.push(entry));
        if entries.len() != SLOTS {
            let what = format!("the full leaf at {} has {} entries", spot.at, entries.len());
            return Err(Damage::Broken(what).into());
        }
        let is_append = bounds.high.is_none() && entries.iter().all(|(there, ..)| *there < key);
        let cut = if is_append { SLOTS - 1 } else { SLOTS / 2 };
        entries.select_nth_unstable(cut);
        let moved = entries.split_off(cut);
        let right = tx.alloc_lines(Leaf::<SLOTS>::BYTES)?;
        self.store(tx, right, &Leaf::<SLOTS>::image(&moved), None)?;
        let (parent, left, separator) = (spot.parent, spot.at, moved[0].0);
        self.link(tx, &Link { parent, left, right, separator, level: 1 })?;
        let mut prints = leaf.all_prints(&Within(tx));
        for (_, _, slot) in moved {
            prints[slot / 8] &= !(0xff << (8 * (slot % 8)));
        }
        self.store(tx, leaf.prints(0), &prints, None)
    }

    /// Moves the upper keys of an inner node to a new one and links it.
    fn split_inner<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        spot: &Spot,
        bounds: &Bounds,
        key: u64,
    ) -> Result<(), BTreeError> {
        let node = Inner::<KEYS>(spot.at);
        let (keys, children) = node.content(&Within(tx));
        if keys.len() != KEYS {
            let what = format!("the full node at {} has {} keys", spot.at, keys.len());
            return Err(Damage::Broken(what).into());
        }
        let is_appended = bounds.high.is_none() && keys[KEYS - 1] <= key;
        let cut = if is_appended { KEYS - 2 } else { KEYS / 2 };
        let right = tx.alloc_lines(Inner::<KEYS>::BYTES)?;
        let image = Inner::<KEYS>::image(spot.level, &keys[cut + 1..], &children[cut + 1..]);
        self.store(tx, right, &image, None)?;
        tx.store(node.0, Inner::<KEYS>::head(spot.level, cut))?;
        self.store(tx, node.key_at(cut), &vec![u64::MAX; KEYS - cut], None)?;
        let (parent, left, separator) = (spot.parent, spot.at, keys[cut]);
        self.link(tx, &Link { parent, left, right, separator, level: spot.level + 1 })
    }

    /// Puts a separator and the node behind it into the parent, which has room, or makes a root.
    fn link<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, link: &Link) -> Result<(), BTreeError> {
        let Link { parent, left, right, separator, level } = *link;
        if parent == self.anchor {
            if level > HEIGHT_MAX {
                return Err(Damage::Broken(format!("it is {level} levels high")).into());
            }
            let root = tx.alloc_lines(Inner::<KEYS>::BYTES)?;
            let image = Inner::<KEYS>::image(level, &[separator], &[left, right]);
            self.store(tx, root, &image, None)?;
            let word = anchor_word(root, level);
            return self.store(tx, self.anchor, &[word], Some(BTreeFlaw::EarlyLink));
        }
        let node = Inner::<KEYS>(parent);
        let (mut keys, mut children) = node.content(&Within(tx));
        let index = node.search(&Within(tx), separator);
        if keys.len() == KEYS || children[index] != left {
            let what = format!("the node at {parent} has no link to its child at {left}");
            return Err(Damage::Broken(what).into());
        }
        keys.insert(index, separator);
        children.insert(index + 1, right);
        self.rewrite(tx, node, level, (&keys, &children), index + 1, Some(BTreeFlaw::EarlyLink))
    }

    /// Writes the new content of an inner node. The children before number `child`, and the keys
    /// between them, are there already.
    pub(super) fn rewrite<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        node: Inner<KEYS>,
        level: u64,
        (keys, children): (&[u64], &[Addr]),
        child: usize,
        flaw: Option<BTreeFlaw>,
    ) -> Result<(), BTreeError> {
        let from = child.saturating_sub(1);
        let before = node.count(&Within(tx));
        self.store(tx, node.0, &[Inner::<KEYS>::head(level, keys.len())], flaw)?;
        let mut changed = keys[from..].to_vec();
        changed.resize(changed.len().max(before.saturating_sub(from)), u64::MAX);
        self.store(tx, node.key_at(from), &changed, flaw)?;
        let children: Vec<u64> = children[child..].iter().map(|child| child.bits()).collect();
        self.store(tx, node.child_at(child), &children, flaw)
    }

    /// Stores words in a row as part of the transaction; with that bug planted, also in place, at
    /// once.
    pub(super) fn store<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        at: Addr,
        words: &[u64],
        flaw: Option<BTreeFlaw>,
    ) -> Result<(), BTreeError> {
        let is_early = flaw.is_some_and(|flaw| self.flaw.is(flaw));
        for (at, word) in (0..).map(|word| at.plus(8 * word)).zip(words) {
            tx.store(at, *word)?;
            if is_early {
                tx.memory().store(at, *word);
                tx.memory().persist(at, 8);
            }
        }
        Ok(())
    }
}
