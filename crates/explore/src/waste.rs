//! Flushes and fences that do nothing, and stores that are never flushed, as a run shows them.
//!
//! A fence costs more than anything else that a program does to persistent memory, and a flush of a
//! clean line nearly as much as one of a dirty line; neither is wrong. A store whose line is not
//! flushed by the end of the run is no proof of a bug either (recovery may not need it), but most
//! bugs of this kind are one. The rules are those that trace checkers use (pmemcheck; PMDebugger,
//! ASPLOS'21); they are for x86, where programs flush.

use crate::site::Site;
use crate::trace::{Event, Kind, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WasteKind {
    /// The line was not stored to since it was flushed last.
    CleanFlush,
    /// The address is not in persistent memory: a pointer was flushed instead of what it points to.
    ElsewhereFlush,
    /// The thread had stored and flushed nothing since its last fence.
    IdleFence,
    /// The line was stored to and flushed again before the next fence: the second flush would do.
    RepeatedFlush,
    /// The line was stored to before the last fence, which waited for other flushes: it could have
    /// waited for this one, too.
    LateFlush,
    /// The line was never flushed after the store.
    UnflushedStore,
    /// Every crash of the run is recovered from without it.
    SpareFlush,
    /// The same of a fence.
    SpareFence,
}

/// A call that is wasted, or lacks a flush, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waste {
    /// What is wrong with it.
    pub kind: WasteKind,
    /// The call, as file:line.
    pub place: String,
    /// How often in the run.
    pub times: u64,
    /// How often the call was made in all.
    pub calls: u64,
}

impl Waste {
    /// What is wrong with the call.
    pub fn in_words(&self) -> &'static str {
        match self.kind {
            WasteKind::CleanFlush => "flushes a line that is clean",
            WasteKind::ElsewhereFlush => "flushes what is not persistent memory",
            WasteKind::IdleFence => "is a fence after nothing",
            WasteKind::RepeatedFlush => {
                "flushes a line that is flushed again before the next fence"
            }
            WasteKind::LateFlush => {
                "flushes what was stored before the last fence: two fences do the work of one"
            }
            WasteKind::UnflushedStore => "stores what is never flushed",
            WasteKind::SpareFlush => "flushes what no crash of this run needs to be flushed",
            WasteKind::SpareFence => "is a fence that no crash of this run needs",
        }
    }
}

impl fmt::Display for Waste {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waste { place, times, calls, .. } = self;
        write!(f, "{place} {}: {times} of {calls} times", self.in_words())
    }
}

/// The wasted calls of a run, by place.
pub fn waste(trace: &Trace) -> Vec<Waste> {
    let mut state = State {
        dirty: vec![None; trace.lines.len()],
        flushed: vec![None; trace.lines.len()],
        busy: vec![false; trace.threads],
        waits: vec![false; trace.threads],
        fenced: vec![None; trace.threads],
        ..State::default()
    };
    for (number, event) in (0..).zip(&trace.events) {
        state.follow(trace, number, event);
    }
    for event in std::mem::take(&mut state.dirty).into_iter().flatten() {
        state.count(WasteKind::UnflushedStore, &trace.events[event as usize]);
    }
    let State { wasted, calls, .. } = state;
    let waste = wasted.into_iter().map(|((kind, place), times)| {
        let calls = calls.get(&place).copied().unwrap_or(times).max(times);
        Waste { kind, place: place.to_string(), times, calls }
    });
    waste.collect()
}

/// The wasted calls of several runs together.
pub(crate) fn together(runs: impl IntoIterator<Item = Vec<Waste>>) -> Vec<Waste> {
    let mut all: BTreeMap<(WasteKind, String), (u64, u64)> = BTreeMap::new();
    for Waste { kind, place, times, calls } in runs.into_iter().flatten() {
        let sum = all.entry((kind, place)).or_default();
        *sum = (sum.0 + times, sum.1 + calls);
    }
    let one = |((kind, place), (times, calls))| Waste { kind, place, times, calls };
    all.into_iter().map(one).collect()
}

#[derive(Default)]
struct State {
    /// For each line the event of its last store, until it is flushed.
    dirty: Vec<Option<u32>>,
    /// For each line its last flush, if the thread has not fenced since.
    flushed: Vec<Option<u32>>,
    /// For each thread whether its next fence does something, and whether it waits for flushes.
    busy: Vec<bool>,
    waits: Vec<bool>,
    /// For each thread its last fence that waited for flushes, if it has told nothing since.
    fenced: Vec<Option<u32>>,
    wasted: BTreeMap<(WasteKind, Site), u64>,
    calls: BTreeMap<Site, u64>,
}

impl State {
    fn count(&mut self, kind: WasteKind, event: &Event) {
        *self.wasted.entry((kind, event.at)).or_default() += 1;
    }

