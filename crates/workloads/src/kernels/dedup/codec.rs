//! Dividing, hashing and packing, step by step as the stages need it; and the plain computation on
//! vectors.
//!
//! Content-defined division by the last few words goes back to Rabin; the packing is of the family
//! of Lempel and Ziv (1977), on words: for each group of up to 32, a word of flags, the new words,
//! and for the others the places of their earlier occurrences, four to a word.

use crate::Input;
use crate::harness::workload::below;
use rand_xoshiro::rand_core::Rng;
use std::collections::BTreeMap;

/// Words of a dictionary: for each slot, the place of the last word that hashed to it.
pub(super) const DICTIONARY: u64 = 256;

fn mix(word: u64) -> u64 {
    let mixed = (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Finds the ends of chunks.
#[derive(Default)]
pub(super) struct Cutter {
    rolling: u64,
    length: u64,
}

impl Cutter {
    /// The least, the approximate mean and the greatest number of words of a chunk.
    pub(super) const LEAST: u64 = 32;
    pub(super) const MEAN: u64 = 128;
    const MOST: u64 = 512;

    /// True if a chunk ends with this word, the next of the block.
    pub(super) fn cuts_after(&mut self, word: u64) -> bool {
        self.rolling = (self.rolling << 16).wrapping_add(mix(word));
        self.length += 1;
        let says_so = mix(self.rolling).is_multiple_of(Cutter::MEAN - Cutter::LEAST);
        let cuts = self.length >= Cutter::LEAST && says_so || self.length == Cutter::MOST;
        if cuts {
            *self = Cutter::default();
        }
        cuts
    }
}

/// Hashes the words of a chunk.
#[derive(Default)]
pub(super) struct Hasher(u64);

impl Hasher {
    pub(super) fn add(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(23) ^ word);
    }

    pub(super) fn hash(&self) -> u64 {
        self.0
    }
}

/// Packs the words of a chunk.
#[derive(Default)]
pub(super) struct Packer {
    flags: u64,
    count: u64,
    new: Vec<u64>,
    places: Vec<u64>,
}

impl Packer {
    const GROUP: u64 = 32;
    const PER_WORD: usize = 4;

    /// The slot of the dictionary for a word.
    pub(super) fn slot(word: u64) -> u64 {
        mix(word) % DICTIONARY
    }

    /// Adds a word, with the place of its earlier occurrence in the chunk.
    pub(super) fn add(&mut self, word: u64, earlier: Option<u64>, put: impl FnMut(u64)) {
        match earlier {
            None => self.new.push(word),
            Some(place) => {
                self.flags |= 1 << self.count;
                self.places.push(place);
            }
        }
        self.count += 1;
        if self.count == Packer::GROUP {
            self.finish(put);
        }
    }

    /// Flushes the last group.
    pub(super) fn finish(&mut self, mut put: impl FnMut(u64)) {
        let group = std::mem::take(self);
        if group.count == 0 {
            return;
        }
        put(group.flags | group.count << Packer::GROUP);
        group.new.into_iter().for_each(&mut put);
        for places in group.places.chunks(Packer::PER_WORD) {
            put(places.iter().fold(0, |word, place| word << 16 | place));
        }
    }
}

/// An input of `words` words, about half of it duplicated, that compresses well.
pub(super) fn contents(input: &Input, words: u64) -> Vec<u64> {
    let mut rng = input.stream(0);
    let vocabulary: Vec<u64> = (0..64).map(|_| rng.next_u64()).collect();
    let mut contents: Vec<u64> = Vec::new();
    while (contents.len() as u64) < words {
        let length = 256 + below(&mut rng, 1024);
        let known = contents.len() as u64;
        if known > 2 * length && below(&mut rng, 2) == 0 {
            let from = below(&mut rng, known - length) as usize;
            contents.extend_from_within(from..from + length as usize);
            continue;
        }
        for _ in 0..length {
            let word = rng.next_u64();
            let is_common = word.is_multiple_of(2);
            contents.push(if is_common { vocabulary[(word >> 58) as usize] } else { word });
        }
    }
    contents.truncate(words as usize);
    contents
}

fn pack(chunk: &[u64]) -> Vec<u64> {
    let (mut packer, mut packed) = (Packer::default(), Vec::new());
    let mut seen = BTreeMap::new();
    for (place, word) in (0..).zip(chunk) {
        let earlier = seen.insert(Packer::slot(*word), place);
        let same = earlier.filter(|place: &u64| chunk[*place as usize] == *word);
        packer.add(*word, same, |word| packed.push(word));
    }
    packer.finish(|word| packed.push(word));
    packed
}

/// The output for `contents`: each chunk in full once, afterwards by its number. The hash of the
/// pipeline is not used: chunks are equal if their words are.
pub(super) fn plain(contents: &[u64], block: usize, full: u64) -> Vec<u64> {
    let mut numbers: BTreeMap<&[u64], u64> = BTreeMap::new();
    let mut output = Vec::new();
    for block in contents.chunks(block) {
        let (mut cutter, mut rest) = (Cutter::default(), block);
        while !rest.is_empty() {
            let last = rest.iter().position(|word| cutter.cuts_after(*word));
            let (chunk, behind) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
            rest = behind;
            if let Some(number) = numbers.get(chunk) {
                output.push(*number);
                continue;
            }
            numbers.insert(chunk, numbers.len() as u64 + 1);
            let packed = pack(chunk);
            output.push(packed.len() as u64 | full);
            output.extend(packed);
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(packed: &[u64]) -> Vec<u64> {
        let (mut words, mut at) = (Vec::new(), 0);
        while at < packed.len() {
            let (flags, count) = (packed[at], packed[at] >> Packer::GROUP);
            let old = (flags & ((1 << Packer::GROUP) - 1)).count_ones() as usize;
            let mut new = packed[at + 1..].iter();
            let places = &packed[at + 1 + count as usize - old..];
            let mut number = 0;
            for bit in 0..count {
                if flags >> bit & 1 == 0 {
                    words.push(*new.next().unwrap());
                    continue;
                }
                let group = number / Packer::PER_WORD * Packer::PER_WORD;
                let in_word = (old - group).min(Packer::PER_WORD);
                let shift = 16 * (in_word - 1 - number % Packer::PER_WORD);
                let place = places[number / Packer::PER_WORD] >> shift & 0xffff;
                words.push(words[place as usize]);
                number += 1;
            }
            at += 1 + count as usize - old + old.div_ceil(Packer::PER_WORD);
        }
        words
    }

    #[test]
    fn what_is_packed_can_be_unpacked_and_is_shorter() {
        let contents = contents(&Input { threads: 1, size: 1, seed: 9 }, 2000);
        let packed = pack(&contents[..500]);
        assert_eq!(unpack(&packed), &contents[..500]);
        assert!(packed.len() < 450, "{}", packed.len());
    }

    #[test]
    fn content_that_came_before_is_cut_and_written_as_before() {
        let contents = contents(&Input { threads: 1, size: 1, seed: 2 }, 1 << 15);
        let output = plain(&contents, 4096, 1 << 63);
        assert!(output.len() < contents.len() * 3 / 4, "{} of {}", output.len(), contents.len());
    }
}
