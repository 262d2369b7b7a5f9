//! A failing image in words.

use crate::crash::Crash;
use crate::lost::way;
use crate::models::order::Cut;
use crate::recovered::{Access, RecoveryStep, steps};
use crate::replay_string::{CrashChoice, CrashPath};
use crate::trace::{Event, Kind, Store, Trace};
use crate::walk::Walk;
use seawall_memory::{Addr, Model};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Stores of each kind that the text form lists before it only counts.
const LISTED: usize = 8;

/// Last stores before a crash that a finding holds if it lost nothing.
const LAST: usize = 4;

/// Steps of recovery that the text form lists.
const STEPS_LISTED: usize = 12;

/// A store, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreNote {
    /// The address, as `pm:0x..`, and as bytes from the start of the pool.
    pub address: String,
    #[serde(skip)]
    pub(crate) at: u64,
    /// Its width in bytes.
    pub bytes: u64,
    /// The value before.
    pub old: u64,
    /// The value that it wrote.
    pub new: u64,
    /// Thread that stored.
    pub thread: u16,
    /// Operation of that thread, from 0.
    pub operation: u32,
    /// The call, as file:line.
    pub place: String,
    /// The first other thread that read it before the crash, and the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reader: Option<(u16, String)>,
    /// For a lost store why it may be lost, in words: on x86 how far its way to persistence was
    /// begun, and what the model assumes where that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
}

/// A turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnNote {
    /// The thread.
    pub thread: u16,
    /// What it did in this turn that is recorded.
    pub events: usize,
    /// The last call of the turn, as file:line.
    pub place: String,
}

/// What a thread was doing when power failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InFlight {
    /// The thread.
    pub thread: usize,
    /// Its operations whose output had been seen: the number of the one in flight.
    pub operation: u64,
    /// The last call that took effect, as file:line; empty if there was none.
    pub place: String,
}

/// An image that fails the check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Builds the image again, from the run.
    pub choice: CrashPath,
    /// The turns of the run's threads, if a [whole exploration](crate::explore()) found it.
    pub schedule: Option<String>,
    /// The message of the check.
    pub message: String,
    /// Events of the whole run.
    pub events: usize,
    /// The thread of the last event before the crash; its call is where power failed.
    pub last_thread: Option<u16>,
    /// Every thread at the crash.
    pub in_flight: Vec<InFlight>,
    /// Stores before the crash that are not in the image, in the order of the run.
    pub lost: Vec<StoreNote>,
    /// Stores that are in the image though an earlier one is lost, and that the check needs in
    /// order to fail, in the order of the run.
    pub early: Vec<StoreNote>,
    /// Other stores that are in the image though an earlier one is lost.
    pub early_others: usize,
    /// If nothing is lost: the last stores before the crash, in the order of the run.
    pub last: Vec<StoreNote>,
    /// When power failed again: each recovery that it cut short.
    pub recoveries: Vec<CutRecovery>,
    /// What recovery read of the lost, the early and the last stores, and what it wrote, up to the
    /// failure. If it read none of them: what it read last.
    pub recovery: Vec<RecoveryStep>,
    /// Whose turn it was before the crash, the last turns, if there are several threads.
    pub turns: Vec<TurnNote>,
    /// What happened before the crash, the last [`TIMELINE`] events of the run.
    pub timeline: Vec<EventNote>,
}

/// Turns before a crash that a finding holds.
const TURNS: usize = 6;

/// Events before a crash that a finding holds.
pub const TIMELINE: usize = 80;

/// Something that took effect before the crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventNote {
    /// Its number in the run, from 0.
    pub event: usize,
    /// The thread.
    pub thread: u16,
    /// The operation of that thread, from 0.
    pub operation: u32,
    /// What it did.
    pub what: String,
    /// The call, as file:line.
    pub place: String,
    /// For a store whether it is in the image.
    pub kept: Option<bool>,
}

/// A recovery that was cut short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CutRecovery {
    /// Events of recovery that took effect before the crash.
    pub event: usize,
    /// Events that it would have had.
    pub events: usize,
    /// The last call that took effect, as file:line; empty if there was none.
    pub place: String,
    /// Its stores that are not in the image.
    pub lost: Vec<StoreNote>,
    /// Its stores that are in the image though an earlier one is lost.
    pub early: Vec<StoreNote>,
}

pub(crate) fn place(event: &Event) -> String {
    event.at.to_string()
}

fn note(trace: &Trace, store: &Store) -> StoreNote {
    let event = &trace.events[store.event as usize];
    StoreNote {
        address: store.at.to_string(),
        bytes: store.width.bytes(),
        old: store.old,
        new: store.new,
        thread: event.thread,
        operation: event.operation,
        place: place(event),
        at: store.at.offset(),
        reader: None,
        way: None,
    }
}

/// The first other thread that read the store before event `end`.
fn reader(trace: &Trace, store: &Store, end: usize) -> Option<(u16, String)> {
    let from = store.event as usize;
    let writer = trace.events[from].thread;
    let reads = |event: &&Event| match event.kind {
        Kind::Read { word, from: None, .. } => word == store.change.word && event.thread != writer,
        _ => false,
    };
    trace.events[from..end].iter().find(reads).map(|event| (event.thread, place(event)))
}

