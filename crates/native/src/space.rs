//! The space of a pool: a file with all its bytes allocated, mapped, and longer when asked.
//!
//! The addresses of the largest size are mapped at once, past the end of the file, so that growing
//! moves nothing and no thread needs to know. What lies past the end must not be touched: the
//! system would end the process (SIGBUS). So the size here bounds every access. It only rises, and
//! only after the new bytes exist and a crash keeps them; a handle that knows an older one looks
//! here before it refuses an access.

use crate::error::{PoolError, explain};
use crate::file::PoolFile;
use crate::map::{self, Mapping};
#[cfg(target_os = "linux")]
use crate::stores::Window;
use seawall_memory::Process;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, PoisonError};

/// A file, mapped for as long as it may grow.
pub(crate) struct Space {
    mapping: Mapping,
    bytes: AtomicU64,
    growing: Mutex<()>,
    file: PoolFile,
}

impl Space {
    /// Maps the first `bytes` of the file, with addresses for `bytes_max`, and gives space to the
    /// first `backed` of them; to all, where the others cannot be brought back when they are used.
    pub(crate) fn new(
        file: PoolFile,
        (backed, bytes): (u64, u64),
        bytes_max: u64,
    ) -> Result<Space, PoolError> {
        let fail = |action, bytes| {
            let name = file.name();
            move |error| explain(&name, action, bytes, error)
        };
        let backed = if backed < bytes && map::can_bring_back() { backed } else { bytes };
        let missing = map::missing(file.file(), backed).map_err(fail("find its space", backed))?;
        let reserved = map::reserve(file.file(), 0, backed);
        reserved.map_err(fail("allocate its space", missing))?;
        let mapped = bytes.max(bytes_max);
        let mapping = Mapping::of_file(file.file(), mapped).map_err(fail("map it", mapped))?;
        let mapping = mapping.not_inherited();
        Ok(Space { mapping, bytes: bytes.into(), growing: Mutex::new(()), file })
    }

    /// Writes the file and its name to the disk, where they stay from now on.
    pub(crate) fn finish_file(&mut self) -> Result<(), PoolError> {
        self.file.finish()
    }

    /// Where it is mapped; only the first [`bytes`](Space::bytes) may be touched.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(crate) fn file(&self) -> &File {
        self.file.file()
    }

    /// The process that has it.
    pub(crate) fn process(&self) -> Process {
        self.file.process()
    }

    /// What of it may be watched for stores.
    #[cfg(target_os = "linux")]
    pub(crate) fn window(&self) -> Window<'_> {
        Window::new(&self.mapping, &self.bytes)
    }

    /// Bytes that are there.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Acquire)
    }

    /// Makes it at least `bytes` long, in whole pages; durable when it returns. After an error it
    /// is as it was.
    pub(crate) fn grow(&self, bytes: u64) -> Result<(), PoolError> {
        if !self.process().is_this() {
            return Err(PoolError::Inherited { path: self.file.name() });
        }
        // Whoever panicked while growing left the size as it was.
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.bytes();
        if bytes <= before {
            return Ok(());
        }
        let (path, bytes_max) = (self.file.name(), self.mapping.bytes());
        if bytes > bytes_max {
            return Err(PoolError::BeyondMax { path, bytes, bytes_max });
        }
        let there = self.file().metadata();
        let there =
            there.map_err(|error| explain(&self.file.name(), "find its size", bytes, error))?;
        if there.len() < before {
            return Err(PoolError::Truncated { path, bytes: there.len(), bytes_before: before });
        }
        if there.len() > before {
            // What lies behind the bytes in use is no part of the pool, and new bytes are zero.
            let cut = self.file().set_len(before);
            cut.map_err(|error| explain(&self.file.name(), "cut off its end", before, error))?;
        }
        let bytes = bytes.next_multiple_of(map::page_bytes()).min(bytes_max);
        if let Err(error) = self.extend(before, bytes) {
            // No thread has touched what is cut off here. If it fails, the file is only longer.
            let _ = self.file().set_len(before);
            return Err(explain(&self.file.name(), "make it longer", bytes, error));
        }
        self.bytes.store(bytes, Release);
        Ok(())
    }

    fn extend(&self, before: u64, bytes: u64) -> io::Result<()> {
        map::reserve(self.file(), before, bytes)?;
        if !cfg!(target_os = "linux") {
            return self.file().sync_all();
        }
        // What fdatasync promises, the new size included, without writing every old dirty page.
        // SAFETY: the range is mapped, and now part of the file.
        unsafe { map::sync_pages(self.mapping.base(), before, bytes - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const MIB: u64 = 1 << 20;

    fn unnamed() -> PoolFile {
        PoolFile::unnamed(tempfile::tempfile().unwrap(), Path::new("a.pool")).unwrap()
    }

    fn space(bytes: u64, bytes_max: u64) -> Space {
        Space::new(unnamed(), (bytes, bytes), bytes_max).unwrap()
    }

    #[test]
    fn growing_allocates_whole_pages_up_to_the_largest_size() {
        let space = space(5000, 10 * MIB + 5000);
        let real = || space.file().metadata().map(|s| (s.len(), s.blocks() * 512)).unwrap();
        space.grow(5001).unwrap();
        assert_eq!(space.bytes(), map::page_bytes().max(8192));
        space.grow(MIB).unwrap();
        assert_eq!((space.bytes(), real().0), (MIB, MIB));
        assert!(real().1 >= MIB, "{} bytes are real", real().1);
        space.grow(7).unwrap();
        assert_eq!(space.bytes(), MIB, "it never shrinks");
        space.grow(10 * MIB + 4999).unwrap();
        assert_eq!(real().0, 10 * MIB + 5000);
        let error = space.grow(10 * MIB + 5001).unwrap_err().to_string();
        assert!(error.contains("a.pool") && error.contains("at most 10490760"), "{error}");
    }

    #[test]
    fn without_room_on_the_disk_the_file_stays_as_it_was() {
        let space = space(MIB, 1 << 46);
        let error = space.grow(1 << 45).unwrap_err();
        assert!(matches!(error, PoolError::Full { .. }), "{error}");
        assert_eq!((space.bytes(), space.file().metadata().unwrap().len()), (MIB, MIB));
        space.grow(2 * MIB).unwrap();
    }

    #[test]
    fn a_file_that_was_truncated_while_in_use_is_named() {
        let space = space(2 * MIB, 8 * MIB);
        space.file().set_len(MIB).unwrap();
        let error = space.grow(4 * MIB).unwrap_err().to_string();
        assert!(error.contains("truncated") && error.contains("1048576"), "{error}");
        assert_eq!(space.file().metadata().unwrap().len(), MIB, "holes would hide the loss");
    }

    #[test]
    fn more_addresses_than_there_are_is_an_error_that_says_so() {
        let error = Space::new(unnamed(), (4096, 4096), 1 << 60).err().unwrap();
        assert!(matches!(error, PoolError::NoAddresses { .. }), "{error}");
    }
}
