//! How a timeline is recorded: the parts of the machine hold a [`Recorder`], which costs a look at
//! nothing if nobody wants a timeline, and else passes on what happens to the one [`Tape`].
//!
//! What is recorded has ends in the past (a stall) or in the future (a write, whose times are known
//! when it arrives), and cores run ahead of each other. So a window cannot be cut out as the run
//! goes by: parts are kept while they can still lie in it, and it is cut out in the end.

use super::{
    EpochDependence, EpochEnd, EpochName, EpochSlice, EpochWait, Part, QueueEntry, RunTimeline,
    StallSlice, TimelineWindow,
};
use crate::engine::counters::Reason;
use crate::{Cycle, Epoch};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The share of the bytes that is left for what has begun when the others are used up.
const RESERVE: u64 = 16;

/// A hold on the tape, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Option<Rc<RefCell<Tape>>>);

impl Recorder {
    pub(crate) fn new(tape: Tape) -> Recorder {
        Recorder(Some(Rc::new(RefCell::new(tape))))
    }

    /// Lets `note` write to the tape, if there is one.
    #[inline]
    pub(crate) fn note(&self, note: impl FnOnce(&mut Tape)) {
        if let Some(tape) = &self.0 {
            write(tape, note);
        }
    }

    /// The timeline of a run whose programs finished at these cycles.
    pub(crate) fn timeline(&self, finished: &[Cycle]) -> Option<RunTimeline> {
        let tape = self.0.as_ref()?;
        Some(std::mem::take(&mut *tape.borrow_mut()).finish(finished))
    }
}

#[cold]
#[inline(never)]
fn write(tape: &RefCell<Tape>, note: impl FnOnce(&mut Tape)) {
    note(&mut tape.borrow_mut());
}

/// What has been recorded.
#[derive(Default)]
pub(crate) struct Tape {
    /// The window that was asked for.
    asked: TimelineWindow,
    /// Outputs at which the window begins and ends.
    outputs: (u64, u64),
    /// The first cycle of the window, once it has begun, and the first one behind it.
    from: Option<Cycle>,
    to: Cycle,
    /// The bytes at which room is made.
    bytes_max: u64,
    /// A cycle up to which everything has happened.
    now: Cycle,
    parts: RunTimeline,
    /// The last stall of each program's core, which may go on.
    stalls: Vec<Option<StallSlice>>,
    /// The epochs of each core that are not durable, oldest first.
    epochs: Vec<VecDeque<EpochSlice>>,
}

impl Tape {
    /// A tape for a window of a run, of a machine with `cores` of which `programs` run programs.
    pub(crate) fn new(
        window: TimelineWindow,
        bytes_max: u64,
        cores: usize,
        programs: usize,
    ) -> Tape {
        let (outputs, from, to) = bounds(window);
        Tape {
            asked: window,
            outputs,
            from,
            to,
            bytes_max: bytes_max - bytes_max / RESERVE,
            now: 0,
            parts: RunTimeline::default(),
            stalls: vec![None; programs],
            epochs: vec![VecDeque::new(); cores],
        }
    }

    /// What is measured begins at this moment: what was before is forgotten, and the window is one
    /// of what follows.
    pub(crate) fn begins(&mut self, now: Cycle) {
        self.reach(now);
        let (outputs, from, to) = bounds(self.asked);
        (self.outputs, self.from, self.to) = (outputs, from.map(|from| from.max(now)), to);
        (self.parts.outputs, self.parts.is_full, self.parts.begin) = (0, false, now);
        self.cut(now, to);
    }

    /// What is measured has ended.
    pub(crate) fn ends(&mut self, now: Cycle) {
        self.reach(now);
        self.to = self.to.min(now);
    }

    /// `core` has stalled for `reason`.
    pub(crate) fn stall(&mut self, core: usize, from: Cycle, to: Cycle, reason: Reason) {
        let Some(last) = self.stalls.get_mut(core) else { return };
        if let Some(last) = last
            && last.to == from
            && last.reason == reason
        {
            last.to = to;
            return;
        }
        if let Some(whole) = last.replace(StallSlice { core, from, to, reason }) {
            self.keep(|parts| &mut parts.stalls, whole);
        }
    }

    /// Everything up to `now` has happened.
    pub(crate) fn reach(&mut self, now: Cycle) {
        self.now = self.now.max(now);
    }

