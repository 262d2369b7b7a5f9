//! The way from the anchor to a node, and what is believed on it.
//!
//! At each level the child's address is read, then the child's version, and then the parent is
//! looked at again: if it has not changed, the child was its child when its version was read. Only
//! then is the child touched. So nothing that is followed comes from a node that was being changed
//! or had been freed; what is wild nevertheless is damage, and is refused before it is read.

use super::node::{Inner, Leaf};
use super::{BTreeError, BTreeFlaw, HEIGHT_SHIFT, Tree};
use crate::Damage;
use seawall_memory::{Addr, LINE_BYTES, Memory};
use seawall_runtime::Session;

/// The greatest height of a tree: with leaves at 0, the level of its root.
pub(super) const HEIGHT_MAX: u64 = 40;

/// A node that has a key in its range, and the node (or anchor) with the link to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) at: Addr,
    pub(super) seen: u64,
    pub(super) parent: Addr,
    pub(super) parent_seen: u64,
    /// Level of the node; more than was asked for if the tree is lower.
    pub(super) level: u64,
}

/// What a descent notes of the inner nodes on its way, before it knows that they hold.
pub(super) trait Visit: Default {
    /// A node that was left by child `index`.
    fn pass<M: Memory, const KEYS: usize>(
        &mut self,
        memory: &M,
        node: Inner<KEYS>,
        seen: u64,
        index: usize,
    );
}

impl Visit for () {
    #[inline]
    fn pass<M: Memory, const KEYS: usize>(&mut self, _: &M, _: Inner<KEYS>, _: u64, _: usize) {}
}

/// The range of keys that a node has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// The least key.
    pub(super) low: u64,
    /// The first key that is too great.
    pub(super) high: Option<u64>,
}

impl Visit for Bounds {
    #[inline]
    fn pass<M: Memory, const KEYS: usize>(
        &mut self,
        memory: &M,
        node: Inner<KEYS>,
        _: u64,
        index: usize,
    ) {
        if index > 0 {
            self.low = node.key(memory, index - 1);
        }
        if index < node.count(memory) {
            self.high = Some(node.key(memory, index));
        }
    }
}

/// The inner nodes from the root down: address, version, number of the child.
#[derive(Clone, Debug, Default)]
pub(super) struct Way(pub(super) Vec<(Addr, u64, usize)>);

impl Visit for Way {
    fn pass<M: Memory, const KEYS: usize>(
        &mut self,
        _: &M,
        node: Inner<KEYS>,
        seen: u64,
        index: usize,
    ) {
        self.0.push((node.0, seen, index));
    }
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// The node of `level` (the root if the tree is no higher) that has `key` in its range.
    #[inline]
    pub(super) fn descend<M: Memory, V: Visit>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        level: u64,
    ) -> Result<(Spot, V), BTreeError> {
        loop {
            let mut visit = V::default();
            if let Some(spot) = self.try_descend(session, key, level, &mut visit)? {
                return Ok((spot, visit));
            }
        }
    }

    #[inline]
    fn try_descend<M: Memory, V: Visit>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        wanted: u64,
        visit: &mut V,
    ) -> Result<Option<Spot>, BTreeError> {
        let memory = session.memory();
        let (mut parent, mut parent_seen) = (self.anchor, self.versions.seen(memory, self.anchor));
        let (mut at, mut level) = parse(memory.load(self.anchor));
        loop {
            let seen = self.versions.seen(memory, at);
            if !self.still(memory, parent, parent_seen) {
                return Ok(None);
            }
            let bytes = if level == 0 { Leaf::<SLOTS>::BYTES } else { Inner::<KEYS>::BYTES };
            self.admit(session, at, bytes)?;
            if level <= wanted {
                return Ok(Some(Spot { at, seen, parent, parent_seen, level }));
            }
            if level > HEIGHT_MAX {
                return Err(Damage::Broken(format!("it is {level} levels high")).into());
            }
            let node = Inner::<KEYS>(at);
            let index = node.search(memory, key);
            let child = node.child(memory, index);
            visit.pass(memory, node, seen, index);
            (parent, parent_seen, at) = (at, seen, child);
            level -= 1;
        }
    }

    /// As [`Versions::still`](super::versions::Versions::still).
    #[inline]
    pub(super) fn still<M: Memory>(&self, memory: &M, node: Addr, seen: u64) -> bool {
        self.versions.still(memory, node, seen) || self.flaw == BTreeFlaw::NoValidation
    }

    /// Refuses addresses at which no node can be. What was the heap's once remains it.
    #[inline]
    fn admit<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        at: Addr,
        bytes: u64,
    ) -> Result<(), BTreeError> {
        let (low, end) = &self.objects;
        let is_inside = at.bits() >= *low && at.bits().saturating_add(bytes) <= end.get();
        if is_inside && at.bits().is_multiple_of(LINE_BYTES) {
            return Ok(());
        }
        self.admit_new(session, at, bytes)
    }

    #[cold]
    #[inline(never)]
    fn admit_new<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        at: Addr,
        bytes: u64,
    ) -> Result<(), BTreeError> {
        let is_data = session.redo(|tx| tx.add(&[(at, bytes)])).is_ok();
        if !is_data || !at.bits().is_multiple_of(LINE_BYTES) {
            let what = "a link of the tree".to_owned();
            return Err(Damage::Pointer { what, to: at.bits() }.into());
        }
        self.objects.1.set(self.objects.1.get().max(at.bits() + bytes));
        Ok(())
    }
}

/// The root and its level, from the anchor.
#[inline]
pub(super) fn parse(anchor: u64) -> (Addr, u64) {
    (Addr::from_bits(anchor & ((1 << HEIGHT_SHIFT) - 1)), anchor >> HEIGHT_SHIFT)
}

/// The anchor of a root at that level.
pub(super) const fn anchor_word(root: Addr, level: u64) -> u64 {
    root.bits() | level << HEIGHT_SHIFT
}
