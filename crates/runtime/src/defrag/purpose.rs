//! What defragmentation spends the time of a thread on. Machines whose clocks keep accounts
//! ([`Clock::charge`]) show how much time each of these takes.

use seawall_memory::{Clock, Memory};

/// An account of [`Clock::charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// The program's own work.
    Program,
    /// Finding the present place of an object.
    LookUp,
    /// Moving an object.
    Copy,
    /// Measuring how full pages are.
    Mark,
    /// Deciding where objects go.
    Plan,
    /// Visiting objects that no thread has accessed, and updating pointers.
    Heal,
    /// Releasing the pages that objects have left.
    Release,
}

impl Purpose {
    /// The number of purposes.
    pub const COUNT: usize = Purpose::Release as usize + 1;

    /// Does `work`, whose time is charged to this account.
    #[inline]
    pub(crate) fn charge<M: Memory, T>(self, memory: &M, work: impl FnOnce() -> T) -> T {
        let clock = memory.clock();
        let before = clock.as_ref().map(|clock| clock.charge(self as u8));
        let outcome = work();
        if let (Some(clock), Some(before)) = (clock, before) {
            clock.charge(before);
        }
        outcome
    }
}
