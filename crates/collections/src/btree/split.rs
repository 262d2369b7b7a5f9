//! Making room: a full node gives half of what it has to a new one.
//!
//! A split writes the new node, what is left of the old one, and the link above it, or a new root,
//! in one transaction. A node above that is full too is split first, in a transaction of its own,
//! so none grows with the height of the tree. Where a key goes behind all others, the last node of
//! a level keeps all but its end, so that ascending keys leave full nodes behind.

use super::descend::{Bounds, HEIGHT_MAX, Spot, anchor_word};
use super::node::{Entry, Inner, Leaf};
use super::versions::Held;
use super::{BTreeError, BTreeFlaw, Tree};
use crate::Damage;
use seawall_memory::{Addr, Memory};
use seawall_runtime::{HeapError, Session, Tx};

/// A new node to be linked behind the node that it was split from.
struct Link {
    parent: Addr,
    left: Addr,
    right: Addr,
    separator: u64,
    /// Level of the parent.
    level: u64,
}

/// Stores words in a row.
pub(super) fn store_words<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    at: Addr,
    words: &[u64],
) -> Result<(), HeapError> {
    for (word, value) in (0..).zip(words) {
        tx.store(at.plus(8 * word), *value)?;
    }
    Ok(())
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Splits the leaf that has `key` in its range, if it is full, and what must be split for that.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<(), BTreeError> {
        let memory = session.memory();
        let mut level = 0;
        loop {
            let (spot, bounds) = self.descend::<M, Bounds>(session, key, level)?;
            if spot.level < level {
                level = spot.level;
                continue;
            }
            let is_full = match level {
                0 => Leaf::<SLOTS>(spot.at).free(memory).is_none(),
                _ => Inner::<KEYS>(spot.at).count(memory) == KEYS,
            };
            if is_full {
                let is_root = spot.parent == self.anchor;
                if !is_root && Inner::<KEYS>(spot.parent).count(memory) == KEYS {
                    level += 1;
                    continue;
                }
                if !self.split(session, &spot, &bounds, key)? {
                    continue;
                }
            }
            match level {
                0 => return Ok(()),
                _ => level -= 1,
            }
        }
    }

    /// Splits the node; false, and nothing has changed, if it or its parent is not as it was seen.
    fn split<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        spot: &Spot,
        bounds: &Bounds,
        key: u64,
    ) -> Result<bool, BTreeError> {
        let memory = session.memory();
        let mut held = Held::default();
        if self.flaw != BTreeFlaw::NoLock
            && !(self.versions.also(memory, &mut held, spot.parent, spot.parent_seen)
                && self.versions.also(memory, &mut held, spot.at, spot.seen))
        {
            held.abandon(memory);
            return Ok(false);
        }
        let outcome = match (spot.level, self.flaw) {
            (0, BTreeFlaw::LinkFirst) => session
                .redo(|tx| self.split_leaf(tx, spot, bounds, key))
                .and_then(|moved| session.redo(|tx| self.forget(tx, spot.at, &moved))),
            (0, _) => session.redo(|tx| {
                let moved = self.split_leaf(tx, spot, bounds, key)?;
                self.forget(tx, spot.at, &moved)
            }),
            _ => session.redo(|tx| self.split_inner(tx, spot, bounds, key)),
        };
        held.release(memory);
        outcome.map(|()| true)
    }

    /// Copies the upper entries of a leaf to a new one and links it; gives those.
    fn split_leaf<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        spot: &Spot,
        bounds: &Bounds,
        key: u64,
    ) -> Result<Vec<Entry>, BTreeError> {
        let mut entries = Vec::with_capacity(SLOTS);
        Leaf::<SLOTS>(spot.at).entries(tx.memory(), |entry| entries.push(entry));
        if entries.len() != SLOTS {
            let what = format!("the full leaf at {} has {} entries", spot.at, entries.len());
            return Err(Damage::Broken(what).into());
        }
        let is_append = bounds.high.is_none() && entries.iter().all(|(there, ..)| *there < key);
        let cut = if is_append { SLOTS - 1 } else { SLOTS / 2 };
        entries.select_nth_unstable(cut);
        let moved = entries.split_off(cut);
        let right = tx.alloc_lines(Leaf::<SLOTS>::BYTES)?;
        store_words(tx, right, &Leaf::<SLOTS>::image(&moved))?;
        let (parent, left, separator) = (spot.parent, spot.at, moved[0].0);
        self.link(tx, &Link { parent, left, right, separator, level: 1 })?;
        Ok(moved)
    }

    /// Frees the slots of entries that have moved.
    fn forget<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        leaf: Addr,
        moved: &[Entry],
    ) -> Result<(), BTreeError> {
        let leaf = Leaf::<SLOTS>(leaf);
        let mut prints: Vec<u64> =
            (0..SLOTS.div_ceil(8)).map(|word| tx.load(leaf.prints(8 * word))).collect();
        for (_, _, slot) in moved {
            prints[slot / 8] &= !(0xff << (8 * (slot % 8)));
        }
        Ok(store_words(tx, leaf.prints(0), &prints)?)
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
        let (keys, children) = node.content(tx.memory());
        if keys.len() != KEYS {
            let what = format!("the full node at {} has {} keys", spot.at, keys.len());
            return Err(Damage::Broken(what).into());
        }
        let is_appended = bounds.high.is_none() && keys[KEYS - 1] <= key;
        let cut = if is_appended { KEYS - 2 } else { KEYS / 2 };
        let right = tx.alloc_lines(Inner::<KEYS>::BYTES)?;
        let image = Inner::<KEYS>::image(spot.level, &keys[cut + 1..], &children[cut + 1..]);
        store_words(tx, right, &image)?;
        tx.store(node.0, Inner::<KEYS>::head(spot.level, cut))?;
        store_words(tx, node.key_at(cut), &vec![u64::MAX; KEYS - cut])?;
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
            store_words(tx, root, &Inner::<KEYS>::image(level, &[separator], &[left, right]))?;
            return Ok(tx.store(self.anchor, anchor_word(root, level))?);
        }
        let node = Inner::<KEYS>(parent);
        let (mut keys, mut children) = node.content(tx.memory());
        let index = node.search(tx.memory(), separator);
        if keys.len() == KEYS || children[index] != left {
            let what = format!("the node at {parent} has no link to its child at {left}");
            return Err(Damage::Broken(what).into());
        }
        keys.insert(index, separator);
        children.insert(index + 1, right);
        tx.store(node.0, Inner::<KEYS>::head(level, keys.len()))?;
        store_words(tx, node.key_at(index), &keys[index..])?;
        let children: Vec<u64> = children[index + 1..].iter().map(|child| child.bits()).collect();
        Ok(store_words(tx, node.child_at(index + 1), &children)?)
    }
}
