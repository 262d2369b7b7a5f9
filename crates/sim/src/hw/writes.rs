//! Lines on their way to memory: the sender, the previous content of memory, and copies.

use super::{Event, Hw, Token};
use crate::caches::private::Way;
use crate::caches::shared::Slot;
use crate::core::write_combining::{OpenEntry, Origin};
use crate::memory::versions::{LineData, Version};
use crate::noc::mesh::Tile;
use crate::{Cycle, LineId};

/// A write of a line on its way to memory.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    line: LineId,
    /// The old value of the line in memory.
    replaced: Version,
    /// The sender, which receives the acknowledgement.
    tile: Tile,
    token: Token,
    origin: Origin,
}

impl Outgoing {
    /// A write that comes from a cache.
    fn of_cache(line: LineId, replaced: Version, tile: Tile, token: Token) -> Outgoing {
        Outgoing { line, replaced, tile, token, origin: Origin::CACHE }
    }
}

/// A write that reaches its controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    /// The write's number; later writes have higher ones.
    pub(crate) number: u64,
    /// The line that it writes.
    pub(crate) line: LineId,
    /// Whether it takes bytes of a copy to memory.
    pub(crate) has_copy: bool,
    /// What its sender wants to hear.
    pub(crate) token: Token,
    /// The tile of the bank that sent it.
    pub(crate) tile: u8,
    pub(crate) origin: Origin,
}

impl<M: Copy> Hw<M> {
    /// Sends the shared cache's dirty `line` from `tile`, where its bank is, to its memory
    /// controller; the acknowledgement returns to `tile`.
    pub(crate) fn write_back(&mut self, line: LineId, tile: Tile, at: Cycle, token: Token) {
        let entry = self.llc.entry_mut(line);
        entry.dirty = false;
        let replaced = std::mem::replace(&mut entry.memory, Version::NONE);
        let number = self.send_write(Outgoing::of_cache(line, replaced, tile, token), at);
        self.pass_on(line, number);
    }

    /// If `line` in the shared cache has bytes of a copy, write `number` carries them.
    fn pass_on(&mut self, line: LineId, number: u64) {
        if !self.llc.relocated.is_empty() && self.llc.relocated.remove(&line) {
            self.memory.carries_copy(number);
        }
    }

    /// As [`write_back`](Hw::write_back), but memory receives `data`, an earlier value of the line:
    /// the line stays dirty.
    pub(crate) fn write_older(
        &mut self,
        line: LineId,
        data: &LineData,
        tile: Tile,
        at: Cycle,
        token: Token,
    ) {
        let version = self.values.differ(line);
        *self.values.version_mut(version) = *data;
        let replaced = std::mem::replace(&mut self.llc.entry_mut(line).memory, version);
        self.send_write(Outgoing::of_cache(line, replaced, tile, token), at);
    }

    /// As [`write_back`](Hw::write_back), for a clean line: memory receives `data` now, the shared
    /// cache receives them with [`agree`](Hw::agree).
    pub(crate) fn write_through(
        &mut self,
        line: LineId,
        data: &LineData,
        tile: Tile,
        at: Cycle,
        token: Token,
    ) {
        let (new, replaced) = (self.values.differ(line), self.values.differ(line));
        *self.values.version_mut(new) = *data;
        self.llc.entry_mut(line).memory = new;
        self.send_write(Outgoing::of_cache(line, replaced, tile, token), at);
    }

    /// As [`write_back`](Hw::write_back), for a line of the design itself, which no cache holds.
    pub(crate) fn write_own(
        &mut self,
        line: LineId,
        data: &LineData,
        tile: Tile,
        at: Cycle,
        token: Token,
    ) {
        debug_assert!((self.program_lines..self.pm_lines).contains(&line), "line {line}");
        let version = self.values.differ(line);
        *self.values.version_mut(version) = *data;
        self.values.swap(line, version);
        self.send_write(Outgoing::of_cache(line, version, tile, token), at);
    }

