//! Ranges of bytes as a sequence of aligned accesses: what a machine does that has no better way.

use crate::{Addr, LINE_BYTES, Memory, Width};
use std::ops::Range;

/// Reads `into.len()` bytes from `at`.
#[track_caller]
pub(crate) fn read<M: Memory>(memory: &M, at: Addr, into: &mut [u8]) {
    for (at, width, range) in pieces(at, into.len()) {
        let bits = memory.load_bits(at, width).to_le_bytes();
        into[range.clone()].copy_from_slice(&bits[..range.len()]);
    }
}

/// Reads the words of the line at `at`.
#[inline]
#[track_caller]
pub(crate) fn load_line<M: Memory>(memory: &M, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
    let mut line = [0; LINE_BYTES as usize / 8];
    for (word, into) in (0..).zip(&mut line) {
        *into = memory.load_bits(at.plus(8 * word), Width::B8);
    }
    line
}

/// Writes `from` at `at`.
#[track_caller]
pub(crate) fn write<M: Memory>(memory: &M, at: Addr, from: &[u8]) {
    for (at, width, range) in pieces(at, from.len()) {
        let mut bits = [0; 8];
        bits[..range.len()].copy_from_slice(&from[range]);
        memory.store_bits(at, width, u64::from_le_bytes(bits));
    }
}

/// Writes `from` at `at` and flushes it.
#[track_caller]
pub(crate) fn write_nt<M: Memory>(memory: &M, at: Addr, from: &[u8]) {
    memory.write(at, from);
    memory.flush(at, from.len() as u64);
}

/// Cuts `len` bytes at `at` into aligned accesses, the widest first possible, in address order.
fn pieces(at: Addr, len: usize) -> impl Iterator<Item = (Addr, Width, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let here = at.plus(done as u64);
        let width = match (here.bits() % 8, len - done) {
            (_, 0) => return None,
            (0, 8..) => Width::B8,
            (0 | 4, 4..) => Width::B4,
            (0 | 2 | 4 | 6, 2..) => Width::B2,
            _ => Width::B1,
        };
        let start = done;
        done += width as usize;
        Some((here, width, start..done))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pieces_cover_each_byte_once_with_aligned_accesses(
            offset in 0u64..64, len in 0usize..200,
        ) {
            let mut next = 0;
            for (at, width, range) in pieces(Addr::pm(offset), len) {
                assert_eq!(range.start, next);
                assert_eq!(range.len() as u64, width.bytes());
                assert_eq!(at.bits(), offset + range.start as u64);
                assert_eq!(at.bits() % width.bytes(), 0);
                next = range.end;
            }
            prop_assert_eq!(next, len);
        }
    }
}
