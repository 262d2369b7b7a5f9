//! Does what was typed, prints it, and says how it ended.

use crate::args::{BenchCommand, Command, PoolCommand, ShowCommand, What};
use crate::stop::Stop;
use anyhow::Result;
use seawall_lab::pool::ExamineOptions;
use seawall_lab::run::{NativeError, RunCommand};
use seawall_lab::{Doctor, Listing, show_design, show_machine};
use seawall_report::{Experiment, Finished, Form, Output, Progress, Report, ReportError, tell};
use std::io::{self, Write};
use std::process::ExitCode;

/// How a command ended.
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

/// Does what `command` asks for.
pub(crate) fn run(command: Command) -> Result<Verdict> {
    match command {
        Command::Compare(options) => match options.of_program() {
            Some(program) => experiment(&program),
            None => experiment(&options),
        },
        Command::Kernels(options) => match options.of_program() {
            Some(program) => experiment(&program),
            None => experiment(&options),
        },
        Command::Cc(_) | Command::Cxx(_) => anyhow::bail!("the words after it go to the compiler"),
        Command::ProgramCheck { image, entry, pool } => {
            seawall_program::check(&image, &entry, &pool)
        }
        Command::ProgramProcess { folder } => seawall_program::serve(&folder),
        Command::Sweep(options) => experiment(&options),
        Command::Run(options) => native(&options),
        Command::Explore(options) => experiment(&options),
        Command::Litmus(options) => experiment(&options),
        Command::Corpus(options) => experiment(&options),
        Command::Reproduce(options) if options.list => say(&Listing::Figures.to_text()?),
        Command::Reproduce(options) => experiment(&options),
        Command::Whisper(options) => experiment(&options),
        Command::Validate(options) => experiment(&options),
        Command::Bench(BenchCommand::Sim(options)) => experiment(&options),
        Command::Bench(BenchCommand::Dimms(options)) => experiment(&options),
        Command::Bench(BenchCommand::Explore(options)) => experiment(&options),
        Command::Bench(BenchCommand::Cc(options)) => experiment(&options),
        Command::List { what } => say(&listing(what).to_text()?),
        Command::Show(ShowCommand::Machine { name }) => say(&show_machine(&name)?),
        Command::Show(ShowCommand::Design { name }) => say(&show_design(&name)?),
        Command::Pool(PoolCommand::Info(options)) => experiment(&options),
        Command::Pool(PoolCommand::Check(options)) => {
            experiment(&ExamineOptions { is_brief: true, ..options })
        }
        Command::Doctor => say(&Doctor::examine().to_string()),
    }
}

/// Runs a command from its options to its results.
fn experiment<E: Experiment>(options: &E) -> Result<Verdict> {
    let plan = options.plan()?;
    let files = options.files(&plan);
    let has_partial = files.has_partial();
    let outputs = files.outputs()?;
    let stop = Stop::watch(&outputs, has_partial)?;
    let report = E::run(plan, &Progress::on_stderr(), stop.flag())?;
    report.notes().iter().for_each(tell);
    stop.writes();
    publish(&report, &outputs)?;
    Ok(match (report.found(), report.finished()) {
        (true, _) => Verdict::Found,
        (false, Finished::All) => Verdict::Fine,
        (false, _) => Verdict::Stopped,
    })
}

/// A run whose structure is damaged afterwards has found that.
fn native(options: &RunCommand) -> Result<Verdict> {
    let outcome = experiment(options);
    match outcome.as_ref().map_err(|error| error.downcast_ref()) {
        Err(Some(found @ NativeError::Broken { .. })) => {
            print(&format!("BROKEN: {found}\n"))?;
            Ok(Verdict::Found)
        }
        _ => outcome,
    }
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

/// Prints the report, writes the outputs, and says where they are if not all is there. One that
/// fails keeps none of the others from being tried; the first error is returned, others are said.
fn publish(report: &impl Report, outputs: &[(Form, Output)]) -> Result<()> {
    let mut published = print(&report.text());
    for (form, output) in outputs {
        let written = report.result(*form).and_then(|result| {
            let finished = match report.finished() {
                Finished::Some if result.is_empty() => Finished::Nothing,
                finished => finished,
            };
            output.put(finished, |path| result.write(path))
        });
        match (written, &published) {
            (Ok(said), _) => said.iter().for_each(tell),
            (Err(error), Ok(())) => published = Err(error),
            (Err(error), Err(_)) => tell(format_args!("error: {error}")),
        }
    }
    Ok(published?)
}

fn say(text: &str) -> Result<Verdict> {
    print(text)?;
    Ok(Verdict::Fine)
}

/// Prints; a reader that has gone away has seen enough.
fn print(text: &str) -> Result<(), ReportError> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match printed {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(ReportError::File { path: "standard output".into(), source })
        }
        _ => Ok(()),
    }
}
