//! The parallel kernels on this machine and on simulated ones: right under every schedule and
//! every design, wrong where their locks or barriers do nothing, and sharing what they should.

use seawall_lab::{Extent, KernelPoint, KernelRun, run_kernel};
use seawall_memory::{Addr, Fence, Image, Memory, Width, layer};
use seawall_native::{Pool, PoolOptions};
use seawall_sim::{Choice, Machine, Program, RunOutcome, SimError, SimMemory, Simulation};
use seawall_workloads::{
    Damage, Input, KERNELS, Kernel, KernelEntry, KernelVisitor, Mix, with_kernel,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Barrier};

const THREADS: usize = 4;

fn run(entry: &KernelEntry, design: &str, threads: usize, extent: Extent) -> KernelRun {
    let machine = Machine::load("desktop").expect("a machine that comes with us");
    let design = Choice::parse(design).expect("a design of the table");
    let (kernel, size) = (entry.name.into(), Some(entry.small));
    let point = KernelPoint { kernel, design, threads, size, seed: 1, extent };
    run_kernel(&machine, &point, &Arc::default()).expect("it comes to its end")
}

fn small(entry: &KernelEntry, design: &str) -> KernelRun {
    run(entry, design, THREADS, Extent::Bare)
}

#[test]
fn every_kernel_gives_the_plain_result_under_every_kind_of_design() {
    for entry in KERNELS {
        for design in ["volatile", "lb", "lbpp"] {
            let run = small(entry, design);
            assert_eq!(run.result, Ok(()), "{} under {design}", entry.name);
            assert!(run.counters.stores > 0 && run.counters.locked > 0, "{}", entry.name);
        }
    }
}

/// Threads of this machine, on a pool of it.
struct Native;

impl KernelVisitor for Native {
    type Output = ();

    fn visit<K: Kernel>(self) {
        for threads in 1..=4 {
            let input = Input { threads, size: K::SMALL * 8, seed: threads as u64 };
            let pm_bytes = K::layout(&input).pm_bytes;
            let pool = Pool::temporary(pm_bytes, &PoolOptions::default()).expect("room for it");
            let kernel = K::create(&pool.memory(0), &input);
            let start = Barrier::new(threads);
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (pool, kernel, start) = (&pool, &kernel, &start);
                    scope.spawn(move || {
                        start.wait();
                        kernel.run(&pool.memory(thread));
                    });
                }
            });
            assert_eq!(kernel.check(&pool.memory(0)), Ok(()), "{} of {input:?}", K::NAME);
        }
    }
}

#[test]
fn every_kernel_gives_the_plain_result_on_this_machine_whatever_the_schedule() {
    for entry in KERNELS {
        with_kernel(entry.name, Native).expect("a kernel of the table");
    }
}

#[test]
fn a_kernel_takes_the_same_cycles_every_time() {
    for entry in KERNELS {
        let (first, second) = (small(entry, "lbpp"), small(entry, "lbpp"));
        assert_eq!(first.cycles, second.cycles, "{}", entry.name);
        assert_eq!(first.counters, second.counters, "{}", entry.name);
    }
}

