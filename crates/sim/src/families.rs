//! What several designs share: hardware epochs, persist buffers, and how parameters are declared.

pub(crate) mod buffers;
pub(crate) mod epochs;
pub(crate) mod params;
