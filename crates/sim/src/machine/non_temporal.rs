//! The path of non-temporal stores: into the write-combining buffer of their core, and out of it.
//!
//! An entry that leaves is visible to all cores at once, and its path to memory is followed to the
//! end, as in the rest of the machine: over the home of the line, where the directory names the
//! cores that must invalidate their copies. As every other request, it waits for a line whose fill
//! is under way.

use super::System;
use super::stores::store_of;
use crate::Cycle;
use crate::LineId;
use crate::core::Waiter;
use crate::core::{Entry, Kind};
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::hw::{Event, Gate};

const REASON: Reason = Reason::WriteCombining;

impl<D: Design> System<D> {
    /// A non-temporal store of `core` has entered its store buffer, as this number of entries.
    pub(super) fn streamed(&mut self, core: usize, entries: usize) {
        self.done(core);
        self.hw.write_combining[core].queued += entries;
        self.hw.counters.references += 1;
        self.hw.counters.stores += 1;
        self.hw.counters.stores_nt += 1;
    }

    /// Puts the non-temporal store at the head of the store buffer, and those of the same line
    /// behind it, into the write-combining buffer.
    pub(super) fn drain_non_temporal(&mut self, who: Waiter, head: Entry, now: Cycle) -> Gate {
        let core = who.core;
        let combining = &mut self.hw.write_combining[core];
        if combining.find(head.line).is_none() && !combining.has_room() {
            if combining.leaving == 0 {
                let gate = self.leave(core, 0, now);
                if gate != Gate::Go {
                    return gate;
                }
            }
            self.hw.write_combining[core].waits = Some(who);
            return Gate::Wait(REASON);
        }
        loop {
            let entry = self.hw.cores[core].buffer.pop().expect("a store is at the head");
            let combining = &mut self.hw.write_combining[core];
            combining.queued -= 1;
            let full = combining.join(&entry);
            if self.trace.on {
                // It is in no cache: the way means nothing to an observer.
                self.tell_store(core, store_of(entry, 0), entry.count, now);
            }
            // One that is full in the middle of a store of its line takes the rest first.
            if let Some(full) = full.filter(|_| entry.kind == Kind::NonTemporal) {
                // A refusal is harmless: the entry leaves later, as a victim or at a fence.
                let _ = self.leave(core, full, now);
                return Gate::Go;
            }
            let next = self.hw.cores[core].buffer.entries.front();
            let joins = next.is_some_and(|next| {
                next.kind.is_non_temporal() && next.line == head.line && next.from <= now
            });
            if !joins {
                return Gate::Go;
            }
        }
    }

    /// Makes all entries of the core leave, and waits until controllers have accepted them.
    pub(super) fn empty_write_combining(&mut self, who: Waiter, now: Cycle) -> Gate {
        let core = who.core;
        while self.hw.write_combining[core].is_open() {
            let gate = self.leave(core, 0, now);
            if gate != Gate::Go {
                return gate;
            }
        }
        let combining = &mut self.hw.write_combining[core];
        if combining.leaving == 0 {
            return Gate::Go;
        }
        combining.waits = Some(who);
        Gate::Wait(REASON)
    }

    /// Makes the entry of `line` leave, if `core` has one.
    pub(super) fn leave_line(&mut self, core: usize, line: LineId, now: Cycle) -> Gate {
        match self.hw.write_combining[core].find(line) {
            Some(number) => self.leave(core, number, now),
            None => Gate::Go,
        }
    }

    fn leave(&mut self, core: usize, number: usize, now: Cycle) -> Gate {
        let Some(line) = self.hw.write_combining[core].line(number) else { return Gate::Go };
        let slot = self.hw.llc.find(line);
        if let Some(ready) = slot.and_then(|slot| self.hw.still_coming(slot, now)) {
            return Gate::At(ready + 1, REASON);
        }
        let filling = self.hw.write_combining[core].take(number);
        let token = self.design.combined(&mut self.hw, core, line);
        self.hw.write_past_caches(core, &filling, now, token);
        Gate::Go
    }

    /// A controller has accepted an entry of `core`.
    pub(super) fn taken(&mut self, core: usize, now: Cycle) {
        let combining = &mut self.hw.write_combining[core];
        combining.leaving -= 1;
        if let Some(who) = combining.waits.take() {
            self.hw.wake(who, now);
        }
    }

    /// Nothing else happens: open entries leave. Returns false if there are none.
    pub(super) fn leave_at_rest(&mut self) -> bool {
        let now = self.hw.queue.now();
        let open = (0..self.hw.cores.len()).filter(|core| self.hw.write_combining[*core].is_open());
        let open: Vec<usize> = open.collect();
        for core in &open {
            self.hw.queue.event(now, Event::Rest { core: *core as u8 });
        }
        !open.is_empty()
    }

    /// Empties the write-combining buffer of `core`, which is idle.
    pub(super) fn rest(&mut self, core: usize, now: Cycle) {
        while self.hw.write_combining[core].is_open() {
            if let Gate::At(at, _) = self.leave(core, 0, now) {
                return self.hw.queue.event(at, Event::Rest { core: core as u8 });
            }
        }
    }
}
