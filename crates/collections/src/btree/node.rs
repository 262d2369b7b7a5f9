//! What the nodes of the tree look like.
//!
//! A leaf is a small hash table whose buckets are lines, as in CCEH (Nam, Cha, Choi, Noh, Nam,
//! FAST'19): a key goes to the first line with a free slot from its home line on. So a search reads
//! one line, nearly always, an insert dirties one, and what it writes (a slot and the line's word 0)
//! is with the log's framing one line too. The order of a leaf's keys is made up when it is asked for,
//! or split.
//!
//! | word of a line | content |
//! |---|---|
//! | 0 | bits 0..3: slots that are used; bit 3: keys may have gone past this line to the next |
//! | 1..7 | three slots: key, value |
//! | 7 | of line 0: what kind of node this is |
//!
//! Bit 3 is set with the last slot of a line, so that no insert need write to a line that it passes,
//! and cleared when a slot is freed and nothing is behind it.
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

use seawall_memory::{Addr, LINE_BYTES, Memory};

const LEAF_KIND: u64 = u64::from_le_bytes(*b"btreleaf");
const INNER_KIND: u64 = 0x696e_6e72 << 32;
const LEVEL_SHIFT: u32 = 16;
const COUNT_MASK: u64 = 0xffff;
/// The most lines of a leaf.
pub(super) const LINES_MAX: usize = 16;
/// Slots of a line.
pub(super) const LINE_SLOTS: usize = 3;
/// The most slots of a leaf.
pub(super) const SLOTS_MAX: usize = LINES_MAX * LINE_SLOTS;
const USED: u64 = 0b111;
const PASSED: u64 = 0b1000;

/// A leaf of `LINES` lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<const LINES: usize>(pub(super) Addr);

/// An entry of a leaf: its key, its value, its slot.
pub(super) type Entry = (u64, u64, usize);

/// What a leaf's line 0 has in its word 7, and that word.
pub(super) const LEAF_MARK: (u64, u64) = (56, LEAF_KIND);

impl<const LINES: usize> Leaf<LINES> {
    pub(super) const BYTES: u64 = LINE_BYTES * LINES as u64;
    pub(super) const SLOTS: usize = LINE_SLOTS * LINES;

