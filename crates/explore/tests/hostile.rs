//! Cases of a hostile tester: bugs that an exploration missed and still called itself complete, and
//! programs that ended the explorer itself. Where one thread of recovery must be interrupted twice,
//! what recovery knew from other runs, its non-temporal stores, errors and panics in the middle.

use seawall_explore::{
    CrashImage, CrashPoint, Model, Onlooker, Reached, Recorded, Recorder, Recoveries,
    RecoveryThread, RunError, Schedule, Scope, Search, SearchOutcome, Traced, Turns, check,
    explore, record, search, search_on,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Space};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const A: Addr = Addr::pm(64);
const B: Addr = Addr::pm(128);
const MARK: Addr = Addr::pm(192);

/// All that recovery finds after a run that does nothing.
fn found_after_nothing(
    options: &Search,
    recover: impl Fn(&CrashImage) -> Result<u64, String>,
) -> (SearchOutcome, BTreeSet<u64>) {
    let trace = record(Image::new(512, 64).with_room(1024), &Schedule::default(), |_| ()).unwrap();
    let all = Mutex::new(BTreeSet::new());
    let noted = check(recover, |found: &u64, _: &CrashPoint| {
        all.lock().unwrap().insert(*found);
        Ok(())
    });
    let outcome = search(&trace, options, &noted);
    let all = all.lock().unwrap().clone();
    (outcome, all)
}

fn px86(depth: usize) -> Search {
    Search { depth, torn_lines: 1, ..Search::new(Model::Px86) }
}

/// Thread 1 is interrupted before its second call, where thread 0 runs to its end, and before its
/// third one, where thread 2 does.
#[test]
fn a_thread_of_recovery_that_goes_on_where_it_was_interrupted_is_interrupted_again() {
    let [first, second, seen, both] = [0, 8, 16, 24].map(Addr::dram);
    let body = |memory: &RecoveryThread<'_>| match memory.thread() {
        0 if memory.load::<u64>(first) == 1 && memory.load::<u64>(second) == 0 => {
            memory.store(seen, 1u64);
        }
        1 => {
            memory.store(first, 1u64);
            memory.store(second, 1u64);
            memory.store(both, memory.load::<u64>(first) / 2);
        }
        2 if memory.load::<u64>(second) == 1 && memory.load::<u64>(seen) == 1 => {
            memory.store(first, 2u64);
        }
        _ => {}
    };
    let (outcome, found) = found_after_nothing(&px86(0), |image| {
        image.together(3, body);
        Ok(image.load::<u64>(both))
    });
    assert_eq!(outcome.reached, Reached::Complete);
    assert_eq!(found, [0, 1].into());
}

#[test]
fn a_thread_of_recovery_may_run_before_another_one_has_made_the_pool_longer() {
    let told = Addr::dram(0);
    let (outcome, _) = found_after_nothing(&px86(0), |image| {
        image.together(2, |memory| match memory.thread() {
            0 => {
                memory.store(told, 1u64);
                assert!(memory.space().is_some_and(|space| space.grow(1024)));
            }
            _ if memory.load::<u64>(told) == 1 => assert_eq!(memory.load::<u64>(Addr::pm(800)), 0),
            _ => {}
        });
        Ok(0)
    });
    let finding = outcome.finding.expect("it is told before it is longer");
    assert!(finding.message.contains("outside its region"), "{finding}");
}

#[test]
fn threads_of_recovery_that_spin_for_ever_are_a_finding() {
    let (outcome, _) = found_after_nothing(&Search { steps: 1_000_000, ..px86(0) }, |image| {
        // Nobody releases the lock.
        let lock = Addr::dram(0);
        image.together(3, |memory| while memory.compare_exchange(lock, 0, 1).is_err() {});
        Ok(0)
    });
    let finding = outcome.finding.expect("it does not end");
    assert!(finding.message.contains("it does not end"), "{finding}");
}

/// Writes when it is dropped, as a lock does.
struct Guard<'a, M: Memory>(&'a M);

impl<M: Memory> Drop for Guard<'_, M> {
    fn drop(&mut self) {
        let _ = self.0.fetch_add(Addr::dram(0), 1);
        self.0.spin_while(Addr::dram(8), 0);
    }
}

