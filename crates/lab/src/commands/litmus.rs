//! Litmus tests over models and over simulated designs: what `seawall litmus` runs.
//!
//! A model must reach exactly the outcomes that a test's file expects of it; a design must never
//! leave those that its model allows, whenever it crashes (`litmus/crash.rs`). Pairs are
//! independent and every run has a seed of its own, so neither the number of host threads nor what
//! else is run reaches a result.
//!
//! The language of the files is described at [`seawall_explore::litmus`].

mod crash;
#[cfg(test)]
mod refinement;
mod report;

pub use crash::Violation;
pub use report::{DesignCell, LitmusReport, ModelCell, TestReport};

use crate::engine::jobs::{host_threads, in_parallel};
use crate::engine::options::{default_options, listed_name};
use clap::Args;
use crash::Pair;
use seawall_explore::litmus::{
    BadLitmus, FILE_BYTES_MAX, Litmus, Outcome, STATES_MAX, enumerate, suite,
};
use seawall_explore::{Model, UnknownModel};
use seawall_report::{Experiment, Files, Form, Progress};
use seawall_sim::{Choice, DESIGNS, Machine, MachineError, SimError};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The default number of crashes of each test under each design.
const LITMUS_CRASHES: u64 = 200;
/// Crashes of each test under each design in the long mode.
const LITMUS_CRASHES_LONG: u64 = 10_000;
/// The name that stands for no model, or no design.
pub const NONE: &str = "none";

/// Litmus tests: a model must reach exactly the outcomes that a test's file expects, and a
/// simulated design must never leave any others, whenever it crashes.
#[derive(Clone, Debug, Args)]
#[command(after_help = LITMUS_LANGUAGE)]
pub struct LitmusOptions {
    /// Ids (A01) or families (x86) of tests, or paths of .litmus files [default: the suite]
    #[arg(value_delimiter = ',', value_parser = listed_name, value_name = "TEST")]
    pub tests: Vec<String>,
    /// Persistency models, separated by commas, or none [default: all]
    #[arg(long, value_delimiter = ',', value_parser = listed_name, value_name = "MODELS")]
    pub models: Vec<String>,
    /// Designs, separated by commas, each NAME or NAME:KEY=VALUE:.., or none [default: all that
    /// promise something, in bulk mode with stores=2:records=4]
    #[arg(long, short, value_delimiter = ',', value_parser = listed_name, value_name = "DESIGNS")]
    pub designs: Vec<String>,
    /// Crashes of each test under each design
    #[arg(long, default_value_t = LITMUS_CRASHES, value_name = "N")]
    pub crashes: u64,
    /// 10000 crashes of each test under each design
    #[arg(long, conflicts_with = "crashes")]
    pub long: bool,
    /// Seed of timing and crashes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Write a JSON record per test to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

default_options!(LitmusOptions);

const LITMUS_LANGUAGE: &str = "\
A test is a text file; only `thread:` lines are needed:
  title:    a store that is written back and fenced persists before the next
  thread:   W x 1 ; CO x ; SF ; W y 1
  memory:   x y
  question: x=0 & y=1
  px86:     forbidden; 00 10 11

Threads: W x v store, W2 x.a x.b v store that may tear, NT x v non-temporal store,
  M64 x v store of a whole line (movdir64b), R x r1 load into a register,
  FAA x n [r1] and CAS x old new r1 locked, CO x clwb, CF x clflush, SF sfence,
  MF mfence, PB persist barrier (ofence), DF durable barrier (dfence),
  NS new strand, JS join of strands, IF r1 v go on only if r1 is v.
Memory starts as 0; x and y are on lines of their own, x.a to x.h are the words of one line.
An outcome has one digit for each name in `memory:` (words after the crash, registers before it,
  - for a register not read). A model's line gives the answer and all outcomes; without such lines
  the outcomes are printed and held to nothing.";

/// Why litmus tests cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LitmusError {
    /// A file is malformed.
    #[error(transparent)]
    Malformed(#[from] BadLitmus),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; give the path of a .litmus file")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither a test nor a family nor a file.
    #[error(
        "no litmus test '{name}'; give an id (A01), a family ({families}) or the path of a \
         .litmus file"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The families there are.
        families: String,
    },
    /// No such model.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// No such design, or a wrong parameter.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The machine cannot be used.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A design that cannot be held to anything.
    #[error("design {0} promises nothing to a program, so no memory is forbidden; leave it out")]
    NoModel(String),
    /// Neither models nor designs.
    #[error("with neither models nor designs there is nothing to try: name some of either")]
    Nothing,
    /// The host has no threads.
    #[error("{0}")]
    Host(String),
    /// The number of crashes is out of range.
    #[error("--crashes is {0}; it must be 1 to 1000000000")]
    Crashes(u64),
}

