//! An index of the words in a transaction's buffer, by cache lines, the last one first.
//!
//! Most transactions touch a few lines, or many in the order of their addresses. So a search tries
//! the last used line first. Lines in ascending order are bisected; others are searched one by one,
//! and hashed only when there are many.

use rustc_hash::FxHashMap;
use seawall_memory::{Addr, LINE_BYTES};

/// The number of lines up to which a linear search is faster than hashing.
const SEARCHED: usize = 12;
/// Flag in a place: the buffer has only some bytes of the word.
const PART: u32 = 1 << 31;
const LINE_WORDS: usize = LINE_BYTES as usize / 8;

/// What the buffer has of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The whole word, at that place.
    Word(usize),
    /// Some of its bytes, at that place.
    Bytes(usize),
}

#[inline]
fn found(place: u32) -> Option<Found> {
    match place {
        0 => None,
        place if place & PART != 0 => Some(Found::Bytes((place & !PART) as usize)),
        place => Some(Found::Word(place as usize)),
    }
}

/// A slot of an index, for one word.
pub(crate) struct Place<'a>(&'a mut u32);

impl Place<'_> {
    #[inline]
    pub(crate) fn found(&self) -> Option<Found> {
        found(*self.0)
    }

    #[inline]
    pub(crate) fn set(self, found: Found) {
        *self.0 = match found {
            Found::Word(place) => place as u32,
            Found::Bytes(place) => place as u32 | PART,
        };
    }
}

/// The places of a line's words; 0 stands for none.
#[derive(Clone, Debug)]
struct LinePlaces {
    line: u64,
    places: [u32; LINE_WORDS],
}

/// Maps addresses of words to places (from 1 on) in a buffer; the last one put is found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    lines: Vec<LinePlaces>,
    last: usize,
    /// Whether a line was added behind one with a greater address.
    is_mixed: bool,
    hashed: FxHashMap<u64, usize>,
}

impl Index {
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.last = 0;
        self.is_mixed = false;
        if !self.hashed.is_empty() {
            self.hashed.clear();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    #[inline]
    fn line(&self, line: u64) -> Option<usize> {
        if self.lines.get(self.last).is_some_and(|last| last.line == line) {
            return Some(self.last);
        }
        if !self.is_mixed {
            let greatest = self.lines.last()?.line;
            let search = || self.lines.binary_search_by_key(&line, |known| known.line).ok();
            return if line > greatest { None } else { search() };
        }
        if self.hashed.is_empty() {
            self.lines.iter().position(|known| known.line == line)
        } else {
            self.hashed.get(&line).copied()
        }
    }

    #[inline]
    pub(crate) fn find(&self, word: Addr) -> Option<Found> {
        let places = &self.lines[self.line(word.line().0)?].places;
        found(places[(word.bits() % LINE_BYTES / 8) as usize])
    }

    /// Whether the buffer has nothing of the words from `word` to `end`, all of one line.
    #[inline]
    pub(crate) fn has_none(&self, word: Addr, end: Addr) -> bool {
        let Some(line) = self.line(word.line().0) else { return true };
        let first = (word.bits() % LINE_BYTES / 8) as usize;
        let count = ((end.bits() - word.bits()) / 8) as usize;
        self.lines[line].places[first..first + count].iter().all(|place| *place == 0)
    }

    /// The end of the words from `word` on of which the buffer has nothing, as far as one look
    /// tells; at most `end`.
    #[inline]
    pub(crate) fn free_until(&self, word: Addr, end: Addr) -> Addr {
        if self.is_behind(word) {
            return end;
        }
        let in_line = word.line().start().plus(LINE_BYTES).min(end);
        if self.has_none(word, in_line) { in_line } else { word }
    }

    /// Whether the word is in a line behind all that the buffer has, which are in order.
    #[inline]
    fn is_behind(&self, word: Addr) -> bool {
        !self.is_mixed && self.lines.last().is_none_or(|last| last.line < word.line().0)
    }

    #[inline]
    fn line_mut(&mut self, line: u64) -> &mut [u32; LINE_WORDS] {
        self.last = match self.line(line) {
            Some(known) => known,
            None => self.add(line),
        };
        &mut self.lines[self.last].places
    }

    /// The slot of a word, to be read and set; adds its line to the index.
    #[inline]
    pub(crate) fn place(&mut self, word: Addr) -> Place<'_> {
        Place(&mut self.line_mut(word.line().0)[(word.bits() % LINE_BYTES / 8) as usize])
    }

