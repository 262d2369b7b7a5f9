//! With crashes: every image that a model allows, at every moment, of runs that use everything.

use crate::is_tried;
use crate::subject::{Contents, Subject, TINY, WIDE, heap_options, made, reopened};
use seawall_collections::{KvMap, Map, MapFlaw, MapOptions};
use seawall_explore::{CrashImage, CrashPoint, Model, Reached, Schedule, Search};
use seawall_explore::{check, record, search};
use seawall_memory::Memory;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64, u64),
    Remove(u64),
    Retire,
}

/// A run of one thread: what the map holds first, and what is done then.
struct Run {
    first: u64,
    steps: Vec<Step>,
    options: MapOptions,
    chunks: u64,
}

impl Run {
    fn tiny(first: u64, steps: &[Step]) -> Run {
        Run { first, steps: steps.to_vec(), options: TINY, chunks: 24 }
    }

    /// What the map holds before each step and after the last.
    fn states(&self) -> Vec<Contents> {
        let mut contents: Contents = (0..self.first).map(|key| (key, key)).collect();
        let mut states = vec![contents.clone()];
        for step in &self.steps {
            match *step {
                Step::Insert(key, value) => drop(contents.insert(key, value)),
                Step::Remove(key) => drop(contents.remove(&key)),
                Step::Retire => {}
            }
            states.push(contents.clone());
        }
        states
    }

    /// The message of the first bad image, if there is one.
    fn explore<S: Subject>(&self, how: &Search, flaw: MapFlaw) -> Result<Reached, String> {
        let options = heap_options(1, self.chunks);
        let (image, heap, map) = made::<S>(&options, &self.options);
        {
            let mut session = heap.join(&image);
            let mut insert = |key| map.insert(&mut session, key, key).expect("room");
            assert!((0..self.first).all(|key| !insert(key)));
            session.retire();
        }
        let (map, steps) = (map.flawed(flaw), self.steps.clone());
        let trace = record(image, &Schedule::default(), move |memory| {
            let mut session = heap.join(memory);
            for (number, step) in (0..).zip(&steps) {
                match *step {
                    Step::Insert(key, value) => {
                        map.insert(&mut session, key, value).map(drop).expect("room")
                    }
                    Step::Remove(key) => map.remove(&mut session, key).map(drop).expect("done"),
                    Step::Retire => session.retire(),
                }
                memory.output(number);
            }
        })
        .expect("it ends");
        let states = self.states();
        let bytes = options.pm_bytes();
        let recover =
            |image: &CrashImage| reopened::<S, _>(image, bytes).map(|(_, _, found)| found);
        let judge = |found: &Contents, point: &CrashPoint| {
            let done = point.outputs[0] as usize;
            match states[done..=(done + 1).min(states.len() - 1)].contains(found) {
                true => Ok(()),
                false => Err(format!("after {done} steps: {found:?}")),
            }
        };
        let outcome = search(&trace, how, &check(recover, judge));
        outcome.finding.map_or(Ok(outcome.reached), |finding| Err(finding.to_string()))
    }
}

/// How many keys from 0 on fit before the first split.
fn fitting<S: Subject>(options: &MapOptions) -> u64 {
    let (image, heap, map) = made::<S>(&heap_options(1, 24), options);
    let mut session = heap.join(&image);
    let objects = |map: &S| {
        let size = map.check(&image, &heap).expect("whole");
        size.objects - size.keys * S::RECORDS
    };
    let before = objects(&map);
    let splits = |key: &u64| {
        map.insert(&mut session, *key, *key).expect("room");
        objects(&map) > before
    };
    (0..).find(splits).expect("some do not fit")
}

/// Every kind of change, some with a split, the first of which needs a larger directory.
fn mixed<S: Subject>() -> Run {
    let first = fitting::<S>(&TINY) - 1;
    let mut steps = vec![
        Step::Insert(0, 2),
        Step::Remove(1),
        Step::Retire,
        Step::Insert(2, 15),
        Step::Remove(0),
        Step::Insert(1, 3),
    ];
    steps.extend((first..first + 14).map(|key| Step::Insert(key, key)));
    steps.extend([Step::Remove(2), Step::Insert(first, 15), Step::Insert(first, 1)]);
    Run::tiny(first, &steps)
}

/// Splits of a segment of 4 KiB, which are filled past the log.
fn large<S: Subject>() -> Run {
    let options = MapOptions { segment_lines: 64, depth: 1 };
    let first = fitting::<S>(&options);
    let steps = (first - 1..first + 2).map(|key| Step::Insert(key, key)).collect();
    Run { first: first - 1, steps, options, chunks: 24 }
}

/// Removals until little is left, so that segments merge, and the merged ones again.
fn shrinking() -> Run {
    let steps = (0..28).map(Step::Remove).collect();
    Run { first: 32, steps, options: WIDE, chunks: 24 }
}

fn shallow(model: Model) -> Search {
    Search { depth: 1, budget: 20_000, ..Search::new(model) }
}

#[test]
fn no_crash_breaks_a_map_under_any_model() {
    for model in Model::all() {
        if is_tried(model, 0, 2) {
            mixed::<Map>().explore::<Map>(&shallow(model), MapFlaw::None).unwrap();
        }
        if is_tried(model, 1, 2) {
            mixed::<KvMap>().explore::<KvMap>(&shallow(model), MapFlaw::None).unwrap();
        }
    }
}

#[test]
fn no_crash_at_all_breaks_a_change_under_px86() {
    let search =
        Search { depth: 0, budget: 1_000_000, point_limit: 50_000, ..shallow(Model::Px86) };
    let scripts = [
        vec![Step::Insert(50, 1), Step::Insert(50, 2), Step::Remove(50)],
        vec![Step::Remove(3), Step::Insert(3, 4), Step::Retire],
    ];
    for steps in scripts {
        let run = Run::tiny(6, &steps);
        assert_eq!(run.explore::<Map>(&search, MapFlaw::None), Ok(Reached::Complete), "{steps:?}");
        assert_eq!(
            run.explore::<KvMap>(&search, MapFlaw::None),
            Ok(Reached::Complete),
            "{steps:?}"
        );
    }
}

#[test]
fn no_crash_breaks_a_split_that_is_filled_past_the_log() {
    large::<Map>().explore::<Map>(&shallow(Model::Px86), MapFlaw::None).unwrap();
}

#[test]
fn no_crash_breaks_a_map_that_shrinks() {
    for model in Model::all() {
        let search = Search { budget: 3_000, ..shallow(model) };
        shrinking().explore::<Map>(&search, MapFlaw::None).unwrap();
        shrinking().explore::<KvMap>(&search, MapFlaw::None).unwrap();
    }
    let search = shallow(Model::Px86);
    assert!(shrinking().explore::<Map>(&search, MapFlaw::EarlySegment).is_err());
}

#[test]
fn each_deliberate_mistake_is_caught() {
    let search = shallow(Model::Px86);
    for flaw in [MapFlaw::EarlySegment, MapFlaw::EarlyDirectory] {
        assert!(mixed::<Map>().explore::<Map>(&search, flaw).is_err(), "{flaw:?}");
    }
    assert!(large::<Map>().explore::<Map>(&search, MapFlaw::EarlySegment).is_err());
    for flaw in [MapFlaw::EarlyRecord, MapFlaw::LateFree] {
        assert!(mixed::<KvMap>().explore::<KvMap>(&search, flaw).is_err(), "{flaw:?}");
    }
}
