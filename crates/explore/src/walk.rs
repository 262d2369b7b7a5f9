//! A walk along a trace with a model beside it: the state just before each event.

use crate::models::{Cut, Model, Persistency};
use crate::trace::{Event, Kind, Trace};

/// A moment at which power may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// Events that took effect before it.
    pub event: usize,
    /// For each thread, operations whose output had been seen.
    pub outputs: Vec<u64>,
    /// For each thread, operations that must have survived: `outputs` if the model makes what is
    /// ordered durable, else 0.
    pub promised: Vec<u64>,
}

/// The state of a run and of its persistency just before event `point.event`.
pub(crate) struct Walk<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) model: Model,
    pub(crate) state: Box<dyn Persistency>,
    pub(crate) point: CrashPoint,
    pub(crate) stored: Cut,
}

impl<'t> Walk<'t> {
    pub(crate) fn new(trace: &'t Trace, model: Model) -> Walk<'t> {
        let zeros = vec![0; trace.threads];
        let point = CrashPoint { event: 0, outputs: zeros.clone(), promised: zeros };
        Walk { trace, model, state: model.start(), point, stored: Cut::default() }
    }

    pub(crate) fn next_event(&self) -> Option<&'t Event> {
        self.trace.events.get(self.point.event)
    }

    /// Lets the next event take effect; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(event) = self.next_event() else { return false };
        self.state.follow(self.trace, event);
        self.point.event += 1;
        if let Some(store) = event.kind.store() {
            let line = self.trace.stores[store as usize].line;
            self.stored.set(line, self.stored.get(line) + 1);
        }
        if let Kind::Output { .. } = event.kind {
            let thread = usize::from(event.thread);
            self.point.outputs[thread] += 1;
            if self.model.order_is_durable() {
                self.point.promised[thread] += 1;
            }
        }
        true
    }

    pub(crate) fn advance_to(&mut self, event: usize) {
        while self.point.event < event && self.advance() {}
    }

    /// True where images that differ from those of the points around may appear: before what makes
    /// stores durable, before outputs, and at the end; in the thorough mode after each store too.
    pub(crate) fn is_failure_point(&self, thorough: bool) -> bool {
        let Some(next) = self.next_event() else { return true };
        let fence = matches!(
            next.kind,
            Kind::Order | Kind::Drain | Kind::Locked { .. } | Kind::Output { .. }
        );
        let before = self.point.event.checked_sub(1).map(|event| self.trace.events[event].kind);
        let stored = before.is_none_or(|kind| kind.store().is_some());
        fence || (stored && (thorough || self.model.every_store()))
    }
}
