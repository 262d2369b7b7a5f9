//! Starts the process for one run of a program, and waits for its answer.

use crate::kept::Kept;
use crate::limit::Limit;
use crate::request::{ANSWER, Answer, Place, Ran, Request, TIMELINE, Task};
use seawall_sim::RunTimeline;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;

/// The most of what a program said that a message repeats, in bytes.
const SAID_MAX: u64 = 400;
/// Room for the thread-local variables of programs, which come after the start of the process.
pub(crate) const TUNABLES: &str = "glibc.rtld.optional_static_tls=4194304";

/// Why a program could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It does something that cannot be simulated, or the machine cannot run it.
    #[error("{program} {what}")]
    Failed {
        /// The command.
        program: String,
        /// What it does.
        what: String,
        /// Where its threads are.
        places: Vec<Place>,
    },
    /// It crashed.
    #[error("{program} {how}{said}")]
    Ended {
        /// The command.
        program: String,
        /// Its end.
        how: String,
        /// The end of what it printed.
        said: String,
    },
    /// It returned what says that it has failed.
    #[error(
        "{program} returned {code}{said}\n  if it returns that when all is well, say so with \
         --expect-exit {code}"
    )]
    Returned {
        /// The command.
        program: String,
        /// What it returned.
        code: i32,
        /// The end of what it printed.
        said: String,
    },
    /// It took too long.
    #[error(
        "{program} was stopped after {seconds} s; give it less to do, or more time with \
         --program-seconds"
    )]
    TooLong {
        /// The command.
        program: String,
        /// The limit.
        seconds: u64,
    },
    /// The user has stopped it.
    #[error("stopped on request")]
    Stopped,
    /// The time of the whole command is over.
    #[error(
        "the time was over before it was known which memory the program and its check use; give \
         it more --seconds, or less to do"
    )]
    TimeOver,
    /// A file or a process could not be made.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
}

impl From<io::Error> for ProgramError {
    fn from(error: io::Error) -> ProgramError {
        ProgramError::Io { what: "cannot keep the files of a run".into(), error }
    }
}

/// The command that another process is started by which serves programs, if it is not this one.
static SERVER: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// From now on processes of programs are started by this command, with the word and the arguments
/// behind it. Those who are no `seawall` themselves say so before the first program runs.
pub fn serve_by(command: Vec<PathBuf>) {
    // The first one stays: all processes of a run are of one kind.
    let _ = SERVER.set(command);
}

/// The command that starts a process of a program: `word` says which kind.
///
/// # Errors
/// If the system does not say where this program is.
pub fn server(word: &str) -> io::Result<Vec<PathBuf>> {
    let mut command = match SERVER.get() {
        Some(command) => command.clone(),
        None => vec![std::env::current_exe()?],
    };
    command.push(word.into());
    Ok(command)
}

/// A run and its limits.
#[derive(Clone, Debug)]
pub struct Run {
    /// What is asked.
    pub request: Request,
    /// The command that serves requests, before the folder of one.
    pub server: Vec<PathBuf>,
    /// What the program reads from standard input; nothing, if there is no file.
    pub input: Option<PathBuf>,
    /// Most seconds of real time.
    pub seconds: u64,
}

/// Runs a program; its folder must exist and be its own.
///
/// # Errors
/// Whatever keeps it from running to its end. The program's own exit code is no error.
pub fn run(run: &Run, limit: &Limit) -> Result<Ran, ProgramError> {
    let folder = &run.request.folder;
    let io = |what: &str| {
        let what = what.to_owned();
        move |error| ProgramError::Io { what, error }
    };
    let mut kept = start(run).map_err(io("cannot start the process of a program"))?;
    let program = program(run);
    let Some(status) = kept.wait(run.seconds, limit)? else {
        return Err(ProgramError::TooLong { program, seconds: run.seconds });
    };
    match answered(folder) {
        Some(Answer::Ran(mut ran)) => {
            if run.request.timeline.is_some() {
                let timeline = timeline(folder);
                ran.timeline = Some(timeline.map_err(io("cannot read a timeline"))?);
            }
            Ok(*ran)
        }
        Some(Answer::Failed { what, places }) => {
            Err(ProgramError::Failed { program, what, places })
        }
        Some(Answer::Served) | None => Err(ended(&program, status, folder)),
    }
}

/// What the process of a run has answered.
pub(crate) fn answered(folder: &Path) -> Option<Answer> {
    let answer = std::fs::read(folder.join(ANSWER)).ok()?;
    serde_json::from_slice(&answer).ok()
}

/// The timeline that a run has left.
fn timeline(folder: &Path) -> io::Result<RunTimeline> {
    let bytes = std::fs::read(folder.join(TIMELINE))?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

fn start(run: &Run) -> io::Result<Kept> {
    let folder = &run.request.folder;
    let input = match &run.input {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    let (out, err) = (File::create(folder.join("stdout"))?, File::create(folder.join("stderr"))?);
    let task = Task::Run(Box::new(run.request.clone()));
    Kept::start(&run.server, folder, task, |command| {
        command.env("GLIBC_TUNABLES", TUNABLES).stdin(input).stdout(out).stderr(err);
    })
}

fn program(run: &Run) -> String {
    run.request.start.in_words()
}

/// A program that has ended without an answer, or by a signal.
pub(crate) fn ended(program: &str, status: ExitStatus, folder: &Path) -> ProgramError {
    let how = match status.signal() {
        Some(signal) => format!("was ended by {}", signal_in_words(signal)),
        None => format!("ended early, with exit code {}", status.code().unwrap_or(-1)),
    };
    ProgramError::Ended { program: program.into(), how, said: said(folder) }
}

/// A signal with its name, if it is one that ends programs.
pub(crate) fn signal_in_words(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

/// The end of what the program has printed on standard error, or else on standard output.
fn said(folder: &Path) -> String {
    let texts = ["stderr", "stdout"].into_iter().filter_map(|name| tail(&folder.join(name)).ok());
    texts.filter(|text| !text.is_empty()).map(|text| format!(": {text}")).next().unwrap_or_default()
}

/// The end of a file of text, as much as a message repeats.
pub(crate) fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SAID_MAX)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
