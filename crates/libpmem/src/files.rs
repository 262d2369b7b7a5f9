//! The file of `pmem_map_file`: its flags checked, opened or created, and made as long as asked.
//!
//! Where the manual is silent, errors are those of Debian's library; the tests compare both.

use crate::message::CallError;
use crate::system;
use rustix::fs::{Mode, OFlags};
use seawall_native::remove_if_same;
use std::ffi::c_int;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

const CREATE: c_int = 1 << 0;
const EXCL: c_int = 1 << 1;
const SPARSE: c_int = 1 << 2;
const TMPFILE: c_int = 1 << 3;
const ALL: c_int = CREATE | EXCL | SPARSE | TMPFILE;

/// What a program wants mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) path: &'a Path,
    pub(crate) bytes: usize,
    pub(crate) flags: c_int,
    pub(crate) mode: u32,
}

/// A file that is ready to be mapped.
#[derive(Debug)]
pub(crate) struct ReadyFile<'a> {
    pub(crate) file: &'a File,
    pub(crate) bytes: usize,
}

impl Wanted<'_> {
    /// Opens the file, then hands it to `map`. A file that this call alone created
    /// (`PMEM_FILE_EXCL`) is removed when something fails. The file is not locked: programs share
    /// one, and have locks of their own.
    pub(crate) fn open<T>(
        &self,
        map: impl FnOnce(&ReadyFile<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.check()?;
        let file = if self.has(TMPFILE) { self.unnamed()? } else { self.named()? };
        let mapped = self.size(&file).and_then(|bytes| map(&ReadyFile { file: &file, bytes }));
        if mapped.is_err() && self.has(CREATE | EXCL) && !self.has(TMPFILE) {
            remove_if_same(&file, self.path);
        }
        mapped
    }

    fn has(&self, flags: c_int) -> bool {
        self.flags & flags == flags
    }

    fn check(&self) -> Result<(), CallError> {
        let refuse = |why: String| Err(CallError::new(libc::EINVAL, why));
        let unknown = self.flags & !ALL;
        if unknown != 0 {
            return refuse(format!("flags of pmem_map_file: {unknown:#x} is not known"));
        }
        match (self.has(CREATE), self.bytes) {
            (true, 0) => refuse("len is 0: PMEM_FILE_CREATE needs the size of the file".into()),
            (true, bytes) if i64::try_from(bytes).is_err() => {
                refuse(format!("len is {bytes}: no file can be so long"))
            }
            (false, 1..) => refuse(format!(
                "len is {}: without PMEM_FILE_CREATE it must be 0, for the whole file",
                self.bytes
            )),
            (false, 0) if self.has(TMPFILE) => {
                refuse("PMEM_FILE_TMPFILE needs PMEM_FILE_CREATE".into())
            }
            _ => Ok(()),
        }
    }

    /// An unnamed file in the folder `path`; where the file system has none, its name is removed.
    fn unnamed(&self) -> Result<File, CallError> {
        let excl = if self.has(EXCL) { OFlags::EXCL } else { OFlags::empty() };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | excl;
        let file = rustix::fs::open(self.path, flags, Mode::RUSR | Mode::WUSR);
        let file = match file {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                tempfile::tempfile_in(self.path)
            }
            other => other.map(File::from).map_err(io::Error::from),
        };
        file.map_err(|error| self.failed("create a temporary file in", &error))
    }

    fn named(&self) -> Result<File, CallError> {
        if !self.has(CREATE | EXCL)
            && let Ok(status) = std::fs::metadata(self.path)
        {
            // Before it is opened, as opening a device may do something.
            self.check_kind(&status)?;
        }
        let create = if self.has(CREATE) { OFlags::CREATE } else { OFlags::empty() };
        let excl = if self.has(CREATE | EXCL) { OFlags::EXCL } else { OFlags::empty() };
        let never_waits = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | never_waits | create | excl;
        let file = rustix::fs::open(self.path, flags, Mode::from_bits_retain(self.mode));
        let file = file.map_err(|error| self.failed("open", &error.into()))?;
        Ok(File::from(file))
    }

    fn check_kind(&self, status: &Metadata) -> Result<(), CallError> {
        let kind = status.file_type();
        if kind.is_file() || kind.is_dir() {
            return Ok(());
        }
        let name = self.path.display();
        if kind.is_char_device() && is_dax(status.rdev()) {
            let text = format!(
                "{name} is a DAX device, which seawall does not map; make a file system with \
                 option dax on its namespace (ndctl create-namespace -m fsdax)"
            );
            return Err(CallError::new(libc::ENOTSUP, text));
        }
        Err(CallError::new(libc::EINVAL, format!("{name} is no regular file")))
    }

    /// Gives the file its size, and returns that.
    fn size(&self, file: &File) -> Result<usize, CallError> {
        let status = file.metadata().map_err(|error| self.failed("find the size of", &error))?;
        self.check_kind(&status)?;
        if !self.has(CREATE) {
            let bytes = usize::try_from(status.len());
            return bytes.map_err(|_| CallError::new(libc::EFBIG, "the file is too long"));
        }
        let bytes = self.bytes as u64;
        // Space is taken before the file is made longer: a full disk leaves it as it was.
        if bytes < status.len() || self.has(SPARSE) {
            file.set_len(bytes).map_err(|error| self.failed("set the size of", &error))?;
        }
        if !self.has(SPARSE) {
            let done = system::allocate(file, bytes);
            done.map_err(|error| self.failed("allocate the space of", &error))?;
        }
        Ok(self.bytes)
    }

    fn failed(&self, action: &str, error: &io::Error) -> CallError {
        CallError::system(format!("{action} {}", self.path.display()), error)
    }
}

