//! What the time of simulated threads is spent on, as the defragmenter reports it to their clocks
//! ([`Clock::charge`]).
//!
//! Time is that of the program: of a core that runs ahead of its memory accesses it is when they
//! are issued or, where it has to wait, answered.

use seawall_memory::{Clock, Memory, MemoryExt, layer};
use seawall_runtime::defrag::Purpose;
use std::cell::Cell;
use std::rc::Rc;

/// Cycles for each purpose, in the order of [`Purpose`], of all threads together.
#[derive(Clone, Debug, Default)]
pub struct Account(Rc<Cell<[u64; Purpose::COUNT]>>);

impl Account {
    /// Cycles that went to this purpose.
    pub fn cycles(&self, purpose: Purpose) -> u64 {
        self.0.get()[purpose as usize]
    }

    fn add(&self, purpose: u8, cycles: u64) {
        let mut all = self.0.get();
        all[usize::from(purpose)] += cycles;
        self.0.set(all);
    }
}

/// A memory whose time is accounted for.
pub struct Accounted<'a, M: Memory> {
    memory: &'a M,
    account: Account,
    /// What time is spent on, and since when.
    now: Cell<(u8, u64)>,
}

impl<'a, M: Memory> Accounted<'a, M> {
    /// Accounts for the time of `memory` from now on.
    pub fn new(memory: &'a M, account: Account) -> Accounted<'a, M> {
        let now = Cell::new((Purpose::Program as u8, memory.now()));
        Accounted { memory, account, now }
    }
}

impl<M: Memory> Drop for Accounted<'_, M> {
    fn drop(&mut self) {
        (&*self).charge(Purpose::Program as u8);
    }
}

impl<M: Memory> layer::Layer for Accounted<'_, M> {
    type Below = M;

    fn below(&self) -> &M {
        self.memory
    }

    fn clock(&self) -> Option<impl Clock> {
        self.memory.clock().map(|_| self)
    }
}

impl<M: Memory> Clock for &Accounted<'_, M> {
    fn now(&self) -> u64 {
        self.memory.now()
    }

    fn charge(&self, account: u8) -> u8 {
        let (before, since) = self.now.get();
        let now = self.memory.now();
        self.account.add(before, now - since);
        self.now.set((account, now));
        before
    }
}
