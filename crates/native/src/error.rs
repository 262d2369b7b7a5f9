//! Why a pool cannot be had, or cannot grow: each message names the file and what to do.

use crate::domain::DomainError;
use crate::flush::FlushError;
use std::io::{self, ErrorKind};

/// Why a pool cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The file to create exists.
    #[error("{path}: exists already, and is left as it is; recover it, remove it, or name another")]
    Exists {
        /// The file.
        path: String,
    },
    /// There is no such file or folder.
    #[error("{path}: no such file or folder; check the path")]
    NotFound {
        /// The file.
        path: String,
    },
    /// A folder, device, pipe or socket.
    #[error("{path}: not an ordinary file; name a pool file")]
    NotAFile {
        /// The file.
        path: String,
    },
    /// No right to read and write.
    #[error("{path}: no permission to read and write it; change its mode, or copy the file")]
    Permission {
        /// The file.
        path: String,
    },
    /// Another process, or another pool of this one, has it open; also one that this process has
    /// inherited in a fork and not dropped.
    #[error(
        "{path}: in use by another process, or open in this one; wait until that ends or stop it, \
         or close it here"
    )]
    InUse {
        /// The file.
        path: String,
    },
    /// Too short to be a pool.
    #[error(
        "{path}: {bytes} bytes, and a pool has at least {min}; it is truncated, no pool, or one \
         that another process is just making"
    )]
    TooSmall {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
        /// The least size.
        min: u64,
    },
    /// The disk, or the quota, is full.
    #[error("{path}: no room for {bytes} bytes; free some space, or name a file on another disk")]
    Full {
        /// The file.
        path: String,
        /// Bytes wanted.
        bytes: u64,
    },
    /// More than the largest size that the pool was opened for.
    #[error(
        "{path}: cannot grow to {bytes} bytes: it was opened to hold at most {bytes_max}; open it \
         with a larger largest size"
    )]
    BeyondMax {
        /// The file.
        path: String,
        /// Bytes wanted.
        bytes: u64,
        /// Bytes that it may have while it is open.
        bytes_max: u64,
    },
    /// The file system, or the limit of this process (`ulimit -f`), allows no file of that size.
    #[error(
        "{path}: no file may have {bytes} bytes there; raise the limit (ulimit -f), or name a \
         file on another disk"
    )]
    FileTooLarge {
        /// The file.
        path: String,
        /// Bytes wanted.
        bytes: u64,
    },
    /// No range of addresses is left that is long enough.
    #[error("{path}: no {bytes} addresses in a row to map it; ask for a smaller largest size")]
    NoAddresses {
        /// The file.
        path: String,
        /// Bytes wanted.
        bytes: u64,
    },
    /// Somebody cut the file off while it was open.
    #[error(
        "{path}: has {bytes} bytes and had {bytes_before} when it was opened: it was truncated \
         while in use, and what was there is lost; restore it from a copy"
    )]
    Truncated {
        /// The file.
        path: String,
        /// Bytes that it has now.
        bytes: u64,
        /// Bytes that it had, or had grown to.
        bytes_before: u64,
    },
    /// The first bytes are not those of the pool that was expected.
    #[error("{path}: {why}")]
    Rejected {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// This process was forked from the one that opened it.
    #[error(
        "{path}: opened before this process was forked (fork, daemon), and not its own; open a \
         pool in the process that uses it"
    )]
    Inherited {
        /// The file.
        path: String,
    },
    /// Anything else that the system refused.
    #[error("{path}: cannot {action}: {source}")]
    System {
        /// The file.
        path: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// `SEAWALL_FLUSH` is wrong.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// `SEAWALL_DOMAIN` is wrong.
    #[error(transparent)]
    Domain(#[from] DomainError),
}

/// What the system said when it would not `action` the file `name`, at `bytes` bytes.
pub(crate) fn explain(
    name: &str,
    action: &'static str,
    bytes: u64,
    source: io::Error,
) -> PoolError {
    let path = name.to_string();
    match source.kind() {
        ErrorKind::AlreadyExists => PoolError::Exists { path },
        ErrorKind::NotFound => PoolError::NotFound { path },
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => PoolError::NotAFile { path },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            PoolError::Permission { path }
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => PoolError::Full { path, bytes },
        ErrorKind::FileTooLarge => PoolError::FileTooLarge { path, bytes },
        ErrorKind::OutOfMemory => PoolError::NoAddresses { path, bytes },
        // A socket, or a device that is not there.
        _ if [libc::ENXIO, libc::ENODEV].contains(&source.raw_os_error().unwrap_or(0)) => {
            PoolError::NotAFile { path }
        }
        _ => PoolError::System { path, action, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_said_with_a_remedy() {
        for (kind, part) in [
            (ErrorKind::PermissionDenied, "change its mode"),
            (ErrorKind::StorageFull, "free some space"),
            (ErrorKind::FileTooLarge, "ulimit -f"),
            (ErrorKind::OutOfMemory, "smaller largest size"),
            (ErrorKind::NotFound, "check the path"),
            (ErrorKind::TimedOut, "cannot map it"),
        ] {
            let error = explain("a.pool", "map it", 9, kind.into()).to_string();
            assert!(error.starts_with("a.pool: ") && error.contains(part), "{error}");
        }
    }
}
