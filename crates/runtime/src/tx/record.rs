//! Log records: built in DRAM, written once in whole lines, valid only if whole.
//!
//! A record is a header of three words and entries, padded with zeros to whole lines:
//!
//! | word | content |
//! |---|---|
//! | 0 | [sum](super::checksum) of all its lines |
//! | 1 | stamp: its place in the order of all transactions of the heap |
//! | 2 | generation (high 40 bits), lines but one (low 24); [veiled](super::checksum) by place |
//! | 3.. | entries; a zero word, or the end of the lines, ends them |
//!
//! The sum makes one fence sufficient: a record whose lines did not all persist has a wrong sum. A
//! record of an earlier use of the same place has another generation. The veil serves recovery
//! where no record is whole: a number of this generation somewhere behind shows that there was one.
//!
//! An entry is a head word (address in the low 48 bits, kind in the next 4, count in the top 12)
//! and its values:
//!
//! | kind | count | values |
//! |---|---|---|
//! | 1 words | words | as many words, stored at the address |
//! | 2 bytes | mask of bytes | one word, of which those bytes are stored |
//! | 3 end | 0 | the number of an undo transaction of this thread, which is over |
//! | 4 freed | 0 | bytes from the address, free or durable: older entries for them are void |
//! | 5 before | 0 | lines that this thread's records of the previous generation take |
//! | 6 elsewhere | 0 | bytes at the address in which the log [goes on](super::extension) |

use super::checksum::{Keys, LINE_WORDS};
use super::index::{Found, Index};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Words of a record's header.
pub(crate) const HEADER_WORDS: usize = 3;
/// The maximum words of one entry.
pub(crate) const COUNT_MAX: usize = 0xfff;
const ADDR_BITS: u32 = 48;
const COUNT_SHIFT: u32 = 52;
const WORDS: u64 = 1;
const BYTES: u64 = 2;
const END: u64 = 3;
const FREED: u64 = 4;
const BEFORE: u64 = 5;
const ELSEWHERE: u64 = 6;
/// Words of an entry of kind before.
pub(crate) const BEFORE_WORDS: usize = 2;
/// Words of an entry of kind end.
pub(super) const END_WORDS: usize = 2;
/// Bits of the number of lines in word 2.
const LENGTH_BITS: u32 = 24;
/// The maximum bytes of a record.
pub(super) const BYTES_MAX: u64 = LINE_BYTES << LENGTH_BITS;

/// Word 2 of a record's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// Its generation, or the number of its undo transaction.
    pub(crate) generation: u64,
    /// Its lines, 1 to 2^24.
    pub(crate) lines: u64,
}

impl Number {
    #[inline]
    fn encode(self, keys: &Keys, line: u64) -> u64 {
        keys.veil(self.generation << LENGTH_BITS | (self.lines - 1), line)
    }

    /// Decodes `bits`, word 2 at line `line` of the log of `keys`.
    #[inline]
    pub(crate) fn decode(bits: u64, keys: &Keys, line: u64) -> Number {
        let bits = keys.unveil(bits, line);
        Number { generation: bits >> LENGTH_BITS, lines: (bits & ((1 << LENGTH_BITS) - 1)) + 1 }
    }
}

/// An entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// Store the words (little-endian) from the address on.
    Words(Addr, &'a [[u8; 8]]),
    /// Store those bytes of the word at the address whose bit is set in the mask.
    Bytes(Addr, u8, u64),
    /// The thread's undo transaction of that number is over.
    End(u64),
    /// That many bytes from the address are free.
    Freed(Addr, u64),
    /// The number of lines that the thread's records of the previous generation take.
    Before(u64),
    /// The log goes on in that many bytes from the address.
    Elsewhere(Addr, u64),
}

impl Entry<'_> {
    /// Its words, the head included.
    fn words(self) -> usize {
        match self {
            Entry::Words(_, values) => 1 + values.len(),
            _ => 2,
        }
    }
}

/// A record under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    /// Words of this record, and of longer ones before it: nothing is cleared for a word that is
    /// to be written.
    buffer: Vec<[u8; 8]>,
    len: usize,
    /// The place of the last entry's head, if words can be appended to the entry.
    open: Option<usize>,
    /// The place from which on all values are in place already.
    stored: Option<usize>,
}

