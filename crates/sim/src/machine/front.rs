//! The requests of a core's program, one attempt at a time.

use super::System;
use crate::caches::coherence::{Fill, acquire};
use crate::caches::private::Way;
use crate::core::{Entry, Kind, Waits};
use crate::design::Design;
use crate::engine::counters::{Counters, Reason};
use crate::hw::Gate;
use crate::relocation::{Lookup, Walk};
use crate::seam::{CorePort, Locked};
use crate::{Cycle, LineId};
use seawall_memory::relocation::{Forwarding, Relocation};
use seawall_memory::{Addr, Fence, LINE_BYTES, Width};

/// The line, word and offset of an access.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) line: LineId,
    pub(super) word: u8,
    pub(super) shift: u32,
}

impl Place {
    /// A store of `value` here.
    #[inline]
    pub(super) fn entry(self, kind: Kind, width: Width, value: u64) -> Entry {
        let (mask, value) = (width.mask() << self.shift, value << self.shift);
        Entry { word: self.word, count: 1, mask, value, ..Entry::mark(kind, self.line) }
    }
}

/// The number of cycles for which loads of one line can take effect with the first of them.
const JOINED_CYCLES: Cycle = 4;

/// A line in the L1 of the loading core.
struct Found {
    way: Way,
    done: Cycle,
    source: Reason,
    /// Whether it took longer than a hit.
    long: bool,
}

impl Found {
    /// The copy in `way`, complete at `ready`; a hit completes at `hit`.
    #[inline(always)]
    fn new(hit: Cycle, way: Way, ready: Cycle, source: Reason) -> Found {
        let done = hit.max(ready);
        Found { way, done, source, long: done > hit }
    }
}

/// The access was not performed: the program pauses.
pub(super) struct Pause;

impl<D: Design> System<D> {
    #[inline]
    pub(super) fn place(&self, at: Addr, width: Width) -> Place {
        let offset = at.offset();
        assert!(offset.is_multiple_of(width.bytes()), "{at:?} is not aligned to its width");
        let word = (offset / 8 % 8) as u8;
        Place { line: self.line_of(at), word, shift: 8 * (offset % 8) as u32 }
    }

    /// Ends a wait that is over, and issues the instruction at its first attempt.
    #[inline(always)]
    pub(super) fn begin(&mut self, core: usize) {
        let state = &mut self.hw.cores[core];
        if state.waits == Waits::Nothing && !state.started {
            state.started = true;
            state.issue();
        } else {
            self.begin_again(core);
        }
    }

    #[inline(never)]
    fn begin_again(&mut self, core: usize) {
        if self.hw.cores[core].waits != Waits::Nothing {
            self.end_wait(core, self.hw.queue.now());
        }
        let state = &mut self.hw.cores[core];
        if !state.started {
            state.started = true;
            state.issue();
        }
    }

    /// Why the program of `core`, which waits, does so.
    pub(super) fn waits_for(&self, core: usize) -> Reason {
        let state = &self.hw.cores[core];
        match state.waits {
            Waits::Access(reason) => reason,
            Waits::Change(_) => Reason::Lock,
            Waits::Room | Waits::Empty | Waits::Drain => {
                state.buffer.reason.unwrap_or(Reason::StoreBuffer)
            }
            Waits::Parked(reason) => reason,
            Waits::Nothing | Waits::Done => unreachable!("the program does not wait"),
        }
    }

    pub(super) fn end_wait(&mut self, core: usize, now: Cycle) {
        let reason = self.waits_for(core);
        let state = &mut self.hw.cores[core];
        state.account(now, reason);
        state.clock = state.clock.max(now);
        state.waits = Waits::Nothing;
    }

    #[inline]
    pub(super) fn done(&mut self, core: usize) {
        self.hw.cores[core].started = false;
    }

    /// Waits for the program's turn.
    #[inline]
    pub(super) fn in_turn(&mut self, core: usize) -> Result<Cycle, Pause> {
        let clock = self.hw.cores[core].clock;
        if self.hw.queue.is_first(core, clock) {
            return Ok(clock);
        }
        self.hw.queue.program(clock, core);
        Err(Pause)
    }

    /// As [`in_turn`](Self::in_turn), but a load takes effect together with the load just before it
    /// if both read one line and nothing else has happened in between, as in a core that issues
    /// several loads per cycle.
    #[inline]
    fn in_turn_to_load(&mut self, core: usize, line: LineId) -> Result<Cycle, Pause> {
        let state = &self.hw.cores[core];
        let (last, turn, cycle) = state.last_load;
        let turns = self.hw.queue.turns();
        if last == line && turn == turns && state.clock - cycle <= JOINED_CYCLES {
            return Ok(state.clock);
        }
        let clock = self.in_turn(core)?;
        self.hw.cores[core].last_load = (line, turns, clock);
        Ok(clock)
    }

