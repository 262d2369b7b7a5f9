//! The promises of HOPS, one mechanism at a time: the example of the paper, the wait of a dfence,
//! the time at which a buffer is written, and the cost of a buffered line.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{
    Choice, Crash, Cycle, Machine, Observer, Program, Reason, RunOutcome, SimError, Simulation,
};
use std::cell::RefCell;
use std::rc::Rc;

const A: Addr = Addr::pm(64);
const B: Addr = Addr::pm(128);
const LATCH: Addr = Addr::dram(0);

fn run_on(machine: &Machine, design: &str, programs: Vec<Program>) -> Result<RunOutcome, SimError> {
    let design = Choice::parse(design).unwrap();
    Simulation::new(machine, &design, vec![0; 1 << 16], vec![0; 64]).at_most(1 << 20).run(programs)
}

fn run(design: &str, programs: Vec<Program>) -> RunOutcome {
    run_on(&Machine::load("hops17").unwrap(), design, programs).unwrap()
}

/// The image of the crash at each output 0, and the times of the other outputs.
#[derive(Default)]
struct Crashes {
    images: Vec<(Cycle, Vec<u8>)>,
    outputs: Vec<Cycle>,
}

impl Observer for Crashes {
    fn output(&mut self, _: usize, number: u64, now: Cycle) -> Option<Cycle> {
        if number > 0 {
            self.outputs.push(now);
        }
        (number == 0).then_some(now)
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        self.images.push((now, crash.pm));
    }
}

pub(crate) fn word(pm: &[u8], at: Addr) -> u64 {
    let at = at.offset() as usize;
    u64::from_le_bytes(pm[at..at + 8].try_into().unwrap())
}

/// `A = 10; ofence; A = 20; dfence`, with crashes at many cycles: returns the value that each left
/// in A, in time order, and when the dfence completed.
fn example(design: &str) -> (Vec<(Cycle, u64)>, Cycle) {
    let machine = Machine::load("hops17").unwrap();
    let choice = Choice::parse(design).unwrap();
    let all = Rc::new(RefCell::new(Crashes::default()));
    let writer: Program = Box::new(|memory| {
        memory.store(A, 10u64);
        memory.order();
        memory.store(A, 20u64);
        memory.drain();
        memory.output(1);
    });
    let clock: Program = Box::new(|memory| {
        for _ in 0..400 {
            memory.work(32);
            memory.output(0);
        }
    });
    Simulation::new(&machine, &choice, vec![0; 1 << 16], vec![0; 64])
        .watched_by(all.clone())
        .run(vec![writer, clock])
        .unwrap();
    let all = all.borrow();
    let left = all.images.iter().map(|(at, pm)| (*at, word(pm, A)));
    (left.collect(), all.outputs[0])
}

#[test]
fn two_versions_of_a_line_are_written_one_after_the_other_and_dfence_waits_for_both() {
    for design in ["hops", "hops:adr=true"] {
        let (left, done) = example(design);
        let mut versions: Vec<u64> = left.iter().map(|(_, value)| *value).collect();
        versions.dedup();
        assert_eq!(versions, [0, 10, 20], "{design}");
        assert!(left.iter().all(|(at, value)| *at < done || *value == 20), "{design}");
    }
    let (left, done) = example("hops:flaw='drains-early'");
    assert!(left.iter().any(|(at, value)| *at > done && *value != 20));
}

#[test]
fn an_ofence_costs_nothing_and_a_dfence_a_round_trip_for_each_epoch_before_it() {
    let time = |fences: usize, design: &str| {
        let program: Program = Box::new(move |memory| {
            for line in 0..fences as u64 {
                memory.store(A.plus(64 * line), 1u64);
                memory.order();
            }
            let before = memory.now();
            memory.drain();
            assert!(memory.now() >= before);
        });
        run(design, vec![program])
    };
    let fence = |outcome: &RunOutcome| outcome.stalls[0].get(Reason::Fence);
    let (one, four) = (fence(&time(1, "hops")), fence(&time(4, "hops:asynchronous=false")));
    assert!(one >= 160, "{one}: the line has to reach the cells");
    assert!(four > 3 * one, "{four} for four epochs, {one} for one");
    let queue = fence(&time(4, "hops:asynchronous=false:adr=true"));
    assert!(queue < four / 2, "{queue}: queues are durable");
}

#[test]
fn a_buffer_that_no_ofence_starts_is_written_from_sixteen_entries_on_or_after_an_interval() {
    let written = |stores: u64, wait: u32| {
        let counted = Rc::new(RefCell::new(0));
        let told = counted.clone();
        let program: Program = Box::new(move |memory| {
            for line in 0..stores {
                memory.store(A.plus(64 * line), 1u64);
                memory.order();
            }
            memory.work(wait);
            assert_eq!(memory.load::<u64>(LATCH), 0, "in its turn");
            *told.borrow_mut() = memory.counters().line_writes;
        });
        run("hops:asynchronous=false", vec![program]);
        let lines: u64 = *counted.borrow();
        lines
    };
    assert_eq!(written(10, 2000), 0, "few entries, and no time has passed");
    assert!(written(20, 2000) > 0);
    assert!(written(10, 10_000) > 0, "an interval has passed");
}

#[test]
fn an_ofence_starts_a_flush_that_the_program_does_not_wait_for() {
    let program = |work: u32| -> Program {
        Box::new(move |memory| {
            for line in 0..10 {
                memory.store(A.plus(64 * line), 1u64);
                memory.order();
                memory.work(work);
            }
            memory.drain();
        })
    };
    let fence = |design: &str, work| run(design, vec![program(work)]).stalls[0].get(Reason::Fence);
    let lone = fence("hops", 0) / 10;
    assert!(fence("hops", 2000) <= lone, "nothing is left to wait for");
    assert!(fence("hops:asynchronous=false", 2000) > 4 * lone);
}

