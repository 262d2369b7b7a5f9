//! Tests of a handle against the simplest machine and against its counters.

use super::*;
use crate::{Durability, Pool, PoolOptions};
use proptest::prelude::*;
use seawall_memory::{Image, MemoryExt};

fn pool(domain: Domain) -> Pool {
    Pool::temporary(
        8192,
        &PoolOptions { domain: Some(domain), dram_bytes: 4096, ..PoolOptions::default() },
    )
    .unwrap()
}

proptest! {
    #[test]
    fn ranges_hold_what_the_simplest_machine_holds(
        steps in proptest::collection::vec(
            (0u64..1000, proptest::collection::vec(any::<u8>(), 0..200), 0..3u8, any::<bool>()),
            1..12,
        ),
    ) {
        let image = Image::new(8192, 4096);
        for domain in [Domain::Page, Domain::Line, Domain::None] {
            let pool = pool(domain);
            let memory = pool.memory(0);
            for (offset, bytes, way, volatile) in &steps {
                let at = if *volatile { Addr::dram(*offset) } else { Addr::pm(*offset) };
                image.write(at, bytes);
                match way {
                    0 => memory.write(at, bytes),
                    1 => memory.write_nt(at, bytes),
                    _ => (0..).zip(bytes).for_each(|(i, b)| memory.store(at.plus(i), *b)),
                }
                memory.persist(at, bytes.len() as u64);
            }
            for at in [Addr::pm(0), Addr::dram(0)] {
                let (mut ours, mut reference) = ([0; 1300], [0; 1300]);
                memory.read(at, &mut ours);
                image.read(at, &mut reference);
                prop_assert_eq!(&ours, &reference);
                for (index, half) in reference.chunks_exact(2).enumerate() {
                    let there: u16 = memory.load(at.plus(2 * index as u64));
                    prop_assert_eq!(there.to_le_bytes(), half);
                }
            }
        }
    }

    #[test]
    fn an_access_passes_only_if_aligned_and_inside(
        at in prop_oneof![8180u64..8200, any::<u64>()], shift in 0u32..4,
    ) {
        let pool = pool(Domain::Line);
        let memory = pool.memory(0);
        let width = [Width::B1, Width::B2, Width::B4, Width::B8][shift as usize];
        let at = Addr::from_bits(at);
        let size = if at.is_pm() { 8192 } else { 4096 };
        let end = at.offset().checked_add(width.bytes());
        let aligned = at.offset().is_multiple_of(width.bytes());
        let fits = aligned && end.is_some_and(|end| end <= size);
        let place = std::panic::AssertUnwindSafe(|| memory.load_bits(at, width));
        prop_assert_eq!(quietly(place).is_ok(), fits);
    }
}

fn quietly<T>(action: impl FnOnce() -> T + std::panic::UnwindSafe) -> Result<T, String> {
    std::panic::catch_unwind(action)
        .map_err(|cause| cause.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn a_range_past_the_end_is_refused_with_its_address() {
    let pool = pool(Domain::Line);
    let memory = pool.memory(0);
    let past = std::panic::AssertUnwindSafe(|| memory.write(Addr::pm(8190), &[1, 2, 3]));
    let text = quietly(past).unwrap_err();
    assert!(text.contains("pm:0x1ffe") && text.contains("8192 bytes"), "{text}");
    let flush = std::panic::AssertUnwindSafe(|| memory.flush(Addr::pm(64), u64::MAX));
    assert!(quietly(flush).is_err());
    assert_eq!(memory.load::<u16>(Addr::pm(8190)), 0, "nothing of it was written");
}

#[test]
fn what_one_thread_grew_all_may_use_and_a_reopened_pool_has_it() {
    const STEP: u64 = 3 << 14;
    const STEPS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let options = PoolOptions { bytes_max: 1 << 40, ..PoolOptions::default() };
    let pool = Pool::create(&path, 4096, &options).unwrap();
    let old = pool.memory(9);
    assert_eq!(old.load::<u64>(Addr::pm(8)), 0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let pool = &pool;
            scope.spawn(move || {
                let memory = pool.memory(thread);
                for step in 1..=STEPS {
                    let end = step * STEP + 4096 * thread as u64;
                    assert!(memory.grow(end));
                    let last = Addr::pm(end - 8);
                    assert_eq!(memory.load::<u64>(last), 0, "new bytes are zero");
                    memory.store(last, end);
                    memory.persist(last, 8);
                }
            });
        }
    });
    let bytes = STEPS * STEP + 4096;
    assert_eq!((pool.bytes(), pool.bytes_max()), (bytes, 1 << 40));
    assert_eq!(old.load::<u64>(Addr::pm(bytes - 8)), bytes, "a handle from before sees it");
    let past = std::panic::AssertUnwindSafe(|| old.store(Addr::pm(bytes), 1u64));
    let text = quietly(past).unwrap_err();
    assert!(text.contains(&format!("pm:{bytes:#x} ")) && text.contains("the pool"), "{text}");
    drop(pool);
    let pool = Pool::open(&path, &PoolOptions::default(), |_, _| Ok(())).unwrap();
    assert_eq!((pool.bytes(), pool.bytes_max()), (bytes, bytes));
    for end in (1..=STEPS).flat_map(|step| [step * STEP, step * STEP + 4096]) {
        assert_eq!(pool.memory(0).load::<u64>(Addr::pm(end - 8)), end);
    }
    assert!(pool.memory(0).grow(bytes) && !pool.memory(0).grow(bytes + 1));
}

