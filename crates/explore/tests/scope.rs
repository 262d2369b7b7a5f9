//! Whole explorations: what they cover, when they stop, and when they can find nothing.

use seawall_explore::{
    Check, Covered, CrashImage, CrashPoint, Model, Onlooker, Recorded, Recorder, RunError,
    Schedule, Scope, Search, Silence, Traced, Turns, WasteKind, check, explore,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const DATA: Addr = Addr::pm(64);
const DONE: Addr = Addr::pm(128);

/// Each thread counts up a shared word, and says so; one of them forgets to persist it.
fn counts(memory: &Traced<'_>, flawed: bool) {
    for number in 0..2 {
        memory.fetch_add(DATA, 1);
        if memory.thread() == 0 || !flawed {
            memory.persist(DATA, 8);
        }
        memory.output(number);
    }
}

fn of<C>(scope: &Scope, program: fn(&Traced<'_>), check: C, onlooker: &dyn Onlooker) -> Covered
where
    C: Check<Found: Send> + Sync + Send,
{
    let recorder = Recorder::new(Image::new(4096, 64));
    let record = |schedule: &Schedule| {
        let trace = recorder.record(schedule, program)?;
        Ok::<_, RunError>(Recorded { trace, check: &check })
    };
    explore(scope, record, onlooker).unwrap()
}

fn counted() -> impl Check<Found = u64> {
    let look = |image: &CrashImage| Ok(image.load::<u64>(DATA));
    check(look, |found, point: &CrashPoint| match *found >= point.outputs.iter().sum() {
        true => Ok(()),
        false => Err(format!("{found} after {:?}", point.outputs)),
    })
}

fn two_threads() -> Scope {
    Scope::new(&[Model::Px86, Model::Bep], 2)
}

#[test]
fn the_outcome_does_not_depend_on_the_number_of_workers() {
    for flawed in [false, true] {
        let program: fn(&Traced<'_>) =
            if flawed { |memory| counts(memory, true) } else { |memory| counts(memory, false) };
        let told = [1, 4].map(|workers| {
            let scope = Scope { workers: Some(workers), ..two_threads() };
            let covered = of(&scope, program, counted(), &());
            assert_eq!(covered.finding().is_some(), flawed, "{covered}");
            assert_eq!(covered.is_complete(), !flawed, "{covered}");
            let counts = covered.models.iter().map(|of| (of.points, of.states, of.runs));
            let finding = covered.finding().map(|finding| (finding.replay(), finding.to_string()));
            let words = (covered.schedules(), covered.coverage());
            (covered.runs, counts.collect::<Vec<_>>(), covered.waste.clone(), words, finding)
        });
        assert_eq!(told[0], told[1]);
    }
}

#[test]
fn without_time_it_says_what_it_left_out() {
    let scope = Scope { time: Some(Duration::ZERO), ..two_threads() };
    let covered = of(&scope, |memory| counts(memory, false), counted(), &());
    assert!(!covered.is_complete() && covered.is_late);
    assert!(covered.to_string().contains("not complete, for lack of time"), "{covered}");
}

#[test]
fn it_says_how_many_points_were_searched_whole_and_how_many_schedules_there_are() {
    let scope = Scope { runs: 3, ..two_threads() };
    let covered = of(&scope, |memory| counts(memory, false), counted(), &());
    let estimate = covered.kinds[0].estimate.expect("not all schedules were made");
    let all = of(&two_threads(), |memory| counts(memory, false), counted(), &());
    let made = all.kinds[0].tried.made as u64;
    assert!((made / 4..=4 * made).contains(&estimate.schedules), "{estimate:?} of {made}");
    assert!(all.is_complete() && all.kinds[0].estimate.is_none(), "{all}");
    let one = Scope { search: Search { budget: 3, ..scope.search.clone() }, ..scope };
    let covered = of(&one, |memory| counts(memory, false), counted(), &());
    let tried = covered.models[0].tried.expect("the budget is too small");
    assert!(tried.whole < tried.all, "{tried:?}");
    let words = format!("all images at {} of {} failure points", tried.whole, tried.all);
    assert!(covered.models[0].to_string().starts_with(&words), "{}", covered.models[0]);
}

#[test]
fn it_stops_when_it_is_told_to() {
    struct Third(AtomicUsize);
    impl Onlooker for Third {
        fn stops(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 200
        }
    }
    let covered =
        of(&two_threads(), |memory| counts(memory, false), counted(), &Third(AtomicUsize::new(0)));
    assert!(covered.is_stopped && !covered.is_complete(), "{covered}");
}

/// Recovery that is stopped after so many times, and from then on says what is no finding.
struct Cut {
    runs: AtomicUsize,
    most: usize,
}

impl Check for Cut {
    type Found = u64;

    fn recover(&self, image: &CrashImage) -> Result<u64, String> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        if run < self.most { Ok(image.load::<u64>(DATA)) } else { Err("it was stopped".into()) }
    }

    fn judge(&self, _: &u64, _: &CrashPoint) -> Result<(), String> {
        Ok(())
    }

    fn is_cut(&self) -> bool {
        self.runs.load(Ordering::Relaxed) > self.most
    }
}

#[test]
fn what_a_recovery_says_that_was_cut_short_is_no_finding() {
    for (most, is_whole) in [(0, false), (1, false), (usize::MAX - 1, true)] {
        let check = Cut { runs: AtomicUsize::new(0), most };
        let one = Scope::new(&[Model::Px86], 1);
        let covered = of(&one, |memory| counts(memory, false), check, &());
        assert!(covered.finding().is_none(), "{most}: {covered}");
        assert_eq!(covered.is_complete(), is_whole, "{most}: {covered}");
    }
}

#[test]
fn a_run_that_fails_because_all_is_to_stop_is_no_failure() {
    struct Stopped(AtomicUsize);
    impl Onlooker for Stopped {
        fn stops(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }
    }
    for (threads, made) in [(1, 0), (2, 0), (2, 2)] {
        let left = Stopped(AtomicUsize::new(made + 1));
        let recorder = Recorder::new(Image::new(4096, 64));
        let record = |schedule: &Schedule| {
            if left.0.fetch_sub(1, Ordering::Relaxed) <= 1 {
                left.0.store(0, Ordering::Relaxed);
                return Err("it was stopped");
            }
            let trace = recorder.record(schedule, |memory| counts(memory, false));
            Ok(Recorded { trace: trace.unwrap(), check: counted() })
        };
        let scope = Scope { workers: Some(1), ..Scope::new(&[Model::Px86], threads) };
        let covered = explore(&scope, record, &left).unwrap();
        assert!(covered.is_stopped && !covered.is_complete(), "{covered}");
        assert!(covered.finding().is_none(), "{covered}");
    }
}

#[test]
fn parts_of_the_work_are_not_the_whole() {
    let points = |part| {
        let covered =
            of(&Scope { part, ..two_threads() }, |memory| counts(memory, false), counted(), &());
        assert_eq!(covered.is_complete(), part == (1, 1));
        covered.models[0].points
    };
    assert_eq!(points((1, 3)) + points((2, 3)) + points((3, 3)), points((1, 1)));
}

#[test]
fn a_program_that_can_lose_nothing_is_told() {
    let one = Scope::new(&[Model::Px86], 1);
    let silence = |program: fn(&Traced<'_>)| of(&one, program, counted(), &()).silence;
    assert_eq!(silence(|memory| counts(memory, false)), []);
    let quiet: fn(&Traced<'_>) = |memory| {
        memory.store(DATA, 1u64);
        memory.persist(DATA, 8);
    };
    assert_eq!(silence(quiet), [Silence::NoOutput]);
    let idle: fn(&Traced<'_>) = |memory| memory.store(Addr::dram(0), 1u64);
    assert_eq!(silence(idle), [Silence::NoStore]);
}

#[test]
fn a_check_that_can_find_nothing_is_told() {
    let one = Scope::new(&[Model::Px86], 1);
    let program: fn(&Traced<'_>) = |memory| counts(memory, false);
    let blind = check(
        |_: &CrashImage| Ok(7u64),
        |found, point: &CrashPoint| {
            if *found >= point.promised[0] { Ok(()) } else { Err("never".into()) }
        },
    );
    assert_eq!(of(&one, program, blind, &()).silence, [Silence::NoRead]);
    let look = |image: &CrashImage| Ok(image.load::<u64>(DATA));
    let trusting = check(look, |found: &u64, _: &CrashPoint| match found {
        0..=2 => Ok(()),
        _ => Err("too many".into()),
    });
    let covered = of(&one, program, trusting, &());
    assert_eq!(covered.silence, [Silence::NotAsked]);
    assert!(covered.to_string().contains("warning: the judgement never looks"), "{covered}");
}

#[test]
fn a_judgement_that_panics_is_a_finding() {
    let look = |image: &CrashImage| Ok(image.load::<u64>(DATA));
    let asserts = check(look, |found: &u64, point: &CrashPoint| {
        assert!(*found >= point.outputs[0] + point.outputs[1], "counts are lost");
        Ok(())
    });
    let covered = of(&two_threads(), |memory| counts(memory, true), asserts, &());
    let finding = covered.finding().expect("an assertion fails");
    assert!(finding.message.contains("counts are lost"), "{finding}");
}

#[test]
fn a_finding_tells_the_turns_and_what_recovery_read_and_wrote() {
    let hands_over: fn(&Traced<'_>) = |memory| {
        if memory.thread() == 0 {
            memory.store(DATA, 7u64);
        } else if memory.load::<u64>(DATA) == 7 {
            memory.store(DONE, 1u64);
            memory.persist(DONE, 8);
            memory.output(0);
        }
    };
    let look = |image: &CrashImage| match image.load::<u64>(DONE) {
        1 => {
            image.store(Addr::pm(192), image.load::<u64>(DATA));
            Ok(image.load::<u64>(DATA))
        }
        _ => Ok(7),
    };
    let judge = |found: &u64, point: &CrashPoint| match (*found, point.outputs.len()) {
        (7, _) => Ok(()),
        _ => Err("done, without its data".to_owned()),
    };
    let covered = of(&two_threads(), hands_over, check(look, judge), &());
    let finding = covered.finding().expect("the first thread does not persist");
    let reader = finding.lost[0].reader.as_ref().expect("the other thread read it");
    assert!(reader.0 == 1 && reader.1.contains("scope.rs"), "{finding}");
    assert_eq!(finding.lost[0].way.as_deref(), Some("not flushed by then"));
    let turns: Vec<u16> = finding.turns.iter().map(|turn| turn.thread).collect();
    assert_eq!(turns, [0, 1], "{finding}");
    let recovery: Vec<&str> = finding.recovery.iter().map(|step| &step.what[..]).collect();
    assert!(recovery[0].starts_with("reads pm:0x80 = 0x1, which came early"), "{recovery:?}");
    assert!(recovery[1].starts_with("reads pm:0x40 = 0x0: lost is 0x7 of"), "{recovery:?}");
    assert_eq!(recovery[2], "writes pm:0xc0 = 0x0");
    assert!(finding.to_string().contains("turns: thread 0 to"), "{finding}");
}

/// Two words, each persisted on its own, and what is found to be spare of that.
fn two_persists(is_ordered: bool) -> Vec<(WasteKind, u64)> {
    let program: fn(&Traced<'_>) = |memory| {
        memory.store(DATA, 1u64);
        memory.persist(DATA, 8);
        memory.store(DONE, 1u64);
        memory.persist(DONE, 8);
        memory.output(0);
    };
    let look = |image: &CrashImage| Ok([DATA, DONE].map(|at| image.load::<u64>(at)));
    let judge = move |found: &[u64; 2], point: &CrashPoint| match (found, point.outputs[0]) {
        ([1, 1], _) | ([0, 0] | [1, 0], 0) => Ok(()),
        ([0, 1], 0) if !is_ordered => Ok(()),
        _ => Err(format!("{found:?}")),
    };
    let covered = of(&Scope::new(&[Model::Px86], 1), program, check(look, judge), &());
    assert!(covered.is_complete() && covered.finding().is_none(), "{covered}");
    covered.waste.iter().map(|waste| (waste.kind, waste.times)).collect()
}

#[test]
fn a_fence_that_orders_what_need_not_be_ordered_is_named() {
    assert_eq!(two_persists(false), [(WasteKind::SpareFence, 1)]);
    assert_eq!(two_persists(true), []);
}

#[test]
fn points_with_many_images_are_gone_on_with_while_there_is_time() {
    let pending: fn(&Traced<'_>) = |memory| {
        (1..9).for_each(|line| memory.store(Addr::pm(64 * line), 1u64));
        memory.output(0);
    };
    let lines = (1..9).map(|line| Addr::pm(64 * line)).collect::<Vec<_>>();
    let look = move |image: &CrashImage| {
        Ok(lines.iter().map(|at| image.load::<u64>(*at)).collect::<Vec<u64>>())
    };
    let usual = Scope::new(&[Model::Px86], 1);
    let search = Search { point_limit: 5, samples: 0, ..usual.search.clone() };
    for (time, is_complete) in [(None, false), (Some(Duration::from_secs(600)), true)] {
        let scope = Scope { time, search: search.clone(), ..usual.clone() };
        let judged = check(look.clone(), |_: &Vec<u64>, point: &CrashPoint| {
            if point.outputs.is_empty() { Err("never".into()) } else { Ok(()) }
        });
        let covered = of(&scope, pending, judged, &());
        assert_eq!(covered.is_complete(), is_complete, "{covered}");
    }
}

#[test]
fn the_run_that_fails_first_is_told_whoever_made_it() {
    let told = [1, 4, 8].map(|workers| {
        let scope = Scope { workers: Some(workers), ..two_threads() };
        let recorder = Recorder::new(Image::new(4096, 64));
        let record = |schedule: &Schedule| {
            if matches!(&schedule.turns, Turns::Chosen(turns) if turns.len() == 2) {
                return Err(format!("{:?}", schedule.turns));
            }
            let trace = recorder.record(schedule, |memory| counts(memory, false)).unwrap();
            Ok(Recorded { trace, check: counted() })
        };
        explore(&scope, record, &()).map(|covered| covered.runs).unwrap_err()
    });
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
}
