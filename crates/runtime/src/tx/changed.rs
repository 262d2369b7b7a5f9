//! What a transaction has changed so far, for programs that account for it.

use super::Tx;
use super::record::Entry;
use crate::alloc::block::{Block, Kind, state_at};
use seawall_memory::{Addr, Memory};

/// What a transaction has changed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// Ranges (address, bytes) in objects from before the transaction, each as long as possible.
    pub ranges: Vec<(Addr, u64)>,
    /// Objects (address, bytes) that it has allocated.
    pub taken: Vec<(Addr, u64)>,
    /// How many objects it has freed.
    pub freed: u64,
    /// Words that say which blocks are taken.
    pub states: Vec<Addr>,
}

impl<M: Memory> Tx<'_, '_, M> {
    /// What a redo transaction has changed so far.
    pub(crate) fn changed(&self) -> Changed {
        let (session, buffers) = (&*self.session, &self.session.buffers);
        let layout = &session.heap.layout;
        let state = |block: &Block| match block.kind {
            Kind::Small(class) => {
                let state = state_at(layout.chunk(block.chunk), class, block.at);
                Some(Addr::from_bits(state.bits() & !7))
            }
            Kind::Large(_) | Kind::Shelf(_) => None,
        };
        let mut states: Vec<Addr> =
            buffers.taken.iter().chain(&buffers.freed).filter_map(state).collect();
        states.sort_unstable();
        states.dedup();
        let mut ranges: Vec<(Addr, u64)> = Vec::new();
        for entry in buffers.words.record.entries() {
            let (at, bytes) = match entry {
                Entry::Words(at, values) => (at, 8 * values.len() as u64),
                Entry::Bytes(at, ..) => (at, 8),
                _ => continue,
            };
            let is_new = buffers.taken.iter().any(|block| block.holds(at));
            let is_own = layout.chunk_of(at).is_none() && at < session.heap.root();
            if is_new || is_own || states.binary_search(&at).is_ok() {
                continue;
            }
            match ranges.last_mut() {
                Some((from, before)) if from.plus(*before) == at => *before += bytes,
                _ => ranges.push((at, bytes)),
            }
        }
        let taken = buffers.taken.iter().map(|block| (block.at, block.bytes())).collect();
        Changed { ranges, taken, freed: buffers.freed.len() as u64, states }
    }
}
