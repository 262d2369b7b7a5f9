//! The commands: their options as the command line declares them, and a run of one.
//!
//! Options come as the words that one would type, so what they may be, their defaults, and what is
//! said about wrong ones is declared once, with the command. [`describe`] tells Python of them.

use crate::failure::Failure;
use crate::outcome::{Found, Outcome};
use crate::watched::{Watched, watch};
use clap::{Arg, ArgAction, Args, Command};
use pyo3::prelude::*;
use seawall_lab::explore::{CorpusOptions, ExploreCommand};
use seawall_lab::litmus::LitmusOptions;
use seawall_lab::run::RunCommand;
use seawall_lab::validate::ValidateOptions;
use seawall_lab::{
    CompareOptions, FigureOptions, KernelOptions, SweepOptions, WhisperOptions, in_words,
};
use seawall_report::{Experiment, Form, Output, Progress, command_line, write_results};
use serde_json::{Value, json};
use std::any::TypeId;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) type Work =
    Box<dyn FnOnce(&Progress, &Arc<AtomicBool>) -> Result<Found, Failure> + Send>;

/// A command whose options are read, and which can run.
pub(crate) struct Ready {
    pub(crate) outputs: Vec<(Form, Output)>,
    pub(crate) work: Work,
}

/// Reads options, or says what is wrong with them.
type Read = fn(&[String]) -> Result<Ready, Failure>;

/// The commands of the package, some of which are another experiment with a program of others.
macro_rules! commands {
    ($($name:literal: $Options:ty $(, or $other:ident)?, $about:literal;)*) => {
        fn reader(name: &str) -> Option<Read> {
            match name {
                $($name => Some(|words| {
                    let options = parse::<$Options>($name, words)?;
                    $(if let Some(other) = options.$other() {
                        return ready(&other);
                    })?
                    ready(&options)
                }),)*
                _ => None,
            }
        }

        fn all() -> Vec<(Command, &'static str)> {
            vec![$((<$Options>::augment_args(Command::new($name)), $about)),*]
        }
    };
}

commands! {
    "compare": CompareOptions, or of_program,
        "Compare persistency designs on a simulated machine, with crashes.";
    "kernels": KernelOptions, or of_program,
        "Run parallel programs without a persistency call on a simulated machine, with crashes.";
    "sweep": SweepOptions,
        "Vary the numbers of designs and machines, and show how the cost of persistency grows.";
    "run": RunCommand,
        "Run a workload on this machine's memory, or recover what a run left.";
    "explore": ExploreCommand,
        "Try the images that a crash of a short run may leave.";
    "litmus": LitmusOptions,
        "Try all that a crash may leave of tiny programs, under models and on simulated designs.";
    "corpus": CorpusOptions,
        "Let the explorer find known bugs: small programs, each broken and fixed.";
    "reproduce": FigureOptions,
        "Measure the figures of the papers, theirs beside ours.";
    "whisper": WhisperOptions,
        "Count how applications use persistent memory, beside what was published.";
    "validate": ValidateOptions,
        "Hold the simulated machine to closed formulas, and to hardware where that was measured.";
}

pub(crate) fn parse<O: Args>(name: &'static str, words: &[String]) -> Result<O, Failure> {
    let command = O::augment_args(Command::new(name)).no_binary_name(true).disable_help_flag(true);
    let matches = command.clone().try_get_matches_from(words);
    let options = matches.and_then(|matches| O::from_arg_matches(&matches));
    options.map_err(|error| Failure::of_options(&in_words(error, &command), &command))
}

fn ready<E>(options: &E) -> Result<Ready, Failure>
where
    E: Experiment,
    E::Plan: Send + 'static,
    E::Report: Send + Sync + 'static,
{
    let plan = options.plan()?;
    let outputs = options.files(&plan).outputs()?;
    let work: Work = Box::new(move |progress, stop| Ok(Box::new(E::run(plan, progress, stop)?)));
    Ok(Ready { outputs, work })
}

