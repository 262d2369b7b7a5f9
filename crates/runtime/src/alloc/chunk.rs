//! The entry of a chunk, which says what the chunk holds, and the state byte of a block.
//!
//! An entry is a checked word: kind in the lowest 3 bits, type in the next 7, and the length in
//! chunks or the class above. An entry is valid only for the first chunk of what it describes:
//! walks over the table go from one to the next by their lengths.

use crate::AccessError;
use crate::alloc::size_class::Class;
use crate::heap::checked_word;
use crate::heap::layout::Layout;
use seawall_memory::{Addr, Memory, MemoryExt};

/// The type of objects that were allocated as bytes.
pub(crate) const UNTYPED: u8 = 127;

/// What starts at a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Nothing, in one chunk that was never used, or whose states are all zero.
    Clean,
    /// Nothing, in that many chunks, whose bytes are undefined.
    Run(u64),
    /// Blocks of a class.
    Small(Class),
    /// One object of that many chunks, and its type.
    Large(u64, u8),
    /// A shelf: objects that are placed together.
    Shelf,
}

impl Chunk {
    /// The number of chunks to the next entry.
    pub(crate) fn length(self) -> u64 {
        match self {
            Chunk::Clean | Chunk::Small(_) | Chunk::Shelf => 1,
            Chunk::Run(length) | Chunk::Large(length, _) => length,
        }
    }

    pub(crate) fn is_free(self) -> bool {
        matches!(self, Chunk::Clean | Chunk::Run(_))
    }

    /// Encodes the entry for the address `at`.
    pub(crate) fn encode(self, at: Addr) -> u64 {
        let (kind, tag, number) = match self {
            Chunk::Clean => (0, 0, 0),
            Chunk::Run(length) => (1, 0, length),
            Chunk::Small(class) => (2, 0, class.number() as u64),
            Chunk::Large(length, tag) => (3, tag, length),
            Chunk::Shelf => (4, 0, 0),
        };
        checked_word::encode(at, kind | u64::from(tag) << 3 | number << 10)
    }

    /// Decodes the word found at `at`.
    pub(crate) fn decode(at: Addr, bits: u64) -> Result<Chunk, AccessError> {
        let damaged = || AccessError::Damaged {
            what: format!("the chunk entry at {at} ({bits:#018x}) does not add up"),
        };
        let value = checked_word::decode(at, bits).map_err(|_| damaged())?;
        let (tag, number) = ((value >> 3 & 0x7f) as u8, value >> 10);
        match value & 7 {
            0 if value == 0 => Ok(Chunk::Clean),
            1 if number > 0 => Ok(Chunk::Run(number)),
            2 => Class::new(number).map(Chunk::Small).ok_or_else(damaged),
            3 if number > 0 && tag > 0 => Ok(Chunk::Large(number, tag)),
            4 if value == 4 => Ok(Chunk::Shelf),
            _ => Err(damaged()),
        }
    }
}

/// Loads the entry of chunk `chunk`.
pub(crate) fn load<M: Memory>(
    memory: &M,
    layout: &Layout,
    chunk: u64,
) -> Result<Chunk, AccessError> {
    let at = layout.chunk_entry(chunk);
    Chunk::decode(at, memory.load(at))
}

/// Loads the entry of chunk `chunk`, which must not reach beyond `count` chunks.
pub(crate) fn load_within<M: Memory>(
    memory: &M,
    layout: &Layout,
    chunk: u64,
    count: u64,
) -> Result<Chunk, AccessError> {
    let entry = load(memory, layout, chunk)?;
    check_end(chunk, entry, count)?;
    Ok(entry)
}

/// Refuses an entry of chunk `chunk` that reaches beyond the `count` chunks of a heap.
pub(crate) fn check_end(chunk: u64, entry: Chunk, count: u64) -> Result<(), AccessError> {
    if chunk + entry.length() <= count {
        return Ok(());
    }
    let what = format!("chunk {chunk} says that it goes on beyond the heap's end");
    Err(AccessError::Damaged { what })
}

/// The error of a state that [`is_state`] refuses.
pub(crate) fn no_state(at: Addr, state: u8) -> AccessError {
    let what = format!("the state of the block at {at} ({state:#04x}) is none");
    AccessError::Damaged { what }
}

/// The state of a block that holds an object of type `tag`, or nothing (0). The top bit makes the
/// number of set bits even, so that one flipped bit is detected.
pub(crate) fn state(tag: u8) -> u8 {
    tag | (tag.count_ones() as u8 & 1) << 7
}

/// The type in a state; `None` if the block is free.
pub(crate) fn tag(state: u8) -> Option<u8> {
    (state & 0x7f != 0).then_some(state & 0x7f)
}

/// Whether [`state`] can return that state.
pub(crate) fn is_state(byte: u8) -> bool {
    byte.count_ones().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_back_and_flips_are_damage(
            kind in 0u8..5, number in 1u64..1 << 20, tag in 1u8..128, bit in 0u32..64,
        ) {
            let at = Addr::pm(4096);
            let class = Class::new(number % Class::COUNT as u64).expect("a class");
            let (run, large) = (Chunk::Run(number), Chunk::Large(number, tag));
            let entries = [Chunk::Clean, run, Chunk::Small(class), large, Chunk::Shelf];
            let entry = entries[kind as usize];
            let bits = entry.encode(at);
            prop_assert_eq!(Chunk::decode(at, bits), Ok(entry));
            prop_assert!(Chunk::decode(at, bits ^ 1 << bit).is_err());
        }

        #[test]
        fn states_come_back_and_one_flipped_bit_is_noticed(kind in 0u8..128, bit in 0u32..8) {
            prop_assert_eq!(tag(state(kind)), (kind > 0).then_some(kind));
            prop_assert!(is_state(state(kind)) && !is_state(state(kind) ^ 1 << bit));
        }
    }
}
