//! Where a transaction's buffer holds a word: by search while they are few, by hashing later.

use rustc_hash::FxHashMap;
use seawall_memory::Addr;

/// Words up to which a search is faster than hashing.
const SEARCHED: usize = 24;

/// What the buffer holds of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All of it, at that place.
    Word(usize),
    /// Some of its bytes, at that place.
    Bytes(usize),
}

/// From the addresses of words to places in a buffer; what was put last is found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    addresses: Vec<u64>,
    places: Vec<Found>,
    hashed: FxHashMap<u64, usize>,
}

impl Index {
    pub(crate) fn clear(&mut self) {
        self.addresses.clear();
        self.places.clear();
        self.hashed.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    #[inline]
    pub(crate) fn find(&self, word: Addr) -> Option<Found> {
        let at = if self.hashed.is_empty() {
            self.addresses.iter().rposition(|address| *address == word.bits())?
        } else {
            *self.hashed.get(&word.bits())?
        };
        Some(self.places[at])
    }

    #[inline]
    pub(crate) fn put(&mut self, word: Addr, found: Found) {
        self.addresses.push(word.bits());
        self.places.push(found);
        if self.addresses.len() > SEARCHED {
            self.hash_from(if self.hashed.is_empty() { 0 } else { self.addresses.len() - 1 });
        }
    }

    fn hash_from(&mut self, first: usize) {
        for (at, address) in self.addresses.iter().enumerate().skip(first) {
            self.hashed.insert(*address, at);
        }
    }

    /// Forgets all but the first `len` that were put.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.addresses.truncate(len);
        self.places.truncate(len);
        self.hashed.clear();
        if self.addresses.len() > SEARCHED {
            self.hash_from(0);
        }
    }

    /// The words, in the order in which they were first put.
    pub(crate) fn words(&self) -> impl Iterator<Item = Addr> + '_ {
        self.addresses.iter().map(|address| Addr::from_bits(*address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn the_last_place_of_a_word_is_found(
            puts in proptest::collection::vec(0u64..40, 0..100), keep in 0usize..100,
        ) {
            let (mut index, mut model) = (Index::default(), HashMap::new());
            for (place, word) in puts.iter().enumerate() {
                index.put(Addr::pm(8 * word), Found::Word(place));
            }
            index.truncate(keep);
            for (place, word) in puts.iter().enumerate().take(keep) {
                model.insert(*word, place);
            }
            for word in 0..40 {
                let found = index.find(Addr::pm(8 * word));
                prop_assert_eq!(found, model.get(&word).map(|place| Found::Word(*place)));
            }
        }
    }
}
