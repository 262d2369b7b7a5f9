//! The walk of recovery and of the checks: every structural invariant of every tree, on untrusted
//! bytes.

use super::{BLACK, CHILDREN, COLOUR, COUNT, Forest, KEY, PARENT, RED, ROOT};
use crate::shared::Inconsistency;
use crate::shared::inconsistency::Reached;
use seawall_memory::{Addr, Memory, MemoryExt};

/// A node to be visited, and the conditions of its position.
struct Visit {
    to: u64,
    parent: Addr,
    under_red: bool,
    blacks: u64,
    low: u64,
    high: u64,
}

/// A visited node.
struct Node {
    at: Addr,
    key: u64,
    red: bool,
}

impl Forest {
    /// Visits every node once; calls `each` with its address and key.
    pub(super) fn walk<M: Memory>(
        &self,
        memory: &M,
        reached: &mut Reached<'_>,
        mut each: impl FnMut(Addr, u64) -> Result<(), Inconsistency>,
    ) -> Result<(), Inconsistency> {
        for tree in 0..self.shape.trees {
            let root = self.root(tree);
            let (mut found, mut height) = (0, None);
            let mut visits = vec![Visit {
                to: memory.load(root.plus(ROOT)),
                parent: Addr::NULL,
                under_red: true,
                blacks: 0,
                low: 0,
                high: u64::MAX,
            }];
            while let Some(visit) = visits.pop() {
                if visit.to == 0 {
                    if *height.get_or_insert(visit.blacks) != visit.blacks {
                        return Err(broken(tree, visit.parent, "breaks the black heights"));
                    }
                    continue;
                }
                let at = reached.reach(visit.to, || format!("tree {tree}"))?;
                let node = self.visit(memory, tree, at, &visit)?;
                each(node.at, node.key)?;
                found += 1;
                visits.extend(below(memory, &node, &visit));
            }
            let stored = memory.load(root.plus(COUNT));
            if stored != found {
                return Err(Inconsistency::Count {
                    what: format!("the count of tree {tree}"),
                    stored,
                    found,
                });
            }
        }
        Ok(())
    }

    fn visit<M: Memory>(
        &self,
        memory: &M,
        tree: u64,
        at: Addr,
        visit: &Visit,
    ) -> Result<Node, Inconsistency> {
        let field = |offset| memory.load::<u64>(at.plus(offset));
        let (key, colour) = (field(KEY), field(COLOUR));
        if key % self.shape.trees != tree || !(visit.low..=visit.high).contains(&key) {
            return Err(broken(tree, at, "is out of order"));
        }
        if field(PARENT) != visit.parent.bits() {
            return Err(broken(tree, at, "has another parent than the node that points to it"));
        }
        match (colour, visit.under_red) {
            (BLACK, _) | (RED, false) => Ok(Node { at, key, red: colour == RED }),
            (RED, true) => Err(broken(tree, at, "is red where only black may be")),
            _ => Err(broken(tree, at, "has no colour")),
        }
    }
}

/// The visits of the children of `node`. A child of the lowest or highest key is out of order.
fn below<M: Memory>(memory: &M, node: &Node, visit: &Visit) -> [Visit; 2] {
    let blacks = visit.blacks + u64::from(!node.red);
    [0, 1].map(|side| {
        let (low, high) = match side {
            0 => match node.key.checked_sub(1) {
                Some(high) => (visit.low, high),
                None => (1, 0),
            },
            _ => match node.key.checked_add(1) {
                Some(low) => (low, visit.high),
                None => (1, 0),
            },
        };
        let to = memory.load(node.at.plus(CHILDREN[side]));
        Visit { to, parent: node.at, under_red: node.red, blacks, low, high }
    })
}

fn broken(tree: u64, at: Addr, what: &str) -> Inconsistency {
    Inconsistency::Broken(format!("the node at {at} of tree {tree} {what}"))
}
