//! Linking, unlinking and rebalancing, all through one transaction (Cormen et al., chapter 13).

use super::{BLACK, CHILDREN, COLOUR, PARENT, RED, ROOT};
use crate::shared::epoch_log::Tx;
use seawall_memory::{Addr, Memory};

/// A transaction on one tree. A side is 0 (left) or 1 (right).
pub(super) struct Edit<'t, 'm, M: Memory> {
    pub(super) tx: &'t mut Tx<'m, M>,
    pub(super) root: Addr,
}

impl<M: Memory> Edit<'_, '_, M> {
    fn top(&self) -> Addr {
        Addr::from_bits(self.tx.load(self.root.plus(ROOT)))
    }

    fn child(&self, node: Addr, side: usize) -> Addr {
        Addr::from_bits(self.tx.load(node.plus(CHILDREN[side])))
    }

    fn parent(&self, node: Addr) -> Addr {
        Addr::from_bits(self.tx.load(node.plus(PARENT)))
    }

    fn is_red(&self, node: Addr) -> bool {
        !node.is_null() && self.tx.load(node.plus(COLOUR)) == RED
    }

    fn set_child(&mut self, node: Addr, side: usize, child: Addr) {
        self.tx.store(node.plus(CHILDREN[side]), child.bits());
    }

    fn set_parent(&mut self, node: Addr, parent: Addr) {
        if !node.is_null() {
            self.tx.store(node.plus(PARENT), parent.bits());
        }
    }

    fn set_colour(&mut self, node: Addr, colour: u64) {
        if self.tx.load(node.plus(COLOUR)) != colour {
            self.tx.store(node.plus(COLOUR), colour);
        }
    }

    fn side_of(&self, node: Addr, parent: Addr) -> usize {
        usize::from(self.child(parent, 1) == node)
    }

    /// Replaces `old` below `parent` by `new`.
    fn replace(&mut self, old: Addr, parent: Addr, new: Addr) {
        if parent.is_null() {
            self.tx.store(self.root.plus(ROOT), new.bits());
        } else {
            let side = self.side_of(old, parent);
            self.set_child(parent, side, new);
        }
        self.set_parent(new, parent);
    }

    /// Rotates `node` down to `side`; its child on the other side takes its place.
    fn rotate(&mut self, node: Addr, side: usize) {
        let up = self.child(node, 1 - side);
        let middle = self.child(up, side);
        self.set_child(node, 1 - side, middle);
        self.set_parent(middle, node);
        let parent = self.parent(node);
        self.replace(node, parent, up);
        self.set_child(up, side, node);
        self.set_parent(node, up);
    }

    /// Links the new red node `node` below `parent` (null: as the root) on `side`.
    pub(super) fn link(&mut self, node: Addr, parent: Addr, side: usize) {
        if parent.is_null() {
            self.tx.store(self.root.plus(ROOT), node.bits());
        } else {
            self.set_child(parent, side, node);
        }
        self.after_link(node);
        let top = self.top();
        self.set_colour(top, BLACK);
    }

    fn after_link(&mut self, mut node: Addr) {
        loop {
            let mut parent = self.parent(node);
            if !self.is_red(parent) {
                return;
            }
            let grand = self.parent(parent);
            if grand.is_null() {
                return;
            }
            let side = self.side_of(parent, grand);
            let uncle = self.child(grand, 1 - side);
            if self.is_red(uncle) {
                self.set_colour(parent, BLACK);
                self.set_colour(uncle, BLACK);
                self.set_colour(grand, RED);
                node = grand;
                continue;
            }
            if self.side_of(node, parent) != side {
                self.rotate(parent, side);
                parent = node;
            }
            self.set_colour(parent, BLACK);
            self.set_colour(grand, RED);
            self.rotate(grand, 1 - side);
            return;
        }
    }

    /// Unlinks `node` from the tree.
    pub(super) fn unlink(&mut self, node: Addr) {
        let (left, right) = (self.child(node, 0), self.child(node, 1));
        let parent = self.parent(node);
        let (hole, above, lost_black);
        if left.is_null() || right.is_null() {
            hole = if left.is_null() { right } else { left };
            above = parent;
            lost_black = !self.is_red(node);
            self.replace(node, parent, hole);
        } else {
            let next = self.leftmost(right);
            hole = self.child(next, 1);
            lost_black = !self.is_red(next);
            above = self.take_over(node, next, right, hole);
        }
        if lost_black {
            self.after_unlink(hole, above);
        }
    }

    fn leftmost(&self, mut node: Addr) -> Addr {
        loop {
            let left = self.child(node, 0);
            if left.is_null() {
                return node;
            }
            node = left;
        }
    }

    /// Moves `next`, the successor of `node` below its child `right`, into the place of `node`;
    /// returns the parent of `hole`, which takes the place of `next`.
    fn take_over(&mut self, node: Addr, next: Addr, right: Addr, hole: Addr) -> Addr {
        let mut above = next;
        if next != right {
            above = self.parent(next);
            self.replace(next, above, hole);
            self.set_child(next, 1, right);
            self.set_parent(right, next);
        }
        let parent = self.parent(node);
        self.replace(node, parent, next);
        let left = self.child(node, 0);
        self.set_child(next, 0, left);
        self.set_parent(left, next);
        let colour = if self.is_red(node) { RED } else { BLACK };
        self.set_colour(next, colour);
        above
    }

    /// Restores the black heights: paths through `node` below `parent` have one black node too few.
    fn after_unlink(&mut self, mut node: Addr, mut parent: Addr) {
        while !parent.is_null() && !self.is_red(node) {
            let side = self.side_below(node, parent);
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.set_colour(sibling, BLACK);
                self.set_colour(parent, RED);
                self.rotate(parent, side);
                sibling = self.child(parent, 1 - side);
            }
            let mut far = self.child(sibling, 1 - side);
            let near = self.child(sibling, side);
            if !self.is_red(far) && !self.is_red(near) {
                self.set_colour(sibling, RED);
                (node, parent) = (parent, self.parent(parent));
                continue;
            }
            if !self.is_red(far) {
                self.set_colour(near, BLACK);
                self.set_colour(sibling, RED);
                self.rotate(sibling, 1 - side);
                (far, sibling) = (sibling, near);
            }
            let colour = if self.is_red(parent) { RED } else { BLACK };
            self.set_colour(sibling, colour);
            self.set_colour(parent, BLACK);
            self.set_colour(far, BLACK);
            self.rotate(parent, side);
            return;
        }
        if !node.is_null() {
            self.set_colour(node, BLACK);
        }
    }

    /// The side of `node`, which may be null, below `parent`: its sibling is never null.
    fn side_below(&self, node: Addr, parent: Addr) -> usize {
        usize::from(self.child(parent, 0) != node)
    }
}
