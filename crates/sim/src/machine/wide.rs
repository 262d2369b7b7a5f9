//! Accesses that are not one aligned word: bytes across two words, and several words at once.

use super::System;
use super::front::{Pause, Place};
use crate::LineId;
use crate::core::{Entry, Kind, Waits};
use crate::design::Design;
use crate::seam::CorePort as _;
use seawall_memory::{Addr, LINE_BYTES, Width};

/// Up to 16 bytes of a line, in up to two of its words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) line: LineId,
    /// The first word of the line with a byte of it.
    pub(super) word: u8,
    /// The place of its first byte in that word.
    byte: u32,
    bytes: u32,
}

impl Span {
    /// Each of its words, with the bits that belong to it.
    pub(super) fn masks(self) -> impl Iterator<Item = (u8, u64)> {
        let bits = ((1u128 << (8 * self.bytes - 1) << 1).wrapping_sub(1)) << (8 * self.byte);
        let words = [(self.word, bits as u64), (self.word + 1, (bits >> 64) as u64)];
        words.into_iter().filter(|(_, mask)| *mask != 0)
    }
}

impl<D: Design> System<D> {
    /// The bytes from `at` on, all in one line.
    pub(super) fn span(&self, at: Addr, bytes: usize) -> Span {
        let (offset, bytes) = (at.bits() % LINE_BYTES, bytes as u32);
        assert!(
            (1..=16).contains(&bytes) && offset + u64::from(bytes) <= LINE_BYTES,
            "{bytes} bytes at {:#x} are not within a line",
            at.bits()
        );
        let byte = (offset % 8) as u32;
        assert!(byte + bytes <= 16, "{bytes} bytes at {:#x} are in three words", at.bits());
        Span { line: self.line_of(at), word: (offset / 8) as u8, byte, bytes }
    }

    /// Loads up to 8 bytes, wherever in a line.
    pub(super) fn attempt_bytes(
        &mut self,
        core: usize,
        at: Addr,
        bytes: usize,
    ) -> Result<u64, Pause> {
        assert!(bytes <= 8, "{bytes} bytes are more than a word");
        let span = self.span(at, bytes);
        if span.byte + span.bytes <= 8 {
            let place = Place { line: span.line, word: span.word, shift: 8 * span.byte };
            let (_, need) = span.masks().next().expect("at least a byte");
            return self.attempt_part(core, at, place, need);
        }
        let mut words = [0; 2];
        let first = Addr::from_bits(at.bits() - u64::from(span.byte));
        self.attempt_words(core, first, &mut words, true)?;
        let both = u128::from(words[0]) | u128::from(words[1]) << 64;
        let value = (both >> (8 * span.byte)) as u64;
        Ok(value & (u64::MAX >> (64 - 8 * span.bytes)))
    }

    /// Puts a store of aligned words of one line into the store buffer: entries of the first kind,
    /// and one of the second behind them. It takes one place, and its words take effect together.
    pub(super) fn attempt_store_words(
        &mut self,
        core: usize,
        at: Addr,
        (words, masks): (&[u64], &[u64]),
        (part, last): (Kind, Kind),
    ) -> Result<(), Pause> {
        let Place { line, word, .. } = self.place(at, Width::B8);
        assert!(usize::from(word) + words.len() <= 8, "the words are in one line");
        self.begin(core);
        if self.hw.cores[core].buffer.len() >= self.hw.config.core.store_buffer {
            return Err(self.wait(core, Waits::Room));
        }
        let all = (word..).zip(words.iter().zip(masks)).filter(|(_, (_, mask))| **mask != 0);
        let mut all = all.peekable();
        assert!(all.peek().is_some(), "a store of nothing");
        while let Some((word, (value, mask))) = all.next() {
            let (kind, count) = match all.peek() {
                Some(_) => (part, 0),
                None => (last, 1),
            };
            let (value, mask) = (*value & *mask, *mask);
            self.push(core, Entry { word, count, value, mask, ..Entry::mark(kind, line) });
        }
        Ok(())
    }
}
