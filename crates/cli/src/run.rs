//! Third stage: does it, prints it, and says what was found.

use crate::meaning::Job;
use anyhow::Result;
use seawall_lab::bench::{Bench, DimmBench};
use seawall_lab::explore::{Corpus, ExploreBench, explore};
use seawall_lab::litmus::LitmusPlan;
use seawall_lab::native::{NativeError, NativeOptions, watch_native};
use seawall_lab::pool::examine;
use seawall_lab::validate::validate;
use seawall_lab::{
    Comparison, Doctor, Figures, KernelPlan, Kernels, LabError, Progress, Sweep, SweepPlan,
    Whisper, WhisperPlan, show_design, show_machine, write_file,
};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
        Job::Compare { plan, json, plot } => {
            let comparison = Comparison::run(*plan, &Progress::on_stderr(), &stop_on_ctrl_c()?)?;
            to(&json, |path| comparison.write_json(path))?;
            to(&plot, |path| comparison.write_plot(path))?;
            print(&comparison.to_text())?;
            Ok(verdict(comparison.broken() > 0, comparison.is_partial))
        }
        Job::Kernels { plan, has_traffic, json, plot } => kernels(*plan, has_traffic, &json, &plot),
        Job::Sweep { plan, plot } => sweep(*plan, &plot),
        Job::Litmus { plan, json } => litmus(*plan, &json),
        Job::Reproduce { figures, options, is_strict, json, plots } => {
            let progress = Progress::on_stderr();
            let figures = Figures::run(figures, &options, &progress, &stop_on_ctrl_c()?)?;
            to(&json, |path| figures.write_json(path))?;
            to(&plots, |path| figures.write_plots(path).map(drop))?;
            print(&figures.to_text())?;
            Ok(verdict(is_strict && !figures.hold(), figures.is_partial()))
        }
        Job::Bench { options, json } => {
            let bench = Bench::run(&options, &Progress::on_stderr(), &stop_on_ctrl_c()?)?;
            to(&json, |path| bench.write_json(path))?;
            print(&bench.to_text())?;
            Ok(verdict(false, bench.is_partial))
        }
        Job::Run { workload, options, json } => native(&workload, &options, &json),
        Job::Explore { workload, options, json, html } => {
            let stop = stop_on_ctrl_c()?;
            let report = explore(&workload, &options, &Progress::on_stderr(), &stop)?;
            to(&html, |path| write_file(path, report.to_html().as_bytes()))?;
            let partial = report.is_partial();
            let found = tell(report, json.as_deref(), |report| report.found())?;
            Ok(verdict(found == Verdict::Found, partial))
        }
        Job::Corpus { options, json } => {
            let corpus = Corpus::run(&options, &Progress::on_stderr())?;
            to(&json, |path| corpus.write_json(path))?;
            print(&corpus.to_text())?;
            Ok(verdict(corpus.wrong() > 0, false))
        }
        Job::BenchDimms { options, json } => {
            let bench = DimmBench::run(&options)?;
            to(&json, |path| bench.write_json(path))?;
            say(&bench.to_text())
        }
        Job::BenchExplore { limit, json } => bench_explore(limit, &json),
        Job::Whisper { plan, is_strict, json } => whisper(*plan, is_strict, &json),
        Job::Validate { options, json, plots } => {
            let report = validate(&options)?;
            let records = report.to_json_lines()?;
            to(&json, |path| write_file(path, records.as_bytes()))?;
            to(&plots, |folder| report.write_plots(folder).map(drop))?;
            print(&report.to_string())?;
            Ok(verdict(report.failures() > 0, false))
        }
        Job::List(listing) => say(&listing.to_text()?),
        Job::ShowMachine(name) => say(&show_machine(&name)?),
        Job::ShowDesign(name) => say(&show_design(&name)?),
        Job::Pool { file, is_brief, json } => pool(&file, is_brief, &json),
        Job::Doctor => say(&Doctor::examine().to_string()),
    }
}