/// Runs the command `name` with the words of its options. `follow` is called with what is done,
/// all, and a note; without it, `show` lets the command show its own progress.
#[pyfunction]
#[pyo3(signature = (name, words, follow, show))]
pub(crate) fn run(
    py: Python<'_>,
    name: &str,
    words: Vec<String>,
    follow: Option<Bound<'_, PyAny>>,
    show: bool,
) -> PyResult<Outcome> {
    let read = reader(name).ok_or_else(|| Failure::new(format!("no command '{name}'")))?;
    let ready = py.detach(|| read(&words))?;
    go_on(py, ready, (name, &words), follow.as_ref(), show)
}

/// Does the work of a command, and writes the files that it makes.
pub(crate) fn go_on(
    py: Python<'_>,
    ready: Ready,
    (name, words): (&str, &[String]),
    follow: Option<&Bound<'_, PyAny>>,
    show: bool,
) -> PyResult<Outcome> {
    let Ready { outputs, work } = ready;
    let progress = match (follow, show) {
        (Some(_), _) => Progress::watched(),
        (None, true) => Progress::on_stderr(),
        (None, false) => Progress::hidden(),
    };
    let stop = Arc::default();
    let (found, stopped_by) = match watch(py, follow, progress, &stop, work)? {
        Watched::Done(found) => (found, None),
        Watched::Stopped(found, error) => (found, Some(error)),
    };
    let mut told = Vec::new();
    let command =
        command_line(["seawall", name].into_iter().chain(words.iter().map(String::as_str)));
    py.detach(|| write_results(&*found, &outputs, &command, |text| told.push(text)))
        .map_err(|error| Failure::of(&error))?;
    Ok(Outcome::new(found, told, stopped_by))
}

/// The commands and their options, as JSON.
#[pyfunction]
pub(crate) fn describe() -> String {
    let commands = all().into_iter().map(|(mut command, about)| {
        command.build();
        let shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&id(arg));
        let options: Vec<Value> =
            command.get_arguments().filter(shown).map(|arg| option(&command, arg)).collect();
        let details = command.get_about().map(ToString::to_string);
        json!({"name": command.get_name(), "about": about, "details": details, "options": options})
    });
    Value::Array(commands.collect()).to_string()
}

fn id(arg: &Arg) -> &str {
    arg.get_id().as_str()
}

fn option(command: &Command, arg: &Arg) -> Value {
    let default = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let default: Vec<_> = default.filter(|_| !arg.is_hide_default_value_set()).collect();
    let values = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    let takes_value = arg.get_action().takes_values();
    json!({
        "id": id(arg),
        "flag": arg.get_long(),
        "help": arg.get_help().map(ToString::to_string),
        "group": arg.get_help_heading(),
        "kind": if takes_value { kind(arg) } else { "bool" },
        "is_list": matches!(arg.get_action(), ArgAction::Append),
        "has_delimiter": arg.get_value_delimiter().is_some(),
        "is_value_optional": arg.get_num_args().is_some_and(|count| count.min_values() == 0)
            && takes_value,
        "is_required": arg.is_required_set(),
        "values": if takes_value { values } else { Vec::new() },
        "default": default,
        "excludes": command.get_arg_conflicts_with(arg).iter().map(|it| id(it)).collect::<Vec<_>>(),
    })
}

fn kind(arg: &Arg) -> &'static str {
    let of = arg.get_value_parser().type_id();
    let is_any = |types: &[TypeId]| types.iter().any(|it| of == *it);
    let of_numbers =
        [TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u8>(), TypeId::of::<usize>()];
    if arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "COMMAND")) {
        "command"
    } else if is_any(&of_numbers) {
        "int"
    } else if is_any(&[TypeId::of::<f64>()]) {
        "float"
    } else if is_any(&[TypeId::of::<PathBuf>()]) {
        "path"
    } else {
        "str"
    }
}
