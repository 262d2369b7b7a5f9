//! The way from the anchor to a node, and what is believed on it.
//!
//! At each level the child's address is read, then the child's version, and then the parent is
//! looked at again: if it has not changed, the child was its child when its version was read. Only
//! then is the child touched. So nothing that is followed comes from a node that was being changed
//! or had been freed; what is wild nevertheless is damage, and is refused before it is read.

use super::node::{Inner, Leaf};
use super::versions::Walker;
use super::{BTreeError, HEIGHT_SHIFT, Tree};
use crate::Damage;
use crate::reads::Reads;
use seawall_memory::{Addr, LINE_BYTES};

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
    fn pass<R: Reads, const KEYS: usize>(
        &mut self,
        from: &R,
        node: Inner<KEYS>,
        seen: u64,
        index: usize,
    );
}

impl Visit for () {
    #[inline]
    fn pass<R: Reads, const KEYS: usize>(&mut self, _: &R, _: Inner<KEYS>, _: u64, _: usize) {}
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
    fn pass<R: Reads, const KEYS: usize>(
        &mut self,
        from: &R,
        node: Inner<KEYS>,
        _: u64,
        index: usize,
    ) {
        if index > 0 {
            self.low = node.key(from, index - 1);
        }
        if index < node.count(from) {
            self.high = Some(node.key(from, index));
        }
    }
}

/// The inner nodes from the root down: address, version, number of the child.
#[derive(Clone, Debug, Default)]
pub(super) struct Way(pub(super) Vec<(Addr, u64, usize)>);

impl Visit for Way {
    fn pass<R: Reads, const KEYS: usize>(
        &mut self,
        _: &R,
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
    pub(super) fn descend<V: Visit>(
        &self,
        walker: &mut impl Walker,
        key: u64,
        level: u64,
    ) -> Result<(Spot, V), BTreeError> {
        loop {
            let mut visit = V::default();
            if let Some(spot) = self.try_descend(walker, key, level, &mut visit)? {
                return Ok((spot, visit));
            }
        }
    }

    #[inline]
    fn try_descend(
        &self,
        walker: &mut impl Walker,
        key: u64,
        wanted: u64,
        visit: &mut impl Visit,
    ) -> Result<Option<Spot>, BTreeError> {
        let anchor_seen = walker.version(self.versions.of(self.anchor))?;
        let (mut parent, mut parent_seen) = (self.anchor, anchor_seen);
        let (mut at, mut level) = parse(walker.word(self.anchor));
        loop {
            let seen = walker.version(self.versions.of(at))?;
            if !self.still(walker, parent, parent_seen) {
                return Ok(None);
            }
            self.admit(walker, at, level)?;
            if level <= wanted {
                return Ok(Some(Spot { at, seen, parent, parent_seen, level }));
            }
            if level > HEIGHT_MAX {
                return Err(Damage::Broken(format!("it is {level} levels high")).into());
            }
            let node = Inner::<KEYS>(at);
            let index = node.search(walker, key);
            let child = node.child(walker, index);
            visit.pass(walker, node, seen, index);
            (parent, parent_seen, at) = (at, seen, child);
            level -= 1;
        }
    }

    /// Refuses addresses at which no node of that level can be. What was the heap's once remains
    /// it.
    #[inline]
    pub(super) fn admit(
        &self,
        walker: &impl Walker,
        at: Addr,
        level: u64,
    ) -> Result<(), BTreeError> {
        let bytes = if level == 0 { Leaf::<SLOTS>::BYTES } else { Inner::<KEYS>::BYTES };
        let (low, end) = &self.objects;
        let is_inside = at.bits() >= *low && at.bits().saturating_add(bytes) <= end.get();
        if is_inside && at.bits().is_multiple_of(LINE_BYTES) {
            return Ok(());
        }
        if !walker.is_data(at, bytes) || !at.bits().is_multiple_of(LINE_BYTES) {
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
