//! Lines that are cleaned early because the machine says that they were stored to.

use seawall_memory::{Addr, FlushBy, Handles, MemoryExt, RecentStores, StoreSource};
use seawall_native::{Domain, NativeMemory, Pool, PoolOptions};
use seawall_ribbon::{
    CleanerCounters, EarlySource, EarlyStores, Mode, Ribbon, RibbonOptions, RibbonPool,
    RibbonPoolError,
};
use std::io;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn line_pool(bytes_max: u64) -> Pool {
    let domain = Some(Domain::Line);
    let options = PoolOptions { domain, bytes_max, ..PoolOptions::default() };
    Pool::temporary(1 << 20, &options).expect("there is room")
}

/// Threads flush for themselves, and the cleaner always looks; the hook would need a flusher.
fn inline() -> RibbonOptions {
    RibbonOptions { mode: Mode::Never, threads: 2, flushers: 1, flushers_min: 1, ..Ribbon::auto() }
}

/// Each source that this machine has; of those that it has not, the reason is looked at.
fn each(bytes_max: u64, test: impl Fn(RibbonPool<Pool>)) {
    for source in StoreSource::ALL {
        match line_pool(bytes_max).flush(inline().early(EarlySource::Machine(source))) {
            Ok(pool) => test(pool),
            Err(RibbonPoolError::Source { asked, why, there }) => {
                assert!(asked == source && why.len() > 20, "{why}");
                assert!(there.ends_with("hook") && !there.contains(source.name()), "{there}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn cleaner<P: Handles>(pool: &RibbonPool<P>) -> CleanerCounters {
    pool.counters().cleaner.expect("a cleaner")
}

/// Waits until the cleaner's counters are as wanted, doing `meanwhile` again and again.
fn wait<P: Handles>(
    pool: &RibbonPool<P>,
    meanwhile: impl Fn(),
    wanted: impl Fn(&CleanerCounters) -> bool,
) {
    let began = Instant::now();
    while !wanted(&cleaner(pool)) {
        assert!(began.elapsed() < PATIENCE, "{:?}", cleaner(pool));
        meanwhile();
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn stored_lines_are_cleaned_and_not_again_if_they_are_left_alone() {
    each(0, |pool| {
        let memory = pool.memory(0);
        (0..100).for_each(|line| memory.store(Addr::pm(4096 + 192 * line), line + 1));
        wait(&pool, || (), |cleaner| cleaner.cleaned == 100);
        let looks = cleaner(&pool).looks;
        wait(&pool, || (), |cleaner| cleaner.looks > looks);
        let before = cleaner(&pool);
        wait(&pool, || (), |cleaner| cleaner.looks > before.looks + 3);
        let after = cleaner(&pool);
        assert_eq!(after, CleanerCounters { looks: after.looks, ..before });
        memory.store(Addr::pm(4096), 77u64);
        wait(&pool, || (), |cleaner| cleaner.cleaned == 101);
        let counters = pool.counters();
        assert_eq!((counters.lines, counters.skipped), (101, 0), "{counters:?}");
    });
}

#[test]
fn a_line_that_the_cleaner_has_cleaned_is_flushed_all_the_same() {
    each(0, |pool| {
        let memory = pool.memory(0);
        (0..64).for_each(|line| memory.store(Addr::pm(4096 + 64 * line), line + 1));
        wait(&pool, || (), |cleaner| cleaner.cleaned == 64);
        let before = memory.inner().counters().flushed_lines;
        memory.persist(Addr::pm(4096), 4096);
        assert_eq!(memory.inner().counters().flushed_lines - before, 64);
        drop(memory);
        assert_eq!(pool.counters().skipped, 0);
    });
}

#[test]
fn lines_that_are_rewritten_all_the_time_are_left_out() {
    each(0, |pool| {
        let (memory, value) = (pool.memory(0), std::cell::Cell::new(0u64));
        let rewrite = || {
            value.set(value.get() + 1);
            memory.store(Addr::pm(4096), value.get());
        };
        wait(&pool, rewrite, |cleaner| cleaner.in_vain >= 3);
        let cleaner = cleaner(&pool);
        assert!(cleaner.cleaned < cleaner.found, "{cleaner:?}");
    });
}

#[test]
fn what_a_pool_has_grown_by_is_cleaned_too() {
    each(1 << 30, |pool| {
        let memory = pool.memory(0);
        for (step, bytes) in (1u64..).zip([2 << 20, (3 << 20) + 100, 64 << 20]) {
            let before = cleaner(&pool).cleaned;
            assert!(memory.grow(bytes));
            let last = bytes / 64 * 64 - 64;
            memory.store(Addr::pm(last), step);
            wait(&pool, || (), |cleaner| cleaner.cleaned > before);
        }
    });
}

#[test]
fn dropping_the_pool_ends_the_cleaner_and_the_next_one_watches_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    drop(Pool::create(&path, 1 << 20, &PoolOptions::default()).unwrap());
    for round in 1..=20u64 {
        let pool = Pool::open(&path, &PoolOptions::default(), |_, _| Ok(()));
        let pool = pool.unwrap_or_else(|error| panic!("the cleaner still has it: {error}"));
        let pool = pool.flush(inline().early(EarlySource::Auto)).unwrap();
        let memory = pool.memory(0);
        memory.store(Addr::pm(4096), round);
        if round % 2 == 0 && pool.counters().cleaner.is_some() {
            wait(&pool, || (), |cleaner| cleaner.cleaned > 0);
        }
        assert_eq!(memory.load::<u64>(Addr::pm(4096)), round);
    }
}

#[test]
fn auto_takes_the_first_source_that_there_is_and_says_why_none_before_it() {
    let pool = line_pool(0).flush(inline().early(EarlySource::Auto)).unwrap();
    let taken = pool.early().expect("a source");
    assert_eq!(taken.source, EarlySource::ALL[1 + taken.refused.len()]);
    let text = taken.to_string();
    for ((source, why), asked) in taken.refused.iter().zip(StoreSource::ALL) {
        assert!(*source == asked && text.contains(&format!("not {source}: {why}")), "{text}");
    }
    let has_cleaner = pool.counters().cleaner.is_some();
    assert_eq!(has_cleaner, taken.source != EarlySource::Hook);
    assert_eq!(pool.options().early == EarlyStores::Hook, taken.source == EarlySource::Hook);
}

#[test]
fn where_no_line_is_flushed_nothing_is_cleaned_and_no_source_refused() {
    let options = PoolOptions { domain: Some(Domain::Page), ..PoolOptions::default() };
    for source in EarlySource::ALL {
        let pool = Pool::temporary(1 << 20, &options).unwrap();
        let pool = pool.flush(inline().early(source)).unwrap();
        assert!(pool.off().is_some() && pool.early().is_none());
        assert_eq!((pool.counters().cleaner, pool.options().early), (None, EarlyStores::None));
    }
}

/// A pool whose source of stores breaks.
struct Breaking {
    pool: Pool,
    panics: bool,
}

struct Broken {
    looks: u32,
    panics: bool,
}

impl Handles for Breaking {
    type Handle<'a> = NativeMemory<'a>;

    fn handle(&self, thread: usize) -> NativeMemory<'_> {
        self.pool.handle(thread)
    }
    fn flushes_nothing(&self) -> Option<String> {
        self.pool.flushes_nothing()
    }
    fn add_dram(&mut self, bytes: u64) -> io::Result<Addr> {
        self.pool.add_dram(bytes)
    }
    fn recent_stores(&self, source: StoreSource) -> Result<Box<dyn RecentStores + '_>, String> {
        match source {
            StoreSource::Samples => Ok(Box::new(Broken { looks: 0, panics: self.panics })),
            _ => Err("it has only samples".into()),
        }
    }
}

impl RecentStores for Broken {
    fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()> {
        self.looks += 1;
        found(Addr::pm(64 * u64::from(self.looks)), 64);
        match (self.looks < 3, self.panics) {
            (true, _) => Ok(()),
            (false, true) => panic!("a source that panics"),
            (false, false) => Err(io::Error::other("a source that fails")),
        }
    }
}

#[test]
fn a_source_that_breaks_is_told_and_the_pool_goes_on() {
    for (panics, says) in [(false, "a source that fails"), (true, "it panicked")] {
        let pool = Breaking { pool: line_pool(0), panics };
        let pool = inline().early(EarlySource::Auto).flush_for(pool).unwrap();
        wait(&pool, || (), |cleaner| cleaner.stopped.as_deref() == Some(says));
        assert_eq!((cleaner(&pool).looks, cleaner(&pool).cleaned), (2, 2));
        let memory = pool.memory(0);
        memory.store(Addr::pm(0), 7u64);
        memory.persist(Addr::pm(0), 8);
    }
}

#[test]
fn in_mode_auto_a_cleaner_does_not_look_before_it_tries_whether_that_pays() {
    let options = RibbonOptions { mode: Mode::Auto, ..inline() };
    let pool = line_pool(0).flush(options.early(EarlySource::Auto)).unwrap();
    if pool.counters().cleaner.is_some() {
        let began = Instant::now();
        pool.memory(0).store(Addr::pm(4096), 1u64);
        std::thread::sleep(Duration::from_millis(50));
        assert!(cleaner(&pool).looks == 0 || began.elapsed() > Duration::from_millis(200));
    }
}
