//! The values that one access moves: 1, 2, 4 or 8 bytes, never torn when aligned.

use crate::Addr;

/// The number of bytes that one access moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Width {
    /// One byte.
    B1 = 1,
    /// Two bytes.
    B2 = 2,
    /// Four bytes.
    B4 = 4,
    /// Eight bytes.
    B8 = 8,
}

impl Width {
    /// The width in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self as u64
    }

    /// The value with all bits of this width set.
    #[inline]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self as u32)
    }
}

/// A value that a single access can move.
pub trait Word: Copy {
    /// The width of the value.
    const WIDTH: Width;
    /// The value of the low bits of `bits`.
    fn from_bits(bits: u64) -> Self;
    /// The value, zero-extended.
    fn to_bits(self) -> u64;
}

macro_rules! words {
    ($($Type:ty: $width:ident),*) => { $(
        impl Word for $Type {
            const WIDTH: Width = Width::$width;
            #[inline]
            fn from_bits(bits: u64) -> Self { bits as $Type }
            #[inline]
            fn to_bits(self) -> u64 { u64::from(self) }
        }
    )* };
}
words! { u8: B1, u16: B2, u32: B4, u64: B8 }

impl Word for Addr {
    const WIDTH: Width = Width::B8;
    #[inline]
    fn from_bits(bits: u64) -> Self {
        Addr::from_bits(bits)
    }
    #[inline]
    fn to_bits(self) -> u64 {
        self.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_as_wide_as_its_width() {
        assert_eq!(Width::B1.mask(), 0xff);
        assert_eq!(Width::B8.mask(), u64::MAX);
    }
}
