//! Second stage: what the typed words mean. Everything that can be wrong with them is said here,
//! before anything runs or is written.

use crate::args::{
    BenchArgs, BenchCommand, BenchDimmsArgs, BenchExploreArgs, Cli, Command, CompareArgs,
    CorpusArgs, ExploreArgs, KernelsArgs, LitmusArgs, PoolArgs, PoolCommand, ReproduceArgs,
    RunArgs, ShowCommand, SweepArgs, ValidateArgs, What, WhisperArgs,
};
use anyhow::{Context, Result};
use seawall_lab::bench::{BenchOptions, DimmBenchOptions};
use seawall_lab::explore::{CorpusOptions, ExploreOptions};
use seawall_lab::litmus::LitmusPlan;
use seawall_lab::run::NativeOptions;
use seawall_lab::validate::ValidateOptions;
use seawall_lab::{
    Figure, FigureOptions, Files, Flaw, KernelPlan, Listing, Output, Plan, SweepPlan, WhisperPlan,
};
use std::path::PathBuf;
use std::time::Duration;

/// Something to do.
pub(crate) enum Job {
    Compare {
        plan: Box<Plan>,
        json: Option<Output>,
        plot: Option<Output>,
    },
    Kernels {
        plan: Box<KernelPlan>,
        has_traffic: bool,
        json: Option<Output>,
        plot: Option<Output>,
    },
    Sweep {
        plan: Box<SweepPlan>,
        plot: Option<Output>,
    },
    Run {
        workload: String,
        options: Box<NativeOptions>,
        json: Option<Output>,
    },
    Explore {
        workload: String,
        options: Box<ExploreOptions>,
        json: Option<Output>,
        html: Option<Output>,
    },
    Corpus {
        options: CorpusOptions,
        json: Option<Output>,
    },
    BenchDimms {
        options: DimmBenchOptions,
        json: Option<Output>,
    },
    BenchExplore {
        limit: Duration,
        json: Option<Output>,
    },
    Litmus {
        plan: Box<LitmusPlan>,
        json: Option<Output>,
    },
    Reproduce {
        figures: Vec<Figure>,
        options: FigureOptions,
        is_strict: bool,
        json: Option<Output>,
        plots: Option<Output>,
    },
    Bench {
        options: BenchOptions,
        json: Option<Output>,
    },
    Whisper {
        plan: Box<WhisperPlan>,
        is_strict: bool,
        json: Option<Output>,
    },
    Validate {
        options: ValidateOptions,
        json: Option<Output>,
        plots: Option<Output>,
    },
    List(Listing),
    ShowMachine(String),
    ShowDesign(String),
    Pool {
        file: PathBuf,
        is_brief: bool,
        json: Option<Output>,
    },
    Doctor,
}

/// What `cli` asks for.
pub(crate) fn mean(cli: Cli) -> Result<Job> {
    match cli.command {
        Command::Compare(args) => compare(args),
        Command::Kernels(args) => kernels(args),
        Command::Sweep(args) => sweep(args),
        Command::Run(args) => run(args),
        Command::Explore(args) => explore(args),
        Command::Litmus(args) => litmus(args),
        Command::Corpus(CorpusArgs { options, json }) => {
            let [json] = Files::without_partial().writes([("--json", json)])?;
            Ok(Job::Corpus { options, json })
        }
        Command::Bench(BenchCommand::Explore(BenchExploreArgs { seconds, json })) => {
            let [json] = Files::new().writes([("--json", json)])?;
            Ok(Job::BenchExplore { limit: Duration::from_secs(seconds), json })
        }
        Command::Reproduce(args) => reproduce(args),
        Command::Whisper(args) => whisper(args),
        Command::Validate(args) => validate(args),
        Command::Bench(BenchCommand::Sim(args)) => bench(args),
        Command::Bench(BenchCommand::Dimms(args)) => bench_dimms(args),
        Command::List { what } => Ok(Job::List(listing(what))),
        Command::Show(ShowCommand::Machine { name }) => Ok(Job::ShowMachine(name)),
        Command::Show(ShowCommand::Design { name }) => Ok(Job::ShowDesign(name)),
        Command::Pool(PoolCommand::Info(args)) => pool(args, false),
        Command::Pool(PoolCommand::Check(args)) => pool(args, true),
        Command::Doctor => Ok(Job::Doctor),
    }
}

fn pool(PoolArgs { file, json }: PoolArgs, is_brief: bool) -> Result<Job> {
    let [json] =
        Files::without_partial().reads("the pool file", &file).writes([("--json", json)])?;
    Ok(Job::Pool { file, is_brief, json })
}

fn validate(args: ValidateArgs) -> Result<Job> {
    let ValidateArgs { machine, seed, json, plots } = args;
    let (files, plots) =
        Files::without_partial().reads("--machine", &machine).fills("--plots", plots)?;
    let [json] = files.writes([("--json", json)])?;
    Ok(Job::Validate { options: ValidateOptions { machine, seed }, json, plots })
}

