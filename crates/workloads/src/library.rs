//! The library's own structures as workloads: maps and a tree in a heap, and random scripts of all
//! heap operations.

pub(crate) mod btree;
pub(crate) mod heap;
pub(crate) mod keyed;
pub(crate) mod kv;
pub(crate) mod map;
