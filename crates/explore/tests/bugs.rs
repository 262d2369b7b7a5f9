//! Planted mistakes are found, made small, and replayed; their repaired twins are clean.

use seawall_explore::{
    Check, Choice, Finding, Model, Reached, ReplayError, Schedule, Search, Trace, Traced, record,
    replay, search,
};
use seawall_memory::{Addr, Image, Memory};

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

fn check(image: &impl Memory, promised: u64) -> Result<(), String> {
    for operation in 0..OPERATIONS {
        let set = image.load::<u64>(flag(operation)) == 1;
        if !set && operation < promised {
            return Err(format!("operation {operation} was done and is lost"));
        }
        let whole = (0..WORDS).all(|i| image.load::<u64>(word(operation, i)) == 100 + i);
        if set && !whole {
            return Err(format!("operation {operation} is half there"));
        }
    }
    Ok(())
}

fn find(mistake: Mistake, model: Model) -> Option<Finding> {
    let run = trace(mistake);
    search(&run, &Search::new(model), &|image, point| check(image, point.promised[0])).finding
}

#[test]
fn the_correct_program_is_clean_and_completely_explored() {
    for model in Model::all() {
        let run = trace(Mistake::None);
        let outcome =
            search(&run, &Search::new(model), &|image, point| check(image, point.promised[0]));
        assert_eq!(outcome.finding, None, "{model}");
        assert_eq!(outcome.reached, Reached::Complete);
        assert_eq!(outcome.to_string(), "complete");
    }
}

#[test]
fn a_missing_order_is_shrunk_to_one_lost_store() {
    for model in [Model::Px86, Model::Bep] {
        let finding = find(Mistake::NoOrder, model).expect("found");
        assert_eq!(finding.message, "operation 0 is half there");
        assert_eq!(finding.lost.len(), 1, "{finding}");
        assert_eq!(finding.early.len(), 1, "only the flag matters: {finding}");
        assert_eq!(finding.early[0].address, flag(0).to_string());
        let stored = finding.events - finding.choice.event;
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
        let choice: Choice = finding.choice.to_string().parse().unwrap();
        let options = Search::new(Model::Px86);
        let run = trace(mistake);
        let check: &Check<'_> = &|image, point| check(image, point.promised[0]);
        assert_eq!(replay(&run, &options, &choice, check), Ok(Some(finding)));
        let repaired = replay(&trace(Mistake::None), &options, &choice, check);
        assert!(!matches!(repaired, Ok(Some(_))), "{repaired:?}");
    }
}

#[test]
fn a_replay_of_another_run_is_an_error_that_says_what_does_not_fit() {
    let options = Search::new(Model::Px86);
    let run = trace(Mistake::None);
    for text in ["px86/9999/none", "px86/3/ff-1", "px86/3/1-9", "px86/40/1-1"] {
        let answer = replay(&run, &options, &text.parse().unwrap(), &|_, _| Ok(()));
        assert!(matches!(answer, Err(ReplayError::OtherRun { .. })), "{text}: {answer:?}");
    }
}

#[test]
fn a_recovery_that_panics_or_loops_is_a_finding() {
    let run = trace(Mistake::None);
    let options = Search { steps: 1000, ..Search::new(Model::Px86) };
    let panics = search(&run, &options, &|image, _| {
        let set = image.load::<u64>(flag(0)) as usize;
        assert!([true, false][set], "flag is set");
        Ok(())
    });
    let message = panics.finding.expect("found").message;
    assert!(message.starts_with("recovery panicked: flag is set"), "{message}");
    let loops = search(&run, &options, &|image, _| {
        while image.load::<u64>(flag(0)) == 1 {}
        Ok(())
    });
    let message = loops.finding.expect("found").message;
    assert!(message.contains("more than 1000 memory accesses"), "{message}");
}

#[test]
fn a_search_that_runs_out_of_budget_says_so() {
    let run = trace(Mistake::NoFlush);
    let options = Search { budget: 20, ..Search::new(Model::Px86) };
    let outcome = search(&run, &options, &|_, _| Ok(()));
    assert!(outcome.out_of_budget);
    assert_eq!(outcome.checked, 20);
    assert!(outcome.to_string().ends_with("budget reached after 20 images"), "{outcome}");
}

#[test]
fn lines_go_wrong_one_by_one_and_in_pairs_before_in_larger_sets() {
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        (1..6).for_each(|line| memory.store(Addr::pm(64 * line), 1u64));
    });
    let run = run.unwrap();
    let options = Search { family_limit: 0, samples: 0, ..Search::new(Model::Px86) };
    let lost = std::cell::RefCell::new(Vec::new());
    let outcome = search(&run, &options, &|image, _| {
        let set = (1..6).filter(|line| image.load::<u64>(Addr::pm(64 * line)) == 1).count();
        lost.borrow_mut().push(set.min(5 - set));
        Ok(())
    });
    assert_eq!(lost.take(), [vec![0; 2], vec![1; 10], vec![2; 20]].concat());
    assert_eq!(outcome.reached, Reached::Pairs);
    assert_eq!(
        outcome.to_string(),
        "all pairs of lines; 0 of 1 families complete, the others sampled"
    );
}

#[test]
fn an_image_is_checked_again_once_more_is_promised() {
    let run = record(Image::new(1024, 0), &Schedule::default(), |memory| {
        memory.store(Addr::pm(64), 1u64);
        memory.order();
        memory.output(0);
    });
    let outcome = search(&run.unwrap(), &Search::new(Model::Px86), &|image, point| match (
        image.load::<u64>(Addr::pm(64)),
        point.promised[0],
    ) {
        (0, 1) => Err("lost".into()),
        _ => Ok(()),
    });
    assert_eq!(outcome.finding.expect("found").choice.to_string(), "px86/3/1-1");
}
