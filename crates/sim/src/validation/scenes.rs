//! The micro programs: each asks the simulated machine one question, through its public interface.
//!
//! Times are read from outputs: an output takes effect when it reaches the head of its core's store
//! buffer, after every load, store and fence before it. Rates come from the difference of a run and
//! one twice as long, so that start and end cancel out. The simulator's own tests use these
//! programs too.

use crate::{
    Choice, Cycle, Machine, Observer, Program, RunOutcome, SimError, SimMemory, Simulation,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::cell::RefCell;
use std::rc::Rc;

/// Cycles that are enough for the machine to come to rest.
const REST_CYCLES: u32 = 5000;

/// A machine, a design, and the amount of memory.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The machine.
    pub machine: Machine,
    /// The design, as written on the command line.
    pub design: String,
    /// Lines of persistent memory, all zero.
    pub lines: u64,
    /// Whether it starts with empty caches.
    pub cold: bool,
}

/// Outputs of each core: number and cycle.
#[derive(Default)]
struct Marks(Vec<(usize, u64, Cycle)>);

impl Observer for Marks {
    fn output(&mut self, core: usize, number: u64, now: Cycle) -> Option<Cycle> {
        self.0.push((core, number, now));
        None
    }

    fn crash(&mut self, _: Cycle, _: crate::Crash) {}
}

/// The address of a persistent line.
pub fn line_at(line: u64) -> Addr {
    Addr::pm(line * LINE_BYTES)
}

fn rest(memory: &SimMemory, width: u32, times: u32) {
    memory.work(REST_CYCLES * width * times);
}

impl Scene {
    /// `machine` with 128 KiB of persistent memory and cores so wide that issuing takes no time.
    pub fn lone(machine: &Machine, design: &str) -> Scene {
        let mut machine = machine.clone();
        machine.core.width = 16;
        machine.core.parallelism = None;
        Scene { machine, design: design.into(), lines: 2048, cold: false }
    }

    /// Starts with empty caches.
    pub fn cold(mut self) -> Scene {
        self.cold = true;
        self
    }

    fn simulate(
        &self,
        pm: Vec<u8>,
        programs: Vec<(usize, Program)>,
    ) -> Result<(RunOutcome, Marks), SimError> {
        let design = Choice::parse(&self.design)?;
        let cores = programs.iter().map(|(core, _)| core + 1).max().unwrap_or(0);
        let idle = |_| Box::new(|_: &SimMemory| ()) as Program;
        let mut all: Vec<Program> = (0..cores).map(idle).collect();
        for (core, program) in programs {
            all[core] = program;
        }
        let marks = Rc::new(RefCell::new(Marks::default()));
        let observer: Rc<RefCell<dyn Observer>> = marks.clone();
        let simulation = Simulation::new(&self.machine, &design, pm, vec![0; 1 << 16]);
        let simulation = if self.cold { simulation.cold() } else { simulation };
        let outcome = simulation.watched_by(observer).run(all)?;
        Ok((outcome, marks.take()))
    }

    /// Runs `programs` on their cores, with zeroed memory.
    pub fn run(&self, programs: Vec<(usize, Program)>) -> Result<RunOutcome, SimError> {
        let pm = vec![0; (self.lines * LINE_BYTES) as usize];
        Ok(self.simulate(pm, programs)?.0)
    }

    /// The cycles between the first two outputs of `core`.
    pub fn between(&self, core: usize, programs: Vec<(usize, Program)>) -> Result<Cycle, SimError> {
        self.between_from(0, core, programs)
    }

    /// The cycles between output `first` of `core`, counted from 0, and the next.
    pub fn between_from(
        &self,
        first: usize,
        core: usize,
        programs: Vec<(usize, Program)>,
    ) -> Result<Cycle, SimError> {
        let pm = vec![0; (self.lines * LINE_BYTES) as usize];
        let (_, marks) = self.simulate(pm, programs)?;
        let of_core: Vec<Cycle> =
            marks.0.iter().filter(|(by, ..)| *by == core).map(|(.., at)| *at).collect();
        let at = |number: usize| of_core.get(number).copied().unwrap_or_default();
        Ok(at(first + 1) - at(first))
    }

