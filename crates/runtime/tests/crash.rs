//! With crashes: every image that Px86 allows, at every moment, of scripts that use everything.

use crate::steps::{is_one_of_two, models_and_kinds};
use seawall_explore::{
    CrashImage, CrashPoint, Model, Reached, Schedule, Search, check, record, search,
};
use seawall_memory::{Image, Memory};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Logging, RouteChoice};
use seawall_testkit::script::{self, NAME, ScriptStep, State, options, reopen, seen, states};

/// The message of the first bad image, if there is one.
fn explore(
    steps: &[ScriptStep],
    kind: Logging,
    how: &Search,
    flaw: HeapFlaw,
) -> Result<Reached, String> {
    explore_by(RouteChoice::Uncached, &options(1, 6), steps, kind, how, flaw)
}

fn explore_by(
    route: RouteChoice,
    options: &HeapOptions,
    steps: &[ScriptStep],
    kind: Logging,
    how: &Search,
    flaw: HeapFlaw,
) -> Result<Reached, String> {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let image = image.with_room(options.pm_bytes_max());
    let heap = Heap::create(&image, NAME, 7, options).expect("good options").with_flaw(flaw);
    let program = steps.to_vec();
    let trace = record(image, &Schedule::default(), move |memory| {
        let mut session = heap.join(memory);
        session.set_log_route(route);
        for (number, step) in (1..).zip(&program) {
            step.run(&mut session, kind, number).expect("room");
            memory.output(number - 1);
        }
    })
    .expect("it ends");
    let states: Vec<State> = states(steps).iter().map(seen).collect();
    let recover =
        |image: &CrashImage| reopen(image, image.pm_bytes(), flaw).map(|(_, state)| state);
    let judge = |found: &State, point: &CrashPoint| is_one_of_two(&states, found, point);
    let outcome = search(&trace, how, &check(recover, judge));
    match outcome.finding {
        None => Ok(outcome.reached),
        Some(finding) => Err(finding.to_string()),
    }
}

fn every_kind_of_step() -> Vec<ScriptStep> {
    vec![
        ScriptStep::Alloc(0, 40),
        ScriptStep::Alloc(1, 100),
        ScriptStep::Update,
        ScriptStep::Byte(1),
        ScriptStep::Aborted(Box::new(ScriptStep::Alloc(2, 64))),
        ScriptStep::Nested(2, 48, true),
        ScriptStep::Nested(3, 48, false),
        ScriptStep::Free(0),
        ScriptStep::Retire,
        ScriptStep::Alloc(0, 24),
        ScriptStep::Aborted(Box::new(ScriptStep::Update)),
        ScriptStep::Free(1),
    ]
}

#[test]
fn no_crash_breaks_a_script_under_any_model() {
    for (model, kind) in models_and_kinds() {
        explore(&every_kind_of_step(), kind, &Search::new(model), HeapFlaw::None)
            .unwrap_or_else(|finding| panic!("{kind:?}: {finding}"));
    }
}

#[test]
fn no_crash_at_all_breaks_a_short_script_under_px86() {
    let alloc = |slot| ScriptStep::Alloc(slot, 40);
    let scripts = [
        vec![alloc(0), ScriptStep::Byte(0), ScriptStep::Free(0)],
        vec![alloc(0), ScriptStep::Aborted(Box::new(ScriptStep::Update)), alloc(0)],
        vec![alloc(0), ScriptStep::Retire, ScriptStep::Update],
        vec![ScriptStep::Nested(0, 24, true)],
        vec![ScriptStep::Nested(0, 24, false)],
    ];
    let (one, two) = (Search::new(Model::Px86), Search::new(Model::Px86));
    let one = Search { depth: 0, budget: 1_000_000, point_limit: 50_000, ..one };
    for steps in scripts {
        for kind in [Logging::Redo, Logging::Undo] {
            let reached = explore(&steps, kind, &one, HeapFlaw::None);
            assert_eq!(reached, Ok(Reached::Complete), "{steps:?} {kind:?}");
            explore(&steps, kind, &two, HeapFlaw::None).unwrap();
        }
    }
}

