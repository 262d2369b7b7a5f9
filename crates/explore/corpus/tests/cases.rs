//! Every broken program is found, and every fixed one is clean.

use seawall_corpus::{BugKind, CASES, Case, Effort, Found, Row, explore, run_all};
use seawall_explore::{CrashChoice, CrashPath, Model, Schedule, Search, check, replay};
use std::collections::BTreeSet;

fn line(row: &Row) -> String {
    let (broken, fixed) = (&row.broken, &row.fixed);
    format!(
        "{:14} {} {:5} {:4} {:4} {:9.2?} | {:5} {:5} {:9.2?} runs {} {} {:3} {} | {}",
        row.about.name,
        row.about.kind,
        broken.model.name(),
        broken.recoveries,
        broken.states,
        broken.time,
        fixed.recoveries,
        fixed.states,
        fixed.time,
        broken.runs,
        fixed.runs,
        broken.schedule.as_deref().unwrap_or("-"),
        broken.message.as_deref().unwrap_or("NOT FOUND"),
        fixed.message.as_deref().unwrap_or(if fixed.complete { "clean" } else { "CUT" }),
    )
}

#[test]
fn every_broken_program_is_found_and_every_fixed_one_is_clean() {
    let rows = run_all(&Effort::default());
    for row in &rows {
        println!("{}", line(row));
    }
    let wrong: Vec<String> = rows.iter().filter(|row| !row.is_as_expected()).map(line).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_fixed_program_is_clean_under_every_model_when_recovery_crashes_too() {
    for case in CASES {
        let name = case.about().name;
        let effort = Effort { depth: 2, thorough: true, random: 8, ..Effort::default() };
        for model in Model::all() {
            let report = explore(*case, true, model, &effort);
            assert_eq!(report.message, None, "{name} under {model}: {report:?}");
            assert!(report.complete, "{name} under {model}: {report:?}");
        }
    }
}

/// Wrong even when nothing is cut short: recovery or the program itself errs at every restart.
const WRONG_ANYWAY: [&str; 3] = ["pm-14", "rm-3", "log-kept"];

#[test]
fn a_broken_program_is_right_when_no_crash_cuts_it_short() {
    for case in CASES.iter().filter(|case| !WRONG_ANYWAY.contains(&case.about().name)) {
        let run = case.record(false, &Schedule::default()).unwrap();
        let options = Search::new(Model::Eadr);
        for event in [0, run.events().len()] {
            let crashes = vec![CrashChoice { event, lost: Vec::new(), turns: Vec::new() }];
            let all = CrashPath { model: Model::Eadr, crashes };
            let check = check(
                |image| case.recover(image, false, 0),
                |found: &Found, point| case.judge(found, &point.promised),
            );
            let finding = replay(&run, &options, &all, &check);
            assert_eq!(finding, Ok(None), "{} after {event} events", case.about().name);
        }
    }
}

#[test]
fn a_missing_flush_is_no_bug_where_hardware_tracks_stores_and_the_marks_say_what_is_one() {
    for case in CASES {
        let about = case.about();
        let effort = Effort { depth: usize::from(about.needs_nested), ..Effort::default() };
        let report = explore(*case, false, Model::Bep, &effort);
        assert_eq!(report.message.is_some(), about.epochs_too, "{}: {report:?}", about.name);
    }
    let flushes = CASES.iter().filter(|case| case.about().kind == BugKind::Flush);
    assert_eq!(flushes.filter(|case| case.about().epochs_too).count(), 1, "rm-3 alone");
}

#[test]
fn what_needs_a_crash_of_recovery_does_not_show_without_one() {
    let nested = |case: &&&dyn Case| case.about().needs_nested;
    assert!(CASES.iter().filter(nested).count() >= 5);
    for case in CASES.iter().filter(nested) {
        let report = explore(*case, false, Model::Px86, &Effort::default());
        assert_eq!(report.message, None, "{}", case.about().name);
    }
}

#[test]
fn there_are_enough_cases_of_every_kind_and_their_words_are_right() {
    let names: BTreeSet<&str> = CASES.iter().map(|case| case.about().name).collect();
    assert_eq!(names.len(), CASES.len(), "a name is used twice");
    assert!(CASES.len() >= 90, "{}", CASES.len());
    for kind in BugKind::ALL {
        let count = CASES.iter().filter(|case| case.about().kind == kind).count();
        println!("{kind} {count}");
        assert!(count >= 3, "{count} cases of kind {kind}");
    }
    for about in CASES.iter().map(|case| case.about()) {
        for text in [about.what, about.source] {
            assert!(text.len() > 15 && text.len() < 100, "{}: {text}", about.name);
        }
    }
}
