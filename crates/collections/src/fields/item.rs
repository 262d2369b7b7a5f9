//! What a structure holds: bytes that mean the same wherever they are.

use seawall_runtime::typed::{Persist, derived};

/// A key or a value: any persistent value without pointers, `str`, or `[u8]`.
pub trait Item {
    /// What is given back.
    type Owned;
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
    fn encode(&self, bytes: &mut Vec<u8>);
    /// Bytes of a pool may be anything: every sequence is some value.
    #[doc(hidden)]
    fn decode(bytes: &[u8]) -> Self::Owned;
}

impl<T: for<'p> Persist<'p>> Item for T {
    type Owned = T;
    const NAME: u64 = <T as Persist<'static>>::NAME;
    const SHAPE: u64 = <T as Persist<'static>>::SHAPE;
    const IS_WORD: bool = <T as Persist<'static>>::SIZE <= 8;

    fn name_to(text: &mut String) {
        <T as Persist<'static>>::name_to(text);
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        derived::encode(*self, bytes);
    }

    fn decode(bytes: &[u8]) -> T {
        derived::decode(bytes)
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

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
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

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }

    fn decode(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

pub(super) fn bytes_of<T: Item + ?Sized>(item: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    item.encode(&mut bytes);
    bytes
}