fn head(at: Addr, kind: u64, count: u64) -> u64 {
    debug_assert!(at.offset() < 1 << ADDR_BITS && count <= COUNT_MAX as u64);
    at.offset() | kind << ADDR_BITS | count << COUNT_SHIFT
}

impl Builder {
    /// Removes all entries.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.append(HEADER_WORDS);
        self.open = None;
        self.stored = None;
    }

    /// Notes that all values which are appended from now on are in place already.
    pub(crate) fn mark_stored(&mut self) {
        self.close();
        self.stored = Some(self.len);
    }

    /// True if there are no entries.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len <= HEADER_WORDS
    }

    /// The number of words so far: a mark for [`truncate`](Builder::truncate).
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The words so far.
    #[inline]
    fn words(&self) -> &[[u8; 8]] {
        &self.buffer[..self.len]
    }

    /// Appends so many words, to be written by the caller.
    #[inline]
    fn append(&mut self, words: usize) -> &mut [[u8; 8]] {
        let (from, to) = (self.len, self.len + words);
        if to > self.buffer.len() {
            self.grow(to);
        }
        self.len = to;
        &mut self.buffer[from..to]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, words: usize) {
        let words = words.next_multiple_of(LINE_WORDS).max(2 * self.buffer.len());
        self.buffer.resize(words, [0; 8]);
    }

    /// Closes the last entry: nothing is appended to it, so that it stays as it is when later
    /// entries are [removed](Builder::truncate).
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Removes the entries from that mark on, at which the builder was [closed](Builder::close).
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = len;
        self.open = None;
    }

    /// The bytes of the record with `more` words, in whole lines.
    #[inline]
    pub(crate) fn bytes_with(&self, more: usize) -> u64 {
        (8 * (self.len + more) as u64).next_multiple_of(LINE_BYTES)
    }

    /// The bytes of the record, in whole lines.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_with(0)
    }

    #[inline]
    pub(crate) fn word(&self, place: usize) -> u64 {
        u64::from_le_bytes(self.buffer[place])
    }

    #[inline]
    pub(crate) fn set_word(&mut self, place: usize, value: u64) {
        self.buffer[place] = value.to_le_bytes();
    }

    #[inline]
    fn push(&mut self, value: u64) {
        self.append(1)[0] = value.to_le_bytes();
    }

    /// Appends a word to be stored at `at`; returns the place of its value.
    #[inline]
    pub(crate) fn push_word(&mut self, at: Addr, value: u64) -> usize {
        self.open_for(at, 1);
        self.push(value);
        self.len - 1
    }

    /// Appends whole words, at most as many as an entry has, to be stored at `at`; returns the
    /// first place.
    #[inline]
    pub(crate) fn push_words(&mut self, at: Addr, bytes: &[u8]) -> usize {
        let (words, _) = bytes.as_chunks::<8>();
        self.open_for(at, words.len());
        self.append(words.len()).copy_from_slice(words);
        self.len - words.len()
    }

    /// Adds `words` to the count of a head for words at `at` that are appended next.
    #[inline]
    fn open_for(&mut self, at: Addr, words: usize) {
        match self.open {
            Some(open) if self.continues(open, at, words) => {
                let head = self.word(open) + ((words as u64) << COUNT_SHIFT);
                self.set_word(open, head);
            }
            _ => {
                self.open = Some(self.len);
                self.push(head(at, WORDS, words as u64));
            }
        }
    }

    #[inline]
    fn continues(&self, open: usize, at: Addr, more: usize) -> bool {
        let count = self.len - open - 1;
        let first = self.word(open) & ((1 << ADDR_BITS) - 1);
        count + more <= COUNT_MAX && first + 8 * count as u64 == at.offset()
    }

    /// Appends bytes of the word at `at`; returns the place of their value, which follows its head.
    pub(crate) fn push_bytes(&mut self, at: Addr, mask: u8, value: u64) -> usize {
        self.open = None;
        self.push(head(at, BYTES, mask.into()));
        self.push(value);
        self.len - 1
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

    /// Restores the value at `place`, and the mask of its entry if it has one.
    pub(crate) fn restore(&mut self, place: usize, value: u64, mask: u8) {
        self.set_word(place, value);
        if mask != 0 {
            let head = self.word(place - 1) & ((1 << COUNT_SHIFT) - 1);
            self.set_word(place - 1, head | u64::from(mask) << COUNT_SHIFT);
        }
    }

    /// Appends the values that `memory` has from `from` to `to`, to the byte.
    pub(crate) fn push_from<M: Memory>(&mut self, memory: &M, from: Addr, to: Addr) {
        let mut at = from;
        while at < to {
            let (skip, rest) = (at.bits() % 8, to.bits() - at.bits());
            let bytes = if skip == 0 && rest >= 8 {
                let words = (rest / 8).min(COUNT_MAX as u64);
                self.push(head(at, WORDS, words));
                memory.read(at, self.append(words as usize).as_flattened_mut());
                8 * words
            } else {
                let bytes = rest.min(8 - skip);
                let word = Addr::from_bits(at.bits() - skip);
                let mask = (((1u16 << bytes) - 1) << skip) as u8;
                self.push_bytes(word, mask, memory.load(word));
                bytes
            };
            at = at.plus(bytes);
        }
        self.open = None;
    }

    /// Appends an entry of another record.
    pub(crate) fn push_entry(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Words(at, values) => {
                self.open = None;
                self.push(head(at, WORDS, values.len() as u64));
                self.append(values.len()).copy_from_slice(values);
            }
            Entry::Bytes(at, mask, value) => {
                self.push_bytes(at, mask, value);
            }
            Entry::End(number) => self.push_end(number),
            Entry::Freed(at, bytes) => self.push_freed(at, bytes),
            Entry::Before(lines) => self.push_before(lines),
            Entry::Elsewhere(at, bytes) => self.push_elsewhere(at, bytes),
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

    pub(crate) fn push_before(&mut self, lines: u64) {
        self.open = None;
        self.push(head(Addr::NULL, BEFORE, 0));
        self.push(lines);
    }

    pub(crate) fn push_elsewhere(&mut self, at: Addr, bytes: u64) {
        self.open = None;
        self.push(head(at, ELSEWHERE, 0));
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
                Entry::End(_) | Entry::Freed(..) | Entry::Before(_) | Entry::Elsewhere(..) => {
                    place += 2;
                }
            }
        }
    }

    /// The entries that are to be stored in place, and those whose values are there.
    #[inline]
    pub(crate) fn to_store_and_stored(&self) -> (Entries<'_>, Entries<'_>) {
        let words = self.words();
        let (rest, stored) = words.split_at(self.stored.unwrap_or(words.len()));
        (Entries { rest: &rest[HEADER_WORDS..] }, Entries { rest: stored })
    }

    /// The entries so far.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { rest: self.words().get(HEADER_WORDS..).unwrap_or_default() }
    }

    /// Finishes the record of `generation` for line `line` of the log of `keys`, and returns it in
    /// whole lines. Nothing can be appended afterwards.
    #[inline]
    pub(crate) fn finish(&mut self, stamp: u64, generation: u64, line: u64, keys: &Keys) -> &[u8] {
        let pad = self.len.wrapping_neg() % LINE_WORDS;
        self.append(pad).fill([0; 8]);
        let number = Number { generation, lines: (self.len / LINE_WORDS) as u64 };
        self.set_word(1, stamp);
        self.set_word(2, number.encode(keys, line));
        self.set_word(0, keys.sum(self.words().as_chunks().0));
        self.words().as_flattened()
    }
}

