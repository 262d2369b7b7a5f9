//! Values whose bytes are a function of key and tag, so that a check detects torn ones.

use super::spread;
use crate::Damage;
use crate::harness::history::InWords;
use seawall_runtime::typed::{Bytes, Persist};

/// A value of `16 + N` bytes.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Value<const N: usize> {
    pub(crate) key: u64,
    pub(crate) tag: u64,
    rest: Bytes<N>,
}

/// A value of 128 bytes.
pub(crate) type Value128 = Value<112>;

impl<const N: usize> Value<N> {
    /// The value of `key` and `tag`.
    pub(crate) fn new(key: u64, tag: u64) -> Value<N> {
        Value::of_length(key, tag, N)
    }

    /// As [`new`](Value::new), with zeros behind `length` of the bytes that follow key and tag.
    pub(crate) fn of_length(key: u64, tag: u64, length: usize) -> Value<N> {
        let seed = spread(key ^ spread(tag));
        let mut rest = [0; N];
        for (at, word) in rest[..length.min(N)].chunks_mut(8).enumerate() {
            let bytes = seed.wrapping_mul(2 * at as u64 + 1).to_le_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        Value { key, tag, rest: Bytes(rest) }
    }

    /// Rejects a torn value.
    pub(crate) fn check(&self) -> Result<(), Damage> {
        self.check_length(N)
    }

    /// As [`check`](Value::check), for a value of this length.
    pub(crate) fn check_length(&self, length: usize) -> Result<(), Damage> {
        let Value { key, tag, rest } = *self;
        let whole = Value::<N>::of_length(key, tag, length);
        match (0..N).find(|at| rest.0[*at] != whole.rest.0[*at]) {
            _ if tag == 0 => Err(Damage(format!("a value of key {key} has no tag"))),
            None => Ok(()),
            Some(at) => Err(Damage(format!(
                "byte {} of the value of key {key}, {}, is torn",
                16 + at,
                InWords(tag)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_whole_until_a_byte_changes() {
        let whole = Value128::new(7, 9);
        assert_eq!(whole.check(), Ok(()));
        for at in 0..112 {
            let mut torn = whole;
            torn.rest.0[at] ^= 1;
            let message = torn.check().unwrap_err().to_string();
            assert!(message.contains(&format!("byte {} ", 16 + at)), "{message}");
        }
        assert!(Value128 { key: 8, ..whole }.check().is_err());
        assert!(Value128 { tag: 8, ..whole }.check().is_err());
    }

    #[test]
    fn a_shorter_value_ends_in_zeros() {
        let short = Value::<24>::of_length(7, 9, 11);
        assert_eq!(short.check_length(11), Ok(()));
        assert!(short.check().is_err());
        assert_eq!(short.rest.0[11..], [0; 13]);
    }
}
