//! The graph of epochs that the epoch models share, and its down-closed sets.
//!
//! An epoch holds, for each line that it wrote, a run of that line's stores. Epochs are ordered by
//! edges; a crash leaves a down-closed set of whole epochs, and of each epoch that has all its
//! predecessors in the set any prefix of each of its lines. Lines of such frontier epochs never
//! meet, as two epochs that write the same line are ordered by construction.
//!
//! Epochs that are never committed pile up over a run, so a point gives only what is new: the sets
//! with a touched epoch (stored to, or ordered behind another, since the last point) in their
//! frontier. Any other image was there before: in an image with a whole touched epoch take a last
//! one of those; all epochs behind it are touched too, so it can be moved to the frontier.

use super::{Cut, Family, Visit, Window};
use crate::trace::LineIndex;
use rustc_hash::FxHashSet;
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

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
    touched: BTreeSet<EpochId>,
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
            self.touched.insert(then);
        }
    }

    /// Adds a store to the epoch: the line's store after its first `low`.
    pub(super) fn store(&mut self, epoch: EpochId, line: LineIndex, low: u32) {
        self.touched.insert(epoch);
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
    fn settled(&self, mut durable: Set) -> Set {
        loop {
            let next = (0..self.epochs.len()).find(|&epoch| {
                !has(&durable, epoch)
                    && self.epochs[epoch].runs.is_empty()
                    && self.ready(&durable, epoch)
            });
            let Some(epoch) = next else { return durable };
            durable[epoch / 64] |= 1 << (epoch % 64);
        }
    }

    /// What was given so far need not be given again.
    pub(super) fn forget_touched(&mut self) {
        self.touched.clear();
    }

    pub(super) fn families(&self, limit: usize, visit: &mut Visit<'_>) -> bool {
        if self.touched.is_empty() {
            let _ = visit(self.family(&self.settled(vec![0; self.epochs.len().div_ceil(64)])));
        }
        let mut all = true;
        for &epoch in self.touched.iter().filter(|&&epoch| !self.is_empty(epoch)) {
            match self.around(epoch, limit, visit) {
                ControlFlow::Continue(complete) => all &= complete,
                ControlFlow::Break(()) => return true,
            }
        }
        all
    }

    /// The families that have `epoch` in their frontier; false if there were more than `limit`.
    fn around(&self, epoch: EpochId, limit: usize, visit: &mut Visit<'_>) -> ControlFlow<(), bool> {
        let least = self.settled(self.ancestors(epoch));
        let most = self.all_but(epoch, least.clone());
        let mut seen = FxHashSet::from_iter([least.clone(), most.clone()]);
        let mut queue = VecDeque::from([least]);
        if !queue.contains(&most) {
            queue.push_back(most);
        }
        for _ in 0..limit {
            let Some(durable) = queue.pop_front() else { return ControlFlow::Continue(true) };
            visit(self.family(&durable))?;
            for other in self.frontier(&durable).filter(|&other| other != epoch as usize) {
                let mut next = durable.clone();
                next[other / 64] |= 1 << (other % 64);
                let next = self.settled(next);
                if seen.insert(next.clone()) {
                    queue.push_back(next);
                }
            }
        }
        ControlFlow::Continue(queue.is_empty())
    }

    fn frontier(&self, durable: &Set) -> impl Iterator<Item = usize> {
        (0..self.epochs.len()).filter(|&id| !has(durable, id) && self.ready(durable, id))
    }

    fn family(&self, durable: &Set) -> Family {
        let mut base = Cut::default();
        for run in (0..self.epochs.len())
            .filter(|&id| has(durable, id))
            .flat_map(|id| &self.epochs[id].runs)
        {
            base.set(run.line, base.get(run.line).max(run.high));
        }
        let windows = self.frontier(durable).flat_map(|id| &self.epochs[id].runs);
        let windows = windows.map(|run| Window { line: run.line, low: run.low, high: run.high });
        Family { windows: windows.collect(), base }
    }

    fn ancestors(&self, epoch: EpochId) -> Set {
        let mut set = vec![0; self.epochs.len().div_ceil(64)];
        let mut pending = self.epochs[epoch as usize].before.clone();
        while let Some(id) = pending.pop() {
            let id = id as usize;
            if !has(&set, id) {
                set[id / 64] |= 1 << (id % 64);
                pending.extend(&self.epochs[id].before);
            }
        }
        set
    }

    /// Everything but `epoch` and what follows it.
    fn all_but(&self, epoch: EpochId, mut durable: Set) -> Set {
        loop {
            let ready: Vec<usize> =
                self.frontier(&durable).filter(|&other| other != epoch as usize).collect();
            if ready.is_empty() {
                return durable;
            }
            for id in ready {
                durable[id / 64] |= 1 << (id % 64);
            }
        }
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

    /// Two chains of three epochs, one store to a line of its own each.
    fn chains() -> Graph {
        let mut graph = Graph::default();
        for thread in 0..2 {
            let mut last = None;
            for epoch in 0..3 {
                let id = graph.add(last);
                graph.store(id, thread * 3 + epoch, 0);
                last = Some(id);
            }
        }
        graph
    }

    fn sets(graph: &Graph, limit: usize) -> (usize, bool) {
        let mut found = BTreeSet::new();
        let complete = graph.families(limit, &mut |family| {
            found.insert(family.base.0);
            ControlFlow::Continue(())
        });
        (found.len(), complete)
    }

    #[test]
    fn the_sets_of_two_chains_are_their_product_but_for_the_whole() {
        // 4 x 4 down-closed sets; in all but the last some epoch is in the frontier.
        assert_eq!(sets(&chains(), 100), (15, true));
        assert!(!sets(&chains(), 3).1);
    }

    #[test]
    fn a_point_gives_only_what_is_new() {
        let mut graph = chains();
        graph.forget_touched();
        let last = graph.add(Some(2));
        graph.store(last, 6, 0);
        // The new epoch follows the first chain and meets each length of the second.
        assert_eq!(sets(&graph, 100), (4, true));
    }

    #[test]
    fn an_epoch_that_falls_behind_another_counts_as_touched() {
        let mut graph = Graph::default();
        let reader = graph.add(None);
        graph.store(reader, 0, 0);
        graph.forget_touched();
        let read = graph.add(None);
        graph.store(read, 1, 0);
        graph.order(read, reader);
        let mut both = false;
        let _ = graph.families(100, &mut |family| {
            both |= family.base.get(1) == 1 && family.windows.iter().any(|w| w.line == 0);
            ControlFlow::Continue(())
        });
        assert!(both);
    }
}
