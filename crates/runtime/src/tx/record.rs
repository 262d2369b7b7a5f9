//! The bytes of a log record: built in DRAM, written once in whole lines, believed only if whole.
//!
//! A record is a header of three words and entries, padded with zeros to whole lines:
//!
//! | word | content |
//! |---|---|
//! | 0 | CRC-32C of the length and all words that follow (low half), words in all (high half) |
//! | 1 | stamp: its place in the order of all transactions of the heap |
//! | 2 | number: generation (high 40 bits) and index in the log (low 24) |
//! | 3.. | entries |
//!
//! The checksum makes one fence enough: a record whose lines did not all reach the medium does not
//! add up. Its number is part of the sum, so that what an earlier use of the same place left is
//! never taken for a record. An entry is a head word (address in the low 48 bits, kind in the next
//! 4, count in the top 12) and its values:
//!
//! | kind | count | values |
//! |---|---|---|
//! | 1 words | words | as many words, stored at the address |
//! | 2 bytes | mask of bytes | one word, of which those bytes are stored |
//! | 3 end | 0 | the number of an undo transaction of this thread, which is over |
//! | 4 freed | 0 | bytes from the address that are nobody's: older entries about them are void |

use super::index::{Found, Index};
use seawall_memory::{Addr, LINE_BYTES};

/// Words of a record's header.
pub(crate) const HEADER_WORDS: usize = 3;
/// The most words of one entry.
pub(crate) const COUNT_MAX: usize = 0xfff;
const ADDR_BITS: u32 = 48;
const COUNT_SHIFT: u32 = 52;
const WORDS: u64 = 1;
const BYTES: u64 = 2;
const END: u64 = 3;
const FREED: u64 = 4;
const LINE_WORDS: usize = LINE_BYTES as usize / 8;
/// The first index that does not fit.
pub(crate) const INDEX_LIMIT: u64 = 1 << 24;

/// The number of the record of `generation` that starts at line `line` of its log.
pub(crate) fn number(generation: u64, line: u64) -> u64 {
    generation * INDEX_LIMIT + line
}

/// What a record asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// Store the words (little-endian) from the address on.
    Words(Addr, &'a [[u8; 8]]),
    /// Store those bytes of the word at the address whose bit is set in the mask.
    Bytes(Addr, u8, u64),
    /// The thread's undo transaction of that number is over.
    End(u64),
    /// So many bytes from the address are nobody's.
    Freed(Addr, u64),
}

/// A record under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    words: Vec<[u8; 8]>,
    /// Where the head of the last entry is, if words can be appended to it.
    open: Option<usize>,
}

fn head(at: Addr, kind: u64, count: u64) -> u64 {
    debug_assert!(at.offset() < 1 << ADDR_BITS && count <= COUNT_MAX as u64);
    at.offset() | kind << ADDR_BITS | count << COUNT_SHIFT
}

