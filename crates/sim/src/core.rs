//! An out-of-order core, approximated by what limits it: issue width, reorder buffer, store buffer,
//! outstanding misses, and loads whose address came from an earlier load.
//!
//! The program runs in order as a fiber; its clock is when the current instruction issues. A load
//! that misses does not stop it: the core runs on until the reorder buffer is full behind that
//! load, or until an access uses an address that was computed from what the load returned. Compiled
//! programs say so ([`SimMemory::wait_for_address`](crate::SimMemory::wait_for_address)); of others
//! it is recognised by value: the address lies within the object that a recent load's value points
//! to. Stores retire in order
//! into the store buffer, which drains in order in the background; fences and flushes go through
//! the store buffer too, so that they hold up later stores and not later loads.

mod entry;
pub(crate) mod profile;
pub(crate) mod write_combining;

use crate::config::Machine;
use crate::engine::counters::{Reason, Stalls};
use crate::{Cycle, LineId};
use profile::{EntrySites, Watch};
use seawall_memory::Addr;
use std::collections::VecDeque;
use std::ops::Range;

pub(crate) use entry::{Entry, Kind};

/// The distance in bytes from a loaded pointer within which an access counts as using it.
const OBJECT_BYTES: u64 = 1024;
const POINTERS: usize = 4;
/// Stands for no outstanding load.
const NEVER: (Cycle, u64) = (Cycle::MAX, u64::MAX);

/// A waiter: the program of a core or its store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) core: usize,
    pub(crate) is_program: bool,
}

/// A store buffer with store-to-load forwarding.
pub(crate) struct StoreBuffer {
    pub(crate) entries: VecDeque<Entry>,
    /// The number of stores to each word of each hash of a line, so that most loads need no search.
    filter: [[u8; 8]; FILTER],
    /// The number of entries that take a place (outputs, and all but one of a copied line, do not).
    places: usize,
    /// Why the head cannot drain.
    pub(crate) reason: Option<Reason>,
    /// Where in the program its entries are from, if that is asked for.
    sites: Option<Box<EntrySites>>,
}

/// The lines that the filter distinguishes; a store buffer rarely has stores to more.
const FILTER: usize = 64;

impl Default for StoreBuffer {
    fn default() -> StoreBuffer {
        StoreBuffer {
            entries: VecDeque::new(),
            filter: [[0; 8]; FILTER],
            places: 0,
            reason: None,
            sites: None,
        }
    }
}

