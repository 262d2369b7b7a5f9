//! An AVL tree ("AVL" of FFCCD, ISCA'22), values in their nodes.
//!
//! Nodes are relinked and never copied: a node with two children is replaced by the least node of
//! its right subtree. Only words that differ are written.
//!
//! Its planted bug: a put does not update heights on the way back.

use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Read, Walk};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// An AVL tree.
pub struct Avl;

/// The greatest height of a valid tree.
const HEIGHT_MAX: u64 = 64;

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
    height: u64,
    value: Value128,
}

type At<'p> = Ptr<'p, Node<'p>>;
type Link<'p> = Option<At<'p>>;

fn child<'p>(node: At<'p>, side: usize) -> Ptr<'p, Link<'p>> {
    node.at(Node::CHILDREN).index(side)
}

fn key<'p, R: Read<'p>>(reader: &R, node: At<'p>) -> Result<u64, R::Error> {
    reader.get(node.at(Node::VALUE).at(Value128::KEY))
}

fn height<'p, R: Read<'p>>(reader: &R, link: Link<'p>) -> Result<u64, R::Error> {
    link.map_or(Ok(0), |node| reader.get(node.at(Node::HEIGHT)))
}

fn heights<'p, R: Read<'p>>(reader: &R, node: At<'p>) -> Result<[u64; 2], R::Error> {
    let [left, right] = reader.get(node.at(Node::CHILDREN))?;
    Ok([height(reader, left)?, height(reader, right)?])
}

/// Stores a value if it differs from the present one.
fn put<'p, M: Memory, T: Persist<'p> + PartialEq>(
    tx: &mut Tx<'p, '_, '_, M>,
    at: Ptr<'p, T>,
    value: T,
) -> Result<(), TxError> {
    if tx.get(at)? == value { Ok(()) } else { tx.set(at, value) }
}

/// Sets the value in the tree below `link`; returns its new root, and whether the key is new.
fn insert<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    link: Link<'p>,
    value: Value128,
    slip: bool,
) -> Result<(At<'p>, bool), TxError> {
    let Some(node) = link else {
        let node = tx.alloc(Node { children: [None; 2], height: 1, value })?;
        return Ok((node, true));
    };
    let here = key(tx, node)?;
    if here == value.key {
        tx.set(node.at(Node::VALUE), value)?;
        return Ok((node, false));
    }
    let link = child(node, usize::from(value.key > here));
    let below = tx.get(link)?;
    let (below, is_new) = insert(tx, below, value, slip)?;
    put(tx, link, Some(below))?;
    let node = if slip { node } else { balance(tx, node)? };
    Ok((node, is_new))
}

/// Removes the node of a key below `link`; returns the new root, and whether there was one.
fn remove<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    link: Link<'p>,
    gone: u64,
) -> Result<(Link<'p>, bool), TxError> {
    let Some(node) = link else { return Ok((None, false)) };
    let here = key(tx, node)?;
    if here != gone {
        let link = child(node, usize::from(gone > here));
        let below = tx.get(link)?;
        let (below, is_gone) = remove(tx, below, gone)?;
        put(tx, link, below)?;
        return Ok((Some(balance(tx, node)?), is_gone));
    }
    let children = tx.get(node.at(Node::CHILDREN))?;
    tx.free(node)?;
    let [left, Some(right)] = children else { return Ok((children[0], true)) };
    if left.is_none() {
        return Ok((Some(right), true));
    }
    let (least, right) = take_least(tx, right)?;
    tx.set(least.at(Node::CHILDREN), [left, right])?;
    Ok((Some(balance(tx, least)?), true))
}

/// Removes the least node of the tree below `node`; returns it and the root of the rest.
fn take_least<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    node: At<'p>,
) -> Result<(At<'p>, Link<'p>), TxError> {
    let [left, right] = tx.get(node.at(Node::CHILDREN))?;
    let Some(left) = left else { return Ok((node, right)) };
    let (least, left) = take_least(tx, left)?;
    put(tx, child(node, 0), left)?;
    Ok((least, Some(balance(tx, node)?)))
}

