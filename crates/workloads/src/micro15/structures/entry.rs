//! Entries: 512 bytes, the size of table entries, tree nodes and queue entries in MICRO'15,
//! section 6 ("Efficient Persist Barriers for Multicores").
//!
//! The first words belong to the structure (pointers, key, tag); every other word is a function of
//! key, tag and its index, so that an entry torn or mixed by a crash is recognised by its own
//! bytes.

use crate::shared::Inconsistency;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 512;
/// Words of an entry.
pub const ENTRY_WORDS: u64 = ENTRY_BYTES / 8;
/// Words of a line; entries start at one.
const LINE_WORDS: u64 = LINE_BYTES / 8;

/// The payload word at index `word` of the entry with this key and tag.
#[inline]
pub fn payload(key: u64, tag: u64, word: u64) -> u64 {
    let mixed = key.rotate_left(32) ^ tag.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ word.wrapping_mul(0xff51_afd7_ed55_8ccd)) | 1
}

/// Writes the payload words from index `from` to the end of the entry at `at`.
#[track_caller]
pub fn fill<M: Memory>(memory: &M, at: Addr, from: u64, key: u64, tag: u64) {
    memory.work((ENTRY_WORDS - from) as u32);
    for word in from..ENTRY_WORDS {
        memory.store(at.plus(8 * word), payload(key, tag, word));
    }
}

/// Reads the whole entry at `at`, as a look-up does.
#[track_caller]
pub fn read<M: Memory>(memory: &M, at: Addr) -> [u8; ENTRY_BYTES as usize] {
    let mut entry = [0; ENTRY_BYTES as usize];
    memory.work(ENTRY_WORDS as u32);
    memory.read(at, &mut entry);
    entry
}

/// Checks the payload words from index `from` on.
///
/// # Errors
/// [`Inconsistency::Torn`] with the first word that is wrong.
pub fn check<M: Memory>(
    memory: &M,
    at: Addr,
    from: u64,
    key: u64,
    tag: u64,
) -> Result<(), Inconsistency> {
    let wrong = |word: u64, found: u64| found != payload(key, tag, word);
    let lines = from.next_multiple_of(LINE_WORDS);
    let before = (from..lines).find(|word| wrong(*word, memory.load(at.plus(8 * word))));
    let in_line = |first: u64| {
        let words = (first..).zip(memory.load_line(at.plus(8 * first)));
        words.into_iter().find(|(word, found)| wrong(*word, *found)).map(|(word, _)| word)
    };
    let first =
        before.or_else(|| (lines..ENTRY_WORDS).step_by(LINE_WORDS as usize).find_map(in_line));
    match first {
        None if tag != 0 => Ok(()),
        None => Err(Inconsistency::Torn { at, key, tag, word: 0 }),
        Some(word) => Err(Inconsistency::Torn { at, key, tag, word }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    proptest! {
        #[test]
        fn one_wrong_word_anywhere_is_found(
            key: u64, tag in 1u64.., word in 3u64..64, bits in 1u64..,
        ) {
            let image = Image::new(1024, 0);
            let at = Addr::pm(512);
            fill(&image, at, 3, key, tag);
            prop_assert_eq!(check(&image, at, 3, key, tag), Ok(()));
            let place = at.plus(8 * word);
            image.store(place, image.load::<u64>(place) ^ bits);
            let torn = Err(Inconsistency::Torn { at, key, tag, word });
            prop_assert_eq!(check(&image, at, 3, key, tag), torn);
        }
    }

    #[test]
    fn entries_of_different_operations_differ_in_every_word() {
        for word in 0..ENTRY_WORDS {
            assert_ne!(payload(1, 2, word), payload(1, 3, word));
            assert_ne!(payload(1, 2, word), 0);
        }
    }
}
