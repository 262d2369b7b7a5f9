//! The result of the check on one whole image, after one crash or several.

use crate::check::Findings;
use crate::crash::Crash;
use crate::crashed::{CrashImage, Layer, Log, Pass, Prefer};
use crate::models::State;
use crate::models::order::Cut;
use crate::options::Search;
use crate::trace::Trace;
use crate::walk::{CrashPoint, Walk};
use std::rc::Rc;

/// The verdict on an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The model does not allow it.
    Forbidden,
    Fine,
    Fails(String),
}

/// Builds images and checks them.
pub(crate) struct Court<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) options: &'a Search,
    check: &'a dyn Findings,
    image: CrashImage<'a>,
    /// The part of the image that was checked last.
    part: usize,
}

impl<'a> Court<'a> {
    pub(crate) fn new(trace: &'a Trace, options: &'a Search, check: &'a dyn Findings) -> Court<'a> {
        let image = CrashImage::new(trace, options.steps);
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
        let Pass { result, .. } = self.recover(false);
        let found = result.unwrap_or_else(|panic| self.check.panicked(&panic));
        self.check.judge(found, &point).map_or_else(Verdict::Fails, |()| Verdict::Fine)
    }

    /// What ran before each of the crashes: the program, then recoveries.
    pub(crate) fn scenes(&mut self, crashes: &[Crash]) -> Vec<Log<'a>> {
        let recordings = self.stage(crashes).map_or(Vec::new(), |(recordings, _)| recordings);
        let recoveries = recordings.into_iter().map(Log::Recovery);
        std::iter::once(Log::Run(self.trace)).chain(recoveries).collect()
    }

    /// The trace of recovery after these crashes.
    pub(crate) fn recovery_after(&mut self, crashes: &[Crash]) -> Option<Trace> {
        self.stage(crashes)?;
        Some(self.recover(true).recording)
    }

    fn recover(&mut self, records: bool) -> Pass<u32> {
        let (check, part) = (self.check, self.part);
        self.image.pass(&[], Prefer::Least, records, |image| check.recover(image, part))
    }

    fn stage(&mut self, crashes: &[Crash]) -> Option<(Vec<Rc<Trace>>, CrashPoint)> {
        self.image.layers.borrow_mut().clear();
        let Walk { state, point, pm_bytes, .. } = self.walk_to(crashes[0].event);
        self.image.set_crash(self.trace, crashes[0].event, pm_bytes);
        self.push(Log::Run(self.trace), state, &crashes[0].cut)?;
        let mut recordings = Vec::new();
        for crash in &crashes[1..] {
            let recording = Rc::new(self.recover(true).recording);
            self.image.may_store(&recording);
            let state = state_after(&recording, crash.event, self.options)?;
            if let Some(bytes) = recording.grown_before(crash.event) {
                self.image.set_bytes(bytes);
            }
            self.push(Log::Recovery(recording.clone()), state, &crash.cut)?;
            recordings.push(recording);
        }
        Some((recordings, point))
    }

    fn push(&mut self, trace: Log<'a>, mut state: State, cut: &Cut) -> Option<()> {
        if !state.order.allows(cut) {
            return None;
        }
        state.order.mark();
        for line in 0..state.order.lines() {
            state.order.keep(line, cut.get(line), cut.get(line));
        }
        self.image.layers.borrow_mut().push(Layer { trace, order: state.order });
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