#[test]
fn a_full_buffer_holds_up_stores_and_not_loads() {
    let program: Program = Box::new(|memory| {
        for line in 0..200 {
            memory.store(A.plus(64 * line), 1u64);
            memory.order();
        }
    });
    let outcome = run("hops:entries=4", vec![program]);
    assert!(outcome.stalls[0].get(Reason::BufferFull) > 100 * 160);
}

/// Two threads: the first stores A and waits for the other, which reads A and drains.
fn hands_over(design: &str) -> Result<RunOutcome, SimError> {
    let first: Program = Box::new(|memory| {
        memory.store(A, 1u64);
        while memory.load::<u64>(LATCH) == 0 {
            memory.work(100);
        }
        memory.order();
    });
    let second: Program = Box::new(|memory| {
        while memory.load::<u64>(A) == 0 {
            memory.work(100);
        }
        memory.store(B, 1u64);
        memory.drain();
        memory.store(LATCH, 1u64);
    });
    run_on(&Machine::load("hops17").unwrap(), design, vec![first, second])
}

#[test]
fn an_open_epoch_is_split_so_that_who_depends_on_it_can_drain() {
    let outcome = hands_over("hops").unwrap();
    assert_eq!((outcome.counters.epoch_splits, outcome.counters.dependences), (1, 1));
    let stuck = hands_over("hops:flaw='keeps-epochs-whole'");
    assert!(stuck.is_err(), "the first thread never closes its epoch");
}

/// Stores to A in an epoch that is durable long before its line leaves the private caches; then the
/// other thread stores to A, while a later epoch of the first is open.
fn takes_an_evicted_line(design: &str) -> RunOutcome {
    let machine = Machine::load("micro15").unwrap();
    let small = [("l1.kib", 1), ("l1.ways", 1)]
        .map(|(key, value)| (key.to_owned(), toml::Value::Integer(value)));
    let first: Program = Box::new(|memory| {
        memory.store(A, 1u64);
        memory.drain();
        for line in 2..100 {
            let _: u64 = memory.load(Addr::pm(64 * line));
        }
        memory.store(B, 1u64);
        memory.store(LATCH, 1u64);
        memory.work(100_000);
        let _: u64 = memory.load(LATCH);
    });
    let second: Program = Box::new(|memory| {
        while memory.load::<u64>(LATCH) == 0 {
            memory.work(100);
        }
        memory.store(A, 2u64);
        memory.order();
    });
    run_on(&machine.with("small", &small).unwrap(), design, vec![first, second]).unwrap()
}

#[test]
fn a_core_that_has_evicted_a_line_answers_with_its_current_epoch() {
    let counters = takes_an_evicted_line("hops:interval=1000000").counters;
    assert_eq!((counters.dependences, counters.epoch_splits), (1, 1), "{counters:?}");
    let counters = takes_an_evicted_line("hops:interval=1000000:flaw='forgets-owners'").counters;
    assert_eq!((counters.dependences, counters.epoch_splits), (0, 0), "{counters:?}");
}

#[test]
fn a_dependence_ends_at_a_poll_of_the_global_timestamps() {
    let ends = |poll: Cycle| {
        let all = Rc::new(RefCell::new(Crashes::default()));
        let first: Program = Box::new(|memory| {
            memory.store(A, 1u64);
            memory.work(1000);
        });
        let second: Program = Box::new(|memory| {
            while memory.load::<u64>(A) == 0 {
                memory.work(100);
            }
            memory.store(B, 1u64);
            memory.drain();
            memory.output(1);
        });
        let choice = Choice::parse(&format!("hops:poll={poll}")).unwrap();
        Simulation::new(&Machine::load("hops17").unwrap(), &choice, vec![0; 1 << 16], vec![0; 64])
            .watched_by(all.clone())
            .run(vec![first, second])
            .unwrap();
        all.borrow().outputs[0]
    };
    let (soon, late) = (ends(100), ends(100_000));
    assert!(soon < 10_000, "{soon}");
    assert!((100_000..101_000).contains(&late), "{late}");
}

#[test]
fn a_line_that_leaves_the_caches_is_dropped_and_read_again_only_when_its_epoch_is_durable() {
    let machine = Machine::load("hops17").unwrap();
    let small = [("llc.kib_per_bank", 1), ("l1.kib", 1), ("llc.ways", 1), ("l1.ways", 1)];
    let small = small.map(|(key, value)| (key.to_owned(), toml::Value::Integer(value)));
    let small = machine.with("small", &small).unwrap();
    let programs = || -> Vec<Program> {
        vec![Box::new(|memory| {
            memory.store(A, 7u64);
            memory.order();
            for line in 2..500 {
                let _: u64 = memory.load(Addr::pm(64 * line));
            }
            assert_eq!(memory.load::<u64>(A), 7);
        })]
    };
    let counters =
        run_on(&small, "hops:asynchronous=false:interval=100000", programs()).unwrap().counters;
    assert!(counters.dropped_lines > 0, "{counters:?}");
    assert!(counters.buffered_misses > 0, "{counters:?}");
    assert_eq!(counters.line_writes, 1, "only the buffer writes");
}

#[test]
fn what_a_thread_leaves_in_its_buffer_is_written_when_it_ends() {
    let program: Program = Box::new(|memory| memory.store(A, 7u64));
    let outcome = run("hops:interval=1000000", vec![program]);
    assert_eq!(word(&outcome.pm, A), 7);
    assert_eq!((outcome.counters.line_writes, outcome.counters.epochs), (1, 1));
}