#[test]
fn a_pool_that_has_no_room_to_grow_says_false_and_goes_on() {
    let options = PoolOptions { bytes_max: 1 << 46, ..PoolOptions::default() };
    let pool = Pool::temporary(8192, &options).unwrap();
    let memory = pool.memory(0);
    memory.store(Addr::pm(8184), 7u64);
    assert!(!memory.grow(1 << 45), "no disk has that");
    assert_eq!((pool.bytes(), memory.load::<u64>(Addr::pm(8184))), (8192, 7));
    let past = std::panic::AssertUnwindSafe(|| memory.load::<u8>(Addr::pm(8192)));
    assert!(quietly(past).unwrap_err().contains("pm:0x2000"));
    assert!(memory.grow(16384));
    assert_eq!(memory.load::<u8>(Addr::pm(16383)), 0);
}

#[test]
fn the_limit_of_a_process_on_files_is_an_answer_and_no_signal() {
    const LIMITED: &str = "SEAWALL_TEST_LIMITED";
    const MIB: u64 = 1 << 20;
    if std::env::var_os(LIMITED).is_some() {
        let options = PoolOptions { bytes_max: 64 * MIB, ..PoolOptions::default() };
        let pool = Pool::temporary(MIB / 2, &options).unwrap();
        assert!(pool.memory(0).grow(MIB));
        assert!(!pool.memory(0).grow(2 * MIB));
        assert_eq!(pool.bytes(), MIB);
        assert!(pool.grow(2 * MIB).unwrap_err().to_string().contains("ulimit -f"));
        return println!("it goes on");
    }
    let name = "the_limit_of_a_process_on_files_is_an_answer_and_no_signal";
    let script = "ulimit -f 2048; exec \"$0\" --nocapture \"$1\""; // 2048 x 512 bytes
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name);
    let output = shell.env(LIMITED, "yes").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("it goes on"), "{output:?}");
}

#[test]
fn no_increment_of_two_threads_is_lost_and_a_waiter_sees_the_last() {
    const ROUNDS: u64 = 20_000;
    let pool = pool(Domain::Line);
    let (counter, turn) = (Addr::pm(128), Addr::dram(64));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let pool = &pool;
            scope.spawn(move || {
                let memory = pool.memory(thread);
                for _ in 0..ROUNDS {
                    memory.fetch_add(counter, 1);
                    while memory.compare_exchange(turn, 0, 1).is_err() {
                        memory.spin_while(turn, 1);
                    }
                    let plain: u64 = memory.load(Addr::pm(192));
                    memory.store(Addr::pm(192), plain + 1);
                    memory.store(turn, 0u64);
                }
                assert_eq!(memory.swap(Addr::pm(256 + 8 * thread as u64), 1), 0);
            });
        }
    });
    let memory = pool.memory(0);
    assert_eq!(memory.load::<u64>(counter), 2 * ROUNDS);
    assert_eq!(memory.load::<u64>(Addr::pm(192)), 2 * ROUNDS, "the lock in DRAM excludes");
}

#[test]
fn flushes_and_fences_are_counted_and_volatile_lines_are_not_flushed() {
    let pool = pool(Domain::Line);
    let memory = pool.memory(0);
    memory.flush(Addr::pm(60), 8);
    memory.flush(Addr::dram(0), 512);
    memory.flush(Addr::pm(60), 0);
    memory.order();
    memory.write_nt(Addr::pm(0), &[1; 130]);
    memory.drain();
    assert_eq!(memory.counters(), Counters { flushed_lines: 5, fences: 2, msyncs: 0 });
}

#[test]
fn a_fence_with_nothing_to_wait_for_is_not_counted() {
    for domain in [Domain::Page, Domain::Line, Domain::None] {
        let pool = pool(domain);
        let memory = pool.memory(0);
        let fences = || memory.counters().fences;
        memory.store(Addr::pm(64), 1u64);
        memory.order();
        memory.flush(Addr::dram(0), 64);
        memory.drain();
        assert_eq!(fences(), 0, "{domain}: no line of the pool was flushed");
        memory.flush(Addr::pm(64), 8);
        memory.order();
        memory.drain();
        assert_eq!(fences(), 1, "{domain}: the order has waited for it");
        memory.write_nt(Addr::pm(128), &[1; 64]);
        memory.drain();
        memory.drain();
        assert_eq!(fences(), 2, "{domain}");
    }
}

