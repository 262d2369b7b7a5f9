//! The five microbenchmarks of "Efficient Persist Barriers for Multicores" (MICRO'15, Table 2), and
//! the hash table of the gem5 speed comparison.

pub(crate) mod hash;
pub(crate) mod ht;
pub(crate) mod queue;
pub(crate) mod rbtree;
pub(crate) mod sdg;
pub(crate) mod sps;
pub mod structures;
