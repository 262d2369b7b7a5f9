//! What can be typed: the commands, each with the options that its experiment has.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use seawall_lab::bench::{BenchOptions, CcBenchOptions, DimmBenchOptions};
use seawall_lab::explore::{CorpusOptions, ExploreBenchOptions, ExploreCommand};
use seawall_lab::litmus::LitmusOptions;
use seawall_lab::pool::ExamineOptions;
use seawall_lab::run::RunCommand;
use seawall_lab::validate::ValidateOptions;
use seawall_lab::{
    CompareOptions, FigureOptions, KernelOptions, Listing, SweepOptions, WhisperOptions, in_words,
};
use std::ffi::OsString;
use std::path::PathBuf;

/// The release, and the commit if this is built in a checkout.
pub(crate) const VERSION: &str = env!("SEAWALL_VERSION");

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
#[command(name = "seawall", version = VERSION, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// What was typed; the process ends with a message if that is no command.
    pub(crate) fn typed() -> Cli {
        Cli::try_parse().unwrap_or_else(|error| {
            let all = Cli::command();
            let name = std::env::args().nth(1).unwrap_or_default();
            let options = all.find_subcommand(name).unwrap_or(&all);
            with_tip(in_words(error, options), &all).exit()
        })
    }
}

/// Adds which commands have the option that one has not.
fn with_tip(mut error: clap::Error, all: &clap::Command) -> clap::Error {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => option,
        _ => return error,
    };
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
    let has = |command: &&clap::Command| {
        command.get_arguments().any(|argument| argument.get_long() == Some(name))
    };
    let with: Vec<String> = all
        .get_subcommands()
        .filter(has)
        .map(|command| format!("seawall {}", command.get_name()))
        .collect();
    if !with.is_empty() && error.get(ContextKind::SuggestedArg).is_none() {
        let tip = StyledStr::from(format!("--{name} is an option of: {}", with.join(", ")));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compile C as cc does, so that seawall can run it: CC="seawall cc"
    Cc(CompilerArguments),
    /// Compile C++ as c++ does, so that seawall can run it: CXX="seawall c++"
    #[command(name = "c++")]
    Cxx(CompilerArguments),
    /// Compare persistency designs on a simulated machine, with crashes
    Compare(CompareOptions),
    /// Run parallel programs without a persistency call on a simulated machine, with crashes
    Kernels(KernelOptions),
    /// Vary the numbers of designs and machines, and show how the cost of persistency grows
    Sweep(SweepOptions),
    /// Run a workload on this machine's memory, or recover what a run left
    Run(RunCommand),
    /// Try the images that a crash of a short run may leave
    Explore(ExploreCommand),
    /// Try all that a crash may leave of tiny programs, under models and on simulated designs
    Litmus(LitmusOptions),
    /// Let the explorer find known bugs: small programs, each broken and fixed
    Corpus(CorpusOptions),
    /// Print the figures of the papers, theirs beside ours
    Reproduce(FigureOptions),
    /// Count how applications use persistent memory, beside what was published
    Whisper(WhisperOptions),
    /// Hold the simulated machine to its closed formulas, and to hardware where that was measured
    Validate(ValidateOptions),
    /// Time seawall itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// List what there is
    List {
        /// What to list
        what: Listing,
    },
    /// Show a machine or a design in full
    #[command(subcommand)]
    Show(ShowCommand),
    /// Say what is in a pool file, which stays as it is
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Say what this machine can do for persistent memory
    Doctor,
    /// Print completions for a shell: source <(seawall completions bash)
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages, of seawall and each command, to a folder
    Man {
        /// The folder; pages of the same names are replaced
        folder: PathBuf,
    },
    /// Run a function of a program on a pool; what `compare --check-entry` starts
    #[command(hide = true)]
    ProgramCheck {
        /// The instrumented image
        image: PathBuf,
        /// The function
        entry: String,
        /// The pool
        pool: PathBuf,
        /// Its code is where the program had it
        #[arg(long)]
        keeps_code: bool,
    },
    /// Keep temporary folders for the process of that number, until it ends; what commands start
    /// that run programs
    #[command(hide = true)]
    ProgramFolders {
        /// The process
        process: u32,
    },
    /// Run the program of a request; what `compare --program` starts
    #[command(hide = true)]
    ProgramProcess {
        /// The folder of the request
        folder: PathBuf,
    },
}

/// Exit codes: 0 sound, 1 damaged, 2 not a pool, in use, or not readable. A copy of a pool in use
/// is whole if its program makes it between two transactions (docs/durability.md).
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Its header, sizes, objects by type, and what opening it will replay or undo
    Info(ExamineOptions),
    /// Whether heap and structures are sound, and what of it could not be looked at, in a line
    Check(ExamineOptions),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Simulated references per second of CPU time, and peak memory
    Sim(BenchOptions),
    /// Requests to the model of Optane-like DIMMs per second of CPU time
    Dimms(DimmBenchOptions),
    /// Runs of recovery and crash states per second of CPU time
    Explore(ExploreBenchOptions),
    /// Programs that `seawall cc` compiles: simulated, run natively, and recovering; needs gcc
    Cc(CcBenchOptions),
}

/// All words go to the compiler.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct CompilerArguments {
    /// What the compiler gets
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShowCommand {
    /// All keys of a machine with value, unit and origin; a file to copy and change
    Machine {
        /// Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
        name: String,
    },
    /// What a design is, what it promises, and its parameters
    Design {
        /// Design
        name: String,
    },
}
