//! The parts of a machine, as designs see them: cores, caches, mesh, memory, and the event queue.
//! Nothing here knows persistency; a [`Design`](crate::design::Design) decides which steps are
//! permitted when, and moves lines with the methods of these parts.

use crate::caches::patience::Patience;
use crate::caches::private::{LineCopy, Private, State, Way};
use crate::caches::shared::{Llc, NO_CORE, Slot};
use crate::caches::stream_prefetcher::StreamPrefetcher;
use crate::config::Machine;
use crate::core::write_combining::{Origin, WriteCombiningBuffer};
use crate::core::{Core, Waiter, Waits};
use crate::detail::Detail;
use crate::engine::calendar::Calendar;
use crate::engine::counters::{Counters, Reason};
use crate::engine::event_queue::Queue;
use crate::memory::controller::Memory;
use crate::memory::versions::{LineData, Values, Version};
use crate::noc::mesh::{Mesh, Tile};
use crate::timeline::{Recorder, Tape, TimelineWindow};
use crate::{Cycle, LineId};
use seawall_memory::LINE_BYTES;
use std::ops::Range;

mod flushes;
pub(crate) mod writes;

/// A design's answer to a request for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// The step can happen now.
    Go,
    /// Repeat the request in this cycle; until then the requester waits for this reason.
    At(Cycle, Reason),
    /// The requester waits for this reason until the design wakes it; then it repeats the request.
    Wait(Reason),
}

/// The addressee of a memory controller's acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) core: u8,
    pub(crate) bank: u8,
}

impl Token {
    /// No core waits for this write.
    pub(crate) const NONE: Token = Token { core: NO_CORE, bank: 0 };

    pub(crate) fn of(core: usize, bank: usize) -> Token {
        Token { core: core as u8, bank: bank as u8 }
    }

    /// The core that waits for this write, if one does.
    pub(crate) fn waiter(self) -> Option<usize> {
        (self.core != NO_CORE).then_some(self.core.into())
    }
}

/// An event inside the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<M> {
    /// A line reaches its memory controller; the acknowledgement goes to `tile`.
    WriteArrives { number: u64, tile: u8, token: Token, origin: Origin },
    /// A line is durable; its controller at `from` acknowledges to `tile`.
    WriteDurable { from: u8, tile: u8, token: Token },
    /// The deadline of the core's park of this number.
    Alarm { core: u8, number: u32 },
    /// The core is informed that a controller has accepted an entry of its write-combining buffer.
    Taken { core: u8 },
    /// The machine is at rest: the write-combining buffer of `core` is emptied.
    Rest { core: u8 },
    /// A message between parts of a design.
    Design(M),
    /// The power fails in the crash that the observer requested; the run continues.
    Crash,
}

/// The parts of a machine.
pub(crate) struct Hw<M> {
    pub(crate) config: Machine,
    pub(crate) cores: Vec<Core>,
    pub(crate) private: Vec<Private>,
    pub(crate) write_combining: Vec<WriteCombiningBuffer>,
    /// The stream prefetcher of each core, if the machine has them.
    pub(crate) prefetchers: Vec<StreamPrefetcher>,
    pub(crate) llc: Llc,
    pub(crate) patience: Patience,
    pub(crate) ports: Vec<Calendar>,
    pub(crate) mesh: Mesh,
    pub(crate) memory: Memory,
    pub(crate) values: Values,
    pub(crate) queue: Queue<Event<M>>,
    pub(crate) counters: Counters,
    /// Records what happens, if that is asked for.
    pub(crate) recorder: Recorder,
    pub(crate) detail: Detail,
    /// The number of lines that survive a crash: those of the program, then those of the design.
    pub(crate) pm_lines: LineId,
    /// The number of persistent lines that the program can have.
    pub(crate) program_lines: LineId,
    /// The lines that there are.
    pub(crate) lines: Lines,
    /// Whether dirty persistent lines that leave the shared cache are dropped instead of written.
    drops_evictions: bool,
    bank_tiles: Vec<u8>,
    controller_tiles: Vec<Tile>,
}