    /// A persist buffer's version of `line` goes to memory: its data are at the controller already;
    /// `tile` orders the write and receives the acknowledgement. The caches do not change.
    pub(crate) fn write_buffered(
        &mut self,
        line: LineId,
        data: &LineData,
        tile: Tile,
        at: Cycle,
        token: Token,
    ) {
        let replaced = self.hand_over(line, data);
        let arrives = self.mesh.control(tile, self.memory_tile(line), at);
        self.arrive(Outgoing::of_cache(line, replaced, tile, token), arrives);
    }

    /// As [`write_buffered`](Hw::write_buffered), but the message carries the data and arrives no
    /// earlier than at `not_before`; returns the arrival.
    pub(crate) fn write_from_buffer(
        &mut self,
        line: LineId,
        data: &LineData,
        tile: Tile,
        (at, not_before): (Cycle, Cycle),
        token: Token,
    ) -> Cycle {
        let replaced = self.hand_over(line, data);
        let arrives = self.mesh.data(tile, self.memory_tile(line), at).max(not_before);
        self.arrive(Outgoing::of_cache(line, replaced, tile, token), arrives);
        arrives
    }

    /// Replaces the value of `line` in memory by `data`; returns the previous value.
    fn hand_over(&mut self, line: LineId, data: &LineData) -> Version {
        let new = self.values.differ(line);
        *self.values.version_mut(new) = *data;
        let memory = self.llc.entry(line).memory;
        let replaced = if memory.is_some() {
            self.llc.entry_mut(line).memory = new;
            memory
        } else if self.llc.find(line).is_some() {
            let entry = self.llc.entry_mut(line);
            (entry.memory, entry.dirty) = (new, true);
            self.values.differ(line)
        } else {
            self.values.swap(line, new);
            new
        };
        self.settle(line);
        replaced
    }

    /// Marks the shared cache's line clean if memory holds the same value.
    fn settle(&mut self, line: LineId) {
        let memory = self.llc.entry(line).memory;
        if memory.is_some() && self.values.version(memory) == self.values.shared(line) {
            let entry = self.llc.entry_mut(line);
            (entry.memory, entry.dirty) = (Version::NONE, false);
            self.values.release(memory);
        }
    }

    /// The line in `slot` leaves the shared cache, which has the only copy: dirty data are written
    /// to memory, or dropped if persist buffers write them.
    pub(crate) fn leave(&mut self, slot: Slot, now: Cycle) {
        if self.llc.entry(slot).dirty {
            if self.drops_evictions && self.is_pm(slot) {
                self.counters.dropped_lines += 1;
                let entry = self.llc.entry_mut(slot);
                entry.dirty = false;
                let memory = std::mem::replace(&mut entry.memory, Version::NONE);
                self.values.share(slot, memory);
            } else {
                self.write_back(slot, self.home_tile(slot), now, Token::NONE);
            }
        }
        self.llc.invalidate(slot);
    }

    /// Sends an entry of `core`'s write-combining buffer to memory, over the home of the line, and
    /// removes the line from all caches; their dirty bytes are merged into the write.
    pub(crate) fn write_past_caches(
        &mut self,
        core: usize,
        filling: &OpenEntry,
        now: Cycle,
        token: Token,
    ) {
        self.counters.combined_lines += 1;
        self.counters.partial_lines += u64::from(!filling.is_full());
        let line = filling.line;
        let (bank, home) = (self.llc.bank(line), self.home_tile(line));
        let left = now + self.look_in(core, line) + self.config.core.combining_leave;
        let sent = self.mesh.data(core, home, left);
        let mut found = self.look_up(bank, sent);
        let mut memory = Version::NONE;
        if let Some(slot) = self.llc.find(line) {
            found = self.give_up(core, slot, found);
            let entry = self.llc.entry_mut(slot);
            entry.dirty = false;
            memory = std::mem::replace(&mut entry.memory, Version::NONE);
            self.llc.invalidate(slot);
        }
        let version = self.values.differ(line);
        filling.lay_over(self.values.version_mut(version));
        self.values.swap(line, version);
        let replaced = if memory.is_some() {
            self.values.release(version);
            memory
        } else {
            version
        };
        let origin = Origin(core as u8);
        let number = self.send_write(Outgoing { line, replaced, tile: home, token, origin }, found);
        self.pass_on(line, number);
    }

