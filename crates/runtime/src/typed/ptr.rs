//! Pointers that carry their pool and their type.
//!
//! A [`Ptr`] is an offset, so it means the same at every mapping and after every restart. Its
//! lifetime `'p` is used as a **brand**: each open pool has its own, which equals no
//! other (it is invariant, and the closure that gets the pool must work for every `'p`). A pointer
//! of one pool can therefore not be stored or followed in another, and none outlives the closure.

use crate::persist::pointers::Pointers;
use crate::persist::{Persist, Sink, Source, shape};
use seawall_memory::Addr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

/// An invariant lifetime.
pub(crate) type Brand<'p> = PhantomData<fn(&'p ()) -> &'p ()>;

/// A pointer to a `T` in the pool of brand `'p`: 8 bytes. `Option<Ptr>` is 8 bytes too, and zeros
/// are `None`.
///
/// A `Ptr` that is loaded from zeros leads nowhere: following it is the error
/// [`NoData`](crate::AccessError::NoData).
pub struct Ptr<'p, T> {
    bits: NonZeroU64,
    brand: Brand<'p>,
    target: PhantomData<fn() -> T>,
}

/// The offset of a pointer that leads nowhere: in the pool's header, where no object is.
const NOWHERE: NonZeroU64 = NonZeroU64::MIN;

impl<'p, T> Ptr<'p, T> {
    #[inline]
    pub(crate) fn new(at: Addr) -> Ptr<'p, T> {
        Ptr::from_bits(at.bits()).unwrap_or(Ptr::of(NOWHERE))
    }

    #[inline]
    fn of(bits: NonZeroU64) -> Ptr<'p, T> {
        Ptr { bits, brand: PhantomData, target: PhantomData }
    }

    #[inline]
    fn from_bits(bits: u64) -> Option<Ptr<'p, T>> {
        NonZeroU64::new(bits).map(Ptr::of)
    }

    /// The address. An address cannot be turned back into a pointer.
    #[inline]
    pub fn addr(self) -> Addr {
        Addr::from_bits(self.bits.get())
    }

    /// A pointer to a field: `node.at(Node::NEXT)`.
    #[inline]
    #[must_use]
    pub fn at<U>(self, field: Field<T, U>) -> Ptr<'p, U> {
        Ptr::of(self.bits.saturating_add(field.offset))
    }
}

impl<'p, T: Persist<'p>, const N: usize> Ptr<'p, [T; N]> {
    /// A pointer to the element at `place` of the array.
    ///
    /// # Panics
    /// When the array is shorter.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn index(self, place: usize) -> Ptr<'p, T> {
        assert!(place < N, "element {place} of an array of {N}");
        Ptr::of(self.bits.saturating_add(place as u64 * T::SIZE))
    }
}

impl<T> Clone for Ptr<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<'_, T> {}

impl<T> PartialEq for Ptr<'_, T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<T> Eq for Ptr<'_, T> {}

impl<T> Hash for Ptr<'_, T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.bits.hash(hasher);
    }
}

impl<T> fmt::Debug for Ptr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptr({})", self.addr())
    }
}

impl<'p, T: Persist<'p>> Persist<'p> for Ptr<'p, T> {
    const SIZE: u64 = 8;
    const ALIGN: u64 = 8;
    const NAME: u64 = shape::name("Ptr", &[T::NAME]);
    const SHAPE: u64 = Self::NAME;

    fn name_to(text: &mut String) {
        text.push_str("Ptr<");
        T::name_to(text);
        text.push('>');
    }

    fn pointers_to(found: &mut Pointers, offset: u64) {
        found.add::<T>(offset);
    }

    #[inline]
    fn load<S: Source>(from: &S, at: Addr) -> Self {
        Ptr::new(Addr::from_bits(from.pointer(at)))
    }

    #[inline]
    fn store<S: Sink>(self, to: &mut S, at: Addr) {
        to.pointer(at, self.bits.get());
    }
}

impl<'p, T: Persist<'p>> Persist<'p> for Option<Ptr<'p, T>> {
    const SIZE: u64 = 8;
    const ALIGN: u64 = 8;
    const NAME: u64 = shape::name("Option<Ptr>", &[T::NAME]);
    const SHAPE: u64 = Self::NAME;

    fn name_to(text: &mut String) {
        text.push_str("Option<Ptr<");
        T::name_to(text);
        text.push_str(">>");
    }

    fn pointers_to(found: &mut Pointers, offset: u64) {
        found.add::<T>(offset);
    }

    #[inline]
    fn load<S: Source>(from: &S, at: Addr) -> Self {
        Ptr::from_bits(from.pointer(at))
    }

    #[inline]
    fn store<S: Sink>(self, to: &mut S, at: Addr) {
        to.pointer(at, self.map_or(0, |ptr| ptr.bits.get()));
    }
}

/// The place of a field of type `T` in a struct `S`. `#[derive(Persist)]` makes one for each field,
/// with the field's name in capitals.
pub struct Field<S, T> {
    offset: u64,
    parts: PhantomData<fn(S) -> T>,
}

impl<S, T> Field<S, T> {
    #[doc(hidden)]
    pub const fn derived(offset: u64) -> Field<S, T> {
        Field { offset, parts: PhantomData }
    }

    /// Bytes from the start of the struct.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.offset
    }
}

impl<S, T> Clone for Field<S, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, T> Copy for Field<S, T> {}

impl<S, T> fmt::Debug for Field<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::Buffer;

    #[test]
    fn a_pointer_and_perhaps_a_pointer_are_one_word() {
        assert_eq!(size_of::<Ptr<'_, u64>>(), 8);
        assert_eq!(size_of::<Option<Ptr<'_, u64>>>(), 8);
    }

    #[test]
    fn zeros_are_no_pointer_and_a_pointer_comes_back() {
        let zeros = Buffer(vec![0; 8]);
        assert_eq!(Option::<Ptr<'_, u8>>::load(&zeros, Addr::NULL), None);
        assert_eq!(Ptr::<'_, u8>::load(&zeros, Addr::NULL).addr(), Addr::pm(1));
        let some = Some(Ptr::<'_, u8>::new(Addr::pm(4096)));
        assert_eq!(Option::load(&Buffer::of(some), Addr::NULL), some);
        assert_eq!(Buffer::of(None::<Ptr<'_, u8>>), zeros);
    }

    #[test]
    fn elements_and_fields_are_where_they_should_be() {
        let array: Ptr<'_, [u32; 4]> = Ptr::new(Addr::pm(4096));
        assert_eq!(array.index(3).addr(), Addr::pm(4096 + 12));
        let field: Field<u64, u16> = Field::derived(6);
        assert_eq!(Ptr::<'_, u64>::new(Addr::pm(64)).at(field).addr(), Addr::pm(70));
    }

    #[test]
    #[should_panic(expected = "element 4 of an array of 4")]
    fn an_element_behind_the_end_is_refused() {
        let _ = Ptr::<'_, [u32; 4]>::new(Addr::pm(4096)).index(4);
    }
}
