//! A range of bytes as words of lines, with the bits of each.

use seawall_memory::LINE_BYTES;

/// The part of a range in one line, as aligned words and the bits of the first and the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) at: u64,
    pub(crate) words: usize,
    first: u64,
    last: u64,
}

impl Part {
    /// The part that starts at `at`, of `bytes` that may go beyond the line; and its length.
    fn new(at: u64, bytes: u64) -> (Part, u64) {
        let end = (at + bytes).min((at | (LINE_BYTES - 1)) + 1);
        let start = at & !7;
        let words = (end.div_ceil(8) - start / 8) as usize;
        let first = u64::MAX << (8 * (at % 8));
        let last = if end.is_multiple_of(8) { u64::MAX } else { !(u64::MAX << (8 * (end % 8))) };
        let part = match words {
            1 => Part { at: start, words, first: first & last, last: first & last },
            _ => Part { at: start, words, first, last },
        };
        (part, end - at)
    }

    pub(crate) fn mask(&self, word: usize) -> u64 {
        match word {
            0 => self.first,
            _ if word + 1 == self.words => self.last,
            _ => u64::MAX,
        }
    }
}

/// Calls `each` with the parts of a range, one for each line.
pub(crate) fn parts(at: u64, bytes: u64, mut each: impl FnMut(Part)) {
    let mut done = 0;
    while done < bytes {
        let (part, length) = Part::new(at + done, bytes - done);
        each(part);
        done += length;
    }
}
