//! What the nodes of the tree look like.
//!
//! A leaf is a line that says what is there, and slots of a key and a value in no order:
//!
//! | word | content |
//! |---|---|
//! | 0 | kind and level of the node |
//! | 1..8 | a byte for each slot: 0 when it is free, else a fingerprint of its key; 255: no slot |
//! | 8.. | slots: key, value |
//!
//! The fingerprints are those of FPTree (Oukid, Lasperas, Nica, Willhalm, Lehner, SIGMOD'16), but
//! they are persistent and say by themselves whether a slot is used, so that an insert writes the
//! two words of a slot and one of these: with the log's framing, one line. A search reads the first
//! line and, nearly always, one slot.
//!
//! An inner node has its keys in order, with `u64::MAX` in place of those that it lacks, so that a
//! search makes the same few independent reads whatever is there:
//!
//! | word | content |
//! |---|---|
//! | 0 | kind, level and number of keys |
//! | 1.. | `KEYS` keys |
//! | then | `KEYS + 1` children; child `i` has the keys from key `i - 1` to below key `i` |
//!
//! Searches read nodes that others may be changing, or that are no nodes any more: they end, and
//! stay within the node, whatever they read.

use crate::reads::Reads;
use seawall_memory::{Addr, LINE_BYTES};

const LEAF_KIND: u64 = 0x6c65_6166 << 32;
const INNER_KIND: u64 = 0x696e_6e72 << 32;
const LEVEL_SHIFT: u32 = 16;
const COUNT_MASK: u64 = 0xffff;
/// The most slots that a leaf's first line has bytes for.
pub(super) const SLOTS_MAX: usize = 56;
const FREE: u64 = 0;
const NO_SLOT: u64 = 255;

/// A leaf of `SLOTS` slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<const SLOTS: usize>(pub(super) Addr);

/// An entry of a leaf: its key, its value, its slot.
pub(super) type Entry = (u64, u64, usize);

/// The byte that stands for a key: 1 to 254.
#[inline]
pub(super) const fn fingerprint(key: u64) -> u64 {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    1 + ((hash * 254) >> 8)
}

/// Bit 7 of each byte of `word` that is zero.
#[inline]
const fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    !(((word & LOW) + LOW) | word | LOW)
}

impl<const SLOTS: usize> Leaf<SLOTS> {
    pub(super) const BYTES: u64 = 64 + 16 * SLOTS as u64;
    const WORDS: usize = SLOTS.div_ceil(8);

    /// Where the word is that has the byte of `slot`.
    #[inline]
    pub(super) const fn prints(self, slot: usize) -> Addr {
        self.0.plus(8 + (slot as u64 & !7))
    }

    /// Where the key of `slot` is; its value follows.
    #[inline]
    pub(super) const fn slot(self, slot: usize) -> Addr {
        self.0.plus(64 + 16 * slot as u64)
    }

    /// The slot of `key`.
    #[inline]
    pub(super) fn find<R: Reads>(self, from: &R, key: u64) -> Option<usize> {
        let wanted = fingerprint(key) * 0x0101_0101_0101_0101;
        for word in 0..Self::WORDS {
            let prints: u64 = from.word(self.prints(8 * word));
            let mut hits = zero_bytes(prints ^ wanted);
            while hits != 0 {
                let slot = 8 * word + hits.trailing_zeros() as usize / 8;
                if slot < SLOTS && from.word(self.slot(slot)) == key {
                    return Some(slot);
                }
                hits &= hits - 1;
            }
        }
        None
    }

    /// A slot that is free.
    #[inline]
    pub(super) fn free<R: Reads>(self, from: &R) -> Option<usize> {
        for word in 0..Self::WORDS {
            let free = zero_bytes(from.word(self.prints(8 * word)));
            if free != 0 {
                let slot = 8 * word + free.trailing_zeros() as usize / 8;
                return (slot < SLOTS).then_some(slot);
            }
        }
        None
    }

    /// The word that has the byte of `slot`, with `print` there (0: free).
    #[inline]
    pub(super) fn with_print<R: Reads>(self, from: &R, slot: usize, print: u64) -> u64 {
        let shift = 8 * (slot as u32 % 8);
        let prints: u64 = from.word(self.prints(slot));
        prints & !(0xff << shift) | print << shift
    }

    /// The words that have the bytes of the slots.
    pub(super) fn all_prints<R: Reads>(self, from: &R) -> Vec<u64> {
        (0..Self::WORDS).map(|word| from.word(self.prints(8 * word))).collect()
    }

    /// Slots that are used.
    pub(super) fn count<R: Reads>(self, from: &R) -> usize {
        let used = |slot: usize| {
            let prints: u64 = from.word(self.prints(slot));
            let free = zero_bytes(prints) | zero_bytes(!prints);
            8 - free.count_ones() as usize
        };
        (0..Self::WORDS).map(|word| used(8 * word)).sum()
    }

