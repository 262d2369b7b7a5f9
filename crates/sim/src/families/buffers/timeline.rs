//! The epochs of a core: its timestamp, the epochs in flight, and their dependences.

use crate::{Epoch, LineId};
use std::collections::VecDeque;

/// An epoch of a core, on which others depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) core: usize,
    pub(crate) epoch: Epoch,
}

/// An epoch that is not durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochState {
    /// The number of entries that are not acknowledged.
    pub(crate) left: u32,
    /// The epoch that must be durable first.
    pub(crate) depends_on: Option<Source>,
    /// The lines that it wrote; a line can occur more than once.
    pub(crate) lines: Vec<LineId>,
    /// The cores that receive a message when it is durable, a bit each.
    pub(crate) dependents: u64,
    /// The controllers that receive a message, a bit each.
    pub(crate) controllers: u8,
}

/// The epochs of a core: its timestamp, and the epochs in flight.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// All epochs up to this one are durable; the states of the others follow.
    pub(crate) durable: Epoch,
    states: VecDeque<EpochState>,
}

impl Timeline {
    pub(crate) fn new() -> Timeline {
        Timeline { durable: 0, states: VecDeque::from([EpochState::default()]) }
    }

    /// The open epoch; the first is 1.
    pub(crate) fn current(&self) -> Epoch {
        self.durable + self.states.len() as Epoch
    }

    /// The number of epochs that are not durable, the open one included.
    pub(crate) fn in_flight(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn is_durable(&self, epoch: Epoch) -> bool {
        epoch <= self.durable
    }

    pub(crate) fn state(&mut self, epoch: Epoch) -> &mut EpochState {
        let at = epoch - self.durable - 1;
        &mut self.states[at as usize]
    }

    pub(crate) fn open(&mut self) -> &mut EpochState {
        self.states.back_mut().expect("one is open")
    }

    /// True while the open epoch wrote nothing and depends on nothing.
    pub(crate) fn is_open_empty(&self) -> bool {
        let open = self.states.back().expect("one is open");
        open.lines.is_empty() && open.depends_on.is_none()
    }

    /// The newest epoch that is not empty.
    pub(crate) fn newest(&self) -> Epoch {
        self.current() - Epoch::from(self.is_open_empty())
    }

    /// The newest epoch in flight that wrote a line for which `is_it` holds.
    pub(crate) fn newest_with(&self, mut is_it: impl FnMut(&LineId) -> bool) -> Option<Epoch> {
        let at = self.states.iter().rposition(|state| state.lines.iter().any(&mut is_it))?;
        Some(self.durable + 1 + at as Epoch)
    }

    /// Closes the open epoch and opens the next; returns the number of the closed one.
    pub(crate) fn close(&mut self) -> Epoch {
        self.states.push_back(EpochState::default());
        self.current() - 1
    }

    /// True if an epoch is closed and not durable.
    pub(crate) fn is_any_closed(&self) -> bool {
        self.states.len() > 1
    }

    /// The dependence of the oldest epoch that is not durable.
    pub(crate) fn oldest_depends_on(&self) -> Option<Source> {
        self.states[0].depends_on
    }

    /// Removes the oldest epoch, which is closed and durable.
    pub(crate) fn retire(&mut self) -> EpochState {
        self.durable += 1;
        self.states.pop_front().expect("it was in flight")
    }

    /// True if the open epoch is known to come after `source`: it, or an epoch before it in flight,
    /// depends on `source` or on a later epoch of that core.
    pub(crate) fn follows(&self, source: Source) -> bool {
        let covers = |on: Source| on.core == source.core && on.epoch >= source.epoch;
        self.states.iter().any(|state| state.depends_on.is_some_and(covers))
    }

    /// Orders the open epoch after `source`; an epoch that is not empty is closed first.
    pub(crate) fn depend(&mut self, source: Source) {
        if !self.is_open_empty() {
            self.close();
        }
        self.open().depends_on = Some(source);
    }

    /// `source` and the epochs before it are durable: removes the dependences on them.
    pub(crate) fn resolve(&mut self, source: Source) {
        let is_over = |on: &Source| on.core == source.core && on.epoch <= source.epoch;
        for state in &mut self.states {
            state.depends_on = state.depends_on.filter(|on| !is_over(on));
        }
    }

    /// Removes every dependence on `core`.
    pub(crate) fn forget(&mut self, core: usize) {
        for state in &mut self.states {
            state.depends_on = state.depends_on.filter(|source| source.core != core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependence_opens_a_new_epoch_unless_the_open_one_is_empty() {
        let mut line = Timeline::new();
        let source = |epoch| Source { core: 3, epoch };
        line.depend(source(5));
        assert_eq!(line.current(), 1);
        assert!(line.follows(source(4)) && line.follows(source(5)) && !line.follows(source(6)));
        line.depend(source(6));
        assert_eq!(line.current(), 2);
        line.retire();
        assert!(line.follows(source(6)));
        line.forget(3);
        assert!(!line.follows(source(1)) && line.is_open_empty());
    }

    #[test]
    fn what_depends_on_a_durable_epoch_or_an_older_one_is_free() {
        let mut line = Timeline::new();
        let source = |epoch| Source { core: 3, epoch };
        line.depend(source(5));
        line.depend(source(7));
        line.resolve(Source { core: 2, epoch: 9 });
        line.resolve(source(6));
        assert_eq!(line.oldest_depends_on(), None);
        assert!(line.follows(source(7)) && line.in_flight() == 2);
        line.resolve(source(7));
        assert!(!line.follows(source(1)) && line.is_open_empty());
    }
}
