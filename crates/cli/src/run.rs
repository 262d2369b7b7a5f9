//! Does what was typed, prints it, and says how it ended.

use crate::args::{BenchCommand, Command, PoolCommand, ShowCommand};
use crate::shell;
use crate::stop::Stop;
use crate::terminal::room;
use anyhow::Result;
use seawall_lab::pool::ExamineOptions;
use seawall_lab::run::{NativeError, RunCommand};
use seawall_lab::{Doctor, Listing, show_design, show_machine};
use seawall_program::CheckLayout;
use seawall_report::{
    Experiment, Finished, Form, Output, Progress, Report, ReportError, Room, command_line, tell,
    within, write_results,
};
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
        Command::ProgramCheck { image, entry, pool, keeps_code } => {
            seawall_program::check(&image, &entry, &pool, CheckLayout { keeps_code })
        }
        Command::ProgramFolders { process } => seawall_program::keep_folders(process),
        Command::ProgramProcess { folder } => seawall_program::serve(&folder),
        Command::Sweep(options) => match &options.dask {
            Some(address) => match crate::dask::sweep(&options, address)? {},
            None => experiment(&options),
        },
        Command::Run(options) => native(&options),
        Command::Explore(options) => experiment(&options),
        Command::Litmus(options) => experiment(&options),
        Command::Corpus(options) => experiment(&options),
        Command::Reproduce(options) if options.list => list(Listing::Figures),
        Command::Reproduce(options) => experiment(&options),
        Command::Whisper(options) => experiment(&options),
        Command::Validate(options) => experiment(&options),
        Command::Bench(BenchCommand::Sim(options)) => experiment(&options),
        Command::Bench(BenchCommand::Dimms(options)) => experiment(&options),
        Command::Bench(BenchCommand::Explore(options)) => experiment(&options),
        Command::Bench(BenchCommand::Cc(options)) => experiment(&options),
        Command::List { what } => list(what),
        Command::Show(ShowCommand::Machine { name }) => say(&show_machine(&name)?),
        Command::Show(ShowCommand::Design { name }) => {
            say(&within(room(false), || show_design(&name))?)
        }
        Command::Pool(PoolCommand::Info(options)) => experiment(&options),
        Command::Pool(PoolCommand::Check(options)) => {
            experiment(&ExamineOptions { is_brief: true, ..options })
        }
        Command::Completions { shell } => say(&shell::completions(shell)?),
        Command::Man { folder } => shell::manual(&folder).map(|()| Verdict::Fine),
        Command::Doctor => say(&Doctor::examine().to_string()),
    }
}

/// Runs a command from its options to its results.
fn experiment<E: Experiment>(options: &E) -> Result<Verdict> {
    let (stop, watched) = Stop::watch();
    let plan = options.plan()?;
    let files = options.files(&plan);
    let has_partial = files.has_partial();
    let outputs = files.outputs()?;
    if let (Err(source), true) = (watched, has_partial) {
        return Err(ReportError::Thread { what: "for signals", source }.into());
    }
    stop.runs(&outputs, has_partial);
    let room = room(true);
    let progress = Progress::on_stderr().with_parts(room, print);
    let report = E::run(plan, &progress, stop.flag())?;
    report.notes().iter().for_each(tell);
    stop.writes();
    publish(&report, &outputs, room, &progress.shown())?;
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

/// Prints the report but for its beginning that was `shown`, writes the outputs, and says where
/// they are if not all is there. A failure keeps nothing else from being tried; the first is
/// returned, the others are said.
fn publish(
    report: &impl Report,
    outputs: &[(Form, Output)],
    room: Option<Room>,
    shown: &str,
) -> Result<()> {
    let text = match report.finished() {
        Finished::Nothing => "PARTIAL: stopped before any result was complete\n".into(),
        _ => within(room, || report.text()),
    };
    let printed = print(text.strip_prefix(shown).unwrap_or(&text));
    let written = write_results(report, outputs, &typed(), tell);
    if let (Err(_), Err(error)) = (&printed, &written) {
        tell(format_args!("error: {error}"));
    }
    Ok(printed.and(written)?)
}

fn list(what: Listing) -> Result<Verdict> {
    say(&within(room(false), || what.to_text())?)
}

/// The command, as a shell would read it again.
fn typed() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    command_line(std::iter::once("seawall".to_owned()).chain(words))
}

pub(crate) fn say(text: &str) -> Result<Verdict> {
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
