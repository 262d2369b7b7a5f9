//! What writes the persist buffers, behind the programs: section 6.3 of the WHISPER paper.
//!
//! An epoch is written when it is closed; an open one from a number of entries in the buffer on, at
//! the end of the thread, and every few thousand cycles. The controllers have the data; they are
//! told to write, an entry a cycle, and acknowledge. An epoch that depends on another thread's asks
//! for the global timestamps again and again until they say that it is durable.

use super::super::buffers::Filter;
use super::{Flaw, Hops, Message};
use crate::hw::{Event, Hw, Token};
use crate::mesh::Tile;
use crate::{Cycle, Epoch, LineId};

/// Where the global timestamps are: at the first bank of the shared cache.
pub(super) const TIMESTAMPS: Tile = 0;

impl Hops {
    /// Writes what may be written of `core`'s buffer, and retires the epochs that are durable.
    pub(super) fn write(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        loop {
            if self.config.flaw == Flaw::SendsAtOnce {
                self.send(hw, core, Epoch::MAX, now);
            }
            let head = self.cores[core].timeline.durable + 1;
            if !self.may_start(hw, core, now) {
                return;
            }
            self.send(hw, core, head, now);
            let thread = &mut self.cores[core];
            let left = thread.timeline.state(head).left;
            if left > 0 || head == thread.timeline.current() && !thread.is_wrapping {
                return;
            }
            if thread.is_wrapping && head == thread.timeline.current() {
                self.wrap(hw, core, now);
            }
            self.retire(hw, core, now);
        }
    }

    /// True if nothing of another thread is in front of `core`'s oldest epoch; asks otherwise.
    fn may_start(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) -> bool {
        let thread = &mut self.cores[core];
        if thread.timeline.oldest_depends_on().is_none() {
            return true;
        }
        let is_needed = thread.is_wrapping || thread.timeline.is_any_closed();
        let has_work = is_needed || !thread.buffer.entries.is_empty();
        if !thread.is_asking && has_work {
            thread.is_asking = true;
            let at = hw.mesh.control(core, TIMESTAMPS, now);
            hw.queue.event(at, Event::Design(Message::Ask { core: core as u8 }));
        }
        false
    }

    /// The global timestamps have come to `core`.
    pub(super) fn answered(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.is_asking = false;
        let head = thread.timeline.durable + 1;
        if let Some(source) = thread.timeline.oldest_depends_on() {
            let (known, epochs) = (self.global[source.core], self.config.epochs);
            let is_durable = match self.config.flaw {
                Flaw::IgnoresWrap => known % epochs >= source.epoch % epochs,
                _ => known >= source.epoch,
            };
            if !is_durable {
                thread.is_asking = true;
                let at = hw.mesh.control(core, TIMESTAMPS, now + self.config.poll);
                return hw.queue.event(at, Event::Design(Message::Ask { core: core as u8 }));
            }
            thread.timeline.state(head).depends_on = None;
        }
        self.write(hw, core, now);
    }

    /// Tells the controllers to write the waiting entries of `core` up to `epoch`, if it is time.
    fn send(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let thread = &mut self.cores[core];
        let waiting = thread.buffer.entries.iter().filter(|entry| !entry.is_sent).count();
        if waiting < self.config.flush_from && thread.demanded <= thread.timeline.durable {
            return;
        }
        let is_full = waiting >= self.config.flush_from;
        let upto = if is_full { epoch } else { epoch.min(thread.demanded) };
        let ready = thread.buffer.entries.iter_mut();
        let ready = ready.filter(|entry| !entry.is_sent && entry.epoch <= upto);
        for (number, entry) in ready.enumerate() {
            entry.is_sent = true;
            let token = Token::of(core, entry.slot.into());
            hw.write_buffered(entry.line, &entry.data, core, now + number as Cycle, token);
        }
    }

    /// The oldest epoch of `core` is durable.
    fn retire(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let thread = &mut self.cores[core];
        let state = thread.timeline.retire();
        let epoch = thread.timeline.durable;
        hw.counters.epochs += u64::from(!state.lines.is_empty());
        let told = hw.mesh.control(core, TIMESTAMPS, now);
        hw.queue.event(told, Event::Design(Message::Durable { core: core as u8, epoch }));
        let drains = std::mem::take(&mut thread.drains);
        let (done, still): (Vec<_>, _) = drains.into_iter().partition(|(last, _)| *last <= epoch);
        thread.drains = still;
        for (_, who) in done {
            hw.wake(who, now);
        }
        for line in state.lines {
            self.unfilter(hw, line, now);
        }
        // What still waits may wait for an epoch that was not there when it asked.
        let waiting = self.filters.iter().flat_map(Filter::waiting);
        for line in waiting.collect::<Vec<_>>() {
            self.ask_for(hw, line, now);
        }
    }

    /// An entry of `line` is buffered no longer; who waits to fetch a line may do so.
    fn unfilter(&mut self, hw: &mut Hw<Message>, line: LineId, now: Cycle) {
        let home = hw.memory.home(line);
        self.filters[home].remove(line);
        for who in self.filters[home].released() {
            let told = hw.mesh.control(hw.memory_tile(line), who.core, now);
            hw.wake(who, told);
        }
    }

    /// An entry of `core` is durable.
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
        self.write(hw, core, now);
    }

    /// `core` has drained: its timestamp starts again, and nobody depends on an older one.
    fn wrap(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let mut told = [0; 64];
        hw.mesh.broadcast(core, now, &mut told);
        for other in &mut self.cores {
            other.timeline.forget(core);
        }
        let thread = &mut self.cores[core];
        thread.is_wrapping = false;
        thread.timeline.close();
        for who in std::mem::take(&mut thread.waiting) {
            hw.wake(who, now);
        }
    }

    /// A fetch of `line` waits at the controller from `asked` on, which asks those for it whose
    /// entries keep it waiting.
    pub(super) fn ask_for(&mut self, hw: &mut Hw<Message>, line: LineId, asked: Cycle) {
        let home = hw.memory.home(line);
        for (owner, thread) in self.cores.iter_mut().enumerate() {
            let filter = &self.filters[home];
            let is_near = |other: LineId| hw.memory.home(other) == home;
            let is_it = |other: &LineId| is_near(*other) && filter.shares(line, *other);
            if let Some(epoch) = thread.timeline.newest_with(is_it) {
                let told = hw.mesh.control(hw.memory_tile(line), owner, asked);
                let message = Message::Wanted { core: owner as u8, epoch };
                hw.queue.event(told, Event::Design(message));
            }
        }
    }

    pub(super) fn wanted(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.demanded = thread.demanded.max(epoch);
        if thread.timeline.current() == epoch && !thread.is_wrapping {
            self.close(hw, core, now);
        } else {
            self.write(hw, core, now);
        }
    }

    /// The buffer of `core` will be written after an interval, if it is not empty then.
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
        if entry.since + self.config.interval <= now {
            thread.demanded = thread.demanded.max(entry.epoch);
        }
        self.set_timer(hw, core, now);
        self.write(hw, core, now);
    }
}