impl StoreBuffer {
    /// Places taken.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.places
    }

    #[inline]
    fn stores_to(&mut self, line: LineId, word: u8) -> &mut u8 {
        &mut self.filter[line as usize % FILTER][usize::from(word % 8)]
    }

    /// False if no store to `line` waits.
    #[inline]
    pub(crate) fn may_have(&self, line: LineId) -> bool {
        self.filter[line as usize % FILTER] != [0; 8]
    }

    /// True if a waiting copy overwrites all of `line`, so that its old value is not needed.
    pub(crate) fn overwrites(&self, line: LineId) -> bool {
        let is_whole_word = |entry: &Entry| {
            entry.line == line
                && matches!(entry.kind, Kind::Part | Kind::Copy)
                && entry.mask == u64::MAX
        };
        let words = self.entries.iter().filter(|entry| is_whole_word(entry));
        self.may_have(line) && words.fold(0u8, |words, entry| words | 1 << (entry.word % 8)) == 255
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if entry.kind.is_store() {
            *self.stores_to(entry.line, entry.word) += 1;
        }
        self.places += usize::from(entry.kind.takes_place());
        self.entries.push_back(entry);
        if let Some(sites) = &mut self.sites {
            sites.push();
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        if entry.kind.is_store() {
            *self.stores_to(entry.line, entry.word) -= 1;
        }
        self.places -= usize::from(entry.kind.takes_place());
        if let Some(sites) = &mut self.sites {
            sites.pop();
        }
        Some(entry)
    }

    /// Performs the store at the head, with all its words, on the data of its line.
    pub(crate) fn lay_head_over(&self, data: &mut [u64; 8]) {
        for entry in &self.entries {
            let word = &mut data[usize::from(entry.word % 8)];
            *word = *word & !entry.mask | entry.value & entry.mask;
            if entry.kind != Kind::Part {
                return;
            }
        }
    }

    /// True if a non-temporal store to `line` waits.
    pub(crate) fn has_non_temporal(&self, line: LineId) -> bool {
        self.entries.iter().any(|entry| entry.kind.is_non_temporal() && entry.line == line)
    }

    /// True while a drain stands in the buffer.
    pub(crate) fn waits_to_drain(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == Kind::Drain)
    }

    /// The bytes of a word that waiting stores will write: a mask, and the value.
    #[inline]
    pub(crate) fn pending(&self, line: LineId, word: u8) -> (u64, u64) {
        if self.filter[line as usize % FILTER][usize::from(word % 8)] == 0 {
            return (0, 0);
        }
        let mut found = (0, 0);
        for entry in &self.entries {
            if entry.kind.is_store() && entry.line == line && entry.word == word {
                found = (found.0 | entry.mask, found.1 & !entry.mask | entry.value & entry.mask);
            }
        }
        found
    }

    /// As [`pending`](StoreBuffer::pending), for the words of `line` from `first` on: fills
    /// `values` and `masks`.
    pub(crate) fn pending_words(
        &self,
        line: LineId,
        first: u8,
        values: &mut [u64],
        masks: &mut [u64; 8],
    ) {
        for entry in self.entries.iter().filter(|entry| entry.line == line) {
            let at = usize::from(entry.word.wrapping_sub(first)) % 8;
            if entry.kind.is_store() && entry.word >= first && at < values.len() {
                masks[at] |= entry.mask;
                values[at] = values[at] & !entry.mask | entry.value & entry.mask;
            }
        }
    }
}

/// What the program of a core waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// Nothing: the program runs, or is about to.
    Nothing,
    /// A cycle, or the wake-up by a design.
    Access(Reason),
    /// A place in the store buffer.
    Room,
    /// An empty store buffer.
    Empty,
    /// A drain at the head of the store buffer.
    Drain,
    /// The loss of its copy of a line.
    Change(LineId),
    /// Another program, which unparks it.
    Parked(Reason),
    /// Nothing: its function has returned.
    Done,
}

struct Outstanding {
    number: u64,
    done: Cycle,
    reason: Reason,
    site: u32,
}

/// One core.
pub(crate) struct Core {
    /// When the current instruction issues.
    pub(crate) clock: Cycle,
    /// What the program waits for.
    pub(crate) waits: Waits,
    /// Whether another program has unparked it since it last parked.
    pub(crate) is_unparked: bool,
    /// The number of the latest park that has a deadline, and whether that is over.
    pub(crate) alarm: (u32, bool),
    /// Whether the program's current instruction has been issued.
    pub(crate) started: bool,
    /// The cycle up to which time has been accounted.
    pub(crate) since: Cycle,
    /// Stores, flushes and fences that have been issued and have not taken effect.
    pub(crate) buffer: StoreBuffer,
    /// The cycles by reason.
    pub(crate) stalls: Stalls,
    /// The line of the last load, and the turn and cycle in which it was loaded.
    pub(crate) last_load: (LineId, u64, Cycle),
    /// Where the program is; stays 0 if nobody says.
    site: u32,
    /// Where and when it stalls, if that is asked for.
    pub(crate) watch: Option<Box<Watch>>,
    /// When the last load in program order so far completes: no younger instruction retires
    /// earlier.
    retire: Cycle,
    retire_reason: Reason,
    retire_site: u32,
    issued: u32,
    /// The instructions that it has issued.
    pub(crate) number: u64,
    /// Outstanding loads that retire later than all loads before them.
    loads: VecDeque<Outstanding>,
    /// The clock and the instruction at which the first of them must be examined.
    retire_at: (Cycle, u64),
    /// When the lines that loads have requested arrive, why so late, and whose loads they are.
    misses: Vec<(Cycle, Reason, u32)>,
    /// What can be the address of an object in memory.
    addresses: Range<u64>,
    pointers: [(u64, Cycle); POINTERS],
    next_pointer: usize,
    /// From when on no load has to wait for its address.
    pointers_until: Cycle,
    /// When the address of the next load is known, if the program says so.
    known: Cycle,
    /// When the last of the loads arrives since this was last taken.
    pub(crate) arrived: Cycle,
    /// The share of a cycle's issue slots that one instruction takes.
    slot: u32,
    per_cycle: u32,
    rob: u64,
    mshrs: usize,
}

