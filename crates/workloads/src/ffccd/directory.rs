//! Pointers by number, in two levels of typed nodes: heads of lists, buckets, strings.
//!
//! A page is allocated with its first pointer and freed with its last, so that the table grows and
//! shrinks with its content.

use super::{Read, Walk};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::TxError;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};

/// Pages of a directory, and pointers of a page of 4 KiB.
const PAGES: usize = 2056;
const SLOTS: usize = 511;

/// The greatest number of pointers of a directory.
pub(crate) const CAPACITY: u64 = (PAGES * SLOTS) as u64;

/// The greatest number of keys of a part; some pointers stay unused.
pub(crate) const KEYS_MAX: u64 = 1 << 20;

const _: () = assert!(CAPACITY > KEYS_MAX);

/// The upper level, embedded in the object that owns it.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Directory<'p, T> {
    pages: [Option<Ptr<'p, Page<'p, T>>>; PAGES],
}

/// The lower level.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Page<'p, T> {
    /// The number of non-null slots.
    used: u64,
    slots: [Option<Ptr<'p, T>>; SLOTS],
}

type Slot<'p, T> = Ptr<'p, Option<Ptr<'p, T>>>;

impl<'p, T: Persist<'p>> Directory<'p, T> {
    /// A directory without pointers.
    pub(crate) fn empty() -> Directory<'p, T> {
        Directory { pages: [None; PAGES] }
    }

    /// The pointer of `number`.
    pub(crate) fn get<R: Read<'p>>(
        reader: &R,
        at: Ptr<'p, Directory<'p, T>>,
        number: u64,
    ) -> Result<Option<Ptr<'p, T>>, R::Error> {
        let (link, slot) = Directory::place(at, number);
        match reader.get(link)? {
            Some(page) => reader.get(page.at(Page::SLOTS).index(slot)),
            None => Ok(None),
        }
    }

    /// Sets the pointer of `number` to `to`.
    pub(crate) fn set<M: Memory>(
        tx: &mut Tx<'p, '_, '_, M>,
        at: Ptr<'p, Directory<'p, T>>,
        number: u64,
        to: Option<Ptr<'p, T>>,
    ) -> Result<(), TxError> {
        let (link, place) = Directory::place(at, number);
        let page = match tx.get(link)? {
            Some(page) => page,
            None if to.is_none() => return Ok(()),
            None => {
                let page = tx.alloc(Page { used: 0, slots: [None; SLOTS] })?;
                tx.set(link, Some(page))?;
                page
            }
        };
        let slot: Slot<'p, T> = page.at(Page::SLOTS).index(place);
        let before = tx.get(slot)?;
        tx.set(slot, to)?;
        let used: u64 = tx.get(page.at(Page::USED))?;
        let now = (used + u64::from(to.is_some())).saturating_sub(u64::from(before.is_some()));
        if now == 0 {
            tx.set(link, None)?;
            return tx.free(page);
        }
        if now == used { Ok(()) } else { tx.set(page.at(Page::USED), now) }
    }

    /// Checks the pages, and calls `each` with every pointer and its number.
    pub(crate) fn check<M: Memory>(
        session: &Session<'p, '_, M>,
        at: Ptr<'p, Directory<'p, T>>,
        walk: &mut Walk<'_>,
        mut each: impl FnMut(&mut Walk<'_>, u64, Ptr<'p, T>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        for first in (0..CAPACITY).step_by(SLOTS) {
            let (link, _) = Directory::place(at, first);
            let Some(page) = session.get(link)? else { continue };
            walk.object("page of pointers")?;
            let Page { used, slots } = session.get(page)?;
            let there = slots.iter().flatten().count() as u64;
            walk.ensure(used == there && used > 0, || {
                format!("a page of pointers says {used}, and has {there}")
            })?;
            for (number, to) in (first..).zip(slots) {
                to.map_or(Ok(()), |to| each(walk, number, to))?;
            }
        }
        Ok(())
    }

    /// The link to the page of `number`, and the slot in it.
    fn place(at: Ptr<'p, Directory<'p, T>>, number: u64) -> (Slot<'p, Page<'p, T>>, usize) {
        let number = number as usize;
        (at.at(Directory::PAGES).index(number / SLOTS), number % SLOTS)
    }
}
