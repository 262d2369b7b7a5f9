//! What drives the machine: the queue of events, the calendars of shared resources, the counters.

pub(crate) mod calendar;
pub(crate) mod counters;
pub(crate) mod event_queue;