/// The bits of the bytes in `mask`.
#[inline]
pub(crate) fn spread(mask: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    // Bit i in byte i, carried to the top of its byte.
    let each = (u64::from(mask) * LOW) & 0x8040_2010_0804_0201;
    let tops = (each + 0x7f * LOW) & (0x80 * LOW);
    (tops >> 7) * 0xff
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
            BEFORE => Some(Entry::Before(value())),
            ELSEWHERE => Some(Entry::Elsewhere(at, value())),
            _ => None,
        }
    }
}

/// A record as read back and found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) stamp: u64,
    /// The generation, or the number of the undo transaction.
    pub(crate) generation: u64,
    lines: u64,
    words: Vec<[u8; 8]>,
}

impl Record {
    /// Parses `lines`, found at line `line` of the log of `keys`; `None` if the record is not
    /// whole.
    pub(crate) fn parse(lines: &[[[u8; 8]; LINE_WORDS]], line: u64, keys: &Keys) -> Option<Record> {
        let words = lines.as_flattened();
        let word = |place: usize| Some(u64::from_le_bytes(*words.get(place)?));
        let number = Number::decode(word(2)?, keys, line);
        let is_whole = number.lines == lines.len() as u64 && keys.sum(lines) == word(0)?;
        is_whole.then_some(Record {
            stamp: word(1)?,
            generation: number.generation,
            lines: number.lines,
            words: words.to_vec(),
        })
    }