#[test]
fn what_a_thread_that_panics_drops_may_use_memory() {
    for endless in [false, true] {
        let (outcome, _) = found_after_nothing(&Search { steps: 10_000, ..px86(1) }, |image| {
            image.together(3, |memory| {
                let _guard = Guard(memory);
                let _ = memory.fetch_add(Addr::dram(0), 1);
                while endless && memory.load::<u64>(Addr::dram(16)) == 0 {}
                panic!("thread {}", memory.thread());
            });
            Ok(0)
        });
        let finding = outcome.finding.expect("it panics");
        let message = if endless { "it does not end" } else { "thread 0" };
        assert!(finding.message.contains(message), "{finding}");
    }
    for seed in 0..50 {
        let schedule = Schedule { threads: 3, seed, ..Schedule::default() };
        let run = record(Image::new(64, 64), &schedule, |memory| {
            let _guard = Guard(memory);
            let _ = memory.fetch_add(Addr::dram(0), 1);
            panic!("each of them");
        });
        assert!(matches!(run.err(), Some(RunError::Panicked { .. })));
    }
}

/// Recovery stores to `B`, to which only some runs do.
fn repairs(image: &CrashImage) -> Result<[u64; 2], String> {
    let found = [A, B].map(|at| image.load::<u64>(at));
    if found[0] == 1 {
        image.store(B, 7u64);
        image.persist(B, 8);
    }
    Ok(found)
}

fn put(memory: &Traced<'_>, at: Addr, value: u64) {
    memory.store(at, value);
    memory.persist(at, 8);
}

#[test]
fn a_line_to_which_recovery_stored_before_a_run_did_is_read_in_that_run() {
    let not_both = || {
        check(repairs, |found: &[u64; 2], _: &CrashPoint| match found {
            [1, 5] => Err("both".into()),
            _ => Ok(()),
        })
    };
    let mut known = Recoveries::default();
    let mut fails = |program: fn(&Traced<'_>)| {
        let trace = record(Image::new(512, 64), &Schedule::default(), program).unwrap();
        let go_on = &mut |_| ControlFlow::Continue(());
        let trace = Arc::new(trace);
        search_on(trace, &px86(1), &not_both(), &mut known, go_on).finding.is_some()
    };
    assert!(!fails(|memory| put(memory, A, 1)));
    assert!(fails(|memory| {
        put(memory, B, 5);
        put(memory, A, 1);
    }));
    let recorder = Recorder::new(Image::new(512, 64));
    let rarely = |memory: &Traced<'_>| match memory.thread() {
        0 => {
            memory.store(Addr::dram(0), 1u64);
            memory.store(Addr::dram(0), 0u64);
            put(memory, A, 1);
        }
        _ if memory.load::<u64>(Addr::dram(0)) == 1 => put(memory, B, 5),
        _ => {}
    };
    let (scope, check) = (Scope { random: 0, ..Scope::new(&[Model::Px86], 2) }, &not_both());
    let record = |schedule: &Schedule| {
        let trace = recorder.record(schedule, rarely)?;
        Ok::<_, RunError>(Recorded { trace, check })
    };
    assert!(explore(&scope, record, &()).unwrap().finding().is_some());
}

