//! What a recovery that is cut short can leave of the words that it stored to.
//!
//! A store that is lost shows what was there before: one value, or one of several that the crashes
//! before left open. Later recoveries that read no other words do the same wherever these values,
//! and the order in which they persist, are the same. The images of an order are those of a
//! preorder of stores, so its part on a few lines is known by what each of their stores implies.

use crate::crashed::{CrashImage, Layer, Open};
use crate::words::LineIndex;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

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
        let open = &mut *self.open.borrow_mut();
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
