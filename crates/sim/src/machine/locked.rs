//! Locked instructions, and what waits as they do.
//!
//! A locked instruction waits until it can take effect, and then reads and writes its words in one
//! step. The machine knows some of them itself. Others are executed by the host between two calls,
//! during which nothing happens here: the first one waits, and asks the design whether a store can
//! take effect, as the host will have executed the instruction when its value is known.

use super::System;
use super::front::{Pause, Place};
use super::wide::Span;
use crate::caches::private::Way;
use crate::core::Waits;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::hw::Gate;
use crate::seam::Locked;
use crate::{Cycle, LineId};
use seawall_memory::{Addr, Width};

/// A locked instruction of a core that the host executes.
#[derive(Clone, Copy)]
pub(super) struct Held {
    core: usize,
    span: Span,
    way: Way,
    now: Cycle,
}

impl<D: Design> System<D> {
    /// Waits until the store buffer is empty, loads are complete, and the design lets a locked
    /// instruction begin.
    fn wait_for_all(&mut self, core: usize) -> Result<Cycle, Pause> {
        self.begin(core);
        self.in_turn(core)?;
        if !self.hw.cores[core].buffer.entries.is_empty() {
            return Err(self.wait(core, Waits::Empty));
        }
        self.hw.cores[core].wait_for_loads();
        let now = self.in_turn(core)?;
        let who = Self::waiter(core, true);
        let gate = self.empty_write_combining(who, now);
        self.passes(core, gate)?;
        let gate = self.design.locked(&mut self.hw, who, now);
        self.passes(core, gate)?;
        Ok(now)
    }

    /// Waits until a locked instruction can read and write `line`.
    fn wait_to_lock(&mut self, core: usize, line: LineId) -> Result<(Way, Cycle), Pause> {
        let now = self.wait_for_all(core)?;
        match self.own(Self::waiter(core, true), line, now) {
            Ok(way) => Ok((way, now)),
            Err(Gate::At(at, Reason::StoreMiss)) => {
                Err(self.refused(core, Gate::At(at, Reason::Locked)))
            }
            Err(gate) => Err(self.refused(core, gate)),
        }
    }

    fn end_locked(&mut self, core: usize, now: Cycle) {
        let latency = self.hw.config.l1.latency;
        self.hw.cores[core].stall_until(now + latency, Reason::Locked);
    }

    pub(super) fn attempt_locked(
        &mut self,
        core: usize,
        at: Addr,
        operation: Locked,
    ) -> Result<u64, Pause> {
        let Place { line, word, .. } = self.place(at, Width::B8);
        let (way, now) = self.wait_to_lock(core, line)?;
        let old = self.hw.data(core, way, line)[word as usize];
        let new = match operation {
            Locked::CompareExchange(current, new) => (old == current).then_some(new),
            Locked::Swap(new) => Some(new),
            Locked::Add(by) => Some(old.wrapping_add(by)),
        };
        if self.trace.on {
            self.tell_load(core, line, word, u64::MAX);
        }
        if let Some(value) = new {
            let store = Store { line, way, word, mask: u64::MAX, value };
            let gate = self.design.store(&mut self.hw, Self::waiter(core, true), store, now);
            self.passes(core, gate)?;
            self.write(core, &[store], now);
        }
        self.end_locked(core, now);
        Ok(old)
    }

    /// Waits until the host can execute a locked instruction on `span`; returns its words.
    pub(super) fn attempt_lock(&mut self, core: usize, span: Span) -> Result<[u64; 2], Pause> {
        let (way, now) = self.wait_to_lock(core, span.line)?;
        let at = Store { line: span.line, way, word: span.word, mask: 0, value: 0 };
        let gate = self.design.may_store(&mut self.hw, Self::waiter(core, true), at, now);
        self.passes(core, gate)?;
        assert!(self.held.is_none(), "a locked instruction ends before the next begins");
        self.held = Some(Held { core, span, way, now });
        let data = self.hw.data(core, way, span.line);
        let mut words = [0; 2];
        for (value, (word, _)) in words.iter_mut().zip(span.masks()) {
            *value = data[usize::from(word)];
        }
        if self.trace.on {
            for (number, mask) in span.masks() {
                self.tell_load(core, span.line, number, mask);
            }
        }
        Ok(words)
    }

    /// The host has executed the instruction on `span`: its words are `new` now, or as before.
    pub(super) fn release_lock(&mut self, core: usize, span: Span, new: Option<[u64; 2]>) {
        let held = self.held.take().expect("a locked instruction has begun");
        assert!(held.core == core && held.span == span, "it ends as it began");
        let Held { way, now, .. } = held;
        let line = span.line;
        match new {
            Some(values) => {
                let store = |((word, mask), value)| Store { line, way, word, mask, value };
                let mut stores = span.masks().zip(values).map(store);
                let first = stores.next().expect("at least a byte");
                self.design.stores(&mut self.hw, core, first, now);
                match stores.next() {
                    Some(second) => self.write(core, &[first, second], now),
                    None => self.write(core, &[first], now),
                }
            }
            None => self.design.forgone(&mut self.hw, core, now),
        }
        self.end_locked(core, now);
    }

    /// A full fence waits as a locked instruction does.
    pub(super) fn attempt_full_fence(&mut self, core: usize) -> Result<(), Pause> {
        self.wait_for_all(core).map(drop)
    }
}
