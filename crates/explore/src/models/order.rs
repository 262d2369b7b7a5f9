//! The order in which stores may persist, and so the images that a crash may leave.
//!
//! An image says how many of its stores each line kept. Stores belong to nodes; two rules decide:
//!
//! - the stores of a line persist in the order in which they took effect;
//! - before any store of a node persists, every node that it is ordered behind is whole.
//!
//! The images that keep the rules form a lattice (of two images, the line-wise smaller and larger
//! keep them too). So the images still open are known by their smallest and largest, `low` and
//! `high`, and to keep a line within a window moves these two by propagation: what a kept store
//! needs is kept, what a lost store is needed for is lost. Choices are made one after the other and
//! taken back from a trail, so one more image costs its difference from the last, not its size.

use crate::words::LineIndex;

mod shape;

pub(crate) type NodeId = u32;

/// How many of the stores of each line are in an image; lines past the end have none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cut(pub(crate) Vec<u32>);

impl Cut {
    #[inline]
    pub(crate) fn get(&self, line: LineIndex) -> u32 {
        self.0.get(line as usize).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn set(&mut self, line: LineIndex, stores: u32) {
        if self.0.len() <= line as usize {
            self.0.resize(line as usize + 1, 0);
        }
        self.0[line as usize] = stores;
    }
}

/// The stores of one line after the first `low`, up to `high`.
#[derive(Clone, Copy, Debug)]
struct Run {
    line: LineIndex,
    low: u32,
    high: u32,
}

/// A node that stores to a line: up to which store, and its run with that.
#[derive(Clone, Copy)]
struct Writer {
    node: NodeId,
    high: u32,
    run: u32,
}

#[derive(Clone, Default)]
struct Node {
    before: Vec<NodeId>,
    after: Vec<NodeId>,
    runs: Vec<Run>,
}

/// What is known of a node in all images that are still open.
const TOUCHED: u8 = 1;
const WHOLE: u8 = 2;
const BROKEN: u8 = 4;
const UNTOUCHED: u8 = 8;

#[derive(Clone, Copy)]
enum Task {
    Know(NodeId, u8),
    Raise(LineIndex, u32),
    Lower(LineIndex, u32),
}

#[derive(Clone, Copy)]
enum Undo {
    Low(LineIndex, u32),
    High(LineIndex, u32),
    Known(NodeId, u8),
}

/// The persist order of a run so far.
#[derive(Clone, Default)]
pub(crate) struct PersistOrder {
    nodes: Vec<Node>,
    known: Vec<u8>,
    /// For each line the nodes of its stores, in order.
    writers: Vec<Vec<Writer>>,
    low: Vec<u32>,
    high: Vec<u32>,
    trail: Vec<Undo>,
    /// Marks that are not undone.
    choices: u32,
    contradicts: bool,
    tasks: Vec<Task>,
    /// Lines that may keep more stores than when this was last taken, and how many they could.
    grown: Vec<(LineIndex, u32)>,
}

impl PersistOrder {
    /// A node whose stores persist after all of `before`.
    pub(crate) fn node(&mut self, before: &[NodeId]) -> NodeId {
        let id = self.nodes.len() as NodeId;
        self.nodes.push(Node::default());
        self.known.push(0);
        before.iter().for_each(|&first| self.precede(first, id));
        id
    }

    /// `then`, of which nothing is durable yet, persists after `first`.
    pub(crate) fn precede(&mut self, first: NodeId, then: NodeId) {
        debug_assert_eq!(self.known[then as usize] & TOUCHED, 0);
        if self.known[first as usize] & WHOLE == 0
            && !self.nodes[then as usize].before.contains(&first)
        {
            self.nodes[then as usize].before.push(first);
            self.nodes[first as usize].after.push(then);
        }
    }

    pub(crate) fn nodes_before(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node as usize].before
    }

    pub(crate) fn is_durable(&self, node: NodeId) -> bool {
        self.known[node as usize] & WHOLE != 0
    }

    /// Adds a store of the line to the node.
    pub(crate) fn store(&mut self, node: NodeId, line: LineIndex) {
        let index = line as usize;
        if self.writers.len() <= index {
            self.writers.resize(index + 1, Vec::new());
            self.low.resize(index + 1, 0);
            self.high.resize(index + 1, 0);
        }
        let low = self.stored(line);
        let runs = &mut self.nodes[node as usize].runs;
        match self.writers[index].last_mut() {
            Some(last) if last.node == node => {
                last.high += 1;
                runs[last.run as usize].high += 1;
            }
            _ => {
                let run = runs.len() as u32;
                self.writers[index].push(Writer { node, high: low + 1, run });
                runs.push(Run { line, low, high: low + 1 });
            }
        }
        self.grown.push((line, low));
        self.high[index] = low + 1;
    }