/// What persists on a machine, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Persistence {
    /// The number of persistent lines that the program can have.
    pub(crate) program_lines: LineId,
    /// The number of all persistent lines, those of the design included.
    pub(crate) pm_lines: LineId,
    /// Whether the program's lines come into being one by one, and none is there at first.
    pub(crate) grows: bool,
    /// Whether a write is durable once its controller's queue has accepted it.
    pub(crate) adr: bool,
    /// Whether dirty persistent lines that leave the shared cache are dropped.
    pub(crate) drops_evictions: bool,
}

/// The lines that a cache can have. All numbers have one, unless lines come into being one by one.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// The end of the program's persistent lines, which begin with line 0.
    pub(crate) program: LineId,
    /// The end of all lines.
    pub(crate) end: LineId,
    /// Persistent lines that are not there.
    missing: Range<LineId>,
}

impl Lines {
    /// Whether there is such a line.
    pub(crate) fn has(&self, line: LineId) -> bool {
        line < self.end && !self.missing.contains(&line)
    }

    /// Adds persistent lines of the program.
    pub(crate) fn add_persistent(&mut self, lines: LineId) {
        self.program += lines;
        self.missing.start = self.program;
    }
}

impl<M: Copy> Hw<M> {
    pub(crate) fn new(machine: &Machine, cells: Vec<LineData>, persistence: Persistence) -> Self {
        let Persistence { program_lines, pm_lines, grows, adr, drops_evictions } = persistence;
        let tiles = machine.core.count;
        let lines = cells.len() as LineId;
        let addresses = if grows { 0..0 } else { LINE_BYTES..u64::from(lines) * LINE_BYTES };
        Hw {
            cores: (0..tiles).map(|_| Core::new(machine, addresses.clone())).collect(),
            private: (0..tiles).map(|_| Private::new(machine)).collect(),
            prefetchers: StreamPrefetcher::of_machine(machine),
            write_combining: vec![WriteCombiningBuffer::new(machine.core.write_combining); tiles],
            llc: match grows {
                true => Llc::in_parts(machine, pm_lines),
                false => Llc::new(machine, lines),
            },
            patience: Patience::default(),
            ports: vec![Calendar::default(); machine.llc.banks],
            mesh: Mesh::new(machine),
            memory: Memory::new(machine, pm_lines, adr),
            values: Values::new(cells),
            queue: Queue::new(),
            counters: Counters::default(),
            recorder: Recorder::default(),
            detail: Detail::default(),
            pm_lines,
            program_lines,
            lines: match grows {
                true => Lines { program: 0, end: pm_lines, missing: 0..pm_lines },
                false => Lines { program: program_lines, end: lines, missing: 0..0 },
            },
            drops_evictions,
            bank_tiles: (0..machine.llc.banks).map(|bank| (bank % tiles) as u8).collect(),
            controller_tiles: machine.controller_tiles(),
            config: machine.clone(),
        }
    }

    /// From now on, what happens to the parts and to so many programs is recorded, if that is asked
    /// for: in this window, and up to so many bytes.
    pub(crate) fn start_timeline(&mut self, asked: Option<(TimelineWindow, u64)>, programs: usize) {
        let Some((window, bytes_max)) = asked else { return };
        let tape = Tape::new(window, bytes_max, self.cores.len(), programs);
        self.recorder = Recorder::new(tape);
        for (number, core) in self.cores.iter_mut().enumerate() {
            core.start_timeline(&self.recorder, number);
        }
    }

