//! What a run, or the part of it that its programs mark, has taken.

use super::System;
use super::front::Pause;
use super::to_bytes;
use crate::Cycle;
use crate::core::{Core, Waits, profile};
use crate::design::Design;
use crate::engine::counters::{Reason, Stalls};
use crate::run::{Measured, RunOutcome};

/// The part that is measured: what had been measured at its beginning and at its end.
#[derive(Default)]
pub(super) struct Region {
    from: Option<Measured>,
    to: Option<Measured>,
}

impl<D: Design> System<D> {
    /// What has happened up to cycle `at`.
    fn measured_by(&self, at: Cycle) -> Measured {
        let stalls = (0..self.programs).map(|core| self.stalls_by(core, at)).collect();
        let sites = (0..self.programs).map(|core| {
            let waits = !matches!(self.hw.cores[core].waits, Waits::Nothing | Waits::Done);
            self.hw.cores[core].sites_by(at, waits.then(|| self.waits_for(core)))
        });
        let has_profile = self.hw.cores.iter().any(Core::has_profile);
        let sites = if has_profile { sites.collect() } else { Vec::new() };
        Measured { cycles: at, stalls, counters: self.hw.all_counters(), sites }
    }

    /// The stalled cycles of `core` up to cycle `at`, those of a wait that goes on included.
    fn stalls_by(&self, core: usize, at: Cycle) -> Stalls {
        let state = &self.hw.cores[core];
        let mut stalls = state.stalls;
        match state.waits {
            Waits::Nothing => {}
            Waits::Done => stalls.add(Reason::Idle, at.saturating_sub(state.clock)),
            _ => stalls.add(self.waits_for(core), at.saturating_sub(state.since)),
        }
        stalls
    }

    /// What has happened up to the present of `core`.
    pub(super) fn attempt_measure(&mut self, core: usize) -> Result<Measured, Pause> {
        let now = self.in_turn(core)?;
        Ok(self.measured_by(now))
    }

    /// The region begins or ends at the present of `core`. A second beginning starts anew.
    pub(super) fn attempt_mark_region(&mut self, core: usize, begins: bool) -> Result<(), Pause> {
        let now = self.attempt_measure(core)?;
        let at = now.cycles;
        self.hw.recorder.note(move |tape| if begins { tape.begins(at) } else { tape.ends(at) });
        let issued = self.issued();
        self.hw.detail.note(|tally| match begins {
            true => tally.begins(&issued, at),
            false => tally.ends(&issued, at),
        });
        self.region = match begins {
            true => Region { from: Some(now), to: None },
            false => Region { from: self.region.from.take(), to: Some(now) },
        };
        Ok(())
    }

    /// The instructions that each program's core has issued.
    fn issued(&self) -> Vec<u64> {
        self.hw.cores[..self.programs].iter().map(|core| core.number).collect()
    }

    /// The outcome of the run or of its region, with the first `pm_bytes` persistent bytes.
    pub(super) fn outcome(&self, pm_bytes: Option<usize>) -> RunOutcome {
        let cores = &self.hw.cores[..self.programs];
        let last = cores.iter().map(|core| core.clock).max().unwrap_or(0);
        let from = self.region.from.clone().unwrap_or_default();
        let to = self.region.to.clone().unwrap_or_else(|| self.measured_by(last));
        let cycles = to.cycles - from.cycles;
        let has_region = self.region.to.is_some() || self.region.from.is_some();
        let stalls = to.stalls.iter().enumerate().map(|(core, stalls)| {
            let mut stalls = match from.stalls.get(core) {
                Some(before) => stalls.since(before),
                None => *stalls,
            };
            // A core may have run ahead of the one that marked the end.
            if has_region {
                stalls.trim(cycles);
            }
            stalls
        });
        let stalls: Vec<Stalls> = stalls.collect();
        let sites = to.sites.iter().zip(&stalls).enumerate().map(|(core, (sites, stalls))| {
            let mut sites = profile::between(from.sites.get(core), sites);
            if has_region {
                profile::fit(&mut sites, stalls, cycles);
            }
            sites
        });
        let sites = sites.collect();
        let finished: Vec<Cycle> = cores
            .iter()
            .map(|core| core.clock.clamp(from.cycles, to.cycles) - from.cycles)
            .collect();
        let mut detail = self.hw.detail.finish(&self.issued(), to.cycles);
        for (core, detail) in detail.iter_mut().flat_map(|detail| &mut detail.cores).enumerate() {
            (detail.cycles, detail.stalls) = (finished[core], stalls[core]);
        }
        let ends: Vec<Cycle> = cores.iter().map(|core| core.clock).collect();
        let mut pm = to_bytes(&self.hw.newest());
        pm.truncate(pm_bytes.unwrap_or(pm.len()));
        RunOutcome {
            cycles,
            finished,
            stalls,
            counters: to.counters.since(&from.counters),
            sites,
            timeline: self.hw.recorder.timeline(&ends),
            detail,
            pm,
        }
    }
}