    /// The lines that may keep more stores than when this was called last, and how many they could
    /// keep then. Without one of those stores an image was allowed before.
    pub(crate) fn take_grown(&mut self) -> Vec<(LineIndex, u32)> {
        let mut grown = std::mem::take(&mut self.grown);
        grown.sort_unstable();
        grown.dedup_by_key(|(line, _)| *line);
        grown
    }

    /// Makes the node durable, and what it is ordered behind.
    pub(crate) fn persist(&mut self, node: NodeId) {
        self.tasks.push(Task::Know(node, WHOLE));
        self.settle();
    }

    /// Makes the first `stores` stores of the line durable.
    pub(crate) fn persist_line(&mut self, line: LineIndex, stores: u32) {
        if stores > 0 {
            self.tasks.push(Task::Raise(line, stores));
            self.settle();
        }
    }

    /// Lines that were stored to, or have a lower index than one that was.
    pub(crate) fn lines(&self) -> LineIndex {
        self.low.len() as LineIndex
    }

    /// Stores of the line so far.
    pub(crate) fn stored(&self, line: LineIndex) -> u32 {
        let last = self.writers.get(line as usize).and_then(|writers| writers.last());
        last.map_or(0, |last| last.high)
    }

    /// The fewest and most stores that the line has in the images still open.
    #[inline]
    pub(crate) fn window(&self, line: LineIndex) -> (u32, u32) {
        match (self.low.get(line as usize), self.high.get(line as usize)) {
            (Some(low), Some(high)) => (*low, *high),
            _ => (0, 0),
        }
    }

    /// The largest image still open.
    pub(crate) fn largest(&self) -> Cut {
        Cut(self.high.clone())
    }

    /// A mark for [`undo`](Self::undo); all that follows is a choice.
    pub(crate) fn mark(&mut self) -> usize {
        self.choices += 1;
        self.trail.len()
    }

    /// Leaves only the images in which the line has `low` to `high` of its stores; false if there
    /// are none, and then only [`undo`](Self::undo) may follow.
    pub(crate) fn keep(&mut self, line: LineIndex, low: u32, high: u32) -> bool {
        self.tasks.push(Task::Raise(line, low));
        self.tasks.push(Task::Lower(line, high));
        self.settle();
        !self.contradicts
    }

    /// Takes back all choices since `mark`; each mark is undone once, the last one first.
    pub(crate) fn undo(&mut self, mark: usize) {
        for undo in self.trail.drain(mark..).rev() {
            match undo {
                Undo::Low(line, old) => self.low[line as usize] = old,
                Undo::High(line, old) => self.high[line as usize] = old,
                Undo::Known(node, old) => self.known[node as usize] = old,
            }
        }
        self.contradicts = false;
        self.choices -= 1;
    }

    /// True if a crash may leave this image now.
    pub(crate) fn allows(&mut self, cut: &Cut) -> bool {
        let mark = self.mark();
        let lines = self.low.len().max(cut.0.len()) as LineIndex;
        let allowed = (0..lines).all(|line| {
            let stores = cut.get(line);
            stores <= self.stored(line)
                && (self.stored(line) == 0 || self.keep(line, stores, stores))
        });
        self.undo(mark);
        allowed
    }

