//! What a thread knows of a cycle: its phase, and which of the two addresses of a moving object the
//! thread's scope uses. `grace` begins and ends scopes, `read_barrier` maps addresses in them.

use super::forwarding_table::Move;
use super::options::{Manner, Protocol};
use crate::heap::Heap;
use seawall_memory::{Addr, Memory, MemoryExt};
use std::cell::Cell;

/// The phase of the cycle, for all threads: a word in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no cycle.
    Rest,
    /// Pages are watched, and the objects of some move; new scopes use old addresses.
    Watching,
    /// All pages of the cycle are chosen; new scopes use new addresses.
    Moving,
}

impl Phase {
    pub(crate) fn of_word(word: u64) -> Phase {
        match word {
            0 => Phase::Rest,
            1 => Phase::Watching,
            _ => Phase::Moving,
        }
    }
}

/// Which addresses a scope uses for objects that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum View {
    /// Plain addresses: there was no cycle when the scope began.
    #[default]
    Plain,
    /// Old addresses, from before the cycle.
    Old,
    /// New addresses.
    New,
}

impl View {
    pub(super) fn of(phase: Phase) -> View {
        match phase {
            Phase::Rest => View::Plain,
            Phase::Watching => View::Old,
            Phase::Moving => View::New,
        }
    }
}

/// The scope of a session.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) is_open: bool,
    /// The addresses that it uses.
    pub(crate) view: View,
    /// Whether each access checks where its object is.
    pub(crate) checks: bool,
    /// The object that has been checked when the pointer to it was loaded.
    pub(crate) checked: Cell<Option<Addr>>,
    /// The object that the session has just moved.
    pub(crate) moved: Cell<Option<Move>>,
}

impl Heap {
    /// The phase of the cycle.
    #[inline]
    pub(crate) fn phase<M: Memory>(&self, memory: &M) -> Phase {
        Phase::of_word(memory.load(self.layout.phase))
    }

    /// The protocol of the cycle.
    pub(crate) fn protocol<M: Memory>(&self, memory: &M) -> Protocol {
        let number = memory.load::<u64>(self.layout.protocol());
        Protocol::of_number(number & 7).unwrap_or(Protocol::Espresso)
    }

    /// Whether objects move as published in the cycle.
    pub(crate) fn is_published<M: Memory>(&self, memory: &M) -> bool {
        Manner::of_bits(memory.load(self.layout.protocol())) == Manner::Published
    }
}
