//! A pool: one file mapped as persistent memory, and the DRAM beside it.
//!
//! The file belongs to one process at a time (a lock on it says so), is never created over an
//! existing one, and has all its space before the first store. What its bytes mean is not known
//! here: that is the business of the crate `seawall-runtime`.

use crate::domain::{Domain, DomainError, Durability};
use crate::flush::{Flush, FlushError, FlushKind};
use crate::map::{self, Mapping};
use crate::memory::NativeMemory;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The smallest pool, in bytes.
pub const POOL_BYTES_MIN: u64 = 4096;

/// How to map a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Durability domain; by default the one `SEAWALL_DOMAIN` names, else what fits the file.
    pub domain: Option<Domain>,
    /// Bytes of volatile memory, zeroed; untouched pages cost nothing.
    pub dram_bytes: u64,
}

/// A mapped pool file; unmapped and unlocked when dropped.
///
/// Dropping makes nothing durable: what was drained is, what was not is not.
pub struct Pool {
    pm: Mapping,
    dram: Mapping,
    flush: Flush,
    domain: Domain,
    durability: Durability,
    _file: LockedFile,
}

/// A file that this process has for itself.
///
/// The lock is given up by name: closing the file is not enough while a child that another thread
/// is about to start still has a copy of it.
struct LockedFile(File);

impl LockedFile {
    fn lock(file: File, name: &str) -> Result<LockedFile, PoolError> {
        match file.try_lock() {
            Ok(()) => Ok(LockedFile(file)),
            Err(TryLockError::WouldBlock) => Err(PoolError::InUse { path: name.to_string() }),
            Err(TryLockError::Error(source)) => Err(explain(name, "lock it", 0, source)),
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If this fails, closing the file does it.
        let _ = self.0.unlock();
    }
}

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
    /// Another process, or another pool of this one, has it open.
    #[error("{path}: in use by another process; wait until that ends, or stop it")]
    InUse {
        /// The file.
        path: String,
    },
    /// Too short to be a pool.
    #[error("{path}: {bytes} bytes, and a pool has at least {min}; it is truncated or no pool")]
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
    /// The first bytes are not those of the pool that was expected.
    #[error("{path}: {why}")]
    Rejected {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
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

impl Pool {
    /// Creates the file at `path` with `bytes` zeroed bytes, all of them allocated, and maps it.
    ///
    /// When it returns, file and name are on the disk; a crash before may leave neither, or a file
    /// of zeros.
    ///
    /// # Errors
    /// When the file exists (it is left alone), the disk is full, or the system refuses; no file
    /// is left behind then.
    pub fn create(path: &Path, bytes: u64, options: &PoolOptions) -> Result<Pool, PoolError> {
        let name = path.display().to_string();
        check_size(&name, bytes)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|error| explain(&name, "create it", bytes, error))?;
        let pool = Pool::fill_and_map(file, path, bytes, options);
        if pool.is_err() {
            let _ = std::fs::remove_file(path);
        }
        pool
    }

    fn fill_and_map(
        file: File,
        path: &Path,
        bytes: u64,
        options: &PoolOptions,
    ) -> Result<Pool, PoolError> {
        let name = path.display().to_string();
        let fail = |action, error| explain(&name, action, bytes, error);
        let locked = LockedFile::lock(file, &name)?;
        let file = &locked.0;
        map::reserve(file, bytes).map_err(|error| fail("allocate its space", error))?;
        file.sync_all().map_err(|error| fail("write it to the disk", error))?;
        sync_folder(path).map_err(|error| fail("write its name to the disk", error))?;
        Pool::map(locked, &name, bytes, options)
    }

    /// Opens the pool file at `path`, whole.
    ///
    /// `check` is shown its first [`POOL_BYTES_MIN`] bytes and its size before anything is done to
    /// it, and answers what is wrong with them, if anything.
    ///
    /// # Errors
    /// When the file is missing, no file, too small, in use, not permitted, or refused by `check`.
    /// No byte of it has changed then.
    pub fn open(
        path: &Path,
        options: &PoolOptions,
        check: impl FnOnce(&[u8], u64) -> Result<(), String>,
    ) -> Result<Pool, PoolError> {
        let name = path.display().to_string();
        let fail = |action, error| explain(&name, action, 0, error);
        let status = std::fs::metadata(path).map_err(|error| fail("find it", error))?;
        if !status.is_file() {
            return Err(PoolError::NotAFile { path: name });
        }
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| fail("open it", error))?;
        let locked = LockedFile::lock(file, &name)?;
        let file = &locked.0;
        let bytes = file.metadata().map_err(|error| fail("find its size", error))?.len();
        check_size(&name, bytes)?;
        let mut head = vec![0; POOL_BYTES_MIN as usize];
        file.read_exact_at(&mut head, 0).map_err(|error| fail("read it", error))?;
        check(&head, bytes).map_err(|why| PoolError::Rejected { path: name.clone(), why })?;
        map::reserve(file, bytes)
            .map_err(|error| explain(&name, "allocate its space", bytes, error))?;
        Pool::map(locked, &name, bytes, options)
    }

