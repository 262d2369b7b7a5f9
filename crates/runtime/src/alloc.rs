//! The allocator: size classes, blocks, chunks, and objects that are placed together.

pub(crate) mod block;
pub(crate) mod chunk;
pub(crate) mod chunk_run;
pub(crate) mod chunk_set;
pub(crate) mod coalesce;
mod free_space;
pub(crate) mod map;
mod object;
pub(crate) mod reserve;
pub(crate) mod shelf;
pub(crate) mod size_class;
mod take;
