//! First stage: what was typed. Nothing here knows what a name means; unknown options end here.

mod explore;
mod run;

pub(crate) use explore::{CorpusArgs, ExploreArgs, LitmusArgs};
pub(crate) use run::RunArgs;

use clap::{Args, Parser, Subcommand, ValueEnum};
use seawall_lab::bench::{BenchOptions, DimmBenchOptions};
use seawall_lab::{CompareOptions, KernelOptions, WhisperOptions};
use std::path::PathBuf;

/// Persistent-memory programs, written once: run them, time them on simulated persistency
/// hardware, and try every crash.
///
/// Exit codes: 0 fine, 1 something was found (a broken structure, a figure that does not hold with
/// --strict), 2 it could not run, or was stopped.
///
/// Result files are written whole, at the end, and never over a file that the command reads or
/// makes. Stopped by Ctrl-C or SIGTERM, a command leaves them as they were; what was finished goes
/// to FILE.partial, where the option says so.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare persistency designs on a simulated machine, with crashes
    Compare(CompareArgs),
    /// Run parallel programs without a persistency call on a simulated machine, with crashes
    Kernels(KernelsArgs),
    /// Vary the numbers of designs and machines, and show how the cost of persistency grows
    Sweep(SweepArgs),
    /// Run a workload on this machine's memory, or recover what a run left
    Run(RunArgs),
    /// Try the images that a crash of a short run may leave
    Explore(ExploreArgs),
    /// Try all that a crash may leave of tiny programs, under models and on simulated designs
    Litmus(LitmusArgs),
    /// Let the explorer find known bugs: small programs, each broken and fixed
    Corpus(CorpusArgs),
    /// Print the figures of the papers, theirs beside ours
    Reproduce(ReproduceArgs),
    /// Count how applications use persistent memory, beside what was published
    Whisper(WhisperArgs),
    /// Hold the simulated machine to its closed formulas, and to hardware where that was measured
    Validate(ValidateArgs),
    /// Time seawall itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// List what there is
    List {
        /// What to list
        what: What,
    },
    /// Show a machine or a design in full
    #[command(subcommand)]
    Show(ShowCommand),
    /// Say what is in a pool file, which stays as it is
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Say what this machine can do for persistent memory
    Doctor,
}

/// Exit codes: 0 sound, 1 damaged, 2 not a pool, in use, or not readable.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Its header, sizes, objects by type, and what opening it will replay or undo
    Info(PoolArgs),
    /// Whether it is sound, in a line
    Check(PoolArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    /// Pool file
    pub(crate) file: PathBuf,
    /// Write what was found to this file, as one JSON record [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Each value is set beside the published one of the program that the application stands for.
#[derive(Debug, Args)]
pub(crate) struct WhisperArgs {
    #[command(flatten)]
    pub(crate) options: WhisperOptions,
    /// Exit with 1 if a value is more than three times the published one, or less than a third
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write a JSON record per application to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Machine, or the path of a .toml file
    #[arg(long, short, default_value = seawall_lab::MACHINE, value_name = "NAME")]
    pub(crate) machine: String,
    /// Seed of the orders in which memory is walked
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Write a record per point to this file, as JSON Lines [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the curves into this folder, as SVG [if stopped: none]
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) options: CompareOptions,
    /// Write a JSON record per cell to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the comparison to this SVG file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KernelsArgs {
    #[command(flatten)]
    pub(crate) options: KernelOptions,
    /// Print what each kernel does under the baseline, too: memory, references, misses
    #[arg(long)]
    pub(crate) traffic: bool,
    /// Write a JSON record per kernel and design to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw times and where they went to this SVG file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

/// An experiment file names a machine, kernels, designs, and factors with their values. Every
/// finished point is a line of the file of records; the same command goes on from there after an
/// interruption.
#[derive(Debug, Args)]
#[command(after_help = SWEEP_LANGUAGE)]
pub(crate) struct SweepArgs {
    /// bsp-sweep, bsp-sweep-quick, or the path of a .toml file
    pub(crate) experiment: String,
    /// File of records, as JSON Lines, which keeps its finished points if stopped [default: the
    /// experiment's name with .jsonl, in this folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Draw a chart for each factor to this SVG file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

const SWEEP_LANGUAGE: &str = "\
An experiment:
  title = \"How the cost grows\"
  machine = \"micro15\"
  kernels = [\"ssca2\", \"radix:65536\"]   # seawall list kernels
  size = \"quick\"                        # of the others: small, quick, full or a number
  designs = [\"bsp-lb\", \"bsp-lbpp\"]     # seawall list designs
  factors = \"one\"                       # vary one at a time; or \"all\" combinations
  crashes = 2                             # of each point; the default is none

  [[factor]]
  name = \"stores of an epoch\"
  design = \"stores\"                     # a parameter: seawall show design bsp-lbpp
  values = [300, 10000]

  [[factor]]
  name = \"cores\"
  machine = \"core.count\"                # a key: seawall show machine micro15
  values = [1, 8, 64]

Also: threads (one per core), baseline (volatile), seed (1); in a factor, designs = [..] that have
  the parameter. Keys that change together: machine = [\"llc.banks\", \"llc.kib_per_bank\"] with
  values = [[16, 2048], [32, 1024]]. Where the number of cores changes, the mesh follows.";

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Figures, first parts of their names (s0: all that begin with s0-), or paths of .toml files
    /// [default: all]
    pub(crate) figures: Vec<String>,
    /// List the figures instead
    #[arg(long)]
    pub(crate) list: bool,
    /// Run a fifth of the operations or entries, and few records of the logging figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run as many records of the logging figures, and entries of programs that are defragmented,
    /// as the papers
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,
    /// Exit with 1 if something does not hold
    #[arg(long)]
    pub(crate) strict: bool,
    /// Seed of the operations
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Write a JSON record per series to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the logging figures to SVG files in this folder [if stopped: in FOLDER.partial]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plots: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Simulated references per second of CPU time, and peak memory
    Sim(BenchArgs),
    /// Requests to the model of Optane-like DIMMs per second of CPU time
    Dimms(BenchDimmsArgs),
    /// Runs of recovery and crash states per second of CPU time
    Explore(BenchExploreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchDimmsArgs {
    #[command(flatten)]
    pub(crate) options: DimmBenchOptions,
    /// Write a JSON record per pattern to this file [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchExploreArgs {
    /// Seconds that the exploration of the largest tree may take
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) seconds: u64,
    /// Write a JSON record per program to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) options: BenchOptions,
    /// Write a JSON record per point to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    Designs,
    Workloads,
    Kernels,
    Machines,
    Figures,
    Models,
    Mixes,
    Corpus,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShowCommand {
    /// All keys of a machine with value, unit and origin; a file to copy and change
    Machine {
        /// Machine, or the path of a .toml file
        name: String,
    },
    /// What a design is, what it promises, and its parameters
    Design {
        /// Design
        name: String,
    },
}
