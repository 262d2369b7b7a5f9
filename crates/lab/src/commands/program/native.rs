//! The program as its compiler made it: what it returns on the host's own memory.

use super::ProgramPlan;
use super::cell::Bench;
use super::command::ProgramCommand;
use super::output::Output;
use crate::LabError;
use seawall_program::ProgramError;
use seawall_sim::SimError;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What it did.
pub(super) struct Native {
    pub(super) exit_code: i32,
    /// What it printed, if it ran.
    pub(super) output: Option<Output>,
}

impl Native {
    /// What it printed, if that is to be shown.
    pub(super) fn printed(&self, plan: &ProgramPlan) -> Result<Option<String>, LabError> {
        let output = self.output.as_ref().filter(|_| plan.show_output);
        output.map(|output| output.text().map_err(unreadable)).transpose()
    }
}

/// The output of a run cannot be read.
pub(super) fn unreadable(error: std::io::Error) -> LabError {
    ProgramError::Io { what: "cannot read what a program printed".into(), error }.into()
}

/// Runs it once.
pub(super) fn run(
    plan: &ProgramPlan,
    bench: &Bench,
    stop: &AtomicBool,
) -> Result<Native, LabError> {
    if plan.no_native {
        return Ok(Native { exit_code: 0, output: None });
    }
    let folder = bench.folder("native")?;
    let input = plan.input.as_deref();
    run_in(&folder, &folder.join("pool"), &plan.command, input, plan.seconds, stop)
}

/// Runs a command that makes the file `pool` in `folder`; it must end with 0.
pub(crate) fn prepare(
    command: &ProgramCommand,
    folder: &Path,
    seconds: u64,
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let said = tempfile::tempdir().map_err(|error| LabError::Folder { error })?;
    let pool = folder.join("pool");
    let Native { exit_code, .. } = run_in(said.path(), &pool, command, None, seconds, stop)?;
    if exit_code == 0 {
        return Ok(());
    }
    let (program, how) = (command.text.clone(), format!("returned {exit_code}"));
    Err(ProgramError::Ended { program, how, said: last_words(said.path()) }.into())
}

/// Runs a command, with what it prints in files of `folder`.
fn run_in(
    folder: &Path,
    pool: &Path,
    command: &ProgramCommand,
    input: Option<&Path>,
    seconds: u64,
    stop: &AtomicBool,
) -> Result<Native, LabError> {
    let program = &command.text;
    let io =
        |what: String| move |error| LabError::from(ProgramError::Io { what: what.clone(), error });
    let open = |name: &str| File::create(folder.join(name));
    let input = match input {
        Some(path) => File::open(path).map(Stdio::from),
        None => Ok(Stdio::null()),
    };
    let input = input.map_err(io("cannot read --input".into()))?;
    let words = command.with_pool(pool);
    let failed = io(format!("cannot run {program}"));
    let mut child = Command::new(&command.path)
        .args(&words[1..])
        .stdin(input)
        .stdout(open("stdout").map_err(&failed)?)
        .stderr(open("stderr").map_err(&failed)?)
        .spawn()
        .map_err(&failed)?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(&failed)? {
            let Some(exit_code) = status.code() else {
                let (program, how) = (program.clone(), format!("cannot run natively: {status}"));
                return Err(ProgramError::Ended { program, how, said: last_words(folder) }.into());
            };
            return Ok(Native { exit_code, output: Some(Output::of(folder)) });
        }
        let is_late = begin.elapsed() > Duration::from_secs(seconds);
        if is_late || stop.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(if is_late {
                ProgramError::TooLong { program: program.clone(), seconds }.into()
            } else {
                SimError::Stopped.into()
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The last line that a run in `folder` has printed, as the end of a message.
pub(super) fn last_words(folder: &Path) -> String {
    for name in ["stderr", "stdout"] {
        let text = std::fs::read(folder.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if let Some(line) = text.trim().lines().last() {
            return format!(": {line}");
        }
    }
    String::new()
}
