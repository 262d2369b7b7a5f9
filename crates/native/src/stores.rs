//! Recently stored lines of a mapped pool, as the machine reports them without help from the
//! threads that store.
//!
//! Ribbon (PACT'20) finds the lines to clean ahead by sampling stores with hardware counters. There
//! are three sources, the most precise first: addresses of sampled stores ([`samples`]), pages that
//! the system write-protects in the background ([`pages`]), and the soft-dirty marks of pages
//! ([`soft_dirty`]). Each is tried when it is asked for, and says why it cannot be had: kernels
//! differ in what they were built with, containers in what they forbid, and some say yes and do
//! nothing. None asks for a privilege.
//!
//! What a store costs the program: nothing with samples but an interrupt each 1009 stores; with
//! pages a fault at the first store to a page after each look (about 1 us over memory, 20 to 29 us
//! where a file system wants to know, as ext4 does); the same with soft-dirty marks.

mod event;
mod pages;
mod perf;
mod samples;
mod soft_dirty;

use crate::map::{Mapping, page_bytes};
use seawall_memory::{Addr, RecentStores, StoreSource};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

/// The bytes of a mapping that are there; more of them from time to time.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    mapping: &'a Mapping,
    bytes: &'a AtomicU64,
}

impl<'a> Window<'a> {
    /// `bytes` only rises, and stays within the mapping.
    pub(crate) fn new(mapping: &'a Mapping, bytes: &'a AtomicU64) -> Window<'a> {
        Window { mapping, bytes }
    }

    fn begin(&self) -> u64 {
        self.mapping.base().addr() as u64
    }

    /// Where the last page ends that is there.
    fn end(&self) -> u64 {
        self.begin() + self.bytes.load(Acquire).next_multiple_of(page_bytes())
    }

    /// What of the addresses from `start` to `end` is there: first byte and number of bytes.
    fn part(&self, start: u64, end: u64) -> Option<(Addr, u64)> {
        let (begin, bytes) = (self.begin(), self.bytes.load(Acquire));
        let first = start.max(begin) - begin;
        let last = end.saturating_sub(begin).min(bytes);
        (first < last).then(|| (Addr::pm(first), last - first))
    }
}

/// Begins to watch, or says why not.
pub(crate) fn watch<'a>(
    source: StoreSource,
    window: Window<'a>,
) -> Result<Box<dyn RecentStores + 'a>, String> {
    Ok(match source {
        StoreSource::Samples => Box::new(samples::Samples::of_this_machine(window)?),
        StoreSource::Pages => Box::new(pages::Pages::new(window)?),
        StoreSource::SoftDirty => Box::new(soft_dirty::SoftDirty::new(window)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_lies_inside_the_bytes_that_are_there() {
        let (mapping, bytes) = (Mapping::anonymous(1 << 20).unwrap(), AtomicU64::new(5000));
        let window = Window::new(&mapping, &bytes);
        let begin = window.begin();
        let part = |from, to| window.part(begin.wrapping_add_signed(from), begin + to);
        assert_eq!(part(0, 4096), Some((Addr::pm(0), 4096)));
        assert_eq!(part(4096, 8192), Some((Addr::pm(4096), 904)));
        assert_eq!(part(-4096, 64), Some((Addr::pm(0), 64)));
        assert_eq!((part(5000, 5064), part(8192, 4096), part(-64, 0)), (None, None, None));
        assert_eq!(window.part(u64::MAX - 64, u64::MAX), None);
        bytes.store(8192, std::sync::atomic::Ordering::Release);
        assert_eq!(part(4096, 8192), Some((Addr::pm(4096), 4096)));
    }
}
