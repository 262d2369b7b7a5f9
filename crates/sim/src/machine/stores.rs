//! The draining of a store buffer: its head takes effect in order, one line per cycle, or one store
//! at a time (`core.stores_in_flight`).

use super::System;
use crate::caches::coherence::acquire;
use crate::caches::private::{State, Way};
use crate::core::Waiter;
use crate::core::{Entry, Kind, Waits};
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::hw::{Event, Gate};
use crate::{Cycle, LineId};

impl<D: Design> System<D> {
    /// A turn of `core`'s store buffer.
    pub(super) fn drain_stores(&mut self, core: usize, now: Cycle) {
        let Some(head) = self.hw.cores[core].buffer.entries.front().copied() else { return };
        if head.from > now {
            self.hw.queue.stores(head.from, core);
            return;
        }
        let who = Self::waiter(core, false);
        let gate = match head.kind {
            Kind::Store | Kind::Part | Kind::Copy => self.drain_store(who, head, now),
            Kind::NonTemporal | Kind::PartNonTemporal => self.drain_non_temporal(who, head, now),
            Kind::Flush => self.design.flush(&mut self.hw, who, head.line, now),
            Kind::Strand => self.design.strand(&mut self.hw, who, now),
            Kind::Order | Kind::Join | Kind::Drain => self.fence(who, head.kind, now),
            Kind::Output => {
                self.output_takes_effect(core, head.value, now);
                Gate::Go
            }
        };
        match gate {
            Gate::Go => self.head_is_done(core, head, now),
            Gate::At(at, reason) => {
                self.store_waits(core, reason, now);
                self.hw.queue.stores(at, core);
            }
            Gate::Wait(reason) => self.store_waits(core, reason, now),
        }
    }

    fn head_is_done(&mut self, core: usize, head: Entry, now: Cycle) {
        if !(head.kind.is_store() || head.kind.is_non_temporal()) {
            self.hw.cores[core].buffer.pop();
            self.hw.detail.note(|tally| tally.passed(core, head, now));
        }
        self.store_waits(core, Reason::StoreBuffer, now);
        self.release_program(core, head.kind, now);
        if let Some(next) = self.hw.cores[core].buffer.entries.front() {
            let free = now + self.time_of(head);
            self.hw.queue.stores(next.from.max(free), core);
        } else if self.hw.cores[core].waits == Waits::Done {
            self.design.exited(&mut self.hw, core, now);
        }
    }

    /// The cycles for which the head occupies the way to the first level.
    fn time_of(&self, head: Entry) -> Cycle {
        match head.kind {
            Kind::Output => 0,
            kind if kind.is_store() && self.sends_one_store() => {
                // A part of a wider one counts with the last.
                self.hw.config.l1.latency * u64::from(head.count.max(1))
            }
            _ => 1,
        }
    }

    fn sends_one_store(&self) -> bool {
        self.hw.config.core.stores_in_flight() == 1
    }

    fn fence(&mut self, who: Waiter, kind: Kind, now: Cycle) -> Gate {
        match (self.empty_write_combining(who, now), kind) {
            (Gate::Go, Kind::Drain) => self.design.drain(&mut self.hw, who, now),
            (Gate::Go, Kind::Join) => self.design.join_strands(&mut self.hw, who, now),
            (Gate::Go, _) => self.design.order(&mut self.hw, who, now),
            (waits, _) => waits,
        }
    }

