//! What the options of commands have in common: their defaults, their limits, and the errors for
//! values outside them.

use crate::LabError;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Command};
use seawall_report::{Files, Form};
use seawall_sim::{Machine, SimError};
use seawall_workloads::{Flaw, RequestMix};
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;

/// The default number of crashes of each cell.
pub const CRASHES: u64 = 20;

/// The default machine.
pub const MACHINE: &str = "micro15";

pub(crate) const CRASHES_MAX: u64 = 1 << 20;
const NO_FLAW: &str = "none";
const JOBS_MAX: usize = 1024;

/// The machine that a user names, with empty caches if that is asked for too.
pub(crate) fn named_machine(name: &str, cold: bool) -> String {
    if cold { format!("{name}:cold=true") } else { name.to_owned() }
}

/// What the operations of a workload are: the same options for each machine that runs them.
#[derive(Clone, Debug, Default, Args)]
pub struct RequestOptions {
    /// Entries at the start [default: the workload's]
    #[arg(long, value_name = "N")]
    pub entries: Option<u64>,
    /// Per cent of operations that only search [default: the workload's]
    #[arg(long = "search", value_name = "PERCENT")]
    pub search_percent: Option<u32>,
    /// Requests of YCSB instead of the workload's own: ycsb-a, .. (`seawall list mixes`)
    #[arg(long, value_name = "MIX", conflicts_with = "search_percent")]
    pub mix: Option<RequestMix>,
}

impl RequestOptions {
    /// The workload's own operations on this number of entries.
    pub fn on_entries(entries: u64) -> RequestOptions {
        RequestOptions { entries: Some(entries), ..RequestOptions::default() }
    }
}

/// The table of a command as files of other forms.
#[derive(Clone, Debug, Default, Args)]
pub struct SheetOptions {
    /// Write the table to this file as comma-separated values [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the table to this file as a tabular of LaTeX [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub latex: Option<PathBuf>,
}

impl SheetOptions {
    /// `files`, and these.
    pub fn beside(&self, files: Files) -> Files {
        files.results(Form::Csv, &self.csv).results(Form::Latex, &self.latex)
    }
}

/// A name of a list with commas, beside which there may be spaces.
pub(crate) fn listed_name(text: &str) -> Result<String, NoName> {
    match text.trim() {
        "" => Err(NoName),
        name => Ok(name.to_owned()),
    }
}

/// What a name of a list stands for.
pub(crate) fn listed<T>(text: &str) -> Result<T, Box<dyn Error + Send + Sync>>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    Ok(listed_name(text)?.parse()?)
}

/// Nothing beside a comma, or nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name is missing; give one, or several with a comma between two")]
pub(crate) struct NoName;

/// The options of a command line that names none.
pub(crate) fn unset<O: Args>() -> O {
    let command = O::augment_args(Command::new("options"));
    let matches = command.try_get_matches_from(["options"]);
    let options = matches.and_then(|matches| O::from_arg_matches(&matches));
    options.expect("each option has a default")
}

/// Implements `Default` with the defaults of the command line.
macro_rules! default_options {
    ($options:ty) => {
        impl Default for $options {
            fn default() -> $options {
                crate::engine::options::unset()
            }
        }
    };
}
pub(crate) use default_options;

/// Parses one of `all` by its name.
pub(crate) fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    what: &'static str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name)).try_map(move |text| {
        all.into_iter().find(|it| name(*it) == text).ok_or_else(|| format!("no such {what}"))
    })
}

/// Parses the name of a planted bug; the help text shows what each leaves out.
pub(crate) fn flaws() -> impl TypedValueParser<Value = Flaw> {
    let known = |flaw: Flaw| Some(PossibleValue::new(flaw.name()?).help(flaw.about()));
    let none = PossibleValue::new(NO_FLAW).hide(true);
    let values = PossibleValuesParser::new(Flaw::all().filter_map(known).chain([none]));
    values.try_map(|name| match name.as_str() {
        NO_FLAW => Ok(Flaw::None),
        name => name.parse(),
    })
}

/// Refuses a number of host threads that makes no sense.
pub(crate) fn check_jobs(jobs: Option<usize>) -> Result<(), LabError> {
    jobs.map_or(Ok(()), |jobs| in_range("--jobs", jobs as u64, 1, JOBS_MAX as u64))
}

pub(crate) fn in_range(
    option: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), LabError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let valid =
        if high == u64::MAX { format!("at least {low}") } else { format!("{low} to {high}") };
    Err(LabError::Option { option, value: value.to_string(), valid })
}

/// Threads of a run: one per core by default, and never more; `option` sets them.
pub(crate) fn threads_of(
    option: &'static str,
    asked: Option<usize>,
    machine: &Machine,
) -> Result<usize, LabError> {
    let cores = machine.core.count;
    let threads = asked.unwrap_or(cores);
    in_range(option, threads as u64, 1, u64::MAX)?;
    if threads > cores {
        return Err(SimError::TooManyPrograms { programs: threads, cores }.into());
    }
    Ok(threads)
}

pub(crate) fn once(what: &'static str, names: &[String]) -> Result<(), LabError> {
    let repeated = |place: &usize| names[..*place].contains(&names[*place]);
    match (0..names.len()).find(repeated) {
        Some(place) => Err(LabError::Twice { what, name: names[place].clone() }),
        None => Ok(()),
    }
}