#[test]
fn no_crash_breaks_a_script_whose_log_goes_through_the_caches() {
    for kind in [Logging::Redo, Logging::Undo] {
        let how = Search::new(Model::Px86);
        let steps = every_kind_of_step();
        explore_by(RouteChoice::Cached, &options(1, 6), &steps, kind, &how, HeapFlaw::None)
            .unwrap_or_else(|finding| panic!("{kind:?}: {finding}"));
    }
}

#[test]
fn no_crash_breaks_a_script_in_a_pool_whose_programs_store_in_place() {
    let options = HeapOptions { in_place: true, together: true, ..options(1, 6) };
    for steps in [every_kind_of_step(), sharing().1] {
        for kind in [Logging::Redo, Logging::Undo] {
            let (route, how) = (RouteChoice::Uncached, Search::new(Model::Px86));
            explore_by(route, &options, &steps, kind, &how, HeapFlaw::None)
                .unwrap_or_else(|finding| panic!("{kind:?}: {finding}"));
        }
    }
}

#[test]
fn no_crash_breaks_large_objects_and_the_reuse_of_their_place() {
    let steps = [
        ScriptStep::Alloc(0, 5000),
        ScriptStep::Byte(0),
        ScriptStep::Free(0),
        ScriptStep::Alloc(1, 5000),
        ScriptStep::Alloc(2, 70_000),
        ScriptStep::Free(2),
        ScriptStep::Alloc(3, 40),
    ];
    explore(&steps, Logging::Redo, &Search::new(Model::Px86), HeapFlaw::None).unwrap();
}

/// A pool with shelves, and steps that use them in every way.
fn sharing() -> (HeapOptions, Vec<ScriptStep>) {
    let options = HeapOptions { together: true, ..options(1, 6) };
    let steps = vec![
        ScriptStep::Together(0, [24, 40]),
        ScriptStep::Near(3, 30),
        ScriptStep::Near(2, 200),
        ScriptStep::Update,
        ScriptStep::Aborted(Box::new(ScriptStep::Near(1, 48))),
        ScriptStep::Free(1),
        ScriptStep::Near(3, 48),
        ScriptStep::Aborted(Box::new(ScriptStep::Together(2, [100, 70]))),
        ScriptStep::Retire,
        ScriptStep::Near(1, 100),
        ScriptStep::Free(0),
    ];
    (options, steps)
}

#[test]
fn no_crash_breaks_objects_that_share_lines_under_any_model() {
    let (options, steps) = sharing();
    for (model, kind) in models_and_kinds() {
        let (route, how) = (RouteChoice::Uncached, Search::new(model));
        explore_by(route, &options, &steps, kind, &how, HeapFlaw::None)
            .unwrap_or_else(|finding| panic!("{kind:?} under {model}: {finding}"));
    }
}

#[test]
fn no_crash_at_all_breaks_a_few_objects_that_share_lines_under_px86() {
    let together = || ScriptStep::Together(0, [24, 40]);
    let (options, _) = sharing();
    let how = Search { depth: 0, budget: 1_000_000, point_limit: 50_000, ..px86() };
    for steps in [
        vec![together(), ScriptStep::Free(0), ScriptStep::Near(0, 20)],
        vec![
            together(),
            ScriptStep::Aborted(Box::new(ScriptStep::Near(3, 90))),
            ScriptStep::Near(3, 90),
        ],
        vec![together(), ScriptStep::Retire, together()],
    ] {
        for kind in [Logging::Redo, Logging::Undo] {
            let route = RouteChoice::Uncached;
            let reached = explore_by(route, &options, &steps, kind, &how, HeapFlaw::None);
            assert_eq!(reached, Ok(Reached::Complete), "{steps:?} {kind:?}");
        }
    }
}

#[test]
fn objects_whose_states_are_not_all_logged_are_caught_under_px86() {
    let (options, steps) = sharing();
    let (route, flaw) = (RouteChoice::Uncached, HeapFlaw::UnloggedStates);
    let found = explore_by(route, &options, &steps, Logging::Redo, &px86(), flaw);
    let message = found.expect_err("nothing was found");
    assert!(message.contains("no object of") || message.contains("state"), "{message}");
}