    /// The number of lines that the record takes in its log.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Where the log goes on.
    pub(crate) fn elsewhere(&self) -> Option<(Addr, u64)> {
        self.entries().find_map(|entry| match entry {
            Entry::Elsewhere(at, bytes) => Some((at, bytes)),
            _ => None,
        })
    }

    /// Puts the entries of a record that is elsewhere in front of those of this one.
    pub(crate) fn take_in(&mut self, other: Record) {
        let mut all = Builder { len: other.words.len(), buffer: other.words, ..Builder::default() };
        all.truncate(HEADER_WORDS + all.entries().map(Entry::words).sum::<usize>());
        self.entries().for_each(|entry| all.push_entry(entry));
        all.buffer.truncate(all.len);
        self.words = all.buffer;
    }

    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { rest: &self.words[HEADER_WORDS..] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Lines = Vec<[[u8; 8]; LINE_WORDS]>;

    fn keys(pool: u128) -> Keys {
        Keys::of(pool, Addr::pm(4096))
    }

    fn built() -> Lines {
        let mut builder = Builder::default();
        builder.clear();
        builder.push_word(Addr::pm(64), 7);
        builder.push_word(Addr::pm(72), 8);
        builder.push_word(Addr::pm(96), 9);
        builder.push_bytes(Addr::pm(128), 1, 5);
        builder.push_end(3);
        builder.push_freed(Addr::pm(4096), 100);
        let bytes = builder.bytes();
        let record = builder.finish(11, 12, 5, &keys(1));
        assert_eq!(record.len() as u64, bytes);
        record.as_chunks().0.as_chunks().0.to_vec()
    }

    #[test]
    fn what_is_built_is_read_back() {
        let lines = built();
        assert_eq!(Record::parse(&lines, 5, &keys(2)), None, "a record of another log");
        assert_eq!(Record::parse(&lines, 6, &keys(1)), None, "a record of another place");
        let record = Record::parse(&lines, 5, &keys(1)).expect("whole");
        assert_eq!((record.stamp, record.generation, record.lines()), (11, 12, 2));
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
    fn every_mask_is_spread_to_its_bytes() {
        for mask in 0..=u8::MAX {
            let bytes = [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| 0xff * (mask >> byte & 1));
            assert_eq!(spread(mask), u64::from_le_bytes(bytes), "{mask:#b}");
        }
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
        fn a_record_with_a_flipped_bit_is_none(bit in 0usize..16 * 64) {
            let mut lines = built();
            lines[bit / 512][bit / 64 % 8][bit % 64 / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Record::parse(&lines, 5, &keys(1)), None);
        }

        #[test]
        fn a_number_comes_back_at_its_own_line_only(
            generation in 0u64..1 << 40, lines in 1u64..=1 << 24, line in 0u64..1 << 24,
        ) {
            let (keys, number) = (keys(3), Number { generation, lines });
            let bits = number.encode(&keys, line);
            prop_assert_eq!(Number::decode(bits, &keys, line), number);
            prop_assert_ne!(Number::decode(bits, &keys, line + 1), number);
        }

        #[test]
        fn any_words_are_read_without_a_panic(
            lines in proptest::collection::vec(any::<[[u8; 8]; LINE_WORDS]>(), 1..6),
        ) {
            prop_assert_eq!(Record::parse(&lines, 0, &keys(1)), None);
            let words = lines.as_flattened().to_vec();
            let record = Record { stamp: 0, generation: 0, lines: 1, words };
            prop_assert!(record.entries().count() <= 40);
        }
    }
}
