//! Defragmentation: what it frees, what it keeps, and what a crash finds of it.

mod crash;
mod cycle;
mod damage;
mod described;
mod holes;
mod published;
mod steps;
mod threads;

use seawall_memory::{Image, Memory};
use seawall_runtime::defrag::{DefragOptions, Defragmenter};
use seawall_runtime::typed::{self, Persist, Ptr, Session};
use seawall_runtime::{AccessError, Heap, HeapError, HeapOptions, Recovered, TxError};

pub(crate) const NAME: &str = "list";

/// A list of nodes of 100 bytes.
#[derive(Clone, Copy, Debug, Persist)]
pub(crate) struct List<'p> {
    pub(crate) first: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Clone, Copy, Debug, Persist)]
pub(crate) struct Node<'p> {
    pub(crate) value: u64,
    pub(crate) next: Option<Ptr<'p, Node<'p>>>,
    pub(crate) filling: [u64; 11],
}

pub(crate) fn options(chunks: u64) -> HeapOptions {
    HeapOptions {
        bytes: chunks << 16,
        bytes_max: chunks << 16,
        threads: 2,
        log_bytes: 16 << 10,
        defragment: true,
        ..typed::options::<List<'_>>()
    }
}

pub(crate) fn node<'p>(value: u64, next: Option<Ptr<'p, Node<'p>>>) -> Node<'p> {
    Node { value, next, filling: [value * 3; 11] }
}

pub(crate) type Thread<'m, M> = typed::Thread<'m, List<'static>, M>;
pub(crate) type Root<'p> = Ptr<'p, List<'p>>;

/// Puts the values in front of the list, the last one first; each in a scope of its own.
pub(crate) fn push<M: Memory>(
    thread: &mut Thread<'_, M>,
    values: impl IntoIterator<Item = u64>,
) -> Result<(), TxError> {
    values.into_iter().try_for_each(|value| thread.enter(|session, root| put(session, root, value)))
}

/// Puts a value in front of the list.
pub(crate) fn put<'p, M: Memory>(
    session: &mut Session<'p, '_, M>,
    root: Root<'p>,
    value: u64,
) -> Result<(), TxError> {
    session.transaction(|tx| {
        let next = tx.get(root.at(List::FIRST))?;
        let node = tx.alloc(node(value, next))?;
        tx.set(root.at(List::FIRST), Some(node))
    })
}

/// Removes all values that are not to be kept.
pub(crate) fn retain<M: Memory>(
    thread: &mut Thread<'_, M>,
    keeps: impl Fn(u64) -> bool,
) -> Result<(), HeapError> {
    thread.enter(|session, root| {
        let mut link = root.at(List::FIRST);
        while let Some(ptr) = session.get(link)? {
            let found = session.get(ptr)?;
            if keeps(found.value) {
                link = ptr.at(Node::NEXT);
            } else {
                session.transaction(|tx| {
                    tx.set(link, found.next)?;
                    tx.free(ptr)
                })?;
            }
        }
        Ok(())
    })
}

/// The values from the first to the last, if each node is whole, and no other is left.
pub(crate) fn values<M: Memory>(thread: &mut Thread<'_, M>) -> Result<Vec<u64>, String> {
    thread.enter(|session, root| {
        let found = walk(session, root)?;
        let reach = session.reach(root).map_err(|error| error.to_string())?;
        let is_whole = reach.reached == found.len() as u64;
        if is_whole && reach.lost.is_empty() && reach.dangling.is_empty() {
            return Ok(found);
        }
        Err(format!("{found:?}, but {reach:?}"))
    })
}

fn walk<'p, M: Memory>(session: &Session<'p, '_, M>, root: Root<'p>) -> Result<Vec<u64>, String> {
    let text = |error: AccessError| error.to_string();
    let (mut values, mut next) = (Vec::new(), session.get(root).map_err(text)?.first);
    while let Some(ptr) = next {
        let found = session.get(ptr).map_err(text)?;
        if found.filling != [found.value * 3; 11] {
            return Err(format!("{found:?}"));
        }
        values.push(found.value);
        next = found.next;
    }
    Ok(values)
}

/// A pool with an empty list.
pub(crate) fn made(options: &HeapOptions) -> (Image, Heap) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let created =
        typed::create::<List<'_>, _, HeapError>(&image, NAME, 7, options, |pool| Ok(pool.heap()));
    let heap = created.expect("good options");
    (image, heap)
}

/// A list of a few nodes on many pages.
pub(crate) fn sparse_list() -> (Image, Heap) {
    let (image, heap) = made(&options(8));
    let mut thread = Thread::join(heap, &image).unwrap();
    push(&mut thread, 0..400).unwrap();
    retain(&mut thread, |value| value % 40 == 0).unwrap();
    drop(thread);
    (image, heap)
}

/// The pool after a restart.
pub(crate) fn restarted(image: Image, options: &HeapOptions) -> (Image, Heap, Recovered) {
    let image = Image::from_pm(image.into_pm(), options.dram_bytes());
    let bytes = options.pm_bytes();
    let opened = typed::open::<List<'_>, _, HeapError>(&image, NAME, bytes, |pool| {
        Ok((pool.heap(), pool.recovered()))
    });
    let (heap, recovered) = opened.expect("a sound pool");
    (image, heap, recovered)
}

pub(crate) fn defragmenter(how: impl Into<DefragOptions>) -> Defragmenter {
    Defragmenter::of::<List<'_>>(how.into()).expect("good options")
}

/// All protocols, in our form and as published.
pub(crate) fn ways() -> impl Iterator<Item = DefragOptions> {
    let names =
        ["espresso", "sfccd", "ffccd", "espresso-published", "sfccd-published", "ffccd-published"];
    names.into_iter().map(|name| name.parse().expect("a way"))
}
