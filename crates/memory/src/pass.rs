//! What a handle around another leaves to it: each method's call is written here, once.

/// Inside an `impl Memory` of a type around another memory: the methods that go straight to the one
/// below, which is in a field. Methods of the trait that are not named keep their default. For an
/// enum the names of its kinds stand instead of the field's, in brackets: each has a memory below.
///
/// ```
/// use seawall_memory::{Addr, Image, Memory, Width, pass};
/// use std::cell::Cell;
///
/// /// Counts flushes.
/// struct Counting<'a> {
///     memory: &'a Image,
///     flushes: Cell<u64>,
/// }
///
/// impl Memory for Counting<'_> {
///     pass!(memory: thread, seats, load_bits, store_bits, compare_exchange, swap, fetch_add);
///     pass!(memory: order, drain, work, grow, spin_while, output);
///
///     fn flush(&self, at: Addr, len: u64) {
///         self.flushes.set(self.flushes.get() + 1);
///         self.memory.flush(at, len);
///     }
/// }
///
/// let image = Image::new(64, 0);
/// let memory = Counting { memory: &image, flushes: Cell::new(0) };
/// memory.store(Addr::pm(8), 7u64);
/// memory.persist(Addr::pm(8), 8);
/// assert_eq!((image.load::<u64>(Addr::pm(8)), memory.flushes.get()), (7, 1));
/// ```
#[macro_export]
macro_rules! pass {
    ($below:tt: $($method:ident),+ $(,)?) => {
        $($crate::pass!(@ $below $method);)+
    };
    (@ $below:tt thread) => {
        $crate::pass!(# $below thread() -> usize);
    };
    (@ $below:tt seats) => {
        $crate::pass!(# $below seats() -> ::core::option::Option<&$crate::Seats>);
    };
    (@ $below:tt load_bits) => {
        $crate::pass!(# $below load_bits(at: $crate::Addr, width: $crate::Width) -> u64);
    };
    (@ $below:tt store_bits) => {
        $crate::pass!(# $below store_bits(at: $crate::Addr, width: $crate::Width, value: u64)
            -> ());
    };
    (@ $below:tt compare_exchange) => {
        $crate::pass!(# $below compare_exchange(at: $crate::Addr, current: u64, new: u64)
            -> ::core::result::Result<u64, u64>);
    };
    (@ $below:tt swap) => {
        $crate::pass!(# $below swap(at: $crate::Addr, new: u64) -> u64);
    };
    (@ $below:tt fetch_add) => {
        $crate::pass!(# $below fetch_add(at: $crate::Addr, by: u64) -> u64);
    };
    (@ $below:tt flush) => {
        $crate::pass!(# $below flush(at: $crate::Addr, len: u64) -> ());
    };
    (@ $below:tt order) => {
        $crate::pass!(# $below order() -> ());
    };
    (@ $below:tt strand) => {
        $crate::pass!(# $below strand() -> ());
    };
    (@ $below:tt join_strands) => {
        $crate::pass!(# $below join_strands() -> ());
    };
    (@ $below:tt drain) => {
        $crate::pass!(# $below drain() -> ());
    };
    (@ $below:tt work) => {
        $crate::pass!(# $below work(instructions: u32) -> ());
    };
    (@ $below:tt now) => {
        $crate::pass!(# $below now() -> u64);
    };
    (@ $below:tt purpose) => {
        $crate::pass!(# $below purpose(purpose: $crate::Purpose) -> $crate::Purpose);
    };
    (@ $below:tt grow) => {
        $crate::pass!(# $below grow(bytes: u64) -> bool);
    };
    (@ $below:tt will_write) => {
        $crate::pass!(# $below will_write(at: $crate::Addr, len: u64) -> ());
    };
    (@ $below:tt discard) => {
        $crate::pass!(# $below discard(at: $crate::Addr, len: u64) -> ());
    };
    (@ $below:tt bring_back) => {
        $crate::pass!(# $below bring_back(at: $crate::Addr, len: u64) -> bool);
    };
    (@ $below:tt relocates) => {
        $crate::pass!(# $below relocates() -> bool);
    };
    (@ $below:tt forwards) => {
        $crate::pass!(# $below forwards() -> bool);
    };
    (@ $below:tt set_relocation) => {
        $crate::pass!(# $below
            set_relocation(registers: ::core::option::Option<$crate::Relocation>) -> ());
    };
    (@ $below:tt relocate) => {
        $crate::pass!(# $below relocate(to: $crate::Addr, from: $crate::Addr, len: u64) -> ());
    };
    (@ $below:tt spin_while) => {
        $crate::pass!(# $below spin_while(at: $crate::Addr, value: u64) -> u64);
    };
    (@ $below:tt sleep_while) => {
        $crate::pass!(# $below sleep_while(at: $crate::Addr, value: u64) -> u64);
    };
    (@ $below:tt wake) => {
        $crate::pass!(# $below wake(at: $crate::Addr) -> ());
    };
    (@ $below:tt output) => {
        $crate::pass!(# $below output(number: u64) -> ());
    };
    (@ $below:tt load_line) => {
        $crate::pass!(# $below load_line(at: $crate::Addr)
            -> [u64; $crate::LINE_BYTES as usize / 8]);
    };
    (@ $below:tt read) => {
        $crate::pass!(# $below read(at: $crate::Addr, into: &mut [u8]) -> ());
    };
    (@ $below:tt write) => {
        $crate::pass!(# $below write(at: $crate::Addr, from: &[u8]) -> ());
    };
    (@ $below:tt write_nt) => {
        $crate::pass!(# $below write_nt(at: $crate::Addr, from: &[u8]) -> ());
    };
    (@ $below:tt forward) => {
        $crate::pass!(# $below forward(at: $crate::Addr) -> $crate::Addr);
    };
    (# ($($Kind:ident)+) $method:ident($($name:ident: $type:ty),*) -> $gives:ty) => {
        $crate::pass!(% ($($Kind)+) $method [$($name: $type),*] ($($name),*) -> $gives);
    };
    (% ($($Kind:ident)+) $method:ident [$($name:ident: $type:ty),*] $with:tt -> $gives:ty) => {
        #[inline]
        #[track_caller]
        fn $method(&self, $($name: $type),*) -> $gives {
            match self {
                $(Self::$Kind(memory) => memory.$method $with,)+
            }
        }
    };
    (# $below:ident $method:ident($($name:ident: $type:ty),*) -> $gives:ty) => {
        #[inline]
        #[track_caller]
        fn $method(&self, $($name: $type),*) -> $gives {
            self.$below.$method($($name),*)
        }
    };
}
