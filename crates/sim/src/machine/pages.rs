//! Where the pages of the host are among the lines of a machine.

use crate::LineId;
use rustc_hash::FxHashMap;
use seawall_memory::{Addr, LINE_BYTES};
use std::cell::Cell;

/// Lines of a page of 4 KiB.
pub(super) const PAGE_LINES: LineId = 64;
/// Bytes of such a page.
pub(super) const PAGE_BYTES: u64 = PAGE_LINES as u64 * LINE_BYTES;
/// The end of the addresses of a program.
pub(super) const ADDRESS_END: u64 = 1 << 47;
/// The bits of the number of a page's place among the recent ones.
const RECENT_BITS: u32 = 10;
/// No page has this number.
const NO_PAGE: u64 = u64::MAX;

/// The pages that have lines.
pub(super) struct Pages {
    first_lines: FxHashMap<u64, LineId>,
    /// Pages that were asked for recently, each at a place of its own, with their first lines.
    recent: Box<[Cell<(u64, LineId)>]>,
}

impl Default for Pages {
    fn default() -> Pages {
        let recent = vec![Cell::new((NO_PAGE, 0)); 1 << RECENT_BITS];
        Pages { first_lines: FxHashMap::default(), recent: recent.into_boxed_slice() }
    }
}

impl Pages {
    /// The line of an address in a page that has lines.
    #[inline]
    pub(super) fn line_of(&self, at: Addr) -> LineId {
        let page = at.bits() / PAGE_BYTES;
        let in_page = (at.bits() / LINE_BYTES) as LineId % PAGE_LINES;
        // Stacks and heaps are powers of two apart: their bits must be mixed.
        let place = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS);
        let recent = &self.recent[place as usize];
        let (known, first) = recent.get();
        if known == page {
            return first + in_page;
        }
        let first = self.look_up(at);
        recent.set((page, first));
        first + in_page
    }

    #[inline(never)]
    fn look_up(&self, at: Addr) -> LineId {
        let first = self.first_lines.get(&(at.bits() / PAGE_BYTES));
        *first.unwrap_or_else(|| panic!("no page is mapped at {:#x}", at.bits()))
    }

    /// Whether the page of an address has lines.
    pub(super) fn is_mapped(&self, at: Addr) -> bool {
        self.first_lines.contains_key(&(at.bits() / PAGE_BYTES))
    }

    /// The page at `at` has the lines from `first` on.
    pub(super) fn add(&mut self, at: u64, first: LineId) {
        assert!(at.is_multiple_of(PAGE_BYTES), "{at:#x} is not the address of a page");
        assert!((PAGE_BYTES..ADDRESS_END).contains(&at), "no program has a page at {at:#x}");
        let before = self.first_lines.insert(at / PAGE_BYTES, first);
        assert_eq!(before, None, "the page at {at:#x} is mapped already");
    }
}