    /// Cycles of a load of `at` by `core`, on an otherwise idle machine.
    pub fn load(&self, core: usize, at: Addr) -> Result<Cycle, SimError> {
        let program = move |memory: &SimMemory| {
            memory.output(1);
            memory.load::<u64>(at);
            memory.output(2);
        };
        self.between(core, vec![(core, Box::new(program))])
    }

    /// As [`load`](Scene::load), by a core that has just loaded the line.
    pub fn load_again(&self, core: usize, at: Addr) -> Result<Cycle, SimError> {
        let program = move |memory: &SimMemory| {
            memory.load::<u64>(at);
            memory.drain();
            memory.output(1);
            memory.load::<u64>(at);
            memory.output(2);
        };
        self.between(core, vec![(core, Box::new(program))])
    }

    /// As [`load`](Scene::load), by a core that has loaded the line, and then enough other lines of
    /// the same set to fill the first level's ways.
    pub fn load_far(&self, core: usize, line: u64) -> Result<Cycle, SimError> {
        let (sets, ways) = (self.machine.l1_sets() as u64, self.machine.l1.ways as u64);
        let program = move |memory: &SimMemory| {
            for way in 0..=ways {
                memory.load::<u64>(line_at(line + way * sets));
                memory.drain();
            }
            memory.output(1);
            memory.load::<u64>(line_at(line));
            memory.output(2);
        };
        self.between(core, vec![(core, Box::new(program))])
    }

    /// Cycles that a store to `line` keeps the head of the store buffer; with `again` by a core
    /// that has written the line before.
    pub fn store(&self, core: usize, line: u64, again: bool) -> Result<Cycle, SimError> {
        self.stores(core, &[line], again)
    }

    /// As [`store`](Scene::store), of several stores to different words.
    pub fn stores(&self, core: usize, lines: &[u64], again: bool) -> Result<Cycle, SimError> {
        let lines = lines.to_vec();
        let program = move |memory: &SimMemory| {
            let places = || (0..).zip(&lines).map(|(word, line)| line_at(*line).plus(8 * word));
            if again {
                places().for_each(|at| memory.store(at, 1u64));
                memory.drain();
            }
            memory.output(1);
            places().for_each(|at| memory.store(at, 2u64));
            memory.output(2);
        };
        self.between(core, vec![(core, Box::new(program))])
    }

    /// Cycles from the first flush of `lines`, just written by `core`, to the end of a drain.
    pub fn persist(&self, core: usize, lines: &[u64]) -> Result<Cycle, SimError> {
        let lines = lines.to_vec();
        let program = move |memory: &SimMemory| {
            for line in &lines {
                memory.store(line_at(*line), 1u64);
            }
            memory.output(1);
            for line in &lines {
                memory.flush(line_at(*line), 8);
            }
            memory.drain();
            memory.output(2);
        };
        self.between(core, vec![(core, Box::new(program))])
    }

    /// Cycles of a load by `core` of a line that `owner` has written.
    pub fn transfer(&self, core: usize, line: u64, owner: usize) -> Result<Cycle, SimError> {
        let width = self.machine.core.width;
        let at = line_at(line);
        let reader = move |memory: &SimMemory| {
            rest(memory, width, 1);
            memory.output(1);
            memory.load::<u64>(at);
            memory.output(2);
        };
        let writer = move |memory: &SimMemory| memory.store(at, 1u64);
        self.between(core, vec![(core, Box::new(reader)), (owner, Box::new(writer))])
    }

