//! The parts that need another process: being killed, and counting with a preloaded library.
//!
//! libpmem and libpmemobj read their environment before `main`, so the program starts itself again
//! with it ([`with_environment`]); children inherit it.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::env;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

/// Makes libpmem flush lines of a file on tmpfs, and libpmemobj work without libndctl.
pub(crate) const ENVIRONMENT: [(&str, &str); 2] =
    [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMOBJ_CONF", "sds.at_create=0")];

const SIGKILL: i32 = 9;

/// The library whose pool is open when a child is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// libpmemobj's.
    Theirs,
    /// seawall's.
    Ours,
}

/// Starts this program again unless the environment is the one that libpmemobj needs.
///
/// # Errors
/// If it cannot be started; otherwise this function returns only in the right environment.
pub(crate) fn with_environment() -> Result<()> {
    let is_set = |(name, value): &(&str, &str)| env::var(name).as_deref() == Ok(*value);
    if ENVIRONMENT.iter().all(is_set) {
        return Ok(());
    }
    let error = this_program()?.args(env::args_os().skip(1)).envs(ENVIRONMENT).exec();
    Err(error).context("cannot start this program again with libpmemobj's environment")
}

fn this_program() -> Result<Command> {
    Ok(Command::new(env::current_exe().context("cannot tell where this program is")?))
}

/// Runs a child that opens the pool at `path` and is killed in the middle of a transaction.
///
/// # Errors
/// If it ends in any other way.
pub(crate) fn killed_in_transaction(side: Side, path: &Path) -> Result<()> {
    let name = side.to_possible_value().map(|value| value.get_name().to_string());
    let mut command = this_program()?;
    command.arg("--die-in").arg(name.unwrap_or_default()).arg("--pool").arg(path);
    let output = command.output().context("cannot start a child")?;
    if output.status.signal() != Some(SIGKILL) {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("the child that was to be killed ended otherwise: {}: {said}", output.status);
    }
    Ok(())
}

/// Runs this program with `arguments` and the counting library; returns its output.
///
/// # Errors
/// When it fails.
pub(crate) fn counting(arguments: &[String]) -> Result<String> {
    let mut command = this_program()?;
    command.args(arguments).env("LD_PRELOAD", env!("COUNTING_LIBRARY"));
    let output = command.output().context("cannot start the counting child")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("the counting child failed: {}: {said}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
