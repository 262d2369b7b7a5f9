//! Words that check themselves: 40 bits of value and 24 of checksum in one store.
//!
//! A few words of a pool change in place during its whole life: the last truncated generation, the
//! number of chunks, the entry of each chunk. A crash cannot tear an aligned word, but a failing
//! medium can flip its bits, so each carries the low 24 bits of a CRC-32C over its value and its
//! address. A zero word has the value 0, since a fresh pool is all zeros.

use seawall_memory::{Addr, Memory, MemoryExt};

/// Bits of the value.
pub(crate) const VALUE_BITS: u32 = 40;
/// The first value that does not fit.
pub(crate) const LIMIT: u64 = 1 << VALUE_BITS;

/// A word whose checksum is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flipped {
    pub(crate) at: Addr,
    pub(crate) bits: u64,
}

/// Returns the bits to store at `at` for `value`.
pub(crate) fn encode(at: Addr, value: u64) -> u64 {
    debug_assert!(value < LIMIT, "{value} does not fit a checked word");
    if value == 0 { 0 } else { value | sum(at, value) << VALUE_BITS }
}

/// Returns the value of `bits`, found at `at`.
pub(crate) fn decode(at: Addr, bits: u64) -> Result<u64, Flipped> {
    let value = bits & (LIMIT - 1);
    if encode(at, value) == bits { Ok(value) } else { Err(Flipped { at, bits }) }
}

/// Loads and checks the word at `at`.
pub(crate) fn load<M: Memory>(memory: &M, at: Addr) -> Result<u64, Flipped> {
    decode(at, memory.load(at))
}

/// Returns the value of the word at `at` without a check: for words that were checked before.
pub(crate) fn claimed<M: Memory>(memory: &M, at: Addr) -> u64 {
    memory.load::<u64>(at) & (LIMIT - 1)
}

/// The low 24 bits of the CRC-32C of the address and the value, 8 bytes each. It is linear but for
/// the sum of zeros, so each byte adds what a table says: a transaction computes it more than once,
/// and that takes a quarter of the instructions of a function for any number of bytes.
#[inline]
fn sum(at: Addr, value: u64) -> u64 {
    let bytes = at.bits().to_le_bytes().into_iter().chain(value.to_le_bytes());
    let sum = bytes.zip(&TABLES).fold(OF_ZEROS, |sum, (byte, table)| sum ^ table[byte as usize]);
    u64::from(sum & 0xff_ffff)
}

/// Bytes that are summed up, and those of them that can be other than zero.
const SUMMED: usize = 16;
const BYTES: usize = 8 + VALUE_BITS as usize / 8;

/// What each byte adds to the sum, by its place.
static TABLES: [[u32; 256]; BYTES] = {
    let (mut tables, mut place) = ([[0; 256]; BYTES], 0);
    while place < BYTES {
        let mut byte = 0;
        while byte < 256 {
            tables[place][byte] = behind(byte as u32, SUMMED - place);
            byte += 1;
        }
        place += 1;
    }
    tables
};
const OF_ZEROS: u32 = !behind(!0, SUMMED);

/// The remainder of a CRC-32C (bits reflected) behind so many zero bytes.
const fn behind(mut crc: u32, bytes: usize) -> u32 {
    let mut bit = 0;
    while bit < 8 * bytes {
        crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_comes_back_and_a_flipped_bit_does_not(
            value in 0..LIMIT, at in 0u64..1 << 40, bit in 0u32..64,
        ) {
            let at = Addr::pm(8 * at);
            let bits = encode(at, value);
            prop_assert_eq!(decode(at, bits), Ok(value));
            prop_assert!(decode(at, bits ^ 1 << bit).is_err());
        }

        #[test]
        fn the_sum_is_that_of_the_bytes_of_both(value in 0..LIMIT, at: u64) {
            let bytes = [at.to_le_bytes(), value.to_le_bytes()].concat();
            let whole = u64::from(crc32c::crc32c(&bytes));
            prop_assert_eq!(sum(Addr::from_bits(at), value), whole & 0xff_ffff);
        }

        #[test]
        fn a_word_that_strayed_to_another_place_is_noticed(value in 1..LIMIT, at in 0u64..1 << 30) {
            let bits = encode(Addr::pm(8 * at), value);
            prop_assert!(decode(Addr::pm(8 * at + 8), bits).is_err());
        }
    }

    #[test]
    fn a_fresh_pool_holds_zero() {
        assert_eq!(decode(Addr::pm(64), 0), Ok(0));
    }
}