    pub(super) fn wait(&mut self, core: usize, waits: Waits) -> Pause {
        let state = &mut self.hw.cores[core];
        if let (Waits::Access(reason), true) = (waits, state.watch.is_some()) {
            state.count_conflict(reason);
        }
        state.waits = waits;
        state.since = state.clock;
        Pause
    }

    /// Applies the answer of a gate to the program of `core`.
    pub(super) fn passes(&mut self, core: usize, gate: Gate) -> Result<(), Pause> {
        if gate == Gate::Go { Ok(()) } else { Err(self.refused(core, gate)) }
    }

    /// Makes the program wait as the gate says.
    pub(super) fn refused(&mut self, core: usize, gate: Gate) -> Pause {
        match gate {
            Gate::Go => unreachable!("a refusal is never a go"),
            Gate::At(at, reason) => {
                self.hw.queue.program(at, core);
                self.wait(core, Waits::Access(reason))
            }
            Gate::Wait(reason) => self.wait(core, Waits::Access(reason)),
        }
    }

    /// Before `core` accesses `line`: its own non-temporal stores to the line leave the
    /// write-combining buffer.
    #[inline]
    fn own_non_temporal_first(&mut self, core: usize, line: LineId) -> Result<(), Pause> {
        if !self.hw.write_combining[core].is_live() {
            return Ok(());
        }
        let buffer = &self.hw.cores[core].buffer;
        if self.hw.write_combining[core].queued > 0 && buffer.has_non_temporal(line) {
            return Err(self.wait(core, Waits::Empty));
        }
        let gate = self.leave_line(core, line, self.hw.cores[core].clock);
        self.passes(core, gate)
    }

    pub(super) fn attempt_load(
        &mut self,
        core: usize,
        at: Addr,
        width: Width,
    ) -> Result<u64, Pause> {
        let place = self.place(at, width);
        self.attempt_part(core, at, place, width.mask() << place.shift)
    }

    /// Loads the bits `need` of the word at `place`.
    #[inline(always)]
    pub(super) fn attempt_part(
        &mut self,
        core: usize,
        at: Addr,
        place: Place,
        need: u64,
    ) -> Result<u64, Pause> {
        self.begin(core);
        let clock = self.in_turn_to_load(core, place.line)?;
        self.own_non_temporal_first(core, place.line)?;
        let (mask, pending) = self.hw.cores[core].buffer.pending(place.line, place.word);
        if mask & need == need {
            self.hw.cores[core].loaded(pending & need, clock + 1, Reason::StoreBuffer, false);
            return Ok((pending & need) >> place.shift);
        }
        let found = self.find(core, at, place.line)?;
        let stored = self.hw.data(core, found.way, place.line)[place.word as usize];
        let value = (stored & !mask | pending) & need;
        self.hw.cores[core].loaded(value, found.done, found.source, found.long);
        if self.trace.on {
            self.tell_load(core, place.line, place.word, need & !mask);
        }
        Ok(value >> place.shift)
    }

    /// Loads aligned words of one line, which take effect together: with one instruction each, or
    /// all with one. Returns when they are complete.
    pub(super) fn attempt_words(
        &mut self,
        core: usize,
        at: Addr,
        into: &mut [u64],
        is_one: bool,
    ) -> Result<Cycle, Pause> {
        self.begin(core);
        let place = self.place(at, Width::B8);
        let clock = self.in_turn_to_load(core, place.line)?;
        self.own_non_temporal_first(core, place.line)?;
        let buffer = &self.hw.cores[core].buffer;
        let mut masks = [0; 8];
        for value in into.iter_mut() {
            *value = 0;
        }
        if buffer.may_have(place.line) {
            buffer.pending_words(place.line, place.word, into, &mut masks);
        }
        let (mut done, mut source, mut long) = (clock + 1, Reason::StoreBuffer, false);
        if masks[..into.len()].iter().any(|mask| *mask != u64::MAX) {
            let found = self.find(core, at, place.line)?;
            let stored = &self.hw.data(core, found.way, place.line)[place.word as usize..];
            for ((value, mask), stored) in into.iter_mut().zip(masks).zip(stored) {
                *value |= stored & !mask;
            }
            (done, source, long) = (found.done, found.source, found.long);
            if self.trace.on {
                for (word, mask) in (place.word..).zip(&masks[..into.len()]) {
                    self.tell_load(core, place.line, word, !mask);
                }
            }
        }
        let state = &mut self.hw.cores[core];
        let (first, others) = into.split_first().expect("at least a word");
        for value in others {
            state.loaded(*value, done, source, long);
            if !is_one {
                state.issue();
            }
        }
        state.loaded(*first, done, source, long);
        Ok(done)
    }

