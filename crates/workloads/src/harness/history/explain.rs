//! The least cut of a history that explains an image, as a fixpoint.
//!
//! Start with the completed operations. Include the effects that the cut covers, and with each the
//! earlier ones on its key, whose operations then join the cut. If a key does not show its last
//! included effect, include the next effect on it that matches the image. Each step is forced, so
//! the result is the least cut, or there is none.

use super::{Contents, Effect, History, InWords, Violation};
use rustc_hash::FxHashMap;

/// An index over a history: built once, extended as the history grows, used many times.
#[derive(Clone, Debug, Default)]
pub struct Explainer {
    effects: Vec<Effect>,
    keys: Vec<Key>,
    numbers: FxHashMap<u64, usize>,
    threads: Vec<Vec<Step>>,
}

/// A key and the places in the history where it changed.
#[derive(Clone, Debug)]
struct Key {
    key: u64,
    effects: Vec<usize>,
}

/// An effect as its thread sees it.
#[derive(Clone, Copy, Debug)]
struct Step {
    number: u64,
    effect: usize,
    key: usize,
    place: usize,
}

/// The cut that grows while one image is explained.
struct Cut<'a> {
    index: &'a Explainer,
    len: usize,
    /// The number of operations of each thread in the cut.
    operations: Vec<u64>,
    /// The number of steps of each thread that have been examined.
    steps: Vec<usize>,
    /// The number of effects of each key in the cut.
    included: Vec<usize>,
    /// Keys whose included effects have changed since the last comparison.
    changed: Vec<usize>,
    /// Threads whose operations have grown since they were last followed.
    grown: Vec<usize>,
}

impl Explainer {
    /// An empty index.
    pub fn new() -> Explainer {
        Explainer::default()
    }

    /// The number of indexed effects.
    pub fn len(&self) -> usize {
        self.effects.len()
    }

    /// True when no effect is indexed.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Adds the effects that `history` has gained since the last call.
    pub fn extend(&mut self, history: &History) {
        for effect in &history.lock()[self.effects.len()..] {
            let next = self.keys.len();
            let key = *self.numbers.entry(effect.key).or_insert(next);
            if key == next {
                self.keys.push(Key { key: effect.key, effects: Vec::new() });
            }
            let place = self.keys[key].effects.len();
            let index = self.effects.len();
            self.keys[key].effects.push(index);
            if self.threads.len() <= effect.thread {
                self.threads.resize(effect.thread + 1, Vec::new());
            }
            let step = Step { number: effect.number, effect: index, key, place };
            self.threads[effect.thread].push(step);
            self.effects.push(*effect);
        }
    }

    /// As [`History::explain`], over all effects that are indexed.
    ///
    /// # Errors
    /// The key that no cut explains.
    pub fn explain(
        &self,
        before: &Contents,
        after: &Contents,
        completed: &[u64],
    ) -> Result<Vec<u64>, Violation> {
        self.explain_first(self.len(), before, after, completed)
    }

    /// As [`explain`](Explainer::explain), over the first `len` effects only: those that a crash
    /// during the run can show.
    ///
    /// # Errors
    /// The key that no cut explains.
    pub fn explain_first(
        &self,
        len: usize,
        before: &Contents,
        after: &Contents,
        completed: &[u64],
    ) -> Result<Vec<u64>, Violation> {
        self.untouched(before, after)?;
        let threads = self.threads.len().max(completed.len());
        let mut operations = completed.to_vec();
        operations.resize(threads, 0);
        let mut cut = Cut {
            index: self,
            len: len.min(self.len()),
            operations,
            steps: vec![0; threads],
            included: vec![0; self.keys.len()],
            changed: (0..self.keys.len()).collect(),
            grown: (0..self.threads.len()).collect(),
        };
        loop {
            if let Some(thread) = cut.grown.pop() {
                cut.follow(thread);
            } else if let Some(key) = cut.changed.pop() {
                cut.compare(key, before, after)?;
            } else {
                return Ok(cut.operations);
            }
        }
    }

    /// Checks that keys without effects are unchanged.
    fn untouched(&self, before: &Contents, after: &Contents) -> Result<(), Violation> {
        let differ = |left: &Contents, right: &Contents| {
            let same = |(key, tag): &(&u64, &u64)| {
                right.get(key) == Some(*tag) || self.numbers.contains_key(key)
            };
            left.iter().find(|entry| !same(entry)).map(|(key, _)| *key)
        };
        let Some(key) = differ(before, after).or_else(|| differ(after, before)) else {
            return Ok(());
        };
        Err(Violation(format!(
            "key {key} shows {}, but no operation changed it and at the start it was {}",
            InWords(tag_of(after, key)),
            InWords(tag_of(before, key)),
        )))
    }
}

