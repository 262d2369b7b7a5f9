//! With crashes, at every point of a cycle and of what threads do meanwhile.

use super::{
    List, NAME, Node, Root, Thread, defragmenter, made, node, options, push, restarted, retain,
    values, ways,
};
use crate::steps::is_long_run;
use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, Trace, Traced, Turns, check,
    record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::defrag::{DefragOptions, Protocol, Step};
use seawall_runtime::typed::{self, Session};
use seawall_runtime::{HeapError, HeapFlaw, TxError};
use std::cell::Cell;
use std::rc::Rc;

const CHUNKS: u64 = 8;
const KEPT: [u64; 4] = [49, 48, 16, 0];

/// A list of four nodes on three pages.
fn sparse() -> Image {
    let options = options(CHUNKS);
    let (image, heap) = made(&options);
    let mut thread = Thread::join(heap, &image).expect("the root");
    push(&mut thread, 0..60).expect("room");
    retain(&mut thread, |value| KEPT.contains(&value)).expect("room");
    thread.untyped().retire();
    drop(thread);
    Image::from_pm(image.into_pm(), options.dram_bytes())
}

fn recovered(image: &CrashImage, flaw: HeapFlaw) -> Result<(u64, Vec<u64>), String> {
    let bytes = options(CHUNKS).pm_bytes();
    let opened = typed::open_flawed::<List<'_>, _, HeapError>(image, NAME, bytes, flaw, |pool| {
        Ok((pool.heap(), pool.recovered().moved))
    });
    let (heap, moved) = opened.map_err(|error| error.to_string())?;
    let mut thread = Thread::join(heap, image).map_err(|error| error.to_string())?;
    Ok((moved, values(&mut thread)?))
}

/// The same, and another cycle ends what the one before has left; gives what there is behind that.
fn recovered_and_ended(image: &CrashImage, flaw: HeapFlaw) -> Result<(u64, Vec<u64>), String> {
    let (moved, before) = recovered(image, flaw)?;
    image.restart();
    let bytes = options(CHUNKS).pm_bytes();
    let opened = typed::open::<List<'_>, _, HeapError>(image, NAME, bytes, |pool| Ok(pool.heap()));
    let heap = opened.map_err(|error| error.to_string())?;
    let mut thread = Thread::join(heap, image).map_err(|error| error.to_string())?;
    let ended = defragmenter(Protocol::Sfccd).run(thread.untyped());
    ended.map_err(|error| error.to_string())?;
    let after = values(&mut thread)?;
    if after == before { Ok((moved, after)) } else { Err(format!("{before:?}, then {after:?}")) }
}

/// Which lines of copies leave the caches at once: none, and others with each seed.
fn schedules(protocol: Protocol) -> impl Iterator<Item = Schedule> {
    let seeds = if protocol == Protocol::Ffccd { 0..3 } else { 1..2 };
    seeds.map(|seed| Schedule { seed, ..Schedule::default() })
}

fn alone(how: impl Into<DefragOptions>, flaw: HeapFlaw) -> Result<(), String> {
    let how = how.into();
    schedules(how.protocol).try_for_each(|schedule| moves_all(sparse(), how, flaw, &schedule))
}

fn moves_all(
    start: Image,
    how: DefragOptions,
    flaw: HeapFlaw,
    schedule: &Schedule,
) -> Result<(), String> {
    let trace = record(start, schedule, move |memory| {
        let bytes = options(CHUNKS).pm_bytes();
        let opened =
            typed::open_flawed::<List<'_>, _, HeapError>(memory, NAME, bytes, flaw, |pool| {
                Ok(pool.heap())
            });
        let mut defragmenter = defragmenter(how);
        defragmenter.run(&mut opened.expect("a sound pool").join(memory)).expect("room");
        assert_eq!(defragmenter.counts().cycles, 1);
        memory.output(1);
    });
    let trace = trace.map_err(|error| error.to_string())?;
    let judge = |found: &(u64, Vec<u64>), _: &CrashPoint| {
        let mut values = found.1.clone();
        values.sort_unstable_by_key(|value| std::cmp::Reverse(*value));
        if values == KEPT { Ok(()) } else { Err(format!("{found:?}")) }
    };
    let how = Search { depth: 1, ..Search::new(Model::Px86) };
    let recover = move |image: &CrashImage| recovered(image, flaw);
    match search(&trace, &how, &check(recover, judge)).finding {
        None => Ok(()),
        Some(finding) => Err(finding.to_string()),
    }
}