impl Builder {
    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.words.resize(HEADER_WORDS, [0; 8]);
        self.open = None;
    }

    /// True if there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.len() <= HEADER_WORDS
    }

    /// Words so far; a mark for [`truncate`](Builder::truncate).
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Forgets the entries from that mark on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.words.truncate(len);
        self.open = None;
    }

    /// Bytes of the record as it stands, in whole lines.
    pub(crate) fn bytes(&self) -> u64 {
        (8 * self.words.len() as u64).next_multiple_of(LINE_BYTES)
    }

    #[inline]
    pub(crate) fn word(&self, place: usize) -> u64 {
        u64::from_le_bytes(self.words[place])
    }

    #[inline]
    pub(crate) fn set_word(&mut self, place: usize, value: u64) {
        self.words[place] = value.to_le_bytes();
    }

    #[inline]
    fn push(&mut self, value: u64) {
        self.words.push(value.to_le_bytes());
    }

    /// Appends a word to be stored at `at`; gives the place of its value.
    #[inline]
    pub(crate) fn push_word(&mut self, at: Addr, value: u64) -> usize {
        self.push_words(at, &value.to_le_bytes())
    }

    /// Appends whole words, at most of one line, to be stored at `at`; gives the first place.
    #[inline]
    pub(crate) fn push_words(&mut self, at: Addr, bytes: &[u8]) -> usize {
        let (words, _) = bytes.as_chunks::<8>();
        match self.open {
            Some(open) if self.continues(open, at, words.len()) => {
                let head = self.word(open) + ((words.len() as u64) << COUNT_SHIFT);
                self.set_word(open, head);
            }
            _ => {
                self.open = Some(self.words.len());
                self.push(head(at, WORDS, words.len() as u64));
            }
        }
        self.words.extend_from_slice(words);
        self.words.len() - words.len()
    }

    #[inline]
    fn continues(&self, open: usize, at: Addr, more: usize) -> bool {
        let count = self.words.len() - open - 1;
        let first = self.word(open) & ((1 << ADDR_BITS) - 1);
        count + more <= COUNT_MAX && first + 8 * count as u64 == at.offset()
    }

    /// Appends bytes of the word at `at`; gives the place of their value, whose head is before it.
    pub(crate) fn push_bytes(&mut self, at: Addr, mask: u8, value: u64) -> usize {
        self.open = None;
        self.push(head(at, BYTES, mask.into()));
        self.push(value);
        self.words.len() - 1
    }

    /// The mask of the bytes entry whose value is at `place`.
    pub(crate) fn mask(&self, place: usize) -> u8 {
        (self.word(place - 1) >> COUNT_SHIFT) as u8
    }

    /// Adds bytes to the bytes entry whose value is at `place`.
    pub(crate) fn widen(&mut self, place: usize, mask: u8, value: u64) {
        let head = self.word(place - 1) | u64::from(mask) << COUNT_SHIFT;
        self.set_word(place - 1, head);
        let bits = spread(mask);
        self.set_word(place, self.word(place) & !bits | value & bits);
    }

    /// Puts the value at `place` back, and the mask of its entry if it has one.
    pub(crate) fn restore(&mut self, place: usize, value: u64, mask: u8) {
        self.set_word(place, value);
        if mask != 0 {
            let head = self.word(place - 1) & ((1 << COUNT_SHIFT) - 1);
            self.set_word(place - 1, head | u64::from(mask) << COUNT_SHIFT);
        }
    }

    pub(crate) fn push_end(&mut self, number: u64) {
        self.open = None;
        self.push(head(Addr::NULL, END, 0));
        self.push(number);
    }

    pub(crate) fn push_freed(&mut self, at: Addr, bytes: u64) {
        self.open = None;
        self.push(head(at, FREED, 0));
        self.push(bytes);
    }

    /// Puts the places of all values into `index`.
    pub(crate) fn index(&self, index: &mut Index) {
        let mut place = HEADER_WORDS + 1;
        for entry in self.entries() {
            match entry {
                Entry::Words(at, values) => {
                    for (word, place) in (0..).zip(place..place + values.len()) {
                        index.put(at.plus(8 * word), Found::Word(place));
                    }
                    place += values.len() + 1;
                }
                Entry::Bytes(at, ..) => {
                    index.put(at, Found::Bytes(place));
                    place += 2;
                }
                Entry::End(_) | Entry::Freed(..) => place += 2,
            }
        }
    }

    /// The entries so far.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { rest: &self.words[HEADER_WORDS.min(self.words.len())..] }
    }

    /// Shows the finished record, in whole lines, to `write`.
    #[inline]
    pub(crate) fn finish(&mut self, stamp: u64, number: u64, seed: u32, write: impl FnOnce(&[u8])) {
        let words = self.words.len();
        self.set_word(1, stamp);
        self.set_word(2, number);
        self.set_word(0, (words as u64) << 32 | sum(&self.words, seed));
        self.words.resize(words.next_multiple_of(LINE_WORDS), [0; 8]);
        write(self.words.as_flattened());
        self.words.truncate(words);
    }
}

/// What the checksums of a log's records start from, so that no record of another pool or place is
/// one of this log, nor bytes in a record's values that look like one.
pub(crate) fn seed(uuid: u128, log: Addr) -> u32 {
    let of_pool = crc32c::crc32c(&uuid.to_le_bytes());
    crc32c::crc32c_append(of_pool, &log.bits().to_le_bytes())
}

/// The checksum of a record: over its length, and all words but the first.
#[inline]
fn sum(words: &[[u8; 8]], seed: u32) -> u64 {
    crc32c::crc32c_append(seed ^ words.len() as u32, words[1..].as_flattened()).into()
}

/// The bits of the bytes in `mask`.
pub(crate) fn spread(mask: u8) -> u64 {
    (0..8).filter(|byte| mask >> byte & 1 == 1).fold(0, |bits, byte| bits | 0xff << (8 * byte))
}

