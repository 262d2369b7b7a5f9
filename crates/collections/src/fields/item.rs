//! Keys and values of fields: values whose bytes mean the same at every address.

use seawall_runtime::typed::{Persist, derived};
use std::borrow::{Borrow, Cow};

/// A key or a value: any persistent value without pointers and collections, `str`, or `[u8]`.
///
/// Keys, values and elements are copied. A collection cannot be copied with the struct that it is
/// a field of, so a struct with one is refused when the program is built:
///
/// ```compile_fail
/// use seawall_collections::fields::{Map, Vector};
/// use seawall_runtime::typed::{self, Persist};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Author {
///     books: Map<str, u64>,
/// }
///
/// #[derive(Clone, Copy, Persist)]
/// struct Library {
///     authors: Vector<Author>,
/// }
///
/// typed::options::<Library>();
/// ```
pub trait Item {
    /// The type of a copy: `T` for persistent values, `String` for `str`, `Vec<u8>` for `[u8]`.
    type Owned: Borrow<Self>;
    #[doc(hidden)]
    const NAME: u64;
    #[doc(hidden)]
    const SHAPE: u64;
    /// It always fits a word.
    #[doc(hidden)]
    const IS_WORD: bool;
    #[doc(hidden)]
    fn name_to(text: &mut String);
    #[doc(hidden)]
    fn with_bytes<R>(&self, act: impl FnOnce(&[u8]) -> R) -> R;
    /// Bytes of a pool may be anything: every sequence is some value.
    #[doc(hidden)]
    fn decode(bytes: Cow<'_, [u8]>) -> Self::Owned;

    #[doc(hidden)]
    fn copied(&self) -> Self::Owned {
        self.with_bytes(|bytes| Self::decode(bytes.into()))
    }
}

impl<T: for<'p> Persist<'p>> Item for T {
    type Owned = T;
    const NAME: u64 = <T as Persist<'static>>::NAME;
    const SHAPE: u64 = {
        assert!(
            <T as Persist<'static>>::IS_VALUE,
            "a key, a value or an element contains a collection, of which a copy would be empty: \
             allocate the struct around it, and keep a `Ptr` to that in a struct"
        );
        <T as Persist<'static>>::SHAPE
    };
    const IS_WORD: bool = <T as Persist<'static>>::SIZE <= 8;

    fn name_to(text: &mut String) {
        <T as Persist<'static>>::name_to(text);
    }

    fn with_bytes<R>(&self, act: impl FnOnce(&[u8]) -> R) -> R {
        derived::with_bytes(*self, act)
    }

    fn decode(bytes: Cow<'_, [u8]>) -> T {
        derived::decode(&bytes)
    }
}

impl Item for str {
    type Owned = String;
    const NAME: u64 = derived::name("str", &[]);
    const SHAPE: u64 = Self::NAME;
    const IS_WORD: bool = false;

    fn name_to(text: &mut String) {
        text.push_str("str");
    }

    fn with_bytes<R>(&self, act: impl FnOnce(&[u8]) -> R) -> R {
        act(self.as_bytes())
    }

    fn decode(bytes: Cow<'_, [u8]>) -> String {
        String::from_utf8(bytes.into_owned())
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl Item for [u8] {
    type Owned = Vec<u8>;
    const NAME: u64 = derived::name("[u8]", &[]);
    const SHAPE: u64 = Self::NAME;
    const IS_WORD: bool = false;

    fn name_to(text: &mut String) {
        text.push_str("[u8]");
    }

    fn with_bytes<R>(&self, act: impl FnOnce(&[u8]) -> R) -> R {
        act(self)
    }

    fn decode(bytes: Cow<'_, [u8]>) -> Vec<u8> {
        bytes.into_owned()
    }
}
