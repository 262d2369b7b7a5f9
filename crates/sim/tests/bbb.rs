//! The promises of BBB, one mechanism at a time: entries that a battery saves, that are written
//! only when a buffer fills up, and that follow their line from core to core ("BBB: Simplifying
//! Persistent Programming using Battery-Backed Buffers", HPCA'21).

use crate::watched::{Watched, asap22, clock, watch};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Machine, Program, Reason, SimError, SimMemory};
use std::cell::RefCell;
use std::rc::Rc;

const L: Addr = Addr::pm(64);
const M: Addr = Addr::pm(128);
const FLAG: Addr = Addr::dram(0);
const LATCH: Addr = Addr::dram(64);
/// Cycles of a write that stays on its way for long.
const LONG: u64 = 5000;

/// A machine on which only the cells are durable, and slow.
fn slow() -> Machine {
    asap22(&[("memory.nvm.write", LONG as i64)])
}

fn run(
    machine: &Machine,
    design: &str,
    programs: Vec<Program>,
    crashes: usize,
) -> Result<Watched, SimError> {
    let mut all = programs;
    all.push(clock(crashes));
    watch(machine, design, all)
}

fn alone(design: &str, program: impl FnOnce(&SimMemory) + 'static) -> Watched {
    run(&asap22(&[]), design, vec![Box::new(program)], 400).unwrap()
}

fn store_lines(memory: &SimMemory, lines: u64) {
    for line in 0..lines {
        memory.store(L.plus(64 * line), 1 + line);
    }
}

/// Core 1 stores L, M and L again, and waits for core 0, which stores L when it has seen that. With
/// three entries of which the second starts a write, the first entry of L is on its way by then and
/// the second one stays.
fn meets_a_write(flaw: &str) -> Result<Watched, SimError> {
    let other: Program = Box::new(|memory| {
        memory.spin_while(FLAG, 0);
        memory.store(L, 3u64);
        memory.output(2);
        memory.drain();
        memory.store(LATCH, 1u64);
    });
    let owner: Program = Box::new(|memory| {
        memory.store(L, 1u64);
        memory.store(M, 1u64);
        memory.store(L, 2u64);
        memory.output(1);
        memory.store(FLAG, 1u64);
        memory.spin_while(LATCH, 0);
    });
    let design = format!("bbb:entries=3:drain_from=66:adr=false:flaw='{flaw}'");
    run(&slow(), &design, vec![other, owner], 3000)
}

#[test]
fn another_core_s_store_waits_for_the_write_that_is_on_its_way_and_for_no_entry_behind_it() {
    let watched = meets_a_write("none").unwrap();
    let counters = &watched.outcome.counters;
    assert_eq!((counters.buffered_stores, counters.merged_stores), (4, 0));
    assert_eq!(counters.line_writes, 2, "the second entry of L moved, unwritten");
    let waited = watched.outcome.stalls[0].get(Reason::InterConflict);
    assert!((LONG - 500..LONG + 500).contains(&waited), "{waited} cycles");
    assert_eq!(watched.left_at(2, L), 3);

    let passes = meets_a_write("passes-writes").unwrap();
    assert!(passes.outcome.stalls[0].get(Reason::InterConflict) < LONG / 2);
    assert_eq!(passes.left_at(2, L), 2, "two buffers have the line");
}

#[test]
fn a_store_to_an_entry_that_is_on_its_way_gets_an_entry_of_its_own() {
    let left = |flaw: &str| {
        let design = format!("bbb:entries=3:drain_from=66:adr=false:flaw='{flaw}'");
        let program: Program = Box::new(|memory| {
            memory.store(L, 1u64);
            memory.store(M, 1u64);
            memory.store(L, 2u64);
            memory.output(1);
            memory.work(4 * LONG as u32);
            memory.output(2);
        });
        let watched = run(&slow(), &design, vec![program], 3000).unwrap();
        let counters = &watched.outcome.counters;
        let at_once = watched.left_at(1, L);
        let later = watched.left_at(2, L);
        (counters.buffered_stores, counters.merged_stores, at_once, later)
    };
    assert_eq!(left("none"), (3, 0, 2, 2));
    assert_eq!(left("joins-sent"), (2, 1, 2, 1), "memory got the older value");
}

