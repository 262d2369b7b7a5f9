//! A timeline changes nothing, and says the same as what is counted.

use crate::programs::{lock, unlock};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{
    Choice, DESIGNS, EpochEnd, EpochSlice, Machine, Program, QueueEntry, Reason, RunOutcome,
    RunTimeline, SimMemory, Simulation, TimelineWindow, WriteQueue,
};
use std::collections::BTreeMap;

const LOCK: Addr = Addr::dram(0);
const OPERATIONS: u64 = 150;
const BYTES_MAX: u64 = 64 << 20;

/// Threads that share lines, with and without a lock, and that finish one after another.
fn program(memory: &SimMemory) {
    let thread = memory.thread() as u64;
    for n in 0..OPERATIONS - 20 * thread {
        lock(memory, LOCK);
        memory.store(Addr::pm(64 * (n % 7)), n);
        memory.flush(Addr::pm(64 * (n % 7)), 8);
        memory.order();
        memory.store(Addr::pm(512), n);
        memory.flush(Addr::pm(512), 8);
        memory.drain();
        unlock(memory, LOCK);
        memory.load::<u64>(Addr::pm(4096 * (1 + n * 5 % 251)));
        memory.store(Addr::pm(4096 * (1 + (n + 17 * thread) % 251)), n);
        for other in 0..3 {
            memory.store(Addr::pm(1024 + 64 * other), n);
            memory.order();
        }
        memory.work(40);
        memory.output(n + 1);
    }
}

fn simulated(machine: &str, design: &str, window: Option<TimelineWindow>) -> RunOutcome {
    limited(machine, design, window, BYTES_MAX)
}

fn limited(
    machine: &str,
    design: &str,
    window: Option<TimelineWindow>,
    bytes_max: u64,
) -> RunOutcome {
    let machine = Machine::load(machine).expect("a machine");
    let design = Choice::parse(design).expect("a design");
    let programs = (0..3).map(|_| Box::new(program) as Program).collect();
    let simulation = Simulation::new(&machine, &design, vec![0; 1 << 20], vec![0; 4096]).cold();
    let simulation = match window {
        Some(window) => simulation.with_timeline(window, bytes_max),
        None => simulation,
    };
    simulation.run(programs).expect("it ends")
}

fn timeline(outcome: &RunOutcome) -> &RunTimeline {
    outcome.timeline.as_ref().expect("it was asked for")
}

#[test]
fn a_timeline_changes_nothing_and_its_stalls_add_up_under_every_design() {
    for entry in DESIGNS {
        let plain = simulated("desktop", entry.name, None);
        let with = simulated("desktop", entry.name, Some(TimelineWindow::ALL));
        assert_eq!(plain, RunOutcome { timeline: None, ..with.clone() }, "{}", entry.name);
        let shown = timeline(&with);
        assert!(!shown.is_full);
        assert_eq!((shown.from, shown.cycles, shown.cores), (0, with.cycles, 3));
        for (core, stalls) in with.stalls.iter().enumerate() {
            let mut sums: BTreeMap<Reason, u64> = BTreeMap::new();
            let mut last = 0;
            for slice in shown.stalls.iter().filter(|slice| slice.core == core) {
                assert!(slice.from >= last && slice.from < slice.to, "{}: {slice:?}", entry.name);
                last = slice.to;
                *sums.entry(slice.reason).or_default() += slice.to - slice.from;
            }
            for reason in Reason::ALL {
                let sum = sums.get(&reason).copied().unwrap_or(0);
                assert_eq!(sum, stalls.get(reason), "{}: {}", entry.name, reason.name());
            }
        }
    }
}

