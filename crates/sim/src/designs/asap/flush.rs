//! The cores' side: flushes of the persist buffers, and commits of the epochs.
//!
//! A buffer is flushed from a few entries on, when a drain, a dependent epoch or a fetch waits for
//! it, and every few thousand cycles: one entry per cycle with its data, oldest first. A version of
//! a line waits for the acknowledgement of an earlier one of the same epoch; it absorbs stores
//! meanwhile.

use super::{Asap, Flaw, Message, Own, safe};
use crate::families::buffers::{Buffered, Buffers, Entry};
use crate::hw::{Event, Hw};
use crate::timeline::EpochEnd;
use crate::{Cycle, Epoch};

impl Asap {
    /// Flushes the entries that `core` can flush now, and commits the epochs that are complete and
    /// safe.
    pub(super) fn advance(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        loop {
            self.send(hw, core, now);
            let front = &mut self.buffers.cores[core];
            let (safe, timeline) = (safe(front), &mut front.timeline);
            let is_busy = front.own.committing > 0;
            if is_busy || safe == 0 || !timeline.is_any_closed() || timeline.state(safe).left > 0 {
                return;
            }
            let controllers = timeline.state(safe).controllers;
            for controller in (0..8).filter(|at| controllers >> at & 1 == 1) {
                let told = hw.mesh.control(core, hw.controller_tile(controller), now);
                let (core, controller) = (core as u8, controller as u8);
                let message = Message::Commit { core, epoch: safe, controller };
                hw.queue.event(told, Event::Design(message));
            }
            if self.flaw != Flaw::CommitsEarly && controllers != 0 {
                front.own.committing = controllers.count_ones();
                hw.recorder.note(move |tape| tape.done(core, safe, EpochEnd::Commit, now));
                return;
            }
            self.retire(hw, core, now);
        }
    }

    /// Sends the entries of `core` that are permitted to go to their controllers.
    fn send(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let passes_older = self.is_flaw(Flaw::PassesOlder);
        let front = &mut self.buffers.cores[core];
        if front.buffer.waiting() == 0 {
            return;
        }
        let safe = safe(front);
        let is_full = front.buffer.waiting() >= self.buffers.sizes.flush_from;
        let in_order = !front.own.refused.is_empty();
        let mut sent = 0;
        for at in 0..front.buffer.entries().len() {
            let entry = front.buffer.entries()[at];
            if entry.is_sent || in_order && entry.epoch != safe {
                continue;
            }
            let is_due = is_full || entry.epoch <= front.demanded;
            if !is_due && !front.own.refused.contains(&entry.slot) {
                continue;
            }
            let is_older = |other: &Entry| (other.line, other.epoch) == (entry.line, entry.epoch);
            if !passes_older && front.buffer.entries().iter().take(at).any(is_older) {
                continue;
            }
            front.buffer.send(at);
            hw.recorder.note(move |tape| tape.flushes(core, entry.epoch, None, now));
            front.own.refused.retain(|slot| *slot != entry.slot);
            let is_early = entry.epoch != safe;
            if is_early {
                hw.counters.early_flushes += 1;
                let controllers = &mut front.timeline.state(entry.epoch).controllers;
                *controllers |= 1 << hw.memory.home(entry.line);
            }
            let arrives = hw.mesh.data(core, hw.memory_tile(entry.line), now + sent);
            let message = Message::Flush { core: core as u8, slot: entry.slot, is_early };
            hw.queue.event(arrives, Event::Design(message));
            sent += 1;
        }
    }

    /// The oldest epoch of `core` is committed.
    fn retire(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let state = self.buffers.retire(hw, core, now);
        let front = &mut self.buffers.cores[core];
        let epoch = front.timeline.durable;
        if front.own.ending == front.timeline.current() {
            self.buffers.close(hw, core, now);
        }
        for who in self.buffers.cores[core].released() {
            hw.wake(who, now);
        }
        for other in (0..64).filter(|other| state.dependents >> other & 1 == 1) {
            let told = hw.mesh.control(core, other, now);
            let message = Message::Resolved { core: other as u8, of: core as u8, epoch };
            hw.queue.event(told, Event::Design(message));
        }
    }

    /// Requests that the entries of `core` up to `epoch` be flushed as soon as permitted.
    pub(super) fn demand(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        self.buffers.cores[core].demand(epoch);
        self.advance(hw, core, now);
    }

    /// A waiter needs `epoch` of `core`, which ends now or when the epoch table has room.
    pub(super) fn wanted(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let timeline = &self.buffers.cores[core].timeline;
        let is_open = timeline.current() == epoch && !timeline.is_open_empty();
        if is_open && !self.close(hw, core, now) {
            self.buffers.cores[core].own.ending = epoch;
        }
        self.demand(hw, core, epoch, now);
    }

    /// A controller has no room for an entry of `core`, which is sent again when it is safe.
    pub(super) fn refused(&mut self, hw: &mut Hw<Message>, core: usize, slot: u8, now: Cycle) {
        let front = &mut self.buffers.cores[core];
        front.buffer.take_back(slot);
        front.own.refused.push(slot);
        self.advance(hw, core, now);
    }

    /// A controller has committed the oldest epoch of `core`.
    pub(super) fn committed(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let front = &mut self.buffers.cores[core];
        front.own.committing = front.own.committing.saturating_sub(1);
        if front.own.committing == 0 && self.flaw != Flaw::CommitsEarly {
            self.retire(hw, core, now);
            self.advance(hw, core, now);
        }
    }
}

impl Buffered for Asap {
    type Own = Own;

    fn buffers(&mut self) -> &mut Buffers<Own> {
        &mut self.buffers
    }

    /// Returns false if the epoch table is full: its epochs are then flushed, and the caller waits
    /// for the oldest to commit.
    fn close(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) -> bool {
        let before = self.buffers.cores[core].timeline.current() - 1;
        if self.buffers.cores[core].timeline.in_flight() >= self.epochs {
            self.demand(hw, core, before, now);
        }
        let has_room = self.buffers.cores[core].timeline.in_flight() < self.epochs;
        if has_room {
            self.buffers.close(hw, core, now);
            self.advance(hw, core, now);
        }
        has_room
    }
}
