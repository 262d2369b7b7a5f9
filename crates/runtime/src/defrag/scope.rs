//! What a thread at work knows of a cycle: how far it is, and by which of its two addresses the
//! scope that the thread is in calls an object that moves. `grace` begins and ends scopes,
//! `read_barrier` says what follows from them.

use super::forwarding_table::Move;
use super::options::{Copies, Protocol};
use crate::heap::Heap;
use seawall_memory::{Memory, MemoryExt};
use std::cell::Cell;

/// How far the cycle is, for all threads: a word in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    Rest,
    /// Pages are watched, and some have begun to move; objects have their old names.
    Watching,
    /// It is decided which pages are emptied; objects have their new names.
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

/// How a scope calls objects that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum View {
    /// There was no cycle when it began.
    #[default]
    Plain,
    /// As they were called before the cycle.
    Old,
    /// As they are called after it.
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

/// The scope that a session is in, if it is in one.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) is_open: bool,
    /// How it calls objects that move.
    pub(crate) view: View,
    /// The object that the session has just moved.
    pub(crate) moved: Cell<Option<Move>>,
}

impl Heap {
    /// How far the cycle is.
    #[inline]
    pub(crate) fn phase<M: Memory>(&self, memory: &M) -> Phase {
        Phase::of_word(memory.load(self.layout.phase))
    }

    /// How objects move in this cycle.
    pub(crate) fn protocol<M: Memory>(&self, memory: &M) -> Protocol {
        let number = memory.load::<u64>(self.layout.protocol());
        Protocol::of_number(number & 7).unwrap_or(Protocol::Espresso)
    }

    /// How software copies them.
    pub(crate) fn copies<M: Memory>(&self, memory: &M) -> Copies {
        Copies::of_bits(memory.load(self.layout.protocol()))
    }
}