    /// Shows every entry to `each`, in the order of the slots.
    #[inline]
    pub(super) fn entries<R: Reads>(self, from: &R, mut each: impl FnMut(Entry)) {
        for word in 0..Self::WORDS {
            let prints: u64 = from.word(self.prints(8 * word));
            for byte in 0..8usize.min(SLOTS - 8 * word) {
                let print = prints >> (8 * byte) & 0xff;
                if print != FREE && print != NO_SLOT {
                    let slot = 8 * word + byte;
                    let at = self.slot(slot);
                    each((from.word(at), from.word(at.plus(8)), slot));
                }
            }
        }
    }

    /// The bytes of a leaf that holds the entries, as words; the slots after them are left out.
    pub(super) fn image(entries: &[Entry]) -> Vec<u64> {
        let mut words = vec![0; 8 + 2 * entries.len()];
        words[0] = LEAF_KIND;
        for (slot, (key, value, _)) in entries.iter().enumerate() {
            words[1 + slot / 8] |= fingerprint(*key) << (8 * (slot % 8));
            words[8 + 2 * slot] = *key;
            words[9 + 2 * slot] = *value;
        }
        for slot in SLOTS..8 * Self::WORDS {
            words[1 + slot / 8] |= NO_SLOT << (8 * (slot % 8));
        }
        words
    }

    /// What is wrong with the node as a leaf, apart from its keys.
    pub(super) fn fault<R: Reads>(self, from: &R) -> Option<&'static str> {
        if from.word(self.0) != LEAF_KIND {
            return Some("does not say that it is a leaf");
        }
        for slot in 0..8 * Self::WORDS {
            let print = from.word(self.prints(slot)) >> (8 * (slot % 8)) & 0xff;
            if (print == NO_SLOT) != (slot >= SLOTS) {
                return Some("has slots that it should not have, or lacks some");
            }
            let key = self.slot(slot);
            if slot < SLOTS && print != FREE && print != fingerprint(from.word(key)) {
                return Some("has a key whose fingerprint is another one's");
            }
        }
        None
    }
}

/// An inner node of up to `KEYS` keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<const KEYS: usize>(pub(super) Addr);

impl<const KEYS: usize> Inner<KEYS> {
    pub(super) const BYTES: u64 = 16 * (KEYS as u64 + 1);
    /// Header and keys fill their lines.
    const WHOLE_LINES: bool = (KEYS + 1).is_multiple_of(8);

    /// Word 0 of a node of that level with that many keys.
    pub(super) const fn head(level: u64, count: usize) -> u64 {
        INNER_KIND | level << LEVEL_SHIFT | count as u64
    }

    #[inline]
    pub(super) const fn key_at(self, index: usize) -> Addr {
        self.0.plus(8 + 8 * index as u64)
    }

    #[inline]
    pub(super) const fn child_at(self, index: usize) -> Addr {
        self.0.plus(8 * (KEYS + 1 + index) as u64)
    }

    /// How many keys it has.
    #[inline]
    pub(super) fn count<R: Reads>(self, from: &R) -> usize {
        ((from.word(self.0) & COUNT_MASK) as usize).min(KEYS)
    }

    /// The number of the child that has `key`: of the first key of each line, how many are no
    /// greater; then of the keys in that line.
    #[inline]
    pub(super) fn search<R: Reads>(self, from: &R, key: u64) -> usize {
        let no_greater = |word: usize| {
            let there: u64 = from.word(self.0.plus(8 * word as u64));
            usize::from(there <= key)
        };
        let lines: usize = (1..=KEYS / 8).map(|line| no_greater(8 * line)).sum();
        let count = self.count(from);
        if Self::WHOLE_LINES {
            let words = from.line(self.0.plus(LINE_BYTES * lines as u64));
            let rest: usize = words[1..].iter().map(|there| usize::from(*there <= key)).sum();
            return (8 * lines + rest).min(count);
        }
        let first = (8 * lines).max(1);
        let end = (8 * lines + 8).min(KEYS + 1);
        let rest: usize = (first..end).map(no_greater).sum();
        (first - 1 + rest).min(count)
    }

    #[inline]
    pub(super) fn key<R: Reads>(self, from: &R, index: usize) -> u64 {
        from.word(self.key_at(index))
    }

    #[inline]
    pub(super) fn child<R: Reads>(self, from: &R, index: usize) -> Addr {
        Addr::from_bits(from.word(self.child_at(index)))
    }

    /// Its keys and children.
    pub(super) fn content<R: Reads>(self, from: &R) -> (Vec<u64>, Vec<Addr>) {
        let count = self.count(from);
        let keys = (0..count).map(|index| self.key(from, index)).collect();
        let children = (0..=count).map(|index| self.child(from, index)).collect();
        (keys, children)
    }

