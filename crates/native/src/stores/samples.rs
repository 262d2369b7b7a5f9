//! Addresses of sampled stores, of all threads of the process.
//!
//! Without a privilege the kernel samples the threads of the calling process, each in its own
//! ring. So the threads are listed at each look, and new ones are sampled from then on. The thread
//! that looks is left out, and so is a thread that cannot be sampled (a limit on locked memory,
//! say): nothing is found of its stores.

use super::Window;
use super::event::Event;
use super::perf::Ring;
use seawall_memory::{Addr, LINE_BYTES, RecentStores};
use std::fs;
use std::io;
use std::path::Path;

const DEVICES: &str = "/sys/bus/event_source/devices";
const THREADS: &str = "/proc/self/task";
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

pub(super) struct Samples<'a> {
    window: Window<'a>,
    event: Event,
    threads: Vec<Sampled>,
}

struct Sampled {
    thread: i32,
    /// None where the system refused.
    ring: Option<Ring>,
}

impl<'a> Samples<'a> {
    pub(super) fn of_this_machine(window: Window<'a>) -> Result<Samples<'a>, String> {
        Samples::new(window, Event::of_stores(Path::new(DEVICES))?)
    }

    fn new(window: Window<'a>, event: Event) -> Result<Samples<'a>, String> {
        let fail = |error| {
            let paranoid = fs::read_to_string(PARANOID).unwrap_or_default();
            let (name, paranoid) = (&event.name, paranoid.trim());
            format!("{name}: perf_event_open: {error} (perf_event_paranoid is {paranoid})")
        };
        let this_thread = 0;
        Ring::of_thread(&event.attr, this_thread).map_err(fail)?;
        let mut samples = Samples { window, event, threads: Vec::new() };
        let listed = samples.follow_threads();
        listed.map_err(|error| format!("{THREADS}: {error}"))?;
        Ok(samples)
    }

    /// Begins to sample threads that are new, and forgets those that have ended.
    fn follow_threads(&mut self) -> io::Result<()> {
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        let mut there = Vec::new();
        for entry in fs::read_dir(THREADS)? {
            let thread: Option<i32> =
                entry?.file_name().to_str().and_then(|name| name.parse().ok());
            there.extend(thread.filter(|thread| *thread != me));
        }
        self.threads.retain(|sampled| there.contains(&sampled.thread));
        for thread in there {
            if self.threads.iter().all(|sampled| sampled.thread != thread) {
                let ring = Ring::of_thread(&self.event.attr, thread).ok();
                self.threads.push(Sampled { thread, ring });
            }
        }
        Ok(())
    }
}

impl RecentStores for Samples<'_> {
    fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()> {
        let window = self.window;
        for ring in self.threads.iter().filter_map(|sampled| sampled.ring.as_ref()) {
            ring.read(self.event.is_mixed, |address| {
                let line = address / LINE_BYTES * LINE_BYTES;
                if let Some((first, bytes)) = window.part(line, line.saturating_add(LINE_BYTES)) {
                    found(first, bytes);
                }
            });
        }
        self.follow_threads()
    }

    fn rest(&mut self) {
        self.threads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Mapping, page_bytes};
    use crate::stores::perf::{Attr, EXCLUDE_KERNEL};
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicU8, AtomicU64};
    use std::sync::mpsc::channel;

    /// Each page fault of a program, with its address: the kernel counts those by itself.
    fn page_faults() -> Event {
        let (kind, config, period, flags) = (1, 2, 1, EXCLUDE_KERNEL);
        let attr = Attr { kind, config, period, flags, ..Attr::default() };
        Event { name: "page-faults".into(), attr, is_mixed: false }
    }

    fn touch(mapping: &Mapping, at: u64) {
        // SAFETY: inside the mapping, and only used by atomics.
        unsafe { AtomicU8::from_ptr(mapping.base().add(at as usize)) }.store(1, Relaxed);
    }

    fn look(samples: &mut Samples<'_>) -> Vec<(Addr, u64)> {
        let mut all = Vec::new();
        samples.find(&mut |first, bytes| all.push((first, bytes))).unwrap();
        all
    }

    #[test]
    fn what_other_threads_touch_is_found_once_and_nothing_outside_the_pool() {
        let pages = 10_000;
        let (pool, other) = (Mapping::anonymous(pages * page_bytes()).unwrap(), 3 * page_bytes());
        let beside = Mapping::anonymous(other).unwrap();
        let bytes = AtomicU64::new(pool.bytes() - page_bytes());
        let mut samples = match Samples::new(Window::new(&pool, &bytes), page_faults()) {
            Ok(samples) => samples,
            Err(why) => return assert!(why.contains("perf_event_paranoid"), "{why}"),
        };
        std::thread::scope(|scope| {
            // Whoever panics closes its channel, and so ends the other.
            let ((go, goes), (say, says)) = (channel(), channel());
            let (pool, beside) = (&pool, &beside);
            scope.spawn(move || {
                say.send("here").unwrap();
                goes.recv().unwrap();
                (0..100).for_each(|page| touch(pool, page * page_bytes() + 130));
                (0..3).for_each(|page| touch(beside, page * page_bytes()));
                touch(pool, pool.bytes() - 1);
                say.send("done").unwrap();
                let _ = goes.recv();
            });
            says.recv().unwrap();
            assert_eq!(look(&mut samples), [], "from now on it is sampled");
            touch(pool, 200 * page_bytes());
            go.send(()).unwrap();
            says.recv().unwrap();
            let lines = (0..100).map(|page| (Addr::pm(page * page_bytes() + 128), 64));
            assert_eq!(look(&mut samples), lines.collect::<Vec<_>>());
            assert_eq!(look(&mut samples), []);
            samples.rest();
            assert!(samples.threads.is_empty(), "nobody is sampled while it rests");
            look(&mut samples);
            assert!(!samples.threads.is_empty());
        });
        look(&mut samples);
        assert!(samples.threads.iter().all(|sampled| sampled.thread != 0));
    }

    #[test]
    fn a_ring_that_ran_over_gives_what_it_kept_and_goes_on() {
        let pages = 4096;
        let pool = Mapping::anonymous(pages * page_bytes()).unwrap();
        let Ok(ring) = Ring::of_thread(&page_faults().attr, 0) else { return };
        for page in 0..pages / 2 {
            touch(&pool, page * page_bytes());
        }
        let mut count = 0;
        ring.read(false, |_| count += 1);
        assert!(count > 100, "{count}");
        let (mut last, at) = (0, (pages - 1) * page_bytes());
        touch(&pool, at);
        ring.read(false, |address| last = address);
        assert_eq!(last, pool.base().addr() as u64 + at);
    }

    #[test]
    fn a_machine_that_cannot_says_why() {
        let event = Event { attr: Attr { kind: 4_000_000, ..Attr::default() }, ..page_faults() };
        let bytes = AtomicU64::new(4096);
        let pool = Mapping::anonymous(4096).unwrap();
        let why = Samples::new(Window::new(&pool, &bytes), event).err().expect("no such device");
        assert!(why.starts_with("page-faults: ") && why.contains("os error"), "{why}");
    }
}
