//! To be written.

pub mod explore;
pub mod native;
