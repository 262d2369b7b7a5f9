//! Why a pool cannot be opened.

use seawall_native::PoolError;
use seawall_runtime::HeapError;

/// Why a pool cannot be opened. No byte of the file has changed, except by recovery.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be used: it is in use, not permitted, or not a file; or its disk is full.
    #[error(transparent)]
    File(#[from] PoolError),
    /// The file can be read, but does not hold a pool of this type: it is not a pool or another
    /// program's, its types have changed, or it is damaged.
    #[error("{path}: {source}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong with its content.
        source: HeapError,
    },
    /// An option is out of range.
    #[error(transparent)]
    Option(HeapError),
}
