//! Pages that were stored to, as the kernel notes them behind asynchronous write protection.
//!
//! A range registered with `userfaultfd` in the mode `WP_ASYNC` needs no thread for its faults: the
//! kernel takes the protection off the page, and the store goes on. `PAGEMAP_SCAN` (Linux 6.7)
//! returns the pages without protection and protects them again in one step for each page, so that
//! a store that races with a look is seen by that look or by the next one. What the pool grows by
//! is not protected before the first look at it: pages that were only read there show up as well.
//!
//! Asked for with `UFFD_USER_MODE_ONLY`, which needs no privilege. Huge pages are asked not to be
//! used in the pool: one store would show 2 MiB. The pages' protection is kept in page tables, 2
//! MiB for each GiB of the pool. On DAX this has not been run.

use super::Window;
use crate::process::this_process;
use linux_raw_sys::general as raw;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{Advice, UserfaultfdFlags, madvise, userfaultfd};
use seawall_memory::{Addr, Process, RecentStores};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

const API: Opcode = opcode::read_write::<raw::uffdio_api>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<raw::uffdio_register>(0xaa, 0);
const UNREGISTER: Opcode = opcode::read::<raw::uffdio_range>(0xaa, 1);
const SCAN: Opcode = opcode::read_write::<raw::pm_scan_arg>(b'f', 16);

/// Runs of pages that the kernel returns at a time.
const RUNS: usize = 512;
const NO_RUN: raw::page_region = raw::page_region { start: 0, end: 0, categories: 0 };

pub(super) struct Pages<'a> {
    window: Window<'a>,
    pagemap: File,
    runs: Box<[raw::page_region; RUNS]>,
    /// The protection lasts as long as this.
    _protection: Protection,
}

/// The pool's pages, registered with the kernel.
///
/// They are unregistered explicitly: closing the descriptor is not enough while a forked child has
/// a copy of it, and the pages could not be registered again. The child of a fork only closes its
/// copy: the registered pages are the parent's.
struct Protection {
    faults: OwnedFd,
    range: raw::uffdio_range,
    process: Process,
}

impl Drop for Protection {
    fn drop(&mut self) {
        if self.process.is_this() {
            // SAFETY: this is the argument of that call; afterwards faults in the range, a mapping
            // of ours, are resolved as those of any other. If it fails, closing does it.
            let _ = unsafe { ioctl(&self.faults, Updater::<UNREGISTER, _>::new(&mut self.range)) };
        }
    }
}

