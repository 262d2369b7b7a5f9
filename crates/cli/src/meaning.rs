//! Second stage: what the typed words mean. Everything that can be wrong with them is said here,
//! before anything runs or is written.

use crate::args::{
    BenchArgs, BenchCommand, BenchDimmsArgs, BenchExploreArgs, Cli, Command, CompareArgs,
    CorpusArgs, ExploreArgs, KernelsArgs, LitmusArgs, PoolArgs, PoolCommand, ReproduceArgs,
    RibbonChoice, RunArgs, ShowCommand, SweepArgs, ValidateArgs, What, WhisperArgs,
};
use anyhow::{Context, Result};
use seawall_lab::bench::{BenchOptions, DimmBenchOptions};
use seawall_lab::explore::{CorpusOptions, ExploreOptions};
use seawall_lab::litmus::{LITMUS_CRASHES_LONG, LitmusOptions, LitmusPlan};
use seawall_lab::run::{Limit, NativeOptions};
use seawall_lab::validate::ValidateOptions;
use seawall_lab::{
    CellRibbon, CompareOptions, Domain, FLUSHERS, Figure, FigureOptions, Files, Flaw, FlushMode,
    KernelOptions, KernelPlan, Listing, Model, Output, Plan, RequestMix, SweepPlan, WhisperOptions,
    WhisperPlan,
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
        Command::Corpus(CorpusArgs { cases, long, json }) => {
            let [json] = Files::without_partial().writes([("--json", json)])?;
            Ok(Job::Corpus { options: CorpusOptions { cases, long }, json })
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

fn flaw(name: Option<String>) -> Result<Flaw> {
    Ok(name.map(|name| name.parse()).transpose()?.unwrap_or_default())
}

fn mix(text: Option<String>) -> Result<Option<RequestMix>> {
    Ok(text.map(|text| text.parse()).transpose()?)
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

fn flush_mode(choice: RibbonChoice) -> FlushMode {
    match choice {
        RibbonChoice::Auto => FlushMode::Auto,
        RibbonChoice::Always => FlushMode::Always,
        RibbonChoice::Never => FlushMode::Never,
    }
}

fn compare(args: CompareArgs) -> Result<Job> {
    let flushers = args.flushers.unwrap_or(FLUSHERS);
    let early = args.early.unwrap_or_default();
    let ribbon = |choice| CellRibbon { flushers, mode: flush_mode(choice), early };
    let files = Files::new().reads("--machine", &args.machine);
    let plan = Plan::new(&CompareOptions {
        workloads: args.workloads,
        designs: args.designs,
        machine: args.machine,
        threads: args.threads,
        seed: args.seed,
        crashes: args.crashes,
        operations: args.ops,
        entries: args.requests.entries,
        search_percent: args.requests.search,
        mix: mix(args.requests.mix)?,
        ribbon: args.ribbon.map(ribbon),
        defragment: args.defragment,
        baseline: args.baseline,
        jobs: args.jobs,
        flaw: flaw(args.flaw)?,
    })?;
    let [json, plot] = files.writes([("--json", args.json), ("--plot", args.plot)])?;
    Ok(Job::Compare { plan: Box::new(plan), json, plot })
}

fn kernels(args: KernelsArgs) -> Result<Job> {
    let files = Files::new().reads("--machine", &args.machine);
    let plan = KernelPlan::new(&KernelOptions {
        kernels: args.kernels,
        designs: args.designs,
        machine: args.machine,
        threads: args.threads,
        size: args.size.parse()?,
        extent: args.extent.parse()?,
        seed: args.seed,
        crashes: args.crashes,
        baseline: Some(args.baseline),
        jobs: args.jobs,
    })?;
    let [json, plot] = files.writes([("--json", args.json), ("--plot", args.plot)])?;
    Ok(Job::Kernels { plan: Box::new(plan), has_traffic: args.traffic, json, plot })
}

fn sweep(args: SweepArgs) -> Result<Job> {
    let plan = SweepPlan::new(&args.experiment, args.out, args.jobs)?;
    let files = Files::new().reads("the experiment", &args.experiment);
    let [plot] = files.makes("--out", Some(plan.out())).writes([("--plot", args.plot)])?;
    Ok(Job::Sweep { plan: Box::new(plan), plot })
}

fn run(args: RunArgs) -> Result<Job> {
    let domain = args.domain.map(|name| Domain::parse(&name, "--domain")).transpose()?;
    let read = args
        .recover
        .iter()
        .fold(Files::without_partial(), |files, it| files.reads("--recover", it));
    let files = read.makes("--file", args.file.as_deref());
    let files = files.makes("--witness", args.witness.as_deref());
    let [json] = files.writes([("--json", args.json)])?;
    let options = NativeOptions {
        threads: args.threads,
        limit: args.ops.map_or(Limit::Seconds(args.seconds), Limit::Operations),
        seed: args.seed,
        entries: args.requests.entries,
        search_percent: args.requests.search,
        mix: mix(args.requests.mix)?,
        file: args.file,
        witness: args.witness,
        domain,
        ribbon: args.ribbon.map(|choice| flush_mode(choice).into()),
        early: args.early,
        flushers: args.flushers,
        dirtiness: args.dirtiness,
        defragment: args.defragment,
        latency: args.latency,
        recover: args.recover,
        ..NativeOptions::default()
    };
    Ok(Job::Run { workload: args.workload, options: Box::new(options), json })
}

fn explore(args: ExploreArgs) -> Result<Job> {
    let mut models: Vec<Model> = Vec::new();
    for name in &args.model {
        let model = name.parse()?;
        if !models.contains(&model) {
            models.push(model);
        }
    }
    let files = Files::new().makes("--resume", args.resume.as_deref());
    let [json, html] = files.writes([("--json", args.json), ("--html", args.html)])?;
    let default = ExploreOptions::default();
    let options = ExploreOptions {
        models,
        threads: args.threads.unwrap_or(default.threads),
        ops: args.ops.unwrap_or(default.ops),
        entries: args.entries.unwrap_or(default.entries),
        search_percent: args.search.unwrap_or(default.search_percent),
        mix: mix(args.mix)?,
        defragment: args.defragment,
        schedules: args.schedules.unwrap_or(default.schedules),
        preemptions: args.preemptions.unwrap_or(default.preemptions),
        seed: args.seed.unwrap_or(default.seed),
        flaw: if args.broken { Flaw::NoOrder } else { flaw(args.flaw)? },
        fixed: args.fixed,
        thorough: args.thorough,
        depth: args.depth.unwrap_or(default.depth),
        budget: args.budget.unwrap_or(default.budget),
        shard: args.shard.map_or(Ok(default.shard), |part| part.parse())?,
        resume: args.resume,
        replay: args.replay,
    };
    Ok(Job::Explore { workload: args.workload, options: Box::new(options), json, html })
}

fn litmus(args: LitmusArgs) -> Result<Job> {
    let files = args.tests.iter().fold(Files::new(), |files, test| files.reads("a test", test));
    let plan = LitmusPlan::new(&LitmusOptions {
        tests: args.tests,
        models: args.models,
        designs: args.designs,
        crashes: if args.long { LITMUS_CRASHES_LONG } else { args.crashes },
        seed: args.seed,
    })?;
    let [json] = files.writes([("--json", args.json)])?;
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

fn whisper(args: WhisperArgs) -> Result<Job> {
    let WhisperArgs { applications, machine, threads, ops, seed, strict, jobs, json } = args;
    let files = machine.iter().fold(Files::new(), |files, it| files.reads("--machine", it));
    let options = WhisperOptions { applications, machine, threads, operations: ops, seed, jobs };
    let plan = WhisperPlan::new(&options)?;
    let [json] = files.writes([("--json", json)])?;
    Ok(Job::Whisper { plan: Box::new(plan), is_strict: strict, json })
}

fn bench_dimms(args: BenchDimmsArgs) -> Result<Job> {
    let BenchDimmsArgs { machine, runs, requests, json } = args;
    let [json] =
        Files::without_partial().reads("--machine", &machine).writes([("--json", json)])?;
    let options = DimmBenchOptions { machine, runs, requests, ..DimmBenchOptions::default() };
    Ok(Job::BenchDimms { options, json })
}

fn bench(args: BenchArgs) -> Result<Job> {
    let [json] = Files::new().reads("--machine", &args.machine).writes([("--json", args.json)])?;
    let options = BenchOptions {
        workloads: args.workloads,
        designs: args.designs,
        cores: args.cores,
        machine: args.machine,
        runs: args.runs,
        references: args.references,
    };
    Ok(Job::Bench { options, json })
}
