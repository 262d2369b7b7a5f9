//! Where in a program the cycles of its core went, and when.
//!
//! A front end says at which site of its program each instruction is, before it issues it. A cycle
//! in which the core stalls counts for the site of the instruction that holds it up: the oldest
//! load that is not complete, the head of the store buffer, or the one that waits itself, as on a
//! lock. Every other cycle counts for the site whose instructions are issued. The same places say
//! when a core stalls, for a [timeline](crate::timeline).

use super::{Core, StoreBuffer, Waits};
use crate::Cycle;
use crate::engine::counters::{Reason, Stalls};
use crate::timeline::Recorder;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a core has spent on one site of its program, and what happened there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTime {
    /// Cycles in which its instructions were issued.
    pub busy: Cycle,
    /// Cycles in which its instructions held up the core.
    pub stalls: Stalls,
    /// Lines that its loads requested and memory answered.
    pub misses: u64,
    /// Accesses that had to wait for an epoch that was not durable.
    pub conflicts: u64,
}

impl SiteTime {
    /// All of its cycles, those in which the core was idle included.
    pub fn cycles(&self) -> Cycle {
        self.busy + self.stalls.total()
    }

    /// Adds those of another core, or of another site.
    pub fn add(&mut self, other: &SiteTime) {
        self.busy += other.busy;
        for reason in Reason::ALL {
            self.stalls.add(reason, other.stalls.get(reason));
        }
        self.misses += other.misses;
        self.conflicts += other.conflicts;
    }

    fn since(&self, earlier: &SiteTime) -> SiteTime {
        SiteTime {
            busy: self.busy.saturating_sub(earlier.busy),
            stalls: self.stalls.since(&earlier.stalls),
            misses: self.misses - earlier.misses,
            conflicts: self.conflicts - earlier.conflicts,
        }
    }
}

/// What is asked about a core: where it stalls, and when.
#[derive(Default)]
pub(crate) struct Watch {
    profile: Option<Profile>,
    recorder: Recorder,
    /// The number of the core.
    core: usize,
}

/// The profile, if there is one.
fn profile_of(watch: &mut Option<Box<Watch>>) -> Option<&mut Profile> {
    watch.as_mut()?.profile.as_mut()
}

/// The sites of a core, by number; 0 is what is at no site.
#[derive(Clone, Default)]
struct Profile {
    times: Vec<SiteTime>,
    /// Cycles of issuing that have been counted.
    issued: Cycle,
    /// Whether it has been counted that the current instruction meets a conflict.
    has_conflict: bool,
}

impl Profile {
    #[inline]
    fn at(&mut self, site: u32) -> &mut SiteTime {
        let site = site as usize;
        if site >= self.times.len() {
            self.times.resize(site + 1, SiteTime::default());
        }
        &mut self.times[site]
    }

    /// Counts the cycles of issuing up to `issued` in all for `site`.
    fn issue(&mut self, site: u32, issued: Cycle) {
        let more = issued.saturating_sub(self.issued);
        self.at(site).busy += more;
        self.issued += more;
    }

    fn charge(&mut self, site: u32, reason: Reason, cycles: Cycle) {
        let site = if reason == Reason::Idle { 0 } else { site };
        self.at(site).stalls.add(reason, cycles);
    }
}

/// The sites of the entries of a store buffer.
#[derive(Default)]
pub(super) struct EntrySites {
    /// That of the next entry.
    pub(super) next: u32,
    of_entries: VecDeque<u32>,
    /// That of the entry which was the head at the beginning of this turn, if it has left.
    left: Option<u32>,
}

impl EntrySites {
    #[cold]
    #[inline(never)]
    pub(super) fn push(&mut self) {
        self.of_entries.push_back(self.next);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn pop(&mut self) {
        let site = self.of_entries.pop_front();
        self.left = self.left.or(site);
    }
}

impl StoreBuffer {
    /// The site of what is the head, or was it until now.
    fn head_site(&self) -> Option<u32> {
        let sites = self.sites.as_ref()?;
        sites.left.or(sites.of_entries.front().copied())
    }
}

impl Core {
    /// From now on sites are told apart.
    pub(crate) fn start_profile(&mut self) {
        self.watch.get_or_insert_default().profile = Some(Profile::default());
        self.buffer.sites = Some(Box::default());
    }

