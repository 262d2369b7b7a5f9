//! Persistent data structures, written once against `trait Memory`.
//!
//! They live in a [`Heap`](seawall_runtime::Heap), grow as they must, and are for many threads:
//! [`Map`] from numbers to numbers, [`KvMap`] from byte strings to byte strings, and [`BTree`] from
//! numbers to numbers in order. A change is one transaction of the heap with one fence, or part of
//! a caller's that changes several of them; opening needs no recovery of their own, and `check`
//! reads untrusted bytes: it returns [`Damage`]. Removal frees space.

#![forbid(unsafe_code)]

mod btree;
mod damage;
pub mod fields;
mod kv;
mod live;
mod map;
mod reads;
mod table;

#[cfg(feature = "flaws")]
pub use btree::flaw::BTreeFlaw;
pub use btree::{BTree, BTreeError, Checked, Tree};
pub use damage::Damage;
pub use kv::{KV_BYTES_MAX, KvMap};
pub use map::Map;
#[cfg(feature = "flaws")]
pub use table::flaw::MapFlaw;
pub use table::{MapError, MapOptions, MapSize};
