//! Doubly linked lists ("LL" of FFCCD, ISCA'22), values in their nodes.
//!
//! The published program walks the list to find a key. With millions of nodes only that walk would
//! be measured, so here the list is divided into many short ones, by the key's hash, with a table
//! of their heads.
//!
//! Its planted bug: the first node of a list gets no link to a new one before it.

use super::directory::Directory;
use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Read, Walk, spread};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session};
use seawall_runtime::{AccessError, TxError};

/// Doubly linked lists.
pub struct Ll;

/// The number of nodes of a list if all keys are present.
const LENGTH: u64 = 8;

/// The lists of a part.
#[derive(Clone, Copy, Persist)]
pub struct Lists<'p> {
    lists: u64,
    nodes: u64,
    heads: Directory<'p, Node<'p>>,
}

/// An entry.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Node<'p> {
    prev: Link<'p>,
    next: Link<'p>,
    value: Value128,
}

type Link<'p> = Option<Ptr<'p, Node<'p>>>;

/// The list of a key, and its node.
fn find<'p, R: Read<'p>>(
    reader: &R,
    part: Ptr<'p, Lists<'p>>,
    key: u64,
) -> Result<(u64, Link<'p>), R::Error> {
    let list = spread(key) % reader.get(part.at(Lists::LISTS))?.max(1);
    let mut link = Directory::get(reader, part.at(Lists::HEADS), list)?;
    while let Some(node) = link {
        if reader.get(node.at(Node::VALUE).at(Value128::KEY))? == key {
            break;
        }
        link = reader.get(node.at(Node::NEXT))?;
    }
    Ok((list, link))
}

impl ChurnStructure for Ll {
    const NAME: &'static str = "c-ll";
    const ABOUT: &'static str = "doubly linked lists of typed nodes that grow and shrink";
    const ENTRY_BYTES: u64 = 176;
    type Part = Lists<'static>;

    fn empty<'p>(keys: u64) -> Lists<'p> {
        Lists { lists: keys.div_ceil(LENGTH), nodes: 0, heads: Directory::empty() }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Lists<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let value = Value128::new(change.key, change.tag);
            let (list, found) = find(tx, part, change.key)?;
            if let Some(node) = found {
                return tx.set(node.at(Node::VALUE), value);
            }
            let heads = part.at(Lists::HEADS);
            let next = Directory::get(tx, heads, list)?;
            let node = tx.alloc(Node { prev: None, next, value })?;
            if let Some(next) = next.filter(|_| !change.slip) {
                tx.set(next.at(Node::PREV), Some(node))?;
            }
            Directory::set(tx, heads, list, Some(node))?;
            tx.update(part.at(Lists::NODES), |nodes| nodes + 1)
        })
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Lists<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let (list, Some(node)) = find(tx, part, change.key)? else { return Ok(()) };
            let (prev, next) = (tx.get(node.at(Node::PREV))?, tx.get(node.at(Node::NEXT))?);
            match prev {
                Some(prev) => tx.set(prev.at(Node::NEXT), next)?,
                None => Directory::set(tx, part.at(Lists::HEADS), list, next)?,
            }
            if let Some(next) = next {
                tx.set(next.at(Node::PREV), prev)?;
            }
            tx.free(node)?;
            tx.update(part.at(Lists::NODES), |nodes| nodes - 1)
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, Lists<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let (_, node) = find(session, part, key)?;
        node.map(|node| session.get(node.at(Node::VALUE).at(Value128::TAG))).transpose()
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, Lists<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let lists = session.get(part.at(Lists::LISTS))?;
        let mut nodes = 0;
        Directory::check(session, part.at(Lists::HEADS), walk, |walk, list, head| {
            let (mut prev, mut link) = (None, Some(head));
            while let Some(at) = link {
                walk.object("node")?;
                let node = session.get(at)?;
                let key = node.value.key;
                node.value.check()?;
                walk.ensure(node.prev == prev, || {
                    format!("the node of key {key} does not lead back to the one before it")
                })?;
                walk.ensure(spread(key).checked_rem(lists) == Some(list), || {
                    format!("the node of key {key} is in list {list}, where it does not belong")
                })?;
                walk.entry(key, node.value.tag)?;
                nodes += 1;
                (prev, link) = (link, node.next);
            }
            Ok(())
        })?;
        let counted = session.get(part.at(Lists::NODES))?;
        walk.ensure(nodes == counted, || format!("{nodes} nodes are linked, {counted} are counted"))
    }
}
