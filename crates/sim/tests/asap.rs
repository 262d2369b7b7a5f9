//! The promises of ASAP, one mechanism at a time: early flushes, undo and delay records, a full
//! table, commits, and the cores that are informed of them ("ASAP: A Speculative Approach to
//! Persistence", HPCA'22).

use crate::watched::{Watched, asap22, clock, watch};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::validation::Paths;
use seawall_sim::{Counters, Machine, Program, Reason, SimError, SimMemory};
use std::cell::RefCell;
use std::rc::Rc;

const A: Addr = Addr::pm(64);
const B: Addr = Addr::pm(128);
const C: Addr = Addr::pm(192);
const D: Addr = Addr::pm(256);
const LATCH: Addr = Addr::dram(0);
/// The value of A after [`slow_epoch`].
const LAST: u64 = 10;
/// A buffer that is flushed from its first entry on, with an entry for each store.
const EAGER: &str = "asap:flush_from=1:merges=false";

/// An epoch of ten versions of A, stored one by one. Each waits for the acknowledgement of the one
/// before it, so the epoch takes ten round trips to the controller: long enough for an early flush
/// with its read.
fn slow_epoch(memory: &SimMemory) {
    for version in 1..=LAST {
        memory.swap(A, version);
    }
    memory.order();
}

/// Waits for `cycles` and returns the counters at that time.
fn counted_after(memory: &SimMemory, cycles: u32) -> Counters {
    memory.work(2 * cycles);
    assert_eq!(memory.load::<u64>(LATCH), 0, "in its turn");
    memory.counters()
}

/// Runs the program on core 1, whose tile has no controller.
fn run_on(machine: &Machine, design: &str, program: impl FnOnce(&SimMemory) + 'static) -> Watched {
    watch(machine, design, vec![clock(800), Box::new(program)]).unwrap()
}

fn run(design: &str, program: impl FnOnce(&SimMemory) + 'static) -> Watched {
    run_on(&asap22(&[]), design, program)
}

/// Runs a program that leaves a value for the test.
fn noted<T: Default + 'static>(
    machine: &Machine,
    design: &str,
    program: impl FnOnce(&SimMemory) -> T + 'static,
) -> (T, Watched) {
    let notes = Rc::new(RefCell::new(T::default()));
    let kept = notes.clone();
    let watched = run_on(machine, design, move |memory| *kept.borrow_mut() = program(memory));
    (notes.take(), watched)
}

fn fence(watched: &Watched) -> u64 {
    watched.outcome.stalls[1].get(Reason::Fence)
}

/// Stores to `lines` lines, each in its own epoch.
fn epochs(memory: &SimMemory, lines: u64) {
    for line in 0..lines {
        memory.store(A.plus(64 * line), 1u64);
        memory.order();
    }
}

#[test]
fn a_flush_goes_out_early_and_a_crash_takes_it_back_until_all_before_it_is_durable() {
    let program = |memory: &SimMemory| {
        slow_epoch(memory);
        memory.store(B, 1u64);
        memory.drain();
    };
    let watched = run(EAGER, program);
    let counters = &watched.outcome.counters;
    assert_eq!((counters.early_flushes, counters.undo_records), (1, 1));
    assert_eq!((counters.delay_records, counters.refused_flushes), (0, 0));
    let versions = watched.versions([A, B]);
    assert_eq!(versions.first(), Some(&[0, 0]));
    assert_eq!(versions.last(), Some(&[LAST, 1]));
    assert!(versions.iter().all(|[a, b]| *b == 0 || *a == LAST), "{versions:?}");

    let forgets = run(&format!("{EAGER}:flaw='forgets-undo'"), program);
    let versions = forgets.versions([A, B]);
    assert!(versions.iter().any(|[a, b]| *b == 1 && *a < LAST), "{versions:?}");
}

#[test]
fn an_early_flush_is_written_while_the_epoch_before_it_is_not_durable() {
    let machine = asap22(&[]);
    let written = |design: &str| {
        let (written, _) = noted(&machine, design, |memory| {
            slow_epoch(memory);
            memory.store(B, 1u64);
            memory.store(C, 1u64);
            memory.order();
            counted_after(memory, 700).line_writes
        });
        written
    };
    let (early, in_order) = (written(EAGER), written(&format!("{EAGER}:records=0")));
    assert!(early >= in_order + 2, "{early} lines against {in_order}");
}

