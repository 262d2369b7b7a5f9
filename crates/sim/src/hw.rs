//! The parts of a machine, as designs see them: cores, caches, mesh, memory, and the queue of what
//! happens next. Everything here is free of persistency; a [`Design`](crate::designs::Design)
//! decides what may happen when, and moves lines with what it finds here.

use crate::cache::{Llc, NO_CORE, Slot};
use crate::calendar::Calendar;
use crate::combining::{Combining, Filling, Origin};
use crate::config::Machine;
use crate::controller::Memory;
use crate::core::{Core, Waits};
use crate::counters::{Counters, Reason};
use crate::mesh::{Mesh, Tile};
use crate::private::{LineCopy, Private, State, Way};
use crate::queue::Queue;
use crate::streamer::Streamer;
use crate::values::{LineData, Values, Version};
use crate::{Cycle, LineId};
use seawall_memory::LINE_BYTES;

/// What a design answers when something wants to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It may happen now.
    Go,
    /// Ask again at that cycle; until then it waits for the reason.
    At(Cycle, Reason),
    /// It waits for the reason until the design wakes it; then it asks again.
    Wait(Reason),
}

/// Who waits: a core's program or its store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) core: usize,
    pub(crate) is_program: bool,
}

/// Whom a memory controller's acknowledgement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) core: u8,
    pub(crate) bank: u8,
}

impl Token {
    /// Nobody waits for this write.
    pub(crate) const NONE: Token = Token { core: NO_CORE, bank: 0 };

    pub(crate) fn of(core: usize, bank: usize) -> Token {
        Token { core: core as u8, bank: bank as u8 }
    }
}

/// What happens inside the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<M> {
    /// A line reaches its memory controller; the acknowledgement goes to `tile`.
    WriteArrives { number: u64, tile: u8, token: Token, origin: Origin },
    /// A line is durable; its controller at `from` acknowledges to `tile`.
    WriteDurable { from: u8, tile: u8, token: Token },
    /// A controller has told `core` that it has taken an entry of its write-combining buffer.
    Taken { core: u8 },
    /// Nothing else happens: the write-combining buffer of `core` is emptied.
    Rest { core: u8 },
    /// A message between parts of a design.
    Design(M),
    /// The power fails, as far as the observer is concerned.
    Crash,
}

/// The parts.
pub(crate) struct Hw<M> {
    pub(crate) config: Machine,
    pub(crate) cores: Vec<Core>,
    pub(crate) private: Vec<Private>,
    pub(crate) combining: Vec<Combining>,
    /// A core's each, if the machine has them.
    pub(crate) streamers: Vec<Streamer>,
    pub(crate) llc: Llc,
    pub(crate) ports: Vec<Calendar>,
    pub(crate) mesh: Mesh,
    pub(crate) memory: Memory,
    pub(crate) values: Values,
    pub(crate) queue: Queue<Event<M>>,
    pub(crate) counters: Counters,
    /// Lines that survive a crash: the program's, then those that the design keeps for itself.
    pub(crate) pm_lines: LineId,
    /// The program's persistent lines.
    pub(crate) program_lines: LineId,
    /// Dirty persistent lines that leave the shared cache are dropped, not written.
    drops_evictions: bool,
    bank_tiles: Vec<u8>,
    corners: [Tile; 4],
}

impl<M: Copy> Hw<M> {
    pub(crate) fn new(
        machine: &Machine,
        cells: Vec<LineData>,
        (program_lines, pm_lines): (LineId, LineId),
        (adr, drops_evictions): (bool, bool),
    ) -> Self {
        let (tiles, columns) = (machine.core.count, machine.columns());
        let address_limit = cells.len() as u64 * LINE_BYTES;
        Hw {
            cores: (0..tiles).map(|_| Core::new(machine, address_limit)).collect(),
            private: (0..tiles).map(|_| Private::new(machine)).collect(),
            streamers: Streamer::of_machine(machine),
            combining: vec![Combining::new(machine.core.write_combining); tiles],
            llc: Llc::new(machine, cells.len() as LineId),
            ports: vec![Calendar::default(); machine.llc.banks],
            mesh: Mesh::new(machine),
            memory: Memory::new(machine, pm_lines, adr),
            values: Values::new(cells),
            queue: Queue::new(),
            counters: Counters::default(),
            pm_lines,
            program_lines,
            drops_evictions,
            bank_tiles: (0..machine.llc.banks).map(|bank| (bank % tiles) as u8).collect(),
            corners: [0, tiles - 1, columns - 1, tiles - columns],
            config: machine.clone(),
        }
    }