impl Core {
    /// A core of a machine whose objects have these addresses, but for the bit of volatile ones.
    pub(crate) fn new(machine: &Machine, addresses: Range<u64>) -> Core {
        let width = machine.core.width;
        let (slot, per_cycle) = match machine.core.parallelism {
            Some(parallelism) if parallelism < 1000 * width => (1000, parallelism),
            _ => (1, width),
        };
        Core {
            clock: 0,
            waits: Waits::Nothing,
            is_unparked: false,
            alarm: (0, false),
            started: false,
            since: 0,
            buffer: StoreBuffer::default(),
            stalls: Stalls::default(),
            last_load: (LineId::MAX, 0, 0),
            site: 0,
            watch: None,
            retire: 0,
            retire_reason: Reason::LoadLlc,
            retire_site: 0,
            issued: 0,
            number: 0,
            loads: VecDeque::new(),
            retire_at: NEVER,
            misses: Vec::new(),
            addresses,
            pointers: [(0, 0); POINTERS],
            next_pointer: 0,
            pointers_until: 0,
            known: 0,
            arrived: 0,
            slot,
            per_cycle,
            rob: machine.core.rob,
            mshrs: machine.core.mshrs,
        }
    }

    /// Issues one instruction: waits for a place in the reorder buffer, then counts it.
    #[inline]
    pub(crate) fn issue(&mut self) {
        self.number += 1;
        self.issued += self.slot;
        while self.issued >= self.per_cycle {
            self.issued -= self.per_cycle;
            self.clock += 1;
        }
        if self.clock >= self.retire_at.0 || self.number >= self.retire_at.1 {
            self.retire_loads();
        }
    }

    /// Issues `count` instructions that touch no memory.
    pub(crate) fn work(&mut self, count: u32) {
        let mut left = u64::from(count);
        let (slot, per_cycle) = (u64::from(self.slot), u64::from(self.per_cycle));
        while left > 0 {
            // In one step, up to the instruction at which a load must be examined.
            let (clock, number) = self.retire_at;
            let cycles = clock.saturating_sub(self.clock).min(left * slot);
            let by_clock = (cycles * per_cycle).saturating_sub(self.issued.into()) / slot;
            let by_number = number.saturating_sub(self.number);
            let step = left.min(by_clock).min(by_number).max(1);
            let issued = u64::from(self.issued) + step * slot;
            self.number += step;
            self.clock += issued / per_cycle;
            self.issued = (issued % per_cycle) as u32;
            self.retire_loads();
            left -= step;
        }
    }

    #[inline(never)]
    fn retire_loads(&mut self) {
        while let Some(first) = self.loads.front() {
            if first.done > self.clock {
                let full = first.number + self.rob;
                if full > self.number {
                    self.retire_at = (first.done, full);
                    return;
                }
                let (done, reason, site) = (first.done, first.reason, first.site);
                self.stall_behind(site, done, reason);
            }
            self.loads.pop_front();
        }
        self.retire_at = NEVER;
    }

