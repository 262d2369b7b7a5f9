//! Size classes of the allocator: the sizes of blocks, and their number in a chunk.
//!
//! Pool space is allocated in chunks of 64 KiB. A chunk of small blocks starts with a byte of state
//! for each block, in 2 KiB for every class, so that a chunk whose blocks are all free is ready for
//! any class. Four sizes per doubling keep the loss by rounding under a fifth; the largest classes
//! divide a chunk evenly instead. Blocks whose size is a multiple of a line start at lines.

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// Bytes of a chunk's states, at its start.
pub(crate) const STATE_BYTES: u64 = 2 << 10;
const ROOM: u64 = CHUNK_BYTES - STATE_BYTES;

/// Bytes of the blocks of each class.
pub(crate) const SIZES: [u64; 38] = [
    32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6336, 7040, 7936, 9024, 10560, 12672,
    15872, 21120, 31744, 63488,
];

/// 2 to the power of 32 divided by each size, rounded up: a product finds the block of a byte,
/// where a division would take the processor ten times as long.
const RECIPROCALS: [u64; SIZES.len()] = {
    let (mut reciprocals, mut class) = ([0; SIZES.len()], 0);
    while class < SIZES.len() {
        reciprocals[class] = (1u64 << 32).div_ceil(SIZES[class]);
        class += 1;
    }
    reciprocals
};

/// The maximum bytes of an object in a block; larger ones take whole chunks.
pub const BLOCK_BYTES_MAX: u64 = SIZES[SIZES.len() - 1];

/// The bytes of the block that an object of so many bytes gets.
pub fn block_bytes(bytes: u64) -> u64 {
    Class::of(bytes.max(1), false).map_or(bytes.next_multiple_of(CHUNK_BYTES), Class::bytes)
}

/// A size class, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class(u8);

impl Class {
    pub(crate) const COUNT: usize = SIZES.len();

    /// The class of that number.
    pub(crate) fn new(number: u64) -> Option<Class> {
        (number < SIZES.len() as u64).then_some(Class(number as u8))
    }

    pub(crate) fn all() -> impl Iterator<Item = Class> {
        (0..SIZES.len() as u8).map(Class)
    }

    /// The smallest class whose blocks hold `bytes`, and start at lines if `lines`.
    pub(crate) fn of(bytes: u64, lines: bool) -> Option<Class> {
        let first = SIZES.partition_point(|size| *size < bytes);
        let fits = |class: &usize| !lines || SIZES[*class].is_multiple_of(64);
        (first..SIZES.len()).find(fits).map(|class| Class(class as u8))
    }

    /// This class and the larger ones, whose blocks start at lines if `lines`.
    pub(crate) fn and_larger(self, lines: bool) -> impl Iterator<Item = Class> {
        let classes = (self.0..SIZES.len() as u8).map(Class);
        classes.filter(move |class| !lines || class.bytes().is_multiple_of(64))
    }

    pub(crate) const fn number(self) -> usize {
        self.0 as usize
    }

    /// Bytes of a block.
    pub(crate) const fn bytes(self) -> u64 {
        SIZES[self.0 as usize]
    }

    /// Blocks in a chunk.
    #[inline]
    pub(crate) const fn blocks(self) -> u64 {
        self.block_of(ROOM)
    }

    /// The block of a chunk that holds byte `into` behind the states; `into` is less than the bytes
    /// of a chunk.
    #[inline]
    pub(crate) const fn block_of(self, into: u64) -> u64 {
        (into * RECIPROCALS[self.0 as usize]) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_class_fits_its_states_and_wastes_little() {
        for number in 0..Class::COUNT {
            let class = Class::new(number as u64).expect("a class");
            assert!(class.blocks() >= 1 && class.blocks() <= STATE_BYTES, "{class:?}");
            let used = class.blocks() * class.bytes();
            assert!(used * 10 >= ROOM * 9, "{} bytes of {ROOM} in {class:?}", used);
        }
        assert!(SIZES.is_sorted());
    }

    #[test]
    fn every_byte_of_a_chunk_is_in_the_block_that_a_division_finds() {
        for class in (0..Class::COUNT as u64).filter_map(Class::new) {
            for into in 0..CHUNK_BYTES {
                assert_eq!(class.block_of(into), into / class.bytes(), "byte {into} of {class:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_block_holds_what_was_asked_for_and_not_much_more(bytes in 1..=BLOCK_BYTES_MAX) {
            let class = Class::of(bytes, false).expect("a small size");
            prop_assert!(class.bytes() >= bytes);
            prop_assert!(!(32..=15872).contains(&bytes) || class.bytes() * 4 <= bytes * 5 + 128);
            let lines = Class::of(bytes, true).expect("a small size");
            prop_assert!(lines >= class && lines.bytes().is_multiple_of(64));
        }
    }

    #[test]
    fn what_is_too_large_for_a_block_has_no_class() {
        assert_eq!(Class::of(BLOCK_BYTES_MAX + 1, false), None);
        assert_eq!(Class::new(Class::COUNT as u64), None);
    }
}
