//! How many schedules there are, from how those that were made branch.
//!
//! A schedule is a node of a tree: its children have one more choice, which comes later. Nodes with
//! as many interruptions and as many delays are a class, and classes are made in order, so those
//! with few of both are known whole. Of a class that is not, the children of the nodes that were
//! made stand for those of all (Knuth, "Estimating the Efficiency of Backtrack Programs", 1975). Of
//! one that has not begun, a class with a choice less stands for it: of `n` places behind which
//! another choice may follow, one more choice leaves the `n`th part less.

use std::collections::BTreeMap;

/// Interruptions and delays.
pub(crate) type Class = (usize, usize);

/// How the schedules that were made branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branching {
    made: BTreeMap<Class, u64>,
    children: BTreeMap<(Class, Class), u64>,
}

/// Children of a node in its own class at most, on the mean: a class of which few nodes were made
/// is estimated at no more than ten times what leads into it.
const SAME_MAX: f64 = 0.9;

impl Branching {
    pub(crate) fn make(&mut self, class: Class) {
        *self.made.entry(class).or_default() += 1;
    }

    pub(crate) fn branch(&mut self, from: Class, to: Class) {
        *self.children.entry((from, to)).or_default() += 1;
    }

    fn made(&self, class: Class) -> f64 {
        self.made.get(&class).map_or(0.0, |made| *made as f64)
    }

    fn children(&self, from: Class, to: Class) -> f64 {
        self.children.get(&(from, to)).map_or(0.0, |count| *count as f64)
    }

    /// An estimate of the schedules with at most these interruptions and delays.
    pub(crate) fn within(&self, (interruptions, delays): Class) -> u64 {
        let classes = (0..=interruptions).flat_map(|at| (0..=delays).map(move |of| (at, of)));
        let mut sizes = BTreeMap::new();
        for class in classes {
            let size = self.size(class, &sizes);
            sizes.insert(class, size);
        }
        sizes.into_values().sum::<f64>().round() as u64
    }

    /// The nodes of a class; `sizes` has those of the classes before it.
    fn size(&self, class: Class, sizes: &BTreeMap<Class, f64>) -> f64 {
        let roots = if class == (0, 0) { 1.0 } else { 0.0 };
        let from = |parent: Class| sizes[&parent] * self.branches(parent, class);
        let entered: f64 = roots + parents(class).map(from).sum::<f64>();
        (entered * self.growth(class)).max(self.made(class))
    }

    /// Children of a node on the mean.
    fn branches(&self, from: Class, to: Class) -> f64 {
        if self.made(from) > 0.0 {
            return self.children(from, to) / self.made(from);
        }
        let choices = (from.0 + from.1) as f64;
        let step = (to.0 - from.0, to.1 - from.1);
        let Some(before) = parents(from).next() else { return 0.0 };
        let as_before = self.branches(before, (before.0 + step.0, before.1 + step.1));
        as_before * choices / (choices + 1.0)
    }

    /// How many nodes of its own class a node stands for that comes from another one.
    fn growth(&self, class: Class) -> f64 {
        match (self.made(class), parents(class).next()) {
            (0.0, Some(before)) => self.growth(before),
            (0.0, None) => 1.0,
            (made, _) => 1.0 / (1.0 - (self.children(class, class) / made).min(SAME_MAX)),
        }
    }
}

/// The classes with a choice less.
fn parents((interruptions, delays): Class) -> impl Iterator<Item = Class> {
    let one = interruptions.checked_sub(1).map(|less| (less, delays));
    let other = delays.checked_sub(1).map(|less| (interruptions, less));
    one.into_iter().chain(other)
}

#[cfg(test)]
mod tests {
    use super::super::{Reduction, Schedules};
    use super::*;
    use crate::recorder::record;
    use crate::schedule::Schedule;
    use crate::traced::Traced;
    use seawall_memory::{Addr, Image, Memory as _, MemoryExt as _, Model};
    use std::ops::ControlFlow;

    /// Each thread adds to words that all have, and to one of its own.
    fn adds(memory: &Traced<'_>) {
        let own = Addr::pm(512 + 64 * memory.thread() as u64);
        for word in [64, 128, 192, 256].map(Addr::pm) {
            let value = memory.load::<u64>(word);
            memory.store(word, value + 1);
            memory.flush(word, 8);
            memory.store(own, value);
            memory.drain();
        }
    }

    /// How the first of these schedules branch, and how many there are in the last round.
    fn seen(threads: usize, model: Model, most: u64) -> (Branching, u64) {
        let how = Schedules { limit: usize::MAX, ..Schedules::new(model) };
        let base = Schedule { threads, ..Schedule::default() };
        let (mut seen, mut made) = (Branching::default(), 0);
        let run = |schedule: &Schedule| {
            made += 1;
            if made > most {
                Err(())
            } else {
                Ok(record(Image::new(1024, 64), schedule, adds).unwrap())
            }
        };
        let visit = |_: &Schedule, _| ControlFlow::Continue(());
        let kind = (Reduction::Redundant, &[model][..]);
        let _ = how.each_but(kind, &base, &mut seen, &mut |_| (), run, visit);
        let made = seen.made.values().sum();
        (seen, made)
    }

    #[test]
    fn an_estimate_is_near_what_there_is_and_exact_when_all_were_made() {
        for (threads, model, delays) in [(2, Model::Px86, 1), (3, Model::Bep, 0)] {
            let bounds = (2, delays);
            let (whole, all) = seen(threads, model, u64::MAX);
            assert_eq!(whole.within(bounds), all, "{model}");
            for part in [30, 10, 3] {
                let (few, made) = seen(threads, model, all / part);
                let estimate = few.within(bounds);
                assert!(
                    (all / 4..=4 * all).contains(&estimate),
                    "{model}: {estimate} from {made} of {all}"
                );
            }
        }
    }

    #[test]
    fn fewer_interruptions_or_delays_have_fewer_schedules() {
        let (few, _) = seen(2, Model::Px86, 100);
        let [all, less, none] = [(2, 1), (1, 1), (2, 0)].map(|bounds| few.within(bounds));
        assert!(less < all && none < all, "{less} and {none} of {all}");
    }
}
