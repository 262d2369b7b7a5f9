//! Memory: controllers and their write-pending queues, what lines hold, and Optane-like DIMMs.

pub(crate) mod controller;
pub(crate) mod optane;
pub(crate) mod versions;
