//! Structures of typed objects that grow and shrink: their phases on several threads, crashes,
//! their planted bugs, and pools with some random words.

use crate::applications::Wild;
use crate::crash::Crash;
use crate::machines::Shared;
use crate::media::Model;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::Image;
use seawall_runtime::defrag::{DefragCounts, DefragOptions, Protocol};
use seawall_workloads::{
    Collect, Cost, Flaw, History, Setup, Visitor, WORKLOADS, Worker, Workload, WorkloadEntry,
    with_workload,
};
use std::sync::Arc;

fn each() -> impl Iterator<Item = WorkloadEntry> {
    WORKLOADS.iter().copied().filter(|entry| entry.name.starts_with("c-"))
}

/// Threads go through their phases in random turns; after each phase all invariants are checked,
/// and so are lost objects and dangling pointers.
struct InTurn {
    threads: usize,
    entries: u64,
    search_percent: u32,
    collect: Collect,
}

impl Visitor for InTurn {
    type Output = DefragCounts;

    fn visit<W: Workload>(self) -> DefragCounts {
        let InTurn { threads, entries, search_percent, collect } = self;
        let setup = Setup { entries, search_percent, collect, ..Setup::of::<W>(threads) };
        let layout = W::layout(&setup);
        let memory = Shared::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&memory, &setup);
        let before = workload.contents(&memory).expect("just made");
        let history = Arc::new(History::new());
        let memories: Vec<Shared> = (0..threads).map(|thread| memory.of(thread)).collect();
        let mut locals: Vec<_> = memories.iter().map(|memory| workload.join(memory)).collect();
        let worker = |thread| Worker::new(&setup, thread, history.clone());
        let mut workers: Vec<Worker> = (0..threads).map(worker).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for phase in 1..=5 {
            let steps = |thread| W::steps(&setup, thread, phase).expect("it has phases");
            let mut left: Vec<usize> = (0..threads).collect();
            while !left.is_empty() {
                let place = (rng.next_u64() % left.len() as u64) as usize;
                let thread = left[place];
                let worker = &mut workers[thread];
                if worker.number == steps(thread) {
                    left.swap_remove(place);
                    continue;
                }
                workload.step(&memories[thread], &mut locals[thread], worker);
                worker.number += 1;
            }
            let after = workload.contents(&memory);
            let after = after.unwrap_or_else(|damage| panic!("{}, {phase}: {damage}", W::NAME));
            let done: Vec<u64> = workers.iter().map(|worker| worker.number).collect();
            assert_eq!(history.explain(&before, &after, &done), Ok(done), "{}", W::NAME);
            if search_percent == 0 {
                let gone = (0..threads as u64).map(|thread| {
                    let keys = (entries + threads as u64 - 1 - thread) / threads as u64;
                    4 * keys / 5
                });
                let left = entries - if phase % 2 == 1 { gone.sum() } else { 0 };
                let is_cache = W::NAME == "c-redis";
                // Strings may have been exchanged with empty slots, and removed with these.
                let may_be_fewer = is_cache || W::NAME == "c-ss";
                let there = after.len() as u64;
                assert!(there == left || may_be_fewer, "{}: {there}, not {left}", W::NAME);
                assert!(!is_cache || there < entries, "nothing was evicted");
            }
        }
        W::moved(&locals[0])
    }
}

#[test]
fn all_goes_through_its_phases_on_several_threads_in_turn() {
    for entry in each() {
        for (threads, entries) in [(1, 2000), (3, 500), (16, 400)] {
            for search_percent in [0, 30] {
                let collect = Collect::Nobody;
                let run = InTurn { threads, entries, search_percent, collect };
                with_workload(entry.name, run).expect("a workload of the table");
            }
        }
    }
}

