//! The graph of epochs that the epoch models share, and its down-closed sets (facts 4.3, point 7).
//!
//! An epoch holds, for each line that it wrote, a run of that line's stores. Epochs are ordered by
//! edges; a crash leaves a down-closed set of whole epochs, and of each epoch that has all its
//! predecessors in the set any prefix of each of its lines. Lines of such frontier epochs never
//! meet, as two epochs that write the same line are ordered by construction.

use super::{Cut, Family, Visit, Window};
use crate::trace::LineIndex;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

pub(super) type EpochId = u32;

/// A run of stores of one line: those after the first `low`, up to `high`.
#[derive(Clone, Copy)]
struct Run {
    line: LineIndex,
    low: u32,
    high: u32,
}

#[derive(Default)]
struct Epoch {
    before: Vec<EpochId>,
    runs: Vec<Run>,
}

#[derive(Default)]
pub(super) struct Graph {
    epochs: Vec<Epoch>,
}

/// A set of epochs, one bit each.
type Set = Vec<u64>;

fn has(set: &Set, epoch: usize) -> bool {
    set[epoch / 64] >> (epoch % 64) & 1 == 1
}

impl Graph {
    pub(super) fn add(&mut self, before: Option<EpochId>) -> EpochId {
        let before = before.into_iter().collect();
        self.epochs.push(Epoch { before, runs: Vec::new() });
        self.epochs.len() as u32 - 1
    }

    pub(super) fn is_empty(&self, epoch: EpochId) -> bool {
        self.epochs[epoch as usize].runs.is_empty()
    }

    pub(super) fn order(&mut self, first: EpochId, then: EpochId) {
        let before = &mut self.epochs[then as usize].before;
        if !before.contains(&first) {
            before.push(first);
        }
    }

    /// Adds a store to the epoch: the line's store after its first `low`.
    pub(super) fn store(&mut self, epoch: EpochId, line: LineIndex, low: u32) {
        let runs = &mut self.epochs[epoch as usize].runs;
        match runs.iter_mut().find(|run| run.line == line) {
            Some(run) => run.high = low + 1,
            None => runs.push(Run { line, low, high: low + 1 }),
        }
    }

    fn ready(&self, durable: &Set, epoch: usize) -> bool {
        self.epochs[epoch].before.iter().all(|&first| has(durable, first as usize))
    }

    /// Puts epochs without stores in the set as soon as their predecessors are.
    fn settle(&self, durable: &mut Set) {
        loop {
            let next = (0..self.epochs.len()).find(|&epoch| {
                !has(durable, epoch)
                    && self.epochs[epoch].runs.is_empty()
                    && self.ready(durable, epoch)
            });
            let Some(epoch) = next else { return };
            durable[epoch / 64] |= 1 << (epoch % 64);
        }
    }

    pub(super) fn families(&self, limit: usize, visit: &mut Visit<'_>) -> bool {
        let mut first = vec![0; self.epochs.len().div_ceil(64)];
        self.settle(&mut first);
        let mut seen = FxHashSet::from_iter([first.clone()]);
        let mut queue = VecDeque::from([first]);
        for _ in 0..limit {
            let Some(durable) = queue.pop_front() else { return true };
            let mut base = Cut::default();
            let mut windows = Vec::new();
            for (id, epoch) in self.epochs.iter().enumerate() {
                if has(&durable, id) {
                    for run in &epoch.runs {
                        base.set(run.line, base.get(run.line).max(run.high));
                    }
                } else if self.ready(&durable, id) {
                    windows.extend(epoch.runs.iter().map(|r| Window {
                        line: r.line,
                        low: r.low,
                        high: r.high,
                    }));
                    let mut next = durable.clone();
                    next[id / 64] |= 1 << (id % 64);
                    self.settle(&mut next);
                    if seen.insert(next.clone()) {
                        queue.push_back(next);
                    }
                }
            }
            if visit(Family { base, windows }).is_break() {
                return true;
            }
        }
        queue.is_empty()
    }

    pub(super) fn allows(&self, cut: &Cut) -> bool {
        let whole = |epoch: &Epoch| epoch.runs.iter().all(|run| cut.get(run.line) >= run.high);
        let mut closed = vec![None; self.epochs.len()];
        self.epochs.iter().all(|epoch| {
            let touched = epoch.runs.iter().any(|run| cut.get(run.line) > run.low);
            !touched || epoch.before.iter().all(|&id| self.below(id, &mut closed, &whole))
        })
    }

    /// True if the epoch and all before it are whole.
    fn below(
        &self,
        epoch: EpochId,
        closed: &mut [Option<bool>],
        whole: &dyn Fn(&Epoch) -> bool,
    ) -> bool {
        let mut pending = vec![epoch];
        while let Some(id) = pending.pop() {
            match closed[id as usize] {
                Some(true) => continue,
                Some(false) => return false,
                None => {}
            }
            let here = whole(&self.epochs[id as usize]);
            closed[id as usize] = Some(here);
            if !here {
                return false;
            }
            pending.extend(&self.epochs[id as usize].before);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    #[test]
    fn the_down_closed_sets_of_two_chains_are_their_product() {
        let mut graph = Graph::default();
        for thread in 0..2 {
            let mut last = None;
            for epoch in 0..3 {
                let id = graph.add(last);
                graph.store(id, thread * 3 + epoch, 0);
                last = Some(id);
            }
        }
        let mut found = 0;
        let complete = graph.families(100, &mut |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        assert!(complete);
        assert_eq!(found, 16);
        assert!(!graph.families(15, &mut |_| ControlFlow::Continue(())));
    }
}
