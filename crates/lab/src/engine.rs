//! What all commands share: options, parallel jobs, progress, tables, result files.

pub(crate) mod jobs;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod spent;
pub(crate) mod table;
