//! x86 with hardware that moves objects: FFCCD, "Fence-Free Crash-Consistent Concurrent
//! Defragmentation for Persistent Memory" (ISCA 2022), sections 4.1 to 4.3.
//!
//! `relocate` copies an object. Each line of the copy gets a *pending bit*, which stays with its
//! dirty bytes wherever they move: to the second level, to the shared cache, to another core, into
//! a write. When a controller accepts such a write, it sets the line's bit in the reached bitmap of
//! its page ([`reached`]). So a copy needs no flush and no fence, and after a crash recovery knows
//! which of its lines are in memory. `checklookup` returns an object's destination ([`lookup`]).
//! Everything else is `clwb`, by [`Clwb`].
//!
//! A write that sets a bit is durable when its bit is: both wait for the reached buffer, where the
//! paper lets the queue hold the line at once and has the battery finish the bit. The writes of a
//! line are durable in the order in which they were sent: a later one waits for the one with the
//! bit. Setting the registers clears the pending bits of all lines, so that lines of an older cycle
//! set no bits in the next.

use super::clwb::{self, Clwb};
use crate::caches::private::Way;
use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Arrival, Design, Store};
use crate::families::params::parameters;
use crate::hw::writes::Arriving;
use crate::hw::{Gate, Hw, Request, Token};
use crate::memory::controller::Late;
use crate::memory::versions::LineData;
use crate::relocation::{Lookup, Walk};
use crate::{Cycle, LineId};
use lookup::Lookups;
use reached::Reached;
use rustc_hash::FxHashMap;
use seawall_memory::relocation::{Forwarding, Relocation};
use seawall_memory::{Addr, Model};
use serde::{Deserialize, Serialize};

mod lookup;
mod reached;

pub(super) const ABOUT: &str =
    "As clwb, and hardware that moves objects and remembers what has persisted.";
pub(super) const MODEL: Option<Model> = Some(Model::Px86);

parameters! {
    /// A write is durable when the controller's queue accepts it (ADR), not when it is in the
    /// cells.
    adr: bool = true;
    /// Cores look up where objects have moved.
    checklookup: bool = true;
    /// Pages in the reached buffer of a controller.
    rbb_entries: usize = 8, in 1..=1024;
    /// Cycles of a search in a reached buffer.
    rbb_cycles: u64 = 30, in 0..=10_000;
    /// Quarters of pages whose forwarding entries a core holds.
    pmftlb_entries: usize = 16, in 1..=1024;
    /// Cycles of a search in the PMFTLB.
    pmftlb_cycles: u64 = 4, in 0..=10_000;
    /// Cycles of a check in a core's Bloom filter.
    bloom_cycles: u64 = 2, in 0..=10_000;
    /// Cycles to load another Bloom filter into a core.
    bloom_load_cycles: u64 = 120, in 0..=10_000;
    /// A planted bug, to test the checks.
    flaw: Flaw = Flaw::None;
}

/// A planted bug in the mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Flaw {
    /// No planted bug.
    #[default]
    None,
    /// A line that leaves the private caches of its core loses its pending bit.
    BitStaysBehind,
    /// A line that another core requests loses its pending bit.
    LosesOnCoherence,
    /// A store of the program to a line clears its pending bit.
    LosesOnStore,
    /// A line's bit is set when its write arrives, not when it is accepted.
    ReachedEarly,
    /// A write of a line does not wait for those sent before.
    Overtakes,
    /// A crash loses the content of the reached buffers.
    ForgetsBuffer,
    /// A page that leaves a reached buffer is not written to the directory.
    ForgetsEvicted,
    /// A page enters a reached buffer without the bits that it has in the directory.
    ForgetsFetch,
    /// Pending bits of an older cycle set bits in the next.
    KeepsPending,
    /// Cores keep their forwarding entries when the registers are set.
    StaleLookups,
}

pub(super) fn design(params: &Params, machine: &Machine, lines: LineId) -> Ffccd {
    let cores = machine.core.count;
    let forwards = params.checklookup.then(|| Lookups::new(params, cores));
    Ffccd {
        clwb: clwb::design(&clwb::Params::default(), machine, lines),
        flaw: params.flaw,
        reached: Reached::new(params, machine.memory.controllers),
        forwards,
        registers: None,
        since: 0,
        was_set: false,
        waiting: FxHashMap::default(),
    }
}

/// The parts added to [`Clwb`].
pub(crate) struct Ffccd {
    clwb: Clwb,
    flaw: Flaw,
    reached: Reached,
    /// The lookup hardware, if cores have it.
    forwards: Option<Lookups>,
    registers: Option<Relocation>,
    /// The number of the first write that was sent since the registers were set.
    since: u64,
    /// Whether the registers have been set before.
    was_set: bool,
    /// Writes that have arrived before one of the same line which was sent earlier, by its number.
    waiting: FxHashMap<u64, Vec<Arriving>>,
}