    /// Moves the clock to `at`, if that is later, for `reason`.
    #[inline]
    pub(crate) fn stall_until(&mut self, at: Cycle, reason: Reason) {
        self.stall_behind(self.site, at, reason);
    }

    /// As above, because of an instruction at `site`.
    #[inline]
    fn stall_behind(&mut self, site: u32, at: Cycle, reason: Reason) {
        if at > self.clock {
            self.stalls.add(reason, at - self.clock);
            if self.watch.is_some() {
                self.charge_stall(site, at, reason);
            }
            self.clock = at;
            self.issued = 0;
        }
    }

    /// Waits until an MSHR is free for a load.
    #[inline]
    pub(crate) fn wait_for_mshr(&mut self) {
        if self.misses.len() < self.mshrs {
            return;
        }
        self.misses.retain(|(arrives, ..)| *arrives > self.clock);
        while self.misses.len() >= self.mshrs {
            let first = self.misses.iter().min_by_key(|(arrives, ..)| *arrives);
            let (arrives, reason, site) = *first.expect("at least one");
            self.stall_behind(site, arrives, reason);
            self.misses.retain(|(other, ..)| *other > arrives);
        }
    }

    /// Records a load's request for a line, which arrives at `arrives`.
    pub(crate) fn missed(&mut self, arrives: Cycle, reason: Reason) {
        self.misses.push((arrives, reason, self.site));
        if self.watch.is_some() {
            self.count_miss(reason);
        }
    }

    /// When an access to `at` can start: now, or when the load that returned its address completes.
    #[inline]
    pub(crate) fn start_of(&self, at: Addr) -> Cycle {
        if self.pointers_until <= self.clock {
            return self.clock;
        }
        let uses = |value: u64| at.bits().wrapping_sub(value) < OBJECT_BYTES;
        let pointers = self.pointers.iter().filter(|(value, _)| uses(*value));
        pointers.map(|(_, done)| *done).fold(self.clock.max(self.known), Cycle::max)
    }

    /// The program says when the addresses of its next loads are known.
    pub(crate) fn wait_for_address(&mut self, known: Cycle) {
        self.known = known;
        self.pointers_until = known;
    }

    /// Records a load that returns `value` at `done`; `long` if that is later than a hit.
    #[inline]
    pub(crate) fn loaded(&mut self, value: u64, done: Cycle, reason: Reason, long: bool) {
        let is_address =
            value >= self.addresses.start && Addr::from_bits(value).offset() < self.addresses.end;
        if is_address && done > self.clock {
            self.pointers[self.next_pointer] = (value, done);
            self.next_pointer = (self.next_pointer + 1) % POINTERS;
            self.pointers_until = self.pointers_until.max(done);
        }
        self.arrived = self.arrived.max(done);
        if done > self.retire {
            self.retire = done;
            self.retire_reason = reason;
            self.retire_site = self.site;
            if long {
                if self.loads.is_empty() {
                    self.retire_at = (done, self.number + self.rob);
                }
                let (number, site) = (self.number, self.site);
                self.loads.push_back(Outstanding { number, done, reason, site });
            }
        }
    }

    /// When an instruction that issues now retires: after all loads before it.
    #[inline]
    pub(crate) fn retires(&self) -> Cycle {
        self.clock.max(self.retire)
    }

    /// Waits until all loads so far are complete.
    pub(crate) fn wait_for_loads(&mut self) {
        self.stall_behind(self.retire_site, self.retire, self.retire_reason);
        self.loads.clear();
        self.retire_at = NEVER;
        self.misses.clear();
    }

