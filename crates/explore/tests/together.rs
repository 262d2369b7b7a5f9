//! Recovery by several threads: every schedule of them, and crashes in the middle.

use seawall_explore::{
    Check, Covered, CrashImage, CrashPoint, Model, Recorded, Recorder, RecoveryThread, RunError,
    Schedule, Scope, Search, Traced, check, explore, parse_replay, replay,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};

/// A log of two entries, a word each; it is valid while the mark is set.
const MARK: Addr = Addr::pm(0);
const ENTRIES: [Addr; 2] = [Addr::pm(64), Addr::pm(128)];
const PLACES: [Addr; 2] = [Addr::pm(192), Addr::pm(256)];
const SUM: Addr = Addr::pm(320);
const ENDED: Addr = Addr::dram(0);
const LOCK: Addr = Addr::dram(8);

/// Logs two values.
fn logs(memory: &Traced<'_>) {
    for (entry, value) in ENTRIES.into_iter().zip([10u64, 20]) {
        memory.store(entry, value);
        memory.flush(entry, 8);
    }
    memory.order();
    memory.store(MARK, 1u64);
    memory.persist(MARK, 8);
    memory.output(0);
}

/// Up to so many crashes of recovery, and interruptions of its threads.
fn of<C: Check<Found: Send> + Sync + Send>(
    depth: usize,
    recovery_interruptions: usize,
    check: C,
) -> Covered {
    let recorder = Recorder::new(Image::new(512, 64));
    let usual = Scope::new(&[Model::Px86, Model::Bep], 1);
    let search = Search { depth, recovery_interruptions, ..usual.search };
    let record = |schedule: &Schedule| {
        let trace = recorder.record(schedule, logs)?;
        Ok::<_, RunError>(Recorded { trace, check: &check })
    };
    explore(&Scope { search, ..usual }, record, &()).unwrap()
}

/// Each thread applies an entry of the log; the first one then clears the mark.
fn apply(memory: &RecoveryThread<'_>, waits: bool) {
    let me = memory.thread();
    memory.store(PLACES[me], memory.load::<u64>(ENTRIES[me]));
    memory.persist(PLACES[me], 8);
    let _ = memory.fetch_add(ENDED, 1);
    if me == 0 {
        if waits {
            while memory.load::<u64>(ENDED) < 2 {}
        }
        memory.store(MARK, 0u64);
        memory.persist(MARK, 8);
    }
}

fn applied(image: &CrashImage, waits: bool) -> Result<[u64; 2], String> {
    if image.load::<u64>(MARK) == 1 {
        image.together(2, |memory| apply(memory, waits));
    }
    Ok(PLACES.map(|at| image.load::<u64>(at)))
}

fn both_or_none(found: &[u64; 2], point: &CrashPoint) -> Result<(), String> {
    match (found, point.promised[0]) {
        ([0, 0], 0) | ([10, 20], _) => Ok(()),
        _ => Err(format!("{found:?} of the log are applied")),
    }
}

#[test]
fn threads_that_recover_apart_are_right_whenever_they_are_cut_short() {
    let covered = of(1, 1, check(|image: &CrashImage| applied(image, true), both_or_none));
    assert!(covered.finding().is_none(), "{}", covered.finding().unwrap());
    assert!(covered.is_complete(), "{covered}");
    let coverage = covered.coverage();
    assert!(coverage.contains("1 interruption of its threads"), "{coverage}");
    assert!(covered.models[0].states > 200, "{covered}");
}

#[test]
fn a_thread_that_ends_recovery_before_the_other_is_done_is_found_by_a_crash_of_it() {
    let hurried = || check(|image: &CrashImage| applied(image, false), both_or_none);
    assert!(of(0, 2, hurried()).finding().is_none());
    let covered = of(1, 2, hurried());
    let finding = covered.finding().expect("the mark may be durable before an entry is applied");
    assert!(finding.message.contains("of the log are applied"), "{finding}");
    assert_eq!(finding.choice.crashes.len(), 2);
}

/// Both threads add to one sum, under a lock or not.
fn sums(image: &CrashImage, locks: bool) -> Result<u64, String> {
    image.together(2, |memory| {
        while locks && memory.compare_exchange(LOCK, 0, 1).is_err() {}
        let sum: u64 = memory.load(SUM);
        memory.store(SUM, sum + memory.load::<u64>(ENTRIES[memory.thread()]));
        if locks {
            let _ = memory.swap(LOCK, 0);
        }
    });
    Ok(image.load(SUM))
}