#[test]
fn an_unknown_kernel_and_a_wrong_size_are_refused() {
    let machine = Machine::load("desktop").expect("a machine that comes with us");
    let design = Choice::parse("volatile").expect("a design of the table");
    let point = |kernel: &str, size, threads| KernelPoint {
        kernel: kernel.into(),
        design: design.clone(),
        threads,
        size,
        seed: 1,
        extent: Extent::Bare,
    };
    for (point, expected) in [
        (point("oceans", None, 1), "unknown kernel `oceans`"),
        (point("ocean", Some(0), 1), "size is 0"),
        (point("ocean", Some(1 << 14), 1), "size is 16384; it must be less"),
        (point("ocean", Some(4), 5), "5 threads do not fit"),
    ] {
        let error = run_kernel(&machine, &point, &Arc::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// What is wrong with a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    /// A lock that is held can be taken.
    OpenLocks,
    /// A compare and exchange does not compare.
    BlindExchange,
    /// Nobody waits at a barrier.
    OpenBarriers,
}

/// What was done to a line.
#[derive(Clone, Default)]
struct LineUse {
    /// Stores and locked operations of each thread.
    stores: [u64; THREADS],
    last_writer: Option<usize>,
    /// Loads of it when another thread was its last writer.
    foreign_loads: u64,
}

type Lines = Rc<RefCell<BTreeMap<u64, LineUse>>>;

/// The simulated machine with a flaw, noting what is done to each line.
struct Bent<'a, 'b> {
    memory: &'a SimMemory<'b>,
    flaw: Flaw,
    lines: Lines,
}

impl Bent<'_, '_> {
    fn note_store(&self, at: Addr) {
        let mut lines = self.lines.borrow_mut();
        let line = lines.entry(at.line().0).or_default();
        line.stores[self.thread()] += 1;
        line.last_writer = Some(self.thread());
    }

    fn note_load(&self, at: Addr) {
        if let Some(line) = self.lines.borrow_mut().get_mut(&at.line().0) {
            line.foreign_loads += u64::from(line.last_writer != Some(self.thread()));
        }
    }
}

impl<'b> layer::Layer for Bent<'_, 'b> {
    type Below = SimMemory<'b>;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &SimMemory<'b> {
        self.memory
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.note_load(at);
        self.memory.load_bits(at, width)
    }
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.note_store(at);
        self.memory.store_bits(at, width, value);
    }
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.note_store(at);
        if self.flaw == Flaw::BlindExchange {
            self.memory.store_bits(at, Width::B8, new);
            return Ok(current);
        }
        self.memory.compare_exchange(at, current, new)
    }
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.note_store(at);
        let old = self.memory.swap(at, new);
        if self.flaw == Flaw::OpenLocks && new == 1 { 0 } else { old }
    }
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.note_store(at);
        self.memory.fetch_add(at, by)
    }
    fn flush(&self, _: Addr, _: u64) {}
    fn fence(&self, _: Fence) {}
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        if self.flaw == Flaw::OpenBarriers {
            return !value;
        }
        self.memory.spin_while(at, value)
    }
    fn output(&self, _: u64) {}
}

/// A small run on a machine with a flaw: its outcome, what the check says, and all lines written.
struct Try {
    flaw: Flaw,
    /// How much larger than small.
    scale: u64,
}

struct Tried {
    outcome: Result<RunOutcome, SimError>,
    checked: Result<(), Damage>,
    lines: BTreeMap<u64, LineUse>,
}

impl KernelVisitor for Try {
    type Output = Tried;

    fn visit<K: Kernel>(self) -> Tried {
        let input = Input { threads: THREADS, size: K::SMALL * self.scale, seed: 1 };
        let layout = K::layout(&input);
        let start = Image::new(layout.pm_bytes, layout.dram_bytes);
        let kernel = K::create(&start, &input);
        let lines = Lines::default();
        let (pm, dram) = start.into_parts();
        let program = |_| {
            let (kernel, lines, flaw) = (kernel.clone(), lines.clone(), self.flaw);
            Box::new(move |memory: &SimMemory| kernel.run(&Bent { memory, flaw, lines })) as Program
        };
        let machine = Machine::load("desktop").expect("a machine that comes with us");
        let design = Choice::parse("volatile").expect("a design of the table");
        let simulation = Simulation::new(&machine, &design, pm, dram).at_most(1 << 24);
        let outcome = simulation.run((0..THREADS).map(program).collect());
        let checked = match &outcome {
            Ok(outcome) => {
                let image = Image::from_pm(outcome.pm.clone(), layout.dram_bytes);
                kernel.check(&image)
            }
            Err(error) => Err(Damage(error.to_string())),
        };
        let lines = lines.borrow().clone();
        Tried { outcome, checked, lines }
    }
}

fn attempt(kernel: &str, flaw: Flaw, scale: u64) -> Tried {
    with_kernel(kernel, Try { flaw, scale }).expect("a kernel of the table")
}

#[test]
fn a_kernel_whose_locks_or_barriers_do_nothing_is_caught() {
    for (kernel, flaw, scale) in [
        ("ssca2", Flaw::OpenLocks, 1),
        ("vacation", Flaw::OpenLocks, 16),
        ("canneal", Flaw::BlindExchange, 1),
        ("freqmine", Flaw::BlindExchange, 1),
        ("lu", Flaw::OpenBarriers, 1),
        ("freqmine", Flaw::OpenBarriers, 1),
    ] {
        assert_eq!(attempt(kernel, Flaw::None, scale).checked, Ok(()), "{kernel}");
        let checked = attempt(kernel, flaw, scale).checked;
        assert!(checked.is_err(), "{kernel} with {flaw:?} went unnoticed");
    }
}