#[test]
fn no_crash_of_a_cycle_loses_an_object() {
    for how in ways() {
        alone(how, HeapFlaw::None).unwrap_or_else(|bad| panic!("{how}: {bad}"));
    }
}

#[test]
fn the_slides_rule_for_one_fence_takes_half_a_copy_for_a_whole_one() {
    let outcome = alone(Protocol::Sfccd, HeapFlaw::BelievesMoved);
    assert!(outcome.is_err(), "not found");
}

#[test]
fn a_line_that_two_copies_share_has_persisted_with_one_of_them_perhaps() {
    let outcome = alone(Protocol::Ffccd, HeapFlaw::BelievesReached);
    assert!(outcome.is_err(), "not found");
}

/// The same list in the order of its addresses: nothing in the last node is brought up to date.
fn ascending() -> Image {
    let options = options(CHUNKS);
    let (image, heap) = made(&options);
    let mut thread = Thread::join(heap, &image).expect("the root");
    let appended = thread.enter(|session, root| {
        let mut link = root.at(List::FIRST);
        for value in 0..60 {
            link = session.transaction(|tx| {
                let new = tx.alloc(node(value, None))?;
                tx.set(link, Some(new))?;
                Ok::<_, TxError>(new.at(Node::NEXT))
            })?;
        }
        Ok::<_, HeapError>(())
    });
    appended.expect("room");
    retain(&mut thread, |value| KEPT.contains(&value)).expect("room");
    thread.untyped().retire();
    drop(thread);
    Image::from_pm(image.into_pm(), options.dram_bytes())
}

#[test]
fn a_page_is_not_released_before_lines_that_copies_share_have_persisted_with_all_of_them() {
    let moves = |flaw, seeds: u64| {
        let run = |schedule| moves_all(ascending(), Protocol::Ffccd.into(), flaw, &schedule);
        (0..seeds).map(|seed| Schedule { seed, ..Schedule::default() }).try_for_each(run)
    };
    let seeds = if is_long_run() { 8 } else { 3 };
    moves(HeapFlaw::None, seeds).unwrap_or_else(|bad| panic!("{bad}"));
    assert!(moves(HeapFlaw::ReleasesReached, 8).is_err(), "not found");
}

#[test]
fn that_hardware_moved_an_object_does_not_say_that_its_copy_is_durable() {
    let outcome = alone(Protocol::Ffccd, HeapFlaw::BelievesMoved);
    assert!(outcome.is_err(), "not found");
}

#[test]
fn a_line_that_has_not_persisted_is_copied_under_what_the_logs_hold() {
    let outcome = between_steps(Protocol::Ffccd, HeapFlaw::ReplaysOnce, 1);
    assert!(outcome.is_err(), "not found between {outcome:?} steps");
}

#[test]
fn a_line_of_a_copy_that_has_persisted_may_be_newer_than_the_copy() {
    let outcome = between_steps(Protocol::Ffccd, HeapFlaw::CopiesMoved, 1);
    assert!(outcome.is_err(), "not found between {outcome:?} steps");
}

/// What thread 1 does beside a cycle: a transaction each, and what the list is behind it.
fn change<'p, M: Memory>(
    session: &mut Session<'p, '_, M>,
    root: Root<'p>,
    number: u64,
) -> Result<(), TxError> {
    let first = root.at(List::FIRST);
    session.transaction(|tx| match number {
        1 => {
            let second = tx.get(first)?.expect("a node").at(Node::NEXT);
            let second = tx.get(second)?.expect("another");
            let next = tx.get(second)?.next;
            tx.set(second, node(7, next))
        }
        2 => {
            let gone = tx.get(first)?.expect("a node");
            let next = tx.get(gone)?.next;
            tx.set(first, next)?;
            tx.free(gone)
        }
        _ => {
            let next = tx.get(first)?;
            let new = tx.alloc(node(9, next))?;
            tx.set(first, Some(new))
        }
    })
}

const CHANGES: u64 = 3;
const STATES: [&[u64]; 4] = [&[49, 48, 16, 0], &[49, 7, 16, 0], &[7, 16, 0], &[9, 7, 16, 0]];

/// Runs in a random order, but in the long run; twice as many are interrupted once.
const RUNS: u64 = 3;

