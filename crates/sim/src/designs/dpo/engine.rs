//! The sending of entries of the persist buffers, and the agreement between controllers.
//!
//! One entry per cycle leaves each buffer, in order. The path from a core to a controller keeps
//! that order. With one controller a marker is just a message on that path; with several the
//! controllers must agree on it, and the core waits for that. Entries are freed in order too, so
//! that an ID stands for all entries of its core up to it.

use super::{Buffer, Content, Dpo, Drain, Flaw, Message};
use crate::hw::{Event, Hw, Token};
use crate::{Cycle, LineId};

/// The end of a buffer from which entries leave.
pub(super) struct Sender {
    /// The earliest cycle in which the next entry leaves.
    next: Cycle,
    /// Whether a marker is not in place yet: no entry behind it leaves.
    is_marking: bool,
    /// Whether the next entry depends on one that has not gone.
    is_blocked: bool,
    /// When the last message to each controller arrives.
    arrivals: Vec<Cycle>,
}

impl Sender {
    pub(super) fn new(controllers: usize) -> Sender {
        Sender { next: 0, is_marking: false, is_blocked: false, arrivals: vec![0; controllers] }
    }
}

impl Dpo {
    /// Sends the entries of `core`'s buffer that are permitted to go.
    pub(super) fn send(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        self.buffers[core].sender.is_blocked = false;
        loop {
            let buffer = &self.buffers[core];
            if buffer.sender.is_marking {
                return;
            }
            let Some(place) = buffer.entries.iter().position(|entry| !entry.is_sent) else {
                return;
            };
            let is_gone = |on: &(u8, u32)| self.buffers[usize::from(on.0)].gone >= on.1;
            if !buffer.entries[place].depends_on.iter().all(is_gone) {
                self.buffers[core].sender.is_blocked = true;
                return;
            }
            self.send_entry(hw, core, place, now);
        }
    }

    fn send_entry(&mut self, hw: &mut Hw<Message>, core: usize, place: usize, now: Cycle) {
        let sender = &mut self.buffers[core].sender;
        let at = now.max(sender.next);
        sender.next = at + 1;
        let entry = &mut self.buffers[core].entries[place];
        let slot = entry.slot;
        if let Content::Fence { .. } = entry.content {
            entry.is_sent = true;
            return self.send_marker(hw, core, Some(slot), at);
        }
        if std::mem::take(&mut entry.needs_marker) {
            return self.send_marker(hw, core, None, at);
        }
        entry.is_sent = true;
        let Content::Store { line, data, .. } = entry.content else { return };
        let last = &mut self.buffers[core].sender.arrivals[hw.memory.home(line)];
        *last = hw.write_from_buffer(line, &data, core, (at, *last), Token::of(core, slot.into()));
    }

    /// Sends a marker to the controllers.
    fn send_marker(&mut self, hw: &mut Hw<Message>, core: usize, slot: Option<u8>, at: Cycle) {
        let sender = &mut self.buffers[core].sender;
        let first = hw.controller_tile(0);
        let only_first = self.controllers == 1 || self.flaw == Flaw::MarksOneController;
        let mut all_have_it = 0;
        let told = if only_first { 1 } else { self.controllers };
        for (controller, last) in sender.arrivals.iter_mut().enumerate().take(told) {
            let tile = hw.controller_tile(controller);
            *last = hw.mesh.control(core, tile, at).max(*last);
            all_have_it = all_have_it.max(hw.mesh.control(tile, first, *last));
        }
        let mut effect = all_have_it;
        if !only_first {
            for controller in 1..self.controllers {
                let tile = hw.controller_tile(controller);
                effect = effect.max(hw.mesh.control(first, tile, all_have_it));
            }
            sender.is_marking = true;
        }
        hw.queue.event(effect, Event::Design(Message::Marker { core: core as u8, slot }));
    }