    fn drain_store(&mut self, who: Waiter, head: Entry, now: Cycle) -> Gate {
        if self.hw.write_combining[who.core].is_open() {
            let gate = self.leave_line(who.core, head.line, now);
            if gate != Gate::Go {
                return gate;
            }
        }
        let way = match self.own(who, head.line, now) {
            Ok(way) => way,
            Err(gate) => {
                self.prefetch(who, head.line, now);
                return gate;
            }
        };
        let gate = self.design.store(&mut self.hw, who, store_of(head, way), now);
        if gate != Gate::Go {
            return gate;
        }
        let core = who.core;
        let coalesces = D::COALESCES && !self.sends_one_store();
        let version = self.hw.dirty(core, way, head.line);
        let data = self.hw.values.version_mut(version);
        let buffer = &mut self.hw.cores[core].buffer;
        let (mut stores, mut has_copy) = (0, false);
        let mut told = Vec::new();
        loop {
            let entry = buffer.pop().expect("a store is at the head");
            let word = &mut data[usize::from(entry.word % 8)];
            *word = *word & !entry.mask | entry.value & entry.mask;
            stores += u64::from(entry.count);
            if self.trace.on {
                told.push((store_of(entry, way), entry.count));
            }
            let joins = buffer.entries.front().is_some_and(|next| {
                next.kind.is_store() && next.line == head.line && next.from <= now
            });
            has_copy |= entry.kind == Kind::Copy;
            if entry.kind != Kind::Part && !(coalesces && joins) {
                break;
            }
        }
        self.design.stored(&mut self.hw, core, store_of(head, way), stores, now);
        if has_copy {
            self.copied(core, way, head.line);
        }
        for (store, count) in told {
            self.tell_store(core, store, count, now);
        }
        Gate::Go
    }

    /// Returns a way of `core`'s first level in which it can write `line` now.
    pub(super) fn own(&mut self, who: Waiter, line: LineId, now: Cycle) -> Result<Way, Gate> {
        if let Some(way) = self.hw.private[who.core].touch(line) {
            let copy = self.hw.private[who.core].copy(way);
            if copy.state == State::Exclusive {
                if copy.ready > now {
                    return Err(Gate::At(copy.ready, Reason::StoreMiss));
                }
                return Ok(way);
            }
        }
        let fill = acquire(&mut self.design, &mut self.hw, who, line, true, now)?;
        Err(Gate::At(fill.ready, Reason::StoreMiss))
    }

    /// While the head waits for its line, prefetches the lines of the stores behind it.
    fn prefetch(&mut self, who: Waiter, head: LineId, now: Cycle) {
        let (mut last, mut ahead) = (head, 1);
        for at in 1..self.hw.cores[who.core].buffer.entries.len() {
            let entry = self.hw.cores[who.core].buffer.entries[at];
            if entry.from > now {
                return;
            }
            if !entry.kind.is_store() || entry.line == last {
                continue;
            }
            last = entry.line;
            ahead += 1;
            if ahead > self.hw.config.core.stores_in_flight() {
                return;
            }
            let caches = &self.hw.private[who.core];
            let is_ours = |way| caches.copy(way).state == State::Exclusive;
            let owned = caches.find_near(entry.line).is_some_and(is_ours);
            if !owned && self.design.may_prefetch(&self.hw, who.core, entry.line) {
                // A refusal is harmless: the store will make the request itself.
                let _ = acquire(&mut self.design, &mut self.hw, who, entry.line, true, now);
            }
        }
    }

    /// Performs one store to a line, of one or more words.
    pub(super) fn write(&mut self, core: usize, words: &[Store], now: Cycle) {
        let first = words[0];
        let version = self.hw.dirty(core, first.way, first.line);
        let data = self.hw.values.version_mut(version);
        words.iter().for_each(|store| store.lay_over(data));
        self.design.stored(&mut self.hw, core, first, 1, now);
        if self.trace.on {
            for (number, store) in words.iter().enumerate() {
                let is_last = number + 1 == words.len();
                self.tell_store(core, *store, is_last.into(), now);
            }
        }
    }

    fn output_takes_effect(&mut self, core: usize, number: u64, now: Cycle) {
        self.hw.recorder.note(move |tape| tape.output(now));
        let crash = self.observer.borrow_mut().output(core, number, now);
        if let Some(at) = crash {
            self.hw.queue.event(at.max(now), Event::Crash);
        }
    }
}

pub(super) fn store_of(entry: Entry, way: Way) -> Store {
    Store { line: entry.line, way, word: entry.word, mask: entry.mask, value: entry.value }
}