#[test]
fn kernels_share_lines_as_the_programs_that_they_stand_for() {
    println!("             of each thread:       of all:");
    println!("             references   stores   lines written   % by several   % of stores");
    println!("                                                   threads        to those");
    println!(
        "                             (and % of references that load what another wrote last)"
    );
    for entry in KERNELS {
        let Tried { outcome, lines, .. } = attempt(entry.name, Flaw::None, 1);
        let counters = outcome.expect("it comes to its end").counters;
        let several = |line: &&LineUse| line.stores.iter().filter(|count| **count > 0).count() > 1;
        let sum = |line: &LineUse| line.stores.iter().sum::<u64>();
        let stores: u64 = lines.values().map(sum).sum();
        let foreign: u64 = lines.values().map(|line| line.foreign_loads).sum();
        let per_cent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
        let shared = lines.values().filter(several);
        let shares = [
            per_cent(shared.clone().count() as u64, lines.len() as u64),
            per_cent(shared.map(sum).sum(), stores),
            per_cent(foreign, counters.references),
        ];
        let threads = THREADS as u64;
        println!(
            "{:9} {:13} {:8} {:15} {:14.2} {:13.2} {:8.2}",
            entry.name,
            counters.references / threads,
            stores / threads,
            lines.len(),
            shares[0],
            shares[1],
            shares[2],
        );
        let at_least = match entry.name {
            "ssca2" | "canneal" => [50.0, 70.0, 10.0],
            "vacation" | "intruder" => [15.0, 20.0, 10.0],
            "dedup" | "freqmine" | "barnes" | "radix" => [3.0, 2.0, 1.0],
            _ => [0.2, 0.05, 1.0],
        };
        let is_enough = shares.iter().zip(at_least).all(|(share, least)| *share > least);
        assert!(is_enough, "{} shares {shares:?}, should be above {at_least:?}", entry.name);
    }
}

struct MixOf;

impl KernelVisitor for MixOf {
    type Output = Mix;

    fn visit<K: Kernel>(self) -> Mix {
        K::MIX
    }
}

#[test]
fn a_run_with_the_mix_of_its_program_has_the_stores_that_were_counted() {
    for entry in KERNELS {
        let mix = with_kernel(entry.name, MixOf).expect("a kernel of the table");
        let stores = |extent| {
            let counters = run(entry, "volatile", 1, extent).counters;
            (counters.stores + counters.locked) as f64
        };
        let heap = stores(Extent::Bare) * mix.run.per_1000 as f64 / 1000.0;
        let wanted = heap * (1.0 + mix.run.stack_stores as f64 / mix.run.heap_stores as f64);
        let found = stores(Extent::Parallel);
        assert!((found / wanted - 1.0).abs() < 0.02, "{}: {found}, not {wanted}", entry.name);
    }
}

#[test]
fn a_run_with_the_mix_of_its_program_takes_the_time_that_its_instructions_need() {
    for entry in KERNELS {
        let mix = with_kernel(entry.name, MixOf).expect("a kernel of the table");
        let bare = run(entry, "volatile", 1, Extent::Bare);
        let heap = (bare.counters.stores + bare.counters.locked) as f64;
        let heap = heap * mix.run.per_1000 as f64 / 1000.0;
        let instructions = heap * mix.run.instructions as f64 / mix.run.heap_stores as f64;
        let least = instructions * 1000.0 / f64::from(mix.parallelism.min(4000));
        let cycles = run(entry, "volatile", 1, Extent::Parallel).cycles as f64;
        assert!(cycles > 0.97 * least, "{}: {cycles} cycles, not {least}", entry.name);
    }
}

#[test]
fn a_whole_run_has_its_start_before_the_parallel_part_where_one_was_counted() {
    for entry in KERNELS {
        let mix = with_kernel(entry.name, MixOf).expect("a kernel of the table");
        let whole = run(entry, "bsp-lbpp:stores=200", THREADS, Extent::Whole);
        assert_eq!(whole.result, Ok(()), "{}", entry.name);
        assert_eq!(whole.start > 0, mix.start.is_some(), "{}", entry.name);
        assert!(whole.start < whole.cycles);
    }
}