fn tag_of(contents: &Contents, key: u64) -> u64 {
    contents.get(&key).copied().unwrap_or(0)
}

impl Cut<'_> {
    /// Includes the effects of the operations of `thread` that are in the cut.
    fn follow(&mut self, thread: usize) {
        while let Some(step) = self.index.threads[thread].get(self.steps[thread]) {
            if step.number >= self.operations[thread] || step.effect >= self.len {
                return;
            }
            self.steps[thread] += 1;
            self.include(step.key, step.place);
        }
    }

    /// Includes the effects on `key` up to the one at `place`, and their operations.
    fn include(&mut self, key: usize, place: usize) {
        if place < self.included[key] {
            return;
        }
        for effect in &self.index.keys[key].effects[self.included[key]..=place] {
            let effect = &self.index.effects[*effect];
            if self.operations[effect.thread] <= effect.number {
                self.operations[effect.thread] = effect.number + 1;
                self.grown.push(effect.thread);
            }
        }
        self.included[key] = place + 1;
        self.changed.push(key);
    }

    /// Includes more effects on `key` if the image does not show the last included one.
    fn compare(
        &mut self,
        key: usize,
        before: &Contents,
        after: &Contents,
    ) -> Result<(), Violation> {
        let Key { key: name, effects } = &self.index.keys[key];
        let shown = tag_of(after, *name);
        let included = self.included[key];
        let expected = match included.checked_sub(1) {
            Some(last) => self.index.effects[effects[last]].tag,
            None => tag_of(before, *name),
        };
        if shown == expected {
            return Ok(());
        }
        let possible = effects.partition_point(|effect| *effect < self.len);
        let mut later = included..possible;
        match later.find(|place| self.index.effects[effects[*place]].tag == shown) {
            Some(place) => {
                self.include(key, place);
                Ok(())
            }
            None => Err(self.violation(key, shown, expected)),
        }
    }

    fn violation(&self, key: usize, shown: u64, expected: u64) -> Violation {
        let Key { key: name, effects } = &self.index.keys[key];
        let included = self.included[key];
        let earlier = effects[..included.saturating_sub(1)].iter();
        let was_shown = earlier.rev().find(|effect| self.index.effects[**effect].tag == shown);
        let why = match (included.checked_sub(1), was_shown) {
            (None, _) => "no operation makes it so".to_owned(),
            (Some(last), was) => {
                let last = self.index.effects[effects[last]];
                let by = format!("operation {} of thread {}", last.number, last.thread);
                let lost = match was {
                    Some(_) => "which undoes it",
                    None => "and no later operation makes it so",
                };
                format!("{by} had completed, or something that follows it is there, {lost}")
            }
        };
        Violation(format!(
            "key {name} shows {}, expected {}: {why}",
            InWords(shown),
            InWords(expected)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{initial_tag, tag};
    use super::*;
    use proptest::prelude::*;

    fn contents<const N: usize>(entries: [(u64, u64); N]) -> Contents {
        Contents::from(entries)
    }

    /// Thread 0 inserts keys 1, 2 and deletes 1; thread 1 inserts 1 after that.
    fn run() -> History {
        let history = History::new();
        history.effect(0, 0, 1, tag(0, 0));
        history.effect(0, 1, 2, tag(0, 1));
        history.effect(0, 2, 1, 0);
        history.effect(1, 5, 1, tag(1, 5));
        history
    }

    #[test]
    fn every_prefix_is_explained_by_the_operations_in_it() {
        let history = run();
        let none = contents([]);
        let explain = |after| history.explain(&none, &after, &[0, 0]);
        assert_eq!(explain(contents([])), Ok(vec![0, 0]));
        assert_eq!(explain(contents([(1, tag(0, 0))])), Ok(vec![1, 0]));
        assert_eq!(explain(contents([(1, tag(0, 0)), (2, tag(0, 1))])), Ok(vec![2, 0]));
        assert_eq!(explain(contents([(2, tag(0, 1))])), Ok(vec![3, 0]));
        assert_eq!(explain(contents([(2, tag(0, 1)), (1, tag(1, 5))])), Ok(vec![3, 6]));
    }

    #[test]
    fn a_completed_operation_that_is_lost_is_a_violation_that_names_it() {
        let lost = run().explain(&contents([]), &contents([(1, tag(0, 0))]), &[2, 0]);
        let message = lost.unwrap_err().to_string();
        assert!(message.contains("key 2 shows absent"), "{message}");
        assert!(message.contains("operation 1 of thread 0"), "{message}");
    }

    #[test]
    fn an_operation_that_is_there_in_part_is_a_violation() {
        let history = History::new();
        history.effect(0, 0, 1, tag(0, 0));
        history.effect(0, 0, 2, tag(0, 0));
        let before = contents([(1, initial_tag(1)), (2, initial_tag(2))]);
        let torn = contents([(1, tag(0, 0)), (2, initial_tag(2))]);
        assert!(history.explain(&before, &torn, &[0]).is_err());
        let whole = contents([(1, tag(0, 0)), (2, tag(0, 0))]);
        assert_eq!(history.explain(&before, &whole, &[0]), Ok(vec![1]));
        assert_eq!(history.explain(&before, &before, &[0]), Ok(vec![0]));
    }

    #[test]
    fn a_later_operation_without_the_one_before_it_is_a_violation() {
        let skipped = contents([(2, tag(0, 1))]);
        let history = History::new();
        history.effect(0, 0, 1, tag(0, 0));
        history.effect(0, 1, 2, tag(0, 1));
        assert!(history.explain(&contents([]), &skipped, &[]).is_err());
        let other_thread = contents([(1, tag(1, 5))]);
        assert!(run().explain(&contents([]), &other_thread, &[]).is_err());
    }

    #[test]
    fn a_key_that_nobody_touched_must_stay() {
        let before = contents([(9, initial_tag(0))]);
        let message = run().explain(&before, &contents([]), &[]).unwrap_err().to_string();
        assert!(message.contains("key 9 shows absent"), "{message}");
        assert!(message.contains("initial entry 0"), "{message}");
        assert!(run().explain(&contents([]), &before, &[]).is_err());
    }

    #[test]
    fn effects_after_the_crash_explain_nothing() {
        let index = run().index();
        let after = contents([(2, tag(0, 1))]);
        assert!(index.explain_first(2, &contents([]), &after, &[]).is_err());
        assert_eq!(index.explain_first(3, &contents([]), &after, &[]), Ok(vec![3, 0]));
    }

    proptest! {
        #[test]
        fn the_fixpoint_agrees_with_trying_every_cut(
            steps in proptest::collection::vec((0usize..3, 0u64..3, any::<bool>()), 0..9),
            pick: prop::sample::Index, drop in 0u64..4,
        ) {
            let history = History::new();
            let mut numbers = [0; 3];
            for (thread, key, insert) in steps {
                let entry = if insert { tag(thread, numbers[thread]) } else { 0 };
                history.effect(thread, numbers[thread], key, entry);
                numbers[thread] += 1;
            }
            let effects = history.effects();
            let mut after = state(&effects[..pick.index(effects.len() + 1)], &[u64::MAX; 3]);
            after.remove(&drop);
            let found = history.explain(&contents([]), &after, &[0; 3]);
            let cuts = every_cut(&effects, numbers, &after);
            match found {
                Ok(cut) => {
                    let cut = [0, 1, 2].map(|thread: usize| cut.get(thread).copied().unwrap_or(0));
                    prop_assert!(cuts.contains(&cut));
                    prop_assert!(cuts.iter().all(|c| c.iter().zip(&cut).all(|(c, n)| c >= n)));
                }
                Err(_) => prop_assert!(cuts.is_empty(), "{cuts:?} explain it"),
            }
        }
    }

    fn state(effects: &[Effect], cut: &[u64; 3]) -> Contents {
        let mut state = Contents::new();
        for effect in effects.iter().filter(|effect| effect.number < cut[effect.thread]) {
            if effect.tag == 0 {
                state.remove(&effect.key);
            } else {
                state.insert(effect.key, effect.tag);
            }
        }
        state
    }

    fn closed(effects: &[Effect], cut: &[u64; 3]) -> bool {
        let included = |effect: &Effect| effect.number < cut[effect.thread];
        effects.iter().enumerate().all(|(place, effect)| {
            let mut earlier = effects[..place].iter().filter(|other| other.key == effect.key);
            !included(effect) || earlier.all(included)
        })
    }

    fn every_cut(effects: &[Effect], numbers: [u64; 3], after: &Contents) -> Vec<[u64; 3]> {
        let mut cuts = Vec::new();
        for first in 0..=numbers[0] {
            for second in 0..=numbers[1] {
                cuts.extend((0..=numbers[2]).map(|third| [first, second, third]));
            }
        }
        cuts.retain(|cut| closed(effects, cut) && state(effects, cut) == *after);
        cuts
    }
}
