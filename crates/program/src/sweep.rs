//! A last look for stores that nothing saw.

use crate::pages::pages;
use crate::request::{PAGE, Persistent};
use crate::runtime::{Thread, runtime};
use crate::{regions, values};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Finds, at the end of the program, the words that changed unseen and that nothing has read since.
///
/// Where all memory is persistent the C library's own is too, and only what the program has read of
/// it counts.
pub(crate) fn sweep(thread: &Thread) {
    let runtime = runtime();
    if runtime.persistent.get() == Persistent::All {
        return;
    }
    thread.site.set(0);
    for page in pages().persistent() {
        for line in (page..page + PAGE).step_by(64) {
            values::take_over_line(thread, line);
        }
    }
    for pool in regions::pools() {
        for page in (pool.at..pool.at + pool.bytes).step_by(PAGE as usize) {
            if pages().known(page).is_none() && is_written(page) {
                runtime.unseen.note(page, 0);
            }
        }
    }
}

/// Whether a page of a private mapping of a file is no longer the file's.
fn is_written(page: u64) -> bool {
    const PRESENT: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 61;
    let mut entry = [0; 8];
    let read = File::open("/proc/self/pagemap")
        .and_then(|file| file.read_exact_at(&mut entry, page / PAGE * 8));
    let entry = u64::from_le_bytes(entry);
    read.is_ok() && entry & PRESENT != 0 && entry & OF_FILE == 0
}
