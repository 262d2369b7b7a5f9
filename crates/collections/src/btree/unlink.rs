//! Removing the last entry of a leaf: the leaf goes, with every node above that had nothing else.
//!
//! The child goes from the lowest node that has others; its range of keys goes to a neighbour,
//! whose own entries and version this leaves alone. All of it is one transaction, which writes that
//! node and a byte for each that is freed. A root with a single child left is freed in turn.

use super::descend::{Spot, Way, anchor_word, parse};
use super::node::{Inner, Leaf};
use super::split::store_words;
use super::versions::Held;
use super::{BTreeError, BTreeFlaw, Tree};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Session, Tx};

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Removes `key` with its leaf, if it is the only one there; false, and nothing has changed, if
    /// it is not, or others came between.
    #[cold]
    #[inline(never)]
    pub(super) fn unlink<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<bool, BTreeError> {
        let memory = session.memory();
        let (spot, Way(way)) = self.descend::<M, Way>(session, key, 0)?;
        let has_others = |(node, ..): &(Addr, u64, usize)| Inner::<KEYS>(*node).count(memory) > 0;
        let from = way.iter().rposition(has_others).unwrap_or(0);
        let Some(((keeper, _, index), alone)) = way.get(from..).and_then(<[_]>::split_first) else {
            return Ok(false);
        };
        let mut held = Held::default();
        let is_locked = self.flaw == BTreeFlaw::NoLock
            || (way[from..]
                .iter()
                .all(|(node, seen, _)| self.versions.also(memory, &mut held, *node, *seen))
                && self.versions.also(memory, &mut held, spot.at, spot.seen));
        let leaf = Leaf::<SLOTS>(spot.at);
        let slot = leaf.find(memory, key).filter(|_| leaf.count(memory) == 1);
        let (Some(slot), true) = (slot, is_locked) else {
            held.abandon(memory);
            return Ok(false);
        };
        let is_sole = Inner::<KEYS>(*keeper).count(memory) == 0;
        let outcome: Result<(), BTreeError> = if is_sole {
            let prints = leaf.with_print(memory, slot, 0);
            session.redo(|tx| Ok(tx.store(leaf.prints(slot), prints)?))
        } else {
            let free = |tx: &mut Tx<'_, '_, M>| Self::free_chain(tx, alone, &spot);
            if self.flaw == BTreeFlaw::FreeFirst {
                session
                    .redo(free)
                    .and_then(|()| session.redo(|tx| Self::take_child(tx, Inner(*keeper), *index)))
            } else {
                session.redo(|tx| {
                    free(tx)?;
                    Self::take_child(tx, Inner(*keeper), *index)
                })
            }
        };
        held.release(memory);
        outcome?;
        if from == 0 {
            self.lower(session)?;
        }
        Ok(true)
    }

    fn free_chain<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        alone: &[(Addr, u64, usize)],
        spot: &Spot,
    ) -> Result<(), BTreeError> {
        for (node, ..) in alone {
            tx.free(*node)?;
        }
        Ok(tx.free(spot.at)?)
    }

    /// Takes child `index` out of a node that has others.
    fn take_child<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        node: Inner<KEYS>,
        index: usize,
    ) -> Result<(), BTreeError> {
        let (mut keys, mut children) = node.content(tx.memory());
        let head: u64 = tx.load(node.0);
        // The neighbour before takes the range over, or the one after if there is none.
        let from = index.saturating_sub(1);
        keys.remove(from);
        children.remove(index);
        tx.store(node.0, head - 1)?;
        keys.push(u64::MAX);
        store_words(tx, node.key_at(from), &keys[from..])?;
        let children: Vec<u64> = children[index..].iter().map(|child| child.bits()).collect();
        Ok(store_words(tx, node.child_at(index), &children)?)
    }

    /// Frees roots that have a single child, which becomes the root.
    fn lower<M: Memory>(&self, session: &mut Session<'_, M>) -> Result<(), BTreeError> {
        let memory = session.memory();
        loop {
            let (spot, ()) = self.descend(session, 0, u64::MAX)?;
            let root = Inner::<KEYS>(spot.at);
            if spot.level == 0 || root.count(memory) > 0 {
                return Ok(());
            }
            let mut held = Held::default();
            let is_locked = self.flaw == BTreeFlaw::NoLock
                || (self.versions.also(memory, &mut held, self.anchor, spot.parent_seen)
                    && self.versions.also(memory, &mut held, spot.at, spot.seen));
            if !is_locked {
                // Whoever holds them has the same reason to look again.
                held.abandon(memory);
                continue;
            }
            let child = root.child(memory, 0);
            debug_assert_eq!(parse(memory.load(self.anchor)), (spot.at, spot.level));
            let outcome = session.redo(|tx| {
                tx.free(spot.at)?;
                tx.store(self.anchor, anchor_word(child, spot.level - 1))
            });
            held.release(memory);
            outcome?;
        }
    }
}