fn whole_sum(found: &u64, point: &CrashPoint) -> Result<(), String> {
    match (*found, point.promised[0]) {
        (30, _) | (0 | 10 | 20, 0) => Ok(()),
        _ => Err(format!("the sum is {found}")),
    }
}

#[test]
fn an_update_that_one_thread_of_recovery_loses_is_found_told_and_replayed() {
    let covered = of(0, 2, check(|image: &CrashImage| sums(image, true), whole_sum));
    assert!(covered.finding().is_none() && covered.is_complete(), "{covered}");
    let racy = check(|image: &CrashImage| sums(image, false), whole_sum);
    let covered = of(0, 2, &racy);
    let finding = covered.finding().expect("one thread may read before the other writes");
    let steps: Vec<String> = finding.recovery.iter().map(|step| step.to_string()).collect();
    assert!(steps.iter().any(|step| step.starts_with("thread 0 writes")), "{finding}");
    assert!(steps.iter().any(|step| step.starts_with("thread 1 writes")), "{finding}");
    let (_, choice) = parse_replay(&finding.replay()).unwrap();
    assert_eq!(choice.crashes[0].turns.len(), 1, "one interruption is enough: {choice}");
    let trace = Recorder::new(Image::new(512, 64)).record(&Schedule::default(), logs).unwrap();
    let again = replay(&trace, &covered.how.search, &choice, &racy).unwrap();
    assert_eq!(again.map(|again| again.message), Some(finding.message.clone()));
}

#[test]
fn threads_of_recovery_that_wait_for_each_other_are_a_finding() {
    let stuck = |image: &CrashImage| {
        image.together(2, |memory| {
            memory.spin_while(Addr::dram(8 * memory.thread() as u64), 0);
        });
        Ok(())
    };
    let covered = of(0, 2, check(stuck, |(), _| Ok(())));
    let finding = covered.finding().expect("nobody stores what they wait for");
    assert!(finding.message.contains("recovery waits for ever: thread 0 waits for"), "{finding}");
}

#[test]
fn a_panic_of_a_thread_of_recovery_is_a_finding() {
    let panics = |image: &CrashImage| {
        image.together(3, |memory| assert!(memory.thread() < 2, "the third one fails"));
        Ok(())
    };
    let covered = of(0, 2, check(panics, |(), _| Ok(())));
    assert!(covered.finding().unwrap().message.contains("the third one fails"));
    let nested = |image: &CrashImage| {
        image.together(0, |_| ());
        Ok(())
    };
    let covered = of(0, 2, check(nested, |(), _| Ok(())));
    assert!(covered.finding().unwrap().message.contains("it must be 1 to 64"));
}

#[test]
fn a_turn_that_goes_to_a_paused_thread_is_found_and_replayed() {
    let (word, flag, other) = (Addr::dram(16), Addr::dram(24), Addr::dram(32));
    let passed_on = check(
        move |image: &CrashImage| {
            image.together(3, |memory| match memory.thread() {
                1 => {
                    memory.store(word, 1u64);
                    memory.store(flag, 5u64); // thread 0 runs before it
                    if memory.load::<u64>(word) == 3 {
                        memory.store(SUM, 1u64); // and thread 2 before the load
                    }
                }
                0 if memory.load::<u64>(word) == 1 && memory.load::<u64>(flag) == 0 => {
                    memory.store(other, 1u64);
                }
                2 if memory.load::<u64>(flag) == 5 && memory.load::<u64>(other) == 1 => {
                    memory.store(word, 3u64);
                }
                _ => {}
            });
            Ok(image.load::<u64>(SUM))
        },
        |found: &u64, _: &CrashPoint| if *found == 0 { Ok(()) } else { Err("met".into()) },
    );
    let covered = of(0, 2, &passed_on);
    let finding = covered.finding().expect("two interruptions are enough");
    let trace = Recorder::new(Image::new(512, 64)).record(&Schedule::default(), logs).unwrap();
    let again = replay(&trace, &covered.how.search, &finding.choice, &passed_on).unwrap();
    assert_eq!(again.map(|again| again.message), Some("met".into()));
}
