//! The timeline of a run: why each core stalled when, how epochs became durable, and what waited in
//! the queues of memory.
//!
//! A [`Simulation`](crate::Simulation) keeps one if it is
//! [asked to](crate::Simulation::with_timeline); that changes nothing else. The slices of a core's
//! stalls add up, reason by reason, to the [stalled cycles](crate::RunOutcome::stalls) of the run.
//! A timeline is bounded: by a window, and by the bytes that it takes in a file. When these are
//! used up, it ends, for all parts of the machine at the same cycle.

use crate::Cycle;
use crate::engine::counters::Reason;
use serde::{Deserialize, Serialize};

mod recorder;

pub(crate) use recorder::{Recorder, Tape};

/// The part of a run that a timeline shows: of what its programs have
/// [marked](crate::SimMemory::roi_begin), if they have, where outputs are counted from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimelineWindow {
    /// Cycles, from the first one up to the second, which is left out.
    Cycles(Cycle, Cycle),
    /// From the completion of an [output](seawall_memory::Memory::output) to that of another, all
    /// programs together: of none, the start, up to number `u64::MAX`, the end.
    Outputs(u64, u64),
}

impl TimelineWindow {
    /// The whole run.
    pub const ALL: TimelineWindow = TimelineWindow::Cycles(0, Cycle::MAX);
}

impl Default for TimelineWindow {
    fn default() -> TimelineWindow {
        TimelineWindow::ALL
    }
}

/// What a timeline has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTimeline {
    /// The first cycle that it shows.
    pub from: Cycle,
    /// The cycle before which it ends; no slice is cut to it, as the ends of slices are known.
    pub to: Cycle,
    /// Whether it ends there because it has no more room.
    pub is_full: bool,
    /// The most bytes that it takes in a file.
    pub bytes: u64,
    /// Where what is measured begins: 0, unless programs mark that.
    pub begin: Cycle,
    /// When the last program finished.
    pub cycles: Cycle,
    /// The outputs of all programs together, from where measuring begins.
    pub outputs: u64,
    /// The cores that ran programs: the first ones.
    pub cores: usize,
    /// The stalls of all cores. Those of one core are in order and do not overlap.
    pub stalls: Vec<StallSlice>,
    /// The epochs, in the order in which they became durable; those that did not are last.
    pub epochs: Vec<EpochSlice>,
    /// The dependences between epochs of different cores, in order.
    pub dependences: Vec<EpochDependence>,
    /// The requests that had to wait for an epoch, in order.
    pub waits: Vec<EpochWait>,
    /// The entries of the write queues, in the order of their arrivals.
    pub entries: Vec<QueueEntry>,
}

/// Cycles in which a core stalled, without a break and for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallSlice {
    /// The core.
    pub core: usize,
    /// The first cycle.
    pub from: Cycle,
    /// The first cycle behind it.
    pub to: Cycle,
    /// Why.
    pub reason: Reason,
}

/// An epoch of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EpochName {
    /// The core.
    pub core: usize,
    /// Its number on that core, from 1.
    pub epoch: u32,
}

/// How an epoch became durable. What did not happen in the run is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochSlice {
    /// Which one.
    pub name: EpochName,
    /// The cycle of its first store, or of its first dependence on another epoch.
    pub opened: Cycle,
    /// From when on no store joins it.
    pub closed: Option<Cycle>,
    /// When the first of its lines was sent to memory, because it was its turn.
    pub flushed: Option<Cycle>,
    /// When its lines were durable, under a design that does something else then.
    pub done: Option<(EpochEnd, Cycle)>,
    /// When no crash could undo it any more.
    pub durable: Option<Cycle>,
    /// The lines that an arbiter flushed, if the design has arbiters.
    pub lines: Option<u64>,
}

/// What a design does when the lines of an epoch are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EpochEnd {
    /// Controllers commit what they could have undone.
    Commit,
    /// A line in memory is to name it.
    Name,
}

/// A dependence between epochs of different cores, which hardware tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochDependence {
    /// When it was found.
    pub at: Cycle,
    /// What must be durable first.
    pub on: EpochName,
    /// What depends on it.
    pub of: EpochName,
}

/// A request of a core that waits until an epoch is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochWait {
    /// When it began to wait.
    pub at: Cycle,
    /// The epoch that it waits for.
    pub on: EpochName,
    /// The core that made it.
    pub core: usize,
    /// The reason.
    pub reason: Reason,
}

/// An entry of a write queue: that of a controller or, if the machine has DIMMs and the line
/// persists, of a DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// The controller, or the DIMM.
    pub queue: WriteQueue,
    /// The line that is written; `None` for a marker, which is no write.
    pub line: Option<u32>,
    /// The core that is told when the line is durable.
    pub core: Option<usize>,
    /// When it came.
    pub arrived: Cycle,
    /// When it got its place.
    pub accepted: Cycle,
    /// When its place was free again.
    pub left: Cycle,
}

/// A write queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WriteQueue {
    /// Of this controller.
    Controller(usize),
    /// Of this DIMM.
    Dimm(usize),
}

/// A part of a timeline, which takes some time and some room.
trait Part {
    /// The bytes that it takes at most in a file in Perfetto's format, as `seawall-lab` writes it.
    const BYTES: u64;

    /// The first cycle, and the last.
    fn span(&self) -> (Cycle, Cycle);
}

impl Part for StallSlice {
    const BYTES: u64 = 80;

    fn span(&self) -> (Cycle, Cycle) {
        (self.from, self.to - 1)
    }
}

impl Part for EpochSlice {
    const BYTES: u64 = 320;

    fn span(&self) -> (Cycle, Cycle) {
        (self.opened, self.durable.unwrap_or(Cycle::MAX))
    }
}

impl Part for EpochDependence {
    const BYTES: u64 = 104;

    fn span(&self) -> (Cycle, Cycle) {
        (self.at, self.at)
    }
}

impl Part for EpochWait {
    const BYTES: u64 = 104;

    fn span(&self) -> (Cycle, Cycle) {
        (self.at, self.at)
    }
}

impl Part for QueueEntry {
    const BYTES: u64 = 120;

    fn span(&self) -> (Cycle, Cycle) {
        (self.arrived, self.left)
    }
}
