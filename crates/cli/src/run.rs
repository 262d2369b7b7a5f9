//! Third stage: does it, prints it, and says what was found.

use crate::meaning::Job;
use crate::stop::Stop;
use anyhow::Result;
use seawall_lab::bench::{Bench, BenchOptions, DimmBench, DimmBenchOptions};
use seawall_lab::explore::{Corpus, CorpusOptions, ExploreBench, ExploreOptions, explore};
use seawall_lab::litmus::LitmusPlan;
use seawall_lab::native::{NativeError, NativeOptions, watch_native};
use seawall_lab::pool::examine;
use seawall_lab::validate::{ValidateOptions, validate};
use seawall_lab::{
    Comparison, Doctor, Figure, FigureOptions, Figures, Finished, KernelPlan, Kernels, LabError,
    Output, Plan, Progress, Sweep, SweepPlan, Whisper, WhisperPlan, show_design, show_machine,
    write_file,
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
    stop.writes();
    to(json, finished, |path| comparison.write_json(path))?;
    to(plot, finished, |path| comparison.write_plot(path))?;
    print(&comparison.to_text())?;
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
    stop.writes();
    to(json, finished, |path| kernels.write_json(path))?;
    to(plot, finished, |path| kernels.write_plot(path))?;
    let traffic = if has_traffic { kernels.traffic_text() } else { String::new() };
    print(&(kernels.to_text() + &traffic))?;
    Ok(verdict(kernels.broken() > 0, kernels.is_partial))
}

fn sweep(plan: SweepPlan, plot: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[plot])?;
    let sweep = Sweep::run(plan, &Progress::on_stderr(), stop.flag())?;
    eprintln!("{} of {} points were done already", sweep.found, sweep.points());
    stop.writes();
    let finished = Finished::of(sweep.is_partial(), sweep.is_empty());
    to(plot, finished, |path| sweep.write_plot(path))?;
    print(&sweep.to_text())?;
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
    stop.writes();
    to(json, finished, |path| figures.write_json(path))?;
    to(plots, finished, |path| figures.write_plots(path).map(drop))?;
    print(&figures.to_text())?;
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
    stop.writes();
    to(html, finished, |path| write_file(path, report.to_html().as_bytes()))?;
    to(json, finished, |path| write_record(path, &report))?;
    print(&report.to_string())?;
    Ok(verdict(report.found(), report.is_partial()))
}

fn corpus(options: &CorpusOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    let corpus = Corpus::run(options, &Progress::on_stderr())?;
    stop.writes();
    to(json, Finished::All, |path| corpus.write_json(path))?;
    print(&corpus.to_text())?;
    Ok(verdict(corpus.wrong() > 0, false))
}

fn bench(options: &BenchOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let bench = Bench::run(options, &Progress::on_stderr(), stop.flag())?;
    stop.writes();
    let finished = Finished::of(bench.is_partial, bench.records().is_empty());
    to(json, finished, |path| bench.write_json(path))?;
    print(&bench.to_text())?;
    Ok(verdict(false, bench.is_partial))
}

fn bench_dimms(options: &DimmBenchOptions, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    let bench = DimmBench::run(options)?;
    stop.writes();
    to(json, Finished::All, |path| bench.write_json(path))?;
    say(&bench.to_text())
}

fn bench_explore(limit: Duration, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let bench = ExploreBench::run(limit, stop.flag())?;
    stop.writes();
    to(json, Finished::of(bench.is_partial, false), |path| bench.write_json(path))?;
    print(&bench.to_text())?;
    Ok(verdict(false, bench.is_partial))
}

fn whisper(plan: WhisperPlan, is_strict: bool, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let whisper = Whisper::run(plan, &Progress::on_stderr(), stop.flag())?;
    stop.writes();
    let finished = Finished::of(whisper.is_partial, whisper.records.is_empty());
    to(json, finished, |path| whisper.write_json(path))?;
    print(&whisper.to_text())?;
    Ok(verdict(is_strict && whisper.far_off() > 0, whisper.is_partial))
}

fn litmus(plan: LitmusPlan, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::ask(&[json])?;
    let report = plan.run(&Progress::on_stderr(), stop.flag())?;
    stop.writes();
    let finished = Finished::of(report.is_partial, report.tests.is_empty());
    to(json, finished, |path| report.write_json(path))?;
    print(&report.to_text())?;
    Ok(verdict(report.disagreements() > 0, report.is_partial))
}

fn validated(
    options: &ValidateOptions,
    json: &Option<Output>,
    plots: &Option<Output>,
) -> Result<Verdict> {
    let stop = Stop::end(&[json, plots])?;
    let report = validate(options)?;
    let records = report.to_json_lines()?;
    stop.writes();
    to(json, Finished::All, |path| write_file(path, records.as_bytes()))?;
    to(plots, Finished::All, |folder| report.write_plots(folder).map(drop))?;
    print(&report.to_string())?;
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
            stop.writes();
            to(json, Finished::All, |path| write_record(path, &report))?;
            say(&report.to_string())
        }
    }
}

fn pool(file: &Path, is_brief: bool, json: &Option<Output>) -> Result<Verdict> {
    let stop = Stop::end(&[json])?;
    let report = examine(file)?;
    stop.writes();
    to(json, Finished::All, |path| write_record(path, &report))?;
    print(&if is_brief { report.verdict() } else { report.to_string() })?;
    Ok(verdict(report.is_damaged(), false))
}

/// Writes results if they were asked for, and says where they are if not all are there.
fn to<E: Into<anyhow::Error>>(
    output: &Option<Output>,
    finished: Finished,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    let said = output.put(finished, write).map_err(Into::into)?;
    said.iter().for_each(|said| eprintln!("{said}"));
    Ok(())
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