fn runs() -> u64 {
    let usual = if is_long_run() { 2 * RUNS } else { RUNS };
    std::env::var("SEAWALL_DEFRAG_RUNS").map_or(usual, |runs| runs.parse().expect("a number"))
}

/// What is left is what the changes that were done left, or one more.
fn explained(found: &(u64, Vec<u64>), done: u64) -> Result<(), String> {
    let may_be = &STATES[done as usize..(done as usize + 2).min(STATES.len())];
    match may_be.contains(&&found.1[..]) {
        true => Ok(()),
        false => Err(format!("{found:?} after {done} changes")),
    }
}

/// The same between the steps of a cycle that the program takes itself: so many in front of each
/// change. Gives false once that is the whole cycle.
fn between(
    how: DefragOptions,
    flaw: HeapFlaw,
    steps: u64,
    schedule: &Schedule,
) -> Result<bool, String> {
    let ended = Rc::new(Cell::new(false));
    let is_over = ended.clone();
    let trace = record(sparse(), schedule, move |memory| {
        let bytes = options(CHUNKS).pm_bytes();
        let opened =
            typed::open_flawed::<List<'_>, _, HeapError>(memory, NAME, bytes, flaw, |pool| {
                Ok(pool.heap())
            });
        let mut thread = Thread::join(opened.expect("a sound pool"), memory).expect("the root");
        let mut defragmenter = defragmenter(how);
        for number in 1..=CHANGES {
            for _ in 0..steps {
                let step = thread.defragment(&mut defragmenter).expect("room");
                ended.set(ended.get() || number == 1 && step == Step::Done);
            }
            let changed = thread.enter(|session, root| change(session, root, number));
            changed.expect("there is room");
            memory.output(number);
        }
        defragmenter.finish(thread.untyped()).expect("room");
    });
    let trace = trace.map_err(|error| error.to_string())?;
    let judge = |found: &(u64, Vec<u64>), point: &CrashPoint| explained(found, point.outputs[0]);
    let how = Search { depth: 0, budget: 20_000, ..Search::new(Model::Px86) };
    let recover = move |image: &CrashImage| recovered_and_ended(image, flaw);
    match search(&trace, &how, &check(recover, judge)).finding {
        None => Ok(!is_over.get()),
        Some(finding) => Err(finding.to_string()),
    }
}

/// Between one in `one_of` of the steps of a cycle, or all; gives how many there are.
fn between_steps(
    how: impl Into<DefragOptions>,
    flaw: HeapFlaw,
    one_of: u64,
) -> Result<u64, String> {
    let (mut steps, how) = (0, how.into());
    for schedule in schedules(how.protocol) {
        steps = 1;
        while between(how, flaw, steps, &schedule)? {
            steps += one_of;
        }
    }
    Ok(steps)
}

#[test]
fn no_crash_between_steps_of_a_cycle_loses_what_was_done_there() {
    // Between all of them in the long run.
    let one_of = if runs() > RUNS { 1 } else { 16 };
    for how in ways() {
        let steps = between_steps(how, HeapFlaw::None, one_of);
        let steps = steps.unwrap_or_else(|bad| panic!("{how}: {bad}"));
        assert!(steps > 20, "{steps}");
    }
}

/// Beside a cycle; with `retires` no log holds a change for longer than it takes.
fn beside(protocol: Protocol, flaw: HeapFlaw, runs: u64, retires: bool) -> Result<usize, String> {
    let (image, heap, _) = restarted(sparse(), &options(CHUNKS));
    let heap = heap.with_flaw(flaw);
    let run = |schedule: &Schedule| {
        record(image.clone(), schedule, move |memory| {
            if memory.thread() == 0 {
                let mut session = heap.join(memory);
                return defragmenter(protocol).run(&mut session).expect("there is room");
            }
            let mut thread = Thread::join(heap, memory).expect("the root");
            for number in 1..=CHANGES {
                let changed = thread.enter(|session, root| change(session, root, number));
                changed.expect("there is room");
                if retires {
                    thread.untyped().retire();
                }
                memory.output(number);
            }
        })
    };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let interrupted =
        Schedules { interruptions: 1, limit: 2 * runs as usize, ..Schedules::new(Model::Px86) };
    let found = interrupted.all(&base, run).map_err(|error| error.to_string())?;
    let mut traces: Vec<Trace> = found.runs.into_iter().map(|(_, trace)| trace).collect();
    for seed in 0..runs {
        let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(4) };
        let schedule = Schedule { turns, seed, ..base.clone() };
        traces.push(run(&schedule).map_err(|error| error.to_string())?);
    }
    let judge = |found: &(u64, Vec<u64>), point: &CrashPoint| explained(found, point.outputs[1]);
    let how = Search { depth: 0, budget: 5_000, ..Search::new(Model::Px86) };
    let recover = move |image: &CrashImage| recovered(image, flaw);
    let finding = |trace: &Trace| search(trace, &how, &check(recover, judge)).finding;
    match traces.iter().find_map(finding) {
        None => Ok(traces.len()),
        Some(finding) => Err(finding.to_string()),
    }
}