#[test]
fn threads_run_over_their_own_parts_and_leave_nothing_for_steps_under_all_locks() {
    for entry in each() {
        let collect = Collect::Steps("sfccd-published:1.5:1.25:40".parse().expect("a way"));
        let moved = |threads| {
            let run = InTurn { threads, entries: 3000, search_percent: 0, collect };
            with_workload(entry.name, run).expect("a workload of the table")
        };
        let (one, four) = (moved(1), moved(4));
        assert!(one.cycles > 0 && one.moved > 0, "{}: {one:?}", entry.name);
        assert!(four.cycles > 0 && four.moved == 0, "{}: {four:?}", entry.name);
    }
}

#[test]
fn all_goes_through_its_phases_while_objects_move() {
    for entry in each() {
        let published = "sfccd-published:1.5:1.25:40".parse().expect("a way");
        for way in [Protocol::Espresso.into(), Protocol::Sfccd.into(), published] {
            for (threads, entries) in [(1, 3000), (4, 3000)] {
                let collect = Collect::Steps(way);
                let run = InTurn { threads, entries, search_percent: 0, collect };
                with_workload(entry.name, run).expect("a workload of the table");
            }
        }
    }
}

fn crash(name: &str, run: Crash) -> Result<(), String> {
    with_workload(name, run).expect("a workload of the table")
}

#[test]
fn every_crash_leaves_a_prefix_of_the_run() {
    for entry in each() {
        for (model, threads) in [(Model::Px86, 1), (Model::Bep, 1), (Model::Px86, 3)] {
            for (entries, operations, one_of) in [(6, 14, 40), (45, 80, 400)] {
                let operations = Some(operations);
                let run = Crash { model, threads, one_of, entries, operations, ..Crash::default() };
                let found = crash(entry.name, run);
                assert_eq!(found, Ok(()), "{} under {model:?}, {threads} threads", entry.name);
            }
        }
    }
}

/// The approximate number of crashes for each workload and number of threads; the paper has 1000,
/// and `SEAWALL_DEFRAG_CRASHES=1000` takes an hour.
fn crashes() -> u64 {
    std::env::var("SEAWALL_DEFRAG_CRASHES").map_or(6, |crashes| crashes.parse().expect("a number"))
}

#[test]
fn every_crash_while_objects_move_leaves_a_prefix_of_the_run() {
    let run = |threads, way: &str| {
        let collect = Collect::Steps(way.parse::<DefragOptions>().expect("a way"));
        let (entries, operations) = (250, Some(300));
        let one_of = 60_000 / crashes();
        Crash { threads, one_of, entries, operations, collect, ..Crash::default() }
    };
    for (place, entry) in each().enumerate() {
        for threads in [1, 2, 4, 8] {
            let ours = ["espresso", "sfccd"][(place + threads) % 2];
            let published = ["sfccd-published:1.5:1.25:9", "espresso-published"];
            for way in [ours, published[(place + threads) % 2]] {
                let found = crash(entry.name, run(threads, way));
                assert_eq!(found, Ok(()), "{}, {way}, {threads} threads", entry.name);
            }
        }
    }
}

#[test]
fn every_crash_of_transactions_that_cost_as_much_as_libpmemobjs_leaves_a_prefix_of_the_run() {
    for entry in each() {
        let (operations, cost) = (Some(30), Cost::Libpmemobj);
        let run =
            Crash { threads: 2, one_of: 200, entries: 20, operations, cost, ..Crash::default() };
        assert_eq!(crash(entry.name, run), Ok(()), "{}", entry.name);
    }
}

#[test]
fn a_change_that_its_log_does_not_precede_is_caught() {
    for entry in each() {
        let (flaw, operations) = (Flaw::NoOrder, Some(8));
        let run = Crash { flaw, operations, one_of: 2, ..Crash::default() };
        assert!(crash(entry.name, run).is_err(), "{} without the fence passes", entry.name);
    }
}

/// Runs with the structure's planted bug until a check finds it; returns the message.
struct Slips;

impl Visitor for Slips {
    type Output = Option<String>;

