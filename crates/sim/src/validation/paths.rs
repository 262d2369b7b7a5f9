//! The latency of a lone request: the sum of its path, from the numbers of the machine file alone.
//!
//! Written from the documentation of the machine and not from its code; the simulator's tests use
//! the same sums. It assumes only the positions of the simulator's parts: bank `i` on tile `i`,
//! controllers at the corners, lines spread by a hash.

use crate::{Cycle, Machine};

/// A tile of the mesh.
pub type Tile = usize;

/// The paths of a machine. Lines are numbered from the start of persistent memory.
#[derive(Clone, Debug)]
pub struct Paths<'a> {
    machine: &'a Machine,
}

/// The hash that spreads lines over banks and controllers.
fn spread(line: u64) -> usize {
    ((line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize
}

impl<'a> Paths<'a> {
    /// The paths of `machine`.
    pub fn new(machine: &'a Machine) -> Paths<'a> {
        Paths { machine }
    }

    /// The shared-cache bank of a line.
    pub fn bank(&self, line: u64) -> usize {
        (spread(line) >> 16) % self.machine.llc.banks
    }

    /// The tile of the bank of a line.
    pub fn home(&self, line: u64) -> Tile {
        self.bank(line) % self.machine.core.count
    }

    /// The memory controller of a line: by the hash, or that of its DIMM, over which pages of 4 KiB
    /// are interleaved.
    pub fn controller(&self, line: u64) -> usize {
        let controllers = self.machine.memory.controllers;
        match self.machine.memory.nvm.dimms {
            Some(dimms) => (line / 64) as usize % dimms.count % controllers,
            None => spread(line) % controllers,
        }
    }

    /// The bank of a line behind its controller.
    pub fn memory_bank(&self, line: u64) -> usize {
        (spread(line) >> 8) % self.machine.memory.banks
    }

    /// The tile of the controller of a line.
    pub fn corner(&self, line: u64) -> Tile {
        self.machine.controller_tiles()[self.controller(line)]
    }

    /// Links between two tiles.
    pub fn hops(&self, from: Tile, to: Tile) -> u64 {
        let columns = self.machine.columns();
        let (row, column) = (from / columns, from % columns);
        (row.abs_diff(to / columns) + column.abs_diff(to % columns)) as u64
    }

    /// Cycles of a router and a link.
    fn hop(&self) -> Cycle {
        self.machine.mesh.router_latency + self.machine.mesh.link_latency
    }

    /// Flits of a message that carries a line.
    pub fn flits(&self) -> u64 {
        1 + 64u64.div_ceil(self.machine.mesh.flit_bytes)
    }

    /// The latency of a message of one flit.
    pub fn control(&self, from: Tile, to: Tile) -> Cycle {
        self.hops(from, to) * self.hop()
    }

    /// The latency of a message with a line, up to its tail.
    pub fn data(&self, from: Tile, to: Tile) -> Cycle {
        let tail = if from == to { 0 } else { self.flits() - 1 };
        self.hops(from, to) * self.hop() + tail
    }

    /// The latency of a load that hits in the L1.
    pub fn l1_load(&self) -> Cycle {
        self.machine.l1.latency
    }

    /// The time that a store to a line of its own core takes: a cycle, or the latency of the first
    /// level on a core with one store on its way.
    pub fn own_store(&self) -> Cycle {
        if self.machine.core.stores_in_flight() == 1 { self.machine.l1.latency } else { 1 }
    }

    /// The latency of a load that hits in the second level; on a machine with one level, of a miss
    /// there. In both cases it is the time until a request leaves for the home of its line.
    pub fn l2_load(&self) -> Cycle {
        self.l1_load() + self.machine.l2.map_or(0, |l2| l2.latency)
    }

    /// The latency of a load by `core` that the shared cache answers.
    pub fn llc_load(&self, core: Tile, line: u64) -> Cycle {
        let home = self.home(line);
        self.l2_load() + self.control(core, home) + self.machine.llc.latency + self.data(home, core)
    }

    /// The latency of a load by `core` that memory answers after `read` cycles.
    pub fn memory_load(&self, core: Tile, line: u64, read: Cycle) -> Cycle {
        let (home, corner) = (self.home(line), self.corner(line));
        self.llc_load(core, line) + self.control(home, corner) + read + self.data(corner, home)
    }

    /// The latency of a load by `core` of a line that `owner` has in its first level with write
    /// permission.
    pub fn transfer(&self, core: Tile, line: u64, owner: Tile) -> Cycle {
        let home = self.home(line);
        self.l2_load()
            + self.control(core, home)
            + self.machine.llc.latency
            + self.control(home, owner)
            + self.machine.l1.latency
            + self.data(owner, core)
    }

    /// The latency of a write by `core` to a line that it shares with `others`: until the last of
    /// them has invalidated its copy (one cycle) and acknowledged it. Invalidations that share
    /// links wait for each other beyond that.
    pub fn upgrade(&self, core: Tile, line: u64, others: &[Tile]) -> Cycle {
        let home = self.home(line);
        let asked = self.machine.l1.latency + self.control(core, home) + self.machine.llc.latency;
        let acknowledged =
            others.iter().map(|other| self.control(home, *other) + 1 + self.control(*other, core));
        asked + acknowledged.fold(self.control(home, core), Cycle::max)
    }

    /// A line from `core`'s L1 through its bank to memory, and the acknowledgement back: from the
    /// controller's queue with `adr`, from the cells without.
    pub fn persist(&self, core: Tile, line: u64, adr: bool) -> Cycle {
        let (home, corner) = (self.home(line), self.corner(line));
        self.machine.l1.latency
            + self.data(core, home)
            + self.machine.llc.latency
            + self.data(home, corner)
            + self.machine.memory.post
            + if adr { 0 } else { self.machine.memory.nvm.write }
            + self.control(corner, home)
            + self.control(home, core)
    }

    /// An epoch of `core` with `lines` of one bank and one controller that share no memory bank.
    ///
    /// The arbiter searches the L1, the lines follow each other to their bank with FlushEpoch
    /// behind them, the bank searches itself, and the slowest of port, links and channel paces the
    /// lines; then the last PersistAck and the BankAck return.
    pub fn epoch_flush(&self, core: Tile, lines: &[u64], search: Cycle) -> Cycle {
        let (home, corner) = (self.home(lines[0]), self.corner(lines[0]));
        let (machine, count) = (self.machine, lines.len() as u64);
        let hops = self.hops(core, home);
        let at_bank = match hops {
            0 => count,
            // FlushEpoch for the tiles on the path goes ahead, one cycle each.
            hops => count * self.flits() + self.control(core, home) + hops - 1,
        };
        let l1_groups = groups(lines.iter().map(|line| *line as usize % machine.l1_sets()));
        let llc_set = |line: &u64| (spread(*line) >> 24) % machine.llc_sets();
        let searches = (l1_groups + groups(lines.iter().map(llc_set))) * search;
        let on_link = if home == corner { 0 } else { self.flits() };
        let pace = machine.llc.port_cycles.max(on_link).max(machine.memory.nvm_write_line_cycles());
        searches
            + at_bank
            + machine.llc.latency
            + self.data(home, corner)
            + (count - 1) * pace
            + machine.memory.post
            + machine.memory.nvm.write
            + self.control(corner, home)
            + self.control(home, core)
    }

    /// Cycles between two lines that `controllers` can read from NVM together.
    pub fn read_pace(&self, controllers: usize) -> f64 {
        let memory = &self.machine.memory;
        self.pace(memory.nvm.read, memory.line_cycles) / controllers as f64
    }

    /// Cycles between two lines that `controllers` can write to NVM together.
    pub fn write_pace(&self, controllers: usize) -> f64 {
        let memory = &self.machine.memory;
        self.pace(memory.nvm.write, memory.nvm_write_line_cycles()) / controllers as f64
    }

    /// The slower of the banks, busy for `access` cycles each, and the channel.
    fn pace(&self, access: Cycle, line: Cycle) -> f64 {
        let memory = &self.machine.memory;
        (line as f64).max(memory.bank_busy(access) as f64 / memory.banks as f64)
    }

    /// The mean of `latency` over `lines`.
    pub fn mean(lines: u64, latency: impl Fn(u64) -> Cycle) -> f64 {
        (0..lines).map(latency).sum::<Cycle>() as f64 / lines as f64
    }
}

/// The number of groups of 64 sets to search.
fn groups(sets: impl Iterator<Item = usize>) -> u64 {
    let mut found: Vec<usize> = sets.map(|set| set / 64 % 64).collect();
    found.sort_unstable();
    found.dedup();
    found.len() as u64
}