    /// A marker takes effect in all queues.
    fn mark(&mut self, hw: &mut Hw<Message>, core: u8, slot: Option<u8>, now: Cycle) {
        let told = if self.flaw == Flaw::MarksOneController { 1 } else { self.controllers };
        let mut all_complete = now;
        let floors = (0..told).map(|to| {
            let complete = (0..told).map(|from| {
                let (from_tile, to_tile) = (hw.controller_tile(from), hw.controller_tile(to));
                hw.memory.settled(from).max(now) + hw.mesh.lone(from_tile, to_tile, false)
            });
            complete.max().unwrap_or(now)
        });
        let floors: Vec<Cycle> = floors.collect();
        for (controller, floor) in floors.into_iter().enumerate() {
            all_complete = all_complete.max(floor);
            if self.flaw != Flaw::IgnoresMarkers {
                let entry = hw.memory.mark(controller, now, floor);
                if let Some(entry) = entry {
                    hw.recorder.note(move |tape| tape.enters(entry));
                    hw.detail.note(|tally| tally.enters(entry));
                }
            }
        }
        if told > 1 {
            hw.queue.event(all_complete, Event::Design(Message::Complete));
        }
        let mut entries = self.buffers[usize::from(core)].entries.iter();
        let fence = entries.find(|entry| Some(entry.slot) == slot).map(|entry| &entry.content);
        if matches!(fence, Some(Content::Fence { is_drain: true })) {
            hw.queue.event(all_complete, Event::Design(Message::Drained { core }));
        }
        let back = hw.mesh.control(hw.controller_tile(0), core.into(), now);
        hw.queue.event(back, Event::Design(Message::InPlace { core, slot }));
    }

    pub(super) fn receive(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::Accepted { core, slot, from } => {
                let mut told = [0; 64];
                hw.mesh.broadcast(from.into(), now, &mut told);
                let cores = &told[..self.buffers.len()];
                let all = cores.iter().copied().max().unwrap_or(now).max(now);
                hw.queue.event(all, Event::Design(Message::Gone { core, slot }));
            }
            Message::Gone { core, slot } => self.gone(hw, core.into(), slot, now),
            Message::Marker { core, slot } => self.mark(hw, core, slot, now),
            Message::InPlace { core, slot } => {
                self.buffers[usize::from(core)].sender.is_marking = false;
                match slot {
                    Some(slot) => self.gone(hw, core.into(), slot, now),
                    None => self.send(hw, core.into(), now),
                }
            }
            Message::Complete => {
                for (from, to) in (0..self.controllers).flat_map(|from| {
                    (0..self.controllers).filter(move |to| *to != from).map(move |to| (from, to))
                }) {
                    hw.mesh.control(hw.controller_tile(from), hw.controller_tile(to), now);
                }
            }
            Message::Drained { core } => {
                let told = hw.mesh.control(hw.controller_tile(0), core.into(), now);
                hw.queue.event(told, Event::Design(Message::Told { core }));
            }
            Message::Told { core } => {
                let buffer = &mut self.buffers[usize::from(core)];
                if let Drain::Waits(who) = std::mem::replace(&mut buffer.drain, Drain::Done) {
                    hw.wake(who, now);
                }
            }
            Message::Settled { core, line } => {
                self.buffers[usize::from(core)].filter.remove(line);
            }
        }
    }

    /// The entry in `slot` of `core` is in its place, and all cores know it.
    fn gone(&mut self, hw: &mut Hw<Message>, core: usize, slot: u8, now: Cycle) {
        let settled = (0..self.controllers).map(|controller| hw.memory.settled(controller));
        let settled = settled.max().unwrap_or(now);
        let buffer = &mut self.buffers[core];
        let mut entries = buffer.entries.iter_mut();
        entries.find(|entry| entry.slot == slot).expect("it is here").is_gone = true;
        while let Some(line) = buffer.give_up_first() {
            let Some(line) = line else { continue };
            if settled > now {
                buffer.filter.add(line);
                let message = Message::Settled { core: core as u8, line };
                hw.queue.event(settled, Event::Design(message));
            }
        }
        hw.detail.note(|tally| tally.buffered(core, buffer.entries.len(), now));
        for who in std::mem::take(&mut buffer.full) {
            hw.wake(who, now);
        }
        for (line, who) in std::mem::take(&mut self.fetches) {
            if self.is_buffered(line) {
                self.fetches.push((line, who));
            } else {
                hw.wake(who, now);
            }
        }
        for other in 0..self.buffers.len() {
            if other == core || self.buffers[other].sender.is_blocked {
                self.send(hw, other, now);
            }
        }
    }
}

impl Buffer {
    /// Frees the oldest entry if its write has gone; returns its line, if it has one.
    fn give_up_first(&mut self) -> Option<Option<LineId>> {
        let entry = self.entries.pop_front_if(|entry| entry.is_gone)?;
        self.gone = entry.number;
        self.free.push(entry.slot);
        match entry.content {
            Content::Store { line, .. } => Some(Some(line)),
            Content::Fence { .. } => Some(None),
        }
    }
}
