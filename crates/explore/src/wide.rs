//! Writes of more than one word: which of their words a crash may keep.
//!
//! An aligned store of up to 8 bytes is durable as a whole. Of everything wider no manual promises
//! an order: a store of 16, 32 or 64 bytes, aligned or not, one of 8 bytes that crosses a border of
//! words, `cmpxchg16b`, `rep movs`, a copy of bytes. A crash may keep any of its words of 8 bytes,
//! in every line, and lose the others; what the thread stores to the line afterwards comes after
//! all of them. (That other processors see some of these stores as one, as Intel's manual says of
//! aligned ones of 16 bytes, volume 3, "Guaranteed Atomic Operations", says nothing of power.) The
//! exception is `movdir64b`: its 64 bytes are written as one, so a crash keeps all or none.

use seawall_memory::{Addr, Width};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// What a store is a piece of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Of nothing: it is whole.
    #[default]
    Alone,
    /// Of the write of this number, of which a crash may keep any words.
    Torn(u32),
    /// Of the write of this number, of which a crash keeps all words or none.
    Whole(u32),
}

impl Part {
    /// Whether both are of one write that no crash tears.
    pub(crate) fn is_one_with(self, other: Part) -> bool {
        matches!(self, Part::Whole(_)) && self == other
    }

    /// Whether a crash may keep it without the other pieces.
    pub(crate) fn is_torn(self) -> bool {
        matches!(self, Part::Torn(_))
    }
}

/// Which write the stores of a thread belong to, and the numbers of writes.
#[derive(Default)]
pub(crate) struct Writes {
    count: Cell<u32>,
}

impl Writes {
    fn number(&self) -> u32 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// The pieces of a write of so many words.
    pub(crate) fn of_words(&self, words: usize) -> Part {
        if words > 1 { Part::Torn(self.number()) } else { Part::Alone }
    }

    /// The pieces of a write that is whole.
    pub(crate) fn whole(&self) -> Part {
        Part::Whole(self.number())
    }

    /// Numbers begin anew.
    pub(crate) fn reset(&self) {
        self.count.set(0);
    }
}

/// Where and how wide a store of these bits of an aligned word is: the word, where they are no
/// aligned part of it.
pub(crate) fn extent(at: Addr, mask: u64) -> (Addr, Width) {
    narrow(at, mask).unwrap_or((at, Width::B8))
}

fn narrow(at: Addr, mask: u64) -> Option<(Addr, Width)> {
    if mask == 0 {
        return None;
    }
    let shift = mask.trailing_zeros() / 8 * 8;
    let width = match mask >> shift {
        0xff => Width::B1,
        0xffff => Width::B2,
        0xffff_ffff => Width::B4,
        u64::MAX => Width::B8,
        _ => return None,
    };
    let at = at.plus(u64::from(shift / 8));
    at.bits().is_multiple_of(width.bytes()).then_some((at, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_one_aligned_store_can_write_are_one() {
        let at = Addr::pm(64);
        assert_eq!(extent(at, u64::MAX), (at, Width::B8));
        assert_eq!(extent(at, 0xffff << 16), (at.plus(2), Width::B2));
        assert_eq!(extent(at, 0xffff << 8), (at, Width::B8), "it is not aligned");
        assert_eq!(extent(at, 0xff00_00ff), (at, Width::B8), "there is a gap");
        assert_eq!(extent(at, 0), (at, Width::B8));
    }
}