    /// Whether sites are told apart.
    pub(crate) fn has_profile(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.profile.is_some())
    }

    /// From now on its stalls are recorded, as those of core `core`.
    pub(crate) fn start_timeline(&mut self, recorder: &Recorder, core: usize) {
        let watch = self.watch.get_or_insert_default();
        (watch.recorder, watch.core) = (recorder.clone(), core);
    }

    /// The next instructions are at `site`.
    pub(crate) fn set_site(&mut self, site: u32) {
        let Some(profile) = profile_of(&mut self.watch) else { return };
        profile.issue(self.site, self.clock.saturating_sub(self.stalls.total()));
        profile.has_conflict = false;
        self.site = site;
        if let Some(sites) = &mut self.buffer.sites {
            sites.next = site;
        }
    }

    /// The site of what the program waits for.
    fn held_by(&self) -> u32 {
        match self.waits {
            Waits::Room | Waits::Empty | Waits::Drain => {
                self.buffer.head_site().unwrap_or(self.site)
            }
            _ => self.site,
        }
    }

    /// An instruction at `site` holds up the core from its present to `at`, for `reason`.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_stall(&mut self, site: u32, at: Cycle, reason: Reason) {
        if let Some(watch) = &self.watch {
            watch.recorder.note(|tape| tape.stall(watch.core, self.clock, at, reason));
        }
        if let Some(profile) = profile_of(&mut self.watch) {
            profile.charge(site, reason, at - self.clock);
        }
    }

    /// The program has waited up to `now`, the present of the machine, for `reason`.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_wait(&mut self, now: Cycle, reason: Reason) {
        if let Some(watch) = &self.watch {
            watch.recorder.note(|tape| {
                tape.stall(watch.core, self.since, now, reason);
                tape.reach(now);
            });
        }
        let (site, cycles) = (self.held_by(), now - self.since);
        if let Some(profile) = profile_of(&mut self.watch) {
            profile.charge(site, reason, cycles);
        }
    }

    /// A load has requested a line that arrives from where `reason` says.
    #[cold]
    #[inline(never)]
    pub(super) fn count_miss(&mut self, reason: Reason) {
        if let (Some(profile), Reason::LoadMemory) = (profile_of(&mut self.watch), reason) {
            profile.at(self.site).misses += 1;
        }
    }

    /// The program's instruction waits for `reason`.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_conflict(&mut self, reason: Reason) {
        let Some(profile) = profile_of(&mut self.watch) else { return };
        if reason.is_conflict() && !std::mem::replace(&mut profile.has_conflict, true) {
            profile.at(self.site).conflicts += 1;
        }
    }

    /// The head of the store buffer waits for `reason`, or has left.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_head(&mut self, reason: Reason) {
        let Some(profile) = profile_of(&mut self.watch) else { return };
        let has_waited = self.buffer.reason.is_some_and(Reason::is_conflict);
        if reason.is_conflict() && !has_waited {
            profile.at(self.buffer.head_site().unwrap_or(self.site)).conflicts += 1;
        }
        if let Some(sites) = &mut self.buffer.sites {
            sites.left = None;
        }
    }

    /// The sites up to cycle `at`, of a program that waits for `reason` or does not wait.
    pub(crate) fn sites_by(&self, at: Cycle, reason: Option<Reason>) -> Vec<SiteTime> {
        let profile = self.watch.as_ref().and_then(|watch| watch.profile.clone());
        let Some(mut profile) = profile else { return Vec::new() };
        let until = if reason.is_some() { self.since } else { self.clock };
        profile.issue(self.site, until.saturating_sub(self.stalls.total()));
        if let Some(reason) = reason {
            profile.charge(self.held_by(), reason, at.saturating_sub(self.since));
        } else if self.waits == Waits::Done {
            profile.charge(0, Reason::Idle, at.saturating_sub(self.clock));
        }
        profile.times
    }
}

