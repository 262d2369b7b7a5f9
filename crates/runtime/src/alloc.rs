//! The allocator: size classes, blocks, chunks, and objects that are placed together.

pub(crate) mod block;
pub(crate) mod chunk;
mod chunk_run;
pub(crate) mod coalesce;
pub(crate) mod size_class;
