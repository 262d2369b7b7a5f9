//! The result of the check on one whole image, after one crash or several.

use crate::check::Findings;
use crate::crash::Crash;
use crate::crashed::{CrashImage, Prefer};
use crate::models::State;
use crate::open::Layer;
use crate::options::Search;
use crate::recovered::Access;
use crate::recoveries::recover;
use crate::trace::Trace;
use crate::walk::{CrashPoint, Walk};
use std::sync::Arc;

/// The verdict on an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The model does not allow it.
    Forbidden,
    Fine,
    Fails(String),
    /// Recovery was cut short.
    Cut,
}

/// Builds images and checks them.
pub(crate) struct Court<'a> {
    pub(crate) trace: &'a Arc<Trace>,
    pub(crate) options: &'a Search,
    check: &'a dyn Findings,
    image: CrashImage,
    /// The part of the image that was checked last.
    part: usize,
}

impl<'a> Court<'a> {
    pub(crate) fn new(
        trace: &'a Arc<Trace>,
        options: &'a Search,
        check: &'a dyn Findings,
    ) -> Court<'a> {
        let image = CrashImage::new(trace, options);
        Court { trace, options, check, image, part: 0 }
    }

    pub(crate) fn walk_to(&self, event: usize) -> Walk<'a> {
        let mut walk = Walk::new(self.trace, self.options.model);
        walk.advance_to(event);
        walk
    }

    /// The verdict after these crashes: the first of the run, each other one of the recovery from
    /// the one before.
    pub(crate) fn verdict(&mut self, crashes: &[Crash]) -> Verdict {
        for part in 0..self.check.parts() {
            self.part = part;
            match self.verdict_of_part(crashes) {
                Verdict::Fine => {}
                other => return other,
            }
        }
        Verdict::Fine
    }

    fn verdict_of_part(&mut self, crashes: &[Crash]) -> Verdict {
        let Some((_, point)) = self.stage(crashes) else { return Verdict::Forbidden };
        let (found, _) = self.recover(false);
        if self.check.is_cut() {
            return Verdict::Cut;
        }
        self.check.judge(found, &point).map_or_else(Verdict::Fails, |()| Verdict::Fine)
    }

    /// What ran before each of the crashes: the program, then recoveries.
    pub(crate) fn scenes(&mut self, crashes: &[Crash]) -> Vec<Arc<Trace>> {
        let recordings = self.stage(crashes).map_or(Vec::new(), |(recordings, _)| recordings);
        std::iter::once(self.trace.clone()).chain(recordings).collect()
    }

    /// The trace of recovery after these crashes.
    pub(crate) fn recovery_after(&mut self, crashes: &[Crash]) -> Option<Trace> {
        self.stage(crashes)?;
        Some(self.recover(true).1)
    }

    /// What recovery does after these crashes.
    pub(crate) fn accesses(&mut self, crashes: &[Crash]) -> Vec<Access> {
        match self.stage(crashes) {
            Some(_) => self.image.logged(|| drop(self.recover(false))),
            None => Vec::new(),
        }
    }

    /// What recovery finds, and its trace if it is to be recorded.
    fn recover(&self, records: bool) -> (u32, Trace) {
        let (found, pass) =
            recover(&self.image, self.check, self.part, &[], Prefer::Least, records);
        let by_lanes = pass.recording.by_lanes(self.options.model);
        (found, by_lanes.unwrap_or(pass.recording))
    }

    fn stage(&mut self, crashes: &[Crash]) -> Option<(Vec<Arc<Trace>>, CrashPoint)> {
        while !self.image.open().layers.is_empty() {
            self.image.open().pop();
        }
        let Walk { state, point, pm_bytes, .. } = self.walk_to(crashes[0].event);
        self.image.set_crash(self.trace, crashes[0].event, pm_bytes);
        self.push(self.trace.clone(), state, &crashes[0])?;
        let mut recordings = Vec::new();
        for crash in &crashes[1..] {
            let recording = Arc::new(self.recover(true).1);
            self.image.may_store(&recording);
            let state = state_after(&recording, crash.event, self.options)?;
            if let Some(bytes) = recording.grown_before(crash.event) {
                self.image.set_bytes(bytes);
            }
            self.push(recording.clone(), state, crash)?;
            recordings.push(recording);
        }
        Some((recordings, point))
    }

    fn push(&mut self, trace: Arc<Trace>, mut state: State, crash: &Crash) -> Option<()> {
        let Crash { cut, turns, .. } = crash;
        self.image.together_mut().turns.clone_from(turns);
        if !state.order.allows(cut) {
            return None;
        }
        state.order.mark();
        for line in 0..state.order.lines() {
            state.order.keep(line, cut.get(line), cut.get(line));
        }
        self.image.open().push(Layer { trace, order: state.order });
        Some(())
    }
}

/// The persist order of a recovery after its first events.
fn state_after(recording: &Trace, event: usize, options: &Search) -> Option<State> {
    let mut state = State::new(options.model);
    for next in recording.events.get(..event)? {
        state.follow_event(recording, next);
    }
    Some(state)
}
