//! A red-black tree with parent pointers ("RB" of FFCCD, ISCA'22), values in their nodes.
//!
//! The algorithms are those of Cormen et al., chapter 13, with null pointers for the leaves and
//! both directions in one piece of code.
//!
//! Its planted bug: a node that is put below a red node stays there.

use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Read, Walk, broken};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// A red-black tree.
pub struct Rb;

/// The greatest number of nodes on a path of a valid tree.
const DEPTH_MAX: u64 = 128;

/// The tree of a part.
#[derive(Clone, Copy, Persist)]
pub struct Tree<'p> {
    root: Link<'p>,
    nodes: u64,
}

/// An entry.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Node<'p> {
    children: [Link<'p>; 2],
    parent: Link<'p>,
    red: bool,
    value: Value128,
}

type At<'p> = Ptr<'p, Node<'p>>;
type Link<'p> = Option<At<'p>>;

/// The node of a key; the error is its would-be parent and the side there.
type Found<'p> = Result<At<'p>, (Link<'p>, usize)>;

fn find<'p, R: Read<'p>>(
    reader: &R,
    tree: Ptr<'p, Tree<'p>>,
    key: u64,
) -> Result<Found<'p>, R::Error> {
    let (mut parent, mut side) = (None, 0);
    let mut link = reader.get(tree.at(Tree::ROOT))?;
    while let Some(node) = link {
        let here = reader.get(node.at(Node::VALUE).at(Value128::KEY))?;
        if here == key {
            return Ok(Ok(node));
        }
        (parent, side) = (link, usize::from(key > here));
        link = reader.get(node.at(Node::CHILDREN).index(side))?;
    }
    Ok(Err((parent, side)))
}

/// A tree in a transaction that changes it.
struct Edit<'e, 'p, 't, 'm, M: Memory> {
    tx: &'e mut Tx<'p, 't, 'm, M>,
    tree: Ptr<'p, Tree<'p>>,
}

