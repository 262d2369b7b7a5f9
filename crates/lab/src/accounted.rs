//! What the time of simulated threads is spent on, as what runs on them says
//! ([`Memory::purpose`]).
//!
//! Time is that of the program: of a core that runs ahead of its memory accesses it is when they
//! are issued or, where it has to wait, answered.

use seawall_memory::{Memory, Purpose, pass};
use std::cell::Cell;
use std::rc::Rc;

/// Cycles for each purpose, in the order of [`Purpose::ALL`], of all threads together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account(Rc<Cell<[u64; Purpose::ALL.len()]>>);

impl Account {
    pub(crate) fn cycles(&self, purpose: Purpose) -> u64 {
        self.0.get()[purpose as usize]
    }

    fn add(&self, purpose: Purpose, cycles: u64) {
        let mut all = self.0.get();
        all[purpose as usize] += cycles;
        self.0.set(all);
    }
}

/// A memory whose time is accounted for.
pub(crate) struct Accounted<'a, M: Memory> {
    memory: &'a M,
    account: Account,
    /// What time is spent on, and since when.
    now: Cell<(Purpose, u64)>,
}

impl<'a, M: Memory> Accounted<'a, M> {
    pub(crate) fn new(memory: &'a M, account: Account) -> Accounted<'a, M> {
        let now = Cell::new((Purpose::Program, memory.now()));
        Accounted { memory, account, now }
    }
}

impl<M: Memory> Drop for Accounted<'_, M> {
    fn drop(&mut self) {
        self.purpose(Purpose::Program);
    }
}

impl<M: Memory> Memory for Accounted<'_, M> {
    pass!(memory: thread, seats, load_bits, store_bits, compare_exchange, swap, fetch_add, flush);
    pass!(memory: order);
    pass!(memory: sleep_while, wake);
    pass!(memory: strand, join_strands, drain, work, now, grow, will_write, spin_while, output);
    pass!(memory: load_line, read, write, write_nt, discard, bring_back, relocates, forwards);
    pass!(memory: set_relocation, relocate, forward);

    fn purpose(&self, purpose: Purpose) -> Purpose {
        let (before, since) = self.now.get();
        let now = self.memory.now();
        self.account.add(before, now - since);
        self.now.set((purpose, now));
        before
    }
}