/// What was added to the sites of a core between two moments.
pub(crate) fn between(from: Option<&Vec<SiteTime>>, to: &[SiteTime]) -> Vec<SiteTime> {
    let before = |site| from.and_then(|from| from.get(site)).copied().unwrap_or_default();
    to.iter().enumerate().map(|(site, time)| time.since(&before(site))).collect()
}

/// Makes the sites of a core add up to these cycles, of which so many were stalled: what it has run
/// ahead counts where most of the same counts.
pub(crate) fn fit(sites: &mut [SiteTime], stalls: &Stalls, cycles: Cycle) {
    if sites.is_empty() {
        return;
    }
    fit_part(sites, cycles.saturating_sub(stalls.total()), |site| &mut site.busy);
    for reason in Reason::ALL {
        fit_part(sites, stalls.get(reason), |site| &mut site.stalls.0[reason as usize]);
    }
}

fn fit_part(sites: &mut [SiteTime], whole: u64, part: impl Fn(&mut SiteTime) -> &mut u64) {
    let sum: u64 = sites.iter_mut().map(|site| *part(site)).sum();
    let (missing, mut excess) = (whole.saturating_sub(sum), sum.saturating_sub(whole));
    while let Some(most) = sites.iter_mut().map(&part).max() {
        let less = excess.min(*most);
        *most = *most + missing - less;
        excess -= less;
        if excess == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Kind};
    use super::*;
    use crate::config::Machine;

    fn core() -> Core {
        let mut core = Core::new(&Machine::load("micro15").unwrap(), 64..1 << 20);
        core.start_profile();
        core
    }

    #[test]
    fn a_load_that_fills_the_reorder_buffer_is_charged_and_not_what_issues_then() {
        let mut core = core();
        core.set_site(1);
        core.issue();
        core.loaded(0, 1000, Reason::LoadMemory, true);
        core.set_site(2);
        core.work(400);
        let sites = core.sites_by(core.clock, None);
        assert_eq!(sites[1].stalls.get(Reason::LoadMemory), 1000 - 48);
        assert_eq!((sites[1].busy, sites[2].busy), (0, core.clock - (1000 - 48)));
        assert_eq!(sites[2].stalls.total(), 0);
    }

    #[test]
    fn a_wait_for_the_store_buffer_counts_for_its_head_even_if_it_has_just_left() {
        let mut core = core();
        for site in [1, 2] {
            core.set_site(site);
            core.buffer.push(Entry::mark(Kind::Store, site));
        }
        core.set_site(3);
        (core.waits, core.since) = (Waits::Room, core.clock);
        core.account(40, Reason::IntraConflict);
        core.buffer.pop();
        core.account(50, Reason::IntraConflict);
        core.count_head(Reason::StoreBuffer);
        core.account(53, Reason::StoreBuffer);
        let sites = core.sites_by(60, Some(Reason::StoreBuffer));
        assert_eq!(sites[1].stalls.get(Reason::IntraConflict), 50);
        assert_eq!(sites[2].stalls.get(Reason::StoreBuffer), 3 + 7);
        assert_eq!(sites.iter().map(SiteTime::cycles).sum::<u64>(), 60);
    }

    #[test]
    fn sites_are_made_to_add_up() {
        let mut sites = [SiteTime { busy: 5, ..SiteTime::default() }; 2];
        sites[1].busy = 9;
        sites[1].stalls.add(Reason::Fence, 4);
        let mut stalls = Stalls::default();
        stalls.add(Reason::Fence, 3);
        fit(&mut sites, &stalls, 10);
        assert_eq!((sites[0].busy, sites[1].busy), (5, 2));
        assert_eq!(sites[1].stalls.get(Reason::Fence), 3);
        fit(&mut sites, &stalls, 20);
        assert_eq!((sites[0].busy, sites[1].busy), (15, 2));
    }
}