fn listing(what: What) -> Listing {
    match what {
        What::Designs => Listing::Designs,
        What::Workloads => Listing::Workloads,
        What::Kernels => Listing::Kernels,
        What::Machines => Listing::Machines,
        What::Figures => Listing::Figures,
        What::Models => Listing::Models,
        What::Mixes => Listing::Mixes,
        What::Corpus => Listing::Corpus,
    }
}

fn compare(CompareArgs { options, json, plot }: CompareArgs) -> Result<Job> {
    let plan = Plan::new(&options)?;
    let files = Files::new().reads("--machine", &options.machine);
    let [json, plot] = files.writes([("--json", json), ("--plot", plot)])?;
    Ok(Job::Compare { plan: Box::new(plan), json, plot })
}

fn kernels(KernelsArgs { options, traffic, json, plot }: KernelsArgs) -> Result<Job> {
    let plan = KernelPlan::new(&options)?;
    let files = Files::new().reads("--machine", &options.machine);
    let [json, plot] = files.writes([("--json", json), ("--plot", plot)])?;
    Ok(Job::Kernels { plan: Box::new(plan), has_traffic: traffic, json, plot })
}

fn sweep(args: SweepArgs) -> Result<Job> {
    let plan = SweepPlan::new(&args.experiment, args.out, args.jobs)?;
    let files = Files::new().reads("the experiment", &args.experiment);
    let [plot] = files.makes("--out", Some(plan.out())).writes([("--plot", args.plot)])?;
    Ok(Job::Sweep { plan: Box::new(plan), plot })
}

fn run(RunArgs { workload, options, json }: RunArgs) -> Result<Job> {
    let read = options
        .recover
        .iter()
        .fold(Files::without_partial(), |files, it| files.reads("--recover", it));
    let files = read.makes("--file", options.file.as_deref());
    let files = files.makes("--witness", options.witness.as_deref());
    let [json] = files.writes([("--json", json)])?;
    Ok(Job::Run { workload, options: Box::new(options), json })
}

fn explore(args: ExploreArgs) -> Result<Job> {
    let ExploreArgs { workload, mut options, broken, json, html } = args;
    if broken {
        options.flaw = Flaw::NoOrder;
    }
    let files = Files::new().makes("--resume", options.resume.as_deref());
    let [json, html] = files.writes([("--json", json), ("--html", html)])?;
    Ok(Job::Explore { workload, options: Box::new(options), json, html })
}

fn litmus(LitmusArgs { options, json }: LitmusArgs) -> Result<Job> {
    let tests = options.tests.iter();
    let files = tests.fold(Files::new(), |files, test| files.reads("a test", test));
    let plan = LitmusPlan::new(&options)?;
    let [json] = files.writes([("--json", json)])?;
    Ok(Job::Litmus { plan: Box::new(plan), json })
}

fn reproduce(args: ReproduceArgs) -> Result<Job> {
    if args.list {
        return Ok(Job::List(Listing::Figures));
    }
    let figures: Vec<Figure> = if args.figures.is_empty() {
        Figure::known()
    } else {
        let named = args.figures.iter().map(|name| Figure::load_all(name));
        let groups: Result<Vec<Vec<Figure>>, _> = named.collect();
        groups.context("see `seawall reproduce --list`")?.concat()
    };
    let ReproduceArgs { figures: names, quick, full, seed, jobs, json, plots, strict, .. } = args;
    let files = names.iter().fold(Files::new(), |files, name| files.reads("a figure", name));
    let (files, plots) = files.fills("--plots", plots)?;
    let [json] = files.writes([("--json", json)])?;
    let options = FigureOptions { is_quick: quick, is_full: full, seed, jobs };
    Ok(Job::Reproduce { figures, options, is_strict: strict, json, plots })
}

fn whisper(WhisperArgs { options, strict, json }: WhisperArgs) -> Result<Job> {
    let machine = options.machine.iter();
    let files = machine.fold(Files::new(), |files, it| files.reads("--machine", it));
    let plan = WhisperPlan::new(&options)?;
    let [json] = files.writes([("--json", json)])?;
    Ok(Job::Whisper { plan: Box::new(plan), is_strict: strict, json })
}

fn bench_dimms(BenchDimmsArgs { options, json }: BenchDimmsArgs) -> Result<Job> {
    let files = Files::without_partial().reads("--machine", &options.machine);
    let [json] = files.writes([("--json", json)])?;
    Ok(Job::BenchDimms { options, json })
}

fn bench(BenchArgs { options, json }: BenchArgs) -> Result<Job> {
    let [json] = Files::new().reads("--machine", &options.machine).writes([("--json", json)])?;
    Ok(Job::Bench { options, json })
}