    /// What has been counted, with what the parts count for themselves.
    pub(crate) fn all_counters(&self) -> Counters {
        let dimms = self.memory.dimm_traffic();
        Counters {
            flit_hops: self.mesh.flit_hops,
            xplines_read: dimms.media_reads,
            xplines_written: dimms.media_writes,
            blocks_moved: dimms.blocks_moved,
            ..self.counters.clone()
        }
    }

    /// True for a line that survives a crash.
    #[inline]
    pub(crate) fn is_pm(&self, line: LineId) -> bool {
        line < self.pm_lines
    }

    /// Where a bank sits.
    #[inline]
    pub(crate) fn bank_tile(&self, bank: usize) -> Tile {
        self.bank_tiles[bank].into()
    }

    /// Where a line's bank sits.
    #[inline]
    pub(crate) fn home_tile(&self, line: LineId) -> Tile {
        self.bank_tile(self.llc.bank(line))
    }

    /// Where a line's memory controller sits.
    #[inline]
    pub(crate) fn memory_tile(&self, line: LineId) -> Tile {
        self.corners[self.memory.home(line)]
    }

    /// Where a memory controller sits.
    #[inline]
    pub(crate) fn controller_tile(&self, controller: usize) -> Tile {
        self.corners[controller]
    }

    /// What memory holds of `line`, with all that has been sent to it.
    pub(crate) fn in_memory(&self, line: LineId) -> &LineData {
        let memory = self.llc.entry(line).memory;
        if memory.is_some() { self.values.version(memory) } else { self.values.shared(line) }
    }

    /// Books a bank's port from `at`; gives when the bank has looked the line up.
    #[inline]
    pub(crate) fn look_up(&mut self, bank: usize, at: Cycle) -> Cycle {
        let start = self.ports[bank].book(at, self.config.llc.port_cycles);
        start + self.config.llc.latency
    }

    /// Gives the waiter a turn at `at`.
    pub(crate) fn wake(&mut self, waiter: Waiter, at: Cycle) {
        if waiter.is_program {
            self.queue.program(at.max(self.cores[waiter.core].clock), waiter.core);
        } else {
            self.queue.stores(at, waiter.core);
        }
    }

    /// Sends the shared cache's dirty `line` from `tile`, where its bank is, to its memory
    /// controller; the acknowledgement returns to `tile`.
    pub(crate) fn write_back(&mut self, line: LineId, tile: Tile, at: Cycle, token: Token) {
        let entry = self.llc.entry_mut(line);
        entry.dirty = false;
        let replaced = std::mem::replace(&mut entry.memory, Version::NONE);
        self.send_write((line, replaced), tile, at, (token, Origin::CACHE));
    }