/// The entries of a record, in order. Ends early at words that are no entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    rest: &'a [[u8; 8]],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let (head, tail) = self.rest.split_first()?;
        let head = u64::from_le_bytes(*head);
        let at = Addr::pm(head & ((1 << ADDR_BITS) - 1));
        let count = (head >> COUNT_SHIFT) as usize;
        let kind = head >> ADDR_BITS & 0xf;
        let taken = if kind == WORDS { count } else { 1 };
        let (values, rest) = tail.split_at_checked(taken)?;
        self.rest = rest;
        let value = || u64::from_le_bytes(values[0]);
        match kind {
            WORDS => Some(Entry::Words(at, values)),
            BYTES => Some(Entry::Bytes(at, count as u8, value())),
            END => Some(Entry::End(value())),
            FREED => Some(Entry::Freed(at, value())),
            _ => None,
        }
    }
}

/// A record as read back and found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) stamp: u64,
    pub(crate) number: u64,
    words: Vec<[u8; 8]>,
}

impl Record {
    /// The record that starts `words`, if it is whole.
    pub(crate) fn parse(words: &[[u8; 8]], seed: u32) -> Option<Record> {
        let word = |place: usize| words.get(place).map(|word| u64::from_le_bytes(*word));
        let size = (word(0)? >> 32) as usize;
        if size < HEADER_WORDS || size > words.len() {
            return None;
        }
        (sum(&words[..size], seed) == word(0)? & 0xffff_ffff).then_some(Record {
            stamp: word(1)?,
            number: word(2)?,
            words: words[HEADER_WORDS..size].to_vec(),
        })
    }

    /// Words from its start to that of the next record.
    pub(crate) fn stride(&self) -> usize {
        (HEADER_WORDS + self.words.len()).next_multiple_of(LINE_WORDS)
    }

    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { rest: &self.words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn built() -> (Builder, Vec<[u8; 8]>) {
        let mut builder = Builder::default();
        builder.clear();
        builder.push_word(Addr::pm(64), 7);
        builder.push_word(Addr::pm(72), 8);
        builder.push_word(Addr::pm(96), 9);
        builder.push_bytes(Addr::pm(128), 1, 5);
        builder.push_end(3);
        builder.push_freed(Addr::pm(4096), 100);
        let mut words = Vec::new();
        builder.finish(11, 12, 13, |bytes| words = bytes.as_chunks().0.to_vec());
        assert_eq!(8 * words.len() as u64, builder.bytes());
        (builder, words)
    }

    #[test]
    fn what_is_built_is_read_back() {
        let (_, words) = built();
        assert_eq!(Record::parse(&words, 14), None, "a record of another log");
        let record = Record::parse(&words, 13).expect("whole");
        assert_eq!((record.stamp, record.number, record.stride()), (11, 12, 16));
        let entries: Vec<Entry<'_>> = record.entries().collect();
        assert_eq!(
            entries[0],
            Entry::Words(Addr::pm(64), &[[7, 0, 0, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0, 0, 0]])
        );
        assert_eq!(entries[1], Entry::Words(Addr::pm(96), &[[9, 0, 0, 0, 0, 0, 0, 0]]));
        assert_eq!(entries[2], Entry::Bytes(Addr::pm(128), 1, 5));
        assert_eq!(entries[3..], [Entry::End(3), Entry::Freed(Addr::pm(4096), 100)]);
    }

    #[test]
    fn bytes_of_one_word_join_and_later_ones_win() {
        let mut builder = Builder::default();
        builder.clear();
        let place = builder.push_bytes(Addr::pm(128), 0b1, 0x11);
        builder.widen(place, 0b11, 0x3322);
        assert_eq!((builder.mask(place), builder.word(place)), (0b11, 0x3322));
        assert_eq!(spread(0b1000_0001), 0xff00_0000_0000_00ff);
    }

    #[test]
    fn a_run_longer_than_an_entry_becomes_two() {
        let mut builder = Builder::default();
        builder.clear();
        for word in 0..COUNT_MAX as u64 + 1 {
            builder.push_word(Addr::pm(8 * word), word);
        }
        assert_eq!(builder.entries().count(), 2);
    }

    proptest! {
        #[test]
        fn a_record_with_a_flipped_bit_is_none(bit in 0usize..14 * 64) {
            let (_, mut words) = built();
            words[bit / 64][bit % 64 / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Record::parse(&words, 13), None);
        }

        #[test]
        fn any_words_are_read_without_a_panic(
            words in proptest::collection::vec(any::<[u8; 8]>(), 0..40),
        ) {
            prop_assert_eq!(Record::parse(&words, 13), None);
            let record = Record { stamp: 0, number: 0, words };
            prop_assert!(record.entries().count() <= 40);
        }
    }
}