    /// The copy of `line` that a load from `at` reads: in the L1, or fetched.
    #[inline(always)]
    fn find(&mut self, core: usize, at: Addr, line: LineId) -> Result<Found, Pause> {
        let start = self.hw.cores[core].start_of(at);
        let hit = start + self.hw.config.l1.latency;
        if let Some(way) = self.hw.private[core].touch(line) {
            let copy = self.hw.private[core].copy(way);
            return Ok(Found::new(hit, way, copy.ready, copy.source));
        }
        let fill = self.fetch(core, line, start)?;
        Ok(Found::new(hit, fill.way, fill.ready, fill.source))
    }

    /// Fetches `line` at `start` for a load.
    #[inline(never)]
    fn fetch(&mut self, core: usize, line: LineId, start: Cycle) -> Result<Fill, Pause> {
        let clock = self.hw.cores[core].clock;
        self.hw.cores[core].wait_for_mshr();
        if self.hw.cores[core].clock != clock {
            self.hw.queue.program(self.hw.cores[core].clock, core);
            return Err(Pause);
        }
        let who = Self::waiter(core, true);
        match acquire(&mut self.design, &mut self.hw, who, line, false, start) {
            Ok(fill) => {
                self.hw.cores[core].missed(fill.ready, fill.source);
                self.hw.detail.note(|tally| tally.load_missed(core, start, fill.ready));
                Ok(fill)
            }
            Err(gate) => {
                self.hw.detail.note(|tally| tally.load_waits(core, start));
                Err(self.refused(core, gate))
            }
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, core: usize, entry: Entry) {
        let state = &mut self.hw.cores[core];
        let entry = Entry { from: state.retires(), ..entry };
        let was_empty = state.buffer.entries.is_empty();
        state.buffer.push(entry);
        if was_empty {
            self.hw.queue.stores(entry.from, core);
        }
    }

    /// Puts an entry into the store buffer, when there is a place.
    #[inline(always)]
    pub(super) fn attempt_push(&mut self, core: usize, entry: Entry) -> Result<(), Pause> {
        self.begin(core);
        if self.hw.cores[core].buffer.len() >= self.hw.config.core.store_buffer {
            return Err(self.wait(core, Waits::Room));
        }
        self.push(core, entry);
        Ok(())
    }

    fn attempt_spin(&mut self, core: usize, at: Addr, value: u64) -> Result<u64, Pause> {
        let found = self.attempt_load(core, at, Width::B8)?;
        if found != value {
            return Ok(found);
        }
        // The branch of the loop needs the value.
        self.hw.cores[core].wait_for_loads();
        let line = self.line_of(at);
        Err(self.wait(core, Waits::Change(line)))
    }
}

impl<D: Design> CorePort for System<D> {
    #[inline]
    fn load(&mut self, core: usize, at: Addr, width: Width) -> Option<u64> {
        let value = self.attempt_load(core, at, width).ok()?;
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.loads += 1;
        Some(value)
    }

    fn load_words(&mut self, core: usize, at: Addr, into: &mut [u64]) -> bool {
        if self.attempt_words(core, at, into, false).is_err() {
            return false;
        }
        self.done(core);
        self.hw.counters.references += into.len() as u64;
        self.hw.counters.loads += into.len() as u64;
        true
    }

    #[inline]
    fn store(&mut self, core: usize, at: Addr, width: Width, value: u64) -> bool {
        let entry = self.place(at, width).entry(Kind::Store, width, value);
        if self.attempt_push(core, entry).is_err() {
            return false;
        }
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.stores += 1;
        true
    }

    fn read_wide(&mut self, core: usize, at: Addr, into: &mut [u64]) -> Option<Cycle> {
        let done = self.attempt_words(core, at, into, true).ok()?;
        self.done(core);
        Some(done)
    }

    fn copy(&mut self, core: usize, at: Addr, words: &[u64], bytes: usize) -> bool {
        if self.attempt_copy(core, at, words, bytes).is_err() {
            return false;
        }
        self.done(core);
        self.hw.counters.relocated_lines += 1;
        true
    }

