//! What a program had promised when it was killed: one word a thread, in a file of its own.
//!
//! A killed process leaves its stores to a shared mapping in the page cache, in the order in which
//! it made them; so the count that `output` stores here says how many operations had returned. It
//! is no part of the pool, and promises nothing after a power failure.

use crate::map::{self, Mapping};
use seawall_memory::LINE_BYTES;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// A file with a cache line for each thread, mapped.
pub struct Witness {
    mapping: Mapping,
}

impl Witness {
    /// Creates the file at `path` for `threads` threads, all of which have promised nothing.
    ///
    /// # Errors
    /// When the file exists, or the system refuses.
    pub fn create(path: &Path, threads: usize) -> io::Result<Witness> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let bytes = threads.max(1) as u64 * LINE_BYTES;
        map::reserve(&file, 0, bytes)?;
        Ok(Witness { mapping: Mapping::of_file(&file, bytes)? })
    }

    /// The last output of each thread, 0 where there was none, as the file at `path` has them.
    ///
    /// # Errors
    /// When the file cannot be read, or is no whole number of cache lines.
    pub fn read(path: &Path) -> io::Result<Vec<u64>> {
        let bytes = std::fs::read(path)?;
        if !bytes.len().is_multiple_of(LINE_BYTES as usize) {
            let text = format!("{}: {} bytes are no witness file", path.display(), bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let lines = bytes.chunks_exact(LINE_BYTES as usize);
        Ok(lines
            .map(|line| line[..8].iter().rev().fold(0, |word, b| word << 8 | u64::from(*b)))
            .collect())
    }

    pub(crate) fn word(&self, thread: usize) -> &AtomicU64 {
        let offset = thread as u64 * LINE_BYTES;
        assert!(offset < self.mapping.bytes(), "the witness has no line for thread {thread}");
        // SAFETY: aligned to a line, inside the mapping, which outlives the reference, and only
        // used by atomics.
        unsafe { AtomicU64::from_ptr(self.mapping.base().add(offset as usize).cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, PoolOptions};
    use seawall_memory::Memory;

    #[test]
    fn the_last_output_of_each_thread_is_read_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness");
        let witness = Witness::create(&path, 3).unwrap();
        let pool = Pool::temporary(4096, &PoolOptions::default()).unwrap();
        for (thread, numbers) in [(0, 5), (2, 0x1234_5678)] {
            let memory = pool.memory(thread).with_witness(&witness);
            (1..=numbers).step_by(7 + numbers as usize / 3).for_each(|n| memory.output(n));
            memory.output(numbers);
        }
        assert_eq!(Witness::read(&path).unwrap(), [5, 0, 0x1234_5678]);
        assert!(Witness::create(&path, 3).is_err(), "a witness is not overwritten");
    }

    #[test]
    fn a_file_of_odd_length_is_no_witness() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "seventy").unwrap();
        assert!(Witness::read(&path).unwrap_err().to_string().contains("text"));
    }
}
