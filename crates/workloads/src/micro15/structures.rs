//! The structures of the microbenchmarks: entries of 512 bytes, the shape in the pool's roots.
//!
//! A program keeps the shape of a structure and calls `recover` after it opens the pool. `contents`
//! and `recover` read untrusted bytes: they return an [`Inconsistency`](crate::Inconsistency), and
//! never loop, panic or read out of range because of them.

pub mod entry;

mod array;
mod graph;
mod hash;
mod queue;
mod rbtree;

pub use array::{Array, ArrayShape};
pub use graph::{Edge, Graph, GraphShape};
pub use hash::{HashShape, HashTable};
pub use queue::{QueueShape, Queues};
pub use rbtree::{Forest, ForestShape};
