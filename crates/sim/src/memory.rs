//! Memory: controllers and their write-pending queues, the versions of lines, and Optane-like
//! DIMMs.

pub(crate) mod controller;
pub(crate) mod optane;
pub(crate) mod versions;
