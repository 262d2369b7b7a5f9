//! Starts the process for one run of a program, waits for it, and cleans up whatever happens.

use crate::request::{ANSWER, Answer, Asked, Place, REQUEST, Ran, Request, TIMELINE};
use seawall_sim::RunTimeline;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    /// A file or a process could not be made.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
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
pub fn run(run: &Run, stop: &AtomicBool) -> Result<Ran, ProgramError> {
    let folder = &run.request.folder;
    let io = |what: String| move |error| ProgramError::Io { what, error };
    let text =
        serde_json::to_string(&Asked::Run(run.request.clone())).expect("a request is plain data");
    std::fs::write(folder.join(REQUEST), text)
        .map_err(io(format!("cannot write to {}", folder.display())))?;
    let mut child = Server(start(run).map_err(io("cannot start the process of a program".into()))?);
    let begin = Instant::now();
    let mut pause = Duration::from_micros(500);
    let status = loop {
        let waited = child.0.try_wait();
        if let Some(status) = waited.map_err(io("cannot wait for a program".into()))? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(ProgramError::Stopped);
        }
        if begin.elapsed() > Duration::from_secs(run.seconds) {
            return Err(ProgramError::TooLong { program: program(run), seconds: run.seconds });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let answer = std::fs::read(folder.join(ANSWER));
    match answer.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        Some(Answer::Ran(mut ran)) => {
            if run.request.timeline.is_some() {
                let timeline = timeline(folder);
                ran.timeline = Some(timeline.map_err(io("cannot read a timeline".into()))?);
            }
            Ok(*ran)
        }
        Some(Answer::Failed { what, places }) => {
            Err(ProgramError::Failed { program: program(run), what, places })
        }
        Some(Answer::Served) | None => {
            Err(ProgramError::Ended { program: program(run), how: how(status), said: said(run) })
        }
    }
}

/// The timeline that a run has left.
fn timeline(folder: &Path) -> io::Result<RunTimeline> {
    let bytes = std::fs::read(folder.join(TIMELINE))?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

/// A process that is killed, with all that it started, when nobody waits for it any more.
pub(crate) struct Server(pub(crate) Child);

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let group = rustix::process::Pid::from_child(&self.0);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

fn start(run: &Run) -> io::Result<Child> {
    let folder = &run.request.folder;
    let input = match &run.input {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    let said = File::create(folder.join("stderr"))?;
    let (server, words) = run.server.split_first().expect("a server has a program");
    Command::new(server)
        .args(words)
        .arg(folder)
        .env("GLIBC_TUNABLES", TUNABLES)
        .process_group(0)
        .stdin(input)
        .stdout(File::create(folder.join("stdout"))?)
        .stderr(said)
        .spawn()
}

fn program(run: &Run) -> String {
    run.request.start.in_words()
}

fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended early, with exit code {}", status.code().unwrap_or(-1)),
    }
}

/// The end of what the program has printed on standard error, or else on standard output.
fn said(run: &Run) -> String {
    let folder = &run.request.folder;
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