impl<'p, M: Memory> Edit<'_, 'p, '_, '_, M> {
    fn child(&self, node: At<'p>, side: usize) -> Result<Link<'p>, TxError> {
        self.tx.get(node.at(Node::CHILDREN).index(side))
    }

    /// The sibling, which exists by the rules of colours.
    fn sibling(&self, parent: At<'p>, side: usize) -> Result<At<'p>, TxError> {
        self.child(parent, side)?.ok_or_else(|| broken("a way down has too few black nodes").into())
    }

    fn parent(&self, node: At<'p>) -> Result<Link<'p>, TxError> {
        self.tx.get(node.at(Node::PARENT))
    }

    /// The side of its parent on which a node, or none, is.
    fn side(&self, parent: At<'p>, link: Link<'p>) -> Result<usize, TxError> {
        Ok(usize::from(self.child(parent, 0)? != link))
    }

    fn is_red(&self, link: Link<'p>) -> Result<bool, TxError> {
        link.map_or(Ok(false), |node| self.tx.get(node.at(Node::RED)))
    }

    fn paint(&mut self, node: At<'p>, red: bool) -> Result<(), TxError> {
        self.tx.set(node.at(Node::RED), red)
    }

    /// Links `link` on this side of `node`.
    fn hang(&mut self, node: At<'p>, side: usize, link: Link<'p>) -> Result<(), TxError> {
        self.tx.set(node.at(Node::CHILDREN).index(side), link)?;
        link.map_or(Ok(()), |below| self.tx.set(below.at(Node::PARENT), Some(node)))
    }

    /// Replaces `node` by `link`.
    fn replace(&mut self, node: At<'p>, link: Link<'p>) -> Result<(), TxError> {
        if let Some(parent) = self.parent(node)? {
            let side = self.side(parent, Some(node))?;
            return self.hang(parent, side, link);
        }
        self.tx.set(self.tree.at(Tree::ROOT), link)?;
        link.map_or(Ok(()), |root| self.tx.set(root.at(Node::PARENT), None))
    }

    /// Rotates a node above its parent.
    fn lift(&mut self, node: At<'p>) -> Result<(), TxError> {
        let Some(parent) = self.parent(node)? else { return Ok(()) };
        let side = self.side(parent, Some(node))?;
        let inner = self.child(node, 1 - side)?;
        self.replace(parent, Some(node))?;
        self.hang(parent, side, inner)?;
        self.hang(node, 1 - side, Some(parent))
    }

    /// Removes red nodes below red ones, after `node` was put.
    fn settle(&mut self, mut node: At<'p>) -> Result<(), TxError> {
        while let Some(parent) = self.parent(node)? {
            if !self.is_red(Some(parent))? {
                return Ok(());
            }
            let Some(grand) = self.parent(parent)? else { break };
            let side = self.side(grand, Some(parent))?;
            let uncle = self.child(grand, 1 - side)?;
            if let Some(uncle) = uncle
                && self.is_red(Some(uncle))?
            {
                self.paint(parent, false)?;
                self.paint(uncle, false)?;
                self.paint(grand, true)?;
                node = grand;
                continue;
            }
            let is_inner = self.side(parent, Some(node))? != side;
            let top = if is_inner { node } else { parent };
            if is_inner {
                self.lift(node)?;
            }
            self.paint(top, false)?;
            self.paint(grand, true)?;
            return self.lift(top);
        }
        let root = self.tx.get(self.tree.at(Tree::ROOT))?;
        root.map_or(Ok(()), |root| self.paint(root, false))
    }

    /// Unlinks a node from the tree.
    fn unlink(&mut self, node: At<'p>) -> Result<(), TxError> {
        let Node { children, parent, red, .. } = self.tx.get(node)?;
        let [left, Some(right)] = children else {
            return self.take_out(node, children[0], parent, red);
        };
        if left.is_none() {
            return self.take_out(node, Some(right), parent, red);
        }
        let mut least = right;
        while let Some(left) = self.child(least, 0)? {
            least = left;
        }
        // The least node of the right subtree gets the place and the colour; its child moves up.
        let lower = self.tx.get(least)?;
        let (mut above, below) = (lower.parent, lower.children[1]);
        if least == right {
            above = Some(least);
        } else {
            self.replace(least, below)?;
            self.hang(least, 1, Some(right))?;
        }
        self.replace(node, Some(least))?;
        self.hang(least, 0, left)?;
        self.paint(least, red)?;
        if lower.red { Ok(()) } else { self.make_up(below, above) }
    }

    /// Replaces a node by its only child `below`.
    fn take_out(
        &mut self,
        node: At<'p>,
        below: Link<'p>,
        parent: Link<'p>,
        red: bool,
    ) -> Result<(), TxError> {
        self.replace(node, below)?;
        if red { Ok(()) } else { self.make_up(below, parent) }
    }

    /// Repairs the tree: paths through `link`, a child of `above`, have one black node too few.
    fn make_up(&mut self, mut link: Link<'p>, mut above: Link<'p>) -> Result<(), TxError> {
        while let Some(parent) = above {
            if self.is_red(link)? {
                break;
            }
            let side = self.side(parent, link)?;
            let mut sibling = self.sibling(parent, 1 - side)?;
            if self.is_red(Some(sibling))? {
                self.paint(sibling, false)?;
                self.paint(parent, true)?;
                self.lift(sibling)?;
                sibling = self.sibling(parent, 1 - side)?;
            }
            let [inner, outer] = [self.child(sibling, side)?, self.child(sibling, 1 - side)?];
            match (inner, outer) {
                (_, Some(outer)) if self.is_red(Some(outer))? => {
                    self.paint(outer, false)?;
                    return self.turn(sibling, parent);
                }
                (Some(inner), _) if self.is_red(Some(inner))? => {
                    self.lift(inner)?;
                    return self.turn(inner, parent);
                }
                _ => self.paint(sibling, true)?,
            }
            (link, above) = (above, self.parent(parent)?);
        }
        link.map_or(Ok(()), |node| self.paint(node, false))
    }

    /// Rotates `top` above `parent` and gives it `parent`'s colour; `parent` becomes black.
    fn turn(&mut self, top: At<'p>, parent: At<'p>) -> Result<(), TxError> {
        let red = self.is_red(Some(parent))?;
        self.paint(top, red)?;
        self.paint(parent, false)?;
        self.lift(top)
    }
}

/// The context of a checked subtree: its parent, whether that is red, the range of keys, the number
/// of nodes above it.
#[derive(Clone, Copy)]
struct Above<'p> {
    parent: Link<'p>,
    red: bool,
    low: u64,
    end: Option<u64>,
    depth: u64,
}

/// Returns the number of black nodes on each path, and that of all nodes.
fn check<'p, M: Memory>(
    session: &Session<'p, '_, M>,
    link: Link<'p>,
    above: Above<'p>,
    walk: &mut Walk<'_>,
) -> Result<(u64, u64), Damage> {
    let Some(at) = link else { return Ok((0, 0)) };
    walk.object("node")?;
    let Node { children, parent, red, value } = session.get(at)?;
    let Above { low, end, depth, .. } = above;
    let here = value.key;
    value.check()?;
    let is_between = low <= here && end.is_none_or(|end| here < end);
    walk.ensure(is_between, || format!("the node of key {here} is not in order"))?;
    walk.ensure(depth < DEPTH_MAX, || format!("the node of key {here} is too deep"))?;
    walk.ensure(parent == above.parent, || {
        format!("the node of key {here} does not lead back to its parent")
    })?;
    walk.ensure(!red || !above.red, || {
        format!("the node of key {here} is red, and so is its parent")
    })?;
    let below = Above { parent: link, red, low, end, depth: depth + 1 };
    let left = Above { end: Some(here), ..below };
    let right = Above { low: here.saturating_add(1), ..below };
    let (black, nodes) = check(session, children[0], left, walk)?;
    walk.entry(here, value.tag)?;
    let (black_right, nodes_right) = check(session, children[1], right, walk)?;
    walk.ensure(black == black_right, || {
        format!("{black} black nodes to the left of key {here}, {black_right} to the right")
    })?;
    Ok((black + u64::from(!red), 1 + nodes + nodes_right))
}