    fn follow(&mut self, trace: &Trace, number: u32, event: &Event) {
        *self.calls.entry(event.at).or_default() += 1;
        let thread = usize::from(event.thread);
        if let Some(store) = event.kind.store() {
            let store = &trace.stores[store as usize];
            let past_caches = matches!(event.kind, Kind::StoreNt { .. });
            self.dirty[store.line as usize] = (!past_caches).then_some(store.event);
            self.busy[thread] = true;
        }
        match event.kind {
            Kind::Flush { line } => self.flush(trace, line as usize, number),
            Kind::FlushElsewhere => self.count(WasteKind::ElsewhereFlush, event),
            Kind::Order | Kind::Join | Kind::Drain if self.busy[thread] => {
                self.busy[thread] = false;
                self.fenced[thread] = std::mem::take(&mut self.waits[thread]).then_some(number);
                let own = |flush: u32| usize::from(trace.events[flush as usize].thread) == thread;
                self.flushed.iter_mut().for_each(|flush| *flush = flush.filter(|at| !own(*at)));
            }
            Kind::Order | Kind::Join | Kind::Drain => self.count(WasteKind::IdleFence, event),
            // What it has read may be another thread's store that it is to order or flush.
            Kind::Read { .. } | Kind::Sync { .. } => self.busy[thread] = true,
            Kind::Output { .. } => self.fenced[thread] = None,
            _ => {}
        }
    }

    fn flush(&mut self, trace: &Trace, line: usize, number: u32) {
        let event = &trace.events[number as usize];
        let thread = usize::from(event.thread);
        (self.busy[thread], self.waits[thread]) = (true, true);
        let Some(stored) = self.dirty[line].take() else {
            return self.count(WasteKind::CleanFlush, event);
        };
        let before = self.flushed[line].replace(number).map(|at| &trace.events[at as usize]);
        if let Some(before) = before.filter(|before| before.thread == event.thread) {
            self.count(WasteKind::RepeatedFlush, before);
        }
        let is_own = trace.events[stored as usize].thread == event.thread;
        if is_own && self.fenced[thread].is_some_and(|fence| stored < fence) {
            self.count(WasteKind::LateFlush, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::record;
    use crate::schedule::Schedule;
    use crate::traced::Traced;
    use seawall_memory::{Addr, Image, Memory, MemoryExt};

    fn kinds(program: fn(&Traced<'_>)) -> Vec<(WasteKind, u64)> {
        let trace = record(Image::new(1024, 64), &Schedule::default(), program).unwrap();
        waste(&trace).iter().map(|waste| (waste.kind, waste.times)).collect()
    }

    #[test]
    fn a_store_that_is_flushed_and_fenced_once_is_no_waste() {
        let clean = |memory: &Traced<'_>| {
            memory.store(Addr::pm(64), 1u64);
            memory.store(Addr::pm(72), 1u64);
            memory.flush(Addr::pm(64), 16);
            memory.order();
            memory.write_nt(Addr::pm(128), &[1; 64]);
            memory.drain();
        };
        assert_eq!(kinds(clean), []);
    }

    #[test]
    fn each_kind_of_waste_is_found_where_it_is() {
        let wasteful = |memory: &Traced<'_>| {
            memory.store(Addr::pm(64), 1u64);
            memory.flush(Addr::pm(64), 8);
            memory.flush(Addr::pm(64), 8);
            memory.order();
            memory.order();
            memory.flush(Addr::dram(0), 8);
            memory.store(Addr::pm(128), 1u64);
        };
        use WasteKind::{CleanFlush, ElsewhereFlush, IdleFence, UnflushedStore};
        let all = [(CleanFlush, 1), (ElsewhereFlush, 1), (IdleFence, 1), (UnflushedStore, 1)];
        assert_eq!(kinds(wasteful), all);
    }

    #[test]
    fn two_flushes_and_two_fences_that_could_be_one_are_found() {
        let twice = |memory: &Traced<'_>| {
            for word in [64u64, 72] {
                memory.store(Addr::pm(word), 1u64);
                memory.flush(Addr::pm(word), 8);
            }
            memory.order();
        };
        assert_eq!(kinds(twice), [(WasteKind::RepeatedFlush, 1)]);
        let late = |memory: &Traced<'_>| {
            memory.store(Addr::pm(64), 1u64);
            memory.store(Addr::pm(128), 1u64);
            memory.persist(Addr::pm(64), 8);
            memory.persist(Addr::pm(128), 8);
        };
        assert_eq!(kinds(late), [(WasteKind::LateFlush, 1)]);
        let ordered = |memory: &Traced<'_>| {
            memory.store(Addr::pm(64), 1u64);
            memory.persist(Addr::pm(64), 8);
            memory.store(Addr::pm(128), 1u64);
            memory.persist(Addr::pm(128), 8);
        };
        assert_eq!(kinds(ordered), [], "the second store comes after the first fence");
    }

    #[test]
    fn a_loop_counts_as_one_place() {
        let again = |memory: &Traced<'_>| {
            for line in 1..4 {
                memory.store(Addr::pm(64 * line), 1u64);
            }
            for _ in 0..2 {
                memory.flush(Addr::pm(64), 192);
            }
        };
        assert_eq!(kinds(again), [(WasteKind::CleanFlush, 3)]);
    }
}