/// The last turns before event `end`.
fn turns(trace: &Trace, end: usize) -> Vec<TurnNote> {
    let same = |a: &Event, b: &Event| a.thread == b.thread;
    let turns = trace.events[..end].chunk_by(same).map(|turn| TurnNote {
        thread: turn[0].thread,
        events: turn.len(),
        place: turn.last().map_or(String::new(), place),
    });
    let mut all: Vec<TurnNote> = turns.collect();
    let from = all.len().saturating_sub(TURNS);
    if trace.threads > 1 { all.split_off(from) } else { Vec::new() }
}

/// What a crash lost of a trace, and what came early.
struct Gone {
    lost: Vec<StoreNote>,
    early: Vec<StoreNote>,
    early_others: usize,
}

/// `decisive` has the early stores that matter; of the others there is only the number. Stores of
/// what was there already are left out.
fn gone(trace: &Trace, crash: &Crash, decisive: &Cut, model: Model) -> Gone {
    let mut rank = vec![0; trace.lines.len()];
    let (mut lost, mut early, mut early_others) = (Vec::new(), Vec::new(), 0);
    for store in trace.events[..crash.event].iter().filter_map(|event| event.kind.store()) {
        let store = &trace.stores[store as usize];
        let rank = &mut rank[store.line as usize];
        *rank += 1;
        if store.old == store.new {
            continue;
        }
        let told = || StoreNote { reader: reader(trace, store, crash.event), ..note(trace, store) };
        if *rank > crash.cut.get(store.line) {
            lost.push(StoreNote { way: way(trace, store, crash, model), ..told() });
        } else if !lost.is_empty() && *rank > decisive.get(store.line) {
            early_others += 1;
        } else if !lost.is_empty() {
            early.push(told());
        }
    }
    Gone { lost, early, early_others }
}

/// The last stores of the trace before the crash, those of what was there already left out.
fn last_stores(trace: &Trace, crash: &Crash) -> Vec<StoreNote> {
    let stores = trace.events[..crash.event].iter().rev().filter_map(|event| event.kind.store());
    let stores = stores.map(|store| &trace.stores[store as usize]);
    let mut all: Vec<StoreNote> =
        stores.filter(|store| store.old != store.new).take(LAST).map(|s| note(trace, s)).collect();
    all.reverse();
    all
}

/// The last events of the trace before the crash.
fn timeline(trace: &Trace, crash: &Crash) -> Vec<EventNote> {
    let mut rank = vec![0; trace.lines.len()];
    let mut notes = Vec::new();
    for (number, event) in trace.events[..crash.event].iter().enumerate() {
        let mut kept = None;
        if let Some(store) = event.kind.store() {
            let line = trace.stores[store as usize].line;
            rank[line as usize] += 1;
            kept = Some(rank[line as usize] <= crash.cut.get(line));
        }
        if number + TIMELINE >= crash.event {
            notes.push(EventNote {
                event: number,
                thread: event.thread,
                operation: event.operation,
                what: what(trace, event.kind),
                place: place(event),
                kept,
            });
        }
    }
    notes
}

fn what(trace: &Trace, kind: Kind) -> String {
    let line = |line: u32| trace.lines[line as usize].line.start();
    let stores = |store: u32| {
        let Store { at, new, width, .. } = trace.stores[store as usize];
        format!("{at} = {new:#x} ({} bytes)", width.bytes())
    };
    match kind {
        Kind::Store { store } => format!("store {}", stores(store)),
        Kind::StoreNt { store } => format!("non-temporal store {}", stores(store)),
        Kind::Locked { store: Some(store) } => format!("locked store {}", stores(store)),
        Kind::Locked { store: None } => "locked operation on DRAM".into(),
        Kind::Read { word, from, .. } => {
            let late =
                if from.is_some() { ", before an earlier store has left its buffer" } else { "" };
            format!("reads {} of another thread{late}", Addr::pm(8 * u64::from(word)))
        }
        Kind::Failed => "compare-and-exchange that failed".into(),
        Kind::Sync { .. } => "reads DRAM of another thread".into(),
        Kind::Flush { line: index } => format!("flush of the line {}", line(index)),
        Kind::FlushElsewhere => "flush of what is not persistent".into(),
        Kind::WroteBack { line: index } => format!("the line {} leaves the caches", line(index)),
        Kind::Order => "order".into(),
        Kind::Drain => "drain".into(),
        Kind::Strand => "a new strand".into(),
        Kind::Join => "a join of strands".into(),
        Kind::Output { number } => format!("output {number}"),
        Kind::Grow { bytes } => format!("the pool grows to {bytes} bytes"),
    }
}

impl Finding {
    /// The string that builds the image again: `TURNS/MODEL/EVENT/LOST`.
    pub fn replay(&self) -> String {
        format!("{}/{}", self.schedule.as_deref().unwrap_or("s"), self.choice)
    }

