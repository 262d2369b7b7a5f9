//! Values that can live in a pool: plain bytes with the same meaning in every process.
//!
//! A persistent value is read and written as a copy, word by word through the seam; there are no
//! references into a pool. Every bit pattern is some value of every persistent type, so bytes that
//! a crash or a failing disk leaves cannot cause undefined behaviour.
//!
//! Volatile pointers, `usize`, `Vec` and `String` are not [`Persist`], so nothing that holds one
//! can be stored: that is an error at compile time. `#[derive(Persist)]` makes structs of
//! persistent fields persistent; see [`typed`](crate::typed).

use pointers::Pointers;
use seawall_memory::{Addr, Width, Word};

pub(crate) mod pointers;
pub(crate) mod shape;

mod sealed {
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// A source of values. All implementations are in the library.
pub trait Source: Sealed {
    /// Loads the aligned word at `at`.
    fn load<W: Word>(&self, at: Addr) -> W;

    /// Reads `into.len()` bytes from `at`.
    fn read(&self, at: Addr, into: &mut [u8]);

    /// Loads the pointer at `at`.
    fn pointer(&self, at: Addr) -> u64 {
        self.load(at)
    }
}

/// A sink of values, which are stored field after field at rising addresses. All implementations
/// are in the library; they keep the first error.
pub trait Sink: Sealed {
    /// Stores an aligned word at `at`.
    fn store<W: Word>(&mut self, at: Addr, value: W);

    /// Writes `from` at `at`.
    fn write(&mut self, at: Addr, from: &[u8]);

    /// Stores a pointer at `at`.
    fn pointer(&mut self, at: Addr, bits: u64) {
        self.store(at, bits);
    }

    /// Skips `bytes` bytes at `at`, which keep their values; those of a new object become zero.
    /// Both are multiples of 8.
    fn keep(&mut self, at: Addr, bytes: u64) {
        let _ = (at, bytes);
    }
}

/// A value that can live in the pool of brand `'p`: a number, a [`Ptr`](crate::typed::Ptr) of that
/// pool, an array of such values, or a struct of them that derives `Persist`.
///
/// Every bit pattern must load as some value: pools are not trusted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in a persistent pool",
    label = "not persistent, or not of this pool",
    note = "volatile pointers (`&T`, `Box`, `Vec`, `String`) mean nothing after a restart: use \
            `Ptr<'p, T>`, `Option<Ptr<'p, T>>`, arrays or `Bytes<N>`",
    note = "numbers have their width in their name (`u64`, not `usize`); structs of persistent \
            fields get `#[derive(Clone, Copy, Persist)]`"
)]
pub trait Persist<'p>: Copy {
    /// Its bytes in a pool, a multiple of `ALIGN`.
    const SIZE: u64;
    /// Its alignment: 1, 2, 4, 8, or 64 (a cache line).
    const ALIGN: u64;
    /// A hash of its name.
    const NAME: u64;
    /// A hash of its name and of the names and shapes of its fields; never 0. Another layout has
    /// another shape. Types that pointers lead to count by name only; the root of a heap has
    /// another hash, of all types that it leads to.
    const SHAPE: u64;

    /// Whether a copy of its bytes is a copy of it. False for a collection, whose entries are
    /// objects of their own, and for what contains one.
    #[doc(hidden)]
    const IS_VALUE: bool = true;

    /// Appends its name in Rust, without brands.
    #[doc(hidden)]
    fn name_to(text: &mut String);

    /// Appends the names of its fields, each with the name of its type; nothing if it has none.
    #[doc(hidden)]
    fn fields_to(_: &mut String) {}

    /// Reports its pointers, from first to last, for a value at that offset in an object; nothing
    /// if it has none.
    #[doc(hidden)]
    fn pointers_to(_: &mut Pointers, _: u64) {}

    #[doc(hidden)]
    fn load<S: Source>(from: &S, at: Addr) -> Self;

    #[doc(hidden)]
    fn store<S: Sink>(self, to: &mut S, at: Addr);
}