#[test]
fn epochs_become_durable_in_order_and_are_as_many_as_are_counted() {
    for design in ["epoch", "lb", "lb-idt", "lb-pf", "lbpp", "bsp-lbpp:stores=20", "hops", "asap"] {
        let outcome = simulated("desktop", design, Some(TimelineWindow::ALL));
        let shown = timeline(&outcome);
        // Those that wrote nothing and only depend on others are not counted.
        let written = |epoch: &&EpochSlice| epoch.durable.is_some() && epoch.flushed.is_some();
        let durable = shown.epochs.iter().filter(written).count() as u64;
        assert!(durable > 100, "{design}: {durable}");
        if !design.starts_with("bsp") {
            assert_eq!(durable, outcome.counters.epochs, "{design}");
        }
        let mut last = BTreeMap::new();
        for epoch in &shown.epochs {
            let number = epoch.name.epoch;
            let before = last.insert(epoch.name.core, number).unwrap_or(0);
            assert!(before < number, "{design}: {before}, {number}");
            let Some(end) = epoch.durable else { continue };
            let closed = epoch.closed.expect("an epoch is closed before it is durable");
            let flushed = epoch.flushed.unwrap_or(closed);
            assert!(epoch.opened <= closed && closed <= end, "{design}: {epoch:?}");
            assert!(epoch.opened <= flushed && flushed <= end, "{design}: {epoch:?}");
            let expected = match design {
                "asap" => Some(EpochEnd::Commit),
                "bsp-lbpp:stores=20" => Some(EpochEnd::Name),
                _ => None,
            };
            let does = epoch.done.map(|(does, at)| {
                assert!(flushed <= at && at <= end, "{design}: {epoch:?}");
                does
            });
            assert!(does == expected || design == "asap" && does.is_none(), "{design}: {does:?}");
            let has_arbiter = !matches!(design, "hops" | "asap");
            assert_eq!(epoch.lines.is_some(), has_arbiter, "{design}");
        }
    }
}

#[test]
fn what_depends_on_an_epoch_is_durable_after_it() {
    for design in ["lb-idt", "lbpp", "hops", "asap"] {
        let outcome = simulated("desktop", design, Some(TimelineWindow::ALL));
        let shown = timeline(&outcome);
        let found = shown.dependences.len() as u64;
        assert_eq!(found, outcome.counters.dependences, "{design}");
        assert!(found > 50, "{design}: {found}");
        let at = |name| shown.epochs.iter().find(|epoch| epoch.name == name).expect("it is shown");
        for dependence in &shown.dependences {
            let (on, of) = (at(dependence.on), at(dependence.of));
            assert!(on.opened <= dependence.at, "{design}: {dependence:?}");
            // Cores learn from HOPS's timestamps a little later that an epoch is durable.
            let is_known = design != "hops";
            assert!(!is_known || on.durable >= Some(dependence.at), "{design}: {dependence:?}");
            assert!(of.durable.is_none_or(|of| Some(of) >= on.durable), "{design}: {dependence:?}");
        }
    }
}

#[test]
fn who_waits_for_an_epoch_goes_on_when_it_is_durable() {
    for design in ["lb", "hops", "asap"] {
        let outcome = simulated("desktop", design, Some(TimelineWindow::ALL));
        let shown = timeline(&outcome);
        let fences = shown.waits.iter().filter(|wait| wait.reason == Reason::Fence);
        let mut seen = 0;
        for wait in fences {
            let of_core = shown.stalls.iter().filter(|slice| slice.core == wait.core);
            let mut stalls = of_core.filter(|slice| slice.reason == Reason::Fence);
            let stall = stalls.find(|slice| slice.to > wait.at);
            let stall = stall.unwrap_or_else(|| panic!("{design}: {wait:?} of {}", shown.cycles));
            let epoch = shown.epochs.iter().find(|epoch| epoch.name == wait.on).expect("one");
            assert!(Some(stall.to) >= epoch.durable, "{design}: {wait:?}");
            seen += 1;
        }
        assert!(seen > 100, "{design}: {seen}");
    }
}

/// The most entries of a queue that are taken at one time.
fn most<'a>(entries: impl Iterator<Item = &'a QueueEntry>) -> i64 {
    let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
    for entry in entries {
        *changes.entry(entry.accepted).or_default() += 1;
        *changes.entry(entry.left).or_default() -= 1;
    }
    let sums = changes.values().scan(0, |taken, change| {
        *taken += change;
        Some(*taken)
    });
    sums.max().unwrap_or(0)
}

