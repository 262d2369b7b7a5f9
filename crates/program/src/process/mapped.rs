//! What the program does to the mappings of its pools, and to their files.

use crate::folder::as_known;
use crate::process::events;
use crate::process::explore;
use crate::process::failure::refuse;
use crate::process::pages::pages;
use crate::process::pool::{Pool, READS_AND_WRITES, set};
use crate::process::regions;
use crate::process::runtime::{Thread, runtime};
use crate::request::PAGE;
use libc::c_int;
use seawall_memory::{Fence, LINE_BYTES};
use std::ops::Range;

/// Lets the process itself read all pools, as at the end of the program.
pub(crate) fn open_all() {
    for pool in regions::pools() {
        set(pool.at..pool.at + pool.bytes, READS_AND_WRITES);
    }
}

/// The program's `mprotect`, which counts for pools; a negative error number if it fails.
pub(crate) fn protect(at: u64, bytes: u64, protection: c_int) -> i64 {
    let Some(range) = pages_from(at, bytes).filter(|_| at.is_multiple_of(PAGE)) else {
        return -i64::from(if at.is_multiple_of(PAGE) { libc::ENOMEM } else { libc::EINVAL });
    };
    for pool in regions::pools() {
        let part = pool.part(&range);
        if part.is_empty() {
            continue;
        }
        if !pool.has(&part) {
            return -i64::from(libc::ENOMEM);
        }
        if protection & libc::PROT_WRITE != 0 && !pool.is_writable {
            return -i64::from(libc::EACCES);
        }
        pool.limit(part, protection & READS_AND_WRITES);
    }
    if is_mapped(&range) { 0 } else { -i64::from(libc::ENOMEM) }
}

/// The pages that have these bytes; `None` if there is no end to them.
fn pages_from(at: u64, bytes: u64) -> Option<Range<u64>> {
    Some(at..at.checked_add(bytes)?.checked_next_multiple_of(PAGE)?)
}

/// Whether the program has mapped all of a range.
fn is_mapped(range: &Range<u64>) -> bool {
    let has = |pool: &Pool| {
        let part = pool.part(range);
        part.is_empty() || pool.has(&part)
    };
    let (at, bytes) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
    // SAFETY: asks whether something is there; the mappings of pools are private.
    let is_there = || unsafe { libc::msync(at, bytes, libc::MS_ASYNC) } == 0;
    regions::pools().iter().all(has) && is_there()
}

/// The program's `msync`, with the answers of Linux (mm/msync.c); a negative error number if it
/// fails. Only `MS_SYNC` makes something durable.
pub(crate) fn msync(thread: Option<&Thread>, at: u64, bytes: u64, flags: c_int) -> i64 {
    let known = libc::MS_ASYNC | libc::MS_SYNC | libc::MS_INVALIDATE;
    let both = libc::MS_ASYNC | libc::MS_SYNC;
    if flags & !known != 0 || flags & both == both || !at.is_multiple_of(PAGE) {
        return -i64::from(libc::EINVAL);
    }
    let Some(range) = pages_from(at, bytes) else { return -i64::from(libc::ENOMEM) };
    if flags & libc::MS_SYNC != 0
        && let Some(thread) = thread
    {
        // What is there becomes durable whether there are gaps or not.
        flush(thread, &range);
        drain(thread);
    }
    if is_mapped(&range) { 0 } else { -i64::from(libc::ENOMEM) }
}

/// Files that a call makes durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Synced {
    All,
    /// Those of the file system of this open file.
    FileSystem(c_int),
    File(c_int),
    /// A part of this open file, from an offset on.
    Part(c_int, u64, u64),
}

/// Makes what was stored to mappings of files durable; whether there are any.
pub(crate) fn sync(thread: Option<&Thread>, which: Synced) -> bool {
    let pools = match which {
        Synced::All => regions::pools(),
        Synced::FileSystem(fd) => regions::pools_beside(fd),
        Synced::File(fd) | Synced::Part(fd, ..) => regions::pools_of(fd),
    };
    let part = |pool: &Pool| match which {
        Synced::Part(_, offset, bytes) => {
            let start = pool.at + offset.saturating_sub(pool.offset);
            let end = (offset + bytes).saturating_sub(pool.offset).saturating_add(pool.at);
            pool.part(&(start..end))
        }
        _ => pool.at..pool.at + pool.bytes,
    };
    let Some(thread) = thread.filter(|_| !pools.is_empty()) else { return !pools.is_empty() };
    for pool in &pools {
        flush(thread, &part(pool));
    }
    drain(thread);
    true
}

/// Flushes the lines that are known of these addresses, whatever the program may do there.
fn flush(thread: &Thread, range: &Range<u64>) {
    let mut pools = regions::pools();
    pools.retain(|pool| !pool.part(range).is_empty());
    let locked: Vec<Range<u64>> = pools.iter().flat_map(Pool::unlock).collect();
    for page in pages().persistent_in(range.clone()) {
        let lines = page.max(range.start & !(LINE_BYTES - 1))..(page + PAGE).min(range.end);
        lines.step_by(LINE_BYTES as usize).for_each(|line| events::flush(thread, line));
    }
    locked.into_iter().for_each(|part| set(part, libc::PROT_NONE));
}

/// Waits until what was flushed is durable.
fn drain(thread: &Thread) {
    runtime().count_fence();
    thread.through(|machine| machine.fence(Fence::Drain));
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

/// A file of a run that it has stored to and that is not, or no more, what it was under its name.
pub(crate) fn renamed() -> Option<String> {
    if !explore::is_run() {
        return None;
    }
    let lost = |pool: &Pool| !pool.has_its_name() && explore::is_stored_to(&pool.path);
    let pool = regions::pools().into_iter().find(lost)?;
    let name = as_known(&explore::name(&pool.path));
    Some(format!(
        "renames, replaces or removes the file {}, which it has mapped and stored to: a crash \
         finds files under the names that they have at the end, so that none could be tried before \
         that; keep the file where it is",
        name.display()
    ))
}