macro_rules! words {
    ($($Type:ident: $Word:ident, $of:expr, $to:expr;)*) => { $(
        impl<'p> Persist<'p> for $Type {
            const SIZE: u64 = <$Word as Word>::WIDTH.bytes();
            const ALIGN: u64 = Self::SIZE;
            const NAME: u64 = shape::name(stringify!($Type), &[]);
            const SHAPE: u64 = Self::NAME;

            fn name_to(text: &mut String) {
                text.push_str(stringify!($Type));
            }

            #[inline]
            fn load<S: Source>(from: &S, at: Addr) -> Self {
                let of: fn($Word) -> $Type = $of;
                of(from.load(at))
            }

            #[inline]
            fn store<S: Sink>(self, to: &mut S, at: Addr) {
                let to_word: fn($Type) -> $Word = $to;
                to.store(at, to_word(self));
            }
        }
    )* };
}
words! {
    u8: u8, |word| word, |value| value;
    u16: u16, |word| word, |value| value;
    u32: u32, |word| word, |value| value;
    u64: u64, |word| word, |value| value;
    i8: u8, |word| word as i8, |value| value as u8;
    i16: u16, |word| word as i16, |value| value as u16;
    i32: u32, |word| word as i32, |value| value as u32;
    i64: u64, |word| word as i64, |value| value as u64;
    f32: u32, f32::from_bits, f32::to_bits;
    f64: u64, f64::from_bits, f64::to_bits;
    bool: u8, |word| word != 0, u8::from;
}

impl<'p, T: Persist<'p>, const N: usize> Persist<'p> for [T; N] {
    const SIZE: u64 = T::SIZE * N as u64;
    const ALIGN: u64 = T::ALIGN;
    const NAME: u64 = shape::name("array", &[T::NAME, N as u64]);
    const SHAPE: u64 = shape::name("array", &[T::SHAPE, N as u64]);
    const IS_VALUE: bool = T::IS_VALUE;

    fn name_to(text: &mut String) {
        text.push('[');
        T::name_to(text);
        text.push_str(&format!("; {N}]"));
    }

    fn pointers_to(found: &mut Pointers, offset: u64) {
        for place in 0..N as u64 {
            T::pointers_to(found, offset + place * T::SIZE);
        }
    }

    #[inline]
    fn load<S: Source>(from: &S, at: Addr) -> Self {
        std::array::from_fn(|place| T::load(from, at.plus(place as u64 * T::SIZE)))
    }

    #[inline]
    fn store<S: Sink>(self, to: &mut S, at: Addr) {
        for (place, value) in (0..).zip(self) {
            value.store(to, at.plus(place * T::SIZE));
        }
    }
}

/// `N` bytes that are copied as a whole, at any address: names, keys, digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes<const N: usize>(pub [u8; N]);

impl<const N: usize> Bytes<N> {
    /// Returns `from`, padded with zeros; `None` if it is longer than `N`.
    pub fn padded(from: &[u8]) -> Option<Bytes<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Bytes(bytes))
    }
}

impl<'p, const N: usize> Persist<'p> for Bytes<N> {
    const SIZE: u64 = N as u64;
    const ALIGN: u64 = 1;
    const NAME: u64 = shape::name("Bytes", &[N as u64]);
    const SHAPE: u64 = Self::NAME;

    fn name_to(text: &mut String) {
        text.push_str(&format!("Bytes<{N}>"));
    }

    #[inline]
    fn load<S: Source>(from: &S, at: Addr) -> Self {
        let mut bytes = [0; N];
        from.read(at, &mut bytes);
        Bytes(bytes)
    }

    #[inline]
    fn store<S: Sink>(self, to: &mut S, at: Addr) {
        to.write(at, &self.0);
    }
}

/// A persistent type with its brand left open, so that it can be named before there is a pool, as
/// the type of a pool's root. Derived together with [`Persist`].
pub trait Branded {
    /// The type in the pool of brand `'p`.
    type In<'p>: Persist<'p>;
}

macro_rules! unbranded {
    ($($Type:ty),*) => { $(
        impl Branded for $Type {
            type In<'p> = $Type;
        }
    )* };
}
unbranded! { u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, bool }

impl<T: Branded, const N: usize> Branded for [T; N] {
    type In<'p> = [T::In<'p>; N];
}

impl<const N: usize> Branded for Bytes<N> {
    type In<'p> = Bytes<N>;
}