    /// As [`write_back`](Hw::write_back), but memory gets `data`, which the line held before: it
    /// stays dirty.
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
        self.send_write((line, replaced), tile, at, (token, Origin::CACHE));
    }

    /// As [`write_back`](Hw::write_back), past a clean line: memory gets `data` now, the shared
    /// cache with [`agree`](Hw::agree).
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
        self.send_write((line, replaced), tile, at, (token, Origin::CACHE));
    }

    /// As [`write_back`](Hw::write_back), of a line that no cache ever holds: the design's own.
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
        self.send_write((line, version), tile, at, (token, Origin::CACHE));
    }

    /// A persist buffer's version of `line` goes to memory: its data are at the controller already,
    /// `tile` tells it to write them, and is told when they are durable. What caches hold stays.
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
        self.arrive((line, replaced), tile, arrives, (token, Origin::CACHE));
    }

    /// As [`write_buffered`](Hw::write_buffered), but the data go along, and arrive no earlier than
    /// at `not_before`; gives when.
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
        self.arrive((line, replaced), tile, arrives, (token, Origin::CACHE));
        arrives
    }

    /// What memory holds of `line` is `data` from now on; gives what it held.
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

    /// The shared cache's line is clean if memory holds the same.
    fn settle(&mut self, line: LineId) {
        let memory = self.llc.entry(line).memory;
        if memory.is_some() && self.values.version(memory) == self.values.shared(line) {
            let entry = self.llc.entry_mut(line);
            (entry.memory, entry.dirty) = (Version::NONE, false);
            self.values.release(memory);
        }
    }

    /// The line in `slot` leaves the shared cache, which has the only copy: what is dirty is
    /// written to memory, or dropped where persist buffers do that.
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

    /// Sends what `core` has combined to memory, over the home of the line, and takes the line out
    /// of all caches; what was dirty there goes with it.
    pub(crate) fn write_past_caches(
        &mut self,
        core: usize,
        filling: &Filling,
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
        self.send_write((line, replaced), home, found, (token, Origin(core as u8)));
    }

    /// All cores give up the line in `slot`, as its home asks them at `found`; gives when the
    /// last answer is there. The asking core's own copy goes without being asked.
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

    /// What memory holds of `line` is now in the shared cache, and in the copy of the core that
    /// wrote it.
    pub(crate) fn agree(&mut self, core: usize, way: Way, line: LineId) {
        let copy = self.private[core].copy_mut(way);
        self.values.release(std::mem::replace(&mut copy.version, Version::NONE));
        let entry = self.llc.entry_mut(line);
        let written = std::mem::replace(&mut entry.memory, Version::NONE);
        self.values.share(line, written);
    }

    fn send_write(
        &mut self,
        (line, replaced): (LineId, Version),
        tile: Tile,
        at: Cycle,
        (token, origin): (Token, Origin),
    ) {
        let arrives = self.mesh.data(tile, self.memory_tile(line), at);
        self.arrive((line, replaced), tile, arrives, (token, origin));
    }

    /// A write of `line`, of which memory held `replaced`, is at its controller at `arrives`.
    fn arrive(
        &mut self,
        (line, replaced): (LineId, Version),
        tile: Tile,
        arrives: Cycle,
        (token, origin): (Token, Origin),
    ) {
        self.counters.line_writes += 1;
        let number = self.memory.write_sent(line, replaced);
        self.queue.event(arrives, Event::WriteArrives { number, tile: tile as u8, token, origin });
    }

    /// Takes `core`'s copy of `line` away at `at`; a program that waits for that wakes.
    pub(crate) fn invalidate(&mut self, core: usize, line: LineId, way: Way, at: Cycle) {
        self.private[core].invalidate(way);
        if self.cores[core].waits == Waits::Change(line) {
            self.wake(Waiter { core, is_program: true }, at);
        }
    }

    /// What `core`'s copy of `line` in `way` holds.
    #[inline]
    pub(crate) fn data(&self, core: usize, way: Way, line: LineId) -> &LineData {
        let version = self.private[core].copy(way).version;
        if version.is_some() { self.values.version(version) } else { self.values.shared(line) }
    }

    /// What `core`'s copy of `line` in `way` holds, to be written: the copy becomes dirty.
    #[inline]
    pub(crate) fn dirty(&mut self, core: usize, way: Way, line: LineId) -> Version {
        let copy = self.private[core].copy_mut(way);
        if !copy.is_dirty() {
            copy.version = self.values.differ(line);
        }
        copy.version
    }

    /// Moves the data of `core`'s dirty copy to the shared cache, which then has the tag; the copy
    /// stays, clean.
    pub(crate) fn clean(&mut self, core: usize, way: Way, slot: Slot) {
        let copy = self.private[core].copy_mut(way);
        if !copy.is_dirty() {
            return;
        }
        let version = std::mem::replace(&mut copy.version, Version::NONE);
        let entry = self.llc.entry_mut(slot);
        entry.epoch = std::mem::take(&mut copy.epoch);
        entry.writer = core as u8;
        if entry.dirty {
            self.values.share(slot, version);
        } else {
            entry.dirty = true;
            entry.memory = version;
            self.values.swap(slot, version);
        }
    }

    /// Lets the directory say that only `core` has the line in `slot`, in `way`, and may write it.
    pub(crate) fn own(&mut self, core: usize, way: Way, slot: Slot) {
        let place = self.private[core].place(slot, way);
        let entry = self.llc.entry_mut(slot);
        entry.sharers = 1 << core;
        entry.owner = core as u8;
        entry.owner_way = place;
    }

    /// The owner's copy of the line in `slot`, if one core may write it.
    #[inline]
    pub(crate) fn owner(&self, slot: Slot) -> Option<(usize, Way)> {
        let entry = self.llc.entry(slot);
        if entry.owner == NO_CORE {
            return None;
        }
        let owner = usize::from(entry.owner);
        let way = self.private[owner].at_place(slot, entry.owner_way);
        debug_assert_eq!(self.private[owner].line(way), slot, "the directory is exact");
        Some((owner, way))
    }

    /// When the copy that `core` has of the line in `slot` has come.
    pub(crate) fn came(&self, core: usize, slot: Slot) -> Cycle {
        let caches = &self.private[core];
        caches.find(slot).map_or(0, |way| caches.copy(way).ready)
    }

    /// How long `core` looks for its copy of the line in `slot`.
    pub(crate) fn look_in(&self, core: usize, slot: Slot) -> Cycle {
        let caches = &self.private[core];
        caches.find(slot).map_or(caches.miss_latency(), |way| caches.latency(way))
    }

    /// True if the line in `slot` leaves the machine with the copy of `core`: no other core has
    /// one, and there is no shared cache.
    pub(crate) fn is_last_copy(&self, core: usize, slot: Slot) -> bool {
        self.config.llc.directory_only && self.llc.entry(slot).sharers == 1 << core
    }

    /// Puts `core`'s copy of `line`, which was taken from another way, into `way`, which is free.
    pub(crate) fn put(&mut self, core: usize, way: Way, line: LineId, copy: LineCopy) {
        self.private[core].put(way, line, copy);
        let place = self.private[core].place(line, way);
        let entry = self.llc.entry_mut(line);
        if usize::from(entry.owner) == core {
            entry.owner_way = place;
        }
    }

    /// Takes the copies of the line in `slot` away from all cores; their data is not lost.
    pub(crate) fn recall(&mut self, slot: Slot, at: Cycle) {
        if let Some((owner, way)) = self.owner(slot) {
            self.clean(owner, way, slot);
        }
        let entry = self.llc.entry_mut(slot);
        entry.owner = NO_CORE;
        let mut sharers = std::mem::take(&mut entry.sharers);
        while sharers != 0 {
            let core = sharers.trailing_zeros() as usize;
            sharers &= sharers - 1;
            let way = self.private[core].find(slot).expect("directory is exact");
            self.invalidate(core, slot, way, at);
        }
    }

    /// When the line in `slot` has come, if its fill is under way at `now`: until then it stays.
    pub(crate) fn still_coming(&self, slot: Slot, now: Cycle) -> Option<Cycle> {
        let copy = self.owner(slot).map_or(0, |(owner, way)| self.private[owner].copy(way).ready);
        let ready = copy.max(self.llc.entry(slot).ready);
        (ready >= now && ready > 0).then_some(ready)
    }

    /// The persistent lines as a crash at the end of cycle `at`, not before now, leaves them.
    pub(crate) fn image(&self, at: Cycle) -> Vec<LineData> {
        let mut image = self.values.all_shared()[..self.pm_lines as usize].to_vec();
        for (line, value) in image.iter_mut().enumerate() {
            let version = self.llc.entry(line as LineId).memory;
            if version.is_some() {
                *value = *self.values.version(version);
            }
        }
        self.memory.take_back(&mut image, at, &self.values);
        image
    }

    /// The newest value of every persistent line, in the caches or in memory: what a machine whose
    /// caches survive would keep.
    pub(crate) fn newest(&self) -> Vec<LineData> {
        let mut newest = self.values.all_shared()[..self.pm_lines as usize].to_vec();
        let dirty = self.private.iter().flat_map(Private::dirty);
        for (line, version) in dirty.filter(|(line, _)| self.is_pm(*line)) {
            newest[line as usize] = *self.values.version(version);
        }
        newest
    }

    /// Checks what must hold between any two turns: the directory is exact, a core has a line in
    /// one level, at most one copy may be written, and without a shared cache a line that is here
    /// has copies. Costs a walk over all lines and caches.
    pub(crate) fn check_directory(&self) {
        for line in 0..self.values.lines() {
            let entry = self.llc.entry(line);
            if self.config.llc.directory_only && self.llc.find(line).is_some() {
                assert_ne!(entry.sharers, 0, "line {line} is where no cache is");
            }
            for core in 0..self.private.len() {
                let caches = &self.private[core];
                let twice = caches.find_near(line).is_some() && caches.find_far(line).is_some();
                assert!(!twice, "line {line} in both levels of core {core}");
                let copy = self.private[core].find(line).map(|way| self.private[core].copy(way));
                let listed = self.llc.find(line).is_some() && entry.sharers >> core & 1 == 1;
                assert_eq!(copy.is_some(), listed, "sharers of line {line}");
                if let Some(copy) = copy {
                    let owns = usize::from(entry.owner) == core;
                    assert_eq!(copy.state == State::Exclusive, owns, "owner of line {line}");
                    assert!(
                        !copy.is_dirty() || owns,
                        "a dirty copy of line {line} without ownership"
                    );
                }
            }
        }
    }
}

/// A request of `core` for a line that it has not, or may not write, while the shared cache has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) who: Waiter,
    pub(crate) line: LineId,
    pub(crate) slot: Slot,
    pub(crate) now: Cycle,
}
