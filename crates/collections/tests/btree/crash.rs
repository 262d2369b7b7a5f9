//! With crashes: every image that a crash may leave, at every moment, of all ways to change a tree.

use crate::script::{State, Step, made, options, reopen};
use seawall_collections::BTreeFlaw;
use seawall_explore::{
    CrashImage, CrashPoint, Model, Reached, Schedule, Search, check, record, search,
};
use seawall_memory::Memory;

/// Runs `before` without crashes and explores `steps`; the message of the first bad image, if any.
fn explore<const SLOTS: usize, const KEYS: usize>(
    before: &[Step],
    steps: &[Step],
    how: &Search,
    flaw: BTreeFlaw,
) -> Result<Reached, String> {
    let options = options(1, 2);
    let (image, heap, tree) = made::<SLOTS, KEYS>(&options);
    let tree = tree.with_flaw(flaw);
    let mut state = State::new();
    let mut session = heap.join(&image);
    for step in before {
        step.run(&tree, &mut session).expect("room");
        step.apply(&mut state);
    }
    if flaw != BTreeFlaw::None {
        // What a log holds of a word hides what was stored over it in place.
        session.retire();
    }
    session.leave();
    let mut states = vec![state.clone()];
    for step in steps {
        step.apply(&mut state);
        states.push(state.clone());
    }
    let program = steps.to_vec();
    let trace = record(image, &Schedule::default(), move |memory| {
        let mut session = heap.join(memory);
        for (number, step) in (0..).zip(&program) {
            step.run(&tree, &mut session).expect("room");
            memory.output(number);
        }
    })
    .expect("it ends");
    let bytes = options.pm_bytes();
    let recover =
        |image: &CrashImage| reopen::<_, SLOTS, KEYS>(image, bytes).map(|(_, _, state)| state);
    let judge = |found: &State, point: &CrashPoint| {
        let done = point.outputs[0] as usize;
        let next = (done + 1).min(states.len() - 1);
        if states[done..=next].contains(found) {
            return Ok(());
        }
        Err(format!("after {done} steps the tree holds {found:?}"))
    };
    let outcome = search(&trace, how, &check(recover, judge));
    match outcome.finding {
        None => Ok(outcome.reached),
        Some(finding) => Err(finding.to_string()),
    }
}

fn inserts(keys: impl IntoIterator<Item = u64>) -> Vec<Step> {
    keys.into_iter().map(|key| Step::Insert(key, key + 1000)).collect()
}

/// What to run before, and what then, so that together every kind of change is made.
fn scripts() -> Vec<(&'static str, Vec<Step>, Vec<Step>)> {
    let two_levels = inserts([10, 20, 30, 40]);
    let three_levels = inserts((1..=16).map(|key| 10 * key));
    let lone: Vec<Step> = [two_levels.clone(), vec![Step::Remove(10)]].concat();
    vec![
        ("insert", vec![], inserts([7])),
        ("replace", inserts([7]), vec![Step::Insert(7, 8)]),
        ("update", inserts([7]), vec![Step::Update(7, 5)]),
        ("remove", inserts([7, 8]), vec![Step::Remove(7)]),
        ("a root leaf splits", inserts([10, 20, 30]), inserts([25])),
        ("a leaf splits", two_levels.clone(), inserts([50, 60])),
        ("an inner root splits", inserts((1..=9).map(|key| 10 * key)), inserts([100, 110, 5])),
        ("inner nodes split", three_levels.clone(), inserts([45, 46, 47, 48])),
        ("a leaf goes, and then a root", lone, vec![Step::Remove(20), Step::Remove(30)]),
        (
            "nodes that have nothing else go with a leaf",
            [three_levels, (1..=9).map(|key| Step::Remove(10 * key)).collect()].concat(),
            (10..=13).map(|key| Step::Remove(10 * key)).collect(),
        ),
    ]
}

#[test]
fn no_crash_breaks_any_kind_of_change_under_px86() {
    for (name, before, steps) in scripts() {
        explore::<3, 3>(&before, &steps, &Search::new(Model::Px86), BTreeFlaw::None)
            .unwrap_or_else(|finding| panic!("{name}: {finding}"));
    }
}

#[test]
fn no_crash_at_all_breaks_one_change_of_each_kind_under_px86() {
    let how =
        Search { depth: 0, budget: 1_000_000, point_limit: 50_000, ..Search::new(Model::Px86) };
    for (name, before, steps) in scripts() {
        let reached = explore::<3, 3>(&before, &steps[..1], &how, BTreeFlaw::None);
        assert_eq!(reached, Ok(Reached::Complete), "{name}");
    }
}

#[test]
fn no_crash_breaks_a_change_under_any_model() {
    for model in Model::all() {
        for (name, before, steps) in scripts() {
            let how = Search { depth: 1, budget: 5_000, ..Search::new(model) };
            explore::<3, 3>(&before, &steps, &how, BTreeFlaw::None)
                .unwrap_or_else(|finding| panic!("{model:?}, {name}: {finding}"));
        }
    }
}

#[test]
fn each_deliberate_mistake_in_what_persists_together_is_caught() {
    for flaw in [BTreeFlaw::EarlyLink, BTreeFlaw::EarlySlot, BTreeFlaw::EarlyUnlink] {
        let caught = scripts().into_iter().any(|(_, before, steps)| {
            explore::<3, 3>(&before, &steps, &Search::new(Model::Px86), flaw).is_err()
        });
        assert!(caught, "{flaw:?} was not caught");
    }
}

/// Merges of nodes that have something left: of leaves to either side, of inner nodes, and one that
/// takes half of what its neighbour has.
fn merges() -> Vec<(&'static str, Vec<Step>, Vec<Step>)> {
    let tens = |count: u64| inserts((1..=count).map(|key| 10 * key));
    let remove = |keys: &[u64]| keys.iter().map(|key| Step::Remove(*key)).collect::<Vec<_>>();
    let halves = || inserts([10, 20, 30, 40, 15, 50, 60, 55]);
    vec![
        ("into the leaf before", halves(), remove(&[60, 55, 50])),
        ("into the leaf behind", halves(), remove(&[10, 15, 20])),
        ("inner nodes", [tens(30), remove(&[10, 20, 30, 40, 50, 60, 70])].concat(), {
            remove(&[80, 90, 100, 110, 120])
        }),
        ("half of a neighbour", [tens(40), remove(&[10, 20, 30])].concat(), {
            remove(&[40, 50, 60, 70, 80])
        }),
    ]
}

#[test]
fn no_crash_breaks_a_merge_of_nodes_that_have_something_left() {
    for (name, before, steps) in merges() {
        for model in [Model::Px86, Model::Hops] {
            let how = Search { depth: 1, budget: 10_000, ..Search::new(model) };
            explore::<4, 3>(&before, &steps, &how, BTreeFlaw::None)
                .unwrap_or_else(|finding| panic!("{name}: {finding}"));
        }
    }
    let caught = merges().into_iter().any(|(_, before, steps)| {
        let how = Search::new(Model::Px86);
        explore::<4, 3>(&before, &steps, &how, BTreeFlaw::EarlyUnlink).is_err()
    });
    assert!(caught);
}
