//! A timeline as tracks, slices and arrows.
//!
//! Each core has a track, which is busy or stalls for one reason at any time; below it are its
//! epochs, each with what it waits for inside, and the flushes of its arbiter, if it has one. Each
//! write queue has a counter of its entries, and the writes. Arrows lead from an epoch to what must
//! wait until it is durable. Slices are cut to the window; those that have not ended by then have
//! no end, but for stalls, which have one, so that their lengths add up.

use seawall_report::perfetto::{Annotations, Flow, PerfettoTrace, Track};
use seawall_sim::{
    Cycle, EpochEnd, EpochName, EpochSlice, QueueEntry, RunTimeline, StallSlice, WriteQueue,
};
use std::collections::{BTreeMap, HashMap};

/// The file of a timeline, whose tracks are below `title`.
pub(crate) fn draw(title: &str, timeline: &RunTimeline) -> Vec<u8> {
    let mut trace = PerfettoTrace::new();
    let top = trace.process(title);
    let mut drawing =
        Drawing { timeline, trace, top, cores: Vec::new(), epochs: HashMap::new(), arrows: 0 };
    for core in 0..timeline.cores {
        drawing.core(core);
    }
    drawing.dependences();
    drawing.waits();
    drawing.queues();
    drawing.trace.into_bytes()
}

struct Drawing<'a> {
    timeline: &'a RunTimeline,
    trace: PerfettoTrace,
    top: Track,
    cores: Vec<Track>,
    /// Where each epoch of the window is, and its last cycle.
    epochs: HashMap<EpochName, (Track, Cycle)>,
    arrows: u64,
}

