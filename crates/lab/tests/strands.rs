//! Programs that say where strands begin: their undo logs survive every crash of strand
//! persistency, are caught in its mistakes, and are what the design `strand` is faster for
//! ("Relaxed Persist Ordering Using Strand Persistency", ISCA'20, section V).

use seawall_explore::{CrashImage, CrashPoint, Model, Schedule, Search, check, record, search};
use seawall_lab::explore::{ExploreOptions, explore};
use seawall_lab::{CompareOptions, Comparison, Flaw, Plan, Progress, Report, RequestOptions};
use seawall_memory::{Fence, Image, Memory, MemoryExt, layer};
use seawall_runtime::Arena;
use seawall_sim::{Choice, Cycle, Machine, Program, SimMemory, Simulation};
use seawall_workloads::strand_log::{StrandFlaw, StrandLogs, StrandTx};
use seawall_workloads::{CTree, HashMap, History, Redis, Setup, Worker, Workload};
use std::sync::Arc;

const APPLICATIONS: [&str; 3] = ["ctree", "hashmap", "redis"];

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// Whether a crash under strand persistency shows a mistake.
fn is_caught(name: &str, flaw: Flaw, seed: u64) -> bool {
    let models = vec![Model::Strand];
    let options =
        ExploreOptions { models, seed, flaw, ops: 8, seconds: 0, ..ExploreOptions::default() };
    let report = explore(name, &options, &Progress::hidden(), &Arc::default()).unwrap();
    println!("{report}");
    report.found()
}

#[test]
fn an_undo_log_of_strands_survives_every_crash() {
    for name in APPLICATIONS {
        assert!((1..=4).all(|seed| !is_caught(name, Flaw::None, seed)), "{name}");
    }
}

#[test]
fn a_change_in_a_strand_without_a_barrier_behind_its_old_value_is_caught() {
    for name in APPLICATIONS {
        assert!(is_caught(name, Flaw::NoOrder, 1), "{name}");
    }
}

/// What a memory does wrong about strands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A join orders the last strand only.
    NoJoin,
    /// No strand begins: not wrong, but slow.
    OneStrand,
    /// What stands behind a barrier is in another strand.
    SplitsPairs,
}

struct Mistaken<'a, M> {
    memory: &'a M,
    mistake: Mistake,
}

impl<M: Memory> layer::Layer for Mistaken<'_, M> {
    type Below = M;

    fn below(&self) -> &M {
        self.memory
    }

    fn fence(&self, fence: Fence) {
        match (fence, self.mistake) {
            (Fence::Strand, Mistake::OneStrand) => {}
            (Fence::Join, Mistake::NoJoin) => self.memory.order(),
            (Fence::Order, Mistake::SplitsPairs) => {
                self.memory.order();
                self.memory.strand();
            }
            _ => self.memory.fence(fence),
        }
    }
}

/// A few operations with a mistake under a model; gives what a crash shows of it.
struct Try {
    model: Model,
    mistake: Mistake,
}

impl Try {
    /// With a workload of that name. Only these are compiled for the mistakes.
    fn with(self, application: &str) -> Result<(), String> {
        match application {
            CTree::NAME => self.run::<CTree>(),
            HashMap::NAME => self.run::<HashMap>(),
            Redis::NAME => self.run::<Redis>(),
            _ => unreachable!("no application: {application}"),
        }
    }

    fn run<W: Workload>(self) -> Result<(), String> {
        let Try { model, mistake } = self;
        let setup = Setup { entries: 8, search_percent: 0, ..Setup::of::<W>(1) };
        let layout = W::layout(&setup);
        let start = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&start, &setup);
        let trace = record(start, &Schedule::default(), move |memory| {
            let memory = Mistaken { memory, mistake };
            let mut worker = Worker::new(&setup, 0, Arc::new(History::new()));
            let mut local = workload.join(&memory);
            while worker.number < 8 {
                workload.step(&memory, &mut local, &mut worker);
                worker.number += 1;
            }
        });
        let recover = |image: &CrashImage| {
            let opened = W::open(image, layout).and_then(|app| app.contents(image));
            opened.map_err(|damage| damage.to_string())
        };
        let found = search(
            &trace.expect("it ends"),
            &Search::new(model),
            &check(recover, |_, _: &CrashPoint| Ok(())),
        );
        found.finding.map_or(Ok(()), |finding| Err(finding.to_string()))
    }
}