    fn settle(&mut self) {
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Know(node, what) => self.know(node, what),
                Task::Raise(line, to) => self.raise(line, to),
                Task::Lower(line, to) => self.lower(line, to),
            }
        }
    }

    fn raise(&mut self, line: LineIndex, to: u32) {
        let index = line as usize;
        let from = self.low[index];
        if from >= to {
            return;
        }
        self.contradicts |= to > self.high[index];
        if self.choices > 0 {
            self.trail.push(Undo::Low(line, from));
        }
        self.low[index] = to;
        let writers = &self.writers[index];
        let first = writers.partition_point(|writer| writer.high <= from);
        for &Writer { node, high, .. } in &writers[first..] {
            self.tasks.push(Task::Know(node, TOUCHED));
            if high >= to {
                break;
            }
        }
    }

    fn lower(&mut self, line: LineIndex, to: u32) {
        let index = line as usize;
        let from = self.high[index];
        if from <= to {
            return;
        }
        self.contradicts |= to < self.low[index];
        self.trail.push(Undo::High(line, from));
        self.high[index] = to;
        let writers = &self.writers[index];
        let first = writers.partition_point(|writer| writer.high <= to);
        for &Writer { node, high, .. } in &writers[first..] {
            self.tasks.push(Task::Know(node, BROKEN));
            if high >= from {
                break;
            }
        }
    }

    fn know(&mut self, node: NodeId, what: u8) {
        let id = node as usize;
        let known = self.known[id];
        if known & what != 0 {
            return;
        }
        if self.choices > 0 {
            self.trail.push(Undo::Known(node, known));
        }
        self.known[id] |= what;
        let Node { before, after, runs } = &self.nodes[id];
        let tasks = &mut self.tasks;
        match what {
            TOUCHED => {
                tasks.extend(before.iter().map(|&first| Task::Know(first, WHOLE)));
            }
            WHOLE => {
                tasks.push(Task::Know(node, TOUCHED));
                tasks.extend(runs.iter().map(|run| Task::Raise(run.line, run.high)));
            }
            BROKEN => {
                tasks.extend(after.iter().map(|&then| Task::Know(then, UNTOUCHED)));
            }
            _ => {
                tasks.push(Task::Know(node, BROKEN));
                tasks.extend(runs.iter().map(|run| Task::Lower(run.line, run.low)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const LINES: u32 = 4;

    /// The rules of the head, literally.
    fn keeps_the_rules(order: &PersistOrder, cut: &[u32]) -> bool {
        let whole = |node: &Node| node.runs.iter().all(|run| cut[run.line as usize] >= run.high);
        let touched = |node: &Node| node.runs.iter().any(|run| cut[run.line as usize] > run.low);
        // An empty node is whole once what it is ordered behind is.
        let mut done = vec![false; order.nodes.len()];
        for id in 0..order.nodes.len() {
            let node = &order.nodes[id];
            done[id] = whole(node) && node.before.iter().all(|&first| done[first as usize]);
        }
        order.nodes.iter().all(|node| {
            let ready = node.before.iter().all(|&first| done[first as usize]);
            !touched(node) || ready
        })
    }

    fn random_order(rng: &mut Xoshiro256PlusPlus) -> PersistOrder {
        let mut order = PersistOrder::default();
        for id in 0..rng.random_range(1..8u32) {
            let before: Vec<NodeId> = (0..id).filter(|_| rng.random_bool(0.25)).collect();
            let node = order.node(&before);
            for _ in 0..rng.random_range(0..4) {
                order.store(node, rng.random_range(0..LINES));
            }
        }
        order
    }

    fn all_cuts(order: &PersistOrder) -> Vec<Vec<u32>> {
        let mut cuts = vec![Vec::new()];
        for line in 0..LINES {
            let longer = |cut: &Vec<u32>| {
                let cut = cut.clone();
                (0..=order.stored(line)).map(move |stores| [&cut[..], &[stores]].concat())
            };
            cuts = cuts.iter().flat_map(longer).collect();
        }
        cuts
    }

    #[test]
    fn exactly_the_images_that_keep_the_rules_are_allowed() {
        for seed in 0..400 {
            let mut order = random_order(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
            for cut in all_cuts(&order) {
                let expected = keeps_the_rules(&order, &cut);
                assert_eq!(order.allows(&Cut(cut.clone())), expected, "seed {seed}, {cut:?}");
            }
        }
    }

    #[test]
    fn a_window_holds_exactly_what_some_open_image_has() {
        for seed in 0..200 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut order = random_order(&mut rng);
            let mut open: Vec<Vec<u32>> = all_cuts(&order);
            open.retain(|cut| keeps_the_rules(&order, cut));
            order.mark();
            for _ in 0..3 {
                let line = rng.random_range(0..LINES);
                let (low, high) = order.window(line);
                let value = |cut: &Vec<u32>, line: u32| cut[line as usize];
                for line in 0..LINES {
                    let least = open.iter().map(|cut| value(cut, line)).min().unwrap();
                    let most = open.iter().map(|cut| value(cut, line)).max().unwrap();
                    assert_eq!(order.window(line), (least, most), "seed {seed}, line {line}");
                }
                let to = rng.random_range(low..=high);
                let kept: Vec<_> = open
                    .iter()
                    .filter(|cut| (low..=to).contains(&value(cut, line)))
                    .cloned()
                    .collect();
                if order.stored(line) == 0 {
                    continue;
                }
                assert_eq!(order.keep(line, low, to), !kept.is_empty(), "seed {seed}");
                open = kept;
            }
        }
    }

    #[test]
    fn what_was_chosen_is_taken_back() {
        let mut order = PersistOrder::default();
        let first = order.node(&[]);
        order.store(first, 0);
        let second = order.node(&[first]);
        order.store(second, 1);
        let mark = order.mark();
        assert!(order.keep(1, 1, 1));
        assert_eq!(order.window(0), (1, 1), "what a kept store needs is kept");
        order.undo(mark);
        let mark = order.mark();
        assert!(order.keep(0, 0, 0));
        assert_eq!(order.window(1), (0, 0), "what a lost store is needed for is lost");
        order.undo(mark);
        assert_eq!((order.window(0), order.window(1)), ((0, 1), (0, 1)));
    }
}