#[test]
fn every_write_is_shown_and_no_queue_has_more_than_its_entries() {
    let machines = ["desktop:memory.write_queue=4", "hops17:memory.write_queue=4", "optane24"];
    for (machine, design) in machines.into_iter().flat_map(|it| [(it, "clwb"), (it, "dpo")]) {
        let outcome = simulated(machine, design, Some(TimelineWindow::ALL));
        let shown = timeline(&outcome);
        let writes = shown.entries.iter().filter(|entry| entry.line.is_some()).count() as u64;
        assert_eq!(writes, outcome.counters.line_writes, "{design} on {machine}");
        let config = Machine::load(machine).unwrap().memory;
        let mut queues: Vec<WriteQueue> = shown.entries.iter().map(|entry| entry.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        let mut fullest = 0;
        for queue in queues {
            let most = most(shown.entries.iter().filter(|entry| entry.queue == queue));
            let room = match queue {
                WriteQueue::Controller(number) => {
                    assert!(number < config.controllers);
                    config.write_queue
                }
                WriteQueue::Dimm(number) => {
                    assert!(number < config.nvm.dimms.expect("there are").count);
                    config.nvm.dimms.expect("there are").write_queue
                }
            };
            assert!(most <= room as i64, "{design} on {machine}: {most} in {queue:?}");
            fullest = fullest.max(most);
        }
        assert!(fullest > 0, "{design} on {machine}");
    }
}

#[test]
fn a_window_has_what_the_whole_has_there() {
    for design in ["volatile", "lbpp", "hops"] {
        let outcome = simulated("desktop", design, Some(TimelineWindow::ALL));
        let whole = timeline(&outcome);
        let (from, to) = (whole.cycles / 3, whole.cycles / 2);
        let part = simulated("desktop", design, Some(TimelineWindow::Cycles(from, to)));
        let part = timeline(&part);
        assert_eq!((part.from, part.to), (from, to));
        let stalls: Vec<_> =
            whole.stalls.iter().filter(|it| it.from < to && it.to > from).copied().collect();
        assert_eq!(part.stalls, stalls, "{design}");
        let shows = |arrived: u64, left: u64| arrived < to && left >= from;
        let entries = whole.entries.iter().filter(|it| shows(it.arrived, it.left));
        assert_eq!(part.entries, entries.copied().collect::<Vec<_>>(), "{design}");
        let ends = |it: &EpochSlice| it.durable.unwrap_or(u64::MAX);
        let epochs = whole.epochs.iter().filter(|it| shows(it.opened, ends(it)));
        assert_eq!(part.epochs, epochs.copied().collect::<Vec<_>>(), "{design}");
    }
}

#[test]
fn a_window_of_operations_is_the_window_of_their_cycles() {
    let by_outputs = simulated("desktop", "lbpp", Some(TimelineWindow::Outputs(100, 180)));
    let by_outputs = timeline(&by_outputs);
    assert_eq!(by_outputs.outputs, OPERATIONS * 3 - 60);
    let cycles = TimelineWindow::Cycles(by_outputs.from, by_outputs.to);
    let by_cycles = simulated("desktop", "lbpp", Some(cycles));
    assert!(by_outputs.from > 0 && by_outputs.to < by_outputs.cycles);
    assert_eq!(by_outputs, timeline(&by_cycles));
}

#[test]
fn a_timeline_without_room_ends_early_and_has_all_that_is_before() {
    for design in ["volatile", "lbpp", "asap"] {
        let outcome = simulated("desktop", design, Some(TimelineWindow::ALL));
        let whole = timeline(&outcome);
        let room = whole.bytes / 3;
        let short = limited("desktop", design, Some(TimelineWindow::ALL), room);
        let short = timeline(&short);
        assert!(short.is_full && short.bytes <= room, "{design}: {} of {room}", short.bytes);
        assert!(short.to > whole.cycles / 8, "{design}: {} of {}", short.to, whole.cycles);
        let part = simulated("desktop", design, Some(TimelineWindow::Cycles(0, short.to)));
        let part = RunTimeline { is_full: true, ..timeline(&part).clone() };
        assert_eq!(short, &part, "{design}");
    }
}
