//! A Ribbon as an option of a pool.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::{Domain, Pool, PoolOptions};
use seawall_ribbon::{EarlyStores, Mode, Ribbon, RibbonOptions, RibbonPool};
use seawall_runtime::{Heap, HeapOptions, TxError};

const LINES: u64 = 64;
const ROUNDS: u64 = 100;

fn line_pool(dram_bytes: u64) -> Pool {
    let domain = Some(Domain::Line);
    let options = PoolOptions { domain, dram_bytes, ..PoolOptions::default() };
    Pool::temporary(1 << 20, &options).expect("there is room")
}

fn always(flushers: u64) -> RibbonOptions {
    RibbonOptions { mode: Mode::Always, flushers, flushers_min: 0, ..Ribbon::auto() }
}

/// Each of so many threads writes its own lines, again and again.
fn write(pool: &RibbonPool<Pool>, threads: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let memory = pool.memory(thread as usize);
                for round in 1..=ROUNDS {
                    for line in 0..LINES {
                        let at = Addr::pm(4096 + 64 * (thread * LINES + line));
                        memory.store(at, round);
                        memory.flush(at, 8);
                    }
                    memory.drain();
                }
            });
        }
    });
    for line in 0..threads * LINES {
        assert_eq!(pool.below().memory(0).load::<u64>(Addr::pm(4096 + 64 * line)), ROUNDS);
    }
}

#[test]
fn the_handles_of_a_pool_leave_flushes_to_its_flushers() {
    let pool = line_pool(0).flush(always(2)).unwrap();
    assert_eq!(pool.off(), None);
    while pool.counters().counts.by_flushers == 0 {
        write(&pool, 2);
    }
    let counters = pool.counters();
    assert_eq!((counters.depth, counters.flushers, counters.lost), (0, 2, 0), "{counters:?}");
    let asked = counters.counts.pushed + counters.counts.full;
    assert!(asked.is_multiple_of(2 * ROUNDS * LINES), "{counters:?}");
}

#[test]
fn counters_are_read_by_any_thread_while_others_write() {
    let pool = line_pool(0).flush(Ribbon::auto()).unwrap();
    let first = pool.counters();
    assert_eq!((first.lines, first.depth), (0, 0));
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| write(&pool, 2));
        let mut before = first.clone();
        while !writes.is_finished() {
            let now = pool.counters();
            assert!(now.lines >= before.lines && now.at >= before.at, "{before:?} {now:?}");
            assert!(now.depth <= pool.options().threads * pool.options().fifo_lines);
            before = now;
        }
    });
    let last = pool.counters();
    assert!(last.lines >= 2 * ROUNDS * LINES || last.counts.takeovers > 0, "{last:?}");
    assert!(last.lines_per_second_since(&first) > 0.0 && last.lines_per_second() > 0.0);
    assert_eq!(last.lines_per_second_since(&last), 0.0);
}

#[test]
fn where_no_line_is_flushed_there_are_no_flushers_and_the_pool_says_why() {
    for (domain, why) in [(Domain::Page, "msync"), (Domain::None, "caches persist")] {
        let options = PoolOptions { domain: Some(domain), ..PoolOptions::default() };
        let pool = Pool::temporary(1 << 20, &options).unwrap();
        let wish = RibbonOptions { early: EarlyStores::Hook, ..always(2) };
        let pool = pool.flush(wish).unwrap();
        let off = pool.off().expect("it is off").to_owned();
        assert!(off.contains(domain.name()) && off.contains(why), "{off}");
        if domain == Domain::None {
            write(&pool, 2);
        } else {
            pool.memory(0).persist(Addr::pm(4096), 8);
        }
        let counters = pool.counters();
        assert_eq!((counters.flushers, counters.counts.pushed, counters.skipped), (0, 0, 0));
        assert!(!pool.memory(0).decouples());
    }
}

#[test]
fn dropping_the_pool_ends_the_flushers_and_lets_go_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = Pool::create(&path, 1 << 20, &PoolOptions::default()).unwrap();
    let pool = pool.flush(always(3)).unwrap();
    write(&pool, 1);
    drop(pool);
    let again = Pool::open(&path, &PoolOptions::default(), |_, _| Ok(()));
    let again = again.unwrap_or_else(|error| panic!("a flusher still has it: {error}"));
    assert_eq!(again.memory(0).load::<u64>(Addr::pm(4096)), ROUNDS);
}

#[test]
fn options_out_of_range_are_refused_and_the_pool_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = Pool::create(&path, 1 << 20, &PoolOptions::default()).unwrap();
    let refused = pool.flush(RibbonOptions { fifo_lines: 100, ..Ribbon::auto() });
    let text = refused.err().expect("refused").to_string();
    assert!(text.contains("fifo_lines: 100 is not possible; it must be a power"), "{text}");
    assert!(Pool::open(&path, &PoolOptions::default(), |_, _| Ok(())).is_ok());
}

#[test]
fn a_heap_keeps_the_dram_that_it_had_and_its_transactions_commit_on_such_handles() {
    let options = HeapOptions { bytes: 3 << 16, root_bytes: 64, ..HeapOptions::default() };
    let domain = Some(Domain::Line);
    let dram_bytes = options.dram_bytes();
    let places = PoolOptions { domain, dram_bytes, ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &places).unwrap();
    let heap = Heap::create(&pool.memory(0), "with-ribbon", 7, &options).unwrap();
    let pool = pool.flush(RibbonOptions { early: EarlyStores::Hook, ..always(1) }).unwrap();
    let memory = pool.memory(0);
    let mut session = heap.join(&memory);
    for value in 1..=500u64 {
        let done: Result<(), TxError> = session.transaction(|tx| tx.store(heap.root(), value));
        done.unwrap();
    }
    drop(session);
    assert_eq!(memory.load::<u64>(heap.root()), 500);
}
