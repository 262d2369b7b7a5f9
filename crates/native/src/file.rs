//! The file of a pool: opened once, locked, and only then looked at and changed, all by that one
//! descriptor. A path is looked up twice only to refuse what should not even be opened, and to take
//! a name away from the file that this process has given it.
//!
//! A file that is shorter than a pool is refused without a lock: one that another process is about
//! to make a pool in is never locked under its hands.

use crate::error::{PoolError, explain};
use crate::pool::POOL_BYTES_MIN;
use crate::process::this_process;
use seawall_memory::Process;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An ordinary file that this process has locked: for itself, or to read it while others do.
///
/// The lock is released explicitly: closing the file is not enough while a child that another
/// thread is about to start still has a copy of it. The child of a fork only closes its copy: the
/// lock is one for both, and the parent's.
#[derive(Debug)]
pub struct PoolFile {
    file: File,
    path: PathBuf,
    process: Process,
    /// Whether it was created here and has no pool yet.
    is_unfinished: bool,
}

impl PoolFile {
    /// Creates an empty file with that mode (before the umask), for this process alone. If it is
    /// dropped before a pool was made in it, its name is gone.
    ///
    /// # Errors
    /// When there is a file of that name, which is left alone, or the system refuses.
    pub fn create(path: &Path, mode: u32) -> Result<PoolFile, PoolError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(mode).open(path);
        let file = file.map_err(|error| explain(&name_of(path), "create it", 0, error))?;
        let mut locked = PoolFile::locked(file, path.to_path_buf(), File::try_lock)?;
        locked.is_unfinished = true;
        Ok(locked)
    }

    /// Opens the file to read and change it, for this process alone.
    ///
    /// # Errors
    /// When it is missing, no ordinary file, shorter than a pool, in use, or not permitted. Never
    /// waits, whatever has that name.
    pub fn open(path: &Path) -> Result<PoolFile, PoolError> {
        PoolFile::of(path, OpenOptions::new().read(true).write(true), File::try_lock)
    }

    /// Opens the file to read it, beside others that do the same, and with nobody who changes it.
    ///
    /// # Errors
    /// As [`open`](PoolFile::open).
    pub fn read(path: &Path) -> Result<PoolFile, PoolError> {
        PoolFile::of(path, OpenOptions::new().read(true), File::try_lock_shared)
    }

    fn of(
        path: &Path,
        options: &mut OpenOptions,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<PoolFile, PoolError> {
        let fail = |action| move |error| explain(&name_of(path), action, 0, error);
        let is_long = |status: Metadata| match status.len() {
            _ if !status.is_file() => Err(PoolError::NotAFile { path: name_of(path) }),
            bytes => check_size(&name_of(path), bytes),
        };
        // Before it is opened: opening a device may do something.
        is_long(std::fs::metadata(path).map_err(fail("find it"))?)?;
        let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = file.map_err(fail("open it"))?;
        is_long(file.metadata().map_err(fail("find its size"))?)?;
        let locked = PoolFile::locked(file, path.to_path_buf(), lock)?;
        is_long(locked.file.metadata().map_err(fail("find its size"))?)?;
        Ok(locked)
    }

    fn locked(
        file: File,
        path: PathBuf,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<PoolFile, PoolError> {
        match lock(&file) {
            Ok(()) => Ok(PoolFile { file, path, process: this_process(), is_unfinished: false }),
            Err(TryLockError::WouldBlock) => Err(PoolError::InUse { path: name_of(&path) }),
            Err(TryLockError::Error(source)) => Err(explain(&name_of(&path), "lock it", 0, source)),
        }
    }

    /// A file without a name, called `name` in messages.
    pub(crate) fn unnamed(file: File, name: &Path) -> Result<PoolFile, PoolError> {
        PoolFile::locked(file, name.to_path_buf(), File::try_lock)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The process that has opened it.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Where it was opened, for messages.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn bytes(&self) -> Result<u64, PoolError> {
        let status = self.file.metadata();
        Ok(status.map_err(|error| explain(&self.name(), "find its size", 0, error))?.len())
    }

    /// Writes the file and its name to the disk; a created one stays from now on.
    pub(crate) fn finish(&mut self) -> Result<(), PoolError> {
        let fail = |action| {
            let name = self.name();
            move |error| explain(&name, action, 0, error)
        };
        self.file.sync_all().map_err(fail("write it to the disk"))?;
        sync_folder(&self.path).map_err(fail("write its name to the disk"))?;
        self.is_unfinished = false;
        Ok(())
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        if !self.process.is_this() {
            return;
        }
        if self.is_unfinished {
            remove_if_same(&self.file, &self.path);
        }
        // If this fails, closing the file does it.
        let _ = self.file.unlock();
    }
}

/// Removes the name `path` if it leads to this file, and not to another one that has it now.
pub fn remove_if_same(file: &File, path: &Path) {
    let identity = |status: Metadata| (status.dev(), status.ino());
    let (ours, there) = (file.metadata(), std::fs::symlink_metadata(path));
    if let (Ok(ours), Ok(there)) = (ours, there)
        && identity(ours) == identity(there)
    {
        let _ = std::fs::remove_file(path);
    }
}

/// Refuses fewer bytes than a pool has.
pub(crate) fn check_size(name: &str, bytes: u64) -> Result<(), PoolError> {
    if bytes >= POOL_BYTES_MIN {
        return Ok(());
    }
    Err(PoolError::TooSmall { path: name.to_string(), bytes, min: POOL_BYTES_MIN })
}

fn name_of(path: &Path) -> String {
    path.display().to_string()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_no_ordinary_file_is_refused_at_once_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
        let node = |path: &Path| {
            let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: the text ends in a zero.
            assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
        };
        node(&pipe);
        let _listens = UnixListener::bind(&socket).unwrap();
        let others = ["/dev/null", "/dev/zero", "/dev/tty"].map(PathBuf::from);
        for path in [folder.path().into(), pipe, socket].into_iter().chain(others) {
            for open in [PoolFile::open, PoolFile::read] {
                let error = open(&path).unwrap_err();
                assert!(matches!(error, PoolError::NotAFile { .. }), "{error}");
                assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
            }
        }
    }

    #[test]
    fn readers_share_a_file_and_nobody_else_has_it_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        std::fs::write(&path, [1; 4096]).unwrap();
        let readers = [PoolFile::read(&path).unwrap(), PoolFile::read(&path).unwrap()];
        let is_in_use = |tried: Result<PoolFile, PoolError>| {
            matches!(tried.unwrap_err(), PoolError::InUse { .. })
        };
        assert!(is_in_use(PoolFile::open(&path)));
        drop(readers);
        let _writer = PoolFile::open(&path).unwrap();
        assert!(is_in_use(PoolFile::read(&path)));
    }

    #[test]
    fn a_file_that_is_still_empty_is_not_locked_by_who_looks_at_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let made = File::create_new(&path).unwrap();
        for open in [PoolFile::open, PoolFile::read] {
            let error = open(&path).unwrap_err();
            assert!(matches!(error, PoolError::TooSmall { bytes: 0, .. }), "{error}");
        }
        made.try_lock().unwrap();
        assert!(matches!(PoolFile::open(&path).unwrap_err(), PoolError::TooSmall { .. }));
    }

    #[test]
    fn an_unfinished_file_takes_its_name_with_it_unless_another_has_that_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        drop(PoolFile::create(&path, 0o600).unwrap());
        assert!(!path.exists());
        let made = PoolFile::create(&path, 0o600).unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(made);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let mut kept = PoolFile::create(&folder.path().join("b.pool"), 0o600).unwrap();
        kept.finish().unwrap();
        drop(kept);
        assert!(folder.path().join("b.pool").exists());
    }
}
