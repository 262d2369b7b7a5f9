//! Persistent data structures, written once against `trait Memory`.
//!
//! The structures of MICRO'15 have entries of 512 bytes. Each is a handful of addresses, placed
//! from a `Shape` by an [`Arena`](seawall_runtime::Arena); every change is failure-atomic: after a
//! crash it is wholly there or wholly absent. They are correct where flushed stores are ordered by
//! `order` (x86), under epoch persistency, under buffered epoch persistency that tracks conflicts
//! on PM lines only, and where caches are persistent.
//!
//! | structure | what makes a change atomic | epochs a change |
//! |---|---|---|
//! | [`struct@Hash`], [`Forest`], [`Graph`], [`Array`] | a redo-logged transaction | 3 |
//! | [`Queue`] | one 8-byte store of the head or tail | 2 to add, 1 to remove |
//! | [`LevelHash`] | one 8-byte store of a bucket's tokens | 2 to insert, 1 to delete |
//! | [`FastFair`] | one 8-byte store of a pointer, in lines that persist in order | 1 a line |
//!
//! The last two are published structures without logs (entries of 16 bytes), to compare with.
//!
//! Three structures live in a [`Heap`](seawall_runtime::Heap) instead, grow as they must, and are
//! for many threads: [`Map`] from numbers to numbers, [`KvMap`] from byte strings to byte strings,
//! and [`BTree`] from numbers to numbers in order. A change is one transaction of the heap with one
//! fence, or part of a caller's that changes several of them; opening needs no recovery of their
//! own, and `check` reads untrusted bytes. What is removed gives its space back.
//!
//! The others are not pools: a workload (or your program) keeps the shape in the roots of a pool
//! and calls `recover` after it opens one. `contents` and `recover` read untrusted bytes: they give
//! [`Damage`], and never loop, panic or read out of range because of them.

#![forbid(unsafe_code)]

mod array;
mod btree;
mod change;
mod damage;
pub mod entry;
mod fastfair;
mod graph;
mod hash;
mod kv;
mod level;
mod map;
mod queue;
mod rbtree;
mod reads;
mod table;

pub use array::{Array, ArrayShape};
pub use btree::{BTree, BTreeError, BTreeFlaw, Checked, Tree};
pub use change::{Change, Full};
pub use damage::Damage;
pub use fastfair::{FastFair, FastFairShape};
pub use graph::{Edge, Graph, GraphShape};
pub use hash::{Hash, HashShape};
pub use kv::{KV_BYTES_MAX, KvMap};
pub use level::{LevelHash, LevelShape};
pub use map::Map;
pub use queue::{Queue, QueueShape};
pub use rbtree::{Forest, ForestShape};
pub use table::{MapError, MapFlaw, MapOptions, MapSize};