    /// The bytes of a node with that content, as words; the children after the last are left out.
    pub(super) fn image(level: u64, keys: &[u64], children: &[Addr]) -> Vec<u64> {
        let mut words = vec![u64::MAX; KEYS + 1];
        words[0] = Self::head(level, keys.len());
        words[1..=keys.len()].copy_from_slice(keys);
        words.extend(children.iter().map(|child| child.bits()));
        words
    }

    /// What is wrong with the node as one of that level, apart from its keys.
    pub(super) fn fault<R: Reads>(self, from: &R, level: u64) -> Option<&'static str> {
        let head: u64 = from.word(self.0);
        let count = (head & COUNT_MASK) as usize;
        if head & !COUNT_MASK != Self::head(level, 0) {
            return Some("does not say that it is an inner node of its level");
        }
        if count > KEYS {
            return Some("has more keys than there is room for");
        }
        let is_padded = (count..KEYS).all(|index| self.key(from, index) == u64::MAX);
        (!is_padded).then_some("has something behind its last key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::{Image, MemoryExt};

    fn put(image: &Image, at: Addr, words: &[u64]) {
        for (word, value) in (0..).zip(words) {
            image.store(at.plus(8 * word), *value);
        }
    }

    proptest! {
        #[test]
        fn a_byte_is_zero_or_not(word: u64) {
            for byte in 0..8 {
                let wanted = if word >> (8 * byte) & 0xff == 0 { 0x80 } else { 0 };
                prop_assert_eq!(zero_bytes(word) >> (8 * byte) & 0xff, wanted);
            }
        }

        #[test]
        fn a_leaf_finds_what_it_holds_and_counts_it(
            keys in proptest::collection::btree_set(any::<u64>(), 0..=13), other: u64,
        ) {
            let image = Image::new(1024, 0);
            let leaf = Leaf::<13>(Addr::pm(64));
            let entries: Vec<Entry> = keys.iter().map(|key| (*key, !*key, 0)).collect();
            put(&image, leaf.0, &Leaf::<13>::image(&entries));
            prop_assert_eq!(leaf.count(&image), keys.len());
            prop_assert_eq!(leaf.fault(&image), None);
            for (slot, key) in keys.iter().enumerate() {
                prop_assert_eq!(leaf.find(&image, *key), Some(slot));
            }
            prop_assert_eq!(leaf.find(&image, other).is_some(), keys.contains(&other));
            prop_assert_eq!(leaf.free(&image), (keys.len() < 13).then_some(keys.len()));
            let mut found = Vec::new();
            leaf.entries(&image, |(key, value, _)| found.push((key, value)));
            prop_assert!(found.iter().copied().eq(keys.iter().map(|key| (*key, !*key))));
        }

        #[test]
        fn a_search_finds_the_child_whose_range_has_the_key(
            keys in proptest::collection::btree_set(prop_oneof![0u64..40, any::<u64>()], 1..=21),
            key in prop_oneof![0u64..40, any::<u64>(), Just(u64::MAX)],
        ) {
            let image = Image::new(1024, 0);
            let node = Inner::<21>(Addr::pm(64));
            let keys: Vec<u64> = keys.into_iter().collect();
            let children: Vec<Addr> = (0..=keys.len() as u64).map(Addr::pm).collect();
            put(&image, node.0, &Inner::<21>::image(1, &keys, &children));
            prop_assert_eq!(node.search(&image, key), keys.partition_point(|there| *there <= key));
            prop_assert_eq!(node.fault(&image, 1), None);
            prop_assert_eq!(node.content(&image), (keys.clone(), children.clone()));
            let node = Inner::<23>(Addr::pm(64));
            put(&image, node.0, &Inner::<23>::image(1, &keys, &children));
            prop_assert_eq!(node.search(&image, key), keys.partition_point(|there| *there <= key));
        }

        #[test]
        fn any_words_are_searched_within_the_node(
            words in proptest::collection::vec(any::<u64>(), 44), key: u64,
        ) {
            let image = Image::new(8 * 44, 0);
            put(&image, Addr::pm(0), &words);
            prop_assert!(Inner::<21>(Addr::pm(0)).search(&image, key) <= 21);
            let leaf = Leaf::<13>(Addr::pm(0));
            prop_assert!(leaf.find(&image, key).is_none_or(|slot| slot < 13));
            prop_assert!(leaf.free(&image).is_none_or(|slot| slot < 13));
            let mut entries = 0;
            leaf.entries(&image, |_| entries += 1);
            prop_assert!(entries <= 13 && leaf.count(&image) <= 16);
        }
    }

    #[test]
    fn a_fingerprint_is_never_a_mark() {
        let prints: Vec<u64> = (0..10_000).map(fingerprint).collect();
        assert!(prints.iter().all(|print| *print != FREE && *print != NO_SLOT && *print < 255));
    }
}