    fn look_up(&mut self, core: usize, at: Addr) -> Option<Lookup> {
        let lookup = self.attempt_lookup(core, at).ok()?;
        self.done(core);
        self.hw.counters.checklookups += 1;
        Some(lookup)
    }

    fn walked(
        &mut self,
        core: usize,
        at: Addr,
        walk: &Walk,
        entry: Option<Forwarding>,
        done: Cycle,
    ) -> Addr {
        self.has_walked(core, at, walk, entry, done)
    }

    fn set_relocation(&mut self, core: usize, registers: Option<Relocation>) -> bool {
        let is_set = self.attempt_registers(core, registers).is_ok();
        if is_set {
            self.done(core);
        }
        is_set
    }

    fn stream(&mut self, core: usize, at: Addr, width: Width, value: u64) -> bool {
        let entry = self.place(at, width).entry(Kind::NonTemporal, width, value);
        if self.attempt_push(core, entry).is_err() {
            return false;
        }
        self.streamed(core, 1);
        true
    }

    fn locked(&mut self, core: usize, at: Addr, operation: Locked) -> Option<u64> {
        let old = self.attempt_locked(core, at, operation).ok()?;
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.locked += 1;
        let has_failed = matches!(operation, Locked::CompareExchange(current, _) if current != old);
        self.hw.counters.locked_failed += u64::from(has_failed);
        Some(old)
    }

    fn flush(&mut self, core: usize, line: LineId) -> bool {
        // One of a page of the host that is volatile.
        if !self.hw.is_pm(line) {
            return true;
        }
        let pushed = self.attempt_push(core, Entry::mark(Kind::Flush, line)).is_ok();
        if pushed {
            self.done(core);
        }
        pushed
    }

    fn fence(&mut self, core: usize, fence: Fence) -> bool {
        if self.hw.cores[core].waits == Waits::Drain {
            let drained = !self.hw.cores[core].buffer.waits_to_drain();
            if drained {
                self.begin(core);
                self.done(core);
                let now = self.hw.cores[core].clock;
                self.hw.detail.note(|tally| tally.drained(core, now));
            }
            return drained;
        }
        let kind = match fence {
            Fence::Order => Kind::Order,
            Fence::Drain => Kind::Drain,
            Fence::Strand => Kind::Strand,
            Fence::Join => Kind::Join,
        };
        if self.attempt_push(core, Entry::mark(kind, 0)).is_err() {
            return false;
        }
        if fence == Fence::Drain {
            let now = self.hw.cores[core].clock;
            self.hw.detail.note(|tally| tally.drain_begins(core, now));
            self.wait(core, Waits::Drain);
            return false;
        }
        self.done(core);
        true
    }

    fn output(&mut self, core: usize, number: u64) {
        self.push(core, Entry { value: number, ..Entry::mark(Kind::Output, 0) });
    }

    fn work(&mut self, core: usize, instructions: u32) {
        self.hw.cores[core].work(instructions);
    }

    fn spin(&mut self, core: usize, at: Addr, value: u64) -> Option<u64> {
        let found = self.attempt_spin(core, at, value).ok()?;
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.loads += 1;
        Some(found)
    }

    #[inline]
    fn line_of(&self, at: Addr) -> LineId {
        let line = (at.offset() / 64) as LineId;
        let (first, lines) = if at.is_pm() {
            (0, self.offset_lines)
        } else {
            (self.hw.pm_lines, self.hw.values.lines() - self.hw.pm_lines)
        };
        if at.offset() / 64 < u64::from(lines) { first + line } else { self.line_in_page(at) }
    }

    fn clock(&self, core: usize) -> Cycle {
        self.hw.cores[core].clock
    }

    fn counters(&self) -> Counters {
        self.hw.all_counters()
    }

    fn pm_bytes(&self) -> u64 {
        u64::from(self.hw.program_lines) * LINE_BYTES
    }

    fn uses_flushes(&self) -> bool {
        D::USES_FLUSHES
    }

    fn has_strands(&self) -> bool {
        D::HAS_STRANDS
    }

    fn relocates(&self) -> bool {
        D::RELOCATES && self.pages.is_none()
    }

    fn forwards(&self) -> bool {
        self.design.forwards()
    }

    fn combines(&self, at: Addr) -> bool {
        let has_buffer = D::COMBINES && self.hw.config.core.write_combining > 0;
        has_buffer
            && match self.pages {
                None => at.is_pm(),
                Some(_) => self.hw.is_pm(self.line_of(at)),
            }
    }

    fn finished(&mut self, core: usize) {
        self.program_returned(core);
    }
}
