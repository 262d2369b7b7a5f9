//! Checks of log records: a sum of 64 bits, and a veil over their numbers.
//!
//! A record is short, and a commit waits for its sum, so the sum is made of multiplications of
//! 64 bits to 128, two independent ones for each line, instead of a CRC of some hundred
//! instructions. The two halves of a product are joined by exclusive or (as in wyhash and its
//! relatives); what is multiplied is mixed with keys that come from the pool's UUID and the log's
//! address.
//!
//! Of torn records, and of records that a failing medium changed, 64 bits miss one in 2^64, where
//! the 32 bits of a CRC miss one in 2^32. A CRC always detects up to three flipped bits; this sum
//! misses them as rarely as anything else. It is no defence against an attacker who knows the UUID.
//!
//! The number of a record is evidence by itself where the record is not whole. So another word must
//! not look like a number by chance, nor an older number after a flipped bit: the number is
//! multiplied by an odd constant and combined with a key and the place.

use seawall_memory::Addr;

/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;

const SPREAD: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// The factor of numbers, and its inverse.
const VEIL: u64 = SPREAD[0];
const UNVEIL: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(VEIL.wrapping_mul(UNVEIL) == 1);

/// The product of both, its halves joined by exclusive or.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The keys of one log of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    sum: [u64; 2],
    veil: u64,
}

impl Keys {
    /// The keys of the log (or half of one) that starts at `log`.
    pub(crate) fn of(uuid: u128, log: Addr) -> Keys {
        let pool = fold(uuid as u64 ^ SPREAD[0], (uuid >> 64) as u64 ^ SPREAD[1]);
        let first = fold(pool ^ log.bits(), SPREAD[2]);
        let second = fold(first ^ SPREAD[0], SPREAD[3]);
        Keys { sum: [first, second], veil: fold(second ^ SPREAD[1], SPREAD[2]) }
    }

    /// Veils the number of a record at line `line` of the log.
    #[inline]
    pub(crate) fn veil(&self, number: u64, line: u64) -> u64 {
        number.wrapping_mul(VEIL) ^ self.veil_of(line)
    }

    /// Unveils the number.
    #[inline]
    pub(crate) fn unveil(&self, bits: u64, line: u64) -> u64 {
        (bits ^ self.veil_of(line)).wrapping_mul(UNVEIL)
    }

    #[inline]
    fn veil_of(&self, line: u64) -> u64 {
        self.veil ^ line.wrapping_mul(SPREAD[1])
    }

    /// The sum of a record's lines; word 0 of the first, which holds the sum, counts as zero.
    #[inline]
    pub(crate) fn sum(&self, lines: &[[[u8; 8]; LINE_WORDS]]) -> u64 {
        let [first, second] = self.sum;
        let (mut a, mut b) = (second, first);
        if let Some(line) = lines.first() {
            a ^= u64::from_le_bytes(line[0]);
        }
        for line in lines {
            let word = |place: usize| u64::from_le_bytes(line[place]);
            a = fold(a ^ word(0), first ^ word(1));
            b = fold(b ^ word(2), second ^ word(3));
            a = fold(a ^ word(4), first ^ word(5));
            b = fold(b ^ word(6), second ^ word(7));
        }
        fold(a ^ SPREAD[3], b ^ first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Lines = Vec<[[u8; 8]; LINE_WORDS]>;

    fn keys() -> Keys {
        Keys::of(7, Addr::pm(4096))
    }

    fn lines() -> impl Strategy<Value = Lines> {
        proptest::collection::vec(any::<[[u8; 8]; LINE_WORDS]>(), 1..6)
    }

    /// The bits of lines except word 0 of the first.
    fn bits(lines: &Lines) -> impl Iterator<Item = usize> + use<> {
        64..lines.len() * 512
    }

    fn flip(lines: &mut Lines, bit: usize) {
        lines[bit / 512][bit / 64 % 8][bit / 8 % 8] ^= 1 << (bit % 8);
    }

    proptest! {
        #[test]
        fn no_flipped_bit_and_no_two_leave_the_sum(mut lines in lines(), other: u64) {
            let sum = keys().sum(&lines);
            for bit in bits(&lines) {
                flip(&mut lines, bit);
                prop_assert_ne!(keys().sum(&lines), sum, "bit {}", bit);
                let second = 64 + other as usize % (lines.len() * 512 - 64);
                if second != bit {
                    flip(&mut lines, second);
                    prop_assert_ne!(keys().sum(&lines), sum, "bits {} and {}", bit, second);
                    flip(&mut lines, second);
                }
                flip(&mut lines, bit);
            }
        }

        #[test]
        fn words_that_are_old_change_the_sum(new in lines(), old in lines(), kept: u64) {
            let sum = keys().sum(&new);
            let mut torn = new.clone();
            for (place, word) in torn.iter_mut().flatten().enumerate().skip(1) {
                if kept >> (place % 64) & 1 == 0 {
                    *word = old[place / 8 % old.len()][place % 8];
                }
            }
            prop_assert_eq!(keys().sum(&torn) == sum, torn == new);
        }

        #[test]
        fn the_place_of_the_sum_does_not_count(mut lines in lines(), value: [u8; 8]) {
            let sum = keys().sum(&lines);
            lines[0][0] = value;
            prop_assert_eq!(keys().sum(&lines), sum);
        }
    }

    #[test]
    fn lines_of_zeros_have_another_sum_for_every_length_pool_and_log() {
        let mut sums = BTreeSet::new();
        for uuid in [0, 1, 1 << 64, u128::MAX] {
            for log in [256, 4096, 8192] {
                for lines in 1..20 {
                    let keys = Keys::of(uuid, Addr::pm(log));
                    assert!(sums.insert(keys.sum(&vec![[[0; 8]; LINE_WORDS]; lines])));
                }
            }
        }
    }

    #[test]
    fn a_number_is_unveiled_at_its_own_line_and_pool_only() {
        let words: BTreeSet<u64> = (0..10_000).map(|line| keys().veil(77, line)).collect();
        assert_eq!(words.len(), 10_000);
        assert!((0..10_000).all(|line| keys().unveil(keys().veil(77, line), line) == 77));
        assert_ne!(keys().veil(77, 0), Keys::of(8, Addr::pm(4096)).veil(77, 0));
    }

    #[test]
    fn two_flipped_bits_never_make_a_number_of_a_generation_near_by() {
        let (number, line) = (1_000_000 << 24 | 3, 9);
        let word = keys().veil(number, line);
        for first in 0..64 {
            for second in 0..64 {
                let flipped = word ^ 1 << first ^ if second == first { 0 } else { 1 << second };
                let generation = keys().unveil(flipped, line) >> 24;
                assert!(generation.abs_diff(1_000_000) > 1000, "bits {first} and {second}");
            }
        }
    }
}
