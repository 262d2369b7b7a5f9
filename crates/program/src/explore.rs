//! Explores compiled programs: their runs are recorded, and their recovery runs on crash images, in
//! processes of their own.
//!
//! A server loads the program once and forks for each run, so every run finds the process as it was
//! before `main`. The program's accesses go through the recording machine of
//! [`seawall_explore`]; of a run its trace comes back, of a recovery what it did to persistent
//! memory, which is then done to the image that it was asked about. So the search knows what
//! recovery read, and nothing in it depends on where recovery ran.
//!
//! Persistent memory is numbered by the pages of pools that the program stores to; pages that it
//! only reads are the same in every image. They are found by trying.

pub(crate) mod client;
mod explored;
pub(crate) mod files;
pub(crate) mod wire;

pub use client::LINES_SHOWN;
pub(crate) use explored::is_library;
pub use explored::{
    ExploredProgram, Half, ProgramAndCheck, ReachedSites, STORES_NOTHING, SiteLines,
};
pub use wire::CheckLayout;
pub(crate) use wire::Serving;
