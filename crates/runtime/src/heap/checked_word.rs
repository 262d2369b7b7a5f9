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

/// The low bits of the CRC-32C of address and value. A commit that logs old values waits for it, so
/// it is looked up: a CRC is the exclusive or of what each byte adds to that of zeros.
#[inline]
fn sum(at: Addr, value: u64) -> u64 {
    let adds = |words: &[[u32; 256]], value: u64| {
        let bytes = words.iter().zip(value.to_le_bytes());
        bytes.fold(0, |sum, (adds, byte)| sum ^ adds[usize::from(byte)])
    };
    let (of_at, of_value) = ADDS.split_at(8);
    u64::from(OF_ZEROS ^ adds(of_at, at.bits()) ^ adds(&of_value[..VALUE_BYTES], value)) & 0xff_ffff
}

const VALUE_BYTES: usize = VALUE_BITS as usize / 8;
/// What a byte of that value adds at each of 16 places.
static ADDS: [[u32; 256]; 16] = adds();
/// The CRC-32C of 16 zeros.
const OF_ZEROS: u32 = {
    let mut sum = !0;
    let mut bit = 0;
    while bit < 128 {
        sum = shifted(sum);
        bit += 1;
    }
    !sum
};

/// A sum after a bit that is zero.
const fn shifted(sum: u32) -> u32 {
    (sum >> 1) ^ (0x82f6_3b78 * (sum & 1))
}

const fn adds() -> [[u32; 256]; 16] {
    let mut adds = [[0; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        let (mut place, mut sum) = (16, byte as u32);
        while place > 0 {
            place -= 1;
            let mut bit = 0;
            while bit < 8 {
                sum = shifted(sum);
                bit += 1;
            }
            adds[place][byte] = sum;
        }
        byte += 1;
    }
    adds
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
        fn a_word_that_strayed_to_another_place_is_noticed(value in 1..LIMIT, at in 0u64..1 << 30) {
            let bits = encode(Addr::pm(8 * at), value);
            prop_assert!(decode(Addr::pm(8 * at + 8), bits).is_err());
        }
    }

    #[test]
    fn the_sum_is_that_of_crc32c() {
        for at in (0..1 << 20).step_by(8 * 977).map(Addr::pm) {
            for value in [1, 0xff, 0x1234_5678, LIMIT - 1, at.bits() * 1_000_003 % LIMIT] {
                let bytes = [at.bits().to_le_bytes(), value.to_le_bytes()].concat();
                assert_eq!(sum(at, value), u64::from(crc32c::crc32c(&bytes)) & 0xff_ffff);
            }
        }
    }

    #[test]
    fn a_fresh_pool_holds_zero() {
        assert_eq!(decode(Addr::pm(64), 0), Ok(0));
    }
}
