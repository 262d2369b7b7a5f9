//! What is known of recovery: a decision tree over what it reads.
//!
//! Recovery is a function of the words that it reads, so each pass adds a path: the words in the
//! order in which it read them, their values, and at the end what it found. An image that agrees
//! with a path on its words needs no pass: the result is at the end of the path. This holds over
//! all crash points and all runs of a program, so most images cost a walk down the tree.

use std::sync::Arc;

use crate::trace::Trace;

pub(crate) type NodeId = u32;

/// What a pass of recovery does next.
pub(crate) enum Next<'t> {
    /// It reads this word.
    Read(u32),
    /// It is done.
    Done(&'t PassEnd),
}

/// The end of a pass: what it found, and what it did to memory if that may be cut short.
pub(crate) struct PassEnd {
    pub(crate) found: u32,
    pub(crate) recording: Option<Arc<Trace>>,
}

/// A read of a word with its first known value, whose node follows; or, with [`DONE`] for a word,
/// an end.
#[derive(Clone, Copy)]
struct Node {
    word: u32,
    /// The list of other values, or the number of the end.
    more: u32,
    value: u64,
}

const DONE: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    ends: Vec<PassEnd>,
    others: Vec<Vec<(u64, NodeId)>>,
}

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn root(&self) -> Option<NodeId> {
        (!self.nodes.is_empty()).then_some(0)
    }

    #[inline]
    pub(crate) fn next(&self, node: NodeId) -> Next<'_> {
        match self.nodes[node as usize] {
            Node { word: DONE, more, .. } => Next::Done(&self.ends[more as usize]),
            Node { word, .. } => Next::Read(word),
        }
    }

    /// The node that follows if the word that `node` reads has the value.
    #[inline]
    pub(crate) fn child(&self, node: NodeId, value: u64) -> Option<NodeId> {
        let Node { more, value: first, .. } = self.nodes[node as usize];
        if first == value {
            return Some(node + 1);
        }
        if more == NONE {
            return None;
        }
        let others = &self.others[more as usize];
        others.iter().find(|(known, _)| *known == value).map(|(_, child)| *child)
    }

    /// Adds the path of a pass, and returns its first node.
    pub(crate) fn add(&mut self, reads: &[(u32, u64)], end: PassEnd) -> NodeId {
        let start = self.nodes.len() as NodeId;
        self.nodes.extend(reads.iter().map(|&(word, value)| Node { word, more: NONE, value }));
        self.nodes.push(Node { word: DONE, more: self.ends.len() as u32, value: 0 });
        self.ends.push(end);
        start
    }

    /// Links a path to the node that reads the word, for this value of it.
    pub(crate) fn link(&mut self, node: NodeId, value: u64, child: NodeId) {
        let node = &mut self.nodes[node as usize];
        debug_assert_ne!(node.word, DONE, "nothing follows the end of a pass");
        if node.more == NONE {
            node.more = self.others.len() as u32;
            self.others.push(Vec::new());
        }
        self.others[node.more as usize].push((value, child));
    }
}