impl Drawing<'_> {
    /// A slice from `from` to `to`, as far as it is in the window.
    fn slice(
        &mut self,
        track: Track,
        (from, to): (Cycle, Cycle),
        name: &str,
        annotations: Annotations<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        let RunTimeline { from: begin, to: end, .. } = *self.timeline;
        if from >= end || to <= begin || from == to {
            return;
        }
        self.trace.begin(track, from.max(begin), name, annotations);
        inside(self);
        if to <= end {
            self.trace.end(track, to);
        }
    }

    fn core(&mut self, core: usize) {
        let track = self.trace.track(&format!("core {core}"), self.top);
        self.cores.push(track);
        self.stalls(core, track);
        let of_core = |slice: &&EpochSlice| slice.name.core == core;
        let mut epochs: Vec<EpochSlice> =
            self.timeline.epochs.iter().filter(of_core).copied().collect();
        epochs.sort_by_key(|slice| slice.name);
        let mut lanes = Lanes::new("epochs", track);
        for slice in &epochs {
            let span = (slice.opened, slice.durable.unwrap_or(Cycle::MAX));
            let lane = lanes.of(&mut self.trace, span);
            if span.1 > self.timeline.from {
                self.epochs.insert(slice.name, (lane, span.1 - 1));
                self.epoch(slice, lane, span);
            }
        }
        self.flushes(&epochs, track);
    }

    /// The stalls of a core; in between it is busy.
    fn stalls(&mut self, core: usize, track: Track) {
        let RunTimeline { from, to, cycles, .. } = *self.timeline;
        let (mut at, end) = (from, to.min(cycles));
        let slice = |trace: &mut PerfettoTrace, from: Cycle, to: Cycle, name: &str| {
            if from < to {
                trace.begin(track, from, name, &[]);
                trace.end(track, to);
            }
        };
        let of_core = |slice: &&StallSlice| slice.core == core;
        for stall in self.timeline.stalls.iter().filter(of_core) {
            let (first, last) = (stall.from.max(from), stall.to.min(end));
            slice(&mut self.trace, at, first.min(end), "busy");
            slice(&mut self.trace, first, last, stall.reason.name());
            at = at.max(last);
        }
        slice(&mut self.trace, at, end, "busy");
    }

    fn epoch(&mut self, epoch: &EpochSlice, track: Track, span: (Cycle, Cycle)) {
        let name = format!("epoch {}", epoch.name.epoch);
        let mut annotations = Vec::new();
        if epoch.opened < self.timeline.from {
            annotations.push(("opened", epoch.opened));
        }
        annotations.extend(epoch.lines.map(|lines| ("lines", lines)));
        self.slice(track, span, &name, &annotations, |drawing| {
            let phases = phases(epoch);
            let ends = phases.iter().skip(1).map(|(_, from)| *from).chain([span.1]);
            for ((name, from), to) in phases.iter().zip(ends) {
                drawing.slice(track, (*from, to), name, &[], |_| {});
            }
        });
    }

    /// What the arbiter of a core did.
    fn flushes(&mut self, epochs: &[EpochSlice], parent: Track) {
        let flushed = epochs.iter().filter_map(|epoch| {
            let end = epoch.done.map(|(_, at)| at).or(epoch.durable);
            Some((epoch, epoch.lines?, (epoch.flushed?, end.unwrap_or(Cycle::MAX))))
        });
        let mut track = None;
        for (epoch, lines, span) in flushed {
            let track = *track.get_or_insert_with(|| self.trace.track("arbiter", parent));
            let name = format!("flush epoch {}", epoch.name.epoch);
            self.slice(track, span, &name, &[("lines", lines)], |_| {});
        }
    }

    /// An arrow from the epoch `on`, if it is there, to an instant on `track`. It begins in the
    /// epoch, which may be durable before those who depend on it know.
    fn arrow(
        &mut self,
        (on, at): (EpochName, Cycle),
        (from_name, from_annotations): (&str, Annotations<'_>),
        track: Track,
        to_name: &str,
    ) {
        let annotations = [("core", on.core as u64), ("epoch", on.epoch.into())];
        let flow = self.epochs.get(&on).map(|(from, last)| {
            self.arrows += 1;
            let flow = Some(Flow::From(self.arrows));
            self.trace.instant(*from, at.min(*last), from_name, flow, from_annotations);
            Flow::To(self.arrows)
        });
        self.trace.instant(track, at, to_name, flow, &annotations);
    }

    fn dependences(&mut self) {
        for dependence in &self.timeline.dependences {
            let EpochName { core, epoch } = dependence.of;
            let Some((track, _)) = self.epochs.get(&dependence.of).copied() else { continue };
            let needed = [("core", core as u64), ("epoch", epoch.into())];
            self.arrow((dependence.on, dependence.at), ("needed by", &needed), track, "depends on");
        }
    }

    fn waits(&mut self) {
        for wait in &self.timeline.waits {
            let Some(track) = self.cores.get(wait.core).copied() else { continue };
            let name = format!("waits: {}", wait.reason.name());
            let awaited = [("core", wait.core as u64)];
            self.arrow((wait.on, wait.at), ("awaited by", &awaited), track, &name);
        }
    }

    fn queues(&mut self) {
        let mut queues: BTreeMap<WriteQueue, Vec<&QueueEntry>> = BTreeMap::new();
        for entry in &self.timeline.entries {
            queues.entry(entry.queue).or_default().push(entry);
        }
        for (queue, entries) in queues {
            let name = match queue {
                WriteQueue::Controller(number) => format!("controller {number}"),
                WriteQueue::Dimm(number) => format!("DIMM {number}"),
            };
            let track = self.trace.track(&name, self.top);
            self.occupancy(&entries, track);
            let mut lanes = Lanes::new("writes", track);
            for entry in entries {
                let span = (entry.arrived, entry.left);
                let lane = lanes.of(&mut self.trace, span);
                let mut annotations = vec![("accepted", entry.accepted)];
                annotations.extend(entry.line.map(|line| ("line", line.into())));
                annotations.extend(entry.core.map(|core| ("core", core as u64)));
                let name = if entry.line.is_some() { "write" } else { "marker" };
                self.slice(lane, span, name, &annotations, |_| {});
            }
        }
    }

    /// How many entries of a queue are taken.
    fn occupancy(&mut self, entries: &[&QueueEntry], parent: Track) {
        let RunTimeline { from, to, .. } = *self.timeline;
        let track = self.trace.counter("write queue", "entries", parent);
        let mut changes: BTreeMap<Cycle, i64> = BTreeMap::from([(from, 0)]);
        for entry in entries.iter().filter(|entry| entry.accepted < entry.left) {
            *changes.entry(entry.accepted.max(from)).or_default() += 1;
            *changes.entry(entry.left.max(from)).or_default() -= 1;
        }
        let mut taken = 0;
        for (at, change) in changes.range(from..to) {
            taken += change;
            if *change != 0 || *at == from {
                self.trace.count(track, *at, taken as u64);
            }
        }
    }
}

/// What an epoch waits for, and from when on.
fn phases(epoch: &EpochSlice) -> Vec<(&'static str, Cycle)> {
    let mut phases = vec![("open", epoch.opened)];
    let Some(closed) = epoch.closed else { return phases };
    phases.push(("closed", closed));
    // The stores of an open epoch may be sent, and what is sent be done, before it is closed.
    phases.extend(epoch.flushed.map(|at| ("flushing", at.max(closed))));
    phases.extend(epoch.done.map(|(end, at)| match end {
        EpochEnd::Commit => ("committing", at),
        EpochEnd::Name => ("naming", at),
    }));
    phases
}

/// Tracks for slices that overlap, each with slices that do not.
struct Lanes {
    name: &'static str,
    parent: Track,
    /// With the end of its last slice.
    lanes: Vec<(Track, Cycle)>,
}

impl Lanes {
    fn new(name: &'static str, parent: Track) -> Lanes {
        Lanes { name, parent, lanes: Vec::new() }
    }

    /// The lane of a slice, which begins no earlier than those before it.
    fn of(&mut self, trace: &mut PerfettoTrace, (from, to): (Cycle, Cycle)) -> Track {
        if let Some((track, end)) = self.lanes.iter_mut().find(|(_, end)| *end <= from) {
            *end = to;
            return *track;
        }
        let track = trace.track(self.name, self.parent);
        self.lanes.push((track, to));
        track
    }
}
