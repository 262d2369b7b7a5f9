//! Objects that are placed together: fewer lines for what changes together, whatever crash comes.

use crate::is_long_run;
use seawall_explore::{CrashImage, CrashPoint, Model, Schedule, Search, check, record, search};
use seawall_lab::{Coalescing, CoalescingOptions};
use seawall_memory::{Image, Memory};
use seawall_workloads::ribbon20::objects::{ObjectChange, Objects, Placing, options};
use std::sync::Arc;

const KEYS: u64 = 4;

/// Changes of keys, in each of which objects come, go or are written.
const SCRIPT: [(ObjectChange, u64); 8] = [
    (ObjectChange::Insert, 0),
    (ObjectChange::Insert, 1),
    (ObjectChange::Replace, 0),
    (ObjectChange::Count, 1),
    (ObjectChange::Replace, 0),
    (ObjectChange::Remove, 1),
    (ObjectChange::Insert, 2),
    (ObjectChange::Replace, 2),
];

/// What is there after each of the changes, the first of them none.
fn states() -> Vec<Vec<(u64, u64)>> {
    let mut states = vec![Vec::new()];
    for (number, (change, key)) in (1..).zip(SCRIPT) {
        let mut state = states[states.len() - 1].clone();
        state.retain(|(other, _)| *other != key);
        if change != ObjectChange::Remove {
            state.push((key, number));
            state.sort_unstable();
        }
        states.push(state);
    }
    states
}

#[test]
fn no_crash_breaks_a_dictionary_however_its_objects_are_placed() {
    for (number, placing) in Placing::ALL.into_iter().enumerate() {
        let is_tried = |model: &Model| *model == Model::Px86 || number == 2 || is_long_run();
        for model in [Model::Px86, Model::Bep].into_iter().filter(is_tried) {
            let heap = options(KEYS, 1, placing);
            let image = Image::new(heap.pm_bytes(), heap.dram_bytes());
            let objects = Objects::create(&image, KEYS, 1, placing).expect("room");
            let trace = record(image, &Schedule::default(), move |memory| {
                let mut session = objects.join(memory);
                for (number, (change, key)) in (1..).zip(SCRIPT) {
                    objects.change(&mut session, change, key, number).expect("room");
                    if number % 3 == 0 {
                        session.retire();
                    }
                    memory.output(number - 1);
                }
            });
            let bytes = heap.pm_bytes();
            let recover = |image: &CrashImage| {
                let opened = Objects::open(image, bytes, placing);
                opened.and_then(|objects| objects.contents(image)).map_err(|damage| damage.0)
            };
            let states = states();
            let judge = |found: &Vec<(u64, u64)>, point: &CrashPoint| {
                let done = point.outputs[0] as usize;
                let next = (done + 1).min(SCRIPT.len());
                match states[done..=next].contains(found) {
                    true => Ok(()),
                    false => Err(format!("{done} changes were done, {found:?} is there")),
                }
            };
            let how = Search::new(model);
            let outcome = search(&trace.expect("it ends"), &how, &check(recover, judge));
            assert!(outcome.finding.is_none(), "{placing}: {}", outcome.finding.expect("one"));
        }
    }
}

#[test]
fn what_changes_together_takes_fewer_and_dirtier_lines_if_it_lies_together() {
    let run = |options: &CoalescingOptions| Coalescing::run(options, &Arc::default());
    let defaults = CoalescingOptions::default();
    let options = CoalescingOptions { keys: 1000, retires_each: true, ..defaults };
    let found = run(&options).expect("it runs");
    let [packed, lines, together] = Placing::ALL.map(|placing| {
        found.row(ObjectChange::Insert, placing).expect("every kind with every placing").clone()
    });
    assert!(together.counts.lines < packed.counts.lines, "{together:?} {packed:?}");
    assert!(lines.counts.lines < packed.counts.lines, "{lines:?} {packed:?}");
    assert!(together.counts.dirtiness() > packed.counts.dirtiness(), "{together:?} {packed:?}");
    let straddling = Placing::ALL.map(|placing| found.space(placing).expect("each").straddling);
    assert!(straddling[0] > 0 && straddling[1..] == [0, 0], "{straddling:?}");
    assert_eq!(run(&options).expect("it runs").rows, found.rows);
    let many = CoalescingOptions { threads: 4, retires_each: false, ..options.clone() };
    let (one, two) = (run(&many), run(&many));
    assert_eq!(one.expect("it runs").rows, two.expect("it runs").rows);
    let most = CoalescingOptions { threads: 33, ..options.clone() };
    assert!(run(&most).expect_err("32 cores").to_string().contains("threads is 33"));
    assert_eq!(found.gain(&packed), 0.0);
    let none = CoalescingOptions { keys: 0, ..options };
    assert!(run(&none).expect_err("no keys").to_string().contains("keys is 0"));
}