#[test]
fn an_early_flush_reads_the_old_value_from_memory_first_and_a_safe_one_does_not() {
    let took = |read: i64, lines: u64| {
        let machine = asap22(&[("memory.nvm.read", read)]);
        let watched = run_on(&machine, "asap", move |memory| {
            epochs(memory, lines);
            memory.drain();
        });
        assert_eq!(watched.outcome.counters.undo_records, lines - 1);
        fence(&watched)
    };
    assert_eq!(took(1350, 1), took(350, 1), "nothing is before it");
    assert_eq!(took(1350, 2), took(350, 2) + 1000);
    assert_eq!(took(1350, 3), took(350, 3) + 1000, "both at the same time");
}

#[test]
fn the_commit_of_an_epoch_frees_its_records() {
    let machine = asap22(&[("memory.controllers", 1)]);
    let counted = |versions: u64| {
        let watched = run_on(&machine, &format!("asap:records={versions}"), move |memory| {
            for _ in 0..5 {
                epochs(memory, 1);
                for version in 0..versions {
                    memory.store(D, version);
                    memory.order();
                }
                memory.drain();
                // The delayed value is on its way to the queue.
                memory.work(600);
            }
        });
        let counters = watched.outcome.counters;
        [counters.undo_records, counters.delay_records, counters.refused_flushes]
    };
    assert_eq!(counted(1), [5, 0, 0]);
    assert_eq!(counted(3), [5, 10, 0], "what was delayed is in memory");
}

#[test]
fn a_second_early_value_of_a_line_is_delayed_until_its_epoch_commits() {
    let program = |memory: &SimMemory| {
        slow_epoch(memory);
        memory.store(B, 1u64);
        memory.order();
        memory.store(C, 1u64);
        memory.order();
        memory.store(B, 2u64);
        memory.drain();
        memory.output(1);
    };
    let watched = run(EAGER, program);
    let counters = &watched.outcome.counters;
    assert_eq!((counters.undo_records, counters.delay_records), (2, 1));
    assert_eq!(watched.left_at(1, B), 2, "the delayed value came");
    let is_prefix = |left: &[u64; 3]| match left {
        [a, 0, 0] => *a <= LAST,
        [LAST, b, c] => [(1, 0), (1, 1), (2, 1)].contains(&(*b, *c)),
        _ => false,
    };
    let versions = watched.versions([A, B, C]);
    assert!(versions.iter().all(is_prefix), "{versions:?}");

    let lost = run(&format!("{EAGER}:flaw='delays-lost'"), program);
    assert_eq!(lost.left_at(1, B), 1);
    let twice = run(&format!("{EAGER}:flaw='speculates-twice'"), program);
    assert_eq!(twice.outcome.counters.delay_records, 0);
    assert!(!twice.versions([A, B, C]).iter().all(is_prefix));
}

#[test]
fn after_a_refusal_the_core_flushes_in_order_until_the_refused_one_is_sent_again() {
    let machine = asap22(&[("memory.controllers", 1)]);
    let program = |memory: &SimMemory| {
        slow_epoch(memory);
        for line in [B, C] {
            memory.store(line, 1u64);
            memory.order();
        }
        let refused = counted_after(memory, 200);
        memory.store(D, 1u64);
        memory.order();
        let behind = counted_after(memory, 200);
        memory.drain();
        memory.output(1);
        [refused, behind].map(|counters| (counters.early_flushes, counters.refused_flushes))
    };
    let (counted, watched) = noted(&machine, &format!("{EAGER}:records=1"), program);
    assert_eq!(counted, [(2, 1), (2, 1)], "B has the record, C is refused, D waits");
    assert_eq!(watched.outcome.counters.refused_flushes, 1, "C came again when it was safe");
    let order = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]];
    assert_eq!(watched.versions([B, C, D]), order);
    let (counted, _) = noted(&machine, &format!("{EAGER}:records=3"), program);
    assert_eq!(counted, [(2, 0), (3, 0)], "there is a record for each");

    let ignores = format!("{EAGER}:records=1:flaw='ignores-nack'");
    let (_, watched) = noted(&machine, &ignores, program);
    assert_eq!(watched.left_at(1, C), 0, "it never came");
}

