//! Files that the program has mapped shared: what of a mapping it may touch, and what became of the
//! file.
//!
//! A pool stays mapped when the program unmaps it, so that it is found again, as the page cache
//! would have it. What the program may not touch faults, as natively.

use crate::explore::files::page_of;
use crate::process::explore;
use crate::process::failure::{fail_at, refuse};
use crate::process::pages::pages;
use crate::process::regions;
use crate::request::PAGE;
use libc::{c_int, c_void};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::rc::Rc;

const READS_AND_WRITES: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A file that the program has mapped shared.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) path: PathBuf,
    /// The file, open for reading for as long as this is known.
    pub(crate) file: Rc<File>,
    /// Device and inode.
    pub(crate) number: (u64, u64),
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Where in the file it starts.
    pub(crate) offset: u64,
    /// How often the program has it mapped.
    pub(crate) maps: Rc<Cell<usize>>,
    /// The shortest that its file has become while more of it was known to the machine.
    pub(crate) cut: Rc<Cell<u64>>,
}

impl Pool {
    /// The bytes of its file that it has.
    pub(crate) fn there(&self) -> Range<u64> {
        let bytes = self.file_bytes().unwrap_or(0).next_multiple_of(PAGE);
        self.offset..bytes.min(self.offset + self.bytes)
    }

    /// Whether it is mapped at `at`.
    pub(crate) fn is_at(&self, at: u64) -> bool {
        (self.at..self.at + self.bytes).contains(&at)
    }

    /// Where in the file `at` is.
    pub(crate) fn offset_of(&self, at: u64) -> u64 {
        self.offset + at - self.at
    }

    /// Whether it is of the same file.
    pub(crate) fn is_of(&self, other: &Pool) -> bool {
        self.number == other.number
    }

    /// The length of the file.
    pub(crate) fn file_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The addresses behind the end of the file, which fault.
    pub(crate) fn behind_end(&self) -> Range<u64> {
        let there = self.there();
        self.at + there.end.saturating_sub(there.start)..self.at + self.bytes
    }

    /// Whether its file is still under the name under which it was mapped.
    pub(crate) fn has_its_name(&self) -> bool {
        self.path.metadata().is_ok_and(|is| (is.dev(), is.ino()) == self.number)
    }

    /// What the file has in the page at `at`.
    pub(crate) fn page(&self, at: u64) -> io::Result<Vec<u8>> {
        page_of(&self.file, self.offset_of(at))
    }

    /// The program maps so many bytes of it, maybe once more.
    pub(crate) fn open(&self, bytes: u64, protection: c_int) {
        let had = self.maps.replace(self.maps.get() + 1);
        // One of two mappings of a file may be written by the other.
        let protection = if had > 0 { READS_AND_WRITES } else { protection | libc::PROT_READ };
        set(self.at..self.at + bytes, protection);
    }

    /// The program gives a part of it up.
    pub(crate) fn close(&self, range: &Range<u64>) {
        let part = range.start.max(self.at)..range.end.min(self.at + self.bytes);
        let is_whole = part == (self.at..self.at + self.bytes);
        let left = self.maps.get().saturating_sub(1);
        if is_whole {
            self.maps.set(left);
        }
        if left == 0 {
            set(part, libc::PROT_NONE);
        }
    }
}

fn set(range: Range<u64>, protection: c_int) {
    if protection & libc::PROT_WRITE == 0 {
        regions::restrict();
    }
    let bytes = (range.end - range.start) as usize;
    // SAFETY: the range is of a pool; what the program must not do there faults, and is told.
    unsafe { libc::mprotect(range.start as *mut c_void, bytes, protection) };
}

/// Lets the process itself write to the page at `at`, if it is a pool's.
pub(crate) fn let_write(at: u64) {
    if regions::pool_at(at).is_some() {
        let page = at / PAGE * PAGE;
        set(page..page + PAGE, READS_AND_WRITES);
    }
}

/// Lets the process itself read all pools, as at the end of the program.
pub(crate) fn open_all() {
    for pool in regions::pools() {
        set(pool.at..pool.at + pool.bytes, READS_AND_WRITES);
    }
}

/// The program's `mprotect`, which counts for pools; a negative error number if it fails.
pub(crate) fn protect(at: u64, bytes: u64, protection: c_int) -> i64 {
    let end = at.saturating_add(bytes).next_multiple_of(PAGE);
    let of = |pool: &Pool| at.max(pool.at)..end.min(pool.at + pool.bytes);
    for part in regions::pools().iter().map(of).filter(|part| part.start < part.end) {
        set(part, protection & READS_AND_WRITES);
    }
    0
}

/// An open file is about to get so many bytes; true if it has them already.
pub(crate) fn resize(fd: c_int, bytes: u64) -> bool {
    let pools = regions::pools_of(fd);
    let Some(had) = pools.first().and_then(|pool| pool.file_bytes().ok()) else { return false };
    for pool in &pools {
        if bytes < had && knows_one(pool, bytes..had) {
            pool.cut.set(pool.cut.get().min(bytes));
        }
        if bytes > had && bytes > pool.cut.get() {
            refuse("ftruncate that gives a mapped file back what it had cut off");
        }
    }
    had == bytes
}

/// Bytes of an open file are about to become zeros, or to move.
pub(crate) fn empty(fd: c_int, range: &Range<u64>) {
    if regions::pools_of(fd).iter().any(|pool| knows_one(pool, range.clone())) {
        refuse("fallocate that empties or moves a part of a mapped file");
    }
}

/// Whether the machine knows a page of a pool that has bytes of this part of the file.
fn knows_one(pool: &Pool, part: Range<u64>) -> bool {
    let (first, last) = (part.start.max(pool.offset), part.end.min(pool.offset + pool.bytes));
    let range = pool.at + first.saturating_sub(pool.offset)..pool.at + last - pool.offset.min(last);
    first < last && !pages().persistent_in(range).is_empty()
}

/// Refuses a run after which a file that it has stored to is not what it was under its name.
pub(crate) fn check_names() {
    let lost = |pool: &Pool| !pool.has_its_name() && explore::is_stored_to(&pool.path);
    if let Some(pool) = regions::pools().into_iter().find(lost) {
        let name = explore::name(&pool.path);
        let what = format!(
            "renames, replaces or removes the file {}, which it has mapped and stored to: a crash \
             finds files under the names that they have at the end, so that none could be tried \
             before that; keep the file where it is",
            name.display()
        );
        fail_at(&what, Vec::new());
    }
}
