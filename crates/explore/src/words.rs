//! A region of memory as 8-byte words, the unit that a crash never tears, and the numbers of lines.

use seawall_memory::{Addr, Width};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Bytes of one region, addressed through [`Addr`], kept as little-endian words.
pub(crate) struct Words {
    words: Box<[Cell<u64>]>,
    bytes: Cell<u64>,
}

/// Index of a line in a trace, in order of first use.
pub(crate) type LineIndex = u32;

/// What a store did to the word that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WordChange {
    pub(crate) word: u32,
    pub(crate) old: u64,
    pub(crate) new: u64,
}

impl Words {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Words {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            Cell::new(u64::from_le_bytes(word))
        });
        Words { words: words.collect(), bytes: Cell::new(bytes.len() as u64) }
    }

    /// As [`from_bytes`](Words::from_bytes), with zeroed room to grow to `most` bytes.
    pub(crate) fn with_room(bytes: &[u8], most: u64) -> Words {
        let rest = (bytes.len().div_ceil(8)..most.div_ceil(8) as usize).map(|_| Cell::new(0));
        let Words { words, bytes } = Words::from_bytes(bytes);
        Words { words: words.into_iter().chain(rest).collect(), bytes }
    }

    /// Whether the first words are those of `bytes`.
    pub(crate) fn begins_as(&self, bytes: &[u8]) -> bool {
        let (whole, rest) = bytes.as_chunks::<8>();
        let same = whole.iter().zip(&self.words).all(|(a, b)| u64::from_le_bytes(*a) == b.get());
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        same && (rest.is_empty() || self.words[whole.len()].get() == last)
    }

    /// Sets the length in bytes; at most the capacity.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        debug_assert!(bytes.div_ceil(8) <= self.words.len() as u64, "no room for {bytes} bytes");
        self.bytes.set(bytes);
    }

    /// The capacity in bytes.
    pub(crate) fn room(&self) -> u64 {
        8 * self.words.len() as u64
    }

    pub(crate) fn zeroed(bytes: u64) -> Words {
        let words = vec![Cell::new(0); bytes.div_ceil(8) as usize].into();
        Words { words, bytes: Cell::new(bytes) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    #[inline]
    #[track_caller]
    pub(crate) fn place(&self, at: Addr, width: Width) -> (usize, u32) {
        let offset = at.offset();
        if !offset.is_multiple_of(width.bytes()) {
            panic!("access to {at}, which is not aligned to {} bytes", width.bytes());
        }
        if offset.checked_add(width.bytes()).is_none_or(|end| end > self.bytes()) {
            panic!("access to {at}, outside its region of {} bytes", self.bytes());
        }
        ((offset / 8) as usize, (offset % 8 * 8) as u32)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn load(&self, at: Addr, width: Width) -> u64 {
        let (word, shift) = self.place(at, width);
        self.words[word].get() >> shift & width.mask()
    }

    /// Stores these bits of the aligned word at `at`.
    #[inline]
    #[track_caller]
    pub(crate) fn store_bits(&self, at: Addr, mask: u64, value: u64) -> WordChange {
        let word = self.place_bits(at, mask);
        let old = self.word(word);
        let new = old & !mask | value;
        self.set_word(word, new);
        WordChange { word, old, new }
    }

    /// The number of the aligned word at `at`, of which these bits are accessed.
    #[inline]
    #[track_caller]
    pub(crate) fn place_bits(&self, at: Addr, mask: u64) -> u32 {
        let end = at.offset() + u64::from((64 - mask.leading_zeros()).div_ceil(8));
        if end > self.bytes() {
            panic!("access to {at}, outside its region of {} bytes", self.bytes());
        }
        (at.offset() / 8) as u32
    }

    #[inline]
    pub(crate) fn word(&self, word: u32) -> u64 {
        self.words[word as usize].get()
    }

    #[inline]
    pub(crate) fn set_word(&self, word: u32, value: u64) {
        self.words[word as usize].set(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_store_changes_only_its_bytes() {
        let words = Words::from_bytes(&[0xff; 12]);
        let change = words.store_bits(Addr::pm(0), 0xffff_0000, 0x1234_0000);
        assert_eq!((change.old, change.new), (u64::MAX, 0xffff_ffff_1234_ffff));
        assert_eq!(words.load(Addr::pm(2), Width::B2), 0x1234);
        assert_eq!(words.load(Addr::pm(8), Width::B4), 0xffff_ffff);
    }

    #[test]
    fn bits_of_the_last_word_are_stored_up_to_its_end() {
        let words = Words::from_bytes(&[0xff; 12]);
        let change = words.store_bits(Addr::pm(8), 0x00ff_ff00, 0x0012_3400);
        assert_eq!((change.word, change.old, change.new), (1, 0xffff_ffff, 0xff12_34ff));
    }

    #[test]
    #[should_panic(expected = "outside its region of 12 bytes")]
    fn bits_past_the_end_are_out_of_range() {
        Words::from_bytes(&[0; 12]).store_bits(Addr::pm(8), 0xff << 32, 1 << 32);
    }

    #[test]
    #[should_panic(expected = "outside its region of 12 bytes")]
    fn the_padding_of_the_last_word_is_out_of_range() {
        Words::from_bytes(&[0; 12]).load(Addr::pm(8), Width::B8);
    }
}