#[test]
fn without_records_nothing_is_written_early_and_a_drain_takes_a_round_trip_for_each_epoch() {
    let program = |memory: &SimMemory| {
        epochs(memory, 24);
        memory.drain();
    };
    // Stores overlap, so that most epochs are still to be written at the drain.
    let machine = asap22(&[("core.stores_in_flight", 32)]);
    let (none, some) =
        (run_on(&machine, "asap:records=0", program), run_on(&machine, "asap", program));
    let counters = &none.outcome.counters;
    assert_eq!((counters.undo_records, counters.delay_records), (0, 0));
    assert_eq!(counters.early_flushes, counters.refused_flushes);
    let post = asap22(&[]).memory.post;
    assert!(fence(&none) > 20 * post, "{} cycles", fence(&none));
    assert_eq!(some.outcome.counters.undo_records, 23);
    assert!(fence(&some) < fence(&none) / 3, "{} of {} cycles", fence(&some), fence(&none));
}

/// Core 0 has stored to A, which takes long; core 1 reads it, stores to B if asked, and drains.
fn depends(design: &str, stores: bool) -> Watched {
    let first: Program = Box::new(|memory| {
        slow_epoch(memory);
        memory.store(LATCH, 1u64);
        memory.drain();
        memory.output(1);
    });
    let second: Program = Box::new(move |memory| {
        memory.spin_while(LATCH, 0);
        assert_eq!(memory.load::<u64>(A), LAST);
        if stores {
            memory.store(B, 1u64);
        }
        memory.drain();
        memory.output(2);
    });
    watch(&asap22(&[]), design, vec![first, second, clock(800)]).unwrap()
}

#[test]
fn a_message_tells_who_depends_on_an_epoch_of_its_commit_at_once() {
    let watched = depends(EAGER, false);
    assert_eq!(watched.outcome.counters.dependences, 1);
    let (first, second) = (watched.time(1), watched.time(2));
    assert!((first..first + 10).contains(&second), "{first}, and then {second}");
    assert!(watched.outcome.stalls[1].get(Reason::Fence) > 1000);
}

#[test]
fn what_depends_on_another_core_s_epoch_goes_out_early_and_is_taken_back_with_it() {
    let watched = depends(EAGER, true);
    assert_eq!(watched.outcome.counters.early_flushes, 1);
    let is_right = |left: &[u64; 2]| left[1] == 0 || left[0] == LAST;
    assert!(watched.versions([A, B]).iter().all(is_right));
    assert_eq!(watched.left_at(2, B), 1);
    for flaw in ["forgets-undo", "drops-dependences"] {
        let broken = depends(&format!("{EAGER}:flaw='{flaw}'"), true);
        assert!(!broken.versions([A, B]).iter().all(is_right), "{flaw}");
    }
}

/// Two threads: the first stores A and waits for the other, which reads A and drains.
fn hands_over(design: &str) -> Result<Watched, SimError> {
    let first: Program = Box::new(|memory| {
        memory.store(A, 1u64);
        memory.spin_while(LATCH, 0);
        memory.order();
    });
    let second: Program = Box::new(|memory| {
        memory.spin_while(A, 0);
        memory.store(B, 1u64);
        memory.drain();
        memory.store(LATCH, 1u64);
    });
    watch(&asap22(&[]), design, vec![first, second])
}

#[test]
fn an_open_epoch_is_split_so_that_who_depends_on_it_can_drain() {
    let outcome = hands_over("asap").unwrap().outcome;
    assert_eq!((outcome.counters.epoch_splits, outcome.counters.dependences), (1, 1));
    assert!(outcome.cycles < 1000, "it is flushed at once, not after an interval");
    let stuck = hands_over("asap:flaw='keeps-epochs-whole'").map(|_| ()).unwrap_err();
    assert!(matches!(stuck, SimError::Deadlock { .. }), "{stuck}: the first epoch never ends");
}

#[test]
fn a_fence_waits_when_the_epoch_table_is_full() {
    let waits = |epochs: usize, fences: u64| {
        let watched = run(&format!("asap:epochs={epochs}"), move |memory| {
            self::epochs(memory, fences);
            memory.drain();
        });
        watched.outcome.stalls[1].get(Reason::EpochIds)
    };
    assert_eq!(waits(32, 8), 0);
    assert_eq!(waits(2, 1), 0, "one is closed, one is open");
    let one = waits(2, 2);
    assert!(one > asap22(&[]).memory.post / 2, "{one} cycles: the oldest has to commit");
    assert!(waits(2, 8) > 4 * one);
}

