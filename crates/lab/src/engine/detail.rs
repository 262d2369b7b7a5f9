//! What `--detail` adds to a record: latencies, how full the queues were, and what each core did.

use seawall_sim::{Cycle, Latencies, Occupancy, Reason, RunDetail, Stalls, WriteQueue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The detail of a run as records have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetailRecord {
    /// Loads that had to ask for a line, from when they could start until it arrived.
    pub load_miss_cycles: LatencyRecord,
    /// Writes of persistent lines, from when a cache or a buffer sent the line until no crash could
    /// lose it.
    pub persist_cycles: LatencyRecord,
    /// Fences, drains among them, from when the instruction retired until it took effect behind all
    /// stores before it.
    pub fence_cycles: LatencyRecord,
    /// Drains, from when the program asked until it went on.
    pub drain_cycles: LatencyRecord,
    /// The write queues of controllers and DIMMs that had an entry.
    pub write_queues: Vec<QueueRecord>,
    /// The persist buffers of the cores; empty if the design has none.
    pub persist_buffers: Vec<QueueRecord>,
    /// The cores that ran threads; those of flushers come last.
    pub cores: Vec<CoreRecord>,
}

/// How long something took, in cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// How often it happened.
    pub count: u64,
    /// Null if it did not.
    pub mean: Option<f64>,
    pub p50: Cycle,
    pub p90: Cycle,
    pub p99: Cycle,
    pub max: Cycle,
}

/// How many entries a queue had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// `controller 0`, `dimm 2`, or `core 1`.
    pub name: String,
    pub mean_entries: f64,
    pub max_entries: u64,
}

/// What a core did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreRecord {
    pub core: usize,
    /// Cycles until its thread finished.
    pub cycles: Cycle,
    /// Cycles in which it issued instructions.
    pub busy_cycles: Cycle,
    /// The other cycles of the run by reason, as far as there are any; `idle` is after its end.
    pub stall_cycles: Map<String, Value>,
    pub instructions: u64,
    /// Its flush instructions, whatever they found.
    pub flushes: u64,
    /// Its fences, drains among them.
    pub fences: u64,
}

impl DetailRecord {
    /// Of a run that took `cycles`.
    pub(crate) fn new(detail: &RunDetail, cycles: Cycle) -> DetailRecord {
        let queue = |name: String, of: &Occupancy| QueueRecord {
            name,
            mean_entries: of.entry_cycles as f64 / cycles.max(1) as f64,
            max_entries: of.max,
        };
        let buffers = detail.persist_buffers.iter().enumerate();
        let core = |(core, it): (usize, &seawall_sim::CoreDetail)| CoreRecord {
            core,
            cycles: it.cycles,
            busy_cycles: cycles.saturating_sub(it.stalls.total()),
            stall_cycles: by_reason(&it.stalls),
            instructions: it.instructions,
            flushes: it.flushes,
            fences: it.fences,
        };
        DetailRecord {
            load_miss_cycles: LatencyRecord::new(&detail.load_misses),
            persist_cycles: LatencyRecord::new(&detail.persists),
            fence_cycles: LatencyRecord::new(&detail.fences),
            drain_cycles: LatencyRecord::new(&detail.drains),
            write_queues: detail
                .write_queues
                .iter()
                .map(|(name, of)| queue(named(*name), of))
                .collect(),
            persist_buffers: buffers.map(|(core, of)| queue(format!("core {core}"), of)).collect(),
            cores: detail.cores.iter().enumerate().map(core).collect(),
        }
    }
}

impl LatencyRecord {
    fn new(of: &Latencies) -> LatencyRecord {
        let Latencies { count, sum, p50, p90, p99, max } = *of;
        let mean = (count > 0).then(|| sum as f64 / count as f64);
        LatencyRecord { count, mean, p50, p90, p99, max }
    }
}

fn named(queue: WriteQueue) -> String {
    match queue {
        WriteQueue::Controller(number) => format!("controller {number}"),
        WriteQueue::Dimm(number) => format!("dimm {number}"),
    }
}

fn by_reason(stalls: &Stalls) -> Map<String, Value> {
    let reasons = Reason::ALL.into_iter().filter(|reason| stalls.get(*reason) > 0);
    reasons.map(|reason| (reason.name().to_owned(), stalls.get(reason).into())).collect()
}
