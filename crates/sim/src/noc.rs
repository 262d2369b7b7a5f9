//! The network on the chip.

pub(crate) mod link;
pub(crate) mod mesh;