fn px86() -> Search {
    Search::new(Model::Px86)
}

/// A pool of one chunk, and steps that need more of them: new size classes, and whole chunks.
fn growing() -> (HeapOptions, Vec<ScriptStep>) {
    let options = HeapOptions { bytes_max: 8 << 16, ..options(1, 1) };
    let steps = vec![
        ScriptStep::Alloc(0, 40),
        ScriptStep::Alloc(1, 100),
        ScriptStep::Update,
        ScriptStep::Aborted(Box::new(ScriptStep::Alloc(3, 300))),
        ScriptStep::Free(0),
        ScriptStep::Alloc(2, 300),
    ];
    (options, steps)
}

#[test]
fn no_crash_breaks_a_pool_while_it_grows() {
    let (options, mut steps) = growing();
    for (model, kind) in models_and_kinds() {
        let how = Search { depth: usize::from(model == Model::Px86), ..Search::new(model) };
        let flaw = HeapFlaw::None;
        explore_by(RouteChoice::Uncached, &options, &steps, kind, &how, flaw)
            .unwrap_or_else(|finding| panic!("{kind:?} under {model}: {finding}"));
    }
    steps = vec![ScriptStep::Alloc(0, 70_000), ScriptStep::Free(0), ScriptStep::Alloc(1, 140_000)];
    let (route, how) = (RouteChoice::Uncached, Search { depth: 0, ..Search::new(Model::Px86) });
    explore_by(route, &options, &steps, Logging::Redo, &how, HeapFlaw::None).unwrap();
}

#[test]
fn a_heap_that_counts_chunks_before_it_has_grown_is_caught_under_every_model() {
    let (options, steps) = growing();
    for model in Model::all() {
        let (route, how) = (RouteChoice::Uncached, Search::new(model));
        let flaw = HeapFlaw::EarlyGrowth;
        let found = explore_by(route, &options, &steps, Logging::Redo, &how, flaw);
        let message = found.expect_err("nothing was found");
        assert!(message.contains("bytes"), "{model}: {message}");
    }
}

#[test]
fn each_planted_bug_is_caught() {
    let reuse = vec![
        ScriptStep::Alloc(0, 5000),
        ScriptStep::Byte(0),
        ScriptStep::Free(0),
        ScriptStep::Alloc(1, 5000),
    ];
    let cases = [
        (HeapFlaw::NoFence, Logging::Redo, every_kind_of_step()),
        (HeapFlaw::NoFlush, Logging::Redo, every_kind_of_step()),
        (HeapFlaw::NoLogFlush, Logging::Redo, every_kind_of_step()),
        (HeapFlaw::LateUndo, Logging::Undo, every_kind_of_step()),
        (HeapFlaw::NoFreed, Logging::Redo, reuse),
    ];
    for (flaw, kind, steps) in cases {
        let found = explore(&steps, kind, &Search::new(Model::Px86), flaw);
        assert!(found.is_err(), "{flaw:?} was not caught");
    }
}

#[test]
fn a_heap_that_was_not_wholly_made_is_refused() {
    let options = options(1, 1);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let trace = record(image, &Schedule::default(), move |memory| {
        Heap::create(memory, NAME, 7, &options).expect("good options");
        memory.output(0);
    })
    .expect("it ends");
    let bytes = options.pm_bytes();
    let recover = |image: &CrashImage| {
        let Ok((heap, _)) = Heap::open(image, NAME, bytes) else { return Ok(false) };
        script::read(image, &heap).map(|state| state == State::default())
    };
    let judge = |whole: &bool, point: &CrashPoint| {
        if *whole || point.promised[0] == 0 { Ok(()) } else { Err("a heap is gone".to_owned()) }
    };
    let outcome = search(&trace, &Search::new(Model::Px86), &check(recover, judge));
    assert_eq!((outcome.finding, outcome.reached), (None, Reached::Complete));
}
