//! Words of an image, and accesses of a recovery, in few bytes: there are thousands of them in each
//! question and answer, and most are of the next address, or by the same instruction.
//!
//! A number takes 7 bits a byte, the lowest first.

use super::wire::{Access, Did};
use seawall_memory::{Addr, Fence, Width};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Bytes that there is room for at first: to copy them as they become more costs new pages.
const USUAL: usize = 8 << 10;

const READ: u8 = 0;
const WROTE: u8 = 1;
const WROTE_BITS: u8 = 2;
const STREAMED: u8 = 3;
const LOCKED: u8 = 4;
const LOCKED_ELSEWHERE: u8 = 5;
const FLUSHED: u8 = 6;
const FENCED: u8 = 7;
const KINDS: u8 = 0xf;
/// An access by the instruction of the one before.
const SAME_SITE: u8 = 0x80;

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const FENCES: [Fence; 4] = [Fence::Order, Fence::Drain, Fence::Strand, Fence::Join];

/// Numbers, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Packed(Vec<u8>);

/// Accesses, as they are made.
#[derive(Debug)]
pub(crate) struct PackedAccesses {
    packed: Packed,
    site: u64,
    count: usize,
}

impl Packed {
    /// These words.
    pub(crate) fn of_words(words: &[(Addr, u64)]) -> Packed {
        let mut packed = Packed(Vec::with_capacity(4 * words.len()));
        let mut next = 0;
        for (at, value) in words {
            packed.put(at.bits().wrapping_sub(next));
            packed.put(*value);
            next = at.bits().wrapping_add(8);
        }
        packed
    }

    /// The words again; `None` if they are none.
    pub(crate) fn words(&self) -> Option<Vec<(Addr, u64)>> {
        let mut rest = &self.0[..];
        let mut words = Vec::with_capacity(rest.len() / 2);
        let mut next = 0u64;
        while !rest.is_empty() {
            let at = next.wrapping_add(get(&mut rest)?);
            words.push((Addr::from_bits(at), get(&mut rest)?));
            next = at.wrapping_add(8);
        }
        Some(words)
    }

    /// The accesses again; `None` if they are none.
    pub(crate) fn accesses(&self) -> Option<Vec<Access>> {
        let mut rest = &self.0[..];
        let mut accesses = Vec::with_capacity(rest.len() / 4);
        let mut site = 0;
        while let Some((head, after)) = rest.split_first() {
            rest = after;
            if head & SAME_SITE == 0 {
                site = get(&mut rest)?;
            }
            accesses.push(Access { site, did: get_did(*head & !SAME_SITE, &mut rest)? });
        }
        Some(accesses)
    }

    #[inline]
    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn put_address(&mut self, at: Addr, numbers: &[u64]) {
        self.put(at.bits().rotate_left(1));
        numbers.iter().for_each(|number| self.put(*number));
    }
}

#[inline]
fn get(from: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn get_address(from: &mut &[u8]) -> Option<Addr> {
    Some(Addr::from_bits(get(from)?.rotate_right(1)))
}

fn get_did(head: u8, from: &mut &[u8]) -> Option<Did> {
    let width = || WIDTHS.get(usize::from(head >> 4)).copied();
    Some(match head & KINDS {
        READ => Did::Read(get_address(from)?, width()?, get(from)?),
        WROTE => Did::Wrote(get_address(from)?, width()?, get(from)?),
        WROTE_BITS => Did::WroteBits(get_address(from)?, get(from)?, get(from)?),
        STREAMED => {
            let (at, bytes) = (get_address(from)?, get(from)?);
            Did::Streamed(at, u8::try_from(bytes).ok()?, get(from)?)
        }
        LOCKED => Did::Locked(get_address(from)?, get(from)?),
        LOCKED_ELSEWHERE => Did::LockedElsewhere,
        FLUSHED => Did::Flushed(get_address(from)?),
        FENCED => Did::Fenced(*FENCES.get(usize::try_from(get(from)?).ok()?)?),
        _ => return None,
    })
}

impl PackedAccesses {
    pub(crate) fn new() -> PackedAccesses {
        PackedAccesses { packed: Packed(Vec::with_capacity(USUAL)), site: 0, count: 0 }
    }

    /// Adds one; returns how many there are.
    pub(crate) fn push(&mut self, access: Access) -> usize {
        let is_same = self.count > 0 && access.site == self.site;
        let head = kind_of(access.did) | if is_same { SAME_SITE } else { 0 };
        self.packed.0.push(head);
        if !is_same {
            self.packed.put(access.site);
        }
        let packed = &mut self.packed;
        match access.did {
            Did::Read(at, _, value) | Did::Wrote(at, _, value) | Did::Locked(at, value) => {
                packed.put_address(at, &[value]);
            }
            Did::WroteBits(at, mask, value) => packed.put_address(at, &[mask, value]),
            Did::Streamed(at, bytes, value) => packed.put_address(at, &[bytes.into(), value]),
            Did::LockedElsewhere => {}
            Did::Flushed(at) => packed.put_address(at, &[]),
            Did::Fenced(fence) => {
                let number = FENCES.iter().position(|known| *known == fence);
                packed.put(number.expect("there are no other fences") as u64);
            }
        }
        self.site = access.site;
        self.count += 1;
        self.count
    }

    /// All so far.
    pub(crate) fn take(&mut self) -> Packed {
        self.count = 0;
        std::mem::take(&mut self.packed)
    }
}

fn kind_of(did: Did) -> u8 {
    let with = |width: Width| (width.bytes().trailing_zeros() as u8) << 4;
    match did {
        Did::Read(_, width, _) => READ | with(width),
        Did::Wrote(_, width, _) => WROTE | with(width),
        Did::WroteBits(..) => WROTE_BITS,
        Did::Streamed(..) => STREAMED,
        Did::Locked(..) => LOCKED,
        Did::LockedElsewhere => LOCKED_ELSEWHERE,
        Did::Flushed(_) => FLUSHED,
        Did::Fenced(_) => FENCED,
    }
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Packed, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Packed;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Packed, E> {
                Ok(Packed(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were() {
        let words = [
            (Addr::pm(64), 0),
            (Addr::pm(72), u64::MAX),
            (Addr::pm(0), 127),
            (Addr::dram(8), 128),
            (Addr::from_bits(u64::MAX - 7), 1 << 63),
        ];
        assert_eq!(Packed::of_words(&words).words().unwrap(), words);
        assert_eq!(Packed(vec![0x80; 11]).words(), None);
    }

    #[test]
    fn accesses_come_back_as_they_were() {
        let at = Addr::pm(4104);
        let done = [
            Did::Read(at, Width::B2, 0xffff),
            Did::Wrote(Addr::dram(16), Width::B8, u64::MAX),
            Did::WroteBits(at, 0xff00, 0x1200),
            Did::Streamed(at, 5, 77),
            Did::Locked(at, 9),
            Did::LockedElsewhere,
            Did::Flushed(at),
            Did::Fenced(Fence::Join),
            Did::Fenced(Fence::Order),
        ];
        let mut packed = PackedAccesses::new();
        let sites = [0, 0, 7, 7, 7, u64::MAX, 1, 1, 2];
        let accesses: Vec<Access> =
            sites.into_iter().zip(done).map(|(site, did)| Access { site, did }).collect();
        for (number, access) in accesses.iter().enumerate() {
            assert_eq!(packed.push(*access), number + 1);
        }
        assert_eq!(packed.take().accesses().unwrap(), accesses);
        assert_eq!(Packed(vec![KINDS]).accesses(), None);
    }
}
