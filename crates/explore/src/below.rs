//! What a recovery that is cut short can leave of the words that it stored to.
//!
//! A store that is lost shows what was there before: one value, or one of several that the crashes
//! before left open. Later recoveries that read no other words do the same wherever these values,
//! and the order in which they persist, are the same. The images of an order are those of a
//! preorder of stores, so its part on a few lines is known by what each of their stores implies.

use crate::crashed::CrashImage;
use crate::open::{Layer, Open};
use crate::trace::Trace;
use crate::words::LineIndex;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The words that matter when a recovery is cut short: those that it has read or stored to. Each
/// has the number of the visit that marked it.
#[derive(Clone, Default)]
pub(crate) struct Known {
    words: Vec<u32>,
    visit: u32,
    /// A later recovery has read another word.
    pub(crate) exceeded: bool,
}

impl Known {
    /// Starts a visit; returns a hash of what is below the stores, if that is known.
    pub(crate) fn start(
        &mut self,
        path: &[(u32, u64)],
        recording: &Trace,
        image: &CrashImage,
    ) -> u64 {
        self.visit += 1;
        for (word, _) in path {
            self.mark(*word);
        }
        let stored = recording.stores.iter().map(|store| store.change.word);
        let mut below: Vec<u32> = stored.filter(|word| self.mark(*word)).collect();
        below.sort_unstable();
        let below = image.below(&below);
        self.exceeded = below.is_none();
        below.unwrap_or(0)
    }

    /// True if the word was not marked yet.
    fn mark(&mut self, word: u32) -> bool {
        let word = word as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        std::mem::replace(&mut self.words[word], self.visit) != self.visit
    }

    pub(crate) fn read(&mut self, word: u32) {
        self.exceeded |= self.words.get(word as usize) != Some(&self.visit);
    }
}

/// A log with words that recovery stored to, and its distinct contents of these words in the images
/// that are open: each by a hash, with the number of stores from which on it holds.
struct Contents {
    layer: usize,
    log: LineIndex,
    steps: Vec<(u32, u64)>,
}

impl CrashImage {
    /// A hash of all values that these words may have together, and of how they depend on each
    /// other; `None` if that is not known. The words are in order of address.
    pub(crate) fn below(&self, words: &[u32]) -> Option<u64> {
        let open = &mut *self.open();
        if !open.reached.is_empty() {
            return None;
        }
        let mut hash = FxHasher::default();
        words.hash(&mut hash);
        let mut several = Vec::new();
        for line in words.chunk_by(|a, b| a / 8 == b / 8) {
            for layer in open.layers_of(line[0]) {
                let contents = open.contents(layer, line)?;
                contents.steps.iter().for_each(|(_, step)| step.hash(&mut hash));
                (layer, line[0]).hash(&mut hash);
                if contents.steps.len() > 1 {
                    several.push(contents);
                }
            }
        }
        #[cfg(test)]
        match WEAKER.get() {
            Weaker::Not => {}
            Weaker::Values => return Some(0),
            Weaker::Order => several.clear(),
        }
        for contents in &several {
            for &(stores, _) in &contents.steps[1..] {
                open.implied(contents, stores, &several, &mut hash);
            }
        }
        Some(hash.finish())
    }
}

impl Open {
    /// The contents of a line's words in a layer; `None` if its words persist on their own and are
    /// not decided.
    fn contents(&self, layer: usize, words: &[u32]) -> Option<Contents> {
        let Layer { trace, order } = &self.layers[layer];
        let mut steps: Vec<(u32, u64)> = Vec::new();
        let log = self.log_of(layer, words[0]);
        if trace.lines[log as usize].lane.is_some() {
            let is_decided = |word: &u32| {
                let (low, high) = order.window(self.log_of(layer, *word));
                low == high
            };
            if !words.iter().all(is_decided) {
                return None;
            }
        }
        let value = |word: u32, kept: u32| {
            let history = &trace.lines[self.log_of(layer, word) as usize].words[word as usize % 8];
            let at = history.partition_point(|(stores, _)| *stores <= kept).checked_sub(1)?;
            Some(history[at].1)
        };
        let (low, high) = order.window(log);
        for kept in low..=high {
            let mut hash = FxHasher::default();
            for &word in words {
                let own = self.log_of(layer, word);
                let kept = if own == log { kept } else { order.window(own).0 };
                value(word, kept).hash(&mut hash);
            }
            let hash = hash.finish();
            if steps.last().is_none_or(|(_, last)| *last != hash) {
                steps.push((kept, hash));
            }
        }
        Some(Contents { layer, log, steps })
    }

