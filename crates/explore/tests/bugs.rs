//! Planted mistakes are found, made small, and replayed; their repaired twins are clean.

use seawall_explore::{
    Check, CrashImage, CrashPath, CrashPoint, Finding, Model, Reached, ReplayError, Schedule,
    Search, Trace, Traced, check, record, replay, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};

/// A record of four words in a line each, then a flag, for each operation.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    NoFlush,
    NoOrder,
    NoFinalFlush,
}

const OPERATIONS: u64 = 3;
const WORDS: u64 = 4;

fn word(operation: u64, index: u64) -> Addr {
    Addr::pm(64 * (1 + operation * (WORDS + 1) + index))
}

fn flag(operation: u64) -> Addr {
    word(operation, WORDS)
}

fn publish(memory: &Traced<'_>, mistake: Mistake) {
    for operation in 0..OPERATIONS {
        for index in 0..WORDS {
            memory.store(word(operation, index), 100 + index);
            if mistake != Mistake::NoFlush || index != 2 {
                memory.flush(word(operation, index), 8);
            }
        }
        if mistake != Mistake::NoOrder {
            memory.order();
        }
        memory.store(flag(operation), 1u64);
        if mistake != Mistake::NoFinalFlush {
            memory.flush(flag(operation), 8);
        }
        memory.order();
        memory.output(operation);
    }
}

fn trace(mistake: Mistake) -> Trace {
    record(Image::new(4096, 0), &Schedule::default(), move |memory| publish(memory, mistake))
        .unwrap()
}

/// Which operations are there.
fn recover(image: &CrashImage) -> Result<Vec<bool>, String> {
    let one = |operation| {
        let set = image.load::<u64>(flag(operation)) == 1;
        if set && (0..WORDS).any(|i| image.load::<u64>(word(operation, i)) != 100 + i) {
            return Err(format!("operation {operation} is half there"));
        }
        Ok(set)
    };
    (0..OPERATIONS).map(one).collect()
}

fn judge(found: &[bool], point: &CrashPoint) -> Result<(), String> {
    match (0..point.promised[0] as usize).find(|operation| !found[*operation]) {
        Some(operation) => Err(format!("operation {operation} was done and is lost")),
        None => Ok(()),
    }
}

fn all_there() -> impl Check<Found = Vec<bool>> {
    check(recover, |found: &Vec<bool>, point| judge(found, point))
}

fn find(mistake: Mistake, model: Model) -> Option<Finding> {
    let run = trace(mistake);
    search(&run, &Search::new(model), &all_there()).finding
}

#[test]
fn the_correct_program_is_clean_and_completely_explored() {
    for model in Model::all() {
        let run = trace(Mistake::None);
        let outcome = search(&run, &Search::new(model), &all_there());
        assert_eq!(outcome.finding, None, "{model}");
        assert_eq!(outcome.reached, Reached::Complete);
        assert_eq!(outcome.to_string(), "all images");
    }
}

#[test]
fn a_missing_order_is_shrunk_to_one_lost_store() {
    for model in [Model::Px86, Model::Bep, Model::Hops] {
        let finding = find(Mistake::NoOrder, model).expect("found");
        assert_eq!(finding.message, "operation 0 is half there", "{finding}");
        assert_eq!(finding.lost.len(), 1, "{finding}");
        assert_eq!(finding.early.len(), 1, "only the flag matters: {finding}");
        assert_eq!(finding.early[0].address, flag(0).to_string());
        let stored = finding.events - finding.choice.crashes[0].event;
        assert!(stored > 0, "the crash is as early as it can be: {finding}");
        assert!(finding.lost[0].place.contains("bugs.rs"));
    }
}

#[test]
fn a_missing_flush_is_found_under_px86_and_is_none_where_hardware_tracks_stores() {
    let finding = find(Mistake::NoFlush, Model::Px86).expect("found");
    assert_eq!(finding.lost.len(), 1);
    assert_eq!(finding.lost[0].address, word(0, 2).to_string());
    assert_eq!((finding.lost[0].old, finding.lost[0].new), (0, 102));
    for model in [Model::Bep, Model::Strict, Model::Eadr] {
        assert_eq!(find(Mistake::NoFlush, model), None);
    }
}