#[test]
fn the_words_of_a_write_of_recovery_persist_in_any_order() {
    let record = [7u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
    let found = |model, write: &dyn Fn(&CrashImage)| {
        let options = Search { depth: 1, torn_lines: 1, ..Search::new(model) };
        let (_, found) = found_after_nothing(&options, |image| {
            let [data, mark] = [A, A.plus(8)].map(|at| image.load::<u64>(at));
            if mark == 0 {
                write(image);
            }
            Ok(10 * data + mark)
        });
        found
    };
    let all: BTreeSet<u64> = [0, 1, 70, 71].into();
    for model in Model::all() {
        let plain = |image: &CrashImage| image.write(A, &record);
        let past = |image: &CrashImage| {
            image.write_nt(A, &record);
            image.drain();
        };
        let together = |image: &CrashImage| image.together(2, |memory| memory.write(A, &record));
        assert_eq!(found(model, &plain), all, "{model}");
        assert_eq!(found(model, &past), all, "{model}");
        assert_eq!(found(model, &together), all, "{model}");
        let line = |image: &CrashImage| image.write_line(A, [7, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(found(model, &line), [0, 71].into(), "{model}");
        let two_stores = |image: &CrashImage| {
            image.store(A, 7u64);
            image.store(A.plus(8), 1u64);
        };
        assert_eq!(found(model, &two_stores), [0, 70, 71].into(), "{model}");
    }
}

/// The torn line of the second run is the one that recovery may tear again; that of the first run
/// is another one, though recovery reads the same.
#[test]
fn what_crashes_of_recovery_lead_to_depends_on_which_line_is_torn() {
    let mut known = Recoveries::default();
    for (number, words) in [[72u64, 64, 128, 136], [64, 72, 136, 128]].into_iter().enumerate() {
        let program = move |memory: &Traced<'_>| {
            words.iter().for_each(|&at| memory.write_nt(Addr::pm(at), &1u64.to_le_bytes()));
        };
        let trace = record(Image::new(512, 64), &Schedule::default(), program).unwrap();
        let recover = |image: &CrashImage| {
            if [64, 72, 128, 136].map(|at| image.load::<u64>(Addr::pm(at))) != [0, 1, 0, 1] {
                return Ok(0);
            }
            let own = [80, 88].map(|at| image.load::<u64>(Addr::pm(at)));
            if image.load::<u64>(MARK) == 0 {
                image.write_nt(Addr::pm(80), &[1u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
                image.drain();
                image.store(MARK, 1u64);
                image.persist(MARK, 8);
            }
            Ok(10 * own[0] + own[1])
        };
        let all = Mutex::new(BTreeSet::new());
        let noted = check(recover, |found: &u64, _: &CrashPoint| {
            all.lock().unwrap().insert(*found);
            Ok(())
        });
        let go_on = &mut |_| ControlFlow::Continue(());
        let outcome = search_on(Arc::new(trace), &px86(1), &noted, &mut known, go_on);
        assert_eq!(outcome.reached, Reached::Complete);
        assert_eq!(all.lock().unwrap().contains(&1), number == 1, "run {number}");
    }
}

/// The first run may lose a promise, a later one panics.
fn fails_twice(memory: &Traced<'_>) {
    if memory.thread() == 0 {
        let _ = memory.fetch_add(A, 1);
        memory.output(0);
        memory.store(Addr::dram(0), 1u64);
        memory.store(Addr::dram(0), 0u64);
    } else {
        assert_eq!(memory.load::<u64>(Addr::dram(0)), 0, "seen in the middle");
    }
}

#[test]
fn a_failing_image_comes_before_the_error_of_a_later_run() {
    let recorder = Recorder::new(Image::new(512, 64));
    for (workers, is_lost) in (1..5).flat_map(|workers| [(workers, false), (workers, true)]) {
        let look = |image: &CrashImage| Ok(image.load::<u64>(A));
        let check = &check(look, move |found: &u64, point: &CrashPoint| {
            match is_lost && point.outputs[0] > *found {
                true => Err("lost".into()),
                false => Ok(()),
            }
        });
        let record = |schedule: &Schedule| {
            let trace = recorder.record(schedule, fails_twice)?;
            Ok::<_, RunError>(Recorded { trace, check })
        };
        let scope = Scope { workers: Some(workers), ..Scope::new(&[Model::Px86], 2) };
        match explore(&scope, record, &()) {
            Ok(covered) => {
                let finding = covered.finding().expect("an output is lost");
                assert!(is_lost && finding.replay() == "s/px86/2/1-1", "{finding}");
            }
            Err(failed) => assert!(!is_lost && failed.turns.to_string() == "s4.1", "{failed:?}"),
        }
    }
}

/// Panics when a unit is done.
struct Panics;

impl Onlooker for Panics {
    fn has_done(&self, unit: usize, _: &SearchOutcome) {
        assert_ne!(unit, 5);
    }
}

#[test]
fn a_panic_outside_of_the_program_ends_the_exploration() {
    for (workers, in_run) in [(1, true), (4, true), (1, false), (4, false)] {
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            let recorder = Recorder::new(Image::new(512, 64));
            let look = |image: &CrashImage| Ok(image.load::<u64>(A));
            let check = &check(look, |_: &u64, _: &CrashPoint| Ok(()));
            let record = |schedule: &Schedule| {
                assert!(!in_run || schedule.turns != Turns::Random);
                let trace = recorder.record(schedule, |memory| {
                    let _ = memory.fetch_add(A, 1);
                    memory.persist(A, 8);
                })?;
                Ok::<_, RunError>(Recorded { trace, check })
            };
            let onlooker: &dyn Onlooker = if in_run { &() } else { &Panics };
            let scope = Scope { workers: Some(workers), ..Scope::new(&[Model::Px86], 2) };
            let explored = catch_unwind(AssertUnwindSafe(|| explore(&scope, record, onlooker)));
            ended.send(explored.is_err()).unwrap();
        });
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(60)), Ok(true), "{workers} workers");
    }
}
