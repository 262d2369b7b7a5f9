//! Third stage: does it, prints it, and says what was found.

use crate::meaning::Job;
use crate::stop::Stop;
use anyhow::Result;
use seawall_lab::bench::{Bench, BenchOptions, DimmBench, DimmBenchOptions};
use seawall_lab::explore::{Corpus, CorpusOptions, ExploreBench, ExploreOptions, explore};
use seawall_lab::litmus::LitmusPlan;
use seawall_lab::pool::examine;
use seawall_lab::run::{NativeError, NativeOptions, watch_native};
use seawall_lab::validate::{ValidateOptions, validate};
use seawall_lab::{
    Comparison, Doctor, Figure, FigureOptions, Figures, Finished, KernelPlan, Kernels, LabError,
    Output, Plan, Progress, Sweep, SweepPlan, Whisper, WhisperPlan, show_design, show_machine,
    tell, write_file,
};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing to complain about.
    Fine,
    /// A broken structure, or a figure that does not hold.
    Found,
    /// Stopped by the user.
    Stopped,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(match verdict {
            Verdict::Fine => 0,
            Verdict::Found => 1,
            Verdict::Stopped => 2,
        })
    }
}

/// Does `job`.
pub(crate) fn run(job: Job) -> Result<Verdict> {
    match job {
        Job::Compare { plan, json, plot } => compare(*plan, &json, &plot),
        Job::Kernels { plan, has_traffic, json, plot } => kernels(*plan, has_traffic, &json, &plot),
        Job::Sweep { plan, plot } => sweep(*plan, &plot),
        Job::Litmus { plan, json } => litmus(*plan, &json),
        Job::Reproduce { figures, options, is_strict, json, plots } => {
            reproduce(figures, &options, is_strict, &json, &plots)
        }
        Job::Run { workload, options, json } => native(&workload, &options, &json),
        Job::Explore { workload, options, json, html } => {
            explored(&workload, &options, &json, &html)
        }
        Job::Corpus { options, json } => corpus(&options, &json),
        Job::Bench { options, json } => bench(&options, &json),
        Job::BenchDimms { options, json } => bench_dimms(&options, &json),
        Job::BenchExplore { limit, json } => bench_explore(limit, &json),
        Job::Whisper { plan, is_strict, json } => whisper(*plan, is_strict, &json),
        Job::Validate { options, json, plots } => validated(&options, &json, &plots),
        Job::List(listing) => say(&listing.to_text()?),
        Job::ShowMachine(name) => say(&show_machine(&name)?),
        Job::ShowDesign(name) => say(&show_design(&name)?),
        Job::Pool { file, is_brief, json } => pool(&file, is_brief, &json),
        Job::Doctor => say(&Doctor::examine().to_string()),
    }
}

fn compare(plan: Plan, json: &Option<Output>, plot: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json, plot])?;
    let comparison = Comparison::run(plan, &Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(comparison.is_partial, comparison.cells.is_empty());
    let write_json = |path: &Path| Ok(comparison.write_json(path)?);
    let write_plot = |path: &Path| Ok(comparison.write_plot(path)?);
    let outputs = [to(json, finished, &write_json), to(plot, finished, &write_plot)];
    give(&stop, &comparison.to_text(), &outputs)?;
    Ok(verdict(comparison.broken() > 0, comparison.is_partial))
}

