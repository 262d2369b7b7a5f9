//! Which stores may persist before which, as a number: equal for the moments of different runs that
//! leave the same images.

use super::{PersistOrder, WHOLE};
use crate::prefixes::hash_of;
use crate::words::LineIndex;
use std::hash::Hash;

impl PersistOrder {
    /// A hash of the order of the stores that are not durable yet. A store is known by the `name`
    /// of its line and by how many stores come after the durable ones of that line; so neither
    /// the numbers of nodes matter, nor what is durable, nor nodes without stores.
    pub(crate) fn shape<N: Hash>(&self, name: impl Fn(LineIndex) -> N) -> u64 {
        let mut sum = 0u64;
        // Of each node: its hash, or if it has no such stores, the sum of those before it.
        let mut hashes = vec![0u64; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            if self.known[id] & WHOLE != 0 {
                continue;
            }
            let before = node.before.iter().map(|&first| {
                debug_assert!(first as usize <= id, "a node comes after older ones");
                // One that comes after itself persists as a whole.
                if first as usize == id { 1 } else { hashes[first as usize] }
            });
            let before = before.fold(0, u64::wrapping_add);
            let left = node.runs.iter().filter_map(|run| {
                let durable = self.low[run.line as usize];
                let high = run.high.checked_sub(durable).filter(|high| *high > 0)?;
                Some(hash_of((name(run.line), run.low.saturating_sub(durable), high)))
            });
            let left = left.fold(0, u64::wrapping_add);
            hashes[id] = if left == 0 { before } else { hash_of((left, before)) };
            sum = sum.wrapping_add(if left == 0 { 0 } else { hashes[id] });
        }
        sum
    }
}
