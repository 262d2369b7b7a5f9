//! Addresses, cache lines, and the one place where a byte range becomes lines.
//!
//! A library of this field once rounded flush ranges to 512 bytes and for years missed most
//! objects. So the arithmetic is only here, with a property test, and every machine uses it.

use std::fmt;
use std::ops::Range;

/// Bytes in a cache line, the unit that caches and flush instructions move.
pub const LINE_BYTES: u64 = 64;

/// The bit that is set in volatile (DRAM) addresses and clear in persistent ones.
const DRAM_BIT: u64 = 1 << 47;

/// A byte address that a program uses through [`Memory`](crate::Memory).
///
/// Persistent addresses are offsets from the start of the pool, so that they mean the same in
/// every process, at every mapping, and after a crash. Volatile addresses are offsets into a DRAM
/// region that starts zeroed and does not survive; they carry a high bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Addr(u64);

impl Addr {
    /// The null pointer: offset 0 of the pool, where its header is, so that no object is there.
    pub const NULL: Addr = Addr(0);

    /// The persistent address at `offset` bytes into the pool.
    #[inline]
    pub const fn pm(offset: u64) -> Addr {
        Addr(offset)
    }

    /// The volatile address at `offset` bytes into the DRAM region.
    #[inline]
    pub const fn dram(offset: u64) -> Addr {
        Addr(offset | DRAM_BIT)
    }

    /// The address whose [`bits`](Addr::bits) are `bits`, as read back from memory.
    #[inline]
    pub const fn from_bits(bits: u64) -> Addr {
        Addr(bits)
    }

    /// The bits that a program stores when it stores this address.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the bytes at this address survive a crash.
    #[inline]
    pub const fn is_pm(self) -> bool {
        self.0 & DRAM_BIT == 0
    }

    /// The offset in bytes from the start of the region (pool or DRAM) that holds the address.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 & !DRAM_BIT
    }

    /// Whether this is [`Addr::NULL`].
    #[inline]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The line that contains this byte.
    #[inline]
    pub const fn line(self) -> Line {
        Line(self.0 / LINE_BYTES)
    }

    /// The address `bytes` higher.
    #[inline]
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Addr {
        Addr(self.0 + bytes)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = if self.is_pm() { "pm" } else { "dram" };
        write!(f, "{region}:{:#x}", self.offset())
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The number of a cache line: the address of its first byte divided by [`LINE_BYTES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Line(pub u64);

impl Line {
    /// The address of the first byte of the line.
    #[inline]
    pub const fn start(self) -> Addr {
        Addr(self.0 * LINE_BYTES)
    }

    /// Whether the line survives a crash.
    #[inline]
    pub const fn is_pm(self) -> bool {
        self.start().is_pm()
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {:?}", self.start())
    }
}

/// Returns the lines that contain any of the `len` bytes from `at`; none for `len` 0.
///
/// ```
/// use seawall_memory::{Addr, Line, lines_of};
/// let touched: Vec<Line> = lines_of(Addr::pm(60), 8).collect();
/// assert_eq!(touched, [Line(0), Line(1)]);
/// assert_eq!(lines_of(Addr::pm(60), 0).count(), 0);
/// ```
#[inline]
pub fn lines_of(at: Addr, len: u64) -> impl Iterator<Item = Line> + Clone {
    let range: Range<u64> =
        if len == 0 { 0..0 } else { at.0 / LINE_BYTES..(at.0 + len - 1) / LINE_BYTES + 1 };
    range.map(Line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_of_a_range_is_in_its_lines_and_no_line_is_idle(
            offset in 0u64..1 << 40, len in 0u64..5000, volatile: bool,
        ) {
            let at = if volatile { Addr::dram(offset) } else { Addr::pm(offset) };
            let lines: Vec<Line> = lines_of(at, len).collect();
            for byte in 0..len {
                prop_assert!(lines.contains(&at.plus(byte).line()));
            }
            for line in &lines {
                let touched = (0..LINE_BYTES).any(|byte| {
                    let address = line.start().plus(byte);
                    address >= at && address < at.plus(len)
                });
                prop_assert!(touched, "{line:?} holds no byte of the range");
            }
            prop_assert!(lines.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
        }

        #[test]
        fn an_address_survives_being_stored(offset in 0u64..1 << 46, volatile: bool) {
            let at = if volatile { Addr::dram(offset) } else { Addr::pm(offset) };
            prop_assert_eq!(Addr::from_bits(at.bits()), at);
            prop_assert_eq!(at.offset(), offset);
            prop_assert_eq!(at.is_pm(), !volatile);
        }
    }
}
