//! The requests of programs that the host executes: compiled code, on pages of this process.

use super::System;
use super::front::Pause;
use super::pages::PAGE_BYTES;
use crate::core::{Kind, Waits};
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::hw::Event;
use crate::memory::versions::LineData;
use crate::run::{Measured, SimError};
use crate::seam::{CorePort as _, HostPort};
use crate::{Cycle, LineId};
use seawall_memory::{Addr, LINE_BYTES, Width};

impl<D: Design> System<D> {
    /// The line of an address that is no offset.
    #[cold]
    #[inline(never)]
    pub(super) fn line_in_page(&self, at: Addr) -> LineId {
        let Some(pages) = &self.pages else { panic!("{at:?} is outside memory") };
        pages.line_of(at)
    }

    /// Gives the page at `page` lines with these contents. False if there are none left.
    fn map_page(&mut self, page: u64, is_pm: bool, contents: &[u8]) -> bool {
        assert!(contents.len() as u64 <= PAGE_BYTES, "more contents than a page has");
        let mut bytes = contents.to_vec();
        bytes.resize(PAGE_BYTES as usize, 0);
        let lines = super::to_lines(&bytes);
        let (first, end, kind) = match is_pm {
            true => (self.hw.lines.program, self.hw.program_lines, "persistent"),
            false => (self.hw.lines.end, self.hw.values.lines(), "volatile"),
        };
        if first + lines.len() as LineId > end {
            let begin = if is_pm { 0 } else { self.hw.pm_lines };
            let bytes = u64::from(end - begin) * LINE_BYTES;
            self.failure = Some(SimError::HostSpaceFull { kind, bytes });
            return false;
        }
        let pages = self.pages.as_mut().expect("pages belong to a simulation in host addresses");
        pages.add(page, first);
        self.add_lines(is_pm, &lines);
        if is_pm {
            let first_byte = u64::from(first) * LINE_BYTES;
            self.observer.borrow_mut().mapped(first_byte, &bytes);
        }
        true
    }

    fn add_lines(&mut self, is_pm: bool, lines: &[LineData]) {
        let added = lines.len() as LineId;
        let first = if is_pm { self.hw.lines.program } else { self.hw.lines.end };
        match is_pm {
            true => self.hw.lines.add_persistent(added),
            false => self.hw.lines.end += added,
        }
        self.hw.llc.grow(self.hw.lines.program, self.hw.lines.end);
        for (line, data) in (first..).zip(lines) {
            *self.hw.values.shared_mut(line) = *data;
        }
    }

    /// Whether another program has unparked the core before the deadline.
    fn attempt_park(
        &mut self,
        core: usize,
        reason: Reason,
        deadline: Option<Cycle>,
    ) -> Result<bool, Pause> {
        let state = &mut self.hw.cores[core];
        let is_parked = matches!(state.waits, Waits::Parked(_));
        let is_unparked = std::mem::take(&mut state.is_unparked);
        let is_late = std::mem::take(&mut state.alarm.1);
        let is_over = is_unparked || is_late;
        match (is_parked, is_over) {
            (true, true) => {
                self.end_wait(core, self.hw.queue.now());
                return Ok(is_unparked);
            }
            (true, false) => return Err(Pause),
            (false, true) => return Ok(true),
            (false, false) => {}
        }
        if let Some(at) = deadline {
            if at <= state.clock {
                return Ok(false);
            }
            state.alarm.0 = state.alarm.0.wrapping_add(1);
            let number = state.alarm.0;
            self.hw.queue.event(at, Event::Alarm { core: core as u8, number });
        }
        self.hw.cores[core].wait_for_loads();
        Err(self.wait(core, Waits::Parked(reason)))
    }

    /// The deadline of a park: that one may be over, and the core in another.
    pub(super) fn alarm(&mut self, core: usize, number: u32, now: Cycle) {
        let state = &mut self.hw.cores[core];
        let is_parked = matches!(state.waits, Waits::Parked(_));
        if is_parked && !state.is_unparked && state.alarm.0 == number {
            state.alarm.1 = true;
            self.hw.queue.program(now.max(state.clock), core);
        }
    }

    fn attempt_unpark(&mut self, core: usize, other: usize) -> Result<(), Pause> {
        let now = self.in_turn(core)?;
        let state = &mut self.hw.cores[other];
        let was_unparked = std::mem::replace(&mut state.is_unparked, true);
        if matches!(state.waits, Waits::Parked(_)) && !was_unparked {
            let at = now.max(state.clock);
            self.hw.queue.program(at, other);
        }
        Ok(())
    }

    /// The program as a whole ends at the present of `core`.
    fn attempt_end(&mut self, core: usize) -> Result<(), Pause> {
        let now = self.in_turn(core)?;
        for other in (0..self.programs).filter(|other| *other != core) {
            self.end_program(other, now);
        }
        self.program_returned(core);
        Ok(())
    }

    /// The program of `core` ends wherever it is.
    fn end_program(&mut self, core: usize, now: Cycle) {
        match self.hw.cores[core].waits {
            Waits::Done => return,
            Waits::Nothing => self.hw.cores[core].stall_until(now, Reason::Idle),
            _ => self.end_wait(core, now),
        }
        self.design.forgone(&mut self.hw, core, now);
        self.program_returned(core);
    }