#[test]
fn a_completed_operation_that_may_be_lost_is_found_where_order_promises_durability() {
    let finding = find(Mistake::NoFinalFlush, Model::Px86).expect("found");
    assert_eq!(finding.message, "operation 0 was done and is lost");
    assert_eq!(finding.lost.len(), 1);
    assert_eq!(finding.in_flight[0].operation, 1);
    assert_eq!(find(Mistake::NoFinalFlush, Model::Bep), None);
}

#[test]
fn a_replay_builds_the_same_failing_image() {
    for mistake in [Mistake::NoFlush, Mistake::NoOrder, Mistake::NoFinalFlush] {
        let finding = find(mistake, Model::Px86).expect("found");
        let choice: CrashPath = finding.choice.to_string().parse().unwrap();
        let options = Search::new(Model::Px86);
        let run = trace(mistake);
        assert_eq!(replay(&run, &options, &choice, &all_there()), Ok(Some(finding)));
        let repaired = replay(&trace(Mistake::None), &options, &choice, &all_there());
        assert!(!matches!(repaired, Ok(Some(_))), "{repaired:?}");
    }
}

#[test]
fn a_replay_of_another_run_is_an_error_that_says_what_does_not_fit() {
    let options = Search::new(Model::Px86);
    let run = trace(Mistake::None);
    for text in ["px86/9999/none", "px86/3/ff-1", "px86/3/1-9", "px86/40/1-1"] {
        let answer = replay(&run, &options, &text.parse().unwrap(), &all_there());
        assert!(matches!(answer, Err(ReplayError::OtherRun { .. })), "{text}: {answer:?}");
    }
}

/// A check that only recovers.
fn only<F: Eq + std::hash::Hash>(
    recover: impl Fn(&CrashImage) -> Result<F, String>,
) -> impl Check<Found = F> {
    check(recover, |_, _| Ok(()))
}

#[test]
fn a_recovery_that_panics_or_loops_is_a_finding() {
    let run = trace(Mistake::None);
    let options = Search { steps: 1000, ..Search::new(Model::Px86) };
    let panics = only(|image| {
        let set = image.load::<u64>(flag(0)) as usize;
        assert!([true, false][set], "flag is set");
        Ok(())
    });
    let message = search(&run, &options, &panics).finding.expect("found").message;
    assert!(message.starts_with("recovery panicked: flag is set"), "{message}");
    let loops = only(|image| {
        while image.load::<u64>(flag(0)) == 1 {}
        Ok(())
    });
    let message = search(&run, &options, &loops).finding.expect("found").message;
    assert!(message.contains("more than 1000 memory accesses"), "{message}");
}

/// A run that leaves five lines pending, and how many of the first `read` of them survived.
fn pending(read: u64) -> (Trace, impl Fn(&CrashImage) -> Result<Vec<u64>, String>) {
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        (1..6).for_each(|line| memory.store(Addr::pm(64 * line), 1u64));
    });
    let lines = move |image: &CrashImage| {
        Ok((1..=read).map(|line| image.load::<u64>(Addr::pm(64 * line))).collect())
    };
    (run.unwrap(), lines)
}

#[test]
fn a_search_that_runs_out_of_budget_says_so() {
    let (run, lines) = pending(5);
    let options = Search { budget: 20, ..Search::new(Model::Px86) };
    let outcome = search(&run, &options, &only(lines));
    assert!(outcome.out_of_budget);
    assert_eq!(outcome.states, 20);
    assert!(outcome.to_string().ends_with("budget reached after 20 crash states"), "{outcome}");
}

#[test]
fn lines_survive_alone_before_they_survive_in_sets() {
    let (run, lines) = pending(5);
    let seen = std::cell::RefCell::new(Vec::new());
    let noting = only(|image| {
        seen.borrow_mut().push(lines(image)?.iter().sum::<u64>());
        Ok(())
    });
    let outcome = search(&run, &Search::new(Model::Px86), &noting);
    assert_eq!(outcome.reached, Reached::Complete);
    let seen = seen.take();
    assert_eq!((&seen[..6], seen.len()), (&[0, 1, 1, 1, 1, 1][..], 32));
}