    /// A program has reported an operation as done.
    pub(crate) fn output(&mut self, now: Cycle) {
        self.reach(now);
        self.parts.outputs += 1;
        if self.parts.outputs == self.outputs.0 {
            self.from = Some(now);
            self.cut(now, self.to);
        }
        if self.parts.outputs == self.outputs.1 {
            self.to = self.to.min(now);
        }
    }

    /// An epoch has its first store or dependence, unless it is known already.
    pub(crate) fn opens(&mut self, core: usize, epoch: Epoch, now: Cycle) {
        self.reach(now);
        if self.epochs[core].back().is_some_and(|last| last.name.epoch >= epoch) {
            return;
        }
        self.epochs[core].push_back(EpochSlice {
            name: EpochName { core, epoch },
            opened: now,
            closed: None,
            flushed: None,
            done: None,
            durable: None,
            lines: None,
        });
    }

    fn live(&mut self, core: usize, epoch: Epoch) -> Option<&mut EpochSlice> {
        self.epochs[core].iter_mut().rev().find(|slice| slice.name.epoch == epoch)
    }

    /// No store joins the epoch from now on.
    pub(crate) fn closes(&mut self, core: usize, epoch: Epoch, now: Cycle) {
        if let Some(slice) = self.live(core, epoch) {
            slice.closed.get_or_insert(now);
        }
    }

    /// The epoch begins to be written; an arbiter flushes so many lines of it.
    pub(crate) fn flushes(&mut self, core: usize, epoch: Epoch, lines: Option<u64>, now: Cycle) {
        if let Some(slice) = self.live(core, epoch) {
            slice.flushed.get_or_insert(now);
            slice.lines = slice.lines.or(lines);
        }
    }

    /// The lines of the epoch are durable, and something else follows.
    pub(crate) fn done(&mut self, core: usize, epoch: Epoch, end: EpochEnd, now: Cycle) {
        if let Some(slice) = self.live(core, epoch) {
            slice.done.get_or_insert((end, now));
        }
    }

    /// The epochs of a core up to this one are durable.
    pub(crate) fn durable(&mut self, core: usize, epoch: Epoch, now: Cycle) {
        self.reach(now);
        while let Some(slice) = self.epochs[core].pop_front_if(|first| first.name.epoch <= epoch) {
            let durable = Some(now);
            self.keep(|parts| &mut parts.epochs, EpochSlice { durable, ..slice });
        }
    }

    /// Hardware records that an epoch of `of`, the open one, depends on another core's.
    pub(crate) fn depends(&mut self, of: (usize, Epoch), on: (usize, Epoch), now: Cycle) {
        self.opens(of.0, of.1, now);
        let dependence = EpochDependence { at: now, on: name(on), of: name(of) };
        self.keep(|parts| &mut parts.dependences, dependence);
    }

    /// A request of `core` waits for an epoch.
    pub(crate) fn waits(&mut self, core: usize, on: (usize, Epoch), reason: Reason, now: Cycle) {
        self.reach(now);
        let wait = EpochWait { at: now, on: name(on), core, reason };
        self.keep(|parts| &mut parts.waits, wait);
    }

    /// An entry has come to a write queue, at this moment.
    pub(crate) fn enters(&mut self, entry: QueueEntry) {
        self.reach(entry.arrived);
        self.keep(|parts| &mut parts.entries, entry);
    }

    /// Keeps a part that may lie in the window, and makes room if there is none.
    fn keep<P: Part>(&mut self, list: impl Fn(&mut RunTimeline) -> &mut Vec<P>, part: P) {
        let (first, last) = part.span();
        if first >= self.to || last < self.from.unwrap_or(self.now) {
            return;
        }
        list(&mut self.parts).push(part);
        self.parts.bytes += P::BYTES;
        if self.parts.bytes > self.bytes_max && !self.parts.is_full {
            self.make_room();
        }
    }

    /// Before the window: forgets what is over. In it: ends it here.
    fn make_room(&mut self) {
        match self.from {
            None => self.cut(self.now, self.to),
            Some(from) => {
                let by_cores = self.stalls.iter().map(|last| last.map_or(0, |last| last.to));
                let now = self.now.max(by_cores.min().unwrap_or(0));
                self.to = self.to.min(now.max(from));
                self.parts.is_full = true;
                self.cut(from, self.to);
            }
        }
    }