fn bench_explore(limit: Duration, json: &Option<PathBuf>) -> Result<Verdict> {
    let bench = ExploreBench::run(limit, &*stop_on_ctrl_c()?)?;
    to(json, |path| bench.write_json(path))?;
    print(&bench.to_text())?;
    Ok(verdict(false, bench.is_partial))
}

/// Writes a file if one was asked for.
fn to<E: Into<anyhow::Error>>(
    path: &Option<PathBuf>,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<()> {
    path.as_deref().map_or(Ok(()), |path| write(path).map_err(Into::into))
}

fn kernels(
    plan: KernelPlan,
    has_traffic: bool,
    json: &Option<PathBuf>,
    plot: &Option<PathBuf>,
) -> Result<Verdict> {
    let kernels = Kernels::run(plan, &Progress::on_stderr(), &stop_on_ctrl_c()?)?;
    to(json, |path| kernels.write_json(path))?;
    to(plot, |path| kernels.write_plot(path))?;
    let traffic = if has_traffic { kernels.traffic_text() } else { String::new() };
    print(&(kernels.to_text() + &traffic))?;
    Ok(verdict(kernels.broken() > 0, kernels.is_partial))
}

fn sweep(plan: SweepPlan, plot: &Option<PathBuf>) -> Result<Verdict> {
    let sweep = Sweep::run(plan, &Progress::on_stderr(), &stop_on_ctrl_c()?)?;
    eprintln!("{} of {} points were done already", sweep.found, sweep.points());
    to(plot, |path| sweep.write_plot(path))?;
    print(&sweep.to_text())?;
    Ok(verdict(sweep.broken() > 0, sweep.is_partial()))
}

fn whisper(plan: WhisperPlan, is_strict: bool, json: &Option<PathBuf>) -> Result<Verdict> {
    let whisper = Whisper::run(plan, &Progress::on_stderr(), &stop_on_ctrl_c()?)?;
    to(json, |path| whisper.write_json(path))?;
    print(&whisper.to_text())?;
    Ok(verdict(is_strict && whisper.far_off() > 0, whisper.is_partial))
}

fn litmus(plan: LitmusPlan, json: &Option<PathBuf>) -> Result<Verdict> {
    let report = plan.run(&Progress::on_stderr(), &stop_on_ctrl_c()?)?;
    to(json, |path| report.write_json(path))?;
    print(&report.to_text())?;
    Ok(verdict(report.disagreements() > 0, report.is_partial))
}

fn verdict(found: bool, stopped: bool) -> Verdict {
    match (found, stopped) {
        (true, _) => Verdict::Found,
        (false, true) => Verdict::Stopped,
        (false, false) => Verdict::Fine,
    }
}

fn native(workload: &str, options: &NativeOptions, json: &Option<PathBuf>) -> Result<Verdict> {
    match watch_native(workload, options, &Progress::on_stderr()) {
        Err(found @ NativeError::Broken { .. }) => {
            print(&format!("BROKEN: {found}\n"))?;
            Ok(Verdict::Found)
        }
        report => tell(report?, json.as_deref(), |_| false),
    }
}

/// Writes a report as one record, and prints it.
fn tell<R: Serialize + ToString>(
    report: R,
    json: Option<&Path>,
    found: impl FnOnce(&R) -> bool,
) -> Result<Verdict> {
    if let Some(path) = json {
        write_record(path, &report)?;
    }
    print(&report.to_string())?;
    Ok(verdict(found(&report), false))
}

fn pool(file: &Path, is_brief: bool, json: &Option<PathBuf>) -> Result<Verdict> {
    let report = examine(file)?;
    to(json, |path| write_record(path, &report))?;
    print(&if is_brief { report.verdict() } else { report.to_string() })?;
    Ok(verdict(report.is_damaged(), false))
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

/// A flag that the first Ctrl-C sets; the second one ends the process.
fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(2);
        }
    })?;
    Ok(stop)
}
