//! What the program does to the mappings of its pools, and to their files.

use crate::folder::as_known;
use crate::process::explore;
use crate::process::failure::{fail_at, refuse};
use crate::process::pages::pages;
use crate::process::pool::{Pool, READS_AND_WRITES, set};
use crate::process::regions;
use crate::request::PAGE;
use libc::c_int;
use std::ops::Range;

/// Lets the process itself read all pools, as at the end of the program.
pub(crate) fn open_all() {
    for pool in regions::pools() {
        set(pool.at..pool.at + pool.bytes, READS_AND_WRITES);
    }
}

/// The program's `mprotect`, which counts for pools; a negative error number if it fails.
pub(crate) fn protect(at: u64, bytes: u64, protection: c_int) -> i64 {
    let end = at.saturating_add(bytes).next_multiple_of(PAGE);
    for pool in regions::pools() {
        let part = at.max(pool.at)..end.min(pool.at + pool.bytes);
        if part.start >= part.end {
            continue;
        }
        if pool.maps.get() == 0 {
            return -i64::from(libc::ENOMEM);
        }
        if protection & libc::PROT_WRITE != 0 && !pool.is_writable {
            return -i64::from(libc::EACCES);
        }
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
        let name = as_known(&explore::name(&pool.path));
        let what = format!(
            "renames, replaces or removes the file {}, which it has mapped and stored to: a crash \
             finds files under the names that they have at the end, so that none could be tried \
             before that; keep the file where it is",
            name.display()
        );
        fail_at(&what, Vec::new());
    }
}
