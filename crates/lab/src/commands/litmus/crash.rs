//! A litmus test on a simulated design: many runs with random timing, crashes at random cycles, and
//! every memory that they leave held to the set that the model allows.
//!
//! What varies from run to run: where the lines lie, which of them are in which cache, when each
//! thread starts and with what backlog of persists, what it does between two instructions (nothing,
//! work, use of lines of its own, so that caches replace what they hold), whether another thread
//! keeps memory busy, the order of the halves of a wide store, and the moments of the crashes.
//!
//! Loads may overtake stores in the simulated cores, which sequentially consistent models do not
//! know: under those a thread empties its store buffer before it loads, by a locked operation on
//! DRAM, which orders no persists.
//!
//! Between instructions a run may tell the outside world how far it is (`output`); that takes its
//! turn after the thread's earlier stores and fences. What a load read counts as read from then on.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_explore::litmus::{
    Column, Instruction, Litmus, Outcome, Place, Register, THREADS_MAX, Value,
};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_sim::{Choice, Cycle, Machine, Observer, Program, SimError, SimMemory, Simulation};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines of persistent memory in which those of a test lie.
const SLOTS: usize = 32;
/// Lines behind these that belong to each thread: more than the caches of the tiny machine hold.
const OWN_SLOTS: usize = 40;
/// Crashes of a run, about; the image at its end comes on top.
const CRASHES: usize = 8;
/// No litmus test runs longer.
const CYCLES_MAX: Cycle = 1 << 24;
/// A crash that follows what a thread did comes within this time.
const SOON: Cycle = 600;
const DRAM_BYTES: usize = 1024;

/// What an output says: the kind in the top byte.
const DONE: u64 = 1 << 56;
const READ: u64 = 2 << 56;
const CRASH: u64 = 3 << 56;

/// A memory that the model forbids, and how it came about.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// What the crash left; none if the machine never came to its end.
    pub outcome: Option<Outcome>,
    /// Why it did not come to its end.
    pub stuck: Option<String>,
    /// Number of the run.
    pub run: u64,
    pub machine: &'static str,
    /// The cycle of the crash; none if it is the memory at the end of the run, or it had none.
    pub crash: Option<Cycle>,
    /// What had taken effect by then, as far as the run told: cycle, thread (from 1), instruction.
    pub steps: Vec<(Cycle, usize, String)>,
}

/// What the crashes of a test under a design left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crashes {
    pub(crate) runs: u64,
    pub(crate) crashes: u64,
    pub(crate) seen: BTreeSet<Outcome>,
    pub(crate) forbidden: u64,
    pub(crate) violation: Option<Violation>,
}

/// A test, a design, and what its model allows.
pub(crate) struct Pair<'a> {
    pub(crate) test: &'a Litmus,
    pub(crate) design: &'a Choice,
    pub(crate) machines: &'a [(&'static str, Machine)],
    pub(crate) allowed: &'a BTreeSet<Outcome>,
    /// The model is sequentially consistent.
    pub(crate) is_sc: bool,
    pub(crate) seed: u64,
}