impl ChurnStructure for Rb {
    const NAME: &'static str = "c-rb";
    const ABOUT: &'static str = "a red-black tree of typed nodes that grows and shrinks";
    const ENTRY_BYTES: u64 = 176;
    type Part = Tree<'static>;

    fn empty<'p>(_: u64) -> Tree<'p> {
        Tree { root: None, nodes: 0 }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let value = Value128::new(change.key, change.tag);
            let (parent, side) = match find(tx, tree, change.key)? {
                Ok(node) => return tx.set(node.at(Node::VALUE), value),
                Err(place) => place,
            };
            let red = parent.is_some();
            let node = tx.alloc(Node { children: [None; 2], parent, red, value })?;
            tx.update(tree.at(Tree::NODES), |nodes| nodes + 1)?;
            let Some(parent) = parent else { return tx.set(tree.at(Tree::ROOT), Some(node)) };
            tx.set(parent.at(Node::CHILDREN).index(side), Some(node))?;
            if change.slip { Ok(()) } else { Edit { tx, tree }.settle(node) }
        })
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let Ok(node) = find(tx, tree, change.key)? else { return Ok(()) };
            Edit { tx, tree }.unlink(node)?;
            tx.free(node)?;
            tx.update(tree.at(Tree::NODES), |nodes| nodes - 1)
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let found = find(session, tree, key)?.ok();
        found.map(|node| session.get(node.at(Node::VALUE).at(Value128::TAG))).transpose()
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        tree: Ptr<'p, Tree<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let Tree { root, nodes } = session.get(tree)?;
        // A root is black: as below a red node.
        let above = Above { parent: None, red: true, low: 0, end: None, depth: 0 };
        let (_, linked) = check(session, root, above, walk)?;
        walk.ensure(linked == nodes, || format!("{linked} nodes are linked, {nodes} are counted"))
    }
}