    /// A pool of `bytes` zeroed bytes in a file without a name, in the folder for temporary files;
    /// it is gone when the pool is dropped or the process ends, however that happens.
    ///
    /// # Errors
    /// When the disk is full or the system refuses.
    pub fn temporary(bytes: u64, options: &PoolOptions) -> Result<Pool, PoolError> {
        let name = std::env::temp_dir().join("(temporary pool)").display().to_string();
        check_size(&name, bytes)?;
        let file = tempfile::tempfile();
        let file = file.map_err(|error| explain(&name, "create it", bytes, error))?;
        map::reserve(&file, bytes)
            .map_err(|error| explain(&name, "allocate its space", bytes, error))?;
        let mut pool = Pool::map(LockedFile::lock(file, &name)?, &name, bytes, options)?;
        pool.durability = Durability::Nothing;
        Ok(pool)
    }

    fn map(
        locked: LockedFile,
        name: &str,
        bytes: u64,
        options: &PoolOptions,
    ) -> Result<Pool, PoolError> {
        let file = &locked.0;
        let fail = |action, error| explain(name, action, bytes, error);
        let wanted = match options.domain {
            None => Domain::from_environment()?,
            given => given,
        };
        let chosen = Flush::from_environment()?;
        let pm = Mapping::of_file(file, bytes).map_err(|error| fail("map it", error))?;
        let dram = Mapping::anonymous(options.dram_bytes);
        let dram = dram.map_err(|error| fail("get memory beside it", error))?;
        let domain = wanted.unwrap_or_else(|| Domain::fitting(pm.is_sync()));
        let durability = match domain {
            _ if map::is_in_memory(file) => Durability::UntilReboot,
            _ if pm.is_sync() => Durability::PowerFailure,
            Domain::Page => Durability::PowerFailureByPage,
            Domain::Line | Domain::None => Durability::KilledProcess,
        };
        let flush = match domain {
            Domain::Line => chosen,
            Domain::Page => Flush { kind: FlushKind::None, why: "msync writes pages".into() },
            Domain::None => Flush { kind: FlushKind::None, why: "the caches persist".into() },
        };
        Ok(Pool { pm, dram, flush, domain, durability, _file: locked })
    }

    /// The handle of hardware thread `thread`; take one in each thread.
    pub fn memory(&self, thread: usize) -> NativeMemory<'_> {
        NativeMemory::new(&self.pm, &self.dram, self.flush.kind, self.domain, thread)
    }

    /// Persistent bytes: the size of the file.
    pub fn bytes(&self) -> u64 {
        self.pm.bytes()
    }

    /// The flush instruction in use.
    pub fn flush(&self) -> &Flush {
        &self.flush
    }

    /// The durability domain in use.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// What drained data survives; its text is fit to be printed.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// True if drained data survives a power failure.
    pub fn is_durable(&self) -> bool {
        self.durability.is_durable()
    }
}

fn check_size(name: &str, bytes: u64) -> Result<(), PoolError> {
    if bytes >= POOL_BYTES_MIN {
        return Ok(());
    }
    Err(PoolError::TooSmall { path: name.to_string(), bytes, min: POOL_BYTES_MIN })
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.map_or_else(|| PathBuf::from("."), Path::to_path_buf))?.sync_all()
}