impl<'a> Pages<'a> {
    pub(super) fn new(window: Window<'a>) -> Result<Pages<'a>, String> {
        let fail = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let faults = open().map_err(fail("userfaultfd"))?;
        enable(&faults)
            .map_err(fail("userfaultfd protects no pages in the background (Linux 6.7 does)"))?;
        let protection = register(faults, window)
            .map_err(fail("userfaultfd cannot protect the pool's pages"))?;
        let pagemap = File::open("/proc/self/pagemap").map_err(fail("/proc/self/pagemap"))?;
        let runs = Box::new([NO_RUN; RUNS]);
        let mut pages = Pages { window, pagemap, runs, _protection: protection };
        pages.find(&mut |_, _| ()).map_err(fail("PAGEMAP_SCAN (Linux 6.7 has it)"))?;
        Ok(pages)
    }

    /// Gives runs of written pages from `start` on, and protects them; returns where it ended.
    fn scan(&mut self, start: u64, end: u64) -> io::Result<u64> {
        self.runs.fill(NO_RUN);
        let written = u64::from(raw::PAGE_IS_WRITTEN);
        let mut arg = raw::pm_scan_arg {
            size: size_of::<raw::pm_scan_arg>() as u64,
            flags: u64::from(raw::PM_SCAN_WP_MATCHING | raw::PM_SCAN_CHECK_WPASYNC),
            start,
            end,
            walk_end: 0,
            vec: self.runs.as_mut_ptr().expose_provenance() as u64,
            vec_len: RUNS as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: written,
            category_anyof_mask: 0,
            return_mask: written,
        };
        // SAFETY: this is the argument of that call, and names an array of ours that is as long as
        // it says. Protection changes no byte, and the faults that it makes the kernel resolves.
        unsafe { ioctl(&self.pagemap, Updater::<SCAN, _>::new(&mut arg))? };
        Ok(arg.walk_end)
    }
}

impl RecentStores for Pages<'_> {
    fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()> {
        let (mut at, end) = (self.window.begin(), self.window.end());
        while at < end {
            let next = self.scan(at, end)?;
            for run in self.runs.iter().take_while(|run| run.end > 0) {
                if let Some((first, bytes)) = self.window.part(run.start, run.end) {
                    found(first, bytes);
                }
            }
            if next <= at {
                return Err(io::Error::other("PAGEMAP_SCAN does not go on"));
            }
            at = next;
        }
        Ok(())
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = UserfaultfdFlags::CLOEXEC
        | UserfaultfdFlags::NONBLOCK
        | UserfaultfdFlags::from_bits_retain(raw::UFFD_USER_MODE_ONLY);
    // SAFETY: its holder may decide about faults of registered ranges, which are the pool's alone,
    // in a mode that leaves them to the kernel. It never leaves this module.
    Ok(unsafe { userfaultfd(flags)? })
}

fn enable(faults: &OwnedFd) -> io::Result<()> {
    let features = raw::UFFD_FEATURE_PAGEFAULT_FLAG_WP
        | raw::UFFD_FEATURE_WP_HUGETLBFS_SHMEM
        | raw::UFFD_FEATURE_WP_UNPOPULATED
        | raw::UFFD_FEATURE_WP_ASYNC;
    let mut api =
        raw::uffdio_api { api: raw::UFFD_API.into(), features: features.into(), ioctls: 0 };
    // SAFETY: this is the argument of that call; it changes nothing but what the file can do.
    unsafe { ioctl(faults, Updater::<API, _>::new(&mut api))? };
    Ok(())
}

/// All addresses that the pool may grow into: those that have no pages cost nothing.
fn register(faults: OwnedFd, window: Window<'_>) -> io::Result<Protection> {
    let len = window.mapping.bytes().next_multiple_of(crate::map::page_bytes());
    // SAFETY: the range is a mapping of ours. Kernels without huge pages refuse: none is used then.
    let _ = unsafe { madvise(window.mapping.base().cast(), len as usize, Advice::LinuxNoHugepage) };
    let range = raw::uffdio_range { start: window.begin(), len };
    let mode = u64::from(raw::UFFDIO_REGISTER_MODE_WP);
    let mut wanted = raw::uffdio_register { range, mode, ioctls: 0 };
    // SAFETY: this is the argument of that call, and the range is a mapping of ours; faults in it
    // go on being resolved by the kernel, as `enable` has asked.
    unsafe { ioctl(&faults, Updater::<REGISTER, _>::new(&mut wanted))? };
    Ok(Protection { faults, range, process: this_process() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Mapping, page_bytes, reserve};
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const PAGES: u64 = 4096;

    /// Memory of no file, and files of different file systems; half of each is there.
    fn mappings() -> Vec<(Mapping, AtomicU64)> {
        let bytes = PAGES * page_bytes();
        let mut all = vec![Mapping::anonymous(bytes).unwrap()];
        let folders = [std::env::temp_dir(), "/dev/shm".into()];
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            let file = tempfile::tempfile_in(folder).unwrap();
            reserve(&file, 0, bytes).unwrap();
            all.push(Mapping::of_file(&file, bytes).unwrap());
        }
        all.into_iter().map(|mapping| (mapping, AtomicU64::new(bytes / 2))).collect()
    }

    /// Runs `test` where the kernel has the feature.
    fn each(test: impl Fn(&mut Pages<'_>, &Mapping, &AtomicU64)) {
        for (mapping, bytes) in &mappings() {
            match Pages::new(Window::new(mapping, bytes)) {
                Ok(mut pages) => test(&mut pages, mapping, bytes),
                Err(why) => assert!(why.contains("userfaultfd") || why.contains("SCAN"), "{why}"),
            }
        }
    }

    fn word(mapping: &Mapping, at: u64) -> &AtomicU64 {
        // SAFETY: a word inside the mapping, which outlives the reference; only used by atomics.
        unsafe { AtomicU64::from_ptr(mapping.base().add(at as usize).cast()) }
    }

    fn store(mapping: &Mapping, page: u64) {
        word(mapping, page * page_bytes() + 8).fetch_add(1, Relaxed);
    }

    /// Single pages, in order.
    fn look(pages: &mut Pages<'_>) -> Vec<u64> {
        let mut all = Vec::new();
        let found = &mut |first: Addr, bytes: u64| {
            let first = first.offset() / page_bytes();
            all.extend(first..first + bytes.div_ceil(page_bytes()));
        };
        pages.find(found).unwrap();
        all
    }

    #[test]
    fn a_page_is_found_once_for_each_time_that_it_was_stored_to() {
        each(|pages, mapping, _| {
            assert_eq!(look(pages), [0; 0], "nothing was stored yet");
            for _ in 0..3 {
                [7, 8, 9, 100, 2047].iter().for_each(|page| store(mapping, *page));
                assert_eq!(look(pages), [7, 8, 9, 100, 2047]);
                assert_eq!(look(pages), [0; 0]);
                word(mapping, 8 * page_bytes()).load(Relaxed);
                assert_eq!(look(pages), [0; 0], "it was only read");
            }
        });
    }

    #[test]
    fn pages_can_be_asked_for_again_though_a_child_has_a_copy_of_the_descriptor() {
        for (mapping, bytes) in &mappings() {
            let Ok(pages) = Pages::new(Window::new(mapping, bytes)) else { continue };
            let _copy = pages._protection.faults.try_clone().unwrap();
            drop(pages);
            let mut again = Pages::new(Window::new(mapping, bytes)).expect("given up");
            store(mapping, 3);
            assert_eq!(look(&mut again), [3]);
        }
    }

    #[test]
    fn more_runs_than_fit_into_one_answer_are_all_found() {
        each(|pages, mapping, _| {
            let odd: Vec<u64> = (1..PAGES / 2).step_by(2).collect();
            assert!(odd.len() > RUNS);
            odd.iter().for_each(|page| store(mapping, *page));
            assert_eq!(look(pages), odd);
            assert_eq!(look(pages), [0; 0]);
        });
    }

    #[test]
    fn what_is_not_there_yet_is_found_once_it_is_and_the_end_is_to_the_byte() {
        each(|pages, mapping, bytes| {
            let (last, end) = (PAGES / 2 + 10, (PAGES / 2 + 10) * page_bytes() + 100);
            store(mapping, last);
            assert_eq!(look(pages), [0; 0]);
            bytes.store(end, Release);
            let mut found = Vec::new();
            pages.find(&mut |first, bytes| found.push((first.offset(), bytes))).unwrap();
            // The kernel may have brought in the pages before it as well.
            assert!(found.iter().all(|(first, _)| *first >= PAGES / 2 * page_bytes()), "{found:?}");
            let (first, bytes) = found.last().expect("it was stored to");
            assert_eq!((first + bytes, *first <= last * page_bytes()), (end, true));
            store(mapping, last);
            assert_eq!(look(pages), [last]);
        });
    }

    #[test]
    fn a_store_that_races_with_a_look_is_found_by_that_one_or_the_next() {
        each(|pages, mapping, _| {
            let ends = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let stored = scope.spawn(|| {
                    let mut rounds = 0u64;
                    loop {
                        (0..64).for_each(|page| {
                            word(mapping, page * page_bytes()).store(rounds, Release)
                        });
                        // However late it came to run: once at least.
                        if ends.load(Acquire) {
                            return rounds;
                        }
                        rounds += 1;
                    }
                });
                let mut seen = vec![0; 64];
                let see = |pages: &mut Pages<'_>, seen: &mut Vec<u64>| {
                    for page in look(pages) {
                        seen[page as usize] = word(mapping, page * page_bytes()).load(Acquire);
                    }
                };
                for _ in 0..2000 {
                    see(pages, &mut seen);
                }
                ends.store(true, Release);
                let last = stored.join().unwrap();
                see(pages, &mut seen);
                assert_eq!(seen, [last; 64]);
            });
        });
    }

    #[test]
    fn who_watches_the_same_pages_already_is_in_the_way_and_said_to_be() {
        each(|pages, _, _| {
            let why = Pages::new(pages.window).err().expect("they are taken");
            assert!(why.contains("cannot protect the pool's pages"), "{why}");
        });
    }

    #[test]
    fn nothing_is_left_behind_by_a_watch_that_ended() {
        for (mapping, bytes) in &mappings() {
            let Ok(mut first) = Pages::new(Window::new(mapping, bytes)) else { continue };
            store(mapping, 3);
            assert_eq!(look(&mut first), [3]);
            drop(first);
            let mut second = Pages::new(Window::new(mapping, bytes)).unwrap();
            store(mapping, 3);
            assert_eq!(look(&mut second), [3]);
        }
    }
}