#[test]
fn no_crash_beside_a_cycle_loses_what_a_thread_did() {
    for (protocol, retires) in Protocol::ALL.into_iter().flat_map(|one| [(one, false), (one, true)])
    {
        let tried = beside(protocol, HeapFlaw::None, runs(), retires);
        let tried = tried.unwrap_or_else(|bad| panic!("{protocol}: {bad}")) as u64;
        assert!(tried > 2 * runs(), "{tried}");
    }
}

/// Thread 1 moves two nodes as it reads them, in a scope that stays open and has no fence behind
/// the second; thread 0 changes that, and retires its log.
fn met(how: DefragOptions, flaw: HeapFlaw) -> Result<(), String> {
    let dram = options(CHUNKS).dram_bytes();
    let image = Image::from_pm(sparse().into_pm(), dram + 8);
    let bytes = options(CHUNKS).pm_bytes();
    let opened = typed::open_flawed::<List<'_>, _, HeapError>(&image, NAME, bytes, flaw, |pool| {
        Ok(pool.heap())
    });
    let heap = opened.map_err(|error| error.to_string())?;
    let turn = Addr::dram(dram);
    let wait = move |memory: &Traced<'_>, now: u64| {
        let mut seen = memory.load(turn);
        while seen < now {
            seen = memory.spin_while(turn, seen);
        }
    };
    let trace = record(image, &Schedule { threads: 2, ..Schedule::default() }, move |memory| {
        let mut thread = Thread::join(heap, memory).expect("the root");
        if memory.thread() == 1 {
            wait(memory, 1);
            let read = thread.enter(|session, root| {
                memory.store(turn, 2u64);
                wait(memory, 3);
                let first = session.get(root)?.first.expect("a node");
                let second = session.get(first)?.next.expect("another");
                session.get(second)?;
                memory.store(turn, 4u64);
                wait(memory, 5);
                Ok::<_, HeapError>(())
            });
            return read.expect("sound nodes");
        }
        let mut defragmenter = defragmenter(how);
        while !defragmenter.is_in_cycle() {
            thread.defragment(&mut defragmenter).expect("room");
        }
        // The table is placed and the pages are watched, all of them at once.
        for _ in 0..2 {
            assert_eq!(thread.defragment(&mut defragmenter), Ok(Step::Worked));
        }
        memory.store(turn, 1u64);
        wait(memory, 2);
        while thread.defragment(&mut defragmenter).expect("room") != Step::Waits {}
        memory.store(turn, 3u64);
        wait(memory, 4);
        thread.enter(|session, root| change(session, root, 1)).expect("room");
        thread.untyped().retire();
        memory.output(1);
        memory.store(turn, 5u64);
    });
    let trace = trace.map_err(|error| error.to_string())?;
    let judge = |found: &(u64, Vec<u64>), point: &CrashPoint| explained(found, point.outputs[0]);
    let how = Search { depth: 0, ..Search::new(Model::Px86) };
    let recover = |image: &CrashImage| recovered(image, HeapFlaw::None);
    match search(&trace, &how, &check(recover, judge)).finding {
        None => Ok(()),
        Some(finding) => Err(finding.to_string()),
    }
}

#[test]
fn who_meets_a_copy_makes_it_durable_that_it_is_one() {
    for how in ["sfccd", "sfccd-published"].map(|name| name.parse().expect("a way")) {
        met(how, HeapFlaw::None).unwrap_or_else(|bad| panic!("{how}: {bad}"));
        assert!(met(how, HeapFlaw::TrustsCopied).is_err(), "{how}: not found");
    }
}

#[test]
fn the_papers_rule_for_one_fence_copies_over_what_the_program_stored() {
    let outcome = between_steps(Protocol::Sfccd, HeapFlaw::CopiesMoved, 1);
    assert!(outcome.is_err(), "not found between {outcome:?} steps");
}