#[test]
fn a_point_with_too_many_states_is_sampled_and_the_outcome_says_so() {
    let (run, lines) = pending(5);
    let options = Search { point_limit: 30, samples: 3, ..Search::new(Model::Px86) };
    let outcome = search(&run, &options, &only(lines));
    assert_eq!(outcome.reached, Reached::Pairs);
    let words = "all images at 0 of 1 failure points, at the others all pairs of lines ahead or \
                 behind; 1 of 1 points sampled beyond that";
    assert_eq!(outcome.to_string(), words);
}

/// A check of five lines, each a part of its own.
struct Apart;

impl Check for Apart {
    type Found = u64;

    fn parts(&self) -> usize {
        5
    }

    fn recover(&self, image: &CrashImage) -> Result<u64, String> {
        self.recover_part(image, 0)
    }

    fn recover_part(&self, image: &CrashImage, part: usize) -> Result<u64, String> {
        Ok(image.load(Addr::pm(64 * (part as u64 + 1))))
    }

    fn judge(&self, found: &u64, _: &CrashPoint) -> Result<(), String> {
        if *found < 2 { Ok(()) } else { Err(format!("a line holds {found}")) }
    }
}

#[test]
fn parts_that_are_looked_at_apart_add_up_instead_of_multiplying() {
    let (run, _) = pending(5);
    let outcome = search(&run, &Search::new(Model::Px86), &Apart);
    assert_eq!((outcome.runs, outcome.reached), (2 * 5, Reached::Complete));
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        (1..6).for_each(|line| memory.store(Addr::pm(64 * line), line / 5 + 1));
    });
    let run = run.unwrap();
    let finding = search(&run, &Search::new(Model::Px86), &Apart).finding.expect("the last part");
    assert_eq!(finding.message, "a line holds 2");
    let again = replay(&run, &Search::new(Model::Px86), &finding.choice, &Apart);
    assert_eq!(again, Ok(Some(finding)));
}

#[test]
fn lines_that_recovery_does_not_read_cost_nothing() {
    for read in 0..=5 {
        let (run, lines) = pending(read);
        let outcome = search(&run, &Search::new(Model::Px86), &only(lines));
        assert_eq!((outcome.runs, outcome.reached), (1 << read, Reached::Complete));
    }
}

#[test]
fn an_image_is_judged_again_once_more_is_promised() {
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        memory.store(Addr::pm(64), 1u64);
        memory.order();
        memory.output(0);
    });
    let lost = check(
        |image: &CrashImage| Ok(image.load::<u64>(Addr::pm(64))),
        |found, point| match (found, point.promised[0]) {
            (0, 1) => Err("lost".into()),
            _ => Ok(()),
        },
    );
    let outcome = search(&run.unwrap(), &Search::new(Model::Px86), &lost);
    assert_eq!(outcome.finding.expect("found").choice.to_string(), "px86/3/1-1");
}

/// A transfer between two accounts with an undo log; recovery of the broken variant clears the log
/// before what it put back is durable.
fn transfer(memory: &impl Memory) {
    let (log, a, b) = (Addr::pm(64), Addr::pm(128), Addr::pm(192));
    memory.store(log.plus(8), memory.load::<u64>(a));
    memory.store(log, 1u64);
    memory.persist(log, 16);
    memory.store(a, 3u64);
    memory.store(b, 7u64);
    memory.flush(a, 8);
    memory.persist(b, 8);
    memory.store(log, 0u64);
    memory.persist(log, 8);
}

fn undo(image: &CrashImage, ordered: bool) -> Result<u64, String> {
    let (log, a, b) = (Addr::pm(64), Addr::pm(128), Addr::pm(192));
    if image.load::<u64>(log) == 1 {
        let old = image.load::<u64>(log.plus(8));
        image.store(a, old);
        image.store(b, 10 - old);
        image.flush(a, 8);
        image.flush(b, 8);
        if ordered {
            image.drain();
        }
        image.store(log, 0u64);
        image.persist(log, 8);
    }
    match image.load::<u64>(a) + image.load::<u64>(b) {
        10 => Ok(image.load(a)),
        sum => Err(format!("the sum is {sum}")),
    }
}

