//! Every image that a crash may leave, as contents of chosen words, for litmus tests.

use crate::check::check;
use crate::crashed::CrashImage;
use crate::options::Search;
use crate::outcome::SearchOutcome;
use crate::search::search;
use crate::trace::Trace;
use seawall_memory::{Addr, MemoryExt, Model};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The values that the 8-byte words at `places` may have together after a crash at any point of
/// the run, and what the search for them covered.
pub fn reachable(
    trace: &Trace,
    model: Model,
    places: &[Addr],
) -> (BTreeSet<Vec<u64>>, SearchOutcome) {
    images(trace, &Search { thorough: true, ..Search::new(model) }, places)
}

fn images(trace: &Trace, options: &Search, places: &[Addr]) -> (BTreeSet<Vec<u64>>, SearchOutcome) {
    let found = RefCell::new(BTreeSet::new());
    let read =
        |image: &CrashImage| Ok(places.iter().map(|&at| image.load(at)).collect::<Vec<u64>>());
    let outcome = search(
        trace,
        options,
        &check(read, |values, _| {
            found.borrow_mut().insert(values.clone());
            Ok(())
        }),
    );
    (found.into_inner(), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::order::Cut;
    use crate::outcome::Reached;
    use crate::recorder::record;
    use crate::recoveries::Recoveries;
    use crate::schedule::Schedule;
    use crate::search::search_on;
    use crate::walk::Walk;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use seawall_memory::{Image, Memory};
    use std::ops::ControlFlow;
    use std::sync::Arc;

    const LINES: u64 = 4;

    fn words() -> Vec<Addr> {
        (0..LINES).flat_map(|line| [Addr::pm(64 * line), Addr::pm(64 * line + 8)]).collect()
    }

    /// Two threads of a few random operations on a few shared lines.
    fn random_run(seed: u64) -> Trace {
        let schedule = Schedule { threads: 2, seed, steps: 1000, ..Schedule::default() };
        let run = record(Image::new(64 * LINES, 0), &schedule, move |memory| {
            let thread = memory.thread() as u64;
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed * 2 + thread);
            for number in 0..rng.random_range(3..8u64) {
                let at = words()[rng.random_range(0..words().len())];
                match rng.random_range(0..9) {
                    0..4 => memory.store(at, 1 + number * 2 + thread),
                    4 => drop(memory.load::<u64>(at)),
                    5 => memory.flush(at, 8),
                    6 => memory.order(),
                    7 => memory.drain(),
                    _ => drop(memory.fetch_add(at, 16)),
                }
            }
        });
        run.expect("it ends")
    }

    /// Every image of the run at every failure point, in bytes: each cut that the model allows.
    fn all_images(trace: &Trace, model: Model, thorough: bool) -> BTreeSet<Vec<u8>> {
        let mut found = BTreeSet::new();
        let mut walk = Walk::new(trace, model);
        loop {
            let lines = trace.lines.len() as u32;
            let mut cut = Cut(vec![0; lines as usize]);
            while walk.is_failure_point(thorough) {
                if walk.state.order.allows(&cut) {
                    found.insert(bytes(trace, &cut));
                }
                let next = (0..lines).find(|&line| cut.get(line) < walk.stored.get(line));
                let Some(next) = next else { break };
                cut.set(next, cut.get(next) + 1);
                (0..next).for_each(|line| cut.set(line, 0));
            }
            if !walk.advance() {
                return found;
            }
        }
    }

    /// The image with the number of stores in `cut` of each line.
    fn bytes(trace: &Trace, cut: &Cut) -> Vec<u8> {
        let mut bytes = trace.start.to_vec();
        for (log, &kept) in trace.lines.iter().zip(&cut.0) {
            for &store in &log.stores[..kept as usize] {
                let change = trace.stores[store as usize].change;
                let at = change.word as usize * 8;
                bytes[at..at + 8].copy_from_slice(&change.new.to_le_bytes());
            }
        }
        bytes
    }

    #[test]
    fn the_search_reaches_all_that_the_model_allows_and_nothing_else() {
        for seed in 0..150 {
            let trace = random_run(seed);
            for (model, thorough) in Model::all().flat_map(|m| [(m, false), (m, true)]) {
                let options = Search { thorough, ..Search::new(model) };
                let (found, outcome) = images(&trace, &options, &words());
                assert_eq!(outcome.reached, Reached::Complete);
                let read = |bytes: Vec<u8>| {
                    let image = Image::from_pm(bytes, 0);
                    words().iter().map(|&at| image.load(at)).collect()
                };
                let all = all_images(&trace, model, thorough).into_iter().map(read).collect();
                assert_eq!(found, all, "seed {seed} under {model}, thorough: {thorough}");
            }
        }
    }

    /// A recovery whose reads and writes depend on what it has read.
    fn wander(memory: &impl Memory) -> Vec<u64> {
        let words = words();
        let mut seen = Vec::new();
        let mut at = 0;
        for step in 0..5 {
            let value: u64 = memory.load(words[at]);
            seen.push(value);
            let other = words[(at + 1 + value as usize) % words.len()];
            match (value + step) % 5 {
                0 => memory.store(other, value + 1),
                1 => memory.store(other.plus(1), value as u8),
                2 => memory.persist(other, 8),
                3 => memory.order(),
                _ => memory.flush(words[at], 8),
            }
            at = (at + 1 + value as usize) % words.len();
        }
        seen
    }

    /// A recovery that stores to words that it has not read, and reads them only once it has.
    fn overwrite(memory: &impl Memory) -> Vec<u64> {
        let words = words();
        let (done, two, three, four) = (words[0], words[2], words[4], words[6]);
        match memory.load::<u64>(done) {
            0 => {
                memory.store(two, 100u64);
                memory.store(three, 101u64);
                memory.persist(three, 8);
                memory.store(four, 102u64);
                memory.store(done, 3u64);
                memory.flush(done, 8);
                memory.order();
                vec![0]
            }
            done => vec![done, memory.load(two), memory.load(three), memory.load(four)],
        }
    }

    /// What recovery finds on all images: after one crash, and when one or two more cut it short.
    macro_rules! recovered {
        ($recovery:ident, $trace:expr, $model:expr) => {{
            let again = |images: &BTreeSet<Vec<u8>>| {
                let mut all = images.clone();
                for bytes in images {
                    let start = Image::from_pm(bytes.clone(), 0);
                    let recovery =
                        record(start, &Schedule::default(), |memory| drop($recovery(memory)));
                    all.extend(all_images(&recovery.unwrap(), $model, false));
                }
                all
            };
            let once = all_images($trace, $model, false);
            let twice = again(&once);
            let thrice = again(&twice);
            [once, twice, thrice].map(|images| {
                let images = images.into_iter();
                images.map(|bytes| $recovery(&Image::from_pm(bytes, 0))).collect()
            })
        }};
    }

    macro_rules! finds_all {
        ($recovery:ident, $seeds:expr) => {
            let mut known = Model::all().map(|_| Recoveries::default()).collect::<Vec<_>>();
            for seed in 0..$seeds {
                let trace = random_run(seed);
                for (model, known) in Model::all().zip(&mut known) {
                    let all: [BTreeSet<Vec<u64>>; 3] = recovered!($recovery, &trace, model);
                    for (depth, all) in all.into_iter().enumerate() {
                        // What is known of recovery holds for other runs, of the same depth.
                        let mut none = Recoveries::default();
                        let known = if depth == 2 { &mut *known } else { &mut none };
                        let found = RefCell::new(BTreeSet::new());
                        let noted = check(
                            |image: &CrashImage| Ok($recovery(image)),
                            |seen: &Vec<u64>, _| {
                                found.borrow_mut().insert(seen.clone());
                                Ok(())
                            },
                        );
                        let options = Search { depth, ..Search::new(model) };
                        let (trace, go_on) = (Arc::new(trace.clone()), ControlFlow::Continue(()));
                        let outcome = search_on(trace, &options, &noted, known, &mut |_| go_on);
                        assert_eq!(outcome.reached, Reached::Complete);
                        assert_eq!(found.take(), all, "seed {seed}, {model}, depth {depth}");
                    }
                }
            }
        };
    }

    #[test]
    fn recoveries_that_follow_what_they_read_find_all_that_full_images_give_them() {
        finds_all!(wander, 40);
    }

    #[test]
    fn recoveries_that_overwrite_what_they_have_not_read_find_all_that_full_images_give_them() {
        finds_all!(overwrite, 150);
    }
}