    /// All cores invalidate the line in `slot`, as its home requests at `found`; returns the
    /// arrival of the last answer. The requester invalidates its own copy without a message.
    fn give_up(&mut self, core: usize, slot: Slot, found: Cycle) -> Cycle {
        let home = self.home_tile(slot);
        let dirty =
            self.owner(slot).filter(|(owner, way)| self.private[*owner].copy(*way).is_dirty());
        let mut others = self.llc.entry(slot).sharers & !(1 << core);
        let mut answered = found;
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            let told = self.mesh.control(home, other, found) + self.look_in(other, slot);
            let back = match dirty {
                Some((owner, _)) if owner == other => self.mesh.data(other, home, told),
                _ => self.mesh.control(other, home, told),
            };
            answered = answered.max(back);
        }
        self.recall(slot, answered);
        answered
    }

    /// The value of `core`'s copy of `line`, or that of memory if the core has not changed it,
    /// becomes that of the shared cache and of memory too. Memory has received the line before, if
    /// not each of its words.
    pub(crate) fn agree(&mut self, core: usize, way: Way, line: LineId) {
        let copy = self.private[core].copy_mut(way);
        let own = std::mem::replace(&mut copy.version, Version::NONE);
        let written = std::mem::replace(&mut self.llc.entry_mut(line).memory, Version::NONE);
        if own.is_some() {
            self.values.release(written);
            self.values.share(line, own);
        } else {
            self.values.share(line, written);
        }
    }

    /// The controller at `tile` writes `bits` under `mask` into a word of `line` in memory. Caches
    /// are not consulted; those that have the line are updated too.
    pub(crate) fn write_bits(
        &mut self,
        (line, word): (LineId, usize),
        (mask, bits): (u64, u64),
        tile: Tile,
        at: Cycle,
    ) {
        let held = *self.in_memory(line);
        let replaced = self.values.differ(line);
        *self.values.version_mut(replaced) = held;
        let memory = self.llc.entry(line).memory;
        let owner = self.llc.find(line).and_then(|slot| self.owner(slot));
        let owned = owner.map_or(Version::NONE, |(core, way)| self.private[core].copy(way).version);
        for version in [memory, owned].into_iter().filter(|version| version.is_some()) {
            let at = &mut self.values.version_mut(version)[word];
            *at = *at & !mask | bits & mask;
        }
        let at_all = &mut self.values.shared_mut(line)[word];
        *at_all = *at_all & !mask | bits & mask;
        self.send_write(Outgoing::of_cache(line, replaced, tile, Token::NONE), at);
    }

    fn send_write(&mut self, write: Outgoing, at: Cycle) -> u64 {
        let arrives = self.mesh.data(write.tile, self.memory_tile(write.line), at);
        self.arrive(write, arrives)
    }

    /// Schedules the arrival of a write at its controller at `arrives`; returns its number.
    fn arrive(&mut self, write: Outgoing, arrives: Cycle) -> u64 {
        let Outgoing { line, replaced, tile, token, origin } = write;
        self.counters.line_writes += 1;
        let number = self.memory.write_sent(line, replaced);
        if self.is_pm(line) {
            let now = self.queue.now();
            self.detail.note(|tally| tally.sent(number, now));
        }
        self.queue.event(arrives, Event::WriteArrives { number, tile: tile as u8, token, origin });
        number
    }

    /// The write that this event brings to its controller.
    pub(crate) fn arriving(&self, number: u64, tile: u8, token: Token, origin: Origin) -> Arriving {
        let (line, has_copy) = (self.memory.line_of(number), self.memory.has_copy(number));
        Arriving { number, line, has_copy, token, tile, origin }
    }

    /// A write that is at its controller comes again at `at`.
    pub(crate) fn comes_again(&mut self, write: &Arriving, at: Cycle) {
        let Arriving { number, tile, token, origin, .. } = *write;
        self.queue.event(at, Event::WriteArrives { number, tile, token, origin });
    }
}
