//! The inner nodes of trees with all entries in their leaves, whose type the tree defines.
//!
//! A node is read into a vector, changed there, and written as a whole: in place, or as a copy that
//! replaces it. This file splits and merges inner nodes; each tree splits and merges its leaves.

use super::{Read, Walk, broken};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// The greatest number of children of a node; with fewer than the second number, it is merged with
/// a neighbour if both have no more than the third.
const FANOUT: usize = 15;
const SPARSE: usize = 4;
const JOINED_MAX: usize = 11;

/// The greatest height of a valid tree.
const HEIGHT_MAX: usize = 32;

/// A tree with leaves of type `L`, embedded in the object that owns it.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Index<'p, L> {
    root: Link<'p, L>,
}

/// A node; its children are all nodes, or all leaves.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Inner<'p, L> {
    count: u64,
    /// The lower bound of the keys of each child. That of the first child has no meaning.
    keys: [u64; FANOUT],
    inners: [Option<Ptr<'p, Inner<'p, L>>>; FANOUT],
    leaves: [Option<Ptr<'p, L>>; FANOUT],
}

type Link<'p, L> = Option<Ptr<'p, Inner<'p, L>>>;

#[derive(Clone, Copy)]
enum Child<'p, L> {
    Inner(Ptr<'p, Inner<'p, L>>),
    Leaf(Ptr<'p, L>),
}

type Children<'p, L> = Vec<(u64, Child<'p, L>)>;

/// The path from the root to a leaf: nodes, each with the index of the next child.
pub(crate) type Path<'p, L> = Vec<(Ptr<'p, Inner<'p, L>>, usize)>;

impl<'p, L: Persist<'p>> Inner<'p, L> {
    fn of(children: &[(u64, Child<'p, L>)]) -> Inner<'p, L> {
        let mut inner = Inner {
            count: children.len() as u64,
            keys: [0; FANOUT],
            inners: [None; FANOUT],
            leaves: [None; FANOUT],
        };
        for (place, (key, child)) in children.iter().enumerate() {
            inner.keys[place] = *key;
            match child {
                Child::Inner(node) => inner.inners[place] = Some(*node),
                Child::Leaf(leaf) => inner.leaves[place] = Some(*leaf),
            }
        }
        inner
    }

    fn children(&self) -> Result<Children<'p, L>, AccessError> {
        if self.count == 0 || self.count > FANOUT as u64 {
            return Err(broken("a node has an impossible number of children"));
        }
        let child = |place| match (self.inners[place], self.leaves[place]) {
            (Some(node), None) => Ok((self.keys[place], Child::Inner(node))),
            (None, Some(leaf)) => Ok((self.keys[place], Child::Leaf(leaf))),
            _ => Err(broken("a child is no node and no leaf, or both")),
        };
        (0..self.count as usize).map(child).collect()
    }

    fn place(&self, key: u64) -> usize {
        let count = (self.count as usize).min(FANOUT);
        (1..count).rev().find(|place| self.keys[*place] <= key).unwrap_or(0)
    }
}

impl<'p, L: Persist<'p>> Index<'p, L> {
    /// An index without leaves.
    pub(crate) fn empty() -> Index<'p, L> {
        Index { root: None }
    }

    /// The path to the leaf of a key; empty if there is no leaf.
    pub(crate) fn path<R: Read<'p>>(
        reader: &R,
        at: Ptr<'p, Index<'p, L>>,
        key: u64,
    ) -> Result<Path<'p, L>, R::Error> {
        let mut path = Vec::new();
        let mut link = reader.get(at.at(Index::ROOT))?;
        while let Some(node) = link {
            if path.len() == HEIGHT_MAX {
                return Err(broken("a tree is too high").into());
            }
            let inner = reader.get(node)?;
            let place = inner.place(key);
            path.push((node, place));
            link = inner.inners[place];
        }
        Ok(path)
    }

    /// The leaf at the end of a path.
    pub(crate) fn leaf<R: Read<'p>>(
        reader: &R,
        path: &Path<'p, L>,
    ) -> Result<Option<Ptr<'p, L>>, R::Error> {
        let Some((node, place)) = path.last() else { return Ok(None) };
        let leaf = reader.get(node.at(Inner::LEAVES).index(*place))?;
        leaf.map(Some).ok_or_else(|| broken("a node leads nowhere").into())
    }

    /// The leaf before the one at the end of a path, if there is one.
    pub(crate) fn before<R: Read<'p>>(
        reader: &R,
        path: &Path<'p, L>,
    ) -> Result<Option<Ptr<'p, L>>, R::Error> {
        let Some((node, place)) = path.iter().rev().find(|(_, place)| *place > 0) else {
            return Ok(None);
        };
        let mut child = reader.get(*node)?.children()?[place - 1].1;
        for _ in 0..HEIGHT_MAX {
            match child {
                Child::Leaf(leaf) => return Ok(Some(leaf)),
                Child::Inner(node) => {
                    let children = reader.get(node)?.children()?;
                    child = children[children.len() - 1].1;
                }
            }
        }
        Err(broken("a tree is too high").into())
    }

    /// The paths, in order, to the leaf of a path and to a neighbour with the same parent.
    pub(crate) fn pair<R: Read<'p>>(
        reader: &R,
        path: &Path<'p, L>,
    ) -> Result<Option<[Path<'p, L>; 2]>, R::Error> {
        let Some((node, place)) = path.last() else { return Ok(None) };
        let left = place.saturating_sub(1);
        if left as u64 + 1 >= reader.get(node.at(Inner::COUNT))? {
            return Ok(None);
        }
        let to = |place| [&path[..path.len() - 1], &[(*node, place)]].concat();
        Ok(Some([to(left), to(left + 1)]))
    }

    /// Checks all nodes, and calls `each` with every leaf, the lower bound of its keys and their
    /// upper bound (exclusive).
    pub(crate) fn check<M: Memory>(
        session: &Session<'p, '_, M>,
        at: Ptr<'p, Index<'p, L>>,
        walk: &mut Walk<'_>,
        mut each: impl FnMut(&mut Walk<'_>, Ptr<'p, L>, Range) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let Some(root) = session.get(at.at(Index::ROOT))? else { return Ok(()) };
        let children = session.get(root)?.children()?;
        let is_needed = children.len() > 1 || matches!(children[0].1, Child::Leaf(_));
        walk.ensure(is_needed, || "the root has a single node below it".to_owned())?;
        check(session, (root, 0), (0, None), walk, &mut each)?;
        Ok(())
    }
}

