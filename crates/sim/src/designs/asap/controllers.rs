//! The controllers' side: the handling of flushes and commits.

use super::table::Taken;
use super::{Asap, Flaw, Message};
use crate::families::buffers::{Call, Source};
use crate::hw::{Event, Hw, Token};
use crate::{Cycle, LineId};

/// From this value on, a token names a controller and a record of its table, not a slot of a
/// buffer.
const DELAYED: usize = 128;

impl Asap {
    fn entry(&self, hw: &Hw<Message>, core: usize, slot: u8) -> (LineId, usize, Source) {
        let entry = self.buffers.cores[core].buffer.entry(slot);
        (entry.line, hw.memory.home(entry.line), Source { core, epoch: entry.epoch })
    }

    /// Writes the entry in `slot` of `core`'s buffer to memory; it is at its controller already.
    fn write(&self, hw: &mut Hw<Message>, core: usize, slot: u8, now: Cycle) {
        let buffer = &self.buffers.cores[core].buffer;
        let line = buffer.entry(slot).line;
        let tile = hw.memory_tile(line);
        hw.write_buffered(line, buffer.data(slot), tile, now, Token::of(core, slot.into()));
    }

    /// The entry in `slot` of `core`'s buffer has reached its controller.
    pub(super) fn flushed(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        slot: u8,
        is_early: bool,
        now: Cycle,
    ) {
        let (line, home, owner) = self.entry(hw, core, slot);
        let data = *self.buffers.cores[core].buffer.data(slot);
        let tile = hw.controller_tile(home);
        let answer = match self.tables[home].take(line, owner, data, is_early) {
            Taken::Written => return self.write(hw, core, slot, now),
            Taken::AfterRead => {
                hw.counters.undo_records += 1;
                let read = if self.undo_reads { hw.memory.read(line, now) } else { now };
                let message = Message::Read { core: core as u8, slot };
                return hw.queue.event(read, Event::Design(message));
            }
            Taken::Refused if !self.is_flaw(Flaw::IgnoresNack) => {
                hw.counters.refused_flushes += 1;
                let told = hw.mesh.control(tile, core, now);
                let message = Message::Refused { core: core as u8, slot };
                return hw.queue.event(told, Event::Design(message));
            }
            answer => answer,
        };
        hw.counters.delay_records += u64::from(answer == Taken::Delayed);
        let told = hw.mesh.control(tile, core, now + hw.config.memory.post);
        let call = Call::Acknowledged { core: core as u8, slot };
        hw.queue.event(told, Event::Design(call.into()));
    }

    /// The old value of a line has been read: the early value that waited for it replaces it.
    pub(super) fn old_read(&mut self, hw: &mut Hw<Message>, core: usize, slot: u8, now: Cycle) {
        let (line, home, _) = self.entry(hw, core, slot);
        self.tables[home].remember(line, *hw.in_memory(line));
        self.write(hw, core, slot, now);
    }

    /// The write of `token` is in a controller's queue or, without ADR, in the cells.
    pub(super) fn in_queue(&mut self, hw: &mut Hw<Message>, token: Token, now: Cycle) {
        let core = usize::from(token.core);
        if let Some(controller) = usize::from(token.bank).checked_sub(DELAYED) {
            return self.tables[controller].left(token.core);
        }
        let (line, home, owner) = self.entry(hw, core, token.bank);
        if self.is_flaw(Flaw::ReleasesUndoEarly) {
            self.tables[home].forget(line, owner);
        }
        let told = hw.mesh.control(hw.controller_tile(home), core, now);
        let call = Call::Acknowledged { core: token.core, slot: token.bank };
        hw.queue.event(told, Event::Design(call.into()));
    }

    /// `controller` learns that `owner` commits.
    pub(super) fn commits(
        &mut self,
        hw: &mut Hw<Message>,
        owner: Source,
        controller: usize,
        now: Cycle,
    ) {
        let tile = hw.controller_tile(controller);
        for write in self.tables[controller].commit(owner) {
            let token = Token::of(write.id.into(), DELAYED + controller);
            hw.write_buffered(write.line, &write.data, tile, now, token);
        }
        let told = hw.mesh.control(tile, owner.core, now);
        hw.queue.event(told, Event::Design(Message::Committed { core: owner.core as u8 }));
    }
}