impl Pair<'_> {
    /// Runs the test until there were `crashes` crashes, or the model was broken; or, as an error,
    /// `stop` is true.
    pub(crate) fn run(&self, crashes: u64, stop: &AtomicBool) -> Result<Crashes, SimError> {
        let mut all = Crashes::default();
        let mut horizon = 4000;
        while all.crashes < crashes && all.violation.is_none() {
            if stop.load(Ordering::Relaxed) {
                return Err(SimError::Stopped);
            }
            horizon = self.run_once(all.runs, horizon, &mut all)?;
            all.runs += 1;
        }
        Ok(all)
    }

    /// One run; returns how long it took.
    fn run_once(&self, run: u64, horizon: Cycle, all: &mut Crashes) -> Result<Cycle, SimError> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.run_seed(run));
        let (name, machine) = &self.machines[(run as usize) % self.machines.len()];
        let setting = Rc::new(Setting::random(self, &mut rng, horizon));
        let watcher = Watcher {
            rng: Xoshiro256PlusPlus::seed_from_u64(rng.random()),
            horizon,
            told: vec![None; self.test.register_count()],
            steps: Vec::new(),
            images: Vec::new(),
        };
        let watcher = Rc::new(RefCell::new(watcher));
        let threads = setting.code.len();
        let disturbs = threads < machine.core.count.min(THREADS_MAX) && rng.random_bool(0.3);
        let seeds = (0..threads + usize::from(disturbs)).map(|_| rng.random());
        let seeds: Vec<u64> = seeds.collect();
        let programs = seeds.into_iter().enumerate().map(|(thread, seed)| {
            let setting = setting.clone();
            let perform = move |memory: &SimMemory<'_>| {
                let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                let registers = Vec::new();
                let mut it = Thread { setting: &setting, memory, rng, registers, stored: false };
                if thread < threads { it.perform(thread) } else { it.disturb(thread) }
            };
            Box::new(perform) as Program
        });
        let pm = vec![0; (SLOTS + THREADS_MAX * OWN_SLOTS) * LINE_BYTES as usize];
        let mut simulation = Simulation::new(machine, self.design, pm, vec![0; DRAM_BYTES])
            .watched_by(watcher.clone())
            .at_most(CYCLES_MAX);
        if rng.random_bool(0.3) {
            simulation = simulation.cold();
        }
        let result = simulation.run(programs.collect());
        let mut watcher = watcher.borrow_mut();
        let violation = |crash: Option<Cycle>, steps: &[(Cycle, usize, u64)]| Violation {
            outcome: None,
            stuck: None,
            run,
            machine: name,
            crash,
            steps: setting.told(self.test, steps),
        };
        let outcome = match result {
            Err(stuck) if stuck.is_stuck() => {
                let stuck = Some(stuck.to_string());
                all.violation = Some(Violation { stuck, ..violation(None, &watcher.steps) });
                return Ok(horizon);
            }
            result => result?,
        };
        let told = watcher.told.clone();
        let steps = watcher.steps.len();
        let crashes = watcher.images.len();
        watcher.images.push(Crash { at: None, told, steps, pm: outcome.pm });
        for (number, crash) in watcher.images.iter().enumerate() {
            let left = setting.outcome(self.test, crash);
            all.crashes += u64::from(number < crashes);
            if !self.is_allowed(&left) {
                all.forbidden += 1;
                all.violation.get_or_insert_with(|| {
                    let outcome = Some(left.clone());
                    Violation { outcome, ..violation(crash.at, &watcher.steps[..crash.steps]) }
                });
            }
            all.seen.insert(left);
        }
        Ok(outcome.cycles)
    }

    /// True if the model allows the outcome. A register that was not told of may have been read all
    /// the same: a locked operation stores and is told of a little later.
    fn is_allowed(&self, left: &Outcome) -> bool {
        let fits = |allowed: &Outcome| {
            let mut pairs = self.test.columns.iter().zip(left.0.iter().zip(&allowed.0));
            pairs.all(|(column, (left, allowed))| {
                left == allowed || left.is_none() && matches!(column, Column::Register(_))
            })
        };
        self.allowed.contains(left) || self.allowed.iter().any(fits)
    }

    /// Every run has a seed of its own, which does not depend on what else is run.
    fn run_seed(&self, run: u64) -> u64 {
        let names = self.test.id.bytes().chain([b'/']).chain(self.design.text.bytes());
        let start = 0xcbf2_9ce4_8422_2325 ^ self.seed;
        let hash =
            names.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        hash.wrapping_add(run.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// What the threads of one run share: the program, the places of its lines, and how it is timed.
struct Setting {
    code: Vec<Vec<Instruction>>,
    slots: Vec<u64>,
    /// Flushes are in the program, as instructions of x86.
    empties_buffer: bool,
    /// Tells of every instruction.
    tells: bool,
    /// Longest start of a thread, in instructions.
    start: u32,
    /// Probability and length of a pause between two instructions.
    pause: (f64, u32),
    /// Probability of using lines of its own between two instructions.
    own: f64,
    /// Probability of having a line in the cache at the start.
    warm: f64,
    /// Longest backlog of a thread: epochs of stores to lines of its own before the test's code.
    backlog: u32,
}

impl Setting {
    fn random(pair: &Pair<'_>, rng: &mut Xoshiro256PlusPlus, horizon: Cycle) -> Setting {
        let mut variants = pair.test.variants();
        let code = variants.swap_remove(rng.random_range(0..variants.len()));
        let mut slots: Vec<u64> = Vec::new();
        while slots.len() < pair.test.line_count() {
            let slot = rng.random_range(0..SLOTS as u64);
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        let horizon = u32::try_from(horizon).unwrap_or(u32::MAX).clamp(1, 100_000);
        let lengths = [0, 40, 400, 2 * horizon];
        Setting {
            code,
            slots,
            empties_buffer: pair.is_sc,
            tells: rng.random_bool(0.5),
            start: lengths[rng.random_range(0..4)],
            pause: (rng.random_range(0.0..0.8), [8, 100, 1000, 4000][rng.random_range(0..4)]),
            own: [0.0, 0.0, 0.2, 0.6][rng.random_range(0..4)],
            warm: [0.0, 0.5, 1.0][rng.random_range(0..3)],
            backlog: [0, 0, 3, 6][rng.random_range(0..4)],
        }
    }

    fn at(&self, place: Place) -> Addr {
        let slot = self.slots[usize::from(place.line)];
        Addr::pm(slot * LINE_BYTES + 8 * u64::from(place.word))
    }

    fn outcome(&self, test: &Litmus, crash: &Crash) -> Outcome {
        let value = |column: &Column| match *column {
            Column::Register(register) => crash.told[usize::from(register.0)],
            Column::Memory(place) => {
                let at = self.at(place).offset() as usize;
                let word = crash.pm[at..at + 8].try_into().expect("eight bytes");
                Some(Value::try_from(u64::from_le_bytes(word)).unwrap_or(Value::MAX))
            }
        };
        Outcome(test.columns.iter().map(value).collect())
    }

    fn told(&self, test: &Litmus, steps: &[(Cycle, usize, u64)]) -> Vec<(Cycle, usize, String)> {
        let told = |&(cycle, thread, number): &(Cycle, usize, u64)| {
            let step = self.code[thread].get((number & 0xff) as usize)?;
            Some((cycle, thread + 1, test.instruction(step)))
        };
        steps.iter().filter_map(told).collect()
    }
}

/// One thread of a run.
struct Thread<'a, 'b> {
    setting: &'a Setting,
    memory: &'a SimMemory<'b>,
    rng: Xoshiro256PlusPlus,
    registers: Vec<(Register, Value)>,
    /// Something may stand in the store buffer.
    stored: bool,
}

impl Thread<'_, '_> {
    fn perform(&mut self, thread: usize) {
        if thread == 0 {
            (0..CRASHES).for_each(|_| self.memory.output(CRASH));
        }
        for &slot in &self.setting.slots {
            if self.rng.random_bool(self.setting.warm) {
                let _: u64 = self.memory.load(Addr::pm(slot * LINE_BYTES));
            }
        }
        self.meet();
        self.memory.work(self.rng.random_range(0..=self.setting.start));
        for _ in 0..self.rng.random_range(0..=self.setting.backlog) {
            self.use_own_lines(thread);
            self.memory.order();
            self.stored = true;
        }
        for (number, step) in self.setting.code[thread].iter().enumerate() {
            self.pass_time(thread);
            if !self.run(*step) {
                return;
            }
            if self.setting.tells {
                self.memory.output(DONE | number as u64);
            }
        }
        self.finish(thread);
    }

    /// Waits until all threads of the test have warmed their caches. A load that is not in the
    /// program must come before all stores: a reader splits the epoch that wrote the line, and what
    /// that thread stores afterwards is in another one.
    fn meet(&mut self) {
        let here = Addr::dram(0);
        let threads = self.setting.code.len() as u64;
        let mut met = self.memory.fetch_add(here, 1) + 1;
        while met < threads {
            met = self.memory.spin_while(here, met);
        }
    }

    /// Lets what was stored persist soon, in any order: an unfenced flush promises nothing, and a
    /// barrier orders only what comes after it.
    fn finish(&mut self, thread: usize) {
        match self.rng.random_range(0..5) {
            0 => self.use_own_lines(thread),
            3 => {
                // Everything else leaves small caches.
                for slot in 0..OWN_SLOTS {
                    let at = Addr::pm((SLOTS + thread * OWN_SLOTS + slot) as u64 * LINE_BYTES);
                    let _: u64 = self.memory.load(at);
                }
            }
            1 => self.memory.order(),
            2 => {
                let mut slots = self.setting.slots.clone();
                while !slots.is_empty() {
                    let slot = slots.swap_remove(self.rng.random_range(0..slots.len()));
                    self.memory.flush(Addr::pm(slot * LINE_BYTES), 8);
                }
            }
            _ => {}
        }
    }

    fn pass_time(&mut self, thread: usize) {
        let (often, long) = self.setting.pause;
        if self.rng.random_bool(often) {
            self.memory.work(self.rng.random_range(1..=long));
        }
        if self.rng.random_bool(self.setting.own) {
            self.use_own_lines(thread);
        }
    }

    fn use_own_lines(&mut self, thread: usize) {
        let first = SLOTS + thread * OWN_SLOTS;
        let uses = [3, 10, OWN_SLOTS][self.rng.random_range(0..3)];
        for _ in 0..self.rng.random_range(1..=uses) {
            let slot = (first + self.rng.random_range(0..OWN_SLOTS)) as u64;
            let at = Addr::pm(slot * LINE_BYTES + 8 * self.rng.random_range(0..8));
            if self.rng.random_bool(0.5) {
                let _: u64 = self.memory.load(at);
                continue;
            }
            self.memory.store(at, self.rng.random::<u64>());
            self.stored = true;
            if self.rng.random_bool(0.5) {
                self.memory.flush(at, 8);
            }
        }
    }

    /// A thread that is not of the test: keeps memory busy with lines of its own. On x86 it looks
    /// at the lines of the test now and then; elsewhere that would split epochs.
    fn disturb(&mut self, thread: usize) {
        for _ in 0..self.rng.random_range(1..20) {
            self.use_own_lines(thread);
            if self.rng.random_bool(0.5) {
                self.memory.order();
            }
            if !self.setting.empties_buffer && self.rng.random_bool(0.3) {
                let slot = self.setting.slots[self.rng.random_range(0..self.setting.slots.len())];
                let _: u64 = self.memory.load(Addr::pm(slot * LINE_BYTES));
            }
            self.memory.work(self.rng.random_range(0..=self.setting.start));
        }
    }

    /// Empties the store buffer where the model knows none.
    fn before_load(&mut self) {
        if self.stored && self.setting.empties_buffer {
            self.fence();
        }
    }

    /// A locked operation on DRAM: waits for the store buffer, and on x86 for flushes.
    fn fence(&mut self) {
        let own = Addr::dram(LINE_BYTES * (1 + self.memory.thread() as u64));
        self.memory.fetch_add(own, 1);
        self.stored = false;
    }

    /// Runs an instruction; false if the thread ends there.
    fn run(&mut self, step: Instruction) -> bool {
        let (memory, place) = (self.memory, |at| self.setting.at(at));
        match step {
            Instruction::Write(at, value) => memory.store(place(at), u64::from(value)),
            Instruction::Stream(at, value) => {
                memory.write_nt(place(at), &u64::from(value).to_le_bytes());
            }
            Instruction::Line(at, value) => memory.write_line(place(at), [value.into(); 8]),
            Instruction::WriteBack(at) => memory.flush(place(at), 8),
            Instruction::Flush(at) => {
                memory.flush(place(at), 8);
                if !self.setting.empties_buffer {
                    memory.order();
                }
            }
            Instruction::StoreFence | Instruction::Barrier => memory.order(),
            Instruction::Fence if self.setting.empties_buffer => memory.order(),
            Instruction::Fence => self.fence(),
            Instruction::Drain => memory.drain(),
            Instruction::Strand => memory.strand(),
            Instruction::Join => memory.join_strands(),
            Instruction::Read(at, into) => {
                self.before_load();
                let value = memory.load::<u64>(self.setting.at(at));
                self.read(into, value);
                return true;
            }
            Instruction::Add(at, by, into) => {
                let old = memory.fetch_add(place(at), u64::from(by));
                if let Some(into) = into {
                    self.read(into, old);
                }
            }
            Instruction::Exchange { at, old, new, into } => {
                let (old, new) = (u64::from(old), u64::from(new));
                let was = memory.compare_exchange(place(at), old, new);
                self.read(into, was.unwrap_or_else(|other| other));
            }
            Instruction::If(register, value) => {
                let found = self.registers.iter().rev().find(|(known, _)| *known == register);
                return found.is_some_and(|(_, found)| *found == value);
            }
            Instruction::Wide(..) => unreachable!("variants have none"),
        }
        self.stored = true;
        true
    }

    fn read(&mut self, into: Register, value: u64) {
        let value = Value::try_from(value).unwrap_or(Value::MAX);
        self.registers.push((into, value));
        self.memory.output(READ | u64::from(into.0) << 32 | u64::from(value));
    }
}

/// A crash: when, what had been told, and the persistent bytes.
struct Crash {
    at: Option<Cycle>,
    told: Vec<Option<Value>>,
    steps: usize,
    pm: Vec<u8>,
}

/// Hears what the threads tell, and asks for crashes.
struct Watcher {
    rng: Xoshiro256PlusPlus,
    horizon: Cycle,
    told: Vec<Option<Value>>,
    steps: Vec<(Cycle, usize, u64)>,
    images: Vec<Crash>,
}

impl Observer for Watcher {
    fn output(&mut self, core: usize, number: u64, now: Cycle) -> Option<Cycle> {
        match number & 0xff << 56 {
            CRASH => {
                let least = self.rng.random_range(0..=self.horizon);
                return Some(now + self.rng.random_range(0..=self.horizon).max(least / 2));
            }
            READ => self.told[(number >> 32 & 0xff) as usize] = Some(number as Value),
            _ => self.steps.push((now, core, number)),
        }
        self.rng.random_bool(0.3).then(|| now + self.rng.random_range(0..SOON))
    }

    fn crash(&mut self, now: Cycle, crash: seawall_sim::Crash) {
        let (told, steps) = (self.told.clone(), self.steps.len());
        self.images.push(Crash { at: Some(now), told, steps, pm: crash.pm });
    }
}
