//! The simulation engine: the event queue, the calendars of shared resources, the counters.

pub(crate) mod calendar;
pub(crate) mod counters;
pub(crate) mod event_queue;
