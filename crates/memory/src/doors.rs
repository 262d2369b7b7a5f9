//! What only some machines have: the units behind the doors of [`Memory`](crate::Memory).
//!
//! No method here has a default, so that a wrapper around a unit must answer for each of them.

use crate::Addr;
use crate::layer::Either;
use crate::relocation::{Relocation, RelocationUnit};

/// A thread's clock, and its accounts of time.
pub trait Clock {
    /// The time of this thread in the machine's own unit (time-stamp counter, simulated cycle).
    fn now(&self) -> u64;

    /// Charges the time of this thread from now on to `account`, and returns the account until now.
    /// Account 0 is the program's own; the others belong to the library that works for it. A clock
    /// that keeps no accounts returns `account`.
    fn charge(&self, account: u8) -> u8;
}

/// Puts threads of the operating system to sleep. For machines that may have more threads than
/// processors.
pub trait Parking {
    /// Waits while the aligned 8 bytes at `at` equal `value`; returns the value that ended the
    /// wait. May sleep until [`wake`](Parking::wake).
    #[track_caller]
    fn sleep_while(&self, at: Addr, value: u64) -> u64;

    /// Wakes the threads that sleep on the word at `at`.
    #[track_caller]
    fn wake(&self, at: Addr);
}

/// Changes how much memory a pool has.
pub trait Space {
    /// Makes the pool at least `bytes` long. Returns false, with nothing changed, when there is no
    /// room. The new bytes are zero, and a crash after the return keeps them; a crash before it may
    /// leave a longer pool.
    #[track_caller]
    fn grow(&self, bytes: u64) -> bool;

    /// Announces that these bytes will be written soon, so that a machine which brings pages in on
    /// first access can bring them in together. Up to 8 bytes, at any address, are announced so
    /// that their line comes to this CPU meanwhile. Has no visible effect, also after a crash.
    #[track_caller]
    fn will_write(&self, at: Addr, len: u64);

    /// Gives up the content of whole pages of 4 KiB. The machine may take their memory until they
    /// are [brought back](Space::bring_back). From now on, and after a crash, each byte reads as
    /// before or as zero.
    #[track_caller]
    fn discard(&self, at: Addr, len: u64);

    /// Makes discarded pages writable again. Returns false when there is no room for them any more.
    /// Changes no byte.
    #[track_caller]
    fn bring_back(&self, at: Addr, len: u64) -> bool;

    /// Returns the first of these bytes, and how many behind it, whose memory the system may have
    /// since before the pool was opened: they must be [brought back](Space::bring_back) before any
    /// access. `None` if there are none.
    #[track_caller]
    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)>;
}

/// The unit of a machine that has none: it has no values.
#[derive(Clone, Copy, Debug)]
pub enum Absent {}

/// Implements the trait of a unit for [`Absent`] and for [`Either`] of two units.
macro_rules! units {
    ($(trait $Unit:ident { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $returns:ty;)* })*)
    => { $(
        impl $Unit for Absent {
            $(fn $name(&self $(, _: $type)*) -> $returns {
                match *self {}
            })*
        }

        impl<A: $Unit, B: $Unit> $Unit for Either<A, B> {
            $(
                #[inline]
                #[track_caller]
                fn $name(&self $(, $arg: $type)*) -> $returns {
                    match self {
                        Either::Left(unit) => unit.$name($($arg),*),
                        Either::Right(unit) => unit.$name($($arg),*),
                    }
                }
            )*
        }
    )* };
}

units! {
    trait Clock {
        fn now(&self) -> u64;
        fn charge(&self, account: u8) -> u8;
    }
    trait Parking {
        fn sleep_while(&self, at: Addr, value: u64) -> u64;
        fn wake(&self, at: Addr) -> ();
    }
    trait Space {
        fn grow(&self, bytes: u64) -> bool;
        fn will_write(&self, at: Addr, len: u64) -> ();
        fn discard(&self, at: Addr, len: u64) -> ();
        fn bring_back(&self, at: Addr, len: u64) -> bool;
        fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)>;
    }
    trait RelocationUnit {
        fn forwards(&self) -> bool;
        fn set(&self, registers: Option<Relocation>) -> ();
        fn relocate(&self, to: Addr, from: Addr, len: u64) -> ();
        fn forward(&self, at: Addr) -> Addr;
    }
}
