//! The common parts of programs of several papers: slots of a fixed size, logs of three epochs and
//! of strands, persisted lock versions, and the rejection of inconsistent bytes.

pub(crate) mod change;
pub(crate) mod epoch_log;
pub(crate) mod inconsistency;
pub(crate) mod lock_versions;
pub(crate) mod slots;
pub mod strand_log;

pub use change::{Change, Full};
pub use inconsistency::Inconsistency;
pub use lock_versions::{LockVersion, LockVersions};
pub use slots::{SLOT_RESERVE, Slots};