/// The range of keys of a checked tree: from the first, and less than the second.
pub(crate) type Range = (u64, Option<u64>);

/// Checks a node, `depth` levels below the root, and its subtree; returns the subtree's height.
fn check<'p, M: Memory, L: Persist<'p>>(
    session: &Session<'p, '_, M>,
    (at, depth): (Ptr<'p, Inner<'p, L>>, usize),
    (low, end): Range,
    walk: &mut Walk<'_>,
    each: &mut impl FnMut(&mut Walk<'_>, Ptr<'p, L>, Range) -> Result<(), Damage>,
) -> Result<usize, Damage> {
    walk.object("inner node")?;
    walk.ensure(depth < HEIGHT_MAX, || "a tree is too high".to_owned())?;
    let children = session.get(at)?.children()?;
    let mut levels = None;
    for (place, (key, child)) in children.iter().enumerate() {
        let first = if place == 0 { low } else { *key };
        let last = children.get(place + 1).map(|(key, _)| *key).or(end);
        let is_between = low <= first && last.is_none_or(|last| first < last);
        walk.ensure(is_between, || format!("key {first} of an inner node is not in order"))?;
        let below = match child {
            Child::Inner(node) => {
                1 + check(session, (*node, depth + 1), (first, last), walk, each)?
            }
            Child::Leaf(leaf) => {
                each(walk, *leaf, (first, last))?;
                1
            }
        };
        let is_level = *levels.get_or_insert(below) == below;
        walk.ensure(is_level, || format!("the leaves at key {first} are deeper than others"))?;
    }
    Ok(levels.unwrap_or(0))
}

/// The nodes of a tree in a transaction that changes them.
pub(crate) struct Edit<'e, 'p, 't, 'm, M: Memory, L> {
    pub(crate) tx: &'e mut Tx<'p, 't, 'm, M>,
    pub(crate) index: Ptr<'p, Index<'p, L>>,
    /// Whether a node with new children is replaced by a copy.
    pub(crate) copies: bool,
}

impl<'p, M: Memory, L: Persist<'p>> Edit<'_, 'p, '_, '_, M, L> {
    /// Adds the first leaf.
    pub(crate) fn start(&mut self, leaf: Ptr<'p, L>) -> Result<(), TxError> {
        let root = self.tx.alloc(Inner::of(&[(0, Child::Leaf(leaf))]))?;
        self.tx.set(self.index.at(Index::ROOT), Some(root))
    }