/// True if the character device with that number is persistent memory without a file system.
fn is_dax(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let subsystem = std::fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"));
    subsystem.is_ok_and(|path| path.ends_with("dax"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_created_for_nothing_is_removed_and_what_was_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let wanted = |flags| Wanted { path: &path, bytes: 4096, flags, mode: 0o600 };
        let fail = |_: &ReadyFile<'_>| Err::<(), _>(CallError::new(libc::EIO, "planted"));
        assert_eq!(wanted(CREATE | EXCL).open(fail).unwrap_err().text, "planted");
        assert!(!path.exists());
        let replaced = |_: &ReadyFile<'_>| {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "precious").unwrap();
            Err::<(), _>(CallError::new(libc::EIO, "planted"))
        };
        assert_eq!(wanted(CREATE | EXCL).open(replaced).unwrap_err().text, "planted");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious", "another file has the name now");
        assert_eq!(wanted(CREATE | EXCL).open(fail).unwrap_err().number, libc::EEXIST);
        assert_eq!(wanted(CREATE).open(fail).unwrap_err().text, "planted");
        assert!(std::fs::read(&path).unwrap().starts_with(b"precious"));
    }

    #[test]
    fn a_disk_that_is_too_small_leaves_a_file_as_long_as_it_was() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let Ok(folder) = tempfile::tempdir_in(folder) else { continue };
            let path = folder.path().join("a");
            std::fs::write(&path, "precious").unwrap();
            let wanted = Wanted { path: &path, bytes: 1 << 50, flags: CREATE, mode: 0o600 };
            let error = wanted.open(|_| Ok(())).unwrap_err();
            assert!([libc::ENOSPC, libc::EFBIG].contains(&error.number), "{error:?}");
            assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        }
    }

    #[test]
    fn an_ordinary_device_is_no_dax_device() {
        let status = std::fs::metadata("/dev/null").unwrap();
        assert!(!is_dax(status.rdev()));
    }

    #[test]
    fn each_refusal_says_what_would_be_right() {
        let refused = |flags, bytes| {
            let wanted = Wanted { path: Path::new("/none"), bytes, flags, mode: 0 };
            let error = wanted.open(|_| Ok(())).unwrap_err();
            assert_eq!(error.number, libc::EINVAL, "{error:?}");
            error.text
        };
        assert!(refused(16 | CREATE, 1).contains("0x10"));
        assert!(refused(CREATE, 0).contains("needs the size"));
        assert!(refused(EXCL, 1).contains("must be 0"));
        assert!(refused(TMPFILE, 0).contains("PMEM_FILE_CREATE"));
        assert!(refused(CREATE, usize::MAX).contains("no file"));
    }
}
