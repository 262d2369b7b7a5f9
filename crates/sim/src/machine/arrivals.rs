//! Writes that reach their controllers.

use super::System;
use crate::Cycle;
use crate::core::write_combining::Origin;
use crate::design::{Arrival, Design};
use crate::hw::writes::Arriving;
use crate::hw::{Event, Hw, Token};
use crate::memory::controller::{Late, Written};
use crate::timeline::QueueEntry;

impl<D: Design> System<D> {
    /// A write reaches its controller: whoever waits for it is told when it is taken, and when it
    /// is durable.
    pub(super) fn arrives(&mut self, write: Arriving, now: Cycle) {
        let Some(written) = self.take(&write, now) else { return };
        let Arriving { line, token, tile, origin, .. } = write;
        let from = self.hw.memory_tile(line);
        if origin != Origin::CACHE {
            let back = self.hw.mesh.control(from, origin.0.into(), written.accepted);
            self.hw.queue.event(back, Event::Taken { core: origin.0 });
        }
        if token != Token::NONE {
            self.design.arrived(&mut self.hw, token, from, written);
            let event = Event::WriteDurable { from: from as u8, tile, token };
            self.hw.queue.event(written.durable, event);
        }
    }

    /// Takes a write into its controller's queue, unless the design lets it wait.
    fn take(&mut self, write: &Arriving, now: Cycle) -> Option<Written> {
        if !D::SEES_ARRIVALS {
            return Some(self.enqueue(write, Late::default(), now));
        }
        match self.design.arriving(&mut self.hw, write, now) {
            Arrival::Taken(late) => {
                let written = self.enqueue(write, late, now);
                if write.has_copy {
                    self.design.persists(&mut self.hw, write, now, written.durable);
                }
                Some(written)
            }
            Arrival::Held => None,
        }
    }

    fn enqueue(&mut self, write: &Arriving, late: Late, now: Cycle) -> Written {
        let written = self.hw.memory.write_arrives(write.number, now, late, &mut self.hw.values);
        let Hw { recorder, detail, memory, .. } = &mut self.hw;
        let entry = || QueueEntry {
            queue: memory.write_queue(write.line),
            line: Some(write.line),
            core: write.token.waiter(),
            arrived: now,
            accepted: written.accepted,
            left: written.left,
        };
        recorder.note(|tape| tape.enters(entry()));
        detail.note(|tally| {
            tally.persists(write.number, written.durable);
            tally.enters(entry());
        });
        written
    }
}