    /// Drops what lies before `from`, or from `to` on.
    fn cut(&mut self, from: Cycle, to: Cycle) {
        fn cut<P: Part>(parts: &mut Vec<P>, from: Cycle, to: Cycle) -> u64 {
            parts.retain(|part| {
                let (first, last) = part.span();
                first < to && last >= from
            });
            parts.len() as u64 * P::BYTES
        }
        let parts = &mut self.parts;
        parts.bytes = cut(&mut parts.stalls, from, to)
            + cut(&mut parts.epochs, from, to)
            + cut(&mut parts.dependences, from, to)
            + cut(&mut parts.waits, from, to)
            + cut(&mut parts.entries, from, to);
    }

    /// The run is over.
    fn finish(mut self, finished: &[Cycle]) -> RunTimeline {
        let cycles = finished.iter().copied().max().unwrap_or(0);
        for (core, end) in finished.iter().enumerate() {
            if *end < cycles {
                self.stall(core, *end, cycles, Reason::Idle);
            }
        }
        for last in std::mem::take(&mut self.stalls).into_iter().flatten() {
            self.keep(|parts| &mut parts.stalls, last);
        }
        for slice in std::mem::take(&mut self.epochs).into_iter().flatten() {
            self.keep(|parts| &mut parts.epochs, slice);
        }
        let rest = self.parts.entries.iter().map(|entry| entry.left).max().unwrap_or(0);
        let end = cycles.max(self.now + 1).max(rest);
        let to = self.to.min(end);
        let from = self.from.unwrap_or(end).min(to);
        self.cut(from, if from < to { to } else { 0 });
        RunTimeline { from, to, cycles, cores: finished.len(), ..self.parts }
    }
}

/// The outputs at which a window begins and ends, and its cycles as far as they are known.
fn bounds(window: TimelineWindow) -> ((u64, u64), Option<Cycle>, Cycle) {
    match window {
        TimelineWindow::Cycles(from, to) => ((0, u64::MAX), Some(from), to),
        TimelineWindow::Outputs(from, to) => {
            ((from, to), (from == 0).then_some(0), if to == 0 { 0 } else { Cycle::MAX })
        }
    }
}