    fn add(&mut self, line: u64) -> usize {
        self.is_mixed |= self.lines.last().is_some_and(|last| last.line > line);
        self.lines.push(LinePlaces { line, places: [0; LINE_WORDS] });
        let count = self.lines.len();
        if self.is_mixed && count > SEARCHED {
            let known = if self.hashed.is_empty() { 0 } else { count - 1 };
            for (at, known) in self.lines.iter().enumerate().skip(known) {
                self.hashed.insert(known.line, at);
            }
        }
        count - 1
    }

    #[inline]
    pub(crate) fn put(&mut self, word: Addr, found: Found) {
        self.place(word).set(found);
    }

    /// Sets the places of the words from `word` to `end`, from `place` on.
    #[inline]
    pub(crate) fn put_run(&mut self, mut word: Addr, end: Addr, place: usize) {
        let mut place = place as u32;
        while word < end {
            let first = (word.bits() % LINE_BYTES / 8) as usize;
            let left = ((end.bits() - word.bits()) / 8) as usize;
            let whole = left / LINE_WORDS;
            if first == 0 && whole > 0 && self.is_behind(word) {
                self.append_lines(word.line().0, whole, place);
                place += (whole * LINE_WORDS) as u32;
                word = word.plus(whole as u64 * LINE_BYTES);
                continue;
            }
            let count = left.min(LINE_WORDS - first);
            let places = &mut self.line_mut(word.line().0)[first..first + count];
            places.iter_mut().zip(place..).for_each(|(at, place)| *at = place);
            place += count as u32;
            word = word.plus(8 * count as u64);
        }
    }

    /// Adds so many lines from `line` on, behind all others, and the places of their words from
    /// `place` on.
    #[inline]
    fn append_lines(&mut self, line: u64, count: usize, place: u32) {
        self.lines.extend((0..count).map(|next| {
            let first = place + (LINE_WORDS * next) as u32;
            let places = std::array::from_fn(|word| first + word as u32);
            LinePlaces { line: line + next as u64, places }
        }));
        self.last = self.lines.len() - 1;
    }

    /// The words, line by line in the order in which the lines were added.
    pub(crate) fn words(&self) -> impl Iterator<Item = Addr> + '_ {
        self.lines.iter().flat_map(|line| {
            let words = line.places.iter().enumerate().filter(|(_, place)| **place != 0);
            words.map(|(word, _)| Addr::pm(line.line * LINE_BYTES + 8 * word as u64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_last_place_of_a_word_is_found(
            mut puts in proptest::collection::vec((0u64..200, any::<bool>()), 0..300),
            ascending in 0usize..300,
        ) {
            let (mut index, mut model) = (Index::default(), BTreeMap::new());
            let ascending = ascending.min(puts.len());
            puts[..ascending].sort_by_key(|(word, _)| *word);
            for (place, (word, is_part)) in (1..).zip(puts) {
                let found = if is_part { Found::Bytes(place) } else { Found::Word(place) };
                index.put(Addr::pm(8 * word), found);
                model.insert(word, found);
            }
            for word in 0..200 {
                prop_assert_eq!(index.find(Addr::pm(8 * word)), model.get(&word).copied());
            }
            let mut words: Vec<u64> = index.words().map(|word| word.bits() / 8).collect();
            words.sort_unstable();
            prop_assert_eq!(words, model.keys().copied().collect::<Vec<u64>>());
        }

        #[test]
        fn runs_are_the_same_as_their_words(
            before in 0u64..8, first in 0u64..8, count in 0u64..40,
        ) {
            let at = |word: u64| Addr::pm(640 + 8 * word);
            let (from, to) = (at(first), at(first + count));
            let mut index = Index::default();
            prop_assert_eq!(index.free_until(from, to), to);
            index.put_run(from, to, 5);
            for word in 0..48 {
                let expected = (first..first + count).contains(&word);
                let expected = expected.then(|| Found::Word((5 + word - first) as usize));
                prop_assert_eq!(index.find(at(word)), expected);
                let is_free = index.free_until(at(word), at(word + 1)) > at(word);
                prop_assert_eq!(is_free, expected.is_none(), "word {}", word);
            }
            // A line with an older word stops a run, and so does a mix of lines.
            index.put(at(before), Found::Bytes(3));
            index.put(Addr::pm(64), Found::Word(9));
            prop_assert_eq!(index.free_until(at(before), at(before + 9)), at(before));
            prop_assert_eq!(index.free_until(Addr::pm(128), Addr::pm(640)), Addr::pm(192));
        }
    }
}
