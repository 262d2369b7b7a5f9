//! Processes of programs, each with a keeper of its own: nothing of a program stays.
//!
//! The keeper (`process/keeper.rs`) is the process that is started. It starts the program, ends as
//! the program ends, and before that kills all that the program has started. So it does when it is
//! asked to, and when the process that has started it is gone.

use crate::folder::Asker;
use crate::limit::Limit;
use crate::request::{Answer, Asked, Native, REQUEST, Task};
use crate::spawn::{ProgramError, answered, ended};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A process with its keeper. It is killed, with all that it has started, when nobody waits for it
/// any more.
pub(crate) struct Kept(pub(crate) Child);

impl Kept {
    /// Starts what is asked for in `folder`, by the command that serves requests. Its streams and
    /// its environment are those of `prepare`.
    pub(crate) fn start(
        server: &[PathBuf],
        folder: &Path,
        task: Task,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Kept> {
        let asked = Asked { by: Asker::this(), task };
        std::fs::write(folder.join(REQUEST), serde_json::to_string(&asked)?)?;
        let (program, words) = server.split_first().expect("a server has a program");
        let mut command = Command::new(program);
        command.args(words).arg(folder).process_group(0);
        prepare(&mut command);
        command.spawn().map(Kept)
    }

    /// Waits for its end, so many seconds at most; `None` if they are over.
    pub(crate) fn wait(
        &mut self,
        seconds: u64,
        limit: &Limit,
    ) -> Result<Option<ExitStatus>, ProgramError> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            let waited = self.0.try_wait();
            let what = || "cannot wait for a program".to_owned();
            let waited = waited.map_err(|error| ProgramError::Io { what: what(), error })?;
            if waited.is_some() {
                return Ok(waited);
            }
            limit.check()?;
            if begin.elapsed() > Duration::from_secs(seconds) {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Limit::LOOK);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}

/// A program that runs as it is, on the host's own memory.
#[derive(Clone, Debug)]
pub struct NativeRun {
    /// The command, as messages name it.
    pub program: String,
    /// Its file.
    pub path: PathBuf,
    /// Its words, but for the first.
    pub words: Vec<String>,
    /// What it reads from standard input; nothing, if there is no file.
    pub input: Option<PathBuf>,
    /// A folder for files of this run, in which what it prints goes to `stdout` and `stderr`.
    pub folder: PathBuf,
    /// The folder of its files.
    pub files: PathBuf,
    /// Most seconds of real time.
    pub seconds: u64,
}

/// Runs a program natively; returns its exit code.
///
/// # Errors
/// Whatever keeps it from running to its end, a signal too.
pub fn run_natively(run: &NativeRun, limit: &Limit) -> Result<i32, ProgramError> {
    let NativeRun { program, path, words, input, folder, files, seconds } = run;
    let io = |what: String| move |error| ProgramError::Io { what, error };
    let input = match input {
        Some(path) => File::open(path).map(Stdio::from),
        None => Ok(Stdio::null()),
    };
    let input = input.map_err(io("cannot read --input".into()))?;
    let start = || {
        let streams = [File::create(folder.join("stdout"))?, File::create(folder.join("stderr"))?];
        let [out, err] = streams.map(Stdio::from);
        let server = crate::spawn::server("program-process")?;
        let (path, words, files) = (path.clone(), words.clone(), files.clone());
        let task = Task::Natively(Native { path, words, files });
        Kept::start(&server, folder, task, |command| {
            command.stdin(input).stdout(out).stderr(err);
        })
    };
    let mut kept = start().map_err(io(format!("cannot run {program}")))?;
    let Some(status) = kept.wait(*seconds, limit)? else {
        return Err(ProgramError::TooLong { program: program.clone(), seconds: *seconds });
    };
    match (answered(folder), status.code()) {
        (Some(Answer::Failed { what, .. }), _) => {
            Err(io(format!("cannot run {program}"))(io::Error::other(what)))
        }
        (_, Some(code)) => Ok(code),
        (_, None) => Err(ended(program, status, folder)),
    }
}