/// Updates the height of `node`, and rotates it if one side is too high; returns the new top node.
fn balance<'p, M: Memory>(tx: &mut Tx<'p, '_, '_, M>, node: At<'p>) -> Result<At<'p>, TxError> {
    let high = heights(tx, node)?;
    let Some(side) = (0..2).find(|side| high[*side] > high[1 - side] + 1) else {
        put(tx, node.at(Node::HEIGHT), 1 + high[0].max(high[1]))?;
        return Ok(node);
    };
    let below = tx.get(child(node, side))?.ok_or_else(|| super::broken("a height is wrong"))?;
    let inner = heights(tx, below)?;
    if inner[1 - side] > inner[side] {
        let lifted = lift(tx, below, 1 - side)?;
        tx.set(child(node, side), Some(lifted))?;
    }
    lift(tx, node, side)
}

/// Rotates the child on this side of `node` above it.
fn lift<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    node: At<'p>,
    side: usize,
) -> Result<At<'p>, TxError> {
    let below = tx.get(child(node, side))?.ok_or_else(|| super::broken("a height is wrong"))?;
    let inner = tx.get(child(below, 1 - side))?;
    tx.set(child(node, side), inner)?;
    tx.set(child(below, 1 - side), Some(node))?;
    for lower in [node, below] {
        let [left, right] = heights(tx, lower)?;
        put(tx, lower.at(Node::HEIGHT), 1 + left.max(right))?;
    }
    Ok(below)
}

/// The range of keys of a checked tree: from the first, and less than the second.
type Range = (u64, Option<u64>);

fn check<'p, M: Memory>(
    session: &Session<'p, '_, M>,
    link: Link<'p>,
    (low, end): Range,
    walk: &mut Walk<'_>,
) -> Result<(u64, u64), Damage> {
    let Some(at) = link else { return Ok((0, 0)) };
    walk.object("node")?;
    let node = session.get(at)?;
    let here = node.value.key;
    node.value.check()?;
    let is_between = low <= here && end.is_none_or(|end| here < end);
    walk.ensure(is_between, || format!("the node of key {here} is not in order"))?;
    walk.ensure(node.height <= HEIGHT_MAX, || format!("the height at key {here} is impossible"))?;
    let [left, right] = node.children;
    for below in [left, right] {
        let lower = height(session, below)?;
        walk.ensure(lower < node.height, || format!("the height at key {here} is too small"))?;
    }
    let (height_left, nodes_left) = check(session, left, (low, Some(here)), walk)?;
    walk.entry(here, node.value.tag)?;
    let (height_right, nodes_right) = check(session, right, (here.saturating_add(1), end), walk)?;
    let height = 1 + height_left.max(height_right);
    walk.ensure(height == node.height, || {
        format!("the height at key {here} is {height}, and said to be {}", node.height)
    })?;
    walk.ensure(height_left.abs_diff(height_right) <= 1, || {
        format!("the tree is out of balance at key {here}")
    })?;
    Ok((height, 1 + nodes_left + nodes_right))
}

impl ChurnStructure for Avl {
    const NAME: &'static str = "c-avl";
    const ABOUT: &'static str = "an AVL tree of typed nodes that grows and shrinks";
    const ENTRY_BYTES: u64 = 168;
    type Part = Tree<'static>;

    fn empty<'p>(_: u64) -> Tree<'p> {
        Tree { root: None, nodes: 0 }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let Tree { root, nodes } = tx.get(part)?;
            let value = Value128::new(change.key, change.tag);
            let (root, is_new) = insert(tx, root, value, change.slip)?;
            put(tx, part.at(Tree::ROOT), Some(root))?;
            put(tx, part.at(Tree::NODES), nodes + u64::from(is_new))
        })
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Tree<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let Tree { root, nodes } = tx.get(part)?;
            let (root, is_gone) = remove(tx, root, change.key)?;
            put(tx, part.at(Tree::ROOT), root)?;
            put(tx, part.at(Tree::NODES), nodes - u64::from(is_gone))
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, Tree<'p>>,
        wanted: u64,
    ) -> Result<Option<u64>, AccessError> {
        let mut link = session.get(part.at(Tree::ROOT))?;
        while let Some(node) = link {
            let here = key(session, node)?;
            if here == wanted {
                return session.get(node.at(Node::VALUE).at(Value128::TAG)).map(Some);
            }
            link = session.get(child(node, usize::from(wanted > here)))?;
        }
        Ok(None)
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, Tree<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let Tree { root, nodes } = session.get(part)?;
        let (_, linked) = check(session, root, (0, None), walk)?;
        walk.ensure(linked == nodes, || format!("{linked} nodes are linked, {nodes} are counted"))
    }
}
