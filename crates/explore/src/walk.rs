//! A walk along a trace with a model beside it: the state just before each event.

use crate::models::State;
use crate::models::order::Cut;
use crate::trace::{Event, Kind, Trace};
use seawall_memory::Model;
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

/// A failure point: a moment at which power may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// Events that took effect before it.
    pub event: usize,
    /// For each thread, operations whose output had been seen.
    pub outputs: Told,
    /// For each thread, operations that must have survived: those with an output after an order
    /// where that makes durable what was flushed, else those with an output after a drain.
    pub promised: Told,
}

impl CrashPoint {
    /// Whether a judgement has looked at what was promised.
    pub(crate) fn was_asked(&self) -> bool {
        self.outputs.asked.get()
    }

    /// What the judgement may depend on.
    pub(crate) fn told(&self) -> (&[u64], &[u64]) {
        (&self.promised.of, &self.outputs.of)
    }
}

/// A number for each thread, as a slice. It remembers whether anybody looked at it or at a copy of
/// it: a judgement that never does cannot tell what is lost.
#[derive(Clone, Debug)]
pub struct Told {
    of: Vec<u64>,
    asked: Rc<Cell<bool>>,
}

impl Told {
    fn new(threads: usize) -> Told {
        Told { of: vec![0; threads], asked: Rc::default() }
    }
}

impl Deref for Told {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.asked.set(true);
        &self.of
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Told) -> bool {
        self.of == other.of
    }
}

impl Eq for Told {}

/// The state of a run and of its persistency just before event `point.event`.
pub(crate) struct Walk<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) model: Model,
    pub(crate) state: State,
    pub(crate) point: CrashPoint,
    pub(crate) stored: Cut,
    /// Bytes of the pool.
    pub(crate) pm_bytes: u64,
    /// For each thread whether it drained since its last store.
    drained: Vec<bool>,
}

impl<'t> Walk<'t> {
    pub(crate) fn new(trace: &'t Trace, model: Model) -> Walk<'t> {
        let none = Told::new(trace.threads);
        let point = CrashPoint { event: 0, outputs: none.clone(), promised: none };
        let (state, stored) = (State::new(model), Cut::default());
        let (pm_bytes, drained) = (trace.start.len() as u64, vec![true; trace.threads]);
        Walk { trace, model, state, point, stored, pm_bytes, drained }
    }

    pub(crate) fn next_event(&self) -> Option<&'t Event> {
        self.trace.events.get(self.point.event)
    }

    /// Lets the next event take effect; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(event) = self.next_event() else { return false };
        self.state.follow_event(self.trace, event);
        self.point.event += 1;
        if let Some(store) = event.kind.store() {
            let line = self.trace.stores[store as usize].line;
            self.stored.set(line, self.stored.get(line) + 1);
        }
        let thread = usize::from(event.thread);
        match event.kind {
            Kind::Output { .. } => {
                self.point.outputs.of[thread] += 1;
                if self.model.order_is_durable() || self.drained[thread] {
                    self.point.promised.of[thread] = self.point.outputs.of[thread];
                }
            }
            Kind::Drain => self.drained[thread] = true,
            Kind::Grow { bytes } => self.pm_bytes = bytes,
            kind => self.drained[thread] &= kind.store().is_none(),
        }
        true
    }

    pub(crate) fn advance_to(&mut self, event: usize) {
        while self.point.event < event && self.advance() {}
    }

    pub(crate) fn is_failure_point(&self, thorough: bool) -> bool {
        is_failure_point(self.trace, self.point.event, self.model, thorough)
    }
}

/// True just before events where images that differ from those of the points around may appear:
/// before what makes stores durable, before outputs, before and after the pool grows, and at the
/// end; in the thorough mode after each store too.
pub(crate) fn is_failure_point(trace: &Trace, event: usize, model: Model, thorough: bool) -> bool {
    let Some(next) = trace.events.get(event) else { return true };
    if is_inside(trace, event) {
        return false;
    }
    let fence = matches!(
        next.kind,
        Kind::Order | Kind::Join | Kind::Drain | Kind::Locked { .. } | Kind::Output { .. }
    );
    let before = event.checked_sub(1).map(|event| trace.events[event].kind);
    let grows = next.kind.grown().or(before.and_then(Kind::grown)).is_some();
    let stored = before.is_none_or(|kind| kind.store().is_some());
    // Where a store is durable at once, the image that an output promised is gone with the next.
    let told = matches!(before, Some(Kind::Output { .. })) && model.orders_all_stores();
    fence || grows || told || (stored && (thorough || model.orders_all_stores()))
}

/// Whether a write that no crash tears is under way before this event.
fn is_inside(trace: &Trace, event: usize) -> bool {
    let part = |event: usize| {
        let store = trace.events.get(event)?.kind.store()?;
        Some(trace.stores[store as usize].part)
    };
    let before = event.checked_sub(1).and_then(part);
    before.zip(part(event)).is_some_and(|(before, next)| before.is_one_with(next))
}