    /// The line where a search for `key` starts.
    #[inline]
    const fn home(key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * LINES as u64) >> 32) as usize
    }

    #[inline]
    const fn after(line: usize) -> usize {
        if line + 1 == LINES { 0 } else { line + 1 }
    }

    /// Word 0 of a line.
    #[inline]
    pub(super) const fn state_at(self, line: usize) -> Addr {
        self.0.plus(LINE_BYTES * line as u64)
    }

    #[inline]
    fn state<M: Memory>(self, memory: &M, line: usize) -> u64 {
        memory.load(self.state_at(line))
    }

    /// Where the key of `slot` is; its value follows.
    #[inline]
    pub(super) const fn slot(self, slot: usize) -> Addr {
        self.state_at(slot / LINE_SLOTS).plus(8 + 16 * (slot % LINE_SLOTS) as u64)
    }

    /// The slot of `key`.
    #[inline]
    pub(super) fn find<M: Memory>(self, memory: &M, key: u64) -> Option<usize> {
        let mut line = Self::home(key);
        for _ in 0..LINES {
            let state = self.state(memory, line);
            let first = LINE_SLOTS * line;
            let is_there = |slot| memory.load::<u64>(self.slot(first + slot)) == key;
            let hits =
                (0..LINE_SLOTS).fold(0, |hits, slot| hits | u64::from(is_there(slot)) << slot);
            let hits = hits & state & USED;
            if hits != 0 {
                return Some(first + hits.trailing_zeros() as usize);
            }
            if state & PASSED == 0 {
                return None;
            }
            line = Self::after(line);
        }
        None
    }

    /// The free slot that is `key`'s.
    #[inline]
    pub(super) fn free<M: Memory>(self, memory: &M, key: u64) -> Option<usize> {
        let mut line = Self::home(key);
        for _ in 0..LINES {
            let free = !self.state(memory, line) & USED;
            if free != 0 {
                return Some(LINE_SLOTS * line + free.trailing_zeros() as usize);
            }
            line = Self::after(line);
        }
        None
    }

    /// Word 0 of the line of `slot` once that is used.
    #[inline]
    pub(super) fn with<M: Memory>(self, memory: &M, slot: usize) -> u64 {
        let state = self.state(memory, slot / LINE_SLOTS) | 1 << (slot % LINE_SLOTS);
        if state & USED == USED { state | PASSED } else { state }
    }

    /// Word 0 of the line of `slot` once that is free.
    pub(super) fn without<M: Memory>(self, memory: &M, slot: usize) -> u64 {
        let line = slot / LINE_SLOTS;
        let state = self.state(memory, line) & !(1 << (slot % LINE_SLOTS));
        if state & PASSED == 0 || self.is_passed(memory, line) { state } else { state & !PASSED }
    }

    /// True if the search for a key that is there passes the line.
    fn is_passed<M: Memory>(self, memory: &M, line: usize) -> bool {
        let mut behind = line;
        for distance in 1..LINES {
            behind = Self::after(behind);
            let state = self.state(memory, behind);
            let passes = |slot: usize| {
                let key: u64 = memory.load(self.slot(LINE_SLOTS * behind + slot));
                state >> slot & 1 == 1 && Self::steps(key, behind) >= distance
            };
            if (0..LINE_SLOTS).any(passes) {
                return true;
            }
            if state & PASSED == 0 {
                return false;
            }
        }
        false
    }

    /// Lines between the home of `key` and `line`.
    const fn steps(key: u64, line: usize) -> usize {
        (line + LINES - Self::home(key)) % LINES
    }

    /// Slots that are used.
    pub(super) fn count<M: Memory>(self, memory: &M) -> usize {
        let used = |line| (self.state(memory, line) & USED).count_ones() as usize;
        (0..LINES).map(used).sum()
    }

    /// Shows every entry to `each`, in the order of the slots.
    #[inline]
    pub(super) fn entries<M: Memory>(self, memory: &M, mut each: impl FnMut(Entry)) {
        for line in 0..LINES {
            let state = self.state(memory, line);
            for slot in (0..LINE_SLOTS).filter(|slot| state >> slot & 1 == 1) {
                let slot = LINE_SLOTS * line + slot;
                let at = self.slot(slot);
                each((memory.load(at), memory.load(at.plus(8)), slot));
            }
        }
    }

    /// Puts entries into an empty leaf, in memory: where each goes, and word 0 of each line.
    pub(super) fn placed(entries: &[Entry]) -> (Vec<Entry>, Vec<u64>) {
        let mut used = [0; LINES];
        let mut placed = Vec::with_capacity(entries.len());
        for (key, value, _) in entries.iter().take(Self::SLOTS) {
            let mut line = Self::home(*key);
            while used[line] == LINE_SLOTS {
                line = Self::after(line);
            }
            placed.push((*key, *value, LINE_SLOTS * line + used[line]));
            used[line] += 1;
        }
        placed.sort_unstable_by_key(|(.., slot)| *slot);
        let states = Self::states(&placed);
        (placed, states)
    }

    /// Word 0 of each line of a leaf that has these entries.
    pub(super) fn states(entries: &[Entry]) -> Vec<u64> {
        let mut states = vec![0; LINES];
        for (key, _, slot) in entries {
            let line = slot / LINE_SLOTS;
            states[line] |= 1 << (slot % LINE_SLOTS);
            let mut passed = Self::home(*key);
            while passed != line {
                states[passed] |= PASSED;
                passed = Self::after(passed);
            }
        }
        let full = |state: u64| if state & USED == USED { state | PASSED } else { state };
        states.into_iter().map(full).collect()
    }

    /// What is wrong with the node as a leaf, apart from where its keys belong in the tree.
    pub(super) fn fault<M: Memory>(self, memory: &M) -> Option<&'static str> {
        if memory.load::<u64>(self.0.plus(LEAF_MARK.0)) != LEAF_MARK.1 {
            return Some("does not say that it is a leaf");
        }
        let mut entries = Vec::new();
        self.entries(memory, |entry| entries.push(entry));
        for (line, least) in Self::states(&entries).into_iter().enumerate() {
            let state = self.state(memory, line);
            if state & !PASSED != least & !PASSED || least & !state != 0 {
                return Some("has a line that does not say which keys went past it");
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
    pub(super) fn count<M: Memory>(self, memory: &M) -> usize {
        ((memory.load::<u64>(self.0) & COUNT_MASK) as usize).min(KEYS)
    }

    /// The number of the child that has `key`: of the first key of each line, how many are no
    /// greater; then of the keys in that line.
    #[inline]
    pub(super) fn search<M: Memory>(self, memory: &M, key: u64) -> usize {
        let no_greater = |word: usize| {
            let there: u64 = memory.load(self.0.plus(8 * word as u64));
            usize::from(there <= key)
        };
        let lines: usize = (1..=KEYS / 8).map(|line| no_greater(8 * line)).sum();
        let first = (8 * lines).max(1);
        let end = (8 * lines + 8).min(KEYS + 1);
        let rest: usize = (first..end).map(no_greater).sum();
        (first - 1 + rest).min(self.count(memory))
    }

    #[inline]
    pub(super) fn key<M: Memory>(self, memory: &M, index: usize) -> u64 {
        memory.load(self.key_at(index))
    }

    #[inline]
    pub(super) fn child<M: Memory>(self, memory: &M, index: usize) -> Addr {
        memory.load(self.child_at(index))
    }

    /// Its keys and children.
    pub(super) fn content<M: Memory>(self, memory: &M) -> (Vec<u64>, Vec<Addr>) {
        let count = self.count(memory);
        let keys = (0..count).map(|index| self.key(memory, index)).collect();
        let children = (0..=count).map(|index| self.child(memory, index)).collect();
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
    pub(super) fn fault<M: Memory>(self, memory: &M, level: u64) -> Option<&'static str> {
        let head: u64 = memory.load(self.0);
        let count = (head & COUNT_MASK) as usize;
        if head & !COUNT_MASK != Self::head(level, 0) {
            return Some("does not say that it is an inner node of its level");
        }
        if count > KEYS {
            return Some("has more keys than there is room for");
        }
        let is_padded = (count..KEYS).all(|index| self.key(memory, index) == u64::MAX);
        (!is_padded).then_some("has something behind its last key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn put(image: &Image, at: Addr, words: &[u64]) {
        for (word, value) in (0..).zip(words) {
            image.store(at.plus(8 * word), *value);
        }
    }

    proptest! {
        #[test]
        fn a_leaf_finds_what_it_holds_whatever_came_and_went(
            steps in proptest::collection::vec((any::<bool>(), 0u64..20), 0..80),
        ) {
            let image = Image::new(1024, 0);
            let leaf = Leaf::<4>(Addr::pm(64));
            image.store(leaf.0.plus(LEAF_MARK.0), LEAF_MARK.1);
            let mut model = std::collections::BTreeMap::new();
            for (step, (inserts, key)) in (0u64..).zip(steps) {
                match leaf.find(&image, key) {
                    Some(slot) if !inserts => {
                        image.store(leaf.state_at(slot / LINE_SLOTS), leaf.without(&image, slot));
                        model.remove(&key);
                    }
                    None if inserts => match leaf.free(&image, key) {
                        None => prop_assert_eq!(model.len(), 12),
                        Some(slot) => {
                            image.store(leaf.slot(slot), key);
                            image.store(leaf.slot(slot).plus(8), step);
                            image.store(leaf.state_at(slot / LINE_SLOTS), leaf.with(&image, slot));
                            model.insert(key, step);
                        }
                    },
                    _ => {}
                }
                prop_assert_eq!(leaf.fault(&image), None);
                prop_assert_eq!(leaf.count(&image), model.len());
                for key in 0..20 {
                    let value = leaf.find(&image, key).map(|slot| image.load(leaf.slot(slot).plus(8)));
                    prop_assert_eq!(value, model.get(&key).copied());
                }
            }
        }

        #[test]
        fn entries_that_are_placed_in_memory_are_found(
            keys in proptest::collection::btree_set(any::<u64>(), 0..=12),
        ) {
            let image = Image::new(1024, 0);
            let leaf = Leaf::<4>(Addr::pm(64));
            let entries: Vec<Entry> = keys.iter().map(|key| (*key, !*key, 0)).collect();
            let (placed, states) = Leaf::<4>::placed(&entries);
            for (key, value, slot) in placed {
                put(&image, leaf.slot(slot), &[key, value]);
            }
            for (line, state) in states.into_iter().enumerate() {
                image.store(leaf.state_at(line), state);
            }
            for key in keys {
                let slot = leaf.find(&image, key).expect("it was placed");
                prop_assert_eq!(image.load::<u64>(leaf.slot(slot).plus(8)), !key);
            }
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
            prop_assert_eq!(node.content(&image), (keys, children));
        }

        #[test]
        fn any_words_are_searched_within_the_node(
            words in proptest::collection::vec(any::<u64>(), 44), key: u64,
        ) {
            let image = Image::new(8 * 44, 0);
            put(&image, Addr::pm(0), &words);
            prop_assert!(Inner::<21>(Addr::pm(0)).search(&image, key) <= 21);
            let leaf = Leaf::<5>(Addr::pm(0));
            prop_assert!(leaf.find(&image, key).is_none_or(|slot| slot < 15));
            prop_assert!(leaf.free(&image, key).is_none_or(|slot| slot < 15));
            let mut entries = 0;
            leaf.entries(&image, |_| entries += 1);
            prop_assert!(entries <= 15 && leaf.count(&image) == entries);
            let _ = (leaf.fault(&image), leaf.without(&image, 7));
        }
    }
}
