//! The content of the caches when a run, or the part of it that is measured, begins.

use super::System;
use super::front::Pause;
use super::pages::PAGE_LINES;
use crate::LineId;
use crate::caches::private::State;
use crate::caches::shared::NO_LINE;
use crate::core::Waits;
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::hw::Hw;

/// Fills the shared cache with as much of memory as fits, persistent lines first. Without one, the
/// private caches of `cores` are filled: with the first page those of the first core, with the next
/// those of the second. No line has an owner. Only those lines move that `may`.
pub(super) fn warm<M: Copy>(
    hw: &mut Hw<M>,
    cores: &[usize],
    may: impl Fn(&Hw<M>, usize, LineId) -> bool,
) {
    for line in hw.all_lines() {
        let turn = line / PAGE_LINES % cores.len() as LineId;
        let core = cores[turn as usize];
        let (place, None) = hw.llc.victim(line) else { continue };
        if !may(hw, core, line) {
            continue;
        }
        if !hw.config.llc.directory_only {
            hw.llc.fill(place, line, 0);
            continue;
        }
        let (way, victim) = hw.private[core].far_victim(line);
        if victim == NO_LINE {
            hw.llc.fill(place, line, 0);
            hw.llc.entry_mut(line).sharers = 1 << core;
            hw.private[core].fill(way, line, State::Shared, (0, Reason::LoadL2));
        }
    }
}

impl<D: Design> System<D> {
    /// Fills the caches as they are when a run starts, of the cores that have run so far. Lines
    /// that are there, and those that the design keeps back, stay where they are. Does nothing on a
    /// machine that is to be cold.
    pub(super) fn attempt_warm(&mut self, core: usize) -> Result<(), Pause> {
        self.in_turn(core)?;
        if self.hw.config.cold {
            return Ok(());
        }
        let has_run = |core: &usize| {
            let state = &self.hw.cores[*core];
            state.clock > 0 || !matches!(state.waits, Waits::Parked(_))
        };
        let cores: Vec<usize> = (0..self.programs).filter(has_run).collect();
        let design = &self.design;
        warm(&mut self.hw, &cores, |hw, core, line| {
            hw.llc.find(line).is_none() && design.may_prefetch(hw, core, line)
        });
        Ok(())
    }
}
