//! The order of the stores of one line where its words persist on their own, and of writes that are
//! more than one word.
//!
//! The stores of a line persist in the order in which they took effect; but the pieces of one write
//! that may tear have no order among each other, only one with what the line has before and after
//! them. A write that is whole is one node that waits for itself, so that all of it persists or
//! nothing.

use super::Target;
use super::order::{NodeId, PersistOrder};
use crate::wide::Part;
use crate::words::LineIndex;
use rustc_hash::FxHashMap;

/// What later stores of a line come after.
#[derive(Clone, Default)]
struct Last {
    node: Option<NodeId>,
    /// The write that was made last, and the nodes of its pieces.
    write: Part,
    pieces: Vec<NodeId>,
}

/// Every line whose stores have nodes of their own.
#[derive(Clone, Default)]
pub(super) struct Lanes {
    lines: FxHashMap<LineIndex, Last>,
}

impl Lanes {
    /// Whether the store needs a node of its own.
    pub(super) fn have(target: Target) -> bool {
        target.is_lane || matches!(target.part, Part::Whole(_))
    }

    /// A node for the store, which comes after these, and after the stores of its line before.
    /// Later ones come after it.
    pub(super) fn node(
        &mut self,
        target: Target,
        before: &[NodeId],
        order: &mut PersistOrder,
    ) -> NodeId {
        let node = self.apart(target, before, order);
        let last = self.lines.entry(target.line).or_default();
        last.write = target.part;
        if target.part.is_torn() {
            last.pieces.push(node);
        } else {
            last.node = Some(node);
        }
        node
    }

    /// As above, but later stores come after it only if `put_before` says so.
    pub(super) fn apart(
        &mut self,
        target: Target,
        before: &[NodeId],
        order: &mut PersistOrder,
    ) -> NodeId {
        let last = self.lines.entry(target.line).or_default();
        if let Some(node) = last.node.filter(|_| last.write.is_one_with(target.part)) {
            return node;
        }
        if last.write != target.part {
            last.end(order);
        }
        let node = order.node(before);
        if let Some(last) = last.node {
            order.precede(last, node);
        }
        if let Part::Whole(_) = target.part {
            order.precede(node, node);
        }
        node
    }

    /// Later stores of the line come after these nodes.
    pub(super) fn put_before(
        &mut self,
        line: LineIndex,
        nodes: impl Iterator<Item = NodeId>,
        order: &mut PersistOrder,
    ) {
        let last = self.lines.entry(line).or_default();
        last.pieces.extend(nodes);
        last.end(order);
    }

    /// A thread has seen the line: the pieces that it has so far come before all that follow.
    pub(super) fn see(&mut self, line: LineIndex, order: &mut PersistOrder) {
        if let Some(last) = self.lines.get_mut(&line) {
            last.end(order);
        }
    }
}

impl Last {
    fn end(&mut self, order: &mut PersistOrder) {
        if !self.pieces.is_empty() {
            let before: Vec<NodeId> = self.pieces.drain(..).chain(self.node).collect();
            self.node = Some(order.node(&before));
        }
        self.write = Part::Alone;
    }
}

/// The pieces of a write that may tear, under a model that makes a store durable at once: until
/// something else happens a crash may keep any of them.
#[derive(Clone, Default)]
pub(super) struct Flight {
    write: Part,
    pieces: Vec<(LineIndex, u32)>,
}

impl Flight {
    /// Something happens: what was in flight is durable, unless this is a piece of the same write.
    pub(super) fn follow(&mut self, next: Option<Target>, order: &mut PersistOrder) {
        if self.pieces.is_empty() || next.is_some_and(|next| next.part == self.write) {
            return;
        }
        for (log, stores) in self.pieces.drain(..) {
            order.persist_line(log, stores);
        }
    }

    /// The store is durable, or in flight.
    pub(super) fn store(&mut self, target: Target, order: &mut PersistOrder) {
        let stores = order.stored(target.log);
        if target.part.is_torn() {
            self.write = target.part;
            self.pieces.push((target.log, stores));
        } else {
            order.persist_line(target.log, stores);
        }
    }
}