/// A design, and the model that it promises.
#[derive(Clone, Debug)]
struct Promise {
    design: Choice,
    model: Model,
}

/// Tests, models and designs, all of them known.
#[derive(Clone, Debug)]
pub struct LitmusPlan {
    tests: Vec<Litmus>,
    models: Vec<Model>,
    promises: Vec<Promise>,
    machines: Vec<(&'static str, Machine)>,
    crashes: u64,
    seed: u64,
}

impl LitmusPlan {
    fn run_test(
        &self,
        test: &Litmus,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> Result<Option<TestReport>, LitmusError> {
        let mut report = TestReport::new(test);
        let mut sets = BTreeMap::new();
        for &model in &self.models {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let found = enumerate(test, model, STATES_MAX);
            report.models.push(ModelCell::new(test, model, &found));
            if expected(test, model).is_none() {
                sets.insert(model, (found.outcomes(), found.is_complete));
            }
            progress.cell_done(model.name(), &test.id);
        }
        for Promise { design, model } in &self.promises {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (allowed, is_all) = sets.entry(*model).or_insert_with(|| allowed(test, *model));
            let pair = Pair {
                test,
                design,
                machines: &self.machines,
                allowed,
                is_sc: !matches!(model, Model::Px86 | Model::Eadr),
                seed: self.seed,
            };
            // What an enumeration that was cut did not reach is not forbidden.
            let crashes = match *is_all {
                true => pair.run(self.crashes, stop),
                false => Ok(Default::default()),
            };
            let crashes = match crashes {
                Err(SimError::Stopped) => return Ok(None),
                crashes => crashes?,
            };
            let cell = DesignCell::new(design.text.clone(), *model, allowed, crashes);
            report.designs.push(cell);
            progress.cell_done(&design.text, &test.id);
        }
        Ok(Some(report))
    }
}

/// What the file says that the model allows, if it does; and that this is all.
fn expected(test: &Litmus, model: Model) -> Option<(BTreeSet<Outcome>, bool)> {
    let outcomes = test.expectation(model.name())?.outcomes.clone()?;
    Some((outcomes, true))
}

/// What the model allows: as the file says, else as far as it can be reached; and is that all?
fn allowed(test: &Litmus, model: Model) -> (BTreeSet<Outcome>, bool) {
    expected(test, model).unwrap_or_else(|| {
        let reached = enumerate(test, model, STATES_MAX);
        (reached.outcomes(), reached.is_complete)
    })
}

fn promise(text: &str) -> Result<Promise, LitmusError> {
    let design = Choice::parse(text)?;
    let model = design.model().ok_or_else(|| LitmusError::NoModel(design.text.clone()))?;
    Ok(Promise { design, model })
}

/// The design with epochs and a log that fit a litmus test, if it makes epochs and keeps a log.
fn as_small(name: &str) -> String {
    let small = format!("{name}:stores=2:records=4");
    Choice::parse(&small).map_or(name.into(), |choice| choice.text)
}

/// A machine so small that lines leave its caches all the time.
fn tiny(desktop: &Machine) -> Machine {
    let mut machine = desktop.clone();
    machine.l1.kib = 1;
    (machine.llc.banks, machine.llc.kib_per_bank) = (2, 1);
    machine
}

/// The families of the suite.
pub fn families() -> Vec<String> {
    let mut families: Vec<String> = suite().into_iter().map(|test| test.family).collect();
    families.dedup();
    families
}

fn find_tests(names: &[String]) -> Result<Vec<Litmus>, LitmusError> {
    let all = suite();
    if names.is_empty() {
        return Ok(all);
    }
    let mut found: Vec<Litmus> = Vec::new();
    for name in names {
        let named = |test: &&Litmus| test.id == *name || test.family == *name;
        let known: Vec<Litmus> = all.iter().filter(named).cloned().collect();
        if !known.is_empty() {
            let new: Vec<Litmus> = known.into_iter().filter(|it| !found.contains(it)).collect();
            found.extend(new);
        } else if name.ends_with(".litmus") || Path::new(name).is_file() {
            found.push(read(name)?);
        } else {
            let families = families().join(", ");
            return Err(LitmusError::Unknown { name: name.clone(), families });
        }
    }
    Ok(found)
}

/// Reads a user's file, and no more of it than a test may have.
fn read(path: &str) -> Result<Litmus, LitmusError> {
    let unreadable = |source| LitmusError::File { path: path.into(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
    Ok(Litmus::parse(path, &text)?)
}

impl Experiment for LitmusOptions {
    type Plan = LitmusPlan;
    type Report = LitmusReport;
    type Error = LitmusError;

    fn plan(&self) -> Result<LitmusPlan, LitmusError> {
        let crashes = if self.long { LITMUS_CRASHES_LONG } else { self.crashes };
        if !(1..=1_000_000_000).contains(&crashes) {
            return Err(LitmusError::Crashes(crashes));
        }
        let is_none = |names: &[String]| matches!(names, [only] if only == NONE);
        let models = match self.models.as_slice() {
            [] => Model::all().collect(),
            names if is_none(names) => Vec::new(),
            names => names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        };
        let promises = match self.designs.as_slice() {
            [] => {
                let default = DESIGNS.iter().filter(|entry| entry.by_default());
                let promising = default.filter(|entry| entry.model.is_some());
                promising.map(|entry| promise(&as_small(entry.name))).collect::<Result<_, _>>()?
            }
            names if is_none(names) => Vec::new(),
            names => names.iter().map(|name| promise(name)).collect::<Result<_, _>>()?,
        };
        if models.is_empty() && promises.is_empty() {
            return Err(LitmusError::Nothing);
        }
        let desktop = Machine::load("desktop")?;
        Ok(LitmusPlan {
            tests: find_tests(&self.tests)?,
            models,
            promises,
            machines: vec![("tiny", tiny(&desktop)), ("desktop", desktop)],
            crashes,
            seed: self.seed,
        })
    }

    fn files(&self, _: &LitmusPlan) -> Files {
        self.tests
            .iter()
            .fold(Files::new(), |files, test| files.reads("a test", test))
            .results(Form::Json, &self.json)
    }

    fn run(
        plan: LitmusPlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<LitmusReport, LitmusError> {
        let designs = plan.promises.iter().map(|promise| promise.design.text.as_str());
        let names: Vec<&str> =
            plan.models.iter().map(|model| model.name()).chain(designs).collect();
        progress.start(plan.tests.iter().flat_map(|_| names.iter().copied()));
        let threads = host_threads(None).map_err(|error| LitmusError::Host(error.to_string()))?;
        let run = |test: &Litmus| plan.run_test(test, progress, stop);
        let tests = in_parallel(&threads, &plan.tests, run);
        progress.end();
        let tests: Result<Vec<_>, LitmusError> = tests.into_iter().collect();
        let tests: Vec<TestReport> = tests?.into_iter().flatten().collect();
        Ok(LitmusReport {
            is_partial: tests.len() < plan.tests.len(),
            tests,
            models: plan.models,
            designs: plan.promises.iter().map(|p| (p.design.text.clone(), p.model)).collect(),
            crashes: plan.crashes,
            seed: plan.seed,
        })
    }
}
