//! The program as its compiler made it: what it prints on the host's own memory.

use super::command::ProgramCommand;
use super::output::Output;
use super::plan::{Program, ProgramPlan};
use crate::LabError;
use seawall_program::{FILES, Limit, NativeRun, ProgramError, make_files, run_natively};
use std::path::Path;

/// The output of a run cannot be read.
pub(super) fn unreadable(error: std::io::Error) -> LabError {
    ProgramError::Io { what: "cannot read what a program printed".into(), error }.into()
}

/// Runs it once in `folder`; it must end as it does when all is well. What it printed, if it ran.
pub(super) fn run(
    plan: &ProgramPlan,
    program: &Program,
    folder: &Path,
    limit: &Limit,
) -> Result<Option<Output>, LabError> {
    if plan.no_native {
        return Ok(None);
    }
    let command = &program.command;
    let files = folder.join(FILES);
    let pool = make_files(&files).map_err(|error| LabError::Folder { error })?;
    let words = command.with_pool(&pool);
    let code = run_natively(
        &NativeRun {
            program: command.text.clone(),
            path: command.path.clone(),
            words: words[1..].to_vec(),
            input: plan.input.clone(),
            folder: folder.to_owned(),
            files,
            seconds: plan.seconds,
        },
        limit,
    )?;
    if code != plan.exit_code {
        let (program, said) = (command.text.clone(), last_words(folder));
        return Err(ProgramError::Returned { program, code, said }.into());
    }
    Ok(Some(Output::of(folder)))
}

/// Runs a command with its files in `folder`; it must end with 0. What it prints goes to files of
/// `said`.
pub(crate) fn prepare(
    command: &ProgramCommand,
    folder: &Path,
    said: &Path,
    seconds: u64,
    limit: &Limit,
) -> Result<(), LabError> {
    let pool = make_files(folder).map_err(|error| LabError::Folder { error })?;
    let words = command.with_pool(&pool);
    let run = NativeRun {
        program: command.text.clone(),
        path: command.path.clone(),
        words: words[1..].to_vec(),
        input: None,
        folder: said.into(),
        files: folder.into(),
        seconds,
    };
    match run_natively(&run, limit)? {
        0 => Ok(()),
        code => {
            let (program, how) = (command.text.clone(), format!("returned {code}"));
            Err(ProgramError::Ended { program, how, said: last_words(said) }.into())
        }
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