fn kernels(
    plan: KernelPlan,
    has_traffic: bool,
    json: &Option<Output>,
    plot: &Option<Output>,
) -> Result<Verdict> {
    let stop = Stop::ask(&[json, plot])?;
    let kernels = Kernels::run(plan, &Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(kernels.is_partial, kernels.cells.is_empty());
    let write_json = |path: &Path| Ok(kernels.write_json(path)?);
    let write_plot = |path: &Path| Ok(kernels.write_plot(path)?);
    let traffic = if has_traffic { kernels.traffic_text() } else { String::new() };
    let outputs = [to(json, finished, &write_json), to(plot, finished, &write_plot)];
    give(&stop, &(kernels.to_text() + &traffic), &outputs)?;
    Ok(verdict(kernels.broken() > 0, kernels.is_partial))
}

fn sweep(plan: SweepPlan, plot: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[plot])?;
    let sweep = Sweep::run(plan, &Progress::on_stderr(), stop.flag())?;
    tell(format_args!("{} of {} points were done already", sweep.found, sweep.points()));
    let finished = Finished::of(sweep.is_partial(), sweep.is_empty());
    let write_plot = |path: &Path| Ok(sweep.write_plot(path)?);
    give(&stop, &sweep.to_text(), &[to(plot, finished, &write_plot)])?;
    Ok(verdict(sweep.broken() > 0, sweep.is_partial()))
}