    /// All counters, including those that the parts keep themselves.
    pub(crate) fn all_counters(&self) -> Counters {
        let dimms = self.memory.dimm_traffic();
        Counters {
            instructions: self.cores.iter().map(|core| core.number).sum(),
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

    /// The tile of a bank.
    #[inline]
    pub(crate) fn bank_tile(&self, bank: usize) -> Tile {
        self.bank_tiles[bank].into()
    }

    /// The tile of a line's bank.
    #[inline]
    pub(crate) fn home_tile(&self, line: LineId) -> Tile {
        self.bank_tile(self.llc.bank(line))
    }

    /// The tile of a line's memory controller.
    #[inline]
    pub(crate) fn memory_tile(&self, line: LineId) -> Tile {
        self.controller_tiles[self.memory.home(line)]
    }

    /// The tile of a memory controller.
    #[inline]
    pub(crate) fn controller_tile(&self, controller: usize) -> Tile {
        self.controller_tiles[controller]
    }

    /// The value of `line` in memory, including all writes that have been sent.
    pub(crate) fn in_memory(&self, line: LineId) -> &LineData {
        let memory = self.llc.entry(line).memory;
        if memory.is_some() { self.values.version(memory) } else { self.values.shared(line) }
    }

    /// Books a bank's port from `at`; returns when the bank has looked up the line.
    #[inline]
    pub(crate) fn look_up(&mut self, bank: usize, at: Cycle) -> Cycle {
        let start = self.ports[bank].book(at, self.config.llc.port_cycles);
        start + self.config.llc.latency
    }

    /// Schedules a turn of the waiter at `at`.
    pub(crate) fn wake(&mut self, waiter: Waiter, at: Cycle) {
        if waiter.is_program {
            self.queue.program(at.max(self.cores[waiter.core].clock), waiter.core);
        } else {
            self.queue.stores(at, waiter.core);
        }
    }

    /// Invalidates `core`'s copy of `line` at `at`; wakes a program that waits for that.
    pub(crate) fn invalidate(&mut self, core: usize, line: LineId, way: Way, at: Cycle) {
        self.private[core].invalidate(way);
        if self.cores[core].waits == Waits::Change(line) {
            self.wake(Waiter { core, is_program: true }, at);
        }
    }

    /// The data of `core`'s copy of `line` in `way`.
    #[inline]
    pub(crate) fn data(&self, core: usize, way: Way, line: LineId) -> &LineData {
        let version = self.private[core].copy(way).version;
        if version.is_some() { self.values.version(version) } else { self.values.shared(line) }
    }

    /// The data of `core`'s copy of `line` in `way`, for a write: the copy becomes dirty.
    #[inline]
    pub(crate) fn dirty(&mut self, core: usize, way: Way, line: LineId) -> Version {
        let copy = self.private[core].copy_mut(way);
        if !copy.is_dirty() {
            copy.version = self.values.differ(line);
        }
        copy.version
    }

    /// Moves the data of `core`'s dirty copy to the shared cache, which becomes dirty; the copy
    /// stays, clean.
    pub(crate) fn clean(&mut self, core: usize, way: Way, slot: Slot) {
        let copy = self.private[core].copy_mut(way);
        if !copy.is_dirty() {
            return;
        }
        let version = std::mem::replace(&mut copy.version, Version::NONE);
        if std::mem::take(&mut copy.relocated) {
            self.llc.relocated.insert(slot);
        }
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

    /// Clears the pending bits of all lines in the caches.
    pub(crate) fn forget_relocated(&mut self) {
        self.private.iter_mut().for_each(Private::forget_relocated);
        self.llc.relocated.clear();
    }

    /// Records in the directory that only `core` has the line in `slot`, in `way`, with write
    /// permission.
    pub(crate) fn own(&mut self, core: usize, way: Way, slot: Slot) {
        let place = self.private[core].place(slot, way);
        let entry = self.llc.entry_mut(slot);
        entry.sharers = 1 << core;
        entry.owner = core as u8;
        entry.owner_way = place;
    }

    /// The owner's copy of the line in `slot`, if a core has write permission.
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

    /// When the fill of `core`'s copy of the line in `slot` is complete.
    pub(crate) fn came(&self, core: usize, slot: Slot) -> Cycle {
        let caches = &self.private[core];
        caches.find(slot).map_or(0, |way| caches.copy(way).ready)
    }

    /// The latency of `core`'s look-up of its copy of the line in `slot`.
    pub(crate) fn look_in(&self, core: usize, slot: Slot) -> Cycle {
        let caches = &self.private[core];
        caches.find(slot).map_or(caches.miss_latency(), |way| caches.latency(way))
    }

    /// True if the line in `slot` leaves the machine with the copy of `core`: no other core has
    /// one, and there is no shared cache.
    pub(crate) fn is_last_copy(&self, core: usize, slot: Slot) -> bool {
        self.config.llc.directory_only && self.llc.entry(slot).sharers == 1 << core
    }

    /// Puts `core`'s copy of `line`, which was removed from another way, into the free `way`.
    pub(crate) fn put(&mut self, core: usize, way: Way, line: LineId, copy: LineCopy) {
        self.private[core].put(way, line, copy);
        let place = self.private[core].place(line, way);
        let entry = self.llc.entry_mut(line);
        if usize::from(entry.owner) == core {
            entry.owner_way = place;
        }
    }

    /// Invalidates all cores' copies of the line in `slot`; their dirty data are kept.
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

    /// When the fill of the line in `slot` completes, if it is under way at `now`: until then the
    /// line cannot leave.
    pub(crate) fn still_coming(&self, slot: Slot, now: Cycle) -> Option<Cycle> {
        let copy = self.owner(slot).map_or(0, |(owner, way)| self.private[owner].copy(way).ready);
        let ready = copy.max(self.llc.entry(slot).ready);
        (ready >= now && ready > 0).then_some(ready)
    }

    /// The program's lines that a cache can have, persistent ones first.
    pub(crate) fn all_lines(&self) -> impl Iterator<Item = LineId> + use<M> {
        (0..self.lines.program).chain(self.pm_lines..self.lines.end)
    }

    /// The shared values of all persistent lines. Those that are not there cost nothing: the system
    /// has zeroed memory ready.
    fn persistent(&self) -> Vec<LineData> {
        let (shared, all) = (self.values.all_shared(), self.pm_lines as usize);
        if self.lines.program == self.program_lines {
            return shared[..all].to_vec();
        }
        let mut lines = vec![[0; 8]; all];
        for range in [0..self.lines.program as usize, self.program_lines as usize..all] {
            lines[range.clone()].copy_from_slice(&shared[range]);
        }
        lines
    }

    /// The persistent lines that a crash at the end of cycle `at`, not before the present, leaves.
    pub(crate) fn image(&self, at: Cycle) -> Vec<LineData> {
        let mut image = self.persistent();
        for (line, value) in image[..self.lines.program as usize].iter_mut().enumerate() {
            let version = self.llc.entry(line as LineId).memory;
            if version.is_some() {
                *value = *self.values.version(version);
            }
        }
        self.memory.take_back(&mut image, at, &self.values);
        image
    }

    /// The newest value of every persistent line of the program, in the caches or in memory: the
    /// image of a machine whose caches survive.
    pub(crate) fn newest(&self) -> Vec<LineData> {
        let mut newest = self.values.all_shared()[..self.lines.program as usize].to_vec();
        let dirty = self.private.iter().flat_map(Private::dirty);
        for (line, version) in dirty.filter(|(line, _)| self.is_pm(*line)) {
            newest[line as usize] = *self.values.version(version);
        }
        newest
    }

    /// Checks the invariants between any two turns: the directory is exact, a core has a line in
    /// one level only, at most one copy has write permission, and without a shared cache every
    /// present line has copies. Costs a walk over all lines and caches.
    pub(crate) fn check_directory(&self) {
        for line in self.all_lines() {
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
                    assert!(copy.is_dirty() || !copy.relocated, "line {line} is clean and pending");
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

/// A request of `core` for a line that it does not have, or cannot write, and that is in the shared
/// cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) who: Waiter,
    pub(crate) line: LineId,
    pub(crate) slot: Slot,
    pub(crate) now: Cycle,
}
