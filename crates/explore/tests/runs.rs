//! How programs run on the recording machine: schedules, waiting, and runs that do not end.

use seawall_explore::{
    CrashImage, CrashPoint, Kind, Model, Reached, RunError, Schedule, Search, SearchOutcome,
    Traced, check, record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};

const LOCK: Addr = Addr::dram(0);
const COUNT: Addr = Addr::pm(64);

fn schedule(threads: usize, seed: u64) -> Schedule {
    Schedule { threads, seed, steps: 100_000, ..Schedule::default() }
}

fn count_under_a_lock(memory: &Traced<'_>) {
    for number in 0..3 {
        while memory.compare_exchange(LOCK, 0, 1).is_err() {
            memory.spin_while(LOCK, 1);
        }
        let count: u64 = memory.load(COUNT);
        memory.store(COUNT, count + 1);
        memory.flush(COUNT, 8);
        memory.order();
        memory.store(LOCK, 0u64);
        memory.output(number);
    }
}

#[test]
fn a_seed_is_a_schedule_and_seeds_differ() {
    let run = |seed| {
        let trace = record(Image::new(256, 64), &schedule(3, seed), count_under_a_lock).unwrap();
        trace.events().iter().map(|event| (event.thread, event.kind)).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert!((0..20).any(|seed| run(seed) != run(7)));
}

#[test]
fn a_lock_excludes_under_every_schedule() {
    for seed in 0..100 {
        let trace = record(Image::new(256, 64), &schedule(3, seed), count_under_a_lock).unwrap();
        assert_eq!(trace.stores().last().unwrap().new, 9, "seed {seed}");
    }
}

#[test]
fn a_missing_lock_shows_under_some_schedule() {
    let lost = (0..100).any(|seed| {
        let trace = record(Image::new(256, 64), &schedule(2, seed), |memory| {
            let count: u64 = memory.load(COUNT);
            memory.store(COUNT, count + 1);
        });
        trace.unwrap().stores().last().unwrap().new == 1
    });
    assert!(lost);
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock_and_not_a_hang() {
    struct Unlock<'a>(&'a Traced<'a>);
    impl Drop for Unlock<'_> {
        fn drop(&mut self) {
            self.0.store(LOCK, 0u64);
            self.0.spin_while(LOCK, 0);
        }
    }
    let error = record(Image::new(256, 64), &schedule(2, 1), |memory| {
        let _unlock = Unlock(memory);
        memory.spin_while(Addr::dram(8 + 8 * memory.thread() as u64), 0);
    });
    let Err(RunError::Deadlock(text)) = error else { panic!("no deadlock") };
    assert_eq!(
        text,
        "thread 0 waits for dram:0x8 to change from 0x0, \
         thread 1 waits for dram:0x10 to change from 0x0"
    );
}

#[test]
fn a_run_that_does_not_end_is_cut() {
    let endless = |memory: &Traced<'_>| while memory.load::<u64>(COUNT) == 0 {};
    for threads in [1, 2] {
        let error = record(Image::new(256, 0), &schedule(threads, 1), endless).err();
        assert_eq!(error, Some(RunError::TooLong(100_000)));
    }
}

#[test]
fn a_panic_of_the_program_names_the_thread_and_the_place() {
    let error = record(Image::new(128, 0), &schedule(2, 1), |memory| {
        if memory.thread() == 1 {
            memory.store(Addr::pm(4096), 1u64);
        }
    });
    let Err(RunError::Panicked { thread: 1, message }) = error else { panic!("no panic") };
    assert!(message.contains("pm:0x1000"), "{message}");
    assert!(message.contains("runs.rs"), "{message}");
    assert_eq!(record(Image::new(0, 0), &schedule(0, 1), |_| ()).err(), Some(RunError::NoThreads));
}

#[test]
fn events_carry_the_operation_and_the_line_of_the_program() {
    let trace = record(Image::new(256, 64), &schedule(1, 1), count_under_a_lock).unwrap();
    let orders: Vec<_> = trace.events().iter().filter(|e| e.kind == Kind::Order).collect();
    assert_eq!(orders.iter().map(|event| event.operation).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(orders.iter().all(|event| event.at.file().ends_with("runs.rs")));
    let flushes = trace.events().iter().filter(|e| matches!(e.kind, Kind::Flush { .. }));
    assert!(flushes.zip(orders).all(|(flush, order)| flush.at.line() + 1 == order.at.line()));
}

#[test]
fn a_search_gives_the_same_outcome_twice() {
    for model in Model::all() {
        let run = || {
            let trace = record(Image::new(1024, 64), &schedule(2, 3), |memory| {
                for line in 1..8 {
                    let at = Addr::pm(64 * line + 8 * memory.thread() as u64);
                    memory.write(at, &[line as u8; 32]);
                    memory.flush(at, 32);
                }
                memory.order();
            });
            let options = Search { point_limit: 50, ..Search::new(model) };
            let sum = |image: &CrashImage| {
                let sum: u64 = (1..8).map(|line| image.load::<u64>(Addr::pm(64 * line))).sum();
                if sum % 97 == 55 { Err(format!("sum {sum}")) } else { Ok(sum) }
            };
            let outcome = search(&trace.unwrap(), &options, &check(sum, |_, _| Ok(())));
            format!("{outcome:?}")
        };
        assert_eq!(run(), run());
    }
}

/// A pool of 128 bytes that grows to 256: the word at 64 says how long it is, by mistake perhaps
/// before it is so long, and the word at 192 is stored then.
fn growing(is_early: bool) -> SearchOutcome {
    let trace = record(Image::new(128, 0).with_room(256), &Schedule::default(), move |memory| {
        let (length, data) = (Addr::pm(64), Addr::pm(192));
        if is_early {
            memory.store(length, 256u64);
            memory.persist(length, 8);
        }
        assert!(memory.grow(256) && !memory.grow(257));
        memory.store(data, 7u64);
        memory.persist(data, 8);
        memory.store(length, 256u64);
        memory.persist(length, 8);
        memory.output(0);
    });
    let found = |image: &CrashImage| {
        let length: u64 = image.load(Addr::pm(64));
        if length == 0 {
            return Ok((image.pm_bytes(), 0));
        }
        Ok((image.pm_bytes(), image.load::<u64>(Addr::pm(192))))
    };
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let judge = |found: &(u64, u64), point: &CrashPoint| {
        seen.borrow_mut().insert(*found);
        if found.1 == 7 || point.promised[0] == 0 { Ok(()) } else { Err("lost".to_owned()) }
    };
    let outcome = search(&trace.expect("it ends"), &Search::new(Model::Px86), &check(found, judge));
    if !is_early {
        assert_eq!(seen.take().into_iter().collect::<Vec<_>>(), [(128, 0), (256, 0), (256, 7)]);
    }
    outcome
}

#[test]
fn a_crash_leaves_the_pool_as_long_as_it_was_then() {
    let right = growing(false);
    assert_eq!((right.finding, right.reached), (None, Reached::Complete));
    let wrong = growing(true).finding.expect("found").to_string();
    assert!(wrong.contains("outside its region of 128 bytes"), "{wrong}");
}