    /// Adds to the hash what the others keep if this log keeps so many stores.
    fn implied(&mut self, of: &Contents, stores: u32, all: &[Contents], hash: &mut FxHasher) {
        let order = &mut self.layers[of.layer].order;
        let mark = order.mark();
        order.keep(of.log, stores, u32::MAX);
        for other in all.iter().filter(|other| other.layer == of.layer) {
            let (low, _) = order.window(other.log);
            other.steps.partition_point(|(from, _)| *from <= low).hash(hash);
        }
        order.undo(mark);
    }
}

/// What tests leave out of the hash, to be caught.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weaker {
    Not,
    Values,
    Order,
}

#[cfg(test)]
thread_local! {
    static WEAKER: std::cell::Cell<Weaker> = const { std::cell::Cell::new(Weaker::Not) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, Recoveries, Schedule, Search, Traced, check, record, search_on};
    use seawall_memory::{Addr, Fence, Image, Memory, MemoryExt};
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    const DONE: Addr = Addr::pm(0);
    const WORDS: [Addr; 3] = [Addr::pm(64), Addr::pm(128), Addr::pm(192)];

    type Program = fn(&Traced<'_>);

    /// Reads nothing at first, overwrites the words, and finds what is there of them later.
    fn overwrite(memory: &CrashImage) -> Result<Vec<u64>, String> {
        if memory.load::<u64>(DONE) > 0 {
            return Ok(WORDS.map(|at| memory.load(at)).to_vec());
        }
        WORDS.iter().for_each(|at| memory.store(*at, 100u64));
        memory.store(DONE, 1u64);
        Ok(Vec::new())
    }

    /// What a crash and a crash of recovery leave, over these runs.
    fn left(model: Model, weaker: Weaker, runs: &[Program]) -> BTreeSet<Vec<u64>> {
        WEAKER.set(weaker);
        let (mut known, found) = (Recoveries::default(), RefCell::new(BTreeSet::new()));
        for run in runs {
            let trace = record(Image::new(256, 0), &Schedule::default(), *run).unwrap();
            let noted = check(overwrite, |seen: &Vec<u64>, _| {
                found.borrow_mut().insert(seen.clone());
                Ok(())
            });
            let (options, go_on) = (Search::new(model), ControlFlow::Continue(()));
            search_on(Arc::new(trace), &options, &noted, &mut known, &mut |_| go_on);
        }
        WEAKER.set(Weaker::Not);
        found.into_inner()
    }

    /// The first word is stored to at last, on a strand of its own.
    fn stores(memory: &Traced<'_>, ordered: bool) {
        memory.store(WORDS[0], 6u64);
        memory.drain();
        memory.fence(Fence::Strand);
        memory.store(WORDS[1], 8u64);
        if ordered {
            memory.order();
        }
        memory.store(WORDS[2], 9u64);
        memory.fence(Fence::Strand);
        memory.store(WORDS[0], 7u64);
    }

    fn ordered(memory: &Traced<'_>) {
        stores(memory, true);
    }

    fn not_ordered(memory: &Traced<'_>) {
        stores(memory, false);
    }

    #[test]
    fn what_is_below_stores_matters_where_they_are_lost() {
        let all = |weaker| left(Model::Px86, weaker, &[not_ordered]);
        assert!(all(Weaker::Not).contains(&vec![7, 8, 9]));
        assert!(!all(Weaker::Values).contains(&vec![7, 8, 9]));
    }

    #[test]
    fn the_order_of_what_is_below_stores_matters_where_they_are_lost() {
        let all =
            |weaker, runs: &[Program]| left(Model::Strand, weaker, runs).contains(&vec![7, 0, 9]);
        assert!(!all(Weaker::Not, &[ordered]));
        assert!(all(Weaker::Not, &[ordered, not_ordered]));
        assert!(!all(Weaker::Order, &[ordered, not_ordered]));
    }
}
