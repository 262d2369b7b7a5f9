//! A last look for stores that nothing saw.

use crate::process::callers::Frame;
use crate::process::pages::pages;
use crate::process::pool::Pool;
use crate::process::runtime::{Thread, runtime};
use crate::process::{regions, values};
use crate::request::{PAGE, Persistent};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
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
    thread.comes_to(Frame::default());
    let gone: Vec<Range<u64>> = regions::pools().iter().map(Pool::behind_end).collect();
    for page in pages().persistent() {
        if gone.iter().any(|gone| gone.contains(&page)) {
            continue;
        }
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

/// What `PAGEMAP_SCAN` (Linux 6.7) is asked, and its bits.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    into: u64,
    into_len: u64,
    pages_max: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

const SCAN: libc::c_ulong = 0xc060_6610;
const IS_OF_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;

/// The pages of a private mapping of a file that are no longer the file's.
pub(crate) fn written(at: u64, bytes: u64) -> Vec<u64> {
    let Ok(pagemap) = File::open("/proc/self/pagemap") else { return Vec::new() };
    scanned(&pagemap, at..at + bytes).unwrap_or_else(|| read_of(&pagemap, at..at + bytes))
}

/// As the kernel finds them, without a look at what is not mapped.
fn scanned(pagemap: &File, range: Range<u64>) -> Option<Vec<u64>> {
    const RUNS: usize = 512;
    let mut runs = vec![[0u64; 3]; RUNS];
    let mut found = Vec::new();
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: range.start,
        end: range.end,
        into: runs.as_mut_ptr() as u64,
        into_len: RUNS as u64,
        inverted: IS_OF_FILE,
        all_of: IS_OF_FILE,
        any_of: IS_PRESENT | IS_SWAPPED,
        told: IS_PRESENT,
        ..Scan::default()
    };
    while scan.start < range.end {
        // SAFETY: the call writes to `scan`, and to as many of the runs as it has been told.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), SCAN, &raw mut scan) };
        let runs = runs.get(..usize::try_from(count).ok()?)?;
        found.extend(runs.iter().flat_map(|[from, to, _]| (*from..*to).step_by(PAGE as usize)));
        scan.start = scan.walk_end;
    }
    Some(found)
}

/// As the entries of all pages say.
fn read_of(pagemap: &File, range: Range<u64>) -> Vec<u64> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    const AT_ONCE: usize = 1 << 16;
    let mut found = Vec::new();
    for start in range.clone().step_by(AT_ONCE * PAGE as usize) {
        let pages = ((range.end - start).div_ceil(PAGE) as usize).min(AT_ONCE);
        let mut entries = vec![0; 8 * pages];
        if pagemap.read_exact_at(&mut entries, start / PAGE * 8).is_err() {
            return Vec::new();
        }
        let entries = entries.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry));
        let is_own = |entry: &u64| entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0;
        let pages = (start..).step_by(PAGE as usize).zip(entries);
        found.extend(pages.filter(|(_, entry)| is_own(entry)).map(|(page, _)| page));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_that_a_mapping_has_of_its_own_are_found_in_a_file_of_any_length() {
        let file = tempfile::tempfile().unwrap();
        let bytes = 1u64 << 33;
        file.set_len(bytes).unwrap();
        // SAFETY: a new mapping, within which the test writes.
        let at = unsafe {
            let (all, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let none = std::ptr::null_mut();
            let at = libc::mmap(none, bytes as usize, all, how, file.as_raw_fd(), 0) as u64;
            for offset in [0, 5 << 20, bytes - PAGE] {
                std::ptr::write((at + offset) as *mut u8, 1);
            }
            // A page that is only read is still the file's.
            std::ptr::read_volatile((at + (7 << 20)) as *const u8);
            at
        };
        let expected = [at, at + (5 << 20), at + bytes - PAGE];
        assert_eq!(written(at, bytes), expected);
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        assert_eq!(read_of(&pagemap, at..at + bytes), expected);
        assert_eq!(written(at + PAGE, PAGE), [0u64; 0]);
    }
}