    /// `scenes` are the traces that the crashes cut short; `decisive` is of the last one.
    pub(crate) fn describe(
        walk: &Walk<'_>,
        crashes: &[Crash],
        scenes: &[Arc<Trace>],
        decisive: &Cut,
        accesses: &[Access],
        message: String,
    ) -> Finding {
        let trace = walk.trace;
        let done = &trace.events[..walk.point.event];
        let (_, outputs) = walk.point.told();
        let in_flight = (0..trace.threads).map(|thread| InFlight {
            thread,
            operation: outputs[thread],
            place: done
                .iter()
                .rfind(|e| usize::from(e.thread) == thread)
                .map_or(String::new(), place),
        });
        let last = crashes.len() - 1;
        let none = Cut::default();
        let sifted = |at: usize| if at == last { decisive } else { &none };
        let Gone { lost, early, early_others } = gone(trace, &crashes[0], sifted(0), walk.model);
        let recoveries = (1..crashes.len()).map(|at| {
            let (trace, crash) = (&*scenes[at], &crashes[at]);
            let Gone { lost, early, .. } = gone(trace, crash, sifted(at), walk.model);
            let done = &trace.events[..crash.event];
            CutRecovery {
                event: crash.event,
                events: trace.events.len(),
                place: done.last().map_or(String::new(), place),
                lost,
                early,
            }
        });
        let recoveries: Vec<CutRecovery> = recoveries.collect();
        let all = |own: &[StoreNote], of: fn(&CutRecovery) -> &[StoreNote]| {
            [own, &recoveries.iter().flat_map(of).cloned().collect::<Vec<_>>()].concat()
        };
        let all_lost = all(&lost, |recovery| &recovery.lost);
        let stores = if all_lost.is_empty() { last_stores(trace, &crashes[0]) } else { Vec::new() };
        let recovery =
            steps(accesses, &all_lost, &all(&early, |recovery| &recovery.early), &stores);
        let timeline = timeline(trace, &crashes[0]);
        let crashes =
            crashes.iter().zip(scenes).map(|(crash, trace)| CrashChoice::of(trace, crash));
        Finding {
            choice: CrashPath { model: walk.model, crashes: crashes.collect() },
            schedule: None,
            message,
            events: trace.events.len(),
            last_thread: done.last().map(|event| event.thread),
            in_flight: in_flight.collect(),
            lost,
            early,
            early_others,
            last: stores,
            recoveries,
            recovery,
            turns: turns(trace, walk.point.event),
            timeline,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        let (event, model) = (self.choice.crashes[0].event, self.choice.model);
        writeln!(f, "  power fails after event {event} of {} (model {model})", self.events)?;
        for InFlight { thread, operation, place } in &self.in_flight {
            let last = self.last_thread.is_some_and(|last| usize::from(last) == *thread);
            let here = if last { ", the last to act," } else { "" };
            match place.as_str() {
                "" => writeln!(f, "    thread {thread} has not begun")?,
                _ => writeln!(f, "    thread {thread}{here} in operation {operation}, at {place}")?,
            }
        }
        if self.turns.len() > 1 {
            let turn = |TurnNote { thread, place, .. }: &TurnNote| format!("{thread} to {place}");
            let turns: Vec<String> = self.turns.iter().map(turn).collect();
            writeln!(f, "    turns: thread {}", turns.join(", then "))?;
        }
        list(f, "lost: stored before the crash, not durable", &self.lost)?;
        list(f, "early: durable, stored after a lost one, and it matters", &self.early)?;
        match self.early_others {
            0 => {}
            more => writeln!(f, "    ({more} more stores are early and make no difference)")?,
        }
        list(f, "nothing is lost; stored last", &self.last)?;
        for CutRecovery { event, events, place, lost, early } in &self.recoveries {
            writeln!(
                f,
                "  power fails again after event {event} of {events} of recovery, at {place}"
            )?;
            list(f, "lost: stored by recovery before the crash, not durable", lost)?;
            list(f, "early: durable, stored by recovery after a lost one", early)?;
        }
        if !self.recovery.is_empty() {
            writeln!(f, "  recovery, up to the failure:")?;
        }
        let steps = self.recovery.len();
        match steps.saturating_sub(STEPS_LISTED) {
            0 => {}
            more => writeln!(f, "    ({more} steps before these)")?,
        }
        for step in &self.recovery[steps.saturating_sub(STEPS_LISTED)..] {
            writeln!(f, "    {step}")?;
        }
        Ok(())
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, stores: &[StoreNote]) -> fmt::Result {
    if stores.is_empty() {
        return Ok(());
    }
    writeln!(f, "  {title}:")?;
    for store in stores.iter().take(LISTED) {
        let StoreNote { address, bytes, old, new, thread, operation, place, .. } = store;
        write!(
            f,
            "    {address} ({bytes} bytes) {old:#x} -> {new:#x}, \
             thread {thread} operation {operation}, {place}"
        )?;
        if let Some(way) = &store.way {
            write!(f, "; {way}")?;
        }
        match &store.reader {
            Some((thread, place)) => writeln!(f, "; thread {thread} read it at {place}")?,
            None => writeln!(f)?,
        }
    }
    match stores.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(f, "    and {more} more"),
    }
}