fn name((core, epoch): (usize, Epoch)) -> EpochName {
    EpochName { core, epoch }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(timeline: &RunTimeline) -> Vec<(usize, Cycle, Cycle)> {
        timeline.stalls.iter().map(|slice| (slice.core, slice.from, slice.to)).collect()
    }

    fn tape(window: TimelineWindow, bytes: u64) -> Tape {
        Tape::new(window, bytes, 2, 2)
    }

    #[test]
    fn stalls_for_one_reason_without_a_break_are_one_slice() {
        let mut tape = tape(TimelineWindow::ALL, 1 << 20);
        tape.stall(0, 5, 9, Reason::Fence);
        tape.stall(0, 9, 12, Reason::Fence);
        tape.stall(0, 12, 13, Reason::Lock);
        tape.stall(0, 20, 21, Reason::Lock);
        let timeline = tape.finish(&[30, 30]);
        assert_eq!(stalls(&timeline), [(0, 5, 12), (0, 12, 13), (0, 20, 21)]);
    }

    #[test]
    fn a_core_that_finishes_first_is_idle_until_the_last_one_does() {
        let timeline = tape(TimelineWindow::ALL, 1 << 20).finish(&[30, 50]);
        let idle = StallSlice { core: 0, from: 30, to: 50, reason: Reason::Idle };
        assert_eq!((timeline.stalls, timeline.cycles), (vec![idle], 50));
    }

    #[test]
    fn a_window_of_operations_has_what_a_core_did_ahead_and_nothing_that_was_over() {
        let mut tape = tape(TimelineWindow::Outputs(1, 2), 1 << 20);
        tape.stall(0, 5, 9, Reason::Fence);
        tape.stall(0, 100, 140, Reason::Fence);
        tape.stall(0, 150, 160, Reason::Fence);
        tape.stall(0, 300, 310, Reason::Fence);
        tape.output(120);
        tape.stall(1, 50, 130, Reason::Lock);
        tape.output(200);
        tape.output(250);
        tape.stall(1, 199, 400, Reason::Lock);
        tape.stall(1, 400, 401, Reason::Fence);
        let timeline = tape.finish(&[500, 500]);
        assert_eq!((timeline.from, timeline.to, timeline.outputs), (120, 200, 3));
        let mut found = stalls(&timeline);
        found.sort_unstable();
        assert_eq!(found, [(0, 100, 140), (0, 150, 160), (1, 50, 130), (1, 199, 400)]);
    }

    #[test]
    fn a_window_that_the_run_does_not_reach_is_empty() {
        for window in [TimelineWindow::Outputs(5, 9), TimelineWindow::Cycles(900, 901)] {
            let mut tape = tape(window, 1 << 20);
            tape.output(100);
            tape.opens(1, 1, 120);
            tape.stall(0, 150, 160, Reason::Fence);
            let timeline = tape.finish(&[500, 500]);
            assert_eq!((timeline.from, timeline.to), (500, 500));
            assert!(timeline.stalls.is_empty() && timeline.epochs.is_empty());
        }
    }

    #[test]
    fn what_was_before_the_measured_part_is_forgotten_and_what_goes_on_is_not() {
        let mut tape = tape(TimelineWindow::ALL, 20 * StallSlice::BYTES);
        for at in 0..100 {
            tape.reach(10 * at);
            tape.stall(0, 10 * at, 10 * at + 4, Reason::Fence);
        }
        tape.opens(1, 7, 500);
        tape.begins(1000);
        tape.stall(0, 1003, 1005, Reason::Fence);
        tape.stall(1, 990, 1010, Reason::Lock);
        tape.durable(1, 7, 1006);
        tape.ends(1020);
        tape.stall(0, 1015, 1030, Reason::Fence);
        tape.stall(0, 1030, 1040, Reason::Lock);
        let timeline = tape.finish(&[1050, 1050]);
        assert_eq!((timeline.from, timeline.to, timeline.is_full), (1000, 1020, false));
        let mut found = stalls(&timeline);
        found.sort_unstable();
        assert_eq!(found, [(0, 1003, 1005), (0, 1015, 1030), (1, 990, 1010)]);
        assert_eq!((timeline.epochs.len(), timeline.epochs[0].opened), (1, 500));
    }

    #[test]
    fn operations_of_a_window_are_counted_from_where_measuring_begins() {
        let mut tape = tape(TimelineWindow::Outputs(1, 2), 1 << 20);
        for at in [10, 20, 30] {
            tape.output(at);
        }
        tape.begins(40);
        for at in [50, 60, 70] {
            tape.output(at);
        }
        let timeline = tape.finish(&[100, 100]);
        assert_eq!((timeline.from, timeline.to, timeline.outputs), (50, 60, 3));
    }

    #[test]
    fn a_full_tape_ends_for_all_cores_at_one_cycle_and_has_what_has_begun() {
        let mut tape = tape(TimelineWindow::ALL, 200 * StallSlice::BYTES);
        tape.opens(1, 7, 3);
        for at in 0..1000 {
            tape.reach(10 * at);
            tape.stall(0, 10 * at, 10 * at + 4, Reason::Fence);
        }
        tape.stall(1, 2, 9990, Reason::Lock);
        tape.durable(1, 7, 9991);
        let timeline = tape.finish(&[10_000, 10_000]);
        assert!(timeline.is_full && (1800..2000).contains(&timeline.to), "{}", timeline.to);
        assert!(timeline.stalls.iter().all(|slice| slice.from < timeline.to));
        assert_eq!(timeline.stalls.last().unwrap().to, 9990, "it had begun");
        assert_eq!(timeline.epochs.len(), 1);
        assert!(timeline.bytes <= 200 * StallSlice::BYTES, "{}", timeline.bytes);
        let of_core_0 = timeline.stalls.iter().filter(|slice| slice.core == 0).count() as u64;
        assert_eq!(of_core_0, timeline.to.div_ceil(10), "none is missing before the end");
    }

    #[test]
    fn an_epoch_is_known_from_its_first_store_and_durable_with_those_before_it() {
        let mut tape = tape(TimelineWindow::ALL, 1 << 20);
        tape.closes(0, 3, 1);
        for at in [10, 11, 12] {
            tape.opens(0, 4, at);
        }
        tape.closes(0, 4, 20);
        tape.depends((0, 5), (1, 2), 25);
        tape.flushes(0, 4, Some(3), 30);
        tape.flushes(0, 4, Some(9), 31);
        tape.durable(0, 5, 40);
        let timeline = tape.finish(&[50, 50]);
        let [first, second] = &timeline.epochs[..] else { panic!("two epochs") };
        assert_eq!((first.opened, first.closed, first.flushed), (10, Some(20), Some(30)));
        assert_eq!((first.lines, first.durable), (Some(3), Some(40)));
        assert_eq!((second.name.epoch, second.opened, second.durable), (5, 25, Some(40)));
        assert_eq!(timeline.dependences.len(), 1);
    }
}