#[test]
fn a_store_is_durable_when_it_is_visible_without_a_flush_a_fence_or_a_write() {
    let store = |design: &str| {
        alone(design, |memory| {
            for line in 0..20 {
                memory.store(L.plus(64 * line), 1u64);
                memory.output(1 + line);
            }
        })
    };
    let is_there = |watched: &Watched, line: u64| watched.left_at(1 + line, L.plus(64 * line)) == 1;
    let watched = store("bbb");
    assert!((0..20).all(|line| is_there(&watched, line)));
    assert_eq!(watched.outcome.counters.line_writes, 0);
    let late = store("bbb:flaw='allocates-late'");
    assert!((0..20).all(|line| !is_there(&late, line)));
}

#[test]
fn a_fence_waits_for_no_write() {
    let watched = alone("bbb", |memory| {
        store_lines(memory, 20);
        memory.drain();
        memory.output(1);
    });
    assert_eq!(watched.outcome.stalls[0].get(Reason::Fence), 0);
    assert_eq!(watched.left_at(1, L.plus(64 * 19)), 20);
    assert_eq!(watched.outcome.counters.line_writes, 0);
}

#[test]
fn a_crash_saves_the_entries_of_all_cores_those_on_their_way_too() {
    let all = |flaw: &str| {
        let program = |core: u64| -> Program {
            Box::new(move |memory| {
                for line in (0..24).filter(|line| line % 3 == core) {
                    memory.store(L.plus(64 * line), 1 + line);
                }
                memory.output(1 + core);
            })
        };
        let design = format!("bbb:entries=8:drain_from=25:adr=false:flaw='{flaw}'");
        let programs = (0..3).map(program).collect();
        let watched = run(&slow(), &design, programs, 100).unwrap();
        let last = (1..=3).max_by_key(|output| watched.time(*output)).unwrap();
        assert!(watched.outcome.counters.line_writes > 0);
        (0..24).filter(|line| watched.left_at(last, L.plus(64 * line)) == 1 + line).count()
    };
    assert_eq!(all("none"), 24);
    assert!(all("drops-at-send") < 24);
}

#[test]
fn from_three_quarters_of_its_entries_on_a_buffer_is_written_the_oldest_first() {
    let counters = |entries: usize, program: fn(&SimMemory)| {
        alone(&format!("bbb:entries={entries}"), program).outcome.counters
    };
    assert_eq!(counters(8, |memory| store_lines(memory, 5)).line_writes, 0);
    assert_eq!(counters(8, |memory| store_lines(memory, 6)).line_writes, 1);
    assert_eq!(counters(8, |memory| store_lines(memory, 20)).line_writes, 15);
    assert_eq!(counters(16, |memory| store_lines(memory, 20)).line_writes, 9);
    let again = |line: u64| {
        alone("bbb:entries=8", move |memory| {
            store_lines(memory, 6);
            memory.work(8000);
            memory.store(L.plus(64 * line), 9u64);
        })
        .outcome
        .counters
        .merged_stores
    };
    assert_eq!([0, 1, 5].map(again), [0, 1, 1], "the first line has left");
}

#[test]
fn a_full_buffer_holds_up_stores_until_a_write_is_accepted() {
    let store = |flaw: &str| {
        let design = format!("bbb:entries=2:adr=false:flaw='{flaw}'");
        let program: Program = Box::new(|memory| {
            store_lines(memory, 6);
            memory.output(1);
            memory.drain();
        });
        let watched = run(&slow(), &design, vec![program], 100).unwrap();
        let lines = (0..6).filter(|line| watched.left_at(1, L.plus(64 * line)) == 1 + line);
        (watched.outcome.stalls[0].get(Reason::BufferFull), lines.count())
    };
    let (waited, lines) = store("none");
    assert!(waited >= 2 * LONG, "{waited} cycles");
    assert_eq!(lines, 6);
    let (waited, lines) = store("ignores-room");
    assert_eq!(waited, 0);
    assert!(lines < 6, "who found no room has no entry");
}