    /// Cycles of a store by `core` to a line that it and `others` have read.
    pub fn upgrade(&self, core: usize, line: u64, others: &[usize]) -> Result<Cycle, SimError> {
        let width = self.machine.core.width;
        let at = line_at(line);
        let writer = move |memory: &SimMemory| {
            memory.load::<u64>(at);
            rest(memory, width, 64);
            memory.output(1);
            memory.store(at, 1u64);
            memory.output(2);
        };
        let mut programs: Vec<(usize, Program)> = vec![(core, Box::new(writer))];
        for (turn, other) in others.iter().enumerate() {
            let reader = move |memory: &SimMemory| {
                rest(memory, width, 1 + turn as u32);
                memory.load::<u64>(at);
            };
            programs.push((*other, Box::new(reader)));
        }
        self.between(core, programs)
    }

    /// Mean cycles of a load in a chain of pointers through `lines` lines in random order, once
    /// every line has been visited.
    pub fn chase(&self, lines: u64, seed: u64) -> Result<f64, SimError> {
        // Line 0 holds the null pointer: the chain starts and ends in line 1.
        let mut order: Vec<u64> = (2..=lines).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut pm = vec![0; ((lines + 1) * LINE_BYTES) as usize];
        let mut here = 1;
        for next in order.into_iter().chain([1]) {
            let at = (here * LINE_BYTES) as usize;
            pm[at..at + 8].copy_from_slice(&(next * LINE_BYTES).to_le_bytes());
            here = next;
        }
        let loads = lines.max(512);
        let program = move |memory: &SimMemory| {
            let mut at = line_at(1);
            for number in 0..lines + loads {
                if number == lines {
                    memory.output(1);
                }
                at = Addr::from_bits(memory.load(at));
            }
            memory.output(2);
        };
        let (_, marks) = self.simulate(pm, vec![(0, Box::new(program))])?;
        Ok((marks.0[1].2 - marks.0[0].2) as f64 / loads as f64)
    }

    /// Cycles that each line of `lines` takes when `cores` cores share them and all `work` at once.
    pub fn pace(&self, cores: usize, lines: &Lines, work: Work) -> Result<f64, SimError> {
        let shares = lines.list.chunks(lines.list.len().div_ceil(cores)).enumerate();
        let programs = shares.map(|(core, share)| {
            let mut own = share.to_vec();
            // Each core starts at another bank, or all would collide in the first.
            own.rotate_left(core * lines.keys / cores % share.len());
            (core, Box::new(move |memory: &SimMemory| work.perform(memory, &own)) as Program)
        });
        let cycles = self.run(programs.collect())?.cycles;
        Ok(cycles as f64 / lines.list.len() as f64)
    }
}

/// The operation of every core on its lines in a bandwidth run.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Independent loads.
    Load,
    /// Stores and flushes, and one drain at the end.
    Persist,
    /// Whole lines past the caches, and one drain at the end.
    Stream,
}

impl Work {
    fn perform(self, memory: &SimMemory, lines: &[u64]) {
        for line in lines {
            match self {
                Work::Load => drop(memory.load::<u64>(line_at(*line))),
                Work::Persist => {
                    memory.store(line_at(*line), 1u64);
                    memory.flush(line_at(*line), 8);
                }
                Work::Stream => memory.write_nt(line_at(*line), &[1; LINE_BYTES as usize]),
            }
        }
        memory.drain();
    }
}

/// Lines that use some parts of the machine evenly, in turn.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The lines in the order of use.
    pub list: Vec<u64>,
    keys: usize,
}

impl Lines {
    /// `count` of the first `lines` lines, with the same number for each of the `keys` values of
    /// `key`.
    pub fn balanced(
        lines: u64,
        keys: usize,
        key: impl Fn(u64) -> Option<usize>,
        count: usize,
    ) -> Lines {
        let mut buckets = vec![Vec::new(); keys];
        for line in 1..lines {
            if let Some(key) = key(line) {
                buckets[key].push(line);
            }
        }
        let rounds = buckets.iter().map(Vec::len).min().unwrap_or(0).min(count.div_ceil(keys));
        let turns = (0..rounds).flat_map(|round| buckets.iter().map(move |bucket| bucket[round]));
        Lines { list: turns.take(count).collect(), keys }
    }
}