    /// Replaces the leaf at the end of the path.
    pub(crate) fn replace(&mut self, path: &Path<'p, L>, leaf: Ptr<'p, L>) -> Result<(), TxError> {
        let Some((node, place)) = path.last() else { return Ok(()) };
        self.tx.set(node.at(Inner::LEAVES).index(*place), Some(leaf))
    }

    /// Adds a leaf behind the one at the end of the path, for keys from `key` on.
    pub(crate) fn split(
        &mut self,
        mut path: Path<'p, L>,
        key: u64,
        leaf: Ptr<'p, L>,
    ) -> Result<(), TxError> {
        let mut added = (key, Child::Leaf(leaf));
        for depth in (0..path.len()).rev() {
            let mut children = self.children(&path, depth)?;
            children.insert(path[depth].1 + 1, added);
            if children.len() <= FANOUT {
                return self.write(&mut path, depth, &children);
            }
            let right = children.split_off(children.len() / 2);
            self.write(&mut path, depth, &children)?;
            added = (right[0].0, Child::Inner(self.tx.alloc(Inner::of(&right))?));
        }
        let root = self.tx.alloc(Inner::of(&[(0, Child::Inner(path[0].0)), added]))?;
        self.tx.set(self.index.at(Index::ROOT), Some(root))
    }

    /// Removes the leaf at the end of the path, and the nodes that become empty or sparse.
    pub(crate) fn remove(&mut self, mut path: Path<'p, L>) -> Result<(), TxError> {
        for depth in (0..path.len()).rev() {
            let mut children = self.children(&path, depth)?;
            children.remove(path[depth].1);
            if !children.is_empty() {
                self.write(&mut path, depth, &children)?;
                return self.join(path, depth, children);
            }
            self.tx.free(path[depth].0)?;
        }
        self.tx.set(self.index.at(Index::ROOT), None)
    }

    fn children(&self, path: &Path<'p, L>, depth: usize) -> Result<Children<'p, L>, TxError> {
        let (node, place) = path[depth];
        let children = self.tx.get(node)?.children()?;
        if place < children.len() {
            Ok(children)
        } else {
            Err(broken("a way leads nowhere").into())
        }
    }

    /// Sets the children of a node of the path.
    fn write(
        &mut self,
        path: &mut Path<'p, L>,
        depth: usize,
        children: &[(u64, Child<'p, L>)],
    ) -> Result<(), TxError> {
        let old = path[depth].0;
        let node = self.rewrite(old, children)?;
        path[depth].0 = node;
        match depth.checked_sub(1).map(|above| path[above]) {
            _ if node == old => Ok(()),
            None => self.tx.set(self.index.at(Index::ROOT), Some(node)),
            Some((above, place)) => self.tx.set(above.at(Inner::INNERS).index(place), Some(node)),
        }
    }

    /// Sets the children of a node, in place or in a copy.
    fn rewrite(
        &mut self,
        node: Ptr<'p, Inner<'p, L>>,
        children: &[(u64, Child<'p, L>)],
    ) -> Result<Ptr<'p, Inner<'p, L>>, TxError> {
        if self.copies {
            self.tx.free(node)?;
            return self.tx.alloc(Inner::of(children));
        }
        self.tx.set(node, Inner::of(children))?;
        Ok(node)
    }

    /// Merges a node that has few children with a neighbour, and so on up to the root.
    fn join(
        &mut self,
        mut path: Path<'p, L>,
        mut depth: usize,
        mut children: Children<'p, L>,
    ) -> Result<(), TxError> {
        while depth > 0 && children.len() < SPARSE {
            let above = self.children(&path, depth - 1)?;
            let left = path[depth - 1].1.saturating_sub(1);
            let Some([one, other]) = above.get(left..left + 2) else { return Ok(()) };
            let ((_, Child::Inner(one)), (key, Child::Inner(other))) = (one, other) else {
                return Err(broken("a leaf is beside a node").into());
            };
            let mut joined = self.tx.get(*one)?.children()?;
            let mut right = self.tx.get(*other)?.children()?;
            if joined.len() + right.len() > JOINED_MAX {
                return Ok(());
            }
            right[0].0 = *key;
            joined.append(&mut right);
            self.tx.free(*other)?;
            let joined = self.rewrite(*one, &joined)?;
            children = above;
            children[left].1 = Child::Inner(joined);
            children.remove(left + 1);
            depth -= 1;
            self.write(&mut path, depth, &children)?;
        }
        let (root, _) = path[0];
        match children[..] {
            [(_, Child::Inner(only))] if depth == 0 => {
                self.tx.free(root)?;
                self.tx.set(self.index.at(Index::ROOT), Some(only))
            }
            _ => Ok(()),
        }
    }
}
