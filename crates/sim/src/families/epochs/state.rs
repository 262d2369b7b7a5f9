//! The epochs of one core: the open one, the durable ones, their lines and dependences.
//!
//! Hardware numbers epochs with the bits that the number in flight needs; here numbers only grow,
//! and a limit on the number in flight stands for the bits.

use crate::core::Waiter;
use crate::noc::mesh::Tile;
use crate::{Epoch, LineId};

/// One epoch in flight.
#[derive(Clone, Default)]
struct State {
    lines: Vec<LineId>,
    depends_on: Vec<(usize, Epoch)>,
    informs: Vec<usize>,
    conflicting: bool,
}

impl State {
    /// Resets the state, but keeps the capacity of its lists.
    fn clear(&mut self) {
        let State { lines, depends_on, informs, conflicting } = self;
        lines.clear();
        depends_on.clear();
        informs.clear();
        *conflicting = false;
    }
}

/// What has happened to an epoch; the second implies the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// It is durable, and dependents may be.
    Durable,
    /// It is named durable in memory.
    Named,
}

/// A waiter, with its epoch, what it waits for, and the tile that is informed.
pub(crate) struct Waiting {
    pub(super) epoch: Epoch,
    pub(super) mark: Mark,
    pub(super) who: Waiter,
    pub(super) tile: Tile,
}

/// The epochs of one core.
pub(crate) struct CoreEpochs {
    /// The open epoch; numbers start at 1.
    pub(crate) current: Epoch,
    /// All epochs up to this one are durable; in bulk mode, their lines and states are.
    pub(crate) durable: Epoch,
    /// All epochs up to this one are named durable, so that no crash undoes them. Without bulk mode
    /// the same as `durable`.
    pub(crate) named: Epoch,
    /// All epochs up to this one must be flushed.
    pub(super) demanded: Epoch,
    pub(crate) waiters: Vec<Waiting>,
    in_flight: u32,
    states: Vec<State>,
}

impl CoreEpochs {
    pub(super) fn new(in_flight: u32) -> CoreEpochs {
        CoreEpochs {
            current: 1,
            durable: 0,
            named: 0,
            demanded: 0,
            waiters: Vec::new(),
            in_flight,
            states: vec![State::default(); in_flight as usize],
        }
    }

    fn state(&mut self, epoch: Epoch) -> &mut State {
        debug_assert!(epoch > self.durable && epoch <= self.current);
        let index = (epoch % self.in_flight) as usize;
        &mut self.states[index]
    }

    fn peek(&self, epoch: Epoch) -> &State {
        &self.states[(epoch % self.in_flight) as usize]
    }

    /// True while the open epoch has no writes and no dependences.
    pub(super) fn is_empty(&self) -> bool {
        let open = self.peek(self.current);
        open.lines.is_empty() && open.depends_on.is_empty()
    }

    /// True if the open epoch can be closed: the next one needs a free number.
    pub(super) fn has_free_number(&self) -> bool {
        self.current - self.durable < self.in_flight
    }

    /// Closes the open epoch; returns its number.
    pub(super) fn close(&mut self) -> Epoch {
        assert!(self.has_free_number(), "an epoch number is free");
        self.current += 1;
        self.state(self.current).clear();
        self.current - 1
    }

    /// The open epoch has tagged a line.
    pub(super) fn wrote(&mut self, line: LineId) {
        let current = self.current;
        self.state(current).lines.push(line);
    }

    /// The lines that the epoch has tagged; a line can occur twice.
    pub(super) fn take_lines(&mut self, epoch: Epoch) -> Vec<LineId> {
        std::mem::take(&mut self.state(epoch).lines)
    }

    /// Returns the list of [`take_lines`](CoreEpochs::take_lines), for reuse of its capacity.
    pub(super) fn give_back_lines(&mut self, epoch: Epoch, mut lines: Vec<LineId>) {
        lines.clear();
        self.state(epoch).lines = lines;
    }

    /// A conflict met `epoch`.
    pub(super) fn mark_conflicting(&mut self, epoch: Epoch) {
        self.state(epoch).conflicting = true;
    }

    /// A request waits until `epoch` is durable: it and all before it are flushed for a conflict.
    pub(super) fn mark_flushed_for_conflict(&mut self, epoch: Epoch) {
        for number in self.durable + 1..=epoch {
            self.state(number).conflicting = true;
        }
    }

    pub(super) fn is_conflicting(&self, epoch: Epoch) -> bool {
        self.peek(epoch).conflicting
    }

    pub(super) fn dependences(&self, epoch: Epoch) -> usize {
        self.peek(epoch).depends_on.len()
    }

    pub(super) fn informs(&self, epoch: Epoch) -> usize {
        self.peek(epoch).informs.len()
    }

    /// True if `epoch` is known to depend on epoch `on` of `core` or on a later one.
    pub(super) fn depends_on(&self, epoch: Epoch, core: usize, on: Epoch) -> bool {
        self.peek(epoch).depends_on.iter().any(|(known, number)| *known == core && *number >= on)
    }

    pub(super) fn add_dependence(&mut self, epoch: Epoch, core: usize, on: Epoch) {
        self.state(epoch).depends_on.push((core, on));
    }

    pub(super) fn add_inform(&mut self, epoch: Epoch, core: usize) {
        self.state(epoch).informs.push(core);
    }

    /// The dependences of `epoch` that are not resolved.
    pub(super) fn dependences_mut(&mut self, epoch: Epoch) -> &mut Vec<(usize, Epoch)> {
        &mut self.state(epoch).depends_on
    }

    /// The cores to inform that `epoch` is durable.
    pub(super) fn take_informs(&mut self, epoch: Epoch) -> Vec<usize> {
        std::mem::take(&mut self.state(epoch).informs)
    }
}
