//! Checks a whole tree, whatever its bytes are.

use super::descend::{HEIGHT_MAX, parse};
use super::node::{Inner, Leaf};
use super::{BTreeError, Tree};
use crate::Damage;
use crate::live::Live;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Heap;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Checked {
    /// Entries.
    pub entries: u64,
    /// Leaves.
    pub leaves: u64,
    /// Inner nodes.
    pub inners: u64,
    /// Levels of inner nodes.
    pub height: u64,
}

/// A node to look at, and what its keys may be.
#[derive(Clone, Copy)]
struct Expected {
    at: Addr,
    level: u64,
    low: u64,
    /// The greatest key.
    last: u64,
}

struct Walk<'a, M, F> {
    memory: &'a M,
    live: &'a mut Live,
    found: Checked,
    each: F,
}

fn broken(at: Addr, what: &str) -> BTreeError {
    Damage::Broken(format!("the node at {at} {what}")).into()
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Walks the whole tree, shows every entry to `each` in ascending order, and refuses whatever
    /// no crash leaves behind. Nothing may change the heap meanwhile. Bytes are untrusted: a wild
    /// pointer, a cycle, a node reached twice are [`Damage`], and nothing else happens because of
    /// them.
    ///
    /// # Errors
    /// What is wrong first, in the tree or in the heap's table of objects.
    pub fn check<M: Memory>(
        &self,
        memory: &M,
        heap: &Heap,
        each: impl FnMut(u64, u64),
    ) -> Result<Checked, BTreeError> {
        self.check_among(memory, &mut Live::of(memory, heap)?, each)
    }

    /// As [`check`](Tree::check), beside other structures.
    pub(crate) fn check_among<M: Memory>(
        &self,
        memory: &M,
        live: &mut Live,
        each: impl FnMut(u64, u64),
    ) -> Result<Checked, BTreeError> {
        self.check_kind(memory)?;
        let (at, level) = parse(memory.load(self.anchor));
        if level > HEIGHT_MAX {
            return Err(Damage::Broken(format!("the tree is {level} levels high")).into());
        }
        let found = Checked { height: level, ..Checked::default() };
        let mut walk = Walk { memory, live, found, each };
        walk.node::<SLOTS, KEYS>(Expected { at, level, low: 0, last: u64::MAX })?;
        Ok(walk.found)
    }
}

impl<M: Memory, F: FnMut(u64, u64)> Walk<'_, M, F> {
    fn node<const SLOTS: usize, const KEYS: usize>(
        &mut self,
        node: Expected,
    ) -> Result<(), BTreeError> {
        let bytes = if node.level == 0 { Leaf::<SLOTS>::BYTES } else { Inner::<KEYS>::BYTES };
        let what = || format!("a link of the tree to level {}", node.level);
        if !node.at.bits().is_multiple_of(64) {
            return Err(Damage::Pointer { what: what(), to: node.at.bits() }.into());
        }
        self.live.reach(node.at, bytes, what)?;
        match node.level {
            0 => self.leaf::<SLOTS>(node),
            _ => self.inner::<SLOTS, KEYS>(node),
        }
    }

    fn leaf<const SLOTS: usize>(&mut self, node: Expected) -> Result<(), BTreeError> {
        let leaf = Leaf::<SLOTS>(node.at);
        if let Some(fault) = leaf.fault(self.memory) {
            return Err(broken(node.at, fault));
        }
        let mut entries = Vec::new();
        leaf.entries(self.memory, |entry| entries.push(entry));
        entries.sort_unstable();
        if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(broken(node.at, "has a key twice"));
        }
        for (key, value, _) in &entries {
            if !(node.low..=node.last).contains(key) {
                return Err(broken(node.at, "has a key that belongs elsewhere"));
            }
            (self.each)(*key, *value);
        }
        self.found.leaves += 1;
        self.found.entries += entries.len() as u64;
        Ok(())
    }

    fn inner<const SLOTS: usize, const KEYS: usize>(
        &mut self,
        node: Expected,
    ) -> Result<(), BTreeError> {
        let inner = Inner::<KEYS>(node.at);
        if let Some(fault) = inner.fault(self.memory, node.level) {
            return Err(broken(node.at, fault));
        }
        let (keys, children) = inner.content(self.memory);
        let mut low = node.low;
        for (index, child) in children.into_iter().enumerate() {
            let last = match keys.get(index) {
                Some(key) if *key > low && *key <= node.last => *key - 1,
                Some(_) => return Err(broken(node.at, "has keys out of order")),
                None => node.last,
            };
            let level = node.level - 1;
            self.node::<SLOTS, KEYS>(Expected { at: child, level, low, last })?;
            low = last.wrapping_add(1);
        }
        self.found.inners += 1;
        Ok(())
    }
}
