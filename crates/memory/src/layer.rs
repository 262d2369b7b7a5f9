//! Wrappers: a memory around another one, which changes some methods of the seam and forwards all
//! others.
//!
//! The seam is declared once, in `seam.rs`, as the input of the macro here. From that declaration
//! the macro writes [`Memory`](crate::Memory), the forwarding methods of [`Layer`], the
//! implementation of `Memory` for every layer, and that for [`Either`]. A method that is added to
//! the declaration is therefore forwarded by all wrappers; none can leave it out.

pub use crate::seam::Layer;

/// One of two memories, chosen at run time.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    /// The first one.
    Left(A),
    /// The second one.
    Right(B),
}

/// Writes the traits of the seam and their implementations from one declaration. Methods of `every
/// machine` have no default; those of `word by word` default to the function of the same name in
/// `ranges`; `doors` default to `None`.
macro_rules! seam {
    (
        $(#[$memory:meta])*
        pub trait Memory;

        every machine { $(
            $(#[$attr:meta])*
            fn $name:ident(&$this:ident $(, $arg:ident: $type:ty)*) $(-> $returns:ty)?;
        )* }

        word by word { $(
            $(#[$words_attr:meta])*
            fn $words:ident(&$words_this:ident $(, $words_arg:ident: $words_type:ty)*)
                $(-> $words_returns:ty)?;
        )* }

        doors { $(
            $(#[$door_attr:meta])*
            fn $door:ident(&$door_this:ident) -> Option<impl $Unit:ident>;
        )* }
    ) => {
        $(#[$memory])*
        pub trait Memory: Sized {
            $(
                $(#[$attr])*
                fn $name(&$this $(, $arg: $type)*) $(-> $returns)?;
            )*
            $(
                $(#[$words_attr])*
                #[inline]
                #[track_caller]
                fn $words(&$words_this $(, $words_arg: $words_type)*) $(-> $words_returns)? {
                    ranges::$words($words_this $(, $words_arg)*)
                }
            )*
            $(
                $(#[$door_attr])*
                #[inline]
                fn $door(&$door_this) -> Option<impl $Unit> {
                    None::<Absent>
                }
            )*
        }

        /// A memory around another one. Implements what it changes; every other method of
        /// [`Memory`], which each layer implements, goes to the memory [below](Layer::below).
        ///
        /// Write `impl layer::Layer for ..` and do not import the trait: its methods have the names
        /// of those of `Memory`.
        ///
        /// ```
        /// use seawall_memory::{Addr, Image, Memory, MemoryExt, layer};
        /// use std::cell::Cell;
        ///
        /// /// Counts flushes.
        /// struct Counting<'a> {
        ///     image: &'a Image,
        ///     flushes: Cell<u64>,
        /// }
        ///
        /// impl layer::Layer for Counting<'_> {
        ///     type Below = Image;
        ///
        ///     fn below(&self) -> &Image {
        ///         self.image
        ///     }
        ///
        ///     fn flush(&self, at: Addr, len: u64) {
        ///         self.flushes.set(self.flushes.get() + 1);
        ///         self.image.flush(at, len);
        ///     }
        /// }
        ///
        /// let image = Image::new(64, 0);
        /// let memory = Counting { image: &image, flushes: Cell::new(0) };
        /// memory.store(Addr::pm(8), 7u64);
        /// memory.persist(Addr::pm(8), 8);
        /// assert_eq!((image.load::<u64>(Addr::pm(8)), memory.flushes.get()), (7, 1));
        /// ```
        pub trait Layer: Sized {
            /// The memory below.
            type Below: Memory;

            /// Whether ranges are read and written word by word, by this layer's `load_bits`,
            /// `store_bits` and `flush`. True for a layer that must see each word; otherwise ranges
            /// go to the memory below in one piece. The units behind doors work on the memory below
            /// in both cases: a layer that must see what they read and write implements the door.
            const WORD_BY_WORD: bool = false;

            /// The memory that methods are forwarded to.
            fn below(&self) -> &Self::Below;

            $(
                #[doc = concat!("See [`Memory::", stringify!($name), "`].")]
                #[inline]
                #[track_caller]
                fn $name(&$this $(, $arg: $type)*) $(-> $returns)? {
                    Memory::$name($this.below() $(, $arg)*)
                }
            )*
            $(
                #[doc = concat!("See [`Memory::", stringify!($words), "`].")]
                #[inline]
                #[track_caller]
                fn $words(&$words_this $(, $words_arg: $words_type)*) $(-> $words_returns)? {
                    if Self::WORD_BY_WORD {
                        ranges::$words($words_this $(, $words_arg)*)
                    } else {
                        Memory::$words($words_this.below() $(, $words_arg)*)
                    }
                }
            )*
            $(
                #[doc = concat!("See [`Memory::", stringify!($door), "`].")]
                #[inline]
                fn $door(&$door_this) -> Option<impl $Unit> {
                    Memory::$door($door_this.below())
                }
            )*
        }

        impl<L: Layer> Memory for L {
            $(
                #[inline]
                #[track_caller]
                fn $name(&$this $(, $arg: $type)*) $(-> $returns)? {
                    Layer::$name($this $(, $arg)*)
                }
            )*
            $(
                #[inline]
                #[track_caller]
                fn $words(&$words_this $(, $words_arg: $words_type)*) $(-> $words_returns)? {
                    Layer::$words($words_this $(, $words_arg)*)
                }
            )*
            $(
                #[inline]
                fn $door(&$door_this) -> Option<impl $Unit> {
                    Layer::$door($door_this)
                }
            )*
        }

        impl<A: Memory, B: Memory> Memory for Either<A, B> {
            $(
                #[inline]
                #[track_caller]
                fn $name(&$this $(, $arg: $type)*) $(-> $returns)? {
                    match $this {
                        Either::Left(memory) => memory.$name($($arg),*),
                        Either::Right(memory) => memory.$name($($arg),*),
                    }
                }
            )*
            $(
                #[inline]
                #[track_caller]
                fn $words(&$words_this $(, $words_arg: $words_type)*) $(-> $words_returns)? {
                    match $words_this {
                        Either::Left(memory) => memory.$words($($words_arg),*),
                        Either::Right(memory) => memory.$words($($words_arg),*),
                    }
                }
            )*
            $(
                #[inline]
                fn $door(&$door_this) -> Option<impl $Unit> {
                    match $door_this {
                        Either::Left(memory) => memory.$door().map(Either::Left),
                        Either::Right(memory) => memory.$door().map(Either::Right),
                    }
                }
            )*
        }

        /// The methods of the seam, as declared.
        #[cfg(test)]
        pub(crate) const METHODS: &[&str] = &[
            $(stringify!($name),)*
            $(stringify!($words),)*
            $(stringify!($door),)*
        ];
    };
}
pub(crate) use seam;

/// A reference is the memory that it leads to.
impl<M: crate::Memory> Layer for &M {
    type Below = M;

    #[inline]
    fn below(&self) -> &M {
        self
    }
}

#[cfg(test)]
mod tests;
