//! The copies that a crash at any cycle leaves under FFCCD: the reached bit of a line is set
//! exactly if bytes of a copy, or later stores to them, are in it, and never a part of them.
//!
//! Two threads move objects of one to three lines, which share lines at both ends; a third reads
//! copies, stores to them, and takes them from cache to cache; the caches are so small that lines
//! leave all the time. The fourth requests a crash in each cycle.

use super::{OBJECTS, PAGES, is_reached, original, page, pool, registers};
use crate::hops::word;
use crate::persistency::{levels, tiny};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::relocation::Relocate;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_sim::{Choice, Crash, Cycle, Machine, Observer, Program, SimMemory, Simulation};
use std::cell::RefCell;
use std::rc::Rc;

/// Objects of each mover.
const MOVED: usize = 40;
/// The pages to which objects move.
const TARGETS: std::ops::Range<u64> = 10..PAGES;
/// The start flag, in DRAM.
const GO: Addr = Addr::dram(0);
/// The cycles in which crashes are examined.
const CYCLES: u64 = 24_000;
/// One in `STEP` cycles is examined: all, unless the machine checks itself at each crash.
const STEP: u64 = if cfg!(debug_assertions) { 24 } else { 1 };

/// An object that moves from one place to another.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: Addr,
    to: Addr,
    bytes: u64,
}

/// Some moves of each mover, to pages that both use; objects touch each other in their lines.
fn random_moves(rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<Move>> {
    let mut ends = vec![0; PAGES as usize];
    let mut from = page(OBJECTS);
    let mut one = |rng: &mut Xoshiro256PlusPlus| {
        let target = rng.random_range(TARGETS);
        let bytes = 8 * rng.random_range(2..22);
        let end = &mut ends[target as usize];
        let to = page(target).plus(*end + 8 * rng.random_range(0..3));
        *end = to.offset() % 4096 + bytes;
        let one = Move { from, to, bytes };
        from = from.plus(bytes);
        one
    };
    (0..2).map(|_| (0..MOVED).map(|_| one(rng)).collect()).collect()
}

/// A word of a random copy.
fn somewhere(rng: &mut Xoshiro256PlusPlus, moves: &[Move]) -> Addr {
    let one = moves[rng.random_range(0..moves.len())];
    one.to.plus(8 * rng.random_range(0..one.bytes / 8))
}

fn disturb(memory: &SimMemory, rng: &mut Xoshiro256PlusPlus, moves: &[Move], number: u64) {
    let at = somewhere(rng, moves);
    match rng.random_range(0..100) {
        0..25 => drop(memory.load::<u64>(at)),
        25..45 if memory.load::<u64>(at) != original(at) => {
            memory.store(at, 0x9000_0000_0000 + number);
        }
        45..50 if memory.load::<u64>(at) != original(at) => {
            memory.write_nt(at, &(0xa000_0000_0000 + number).to_le_bytes());
        }
        50..60 => memory.flush(at, 8),
        60..63 => memory.order(),
        63..90 => drop(memory.load::<u64>(page(OBJECTS).plus(rng.random_range(0..900) * 8))),
        _ => memory.work(rng.random_range(1..200)),
    }
}

fn mover(seed: u64, thread: usize, all: Vec<Vec<Move>>) -> Program {
    Box::new(move |memory| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        if thread == 0 {
            memory.set_relocation(Some(registers()));
            memory.store(GO, 1u64);
        }
        memory.spin_while(GO, 0);
        let mine = &all[thread];
        for (number, one) in mine.iter().enumerate() {
            memory.relocate(one.to, one.from, one.bytes);
            for step in 0..rng.random_range(0..5) {
                disturb(memory, &mut rng, &mine[..=number], number as u64 * 8 + step + 1);
            }
        }
    })
}

fn meddler(seed: u64, all: Vec<Vec<Move>>) -> Program {
    Box::new(move |memory| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let all = all.concat();
        memory.spin_while(GO, 0);
        (0..500).for_each(|number| disturb(memory, &mut rng, &all, 1 << 32 | number));
    })
}

/// A program that requests a crash in each cycle.
fn clock(width: u32) -> Program {
    Box::new(move |memory| {
        for _ in 0..CYCLES / STEP {
            memory.work(width * STEP as u32);
            memory.output(0);
        }
    })
}

/// Checks each crash when it happens.
struct Judge {
    /// The words of copies in each line, by copy.
    lines: Vec<(Addr, Vec<Vec<Addr>>)>,
    wrong: Option<String>,
    crashes: u64,
    reached: u64,
    newer: u64,
}

impl Judge {
    fn new(moves: &[Move]) -> Judge {
        let mut lines: Vec<(Addr, Vec<Vec<Addr>>)> = Vec::new();
        for one in moves {
            let mut parts: Vec<(Addr, Vec<Addr>)> = Vec::new();
            for at in (0..one.bytes).step_by(8).map(|at| one.to.plus(at)) {
                let line = Addr::pm(at.offset() / LINE_BYTES * LINE_BYTES);
                match parts.last_mut().filter(|(last, _)| *last == line) {
                    Some((_, words)) => words.push(at),
                    None => parts.push((line, vec![at])),
                }
            }
            for (line, words) in parts {
                match lines.iter_mut().find(|(other, _)| *other == line) {
                    Some((_, copies)) => copies.push(words),
                    None => lines.push((line, vec![words])),
                }
            }
        }
        Judge { lines, wrong: None, crashes: 0, reached: 0, newer: 0 }
    }

