//! Pages that were stored to, by the kernel's soft-dirty marks: bit 55 of `/proc/self/pagemap`.
//!
//! For kernels that have no [`pages`](super::pages). It is the cruder way. Marks are taken off all
//! pages of the process at once (a 4 into `/proc/self/clear_refs`), which disturbs other users of
//! the marks (CRIU, some garbage collectors) and costs time for all its memory; and reading is one
//! step and clearing another, so that the first store to a page in between stays unknown until the
//! page is stored to again. A hint is lost then, and nothing else.
//!
//! Kernels that were built without the marks take the 4 and set no bit. So it is tried first.

use super::Window;
use crate::map::{Mapping, page_bytes};
use seawall_memory::{Addr, RecentStores};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

const MARK: u64 = 1 << 55;
/// Entries of the page map that are read at a time.
const ENTRIES: usize = 4096;
const ENTRY_BYTES: u64 = 8;

pub(super) struct SoftDirty<'a> {
    window: Window<'a>,
    pagemap: File,
    clear_refs: File,
    entries: Vec<u8>,
}

impl<'a> SoftDirty<'a> {
    pub(super) fn new(window: Window<'a>) -> Result<SoftDirty<'a>, String> {
        let open = || {
            let pagemap = File::open("/proc/self/pagemap")?;
            let clear_refs = OpenOptions::new().write(true).open("/proc/self/clear_refs")?;
            let entries = vec![0; ENTRIES * ENTRY_BYTES as usize];
            Ok(SoftDirty { window, pagemap, clear_refs, entries })
        };
        let fail = |error: io::Error| format!("no soft-dirty marks of pages: {error}");
        let mut marks = open().map_err(fail)?;
        let tells = marks.tells().map_err(fail)?;
        let why = "this kernel sets no soft-dirty marks (it was built without MEM_SOFT_DIRTY)";
        tells.then_some(marks).ok_or_else(|| why.to_string())
    }

    /// True if a store to a page of ours, and nothing before it, shows.
    fn tells(&mut self) -> io::Result<bool> {
        let page = Mapping::anonymous(page_bytes())?;
        // SAFETY: it is inside the mapping, which outlives the reference.
        let byte = unsafe { AtomicU8::from_ptr(page.base()) };
        let address = page.base().addr() as u64;
        byte.store(1, Relaxed);
        self.clear()?;
        let before = self.is_marked(address)?;
        byte.store(2, Relaxed);
        Ok(!before && self.is_marked(address)?)
    }

    fn is_marked(&self, address: u64) -> io::Result<bool> {
        let mut entry = [0; ENTRY_BYTES as usize];
        self.pagemap.read_exact_at(&mut entry, address / page_bytes() * ENTRY_BYTES)?;
        Ok(u64::from_ne_bytes(entry) & MARK != 0)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_refs.write_all(b"4")
    }
}

/// The runs of marked entries, as first and one past the last.
fn runs(entries: &[u8], mut found: impl FnMut(u64, u64)) {
    let (entries, _) = entries.as_chunks::<{ ENTRY_BYTES as usize }>();
    let mut begin = None;
    for (index, entry) in (0..).zip(entries) {
        match (u64::from_ne_bytes(*entry) & MARK != 0, begin) {
            (true, None) => begin = Some(index),
            (false, Some(first)) => {
                found(first, index);
                begin = None;
            }
            _ => {}
        }
    }
    if let Some(first) = begin {
        found(first, entries.len() as u64);
    }
}

impl RecentStores for SoftDirty<'_> {
    fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()> {
        let (page_bytes, end) = (page_bytes(), self.window.end());
        let mut page = self.window.begin() / page_bytes;
        while page < end / page_bytes {
            let pages = (end / page_bytes - page).min(ENTRIES as u64);
            let entries = &mut self.entries[..(pages * ENTRY_BYTES) as usize];
            self.pagemap.read_exact_at(entries, page * ENTRY_BYTES)?;
            let window = self.window;
            runs(entries, |first, end| {
                let part = window.part((page + first) * page_bytes, (page + end) * page_bytes);
                if let Some((first, bytes)) = part {
                    found(first, bytes);
                }
            });
            page += pages;
        }
        self.clear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn marked_entries_are_found_in_runs() {
        let runs_of = |marks: &[u64]| {
            let bytes: Vec<u8> = marks.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
            let mut found = Vec::new();
            runs(&bytes, |first, end| found.push((first, end)));
            found
        };
        let (marked, present) = (MARK | 1 << 63 | 77, 1 << 63 | 77);
        assert_eq!(runs_of(&[]), []);
        assert_eq!(runs_of(&[present; 5]), []);
        assert_eq!(runs_of(&[marked; 3]), [(0, 3)]);
        let mixed = [present, marked, marked, 0, marked, present, marked];
        assert_eq!(runs_of(&mixed), [(1, 3), (4, 5), (6, 7)]);
    }

    #[test]
    fn a_stored_page_is_found_once_or_the_kernel_is_said_to_have_no_marks() {
        let pages = 2 * ENTRIES as u64;
        let mapping = Mapping::anonymous(pages * page_bytes()).unwrap();
        let bytes = AtomicU64::new(mapping.bytes());
        let mut marks = match SoftDirty::new(Window::new(&mapping, &bytes)) {
            Ok(marks) => marks,
            Err(why) => return assert!(why.contains("soft-dirty"), "{why}"),
        };
        for page in [5, 6, pages - 1] {
            // SAFETY: inside the mapping, and only used by atomics.
            let byte =
                unsafe { AtomicU8::from_ptr(mapping.base().add((page * page_bytes()) as usize)) };
            byte.store(1, Relaxed);
        }
        let mut look = || {
            let mut all = Vec::new();
            marks.find(&mut |first, bytes| all.push((first.offset(), bytes))).unwrap();
            all
        };
        let expected =
            [(5, 2), (pages - 1, 1)].map(|(page, n)| (page * page_bytes(), n * page_bytes()));
        assert_eq!(look(), expected);
        assert_eq!(look(), []);
    }
}
