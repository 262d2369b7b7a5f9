//! Code that several designs share: hardware epochs, persist buffers, and the declaration of
//! parameters.

pub(crate) mod buffers;
pub(crate) mod epochs;
pub(crate) mod params;