#[test]
fn a_drain_is_over_when_all_controllers_know_of_the_last_commit() {
    let machine = asap22(&[]);
    // Controller 0 is core 0's neighbour, controller 1 is in the opposite corner.
    let of = |controller| (2..64).find(|line| Paths::new(&machine).controller(*line) == controller);
    let [near, far] = [0, 1].map(|controller| Addr::pm(64 * of(controller).unwrap()));
    let drains = |design: &str| {
        let program: Program = Box::new(move |memory| {
            slow_epoch(memory);
            memory.store(near, 1u64);
            memory.store(far, 1u64);
            memory.drain();
            memory.output(1);
        });
        let watched = watch(&machine, design, vec![program]).unwrap();
        [A, near, far].map(|line| watched.left_at(1, line))
    };
    assert_eq!(drains(EAGER), [LAST, 1, 1]);
    assert_eq!(drains(&format!("{EAGER}:flaw='commits-early'")), [LAST, 1, 0]);
    assert_eq!(drains(&format!("{EAGER}:flaw='drains-early'"))[2], 0);
}

#[test]
fn a_buffer_is_flushed_from_two_entries_on_or_after_an_interval() {
    let written = |lines: u64, cycles: u32| {
        let (written, watched) = noted(&asap22(&[]), "asap", move |memory| {
            epochs(memory, lines);
            counted_after(memory, cycles).line_writes
        });
        assert_eq!(watched.outcome.counters.line_writes, lines, "at the end");
        written
    };
    assert_eq!(written(1, 1000), 0, "one entry, and no time has passed");
    assert_eq!(written(2, 1000), 2);
    assert_eq!(written(1, 5000), 1, "an interval has passed");
}

#[test]
fn an_epoch_that_a_thread_leaves_open_commits_when_it_ends() {
    let outcome = run("asap:interval=1000000", |memory| memory.store(A, 7u64)).outcome;
    assert_eq!((outcome.counters.line_writes, outcome.counters.epochs), (1, 1));
}

#[test]
fn a_version_of_a_line_waits_for_the_one_before_it_and_absorbs_stores_meanwhile() {
    let took = |design: &str| {
        let watched = run(design, |memory| {
            slow_epoch(memory);
            memory.drain();
        });
        (fence(&watched), watched.outcome.counters.line_writes)
    };
    let round_trip = asap22(&[]).memory.post;
    let (apart, lines) = took(EAGER);
    assert!(apart >= (LAST - 1) * round_trip, "{apart} cycles");
    assert_eq!(lines, LAST);
    let (merged, lines) = took("asap:flush_from=1");
    assert!(merged < 3 * round_trip, "{merged} cycles");
    assert_eq!(lines, 2, "the first store, and the others together");
}

#[test]
fn a_full_buffer_holds_up_stores() {
    let outcome = run("asap:entries=4", |memory| epochs(memory, 60)).outcome;
    assert!(outcome.stalls[1].get(Reason::BufferFull) > 10 * asap22(&[]).memory.post);
}

#[test]
fn a_fetch_waits_until_the_epoch_that_wrote_its_line_has_ended_and_committed() {
    let tiny = ["llc.kib_per_bank", "l1.kib", "llc.ways", "l1.ways"].map(|key| (key, 1));
    let reads = |flaw: &str| {
        let design = format!("asap:interval=100000:flush_from=32:flaw='{flaw}'");
        noted(&asap22(&tiny), &design, |memory| {
            memory.store(A, 7u64);
            for line in 2..256 {
                let _: u64 = memory.load(Addr::pm(64 * line));
            }
            memory.load::<u64>(A)
        })
    };
    let (read, watched) = reads("none");
    let counters = &watched.outcome.counters;
    assert_eq!((read, counters.line_writes), (7, 1), "only the buffer writes");
    assert!(counters.dropped_lines > 0 && counters.buffered_misses > 0, "{counters:?}");
    let waited = watched.outcome.stalls[1].get(Reason::BufferedLine);
    assert!(waited < 1000, "{waited} cycles: the fetch asked for the end of that epoch");
    assert_eq!(reads("ignores-filter").0, 0);
}
