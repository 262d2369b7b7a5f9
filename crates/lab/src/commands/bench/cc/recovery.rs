//! Recoveries of an exploration, on one core: the process that searches and the only server of
//! recoveries wait for each other, so wall time is what both need.

use super::CcBenchOptions;
use super::workshop::{Built, Workshop};
use crate::LabError;
use seawall_explore::{
    Check, CrashImage, CrashPoint, Model, Schedule, Search, SearchOutcome, SourceLine, Trace,
    search_watched,
};
use seawall_program::{
    CheckLayout, ExploredProgram, Fences, From, Half, Limit, ProgramAndCheck, ProgramError, Start,
};
use std::ops::ControlFlow;
use std::time::Instant;

pub(super) const NAME: &str = "recovery";
const SOURCE: &str = include_str!("../programs/recovery.c");
/// Words that each recovery reads; it makes few other accesses to persistent memory.
pub(super) const WORDS: u64 = 1000;
/// Seconds of processor time that a run, or a recovery, may take.
const SECONDS: u64 = 10;

/// The recoveries of one exploration, and the seconds that each of some explorations took.
pub(super) fn time(
    workshop: &Workshop,
    options: &CcBenchOptions,
    limit: &Limit,
) -> Result<(u64, Vec<f64>), LabError> {
    let built = workshop.build(NAME, SOURCE)?;
    let explored = explored(how(workshop, &built, options.operations, limit)?, limit)?;
    let trace = record(&explored)?;
    let mut recoveries = 0;
    let mut seconds = Vec::new();
    for _ in 0..options.runs {
        let begin = Instant::now();
        let outcome = explore(&explored, &trace, limit)?;
        seconds.push(begin.elapsed().as_secs_f64());
        recoveries = outcome.runs;
    }
    Ok((recoveries, seconds))
}

/// What is explored.
fn how(
    workshop: &Workshop,
    built: &Built,
    operations: u64,
    limit: &Limit,
) -> Result<ProgramAndCheck, LabError> {
    let half = |words: &[&str]| {
        let words = [&[NAME], words].concat();
        let words = words.into_iter().map(String::from).collect();
        Half { start: Start { image: built.image.clone(), entry: None, words }, input: None }
    };
    let words = WORDS.to_string();
    Ok(ProgramAndCheck {
        layout: CheckLayout::default(),
        program: half(&["run", "{pool}", &words, &operations.to_string()]),
        check: half(&["check", "{pool}", &words]),
        fences: Fences::Order,
        from: From::Start,
        server: workshop.server(),
        folder: workshop.new_folder()?,
        before: workshop.new_folder()?,
        exit_code: 0,
        seconds: SECONDS,
        servers: 1,
        limit: limit.clone(),
    })
}

/// The program, explored once: all pages that it stores to are known then.
fn explored(how: ProgramAndCheck, limit: &Limit) -> Result<ExploredProgram, LabError> {
    // Nothing is found, so no line of the source is named.
    let nameless =
        |_: &std::path::Path, offsets: &[u64]| vec![SourceLine::default(); offsets.len()];
    let mut explored = ExploredProgram::new(how, Box::new(nameless))?;
    loop {
        let explored_once = explore(&explored, &record(&explored)?, limit);
        if !explored.lacks_pages()? {
            return explored_once.map(|_| explored);
        }
        explored = explored.again()?;
    }
}

fn record(explored: &ExploredProgram) -> Result<Trace, LabError> {
    let threads = explored.threads();
    Ok(explored.record(&Schedule { threads, ..Schedule::default() })?)
}

/// Tries all images.
fn explore(
    explored: &ExploredProgram,
    trace: &Trace,
    limit: &Limit,
) -> Result<SearchOutcome, LabError> {
    let search =
        Search { budget: u64::MAX >> 1, point_limit: u64::MAX >> 1, ..Search::new(Model::Px86) };
    let outcome = search_watched(trace, &search, &Recovers(explored), &mut |_| {
        if limit.check().is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if outcome.stopped {
        return Err(ProgramError::Stopped.into());
    }
    match &outcome.finding {
        None => Ok(outcome),
        Some(finding) => Err(ProgramError::Failed {
            program: format!("{NAME}, a program of the bench,"),
            what: format!("is right, but was refused after a crash: {finding}"),
            places: Vec::new(),
        }
        .into()),
    }
}

/// The check of the program.
struct Recovers<'a>(&'a ExploredProgram);

impl Check for Recovers<'_> {
    type Found = ();

    fn recover(&self, image: &CrashImage) -> Result<(), String> {
        self.0.recover(image)
    }

    fn judge(&self, (): &(), _: &CrashPoint) -> Result<(), String> {
        Ok(())
    }

    fn is_cut(&self) -> bool {
        self.0.is_cut()
    }
}
