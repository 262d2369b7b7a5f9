//! The draining of the persist buffers behind the programs: section 6.3 of the WHISPER paper.
//!
//! An epoch is written when it is closed; an open one is written from a number of entries in the
//! buffer on, at the end of the thread, and every few thousand cycles. The controllers have the
//! data. The buffer orders one write per cycle, which they acknowledge. An epoch that depends on
//! another thread's polls the global timestamps until they show that one durable.

use super::{Flaw, Hops, Message};
use crate::families::buffers::Buffered;
use crate::hw::{Event, Hw, Token};
use crate::noc::mesh::Tile;
use crate::{Cycle, Epoch};

/// The tile of the global timestamps: that of the first bank of the shared cache.
pub(super) const TIMESTAMPS: Tile = 0;

impl Hops {
    /// Writes the entries of `core`'s buffer that are permitted to go, and removes the epochs that
    /// are durable.
    pub(super) fn write(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        loop {
            if self.flaw == Flaw::SendsAtOnce {
                self.send(hw, core, Epoch::MAX, now);
            }
            let head = self.buffers.cores[core].timeline.durable + 1;
            if !self.may_start(hw, core, now) {
                return;
            }
            self.send(hw, core, head, now);
            let front = &mut self.buffers.cores[core];
            let left = front.timeline.state(head).left;
            if left > 0 || head == front.timeline.current() && !front.own.is_wrapping {
                return;
            }
            if front.own.is_wrapping && head == front.timeline.current() {
                self.wrap(hw, core, now);
            }
            self.retire(hw, core, now);
        }
    }

    /// True if `core`'s oldest epoch depends on no other thread; otherwise polls the timestamps.
    fn may_start(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) -> bool {
        let front = &mut self.buffers.cores[core];
        if front.timeline.oldest_depends_on().is_none() {
            return true;
        }
        let is_needed = front.own.is_wrapping || front.timeline.is_any_closed();
        let has_work = is_needed || !front.buffer.entries().is_empty();
        if !front.own.is_asking && has_work {
            self.poll(hw, core, now);
        }
        false
    }

    /// Asks for the global timestamps at the next poll.
    fn poll(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        self.buffers.cores[core].own.is_asking = true;
        let next = now.next_multiple_of(self.poll);
        let at = hw.mesh.control(core, TIMESTAMPS, next);
        hw.queue.event(at, Event::Design(Message::Ask { core: core as u8 }));
    }

    /// The global timestamps have reached `core`.
    pub(super) fn answered(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let front = &mut self.buffers.cores[core];
        front.own.is_asking = false;
        let head = front.timeline.durable + 1;
        if let Some(source) = front.timeline.oldest_depends_on() {
            let (known, epochs) = (self.global[source.core], self.epochs);
            let is_durable = match self.flaw {
                Flaw::IgnoresWrap => known % epochs >= source.epoch % epochs,
                _ => known >= source.epoch,
            };
            if !is_durable {
                return self.poll(hw, core, now);
            }
            front.timeline.state(head).depends_on = None;
        }
        self.write(hw, core, now);
    }

    /// Orders the controllers to write the waiting entries of `core` up to `epoch`, if it is time.
    fn send(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let front = &mut self.buffers.cores[core];
        let is_full = front.buffer.waiting() >= self.buffers.sizes.flush_from;
        let upto = if is_full { epoch } else { epoch.min(front.demanded) };
        let (mut place, mut sent) = (0, 0);
        while front.buffer.waiting() > 0
            && let Some(entry) = front.buffer.entries().get(place).copied()
            && entry.epoch <= upto
        {
            if !entry.is_sent {
                front.buffer.send(place);
                hw.recorder.note(move |tape| tape.flushes(core, entry.epoch, None, now));
                let (data, token) =
                    (front.buffer.data(entry.slot), Token::of(core, entry.slot.into()));
                hw.write_buffered(entry.line, data, core, now + sent, token);
                sent += 1;
            }
            place += 1;
        }
    }

    /// The oldest epoch of `core` is durable.
    fn retire(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let told = hw.mesh.control(core, TIMESTAMPS, now);
        self.buffers.retire(hw, core, now);
        let epoch = self.buffers.cores[core].timeline.durable;
        hw.queue.event(told, Event::Design(Message::Durable { core: core as u8, epoch }));
    }

    /// `core` has drained: its timestamp restarts, and no dependence on an older one is left.
    fn wrap(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let mut told = [0; 64];
        hw.mesh.broadcast(core, now, &mut told);
        for other in &mut self.buffers.cores {
            other.timeline.forget(core);
        }
        self.buffers.close(hw, core, now);
        let front = &mut self.buffers.cores[core];
        front.own.is_wrapping = false;
        for who in front.released() {
            hw.wake(who, now);
        }
    }

    /// A waiter needs `epoch` of `core`, which ends if it is open.
    pub(super) fn wanted(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let front = &mut self.buffers.cores[core];
        front.demand(epoch);
        if front.timeline.current() == epoch && !front.timeline.is_open_empty() {
            self.close(hw, core, now);
        } else {
            self.write(hw, core, now);
        }
    }
}
