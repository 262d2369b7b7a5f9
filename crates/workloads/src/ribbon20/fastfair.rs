//! Insert, delete and search in a FAST & FAIR B+-tree (Hwang and others, FAST'18), or requests of a
//! YCSB mix, with scans: one of the indexes of Ribbon's evaluation (PACT'20).
//!
//! The structure is `FastFairTree`, with nodes of 512 bytes as published. Small trees have small
//! nodes, so that short runs split and merge some.

use super::structures::{FastFairShape, FastFairTree};
use crate::Damage;
use crate::harness::history::Contents;
use crate::ribbon20::index::{Index, Indexed, as_the_structure_does};
use crate::shared::{Change, Full};
use seawall_memory::Memory;
use seawall_runtime::Arena;

/// With fewer keys, nodes are small.
const MANY_KEYS: u64 = 1 << 10;

/// The benchmark of FAST & FAIR.
pub type FastFair = Indexed<FastFairTree>;

impl Index for FastFairTree {
    const NAME: &'static str = "fastfair";
    const ABOUT: &'static str = "insert, delete and search in a FAST & FAIR B+-tree, without a log";
    const IN_ORDER: bool = true;

    fn place(threads: u64, keys: u64, arena: &mut Arena) -> FastFairTree {
        let slots = if keys < MANY_KEYS { 8 } else { 28 };
        FastFairTree::place(FastFairShape { threads, slots, keys }, arena)
    }

    fn scan<M: Memory>(&self, memory: &M, from: u64, most: u64) -> u64 {
        FastFairTree::scan(self, memory, from, most, |_, _| {})
    }

    as_the_structure_does!(FastFairTree);
}
