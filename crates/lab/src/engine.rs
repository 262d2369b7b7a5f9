//! What all commands share: options, parallel jobs, files of what is done, and where the time of
//! threads went.

pub(crate) mod detail;
pub(crate) mod gem5;
pub(crate) mod jobs;
pub(crate) mod kept;
pub(crate) mod lines;
pub(crate) mod options;
pub(crate) mod pages;
pub(crate) mod parts;
pub(crate) mod spent;
pub(crate) mod timeline;
pub(crate) mod typed;
pub(crate) mod warm;
