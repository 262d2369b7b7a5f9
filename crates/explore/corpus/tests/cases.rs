//! Every broken program is found, and every fixed one is clean.

use seawall_corpus::{BugKind, CASES, Effort, Row, explore, run_all};
use seawall_explore::Model;
use std::collections::BTreeSet;

fn line(row: &Row) -> String {
    let (broken, fixed) = (&row.broken, &row.fixed);
    format!(
        "{:10} {} {:5} images {:6} + {:6} | {:6} + {:7} {:9.2?} {:9.2?} runs {:2} {} {:?} | {:?}",
        row.about.name,
        row.about.kind,
        broken.model.name(),
        broken.images,
        broken.nested_images,
        fixed.images,
        fixed.nested_images,
        broken.time,
        fixed.time,
        broken.runs,
        fixed.complete,
        broken.message.as_deref().unwrap_or("NOT FOUND"),
        fixed.message,
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
fn a_fixed_program_is_clean_when_recovery_crashes_too_and_under_epochs() {
    for case in CASES {
        let name = case.about().name;
        let effort = Effort { nested: true, schedules: 4, ..Effort::default() };
        for model in [Model::Px86, Model::Bep] {
            let report = explore(*case, true, model, &effort);
            assert_eq!(report.message, None, "{name} under {model}: {report:?}");
            assert!(report.complete, "{name} under {model}: {report:?}");
        }
    }
}

#[test]
fn names_are_unique_and_the_marks_say_what_is_so() {
    let names: BTreeSet<&str> = CASES.iter().map(|case| case.about().name).collect();
    assert_eq!(names.len(), CASES.len());
    for case in CASES {
        let about = case.about();
        let seen = |model, nested| {
            let effort = Effort { nested, ..Effort::default() };
            explore(*case, false, model, &effort).message.is_some()
        };
        assert_eq!(
            seen(Model::Bep, about.needs_nested),
            about.epochs_too,
            "{}: under epochs",
            about.name
        );
        if about.needs_nested {
            assert!(!seen(Model::Px86, false), "{}: shows without a second crash", about.name);
        }
    }
}

#[test]
fn every_kind_of_bug_is_there() {
    for kind in BugKind::ALL {
        assert!(CASES.iter().any(|case| case.about().kind == kind), "no case of kind {kind}");
    }
}