    /// Charges the time since the last call, up to `now`, to `reason`; the program still waits.
    #[inline]
    pub(crate) fn account(&mut self, now: Cycle, reason: Reason) {
        if now > self.since {
            self.stalls.add(reason, now - self.since);
            if self.watch.is_some() {
                self.charge_wait(now, reason);
            }
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Core {
        core_with(None)
    }

    fn core_with(parallelism: Option<u32>) -> Core {
        let mut machine = Machine::load("micro15").unwrap();
        machine.core.parallelism = parallelism;
        Core::new(&machine, 64..1 << 20)
    }

    #[test]
    fn instructions_issue_at_the_width_of_the_core() {
        let mut core = core();
        core.work(400);
        assert_eq!((core.clock, core.number), (100, 400));
    }

    #[test]
    fn instructions_that_depend_on_each_other_issue_more_slowly() {
        for (per_1000, cycles) in [(9000, 100), (2500, 160), (1000, 400), (800, 500)] {
            let mut core = core_with(Some(per_1000));
            core.work(399);
            core.issue();
            assert_eq!(core.clock, cycles);
        }
    }

    #[test]
    fn a_load_that_misses_stops_the_core_a_reorder_buffer_later() {
        let mut core = core();
        core.issue();
        core.loaded(0, 1000, Reason::LoadMemory, true);
        core.work(191);
        assert_eq!(core.clock, 48, "191 more instructions fit");
        core.issue();
        assert_eq!(core.clock, 1000);
        assert_eq!(core.stalls.get(Reason::LoadMemory), 1000 - 48);
    }

    #[test]
    fn work_in_one_step_is_as_many_instructions_one_by_one() {
        let state = |core: &Core| (core.clock, core.issued, core.number, core.loads.len());
        for count in 1..800 {
            let fresh = || match count % 3 {
                0 => core(),
                1 => core_with(Some(2300)),
                _ => core_with(Some(700)),
            };
            let (mut steps, mut single) = (fresh(), fresh());
            for (at, done) in [(0, 7), (3, 60), (90, 61), (91, 300), (92, 301)] {
                for core in [&mut steps, &mut single] {
                    (0..at).for_each(|_| core.issue());
                    core.loaded(0, done, Reason::LoadMemory, true);
                }
                steps.work(count);
                (0..count).for_each(|_| single.issue());
                assert_eq!(state(&steps), state(&single), "{count} after a load until {done}");
                assert_eq!(steps.stalls, single.stalls);
            }
        }
    }

    #[test]
    fn an_access_through_a_loaded_pointer_waits_for_it_and_others_do_not() {
        let mut core = core();
        core.loaded(4096, 300, Reason::LoadLlc, true);
        assert_eq!(core.start_of(Addr::pm(4096 + 24)), 300);
        assert_eq!(core.start_of(Addr::pm(4096 + 2048)), 0);
    }

    #[test]
    fn a_waiting_store_is_forwarded_byte_by_byte() {
        let mut buffer = StoreBuffer::default();
        let store = |mask, value| Entry { word: 2, mask, value, ..Entry::mark(Kind::Store, 9) };
        buffer.push(store(0xffff, 0x1111));
        buffer.push(store(0xff, 0x22));
        assert_eq!(buffer.pending(9, 2), (0xffff, 0x1122));
        assert_eq!(buffer.pending(9, 3), (0, 0));
        let (mut values, mut masks) = ([7; 3], [0; 8]);
        buffer.pending_words(9, 1, &mut values, &mut masks);
        assert_eq!((values, masks), ([7, 0x1122, 7], [0, 0xffff, 0, 0, 0, 0, 0, 0]));
        buffer.pop();
        buffer.pop();
        assert_eq!(buffer.pending(9, 2), (0, 0));
    }

    #[test]
    fn outputs_take_no_place_in_the_store_buffer() {
        let mut buffer = StoreBuffer::default();
        buffer.push(Entry { value: 1, ..Entry::mark(Kind::Output, 0) });
        assert_eq!(buffer.len(), 0);
        buffer.push(Entry::mark(Kind::Order, 0));
        assert_eq!(buffer.len(), 1);
    }
}
