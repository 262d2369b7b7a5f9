//! A file that the program has mapped shared: what of the mapping it may touch, and what is in the
//! file.
//!
//! A pool stays mapped when the program unmaps it, so that it is found again, as the page cache
//! would have it. What the program may not touch faults, as natively.

use crate::explore::files::page_of;
use crate::request::PAGE;
use libc::{c_int, c_void};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const READS_AND_WRITES: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A file that the program has mapped shared.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) path: PathBuf,
    /// The file, open for reading for as long as this is known.
    pub(crate) file: Rc<File>,
    /// Whether the program may write to it.
    pub(crate) is_writable: bool,
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
    /// Parts with what the program may do there, where that is not all.
    pub(crate) limits: Rc<RefCell<Vec<Limit>>>,
}

/// A part, and what the program may do there.
type Limit = (Range<u64>, c_int);

/// The limit of a part that the program has unmapped.
const GIVEN_UP: c_int = -1;

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
        self.limit(self.at..self.at + bytes, protection);
    }

    /// The program gives a part of it up.
    pub(crate) fn close(&self, range: &Range<u64>) {
        let part = self.part(range);
        let is_whole = part == (self.at..self.at + self.bytes);
        let left = self.maps.get().saturating_sub(1);
        if is_whole {
            self.maps.set(left);
        }
        if left == 0 {
            self.limit(part, GIVEN_UP);
        }
    }

    /// What of a range of addresses is its own.
    pub(crate) fn part(&self, range: &Range<u64>) -> Range<u64> {
        range.start.max(self.at)..range.end.min(self.at + self.bytes)
    }

    /// Whether the program has all of a part mapped.
    pub(crate) fn has(&self, part: &Range<u64>) -> bool {
        let limits = self.limits.borrow();
        !limits.iter().any(|(range, how)| *how == GIVEN_UP && overlap(range, part))
    }

    /// Sets what the program may do in a part.
    pub(crate) fn limit(&self, part: Range<u64>, how: c_int) {
        let mut limits = self.limits.borrow_mut();
        let left = |(range, how): Limit| {
            let before = range.start..range.end.min(part.start);
            let behind = range.start.max(part.end)..range.end;
            [(before, how), (behind, how)].into_iter().filter(|(range, _)| !range.is_empty())
        };
        *limits = limits.drain(..).flat_map(left).collect();
        if how & READS_AND_WRITES != READS_AND_WRITES || how == GIVEN_UP {
            limits.push((part.clone(), how));
        }
        set(part, if how == GIVEN_UP { libc::PROT_NONE } else { how });
    }

    /// Lets the process itself read all of it; returns the parts that it could not read.
    pub(crate) fn unlock(&self) -> Vec<Range<u64>> {
        let limits = self.limits.borrow();
        let locked = limits.iter().filter(|(_, how)| [GIVEN_UP, libc::PROT_NONE].contains(how));
        let locked: Vec<_> = locked.map(|(part, _)| part.clone()).collect();
        locked.iter().for_each(|part| set(part.clone(), libc::PROT_READ));
        locked
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Sets what the host allows in a part of a pool.
pub(crate) fn set(range: Range<u64>, protection: c_int) {
    if protection & libc::PROT_WRITE == 0 {
        IS_RESTRICTED.store(true, Ordering::Relaxed);
    }
    let bytes = (range.end - range.start) as usize;
    // SAFETY: the range is of a pool; what the program must not do there faults, and is told.
    unsafe { libc::mprotect(range.start as *mut c_void, bytes, protection) };
}

/// Whether there is, or was, a part of a pool that the program may not write to.
static IS_RESTRICTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_restricted() -> bool {
    IS_RESTRICTED.load(Ordering::Relaxed)
}