fn explain(name: &str, action: &'static str, bytes: u64, source: io::Error) -> PoolError {
    let path = name.to_string();
    match source.kind() {
        ErrorKind::AlreadyExists => PoolError::Exists { path },
        ErrorKind::NotFound => PoolError::NotFound { path },
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => PoolError::NotAFile { path },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            PoolError::Permission { path }
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            PoolError::Full { path, bytes }
        }
        _ => PoolError::System { path, action, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Addr, Memory};

    fn anything(_: &[u8], _: u64) -> Result<(), String> {
        Ok(())
    }

    #[test]
    fn what_one_process_drained_the_next_one_finds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let options = PoolOptions { dram_bytes: 64, ..PoolOptions::default() };
        let pool = Pool::create(&path, 8192, &options).unwrap();
        pool.memory(0).store(Addr::pm(4096), 7u64);
        pool.memory(0).persist(Addr::pm(4096), 8);
        pool.memory(0).store(Addr::dram(0), 9u64);
        drop(pool);
        let pool = Pool::open(&path, &options, anything).unwrap();
        assert_eq!(pool.bytes(), 8192);
        assert_eq!(pool.memory(1).load::<u64>(Addr::pm(4096)), 7);
        assert_eq!(pool.memory(1).load::<u64>(Addr::dram(0)), 0, "DRAM does not survive");
    }

    #[test]
    fn an_existing_file_is_never_created_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "precious").unwrap();
        let error = Pool::create(&path, 8192, &PoolOptions::default()).err().unwrap();
        assert!(matches!(error, PoolError::Exists { .. }), "{error}");
        assert!(error.to_string().contains("notes.txt"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_pool_belongs_to_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let first = Pool::create(&path, 8192, &PoolOptions::default()).unwrap();
        let error = Pool::open(&path, &PoolOptions::default(), anything).err().unwrap();
        assert!(matches!(error, PoolError::InUse { .. }), "{error}");
        drop(first);
        Pool::open(&path, &PoolOptions::default(), anything).unwrap();
    }

    #[test]
    fn a_copy_of_the_file_in_a_child_about_to_start_keeps_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let pool = Pool::create(&path, 8192, &PoolOptions::default()).unwrap();
        let copy = pool._file.0.try_clone().unwrap();
        drop(pool);
        Pool::open(&path, &PoolOptions::default(), anything).unwrap();
        drop(copy);
    }

    #[test]
    fn what_is_no_pool_is_refused_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            let refuse = |head: &[u8], bytes: u64| Err(format!("{} of {bytes}", head.len()));
            Pool::open(path, &PoolOptions::default(), refuse).err().unwrap()
        };
        let path = folder.path().join("x.pool");
        assert!(matches!(open(&path), PoolError::NotFound { .. }));
        assert!(matches!(open(folder.path()), PoolError::NotAFile { .. }));
        assert!(matches!(open(Path::new("/dev/null")), PoolError::NotAFile { .. }));
        for (bytes, small) in [(0, true), (4095, true), (5000, false)] {
            std::fs::write(&path, vec![3; bytes]).unwrap();
            let error = open(&path);
            assert_eq!(matches!(error, PoolError::TooSmall { .. }), small, "{error}");
            let refused = error.to_string().contains("4096 of 5000");
            assert_eq!(matches!(error, PoolError::Rejected { .. }) && refused, !small, "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), vec![3; bytes]);
        }
    }

    #[test]
    fn a_disk_that_is_too_small_is_an_error_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.pool");
        let error = Pool::create(&path, 1 << 50, &PoolOptions::default()).err().unwrap();
        assert!(matches!(error, PoolError::Full { .. }), "{error}");
        assert!(!path.exists());
        assert!(matches!(
            Pool::temporary(1 << 50, &PoolOptions::default()),
            Err(PoolError::Full { .. })
        ));
    }

    #[test]
    fn what_the_system_refuses_is_said_with_a_remedy() {
        for (kind, part) in [
            (ErrorKind::PermissionDenied, "change its mode"),
            (ErrorKind::StorageFull, "free some space"),
            (ErrorKind::NotFound, "check the path"),
            (ErrorKind::TimedOut, "cannot map it"),
        ] {
            let error = explain("a.pool", "map it", 9, kind.into()).to_string();
            assert!(error.starts_with("a.pool: ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_temporary_pool_and_an_ordinary_file_are_not_called_durable() {
        let options = PoolOptions { domain: Some(Domain::Line), dram_bytes: 0 };
        let pool = Pool::temporary(8192, &options).unwrap();
        assert_eq!((pool.durability(), pool.is_durable()), (Durability::Nothing, false));
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(&folder.path().join("a"), 8192, &options).unwrap();
        assert_eq!(pool.is_durable(), pool.pm.is_sync());
    }
}