#[test]
fn a_join_too_few_or_a_strand_too_many_is_caught_where_there_are_strands() {
    for name in APPLICATIONS {
        let found = |model, mistake| Try { model, mistake }.with(name);
        assert_eq!(found(Model::Strand, Mistake::None), Ok(()), "{name}");
        for mistake in [Mistake::NoJoin, Mistake::SplitsPairs] {
            assert!(found(Model::Strand, mistake).is_err(), "{name} passes with {mistake:?}");
            assert_eq!(found(Model::Bep, mistake), Ok(()), "{name} has no strands: {mistake:?}");
        }
    }
}

fn compared(designs: &[&str], crashes: u64) -> Comparison {
    let options = CompareOptions {
        workloads: strings(&["ctree", "hashmap"]),
        designs: strings(designs),
        machine: "desktop:memory.banks=2".into(), // stores wait for banks, and overlap
        threads: Some(2),
        operations: 40,
        requests: RequestOptions::on_entries(64),
        crashes,
        ..CompareOptions::default()
    };
    Comparison::run(Plan::new(&options).unwrap(), &Progress::hidden(), &Arc::default()).unwrap()
}

#[test]
fn hardware_that_mistakes_strands_is_caught_by_the_applications() {
    let whole = compared(&["strand"], 100);
    assert_eq!(whole.broken(), 0, "{}", whole.to_text());
    for flaw in ["joins-nothing", "strands-at-barriers"] {
        let broken = compared(&[&format!("strand:flaw='{flaw}'")], 200);
        assert!(broken.broken() > 0, "{}", broken.to_text());
    }
}

/// Cycles of two threads with nothing to do but transactions of eight words in lines of their own.
fn transactions(machine: &str, (design, mistake): (&str, Mistake)) -> Cycle {
    let machine = Machine::load(machine).unwrap();
    let mut arena = Arena::new();
    let logs = StrandLogs::place(&mut arena, 2, 8);
    let data = arena.pm(2 * 64 * 64);
    let program = move |memory: &SimMemory| {
        let memory = Mistaken { memory, mistake };
        let own = data.plus(memory.thread() as u64 * 64 * 64);
        for number in 1..=100u64 {
            let mut tx = StrandTx::begin(&memory, &logs, StrandFlaw::None);
            (0..8).for_each(|word| tx.store(own.plus((number * 8 + word) % 64 * 64), number));
            tx.commit();
        }
    };
    let choice = Choice::parse(design).unwrap();
    let pm = vec![0; arena.pm_bytes() as usize];
    let simulation = Simulation::new(&machine, &choice, pm, vec![0; 64]);
    let threads: Vec<Program> = vec![Box::new(program), Box::new(program)];
    simulation.run(threads).unwrap().cycles
}

#[test]
fn transactions_are_shortest_where_each_of_their_words_has_a_strand() {
    for machine in ["micro15", "hops17"] {
        let cycles = |design, mistake| transactions(machine, (design, mistake));
        let [x86, hops, strand] =
            ["clwb", "hops", "strand"].map(|name| cycles(name, Mistake::None));
        let one = cycles("strand", Mistake::OneStrand);
        println!("{machine}: x86 {x86} cycles, hops {hops}, one strand {one}, strands {strand}");
        assert!(strand < hops && hops < x86 && 2 * strand < one, "{machine}: {strand}, {hops}");
    }
}
