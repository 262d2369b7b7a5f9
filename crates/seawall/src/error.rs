//! Why a pool cannot be opened.

use seawall_native::PoolError;
use seawall_runtime::HeapError;

/// Why a pool cannot be opened. No byte of the file has changed then, but for what recovery does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file: it is missing, in use, not permitted, no pool; or its disk is full.
    #[error(transparent)]
    File(#[from] PoolError),
    /// What is in it: another program's data, other types, or damage.
    #[error(transparent)]
    Content(#[from] HeapError),
}