fn reproduce(
    figures: Vec<Figure>,
    options: &FigureOptions,
    is_strict: bool,
    json: &Option<Output>,
    plots: &Option<Output>,
) -> Result<Verdict> {
    let stop = Stop::ask(&[json, plots])?;
    let figures = Figures::run(figures, options, &Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(figures.is_partial(), figures.is_empty());
    let drawn = Finished::of(figures.is_partial(), !figures.has_plots());
    let write_json = |path: &Path| Ok(figures.write_json(path)?);
    let write_plots = |path: &Path| Ok(figures.write_plots(path).map(drop)?);
    let outputs = [to(json, finished, &write_json), to(plots, drawn, &write_plots)];
    give(&stop, &figures.to_text(), &outputs)?;
    Ok(verdict(is_strict && !figures.hold(), figures.is_partial()))
}

fn explored(
    workload: &str,
    options: &ExploreOptions,
    json: &Option<Output>,
    html: &Option<Output>,
) -> Result<Verdict> {
    let stop = Stop::ask(&[json, html])?;
    let report = explore(workload, options, &Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(report.is_partial(), false);
    let write_html = |path: &Path| Ok(write_file(path, report.to_html().as_bytes())?);
    let write_json = |path: &Path| write_record(path, &report);
    let outputs = [to(html, finished, &write_html), to(json, finished, &write_json)];
    give(&stop, &report.to_string(), &outputs)?;
    Ok(verdict(report.found(), report.is_partial()))
}

fn corpus(options: &CorpusOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    let corpus = Corpus::run(options, &Progress::on_stderr())?;
    let write_json = |path: &Path| Ok(corpus.write_json(path)?);
    give(&stop, &corpus.to_text(), &[to(json, Finished::All, &write_json)])?;
    Ok(verdict(corpus.wrong() > 0, false))
}

fn bench(options: &BenchOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let bench = Bench::run(options, &Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(bench.is_partial, bench.records().is_empty());
    let write_json = |path: &Path| Ok(bench.write_json(path)?);
    give(&stop, &bench.to_text(), &[to(json, finished, &write_json)])?;
    Ok(verdict(false, bench.is_partial))
}

fn bench_dimms(options: &DimmBenchOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    let bench = DimmBench::run(options)?;
    let write_json = |path: &Path| Ok(bench.write_json(path)?);
    give(&stop, &bench.to_text(), &[to(json, Finished::All, &write_json)])?;
    Ok(Verdict::Fine)
}

fn bench_explore(limit: Duration, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let bench = ExploreBench::run(limit, stop.flag())?;
    let finished = Finished::of(bench.is_partial, false);
    let write_json = |path: &Path| Ok(bench.write_json(path)?);
    give(&stop, &bench.to_text(), &[to(json, finished, &write_json)])?;
    Ok(verdict(false, bench.is_partial))
}

fn whisper(plan: WhisperPlan, is_strict: bool, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let whisper = Whisper::run(plan, &Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(whisper.is_partial, whisper.records.is_empty());
    let write_json = |path: &Path| Ok(whisper.write_json(path)?);
    give(&stop, &whisper.to_text(), &[to(json, finished, &write_json)])?;
    Ok(verdict(is_strict && whisper.far_off() > 0, whisper.is_partial))
}

fn litmus(plan: LitmusPlan, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let report = plan.run(&Progress::on_stderr(), stop.flag())?;
    let finished = Finished::of(report.is_partial, report.tests.is_empty());
    let write_json = |path: &Path| Ok(report.write_json(path)?);
    give(&stop, &report.to_text(), &[to(json, finished, &write_json)])?;
    Ok(verdict(report.disagreements() > 0, report.is_partial))
}

fn validated(
    options: &ValidateOptions,
    json: &Option<Output>,
    plots: &Option<Output>,
) -> Result<Verdict> {
    let stop = Stop::end(&[json, plots])?;
    let report = validate(options)?;
    let write_json = |path: &Path| Ok(write_file(path, report.to_json_lines()?.as_bytes())?);
    let write_plots = |folder: &Path| Ok(report.write_plots(folder).map(drop)?);
    let outputs = [to(json, Finished::All, &write_json), to(plots, Finished::All, &write_plots)];
    give(&stop, &report.to_string(), &outputs)?;
    Ok(verdict(report.failures() > 0, false))
}

fn native(workload: &str, options: &NativeOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    match watch_native(workload, options, &Progress::on_stderr()) {
        Err(found @ NativeError::Broken { .. }) => {
            print(&format!("BROKEN: {found}\n"))?;
            Ok(Verdict::Found)
        }
        report => {
            let report = report?;
            let write_json = |path: &Path| write_record(path, &report);
            give(&stop, &report.to_string(), &[to(json, Finished::All, &write_json)])?;
            Ok(Verdict::Fine)
        }
    }
}

fn pool(file: &Path, is_brief: bool, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    let report = examine(file)?;
    let text = if is_brief { report.verdict() } else { report.to_string() };
    let write_json = |path: &Path| write_record(path, &report);
    give(&stop, &text, &[to(json, Finished::All, &write_json)])?;
    Ok(verdict(report.is_damaged(), false))
}

/// An output that may have been asked for, how much there is for it, and what writes that.
struct To<'a> {
    output: &'a Option<Output>,
    finished: Finished,
    write: &'a dyn Fn(&Path) -> Result<()>,
}

fn to<'a>(
    output: &'a Option<Output>,
    finished: Finished,
    write: &'a dyn Fn(&Path) -> Result<()>,
) -> To<'a> {
    To { output, finished, write }
}

/// Prints `text`, writes the outputs, and says where they are if not all is there. One that fails
/// keeps none of the others from being tried; the first error is given, others are said.
fn give(stop: &Stop, text: &str, outputs: &[To<'_>]) -> Result<()> {
    stop.writes();
    let mut given = print(text).map_err(Into::into);
    for To { output, finished, write } in outputs {
        let Some(output) = output else { continue };
        match (output.put(*finished, write), &given) {
            (Ok(said), _) => said.iter().for_each(tell),
            (Err(error), Ok(())) => given = Err(error),
            (Err(error), Err(_)) => tell(format_args!("error: {error}")),
        }
    }
    given
}

fn verdict(found: bool, stopped: bool) -> Verdict {
    match (found, stopped) {
        (true, _) => Verdict::Found,
        (false, true) => Verdict::Stopped,
        (false, false) => Verdict::Fine,
    }
}

fn write_record<R: Serialize>(path: &Path, report: &R) -> Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    Ok(write_file(path, &line)?)
}

fn say(text: &str) -> Result<Verdict> {
    print(text)?;
    Ok(Verdict::Fine)
}

/// Prints; a reader that has gone away has seen enough.
fn print(text: &str) -> Result<(), LabError> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match printed {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(LabError::File { path: "standard output".into(), source })
        }
        _ => Ok(()),
    }
}
