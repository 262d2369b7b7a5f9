//! Reading in order.
//!
//! A leaf is copied, and believed if it has not changed meanwhile; then its entries are shown, in
//! order. The next leaf is the one that has the key where this one's range ends: leaves are not
//! linked with each other, so freeing one needs no look at its neighbours.

use super::descend::Bounds;
use super::node::Leaf;
use super::versions::{Reader, Walker, Writer};
use super::{BTreeError, Tree};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::{Session, Tx};
use std::ops::{Bound, ControlFlow, RangeBounds, RangeInclusive};

/// The least and the greatest key of a range, if it has any.
fn ends(range: &impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let from = match range.start_bound() {
        Bound::Included(from) => Some(*from),
        Bound::Excluded(before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let last = match range.end_bound() {
        Bound::Included(last) => Some(*last),
        Bound::Excluded(end) => end.checked_sub(1),
        Bound::Unbounded => Some(u64::MAX),
    };
    from.zip(last)
}

/// The entries of one leaf in a range of keys, in order, and the range of the leaf.
struct Page<const SLOTS: usize> {
    entries: [(u64, u64); SLOTS],
    count: usize,
    bounds: Bounds,
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Shows the entries whose keys are in `range` to `each`, in ascending order, each key once.
    ///
    /// While others write: what is shown is durable; the entries of one leaf are shown as they
    /// were at one moment; a key that was there all the time is shown, one that was never there is
    /// not. `each` may use the tree through another session only.
    ///
    /// # Errors
    /// When the tree is damaged; entries may have been shown before.
    pub fn range<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        range: impl RangeBounds<u64>,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), BTreeError> {
        self.scan(&mut Reader(session), &range, |key, value| {
            each(key, value);
            ControlFlow::Continue(())
        })
    }

    /// As [`range`](Tree::range), as a transaction sees it; what is shown stays until it is over.
    ///
    /// # Errors
    /// As [`range`](Tree::range), and [`TxError::Busy`](seawall_runtime::TxError::Busy).
    pub fn range_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        range: impl RangeBounds<u64>,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), BTreeError> {
        self.scan(&mut Writer(tx), &range, |key, value| {
            each(key, value);
            ControlFlow::Continue(())
        })
    }

    /// Copies the first entries whose keys are in `range` to `into`, in ascending order, as many as
    /// there are and as it holds; gives how many. Otherwise as [`range`](Tree::range).
    ///
    /// # Errors
    /// When the tree is damaged.
    pub fn copy_range<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        range: impl RangeBounds<u64>,
        into: &mut [(u64, u64)],
    ) -> Result<usize, BTreeError> {
        self.copy(&mut Reader(session), &range, into)
    }

    /// As [`copy_range`](Tree::copy_range), as a transaction sees it; it stays until that is over.
    ///
    /// # Errors
    /// As [`range_in`](Tree::range_in).
    pub fn copy_range_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        range: impl RangeBounds<u64>,
        into: &mut [(u64, u64)],
    ) -> Result<usize, BTreeError> {
        self.copy(&mut Writer(tx), &range, into)
    }

    fn copy(
        &self,
        walker: &mut impl Walker,
        range: &impl RangeBounds<u64>,
        into: &mut [(u64, u64)],
    ) -> Result<usize, BTreeError> {
        let mut count = 0;
        if into.is_empty() {
            return Ok(count);
        }
        self.scan(walker, range, |key, value| {
            into[count] = (key, value);
            count += 1;
            if count < into.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(count)
    }

    /// The entry of the least key. Under concurrency: of some moment while it ran, unless smaller
    /// keys came and went.
    ///
    /// # Errors
    /// When the tree is damaged.
    pub fn first<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
    ) -> Result<Option<(u64, u64)>, BTreeError> {
        self.least(&mut Reader(session))
    }

    /// As [`first`](Tree::first), as a transaction sees it; it stays until that is over.
    ///
    /// # Errors
    /// As [`range_in`](Tree::range_in).
    pub fn first_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
    ) -> Result<Option<(u64, u64)>, BTreeError> {
        self.least(&mut Writer(tx))
    }

    /// The entry of the greatest key, as [`first`](Tree::first).
    ///
    /// # Errors
    /// When the tree is damaged.
    pub fn last<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
    ) -> Result<Option<(u64, u64)>, BTreeError> {
        self.greatest(&mut Reader(session))
    }

    /// As [`last`](Tree::last), as a transaction sees it; it stays until that is over.
    ///
    /// # Errors
    /// As [`range_in`](Tree::range_in).
    pub fn last_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
    ) -> Result<Option<(u64, u64)>, BTreeError> {
        self.greatest(&mut Writer(tx))
    }

    /// How many entries there are, by a walk over all of them; while others write, as
    /// [`range`](Tree::range) shows.
    ///
    /// # Errors
    /// When the tree is damaged.
    pub fn len<M: Memory>(&self, session: &mut Session<'_, M>) -> Result<u64, BTreeError> {
        let mut count = 0;
        self.range(session, .., |_, _| count += 1)?;
        Ok(count)
    }

    /// As [`len`](Tree::len), as a transaction sees it.
    ///
    /// # Errors
    /// As [`range_in`](Tree::range_in).
    pub fn len_in<M: Memory>(&self, tx: &mut Tx<'_, '_, M>) -> Result<u64, BTreeError> {
        let mut count = 0;
        self.range_in(tx, .., |_, _| count += 1)?;
        Ok(count)
    }

    fn least(&self, walker: &mut impl Walker) -> Result<Option<(u64, u64)>, BTreeError> {
        let mut first = None;
        self.scan(walker, &.., |key, value| {
            first = Some((key, value));
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    fn greatest(&self, walker: &mut impl Walker) -> Result<Option<(u64, u64)>, BTreeError> {
        let mut upto = u64::MAX;
        loop {
            let page = self.page(walker, upto, 0..=upto)?;
            if page.count > 0 {
                return Ok(Some(page.entries[page.count - 1]));
            }
            let Some(before) = page.bounds.low.checked_sub(1) else { return Ok(None) };
            upto = in_order(before < upto, before)?;
        }
    }

    fn scan(
        &self,
        walker: &mut impl Walker,
        range: &impl RangeBounds<u64>,
        mut each: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), BTreeError> {
        let Some((mut next, last)) = ends(range) else { return Ok(()) };
        while next <= last {
            let page = self.page(walker, next, next..=last)?;
            for (key, value) in &page.entries[..page.count] {
                if each(*key, *value).is_break() {
                    return Ok(());
                }
            }
            let Some(high) = page.bounds.high else { return Ok(()) };
            next = in_order(high > next, high)?;
        }
        Ok(())
    }

    /// The entries in `range` of the leaf that has `key`.
    fn page(
        &self,
        walker: &mut impl Walker,
        key: u64,
        range: RangeInclusive<u64>,
    ) -> Result<Page<SLOTS>, BTreeError> {
        loop {
            let (spot, bounds) = self.descend::<Bounds>(walker, key, 0)?;
            let mut page = Page { entries: [(0, 0); SLOTS], count: 0, bounds };
            Leaf::<SLOTS>(spot.at).entries(&*walker, |(key, value, _)| {
                if range.contains(&key) {
                    page.entries[page.count] = (key, value);
                    page.count += 1;
                }
            });
            if walker.holds(self, spot.at, spot.seen) {
                page.entries[..page.count].sort_unstable();
                return Ok(page);
            }
        }
    }
}

/// The `key` to go on with, if a walk comes nearer to its end by it.
fn in_order(is_nearer: bool, key: u64) -> Result<u64, Damage> {
    is_nearer.then_some(key).ok_or_else(|| Damage::Broken("its keys are not in order".into()))
}