/// The maximum bytes of a value that is encoded on the stack; larger ones are encoded in a `Vec`.
const STACK_BYTES: usize = 64;

/// Calls `act` with the bytes of `value` in a pool.
pub fn with_bytes<'p, T: Persist<'p>, R>(value: T, act: impl FnOnce(&[u8]) -> R) -> R {
    let mut short = [0; STACK_BYTES];
    if let Some(bytes) = short.get_mut(..T::SIZE as usize) {
        value.store(&mut Buffer(&mut *bytes), Addr::NULL);
        return act(bytes);
    }
    let mut buffer = Buffer(vec![0; T::SIZE as usize]);
    value.store(&mut buffer, Addr::NULL);
    act(&buffer.0)
}

/// Decodes a value from bytes; missing ones are zero.
pub fn decode<'p, T: Persist<'p>>(bytes: &[u8]) -> T {
    if bytes.len() as u64 >= T::SIZE {
        return T::load(&Buffer(bytes), Addr::NULL);
    }
    let mut buffer = Buffer(bytes.to_vec());
    buffer.0.resize(T::SIZE as usize, 0);
    T::load(&buffer, Addr::NULL)
}

/// Bytes in this process as a source and a sink; the first one has address 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buffer<B = Vec<u8>>(pub(crate) B);

#[cfg(test)]
impl Buffer {
    /// The bytes of `value` in a pool; padding between its fields is zero.
    pub(crate) fn of<'p, T: Persist<'p>>(value: T) -> Buffer {
        with_bytes(value, |bytes| Buffer(bytes.to_vec()))
    }
}

impl<B> Sealed for Buffer<B> {}

impl<B: AsMut<[u8]>> Sink for Buffer<B> {
    fn store<W: Word>(&mut self, at: Addr, value: W) {
        self.write(at, &value.to_bits().to_le_bytes()[..width::<W>()]);
    }

    fn write(&mut self, at: Addr, from: &[u8]) {
        let start = at.offset() as usize;
        self.0.as_mut()[start..start + from.len()].copy_from_slice(from);
    }
}

impl<B: AsRef<[u8]>> Source for Buffer<B> {
    fn load<W: Word>(&self, at: Addr) -> W {
        let mut bits = [0; 8];
        self.read(at, &mut bits[..width::<W>()]);
        W::from_bits(u64::from_le_bytes(bits))
    }

    fn read(&self, at: Addr, into: &mut [u8]) {
        let start = at.offset() as usize;
        into.copy_from_slice(&self.0.as_ref()[start..start + into.len()]);
    }
}

const fn width<W: Word>() -> usize {
    Width::bytes(W::WIDTH) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn back<T: for<'p> Persist<'p>>(value: T) -> T {
        T::load(&Buffer::of(value), Addr::NULL)
    }

    proptest! {
        #[test]
        fn numbers_come_back(a: u8, b: u16, c: u32, d: u64, e: bool) {
            prop_assert_eq!((back(a), back(b), back(c), back(d), back(e)), (a, b, c, d, e));
        }

        #[test]
        fn numbers_with_a_sign_come_back(a: i8, b: i16, c: i32, d: i64) {
            prop_assert_eq!((back(a), back(b), back(c), back(d)), (a, b, c, d));
        }

        #[test]
        fn floats_come_back_bit_by_bit(a: u32, b: u64) {
            prop_assert_eq!(back(f32::from_bits(a)).to_bits(), a);
            prop_assert_eq!(back(f64::from_bits(b)).to_bits(), b);
        }

        #[test]
        fn arrays_and_bytes_come_back(a: [i16; 5], b: [[u64; 2]; 3], c: [u8; 13]) {
            prop_assert_eq!((back(a), back(b), back(Bytes(c))), (a, b, Bytes(c)));
        }

        #[test]
        fn any_byte_is_a_bool(byte: u8) {
            prop_assert_eq!(bool::load(&Buffer(vec![byte]), Addr::NULL), byte != 0);
        }
    }

    #[test]
    fn bytes_are_padded_or_refused() {
        assert_eq!(Bytes::<4>::padded(b"abc"), Some(Bytes(*b"abc\0")));
        assert_eq!(Bytes::<2>::padded(b"abc"), None);
    }
}
