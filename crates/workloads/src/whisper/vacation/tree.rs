//! A search tree of nodes of one line in persistent memory, changed by transactions.
//!
//! STAMP has a red-black tree. This is a treap ("Randomized Search Trees", Algorithmica 1996):
//! heap-ordered by a hash of the keys, so its height is that of a random tree, and its shape is a
//! function of its keys, which a check can verify.

use super::super::mnemosyne::Tx;
use super::super::share::spread;
use seawall_memory::{Addr, Memory};

pub(super) const KEY: u64 = 0;
pub(super) const LEFT: u64 = 8;
pub(super) const RIGHT: u64 = 16;

/// The priority of a key: nodes with a larger one are nearer to the root; no two are equal.
pub(super) fn priority(key: u64) -> u64 {
    let mixed = spread(key);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The side of `node`, whose own key is `found`, on which `key` is.
fn side(node: Addr, found: u64, key: u64) -> Addr {
    node.plus(if key < found { LEFT } else { RIGHT })
}

/// The word that points to the node of `key`, and the node.
pub(super) fn find<M: Memory>(tx: &mut Tx<'_, M>, root: Addr, key: u64) -> Option<(Addr, Addr)> {
    let mut link = root;
    loop {
        let node = tx.follow(link);
        if node.is_null() {
            return None;
        }
        let found = tx.load(node.plus(KEY));
        if found == key {
            return Some((link, node));
        }
        link = side(node, found, key);
    }
}

/// Inserts `node` into the tree, which does not have its key: writes its key and both its sides.
pub(super) fn insert<M: Memory>(tx: &mut Tx<'_, M>, root: Addr, node: Addr, key: u64) {
    let mut link = root;
    let mut below = tx.follow(link);
    while !below.is_null() {
        let found = tx.load(below.plus(KEY));
        if priority(found) < priority(key) {
            break;
        }
        link = side(below, found, key);
        below = tx.follow(link);
    }
    tx.store(node.plus(KEY), key);
    tx.store(link, node.bits());
    let (mut left, mut right) = (node.plus(LEFT), node.plus(RIGHT));
    while !below.is_null() {
        let is_left = tx.load(below.plus(KEY)) < key;
        let hole = if is_left { &mut left } else { &mut right };
        tx.store(*hole, below.bits());
        *hole = below.plus(if is_left { RIGHT } else { LEFT });
        below = tx.follow(*hole);
    }
    tx.store(left, 0);
    tx.store(right, 0);
}

/// Removes the `node` to which `link` points.
pub(super) fn remove<M: Memory>(tx: &mut Tx<'_, M>, link: Addr, node: Addr) {
    let (mut left, mut right) = (tx.follow(node.plus(LEFT)), tx.follow(node.plus(RIGHT)));
    let mut hole = link;
    while !left.is_null() && !right.is_null() {
        let keys = [left, right].map(|node| tx.load(node.plus(KEY)));
        if priority(keys[0]) > priority(keys[1]) {
            tx.store(hole, left.bits());
            hole = left.plus(RIGHT);
            left = tx.follow(hole);
        } else {
            tx.store(hole, right.bits());
            hole = right.plus(LEFT);
            right = tx.follow(hole);
        }
    }
    let rest = if left.is_null() { right } else { left };
    tx.store(hole, rest.bits());
}
