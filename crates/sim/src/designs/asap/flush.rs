//! The cores' side: what flushes the persist buffers, and what commits the epochs.
//!
//! A buffer is flushed from a few entries on, when a drain, a dependent or a fetch waits for it,
//! and every few thousand cycles: an entry a cycle with its data, oldest first. A version of a line
//! waits for the acknowledgement of one before it of the same epoch; it absorbs stores meanwhile.

use super::super::buffers::Entry;
use super::{Asap, Flaw, Message};
use crate::hw::{Event, Hw};
use crate::{Cycle, Epoch};

impl Asap {
    /// Flushes what `core` may flush now, and commits the epochs that are complete and safe.
    pub(super) fn advance(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        loop {
            self.send(hw, core, now);
            let thread = &mut self.cores[core];
            let (safe, timeline) = (thread.safe(), &mut thread.timeline);
            let is_busy = thread.committing > 0;
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
            if self.config.flaw != Flaw::CommitsEarly && controllers != 0 {
                thread.committing = controllers.count_ones();
                return;
            }
            self.retire(hw, core, now);
        }
    }

    /// Sends the entries of `core` that may go to their controllers.
    fn send(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let passes_older = self.is_flaw(Flaw::PassesOlder);
        let thread = &mut self.cores[core];
        let safe = thread.safe();
        let waiting = thread.buffer.entries.iter().filter(|entry| !entry.is_sent).count();
        let (is_full, in_order) = (waiting >= self.config.flush_from, !thread.refused.is_empty());
        let mut sent = 0;
        for at in 0..thread.buffer.entries.len() {
            let entry = thread.buffer.entries[at];
            let is_refused = thread.refused.contains(&entry.slot);
            let is_due = is_full || is_refused || entry.epoch <= thread.demanded;
            if entry.is_sent || !is_due || in_order && entry.epoch != safe {
                continue;
            }
            let is_older =
                |other: &Entry| (other.line, other.epoch) == (entry.line, entry.epoch);
            if !passes_older && thread.buffer.entries.iter().take(at).any(is_older) {
                continue;
            }
            thread.buffer.entries[at].is_sent = true;
            thread.refused.retain(|slot| *slot != entry.slot);
            let is_early = entry.epoch != safe;
            if is_early {
                hw.counters.early_flushes += 1;
                let controllers = &mut thread.timeline.state(entry.epoch).controllers;
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
        let thread = &mut self.cores[core];
        let state = thread.timeline.retire();
        let epoch = thread.timeline.durable;
        hw.counters.epochs += u64::from(!state.lines.is_empty());
        if thread.ending == thread.timeline.current() {
            thread.timeline.close();
        }
        let drains = std::mem::take(&mut thread.drains);
        let (done, still): (Vec<_>, _) = drains.into_iter().partition(|(last, _)| *last <= epoch);
        thread.drains = still;
        let waiting = std::mem::take(&mut thread.waiting);
        for who in done.into_iter().map(|(_, who)| who).chain(waiting) {
            hw.wake(who, now);
        }
        for other in (0..self.cores.len()).filter(|other| state.dependents >> other & 1 == 1) {
            let told = hw.mesh.control(core, other, now);
            let message = Message::Resolved { core: other as u8, of: core as u8, epoch };
            hw.queue.event(told, Event::Design(message));
        }
        for line in state.lines {
            self.unfilter(hw, line, now);
        }
    }

    /// Closes the open epoch of `core` and opens the next. False if the epoch table is full: then
    /// what is in it is flushed, and who asked waits for the oldest to commit.
    pub(super) fn close(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) -> bool {
        let before = self.cores[core].timeline.current() - 1;
        if self.cores[core].timeline.in_flight() >= self.config.epochs {
            self.demand(hw, core, before, now);
        }
        let timeline = &mut self.cores[core].timeline;
        let has_room = timeline.in_flight() < self.config.epochs;
        if has_room {
            timeline.close();
            self.advance(hw, core, now);
        }
        has_room
    }

    /// What `core` wrote up to `epoch` is flushed as soon as it may be.
    pub(super) fn demand(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.demanded = thread.demanded.max(epoch);
        self.advance(hw, core, now);
    }

    /// Somebody waits for `epoch` of `core`, which ends now or when the epoch table has room.
    pub(super) fn wanted(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let timeline = &self.cores[core].timeline;
        let is_open = timeline.current() == epoch && !timeline.is_open_empty();
        if is_open && !self.close(hw, core, now) {
            self.cores[core].ending = epoch;
        }
        self.demand(hw, core, epoch, now);
    }

    /// An entry of `core` is durable, or in the table.
    pub(super) fn acknowledged(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        slot: u8,
        now: Cycle,
    ) {
        let thread = &mut self.cores[core];
        let entry = thread.buffer.remove(slot);
        thread.timeline.state(entry.epoch).left -= 1;
        for who in std::mem::take(&mut thread.waiting) {
            hw.wake(who, now);
        }
        self.advance(hw, core, now);
    }

    /// A controller has no room for an entry of `core`, which comes again when it is safe.
    pub(super) fn refused(&mut self, hw: &mut Hw<Message>, core: usize, slot: u8, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.buffer.entry_mut(slot).is_sent = false;
        thread.refused.push(slot);
        self.advance(hw, core, now);
    }

    /// A controller has committed the oldest epoch of `core`.
    pub(super) fn committed(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.committing = thread.committing.saturating_sub(1);
        if thread.committing == 0 && self.config.flaw != Flaw::CommitsEarly {
            self.retire(hw, core, now);
            self.advance(hw, core, now);
        }
    }

    /// The buffer of `core` will be flushed after an interval, if it is not empty then.
    pub(super) fn set_timer(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let thread = &mut self.cores[core];
        if !thread.has_timer {
            thread.has_timer = true;
            let at = now + self.config.interval;
            hw.queue.event(at, Event::Design(Message::Periodic { core: core as u8 }));
        }
    }

    pub(super) fn periodic(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.has_timer = false;
        let Some(entry) = thread.buffer.oldest_waiting() else { return };
        let (since, epoch) = (entry.since, entry.epoch);
        self.set_timer(hw, core, now);
        if since + self.config.interval <= now {
            self.demand(hw, core, epoch, now);
        }
    }
}
