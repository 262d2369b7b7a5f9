//! What is known of recovery: a decision tree over what it reads.
//!
//! Recovery is a function of the words that it reads, so each pass adds a path: the words in the
//! order in which it read them, their values, and at the end what it found. An image that agrees
//! with a path on its words needs no pass: the result is at the end of the path. This holds over
//! all crash points, so most images at a new point cost a walk down the tree.

use std::rc::Rc;

use crate::trace::Trace;

pub(crate) type NodeId = u32;

/// A state of a pass of recovery.
pub(crate) enum Node {
    /// It reads this word next.
    Read { word: u32, first: (u64, NodeId), others: Vec<(u64, NodeId)> },
    /// It is done: what it found, and what it did to memory if that may be cut short.
    Done { found: u32, recording: Option<Rc<Trace>> },
}

#[derive(Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn root(&self) -> Option<NodeId> {
        (!self.nodes.is_empty()).then_some(0)
    }

    #[inline]
    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node as usize]
    }

    /// The node that follows if the word that `node` reads has the value.
    #[inline]
    pub(crate) fn child(&self, node: NodeId, value: u64) -> Option<NodeId> {
        let Node::Read { first, others, .. } = &self.nodes[node as usize] else { return None };
        if first.0 == value {
            return Some(first.1);
        }
        others.iter().find(|(known, _)| *known == value).map(|(_, child)| *child)
    }

    /// Adds the path of a pass, and returns its first node.
    pub(crate) fn add(
        &mut self,
        reads: &[(u32, u64)],
        found: u32,
        recording: Option<Rc<Trace>>,
    ) -> NodeId {
        let start = self.nodes.len() as NodeId;
        for (next, &(word, value)) in (start + 1..).zip(reads) {
            self.nodes.push(Node::Read { word, first: (value, next), others: Vec::new() });
        }
        self.nodes.push(Node::Done { found, recording });
        start
    }

    /// Links a path to the node that reads the word, for this value of it.
    pub(crate) fn link(&mut self, node: NodeId, value: u64, child: NodeId) {
        match &mut self.nodes[node as usize] {
            Node::Read { others, .. } => others.push((value, child)),
            Node::Done { .. } => unreachable!("nothing follows the end of a pass"),
        }
    }
}
