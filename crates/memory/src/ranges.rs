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

/// The accesses of a write of these bytes at `at`, in address order: whole words, and at the ends
/// the widest aligned accesses that fit. Each is the address of its aligned word, the bits of it
/// that are written, and their values.
pub fn pieces_of(at: Addr, bytes: &[u8]) -> impl Iterator<Item = (Addr, u64, u64)> {
    pieces(at, bytes.len()).map(|(at, width, range)| {
        let mut value = [0; 8];
        value[..range.len()].copy_from_slice(&bytes[range]);
        let skipped = at.bits() % 8;
        let word = Addr::from_bits(at.bits() - skipped);
        (word, width.mask() << (8 * skipped), u64::from_le_bytes(value) << (8 * skipped))
    })
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
        fn the_pieces_of_a_write_hold_its_bytes_and_no_others(
            offset in 0usize..64, bytes in prop::collection::vec(1u8.., 0..200),
        ) {
            let mut found = [0u8; 272];
            for (at, mask, value) in pieces_of(Addr::pm(offset as u64), &bytes) {
                let at = at.offset() as usize;
                assert!(at.is_multiple_of(8));
                let bytes = mask.to_le_bytes().into_iter().zip(value.to_le_bytes());
                for (n, (mask, value)) in bytes.enumerate() {
                    let is_free = found[at + n] == 0;
                    assert!(if mask == 0xff { is_free } else { mask == 0 && value == 0 });
                    found[at + n] |= value;
                }
            }
            let mut expected = [0u8; 272];
            expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
            prop_assert_eq!(found, expected);
        }

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