    fn visit<W: Workload>(self) -> Option<String> {
        let setup = Setup { entries: 70, flaw: Flaw::Slip, ..Setup::of::<W>(1) };
        let layout = W::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&image, &setup);
        let mut worker = Worker::new(&setup, 0, Arc::new(History::off()));
        let mut local = workload.join(&image);
        let found = (0..300).find_map(|number| {
            worker.number = number;
            workload.step(&image, &mut local, &mut worker);
            // On a copy: the check joins with the thread's number.
            workload.contents(&image.clone()).err()
        });
        found.map(|damage| damage.to_string())
    }
}

#[test]
fn the_planted_bug_of_each_structure_is_caught_by_its_check_or_by_a_crash() {
    let expected = [
        ("c-ll", "does not lead back to the one before it"),
        ("c-avl", "the height at key"),
        ("c-ss", ""),
        ("c-bt", ""),
        ("c-rb", "is red, and so is its parent"),
        ("c-bztree", "no pointer leads to the object"),
        ("c-fptree", "has the fingerprint of another"),
        ("c-echo", "leads to no object"),
        ("c-pmemkv", "is in bucket"),
        ("c-redis", "no pointer leads to the object"),
    ];
    for (name, part) in expected {
        let found = with_workload(name, Slips).expect("a workload of the table");
        let (flaw, operations) = (Flaw::Slip, Some(24));
        let run = Crash { flaw, operations, one_of: 2, ..Crash::default() };
        match found {
            Some(message) => assert!(message.contains(part) && !part.is_empty(), "{message}"),
            None => assert!(part.is_empty() && crash(name, run).is_err(), "{name}"),
        }
    }
    assert_eq!(expected.len(), each().count());
}

#[test]
fn wild_bytes_are_refused_and_never_a_panic_or_a_loop() {
    for entry in each() {
        let refused = with_workload(entry.name, Wild).expect("a workload of the table");
        assert!(refused > 80, "{}: {refused}", entry.name);
    }
}

/// Steps in a pool that another user has filled; returns whether one failed.
struct Cramped {
    may_fail: bool,
}

impl Visitor for Cramped {
    type Output = bool;

    fn visit<W: Workload>(self) -> bool {
        let setup = Setup { entries: 200, search_percent: 0, ..Setup::of::<W>(1) };
        let layout = W::layout(&setup);
        let memory = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&memory, &setup);
        let heap = workload.heap().expect("it lives in one");
        let mut filler = heap.join(&memory);
        let mut filled = Vec::new();
        for bytes in (4..=12).rev().map(|power| 1 << power) {
            while let Ok(block) = filler.transaction(|tx| tx.alloc(bytes)) {
                filled.push(block);
            }
        }
        filler.leave();
        let mut local = workload.join(&memory);
        let worker = Worker::new(&setup, 0, Arc::new(History::off()));
        let mut worker = if self.may_fail { worker.that_may_fail() } else { worker };
        while worker.number < 2000 && worker.failure.is_none() {
            workload.step(&memory, &mut local, &mut worker);
            worker.number += 1;
        }
        drop(local);
        let mut filler = heap.join(&memory);
        for block in filled {
            filler.transaction(|tx| tx.free(block)).expect("a live block");
        }
        filler.leave();
        workload.contents(&memory).expect("what failed has changed nothing");
        let is_full = |why: &String| why.contains("no room for") && why.contains("free something");
        worker.failure.as_ref().is_some_and(is_full)
    }
}

#[test]
fn a_thread_that_finds_no_room_says_so_and_leaves_a_sound_structure() {
    let fails =
        |entry: &WorkloadEntry| with_workload(entry.name, Cramped { may_fail: true }).unwrap();
    assert!(each().filter(fails).count() > 0, "none of them wanted room");
}

#[test]
#[should_panic(expected = "with room for its entries: no room")]
fn where_room_cannot_run_out_that_is_an_error_of_the_program() {
    each().for_each(|entry| drop(with_workload(entry.name, Cramped { may_fail: false })));
}