#[test]
fn a_locked_operation_is_a_fence_where_it_stores() {
    let pool = pool(Domain::Line);
    if !LOCKED_IS_FENCE || pool.instruction().kind == FlushKind::Clflush {
        return;
    }
    let memory = pool.memory(0);
    let word = Addr::pm(0);
    type Act<'a> = &'a dyn Fn(&NativeMemory<'_>);
    let acts: [(u64, Act<'_>); 4] = [
        (0, &|memory| assert_eq!(memory.fetch_add(word, 1), 0)),
        (0, &|memory| assert_eq!(memory.compare_exchange(word, 1, 2), Ok(1))),
        (0, &|memory| assert_eq!(memory.swap(word, 3), 2)),
        (1, &|memory| assert_eq!(memory.compare_exchange(word, 9, 9), Err(3))),
    ];
    for (waits, act) in acts {
        let before = memory.counters().fences;
        memory.flush(Addr::pm(64), 8);
        act(&memory);
        memory.drain();
        assert_eq!(memory.counters().fences - before, waits);
    }
}

#[test]
fn by_page_every_fence_and_locked_operation_writes_what_was_flushed() {
    let pool = pool(Domain::Page);
    let memory = pool.memory(0);
    let msyncs = || memory.counters().msyncs;
    memory.drain();
    assert_eq!(msyncs(), 0, "nothing was flushed");
    memory.store(Addr::pm(0), 1u64);
    memory.flush(Addr::pm(0), 8);
    memory.order();
    assert_eq!(msyncs(), 1);
    memory.flush(Addr::pm(8184), 8);
    memory.fetch_add(Addr::dram(0), 1);
    assert_eq!(msyncs(), 2);
    memory.write_nt(Addr::pm(4096), &[1; 64]);
    memory.drain();
    assert_eq!(msyncs(), 3);
}

#[test]
fn by_page_one_msync_cleans_all_that_was_flushed_and_by_line_it_stays_dirty() {
    let folder = tempfile::tempdir().unwrap();
    for (domain, msyncs) in [(Domain::Page, 1), (Domain::Line, 0)] {
        let options = PoolOptions { domain: Some(domain), ..PoolOptions::default() };
        let pool = Pool::create(&folder.path().join(domain.name()), 1 << 20, &options).unwrap();
        let ordinary = [Durability::PowerFailureByPage, Durability::KilledProcess];
        if !ordinary.contains(&pool.durability()) {
            return; // Neither a tmpfs nor DAX has dirty pages to look at.
        }
        let memory = pool.memory(0);
        let [first, last, apart] = [Addr::pm(3 << 12), Addr::pm(9 << 12), Addr::pm(200 << 12)];
        memory.store(first, 1u64);
        memory.store(last, 1u64);
        assert_ne!(dirty_kilobytes(memory.pm.base), Some(0), "the stores made pages dirty");
        memory.flush(first, 8);
        memory.persist(last, 8);
        memory.drain();
        assert_eq!(memory.counters().msyncs, msyncs, "{domain}");
        let Some(dirty) = dirty_kilobytes(memory.pm.base) else { return };
        assert_eq!(dirty == 0, domain == Domain::Page, "{dirty} kB dirty, domain {domain}");
        memory.store(apart, 1u64);
        memory.persist(first, 8);
        assert_ne!(dirty_kilobytes(memory.pm.base), Some(0), "nobody flushed the page apart");
    }
}

#[test]
fn what_will_be_written_is_brought_in_at_once_and_stays_as_it_is() {
    let pool = Pool::temporary(1 << 20, &PoolOptions::default()).unwrap();
    let memory = pool.memory(0);
    let first = Addr::pm(64 << 10);
    memory.store(first, 7u64);
    memory.will_write(first, 256 << 10);
    assert_eq!(memory.load::<u64>(first), 7);
    assert_eq!(memory.counters(), Counters::default());
    let Some(before) = page_faults() else { return };
    (0..64).for_each(|page| memory.store(first.plus(page << 12), page));
    let faults = page_faults().unwrap() - before;
    assert!(faults < 16, "{faults} page faults for 64 pages");
}

/// Page faults of this thread so far, as the kernel reports them.
fn page_faults() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    text.rsplit(')').next()?.split_whitespace().nth(7)?.parse().ok()
}

#[test]
fn a_word_that_will_be_written_stays_as_it_is() {
    let options = PoolOptions { dram_bytes: 64, ..PoolOptions::default() };
    let pool = Pool::temporary(4096, &options).unwrap();
    let memory = pool.memory(0);
    for at in [Addr::pm(4088), Addr::dram(0)] {
        memory.store(at, 7u64);
        memory.will_write(at, 8);
        assert_eq!(memory.load::<u64>(at), 7);
    }
    memory.will_write(Addr::pm(1 << 40), 8);
    assert_eq!(memory.counters(), Counters::default());
}

#[test]
#[should_panic(expected = "not within")]
fn what_will_be_written_lies_in_the_pool() {
    let pool = Pool::temporary(1 << 20, &PoolOptions::default()).unwrap();
    pool.memory(0).will_write(Addr::pm(8), 1 << 20);
}

/// Modified and unwritten kilobytes of the mapping at `base`, as the kernel reports them.
fn dirty_kilobytes(base: *mut u8) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let start = format!("{:x}-", base as usize);
    let mapping = text.lines().skip_while(|line| !line.starts_with(&start)).take(30);
    let dirty = mapping.filter(|line| line.contains("_Dirty:"));
    Some(dirty.take(2).filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}
