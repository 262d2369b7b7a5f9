//! A last look for stores that nothing saw.

use crate::process::pages::pages;
use crate::process::runtime::{Thread, runtime};
use crate::process::{regions, values};
use crate::request::{PAGE, Persistent};
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
    thread.comes_to(0);
    for page in pages().persistent() {
        for line in (page..page + PAGE).step_by(64) {
            values::take_over_line(thread, line);
        }
    }
    for pool in regions::pools() {
        for page in written(pool.at, pool.bytes) {
            if pages().known(page).is_none() {
                runtime.unseen.note(page, 0);
            }
        }
    }
}

/// The pages of a private mapping of a file that are no longer the file's.
pub(crate) fn written(at: u64, bytes: u64) -> Vec<u64> {
    const PRESENT: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 61;
    let mut entries = vec![0; (bytes / PAGE * 8) as usize];
    let read = File::open("/proc/self/pagemap")
        .and_then(|file| file.read_exact_at(&mut entries, at / PAGE * 8));
    if read.is_err() {
        return Vec::new();
    }
    let entries = entries.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry));
    let pages = (at..).step_by(PAGE as usize).zip(entries);
    let written = pages.filter(|(_, entry)| entry & PRESENT != 0 && entry & OF_FILE == 0);
    written.map(|(page, _)| page).collect()
}