#[test]
fn a_recovery_that_does_not_survive_its_own_crash_is_found_and_replayed() {
    let start = Image::new(1024, 0);
    start.store(Addr::pm(128), 5u64);
    start.store(Addr::pm(192), 5u64);
    let run = record(start, &Schedule::default(), |memory| transfer(memory)).unwrap();
    for model in [Model::Px86, Model::Bep] {
        let options = Search::new(model);
        let sound = search(&run, &options, &only(|image| undo(image, true)));
        assert_eq!((sound.finding, sound.reached), (None, Reached::Complete));
        assert!(sound.nested_points > 0);
        let broken = only(|image| undo(image, false));
        let once = search(&run, &Search { depth: 0, ..options.clone() }, &broken);
        assert_eq!(once.finding, None, "the first recovery is fine");
        let finding = search(&run, &options, &broken).finding.expect("the second is not");
        assert_eq!(finding.choice.crashes.len(), 2, "{finding}");
        assert_eq!(finding.recoveries[0].lost.len(), 1, "{finding}");
        let choice: CrashPath = finding.choice.to_string().parse().unwrap();
        assert_eq!(replay(&run, &options, &choice, &broken), Ok(Some(finding)));
    }
}

#[test]
fn an_output_that_comes_before_its_store_is_found_under_every_model() {
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        memory.output(1);
        memory.store(Addr::pm(64), 1u64);
        memory.persist(Addr::pm(64), 8);
    });
    let run = run.unwrap();
    let told = check(
        |image: &CrashImage| Ok(image.load::<u64>(Addr::pm(64))),
        |found, point| if *found < point.promised[0] { Err("lost".into()) } else { Ok(()) },
    );
    for model in Model::all() {
        let outcome = search(&run, &Search::new(model), &told);
        assert!(outcome.finding.is_some(), "{model}: {outcome}");
    }
}

#[test]
fn crashes_of_recovery_that_no_state_is_left_for_are_not_called_complete() {
    let run = record(Image::new(2048, 0), &Schedule::default(), |memory| {
        memory.store(Addr::pm(64), 1u64);
        memory.persist(Addr::pm(64), 8);
    });
    let run = run.unwrap();
    // Recovery counts how often it came so far in ten places.
    let counting = only(|image| {
        for place in 2..12 {
            let at = Addr::pm(64 * place);
            let now = image.load::<u64>(at);
            if place == 11 && now == 0 && image.load::<u64>(Addr::pm(64 * 10)) == 3 {
                return Err("third time".into());
            }
            image.store(at, now + 1);
            image.persist(at, 8);
        }
        Ok(())
    });
    for model in [Model::Px86, Model::Strict] {
        let all = search(&run, &Search::new(model), &counting);
        assert_eq!(all.finding.expect("found").message, "third time", "{model}");
        let few = search(&run, &Search { point_limit: 5, ..Search::new(model) }, &counting);
        assert!(few.finding.is_some() || few.reached < Reached::Complete, "{model}: {few}");
    }
}

#[test]
fn an_error_at_the_third_start_needs_two_crashes_of_recovery() {
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        memory.store(Addr::pm(64), 1u64);
        memory.persist(Addr::pm(64), 8);
    });
    let run = run.unwrap();
    let persist = |image: &CrashImage, at: Addr, value: u64| {
        image.store(at, value);
        image.persist(at, 8);
    };
    let starts = only(|image| {
        let before = image.load::<u64>(Addr::pm(128));
        if before >= 2 {
            return Err("third start".into());
        }
        persist(image, Addr::pm(128), before + 1);
        persist(image, Addr::pm(192), 5);
        persist(image, Addr::pm(128), 0);
        Ok(())
    });
    let found = |depth: usize| {
        let options = Search { depth, ..Search::new(Model::Px86) };
        search(&run, &options, &starts).finding.map(|finding| finding.choice.crashes.len())
    };
    assert_eq!([0, 1, 2].map(found), [None, None, Some(3)]);
}

#[test]
fn a_thousand_lines_that_are_read_while_open_are_cut_and_end_no_process() {
    let lines = 1..1050u64;
    let stored = lines.clone();
    let run = record(Image::new(64 * 1050, 0), &Schedule::default(), move |memory| {
        stored.clone().for_each(|line| memory.store(Addr::pm(64 * line), 1u64));
    });
    let sums = only(move |image| {
        let _: u64 = lines.clone().map(|line| image.load::<u64>(Addr::pm(64 * line))).sum();
        Ok(())
    });
    let options = Search { depth: 0, budget: 3, ..Search::new(Model::Px86) };
    let outcome = search(&run.unwrap(), &options, &sums);
    assert!(outcome.is_full && !outcome.is_complete(), "{outcome}");
}