    /// Ends an instruction that was performed, with others behind it that hit the same line.
    fn done_with_others(&mut self, core: usize, others: u32) {
        self.done(core);
        self.hw.cores[core].work(others);
    }
}

impl<D: Design> HostPort for System<D> {
    fn map(&mut self, page: u64, is_pm: bool, contents: &[u8]) -> bool {
        self.map_page(page, is_pm, contents)
    }

    fn is_mapped(&self, at: Addr) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.is_mapped(at))
    }

    fn lock(&mut self, core: usize, at: Addr, bytes: usize) -> Option<[u64; 2]> {
        let words = self.attempt_lock(core, self.span(at, bytes)).ok()?;
        self.done(core);
        Some(words)
    }

    fn unlock(&mut self, core: usize, at: Addr, bytes: usize, new: Option<[u64; 2]>) {
        self.release_lock(core, self.span(at, bytes), new);
        self.hw.counters.references += 1;
        self.hw.counters.locked += 1;
        self.hw.counters.locked_failed += u64::from(new.is_none());
    }

    fn full_fence(&mut self, core: usize) -> bool {
        let is_over = self.attempt_full_fence(core).is_ok();
        if is_over {
            self.done(core);
        }
        is_over
    }

    fn load_bytes(&mut self, core: usize, at: Addr, bytes: usize) -> Option<u64> {
        let value = self.attempt_bytes(core, at, bytes).ok()?;
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.loads += 1;
        Some(value)
    }

    fn load_at_once(&mut self, core: usize, at: Addr, into: &mut [u64]) -> bool {
        if self.attempt_words(core, at, into, true).is_err() {
            return false;
        }
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.loads += 1;
        true
    }

    fn store_at_once(&mut self, core: usize, at: Addr, words: &[u64], masks: &[u64]) -> bool {
        let kinds = (Kind::Part, Kind::Store);
        if self.attempt_store_words(core, at, (words, masks), kinds).is_err() {
            return false;
        }
        self.done(core);
        self.hw.counters.references += 1;
        self.hw.counters.stores += 1;
        true
    }

    fn stream_at_once(&mut self, core: usize, at: Addr, words: &[u64; 8]) -> bool {
        let kinds = (Kind::PartNonTemporal, Kind::NonTemporal);
        if self.attempt_store_words(core, at, (words, &[u64::MAX; 8]), kinds).is_err() {
            return false;
        }
        self.streamed(core, words.len());
        true
    }

    fn frame_loads(&mut self, core: usize, at: Addr, count: u32) -> bool {
        if self.attempt_load(core, at, Width::B8).is_err() {
            return false;
        }
        self.done_with_others(core, count - 1);
        self.hw.counters.references += u64::from(count);
        self.hw.counters.loads += u64::from(count);
        true
    }

    fn frame_stores(&mut self, core: usize, at: Addr, count: u16, value: u64) -> bool {
        let mut entry = self.place(at, Width::B8).entry(Kind::Store, Width::B8, value);
        entry.count = count;
        if self.attempt_push(core, entry).is_err() {
            return false;
        }
        self.done_with_others(core, u32::from(count) - 1);
        self.hw.counters.references += u64::from(count);
        self.hw.counters.stores += u64::from(count);
        true
    }

    fn park(&mut self, core: usize, reason: Reason, deadline: Option<Cycle>) -> Option<bool> {
        self.attempt_park(core, reason, deadline).ok()
    }

    fn turn(&mut self, core: usize) -> bool {
        self.in_turn(core).is_ok()
    }

    fn unpark(&mut self, core: usize, other: usize) -> bool {
        self.attempt_unpark(core, other).is_ok()
    }

    fn end(&mut self, core: usize) -> bool {
        self.attempt_end(core).is_ok()
    }

    fn warm(&mut self, core: usize) -> bool {
        self.attempt_warm(core).is_ok()
    }

    fn set_site(&mut self, core: usize, site: u32) {
        self.hw.cores[core].set_site(site);
    }

    fn wait_for_address(&mut self, core: usize, known: Cycle) {
        self.hw.cores[core].wait_for_address(known);
    }

    fn arrived(&mut self, core: usize) -> Cycle {
        std::mem::take(&mut self.hw.cores[core].arrived)
    }

    fn measured(&mut self, core: usize) -> Option<Measured> {
        self.attempt_measure(core).ok()
    }

    fn mark_region(&mut self, core: usize, begins: bool) -> bool {
        self.attempt_mark_region(core, begins).is_ok()
    }

    fn is_pending(&self, core: usize, at: Addr) -> bool {
        if self.pages.is_some() && !self.is_mapped(at) {
            return false;
        }
        let (line, word) = (self.line_of(at), (at.bits() / 8 % 8) as u8);
        let is_pending = |other: &usize| {
            let buffer = &self.hw.cores[*other].buffer;
            let combining = &self.hw.write_combining[*other];
            let streams = || buffer.has_non_temporal(line) || combining.find(line).is_some();
            buffer.pending(line, word).0 != 0 || combining.is_live() && streams()
        };
        (0..self.hw.cores.len()).filter(|other| *other != core).any(|other| is_pending(&other))
    }

    fn cores(&self) -> usize {
        self.hw.cores.len()
    }

    fn ghz(&self) -> f64 {
        self.hw.config.ghz
    }
}