/// Cores 0 and 1 store L in turn, each value one more than the last.
fn takes_turns(flaw: &str) -> Watched {
    let program = |core: u64| -> Program {
        Box::new(move |memory| {
            for turn in (0..20).filter(|turn| turn % 2 == core) {
                while memory.load::<u64>(LATCH) != turn {
                    memory.work(100);
                }
                memory.store(L, 1 + turn);
                memory.output(1 + turn);
                memory.store(LATCH, 1 + turn);
            }
        })
    };
    let design = format!("bbb:flaw='{flaw}'");
    run(&asap22(&[]), &design, vec![program(0), program(1)], 100).unwrap()
}

#[test]
fn an_entry_follows_its_line_to_the_core_that_writes_it_and_is_in_one_buffer_at_most() {
    let watched = takes_turns("none");
    let counters = &watched.outcome.counters;
    assert_eq!((counters.buffered_stores, counters.merged_stores), (20, 0));
    assert_eq!((counters.conflicts_inter, counters.line_writes), (19, 0));
    assert!((1..=20).all(|value| watched.left_at(value, L) == value));
    let stays = takes_turns("forgets-moves");
    assert!((1..=20).any(|value| stays.left_at(value, L) != value), "the other core's is older");
}

#[test]
fn an_entry_that_has_moved_leaves_room() {
    let writes = |flaw: &str| {
        let wait = |memory: &SimMemory, turn: u64| {
            while memory.load::<u64>(LATCH) != turn {
                memory.work(100);
            }
        };
        let first: Program = Box::new(move |memory| {
            store_lines(memory, 3);
            memory.store(LATCH, 1u64);
            wait(memory, 2);
            for line in 8..11 {
                memory.store(L.plus(64 * line), 1u64);
            }
        });
        let second: Program = Box::new(move |memory| {
            wait(memory, 1);
            store_lines(memory, 3);
            memory.store(LATCH, 2u64);
        });
        let design = format!("bbb:entries=4:drain_from=100:flaw='{flaw}'");
        let watched = run(&asap22(&[]), &design, vec![first, second], 1).unwrap();
        watched.outcome.counters.line_writes
    };
    assert_eq!(writes("none"), 0, "nobody ever has more than three");
    assert!(writes("forgets-moves") > 0);
}

#[test]
fn a_dirty_line_that_leaves_the_caches_is_not_written_but_its_entry_is_and_fetches_wait_for_that() {
    let tiny = ["llc.kib_per_bank", "l1.kib", "llc.ways", "l1.ways"].map(|key| (key, 1));
    let reads = |flaw: &str| {
        let read = Rc::new(RefCell::new(Vec::new()));
        let told = read.clone();
        let program: Program = Box::new(move |memory| {
            memory.store(L, 7u64);
            for line in 2..256 {
                let _: u64 = memory.load(Addr::pm(64 * line));
                told.borrow_mut().push(memory.load::<u64>(L));
            }
        });
        let watched = run(&asap22(&tiny), &format!("bbb:flaw='{flaw}'"), vec![program], 1);
        (read.take(), watched.unwrap().outcome.counters)
    };
    let (read, counters) = reads("none");
    assert!(read.iter().all(|value| *value == 7));
    assert_eq!(counters.line_writes, 1);
    assert!(counters.buffered_misses > 0, "{counters:?}");
    let (read, counters) = reads("forgets-evictions");
    assert_eq!(read.last(), Some(&0));
    assert_eq!((counters.dropped_lines, counters.line_writes), (1, 0));
}