    fn check(&mut self, pm: &[u8]) -> Result<(), String> {
        self.reached = 0;
        for (line, copies) in &self.lines {
            let mut any = false;
            for words in copies {
                let there = words.iter().filter(|at| word(pm, **at) != original(**at)).count();
                if there != 0 && there != words.len() {
                    return Err(format!("{there} of {} words at {line:?}", words.len()));
                }
                any |= there != 0;
            }
            let reached = is_reached(pm, *line);
            if reached != any {
                return Err(format!("{line:?}: reached {reached}, in memory {any}"));
            }
            self.reached += u64::from(reached);
        }
        let newer = self.lines.iter().flat_map(|(_, copies)| copies.iter().flatten());
        self.newer = newer.filter(|at| word(pm, **at) >= 0x9000_0000_0000).count() as u64;
        Ok(())
    }
}

impl Observer for Judge {
    fn output(&mut self, _: usize, _: u64, now: Cycle) -> Option<Cycle> {
        Some(now)
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        self.crashes += 1;
        if self.wrong.is_none() {
            self.wrong = self.check(&crash.pm).err().map(|what| format!("cycle {now}: {what}"));
        }
    }
}

/// The result of a run.
struct Shown {
    reached: u64,
    newer: u64,
    hits: u64,
    misses: u64,
}

/// Runs one random program and checks all its crashes.
fn run(design: &str, machine: &Machine, seed: u64) -> Result<Shown, String> {
    let choice = Choice::parse(design).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let moves = random_moves(&mut rng);
    let mut programs: Vec<Program> =
        (0..2).map(|thread| mover(rng.random(), thread, moves.clone())).collect();
    programs.push(meddler(rng.random(), moves.clone()));
    programs.push(clock(machine.core.width));
    let judge = Rc::new(RefCell::new(Judge::new(&moves.concat())));
    let outcome = Simulation::new(machine, &choice, pool(), vec![0; 4096])
        .watched_by(judge.clone())
        .at_most(1 << 24)
        .run(programs)
        .map_err(|error| format!("{design}, seed {seed}: {error}"))?;
    let judge = judge.borrow();
    match &judge.wrong {
        Some(wrong) => Err(format!("{design}, seed {seed}, {wrong}")),
        None => {
            assert_eq!(judge.crashes, CYCLES / STEP, "one at each cycle");
            let (hits, misses) = (outcome.counters.reached_hits, outcome.counters.reached_misses);
            Ok(Shown { reached: judge.reached, newer: judge.newer, hits, misses })
        }
    }
}

/// Machines so small that lines leave their caches all the time, with one controller and with more.
fn machines() -> Vec<Machine> {
    let mut machines = vec![tiny(), levels(false), levels(true)];
    for machine in machines.clone() {
        let mut one = machine;
        one.memory.controllers = 1;
        machines.push(one);
    }
    machines.push(dimms());
    machines
}

/// A machine as small, with Optane-like DIMMs.
fn dimms() -> Machine {
    let sizes = [("core.count", 4), ("l1.kib", 1), ("llc.banks", 2), ("llc.kib_per_bank", 1)];
    let sizes = sizes.map(|(key, value)| (key.into(), toml::Value::Integer(value)));
    Machine::load("optane24").unwrap().with("small", &sizes).unwrap()
}

#[test]
fn each_line_that_is_reached_has_its_copy_and_each_that_has_it_is_reached() {
    for (number, machine) in machines().iter().enumerate() {
        for design in ["ffccd", "ffccd:adr=false", "ffccd:rbb_entries=2", "ffccd:rbb_entries=1"] {
            for round in 0..crate::persistency::runs().div_ceil(25) {
                let shown = run(design, machine, 100 * round + number as u64);
                let shown = shown.unwrap_or_else(|what| panic!("machine {number}, {what}"));
                assert!(shown.reached > 40 && shown.newer > 5, "{design}: {}", shown.reached);
                assert!(shown.misses > 10 && shown.hits > 5, "{design}: {} hits", shown.hits);
            }
        }
    }
}

#[test]
fn each_flaw_of_the_hardware_is_caught() {
    for design in [
        "ffccd:flaw=bit-stays-behind",
        "ffccd:flaw=loses-on-coherence",
        "ffccd:flaw=loses-on-store",
        "ffccd:flaw=reached-early",
        "ffccd:flaw=forgets-buffer",
        "ffccd:rbb_entries=1:flaw=forgets-evicted",
        "ffccd:rbb_entries=1:flaw=forgets-fetch",
    ] {
        for machine in [tiny(), levels(false), levels(true)] {
            let caught = (0..10).find_map(|seed| run(design, &machine, seed).err());
            println!("{caught:?}");
            assert!(caught.is_some_and(|what| what.contains("reached")), "{design}");
        }
    }
}
