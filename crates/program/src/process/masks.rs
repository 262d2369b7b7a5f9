//! Accesses of the elements that a mask selects, as the page tells them.

use seawall_cc::abi::PACKED;

/// What a masked access touches: from its first selected byte to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// The bytes among them, from the lowest bit on.
    pub(crate) mask: u64,
}

/// The bytes of an access at `at` with a [length](seawall_cc::abi::masked_length), of which `bits`
/// selects elements. `None` if it touches nothing.
pub(crate) fn selected(at: u64, length: u16, bits: u64) -> Option<Selected> {
    let (bytes, element) = (u64::from(length & 0xff), u64::from((length & !PACKED) >> 8));
    let elements = bytes / element;
    let bits = bits & u64::MAX >> (64 - elements);
    let bits = match length & PACKED {
        0 => bits,
        _ => u64::MAX.checked_shr(64 - bits.count_ones()).unwrap_or(0),
    };
    let one = (1u64 << element) - 1;
    let chosen = (0..elements).filter(|n| bits >> n & 1 == 1);
    let mask = chosen.fold(0, |mask, n| mask | one << (n * element));
    if mask == 0 {
        return None;
    }
    let first = u64::from(mask.trailing_zeros());
    let mask = mask >> first;
    Some(Selected { at: at + first, bytes: u64::from(64 - mask.leading_zeros()), mask })
}

/// The bits of a word that belong to the bytes that `bits` selects.
pub(crate) fn bits_of_bytes(bits: u64) -> u64 {
    let chosen = (0..8).filter(|n| bits >> n & 1 == 1);
    chosen.fold(0, |mask, n| mask | 0xff << (8 * n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_cc::abi::masked_length;

    #[test]
    fn a_mask_selects_elements() {
        let found = |bytes, element, bits| selected(1000, masked_length(bytes, element), bits);
        let is = |at, bytes, mask| Some(Selected { at, bytes, mask });
        assert_eq!(found(16, 1, 0b1001_0000), is(1004, 4, 0b1001));
        assert_eq!(found(64, 8, 0b10), is(1008, 8, 0xff));
        assert_eq!(found(32, 4, 0b101), is(1000, 12, 0xf0f));
        assert_eq!(found(64, 1, u64::MAX), is(1000, 64, u64::MAX));
        assert_eq!(found(16, 4, 0xf0), None, "there are no such elements");
        let packed = masked_length(64, 4) | PACKED;
        assert_eq!(selected(1000, packed, 0b1010_0000), is(1000, 8, 0xff));
        assert_eq!(selected(1000, packed, 0), None);
    }

    #[test]
    fn bytes_are_eight_bits() {
        assert_eq!(bits_of_bytes(0b1000_0001), 0xff00_0000_0000_00ff);
        assert_eq!(bits_of_bytes(0), 0);
    }
}
