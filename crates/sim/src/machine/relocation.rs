//! The programs' requests to relocation hardware.
//!
//! A copy of a line is read in pieces of source lines, and leaves the store buffer as one entry.
//! The program does not wait for it. Lookups read the pool with loads.

use super::System;
use super::front::Pause;
use crate::caches::private::Way;
use crate::core::{Entry, Kind, Waits};
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::relocation::{Lookup, Walk};
use crate::{Cycle, LineId};
use seawall_memory::relocation::{Forwarding, Relocation};
use seawall_memory::{Addr, Width};

impl<D: Design> System<D> {
    /// `core` has stored a line of a copy, or a part of one, in `way`.
    pub(super) fn copied(&mut self, core: usize, way: Way, line: LineId) {
        if self.hw.is_pm(line) {
            self.hw.private[core].copy_mut(way).relocated = true;
        }
    }

    /// Puts `bytes` of a copy, all of one line, into the store buffer.
    pub(super) fn attempt_copy(
        &mut self,
        core: usize,
        at: Addr,
        words: &[u64],
        bytes: usize,
    ) -> Result<(), Pause> {
        self.begin(core);
        if self.hw.cores[core].buffer.len() >= self.hw.config.core.store_buffer {
            return Err(self.wait(core, Waits::Room));
        }
        let place = self.place(at, Width::B8);
        for (number, value) in words.iter().enumerate() {
            let left = bytes - 8 * number;
            let (kind, mask) = match left {
                0..8 => (Kind::Copy, (1 << (8 * left)) - 1),
                8 => (Kind::Copy, u64::MAX),
                _ => (Kind::Part, u64::MAX),
            };
            let word = place.word + number as u8;
            let (count, line, value) = (1, place.line, *value);
            let entry = Entry { kind, word, count, line, from: 0, mask, value };
            self.push(core, entry);
        }
        Ok(())
    }

    /// Asks the hardware of `core` for the destination of the object at `at`.
    pub(super) fn attempt_lookup(&mut self, core: usize, at: Addr) -> Result<Lookup, Pause> {
        self.begin(core);
        self.in_turn(core)?;
        let start = self.hw.cores[core].start_of(at);
        let lookup = self.design.look_up(&mut self.hw, core, at);
        // The next read uses this address and waits for it. For an object that stays, the answer is
        // null, and a predicted branch leaves the program with the address that it has.
        let (next, cycles) = match lookup {
            Lookup::At(to, cycles) if to == at => (Addr::NULL, cycles),
            Lookup::At(to, cycles) => (to, cycles),
            Lookup::Walk(walk, cycles) => (walk.place, cycles),
        };
        let is_long = cycles > self.hw.config.l1.latency;
        let state = &mut self.hw.cores[core];
        state.loaded(next.bits(), start + cycles, Reason::Forwarding, is_long);
        Ok(lookup)
    }

    /// `core` has read what `walk` requested, until `done`; returns where the object at `at` has
    /// moved.
    pub(super) fn has_walked(
        &mut self,
        core: usize,
        at: Addr,
        walk: &Walk,
        entry: Option<Forwarding>,
        done: Cycle,
    ) -> Addr {
        let to = self.design.walked(core, at, walk, entry);
        self.hw.cores[core].loaded(to.bits(), done, Reason::Forwarding, false);
        to
    }

    /// Sets the registers, once all stores of `core` have left its store buffer.
    pub(super) fn attempt_registers(
        &mut self,
        core: usize,
        registers: Option<Relocation>,
    ) -> Result<(), Pause> {
        self.begin(core);
        self.in_turn(core)?;
        if !self.hw.cores[core].buffer.entries.is_empty() {
            return Err(self.wait(core, Waits::Empty));
        }
        self.design.set_relocation(&mut self.hw, registers);
        Ok(())
    }
}