impl Ffccd {
    /// The registers, if the write sets a bit.
    fn of_copy(&self, write: &Arriving) -> Option<Relocation> {
        let is_of_this_cycle = write.number >= self.since || self.flaw == Flaw::KeepsPending;
        let registers = self.registers.filter(|_| write.has_copy && is_of_this_cycle)?;
        registers.page_of(reached::at(write.line)).map(|_| registers)
    }
}

impl Design for Ffccd {
    type Message = ();
    const USES_FLUSHES: bool = Clwb::USES_FLUSHES;
    const COMBINES: bool = Clwb::COMBINES;
    const RELOCATES: bool = true;

    fn flush(&mut self, hw: &mut Hw<()>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        self.clwb.flush(hw, who, line, now)
    }

    fn combined(&mut self, hw: &mut Hw<()>, core: usize, line: LineId) -> Token {
        self.clwb.combined(hw, core, line)
    }

    fn order(&mut self, hw: &mut Hw<()>, who: Waiter, now: Cycle) -> Gate {
        self.clwb.order(hw, who, now)
    }

    fn drain(&mut self, hw: &mut Hw<()>, who: Waiter, now: Cycle) -> Gate {
        self.clwb.drain(hw, who, now)
    }

    fn locked(&mut self, hw: &mut Hw<()>, who: Waiter, now: Cycle) -> Gate {
        self.clwb.locked(hw, who, now)
    }

    fn written(&mut self, hw: &mut Hw<()>, token: Token, acknowledged: Cycle) {
        self.clwb.written(hw, token, acknowledged);
    }

    fn stored(&mut self, hw: &mut Hw<()>, core: usize, at: Store, _: u64, _: Cycle) {
        if self.flaw == Flaw::LosesOnStore {
            hw.private[core].copy_mut(at.way).relocated = false;
        }
    }

    fn remote(&mut self, hw: &mut Hw<()>, request: &Request) -> Gate {
        if self.flaw == Flaw::LosesOnCoherence
            && let Some((owner, way)) = hw.owner(request.slot)
            && owner != request.who.core
        {
            hw.private[owner].copy_mut(way).relocated = false;
        }
        Gate::Go
    }

    fn spill(&mut self, hw: &mut Hw<()>, who: Waiter, way: Way, _: LineId, _: Cycle) -> Gate {
        if self.flaw == Flaw::BitStaysBehind {
            hw.private[who.core].copy_mut(way).relocated = false;
        }
        Gate::Go
    }

    fn arriving(&mut self, hw: &mut Hw<()>, write: &Arriving, now: Cycle) -> Arrival {
        if !self.was_set {
            return Arrival::USUAL;
        }
        let before = hw.memory.before(write.number).filter(|_| self.flaw != Flaw::Overtakes);
        let floor = match before {
            Some((older, Cycle::MAX)) => {
                self.waiting.entry(older).or_default().push(*write);
                return Arrival::Held;
            }
            Some((_, durable)) => durable,
            None => 0,
        };
        for waiting in self.waiting.remove(&write.number).into_iter().flatten() {
            hw.comes_again(&waiting, now);
        }
        let copy = self.of_copy(write);
        let found = copy.map(|registers| self.reached.find(hw, &registers, write.line, now));
        Arrival::Taken(Late { by: found.map_or(0, |found| found - now), floor })
    }

    fn persists(&mut self, hw: &mut Hw<()>, write: &Arriving, now: Cycle, durable: Cycle) {
        if self.of_copy(write).is_some() {
            let at = if self.flaw == Flaw::ReachedEarly { now } else { durable };
            self.reached.set(hw, write.line, at, durable);
        }
    }

    fn forwards(&self) -> bool {
        self.forwards.is_some()
    }

    fn look_up(&mut self, hw: &mut Hw<()>, core: usize, at: Addr) -> Lookup {
        match (&mut self.forwards, self.registers) {
            (Some(forwards), Some(registers)) => forwards.look_up(hw, &registers, core, at),
            _ => Lookup::At(at, 0),
        }
    }

    fn walked(&mut self, core: usize, at: Addr, walk: &Walk, entry: Option<Forwarding>) -> Addr {
        match &mut self.forwards {
            Some(forwards) => forwards.walked(core, at, walk, entry),
            None => at,
        }
    }

    fn set_relocation(&mut self, hw: &mut Hw<()>, registers: Option<Relocation>) {
        if self.flaw != Flaw::KeepsPending {
            hw.forget_relocated();
        }
        self.registers = registers;
        self.since = hw.memory.next_number();
        self.was_set = true;
        self.reached.clear();
        if let Some(forwards) = &mut self.forwards {
            forwards.clear();
        }
    }

    fn save(&self, hw: &Hw<()>, image: &mut [LineData]) {
        if let Some(registers) = self.registers {
            self.reached.save(hw.queue.now(), &registers, image);
        }
    }
}
