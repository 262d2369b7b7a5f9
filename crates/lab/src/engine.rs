//! What all commands share: options, parallel jobs, and where the time of threads went.

pub(crate) mod jobs;
pub(crate) mod options;
pub(crate) mod spent;
