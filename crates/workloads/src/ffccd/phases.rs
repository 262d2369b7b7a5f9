//! The order in which keys are put and removed.
//!
//! A thread owns the keys that equal its number modulo the number of threads. It starts with all of
//! them, and alternately removes four fifths of them and puts those back, phase after phase; the
//! choice and the order of the keys are random. So no two threads use the same key.

use crate::harness::workload::{below, stream};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The phases of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    keys: Vec<u64>,
    rng: Xoshiro256PlusPlus,
    touches: bool,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Get(u64),
    Remove(u64),
    Put(u64),
    Touch(u64),
}

impl Step {
    /// The key of the step.
    pub(crate) fn key(self) -> u64 {
        let (Step::Get(key) | Step::Remove(key) | Step::Put(key) | Step::Touch(key)) = self;
        key
    }
}

/// With touches, every step of this number is one.
const TOUCH_EVERY: u64 = 4;

impl Phases {
    /// The phases of thread `place.0` of `place.1` in a structure of `entries` entries; with
    /// `touches` every fourth step is neither a put nor a remove.
    pub(crate) fn new(entries: u64, place: (u64, u64), seed: u64, touches: bool) -> Phases {
        let (thread, threads) = place;
        let keys = (thread..entries).step_by(threads as usize).collect();
        Phases { keys, rng: stream(seed, thread + 1), touches }
    }

    fn changes(&self) -> u64 {
        changes(self.keys.len() as u64)
    }

    /// Step `number`; call it for each number, in order. `None` if there are no keys.
    pub(crate) fn step(&mut self, number: u64) -> Option<Step> {
        let mut change = number;
        if self.keys.is_empty() {
            return None;
        }
        if self.touches {
            if number % TOUCH_EVERY == TOUCH_EVERY - 1 {
                let at = below(&mut self.rng, self.keys.len() as u64);
                return Some(Step::Touch(self.keys[at as usize]));
            }
            change -= number / TOUCH_EVERY;
        }
        let (phase, at) = (change / self.changes(), change % self.changes());
        let is_put = phase % 2 == 1;
        if at == 0 {
            let shuffled = if is_put { self.changes() as usize } else { self.keys.len() };
            shuffle(&mut self.keys[..shuffled], &mut self.rng);
        }
        let key = self.keys[at as usize];
        Some(if is_put { Step::Put(key) } else { Step::Remove(key) })
    }

    /// A random number for the choices of a step.
    pub(crate) fn dice(&mut self) -> u64 {
        below(&mut self.rng, u64::MAX)
    }
}

/// The number of changes in one phase of a thread that has `keys` keys.
fn changes(keys: u64) -> u64 {
    (4 * keys / 5).max(1)
}

/// The number of steps in the first `phases` phases; for the other parameters see [`Phases::new`].
pub(crate) fn steps(entries: u64, place: (u64, u64), phases: u64, touches: bool) -> u64 {
    let (thread, threads) = place;
    let keys = entries.saturating_sub(thread).div_ceil(threads);
    let changes = phases * changes(keys);
    let touched = if touches { changes.saturating_sub(1) / (TOUCH_EVERY - 1) } else { 0 };
    if keys == 0 { 0 } else { changes + touched }
}

/// Shuffles the keys uniformly.
pub(crate) fn shuffle(keys: &mut [u64], rng: &mut Xoshiro256PlusPlus) {
    for place in (1..keys.len()).rev() {
        keys.swap(place, below(rng, place as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn four_fifths_go_and_come_back_and_no_thread_needs_anothers_keys() {
        let (entries, threads) = (103, 4);
        for (thread, touches) in (0..threads).flat_map(|thread| [(thread, false), (thread, true)]) {
            let place = (thread, threads);
            let mut phases = Phases::new(entries, place, 5, touches);
            let steps = |phases| steps(entries, place, phases, touches);
            let mut there: BTreeSet<u64> = (0..entries).filter(|key| key % 4 == thread).collect();
            let all = there.len();
            for phase in 0..4 {
                for number in steps(phase)..steps(phase + 1) {
                    match phases.step(number).unwrap() {
                        Step::Remove(key) => assert!(there.remove(&key)),
                        Step::Put(key) => assert!(key % 4 == thread && there.insert(key)),
                        Step::Touch(key) => assert!(touches && key % 4 == thread),
                        Step::Get(_) => panic!("phases search for nothing"),
                    }
                }
                let left = if phase % 2 == 0 { all - 4 * all / 5 } else { all };
                assert_eq!(there.len(), left, "after phase {phase}");
            }
        }
    }

    #[test]
    fn a_thread_without_keys_has_nothing_to_do() {
        let mut phases = Phases::new(2, (3, 4), 1, true);
        assert_eq!((steps(2, (3, 4), 3, true), phases.step(0)), (0, None));
    }
}
