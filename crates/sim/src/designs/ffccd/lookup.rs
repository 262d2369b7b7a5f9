//! The lookup hardware of each core: Bloom Filter Cache and PMFTLB (ISCA'22, section 4.3.2).
//!
//! A core has one of the eight filters at a time. Loading another takes the published 120 cycles,
//! and its lines do not go through the caches. An address that passes the filter is looked up in
//! the PMFTLB; on a miss the core reads its entry in the pool with loads.
//!
//! An entry of the PMFTLB has 64 bytes of minor distances in the paper's Table 1, and 256 in its
//! text. Here it has 64, for a quarter of a page.

use super::{Flaw, Params};
use crate::Cycle;
use crate::hw::Hw;
use crate::relocation::{Lookup, Walk};
use seawall_memory::relocation::{FILTER_BYTES, Forwarding, RELOCATION_PAGE, Relocation};
use seawall_memory::{Addr, LINE_BYTES};

/// Quarters of a page.
const QUARTERS: u64 = 4;

/// A quarter of a page whose forwarding entry a core holds.
struct Known {
    quarter: u64,
    entry: Forwarding,
    used: u64,
}

/// The lookup hardware of a core.
#[derive(Default)]
struct OfCore {
    /// The loaded filter and its number.
    filter: Option<(u64, Vec<u64>)>,
    known: Vec<Known>,
}

/// The lookup hardware of all cores.
pub(super) struct Lookups {
    flaw: Flaw,
    entries: usize,
    search: Cycle,
    check: Cycle,
    load: Cycle,
    cores: Vec<OfCore>,
    clock: u64,
    /// How often the registers have been set.
    generation: u64,
}

/// The number of the quarter that contains `at`, counted over all pages.
fn quarter_of(at: Addr) -> u64 {
    at.offset() / (RELOCATION_PAGE / QUARTERS)
}

impl Lookups {
    pub(super) fn new(params: &Params, cores: usize) -> Lookups {
        Lookups {
            flaw: params.flaw,
            entries: params.pmftlb_entries,
            search: params.pmftlb_cycles,
            check: params.bloom_cycles,
            load: params.bloom_load_cycles,
            cores: (0..cores).map(|_| OfCore::default()).collect(),
            clock: 0,
            generation: 0,
        }
    }

    /// The registers have been set.
    pub(super) fn clear(&mut self) {
        self.generation += 1;
        for core in &mut self.cores {
            core.filter = None;
            if self.flaw != Flaw::StaleLookups {
                core.known.clear();
            }
        }
    }

    /// The answer of `core`'s hardware for the object at `at`.
    pub(super) fn look_up(
        &mut self,
        hw: &mut Hw<()>,
        registers: &Relocation,
        core: usize,
        at: Addr,
    ) -> Lookup {
        let Some(page) = registers.page_of(at) else { return Lookup::At(at, 0) };
        let mut cycles = self.check;
        let number = registers.filter_of(page);
        let filter = &mut self.cores[core].filter;
        if filter.as_ref().is_none_or(|(loaded, _)| *loaded != number) {
            hw.counters.filter_loads += 1;
            cycles += self.load;
            *filter = Some((number, read_filter(hw, registers.filter(number))));
        }
        let (_, bits) = filter.as_ref().expect("just loaded");
        let has = |bit: &u64| bits[(bit / 64) as usize] >> (bit % 64) & 1 == 1;
        if !Relocation::filter_bits(page).iter().all(has) {
            return Lookup::At(at, cycles);
        }
        cycles += self.search;
        self.clock += 1;
        let quarter = quarter_of(at);
        let mut known = self.cores[core].known.iter_mut();
        if let Some(known) = known.find(|known| known.quarter == quarter) {
            hw.counters.pmftlb_hits += 1;
            known.used = self.clock;
            return Lookup::At(known.entry.of(at).unwrap_or(at), cycles);
        }
        hw.counters.pmftlb_misses += 1;
        let (place, generation) = (registers.place(page), self.generation);
        Lookup::Walk(Walk { place, quarter: quarter % QUARTERS, generation }, cycles)
    }

    /// Stores what was read, unless the registers have been set meanwhile.
    pub(super) fn walked(
        &mut self,
        core: usize,
        at: Addr,
        walk: &Walk,
        entry: Option<Forwarding>,
    ) -> Addr {
        let Some(entry) = entry else { return at };
        let to = entry.of(at).unwrap_or(at);
        let known = &mut self.cores[core].known;
        if walk.generation == self.generation {
            if known.len() >= self.entries {
                let oldest = known.iter().enumerate().min_by_key(|(_, known)| known.used);
                known.swap_remove(oldest.map_or(0, |(number, _)| number));
            }
            known.push(Known { quarter: quarter_of(at), entry, used: self.clock });
        }
        to
    }
}

/// The words of the filter at `at`, read from memory.
fn read_filter(hw: &Hw<()>, at: Addr) -> Vec<u64> {
    let first = at.offset() / LINE_BYTES;
    let lines = first..first + FILTER_BYTES / LINE_BYTES;
    lines.flat_map(|line| *hw.in_memory(line as u32)).collect()
}
