//! `seawall sweep --dask`: the points of a sweep on the workers of a Dask cluster.
//!
//! Dask is spoken to by the Python package of seawall, which has the same sweep. What can be wrong
//! with the experiment is found here; then Python takes the place of this process, so that Ctrl-C,
//! what is printed, and the exit code are its own.

use anyhow::{Context as _, Result, bail};
use seawall_lab::SweepOptions;
use seawall_report::Experiment;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Prints the version of the package, or which module is missing.
const LOOK: &str = "
try:
    import distributed, seawall
    print(seawall.__version__)
except ModuleNotFoundError as error:
    print('no', error.name)
";

/// Lets Python run the sweep; returns if that cannot be done.
pub(crate) fn sweep(options: &SweepOptions, address: &str) -> Result<Infallible> {
    let plan = options.plan()?;
    options.files(&plan).outputs()?;
    let python = std::env::var_os("SEAWALL_PYTHON").unwrap_or_else(|| "python3".into());
    look(&python)?;
    let mut command = Command::new(&python);
    command.args(["-m", "seawall.dask_sweep", "--scheduler", address]);
    for (flag, path) in [
        ("--out", &options.out),
        ("--plot", &options.plot),
        ("--html", &options.html),
        ("--csv", &options.sheet.csv),
        ("--latex", &options.sheet.latex),
    ] {
        if let Some(path) = path {
            command.arg(flag).arg(path);
        }
    }
    let error = command.arg("--").arg(&options.experiment).exec();
    Err(error).with_context(|| cannot_run(&python))
}

fn cannot_run(python: &OsString) -> String {
    format!(
        "cannot run {}, which speaks to Dask: install Python, or name one with SEAWALL_PYTHON",
        python.to_string_lossy()
    )
}

/// Whether Python has what is needed: the package of this version, and Dask.
fn look(python: &OsString) -> Result<()> {
    let said = Command::new(python).args(["-c", LOOK]).output();
    let said = said.with_context(|| cannot_run(python))?;
    let name = python.to_string_lossy();
    let here = env!("CARGO_PKG_VERSION");
    let remedy = "or name another Python with SEAWALL_PYTHON";
    match String::from_utf8_lossy(&said.stdout).trim() {
        version if version == here => Ok(()),
        "no seawall" => bail!(
            "{name} has no package seawall: install that of this version (pip install \
             ./crates/python), {remedy}"
        ),
        missing if missing.starts_with("no ") => bail!(
            "{name} has no package {}: pip install distributed, {remedy}",
            missing.trim_start_matches("no ")
        ),
        "" => bail!(
            "{name} cannot load the package seawall: {}; {remedy}",
            String::from_utf8_lossy(&said.stderr).lines().last().unwrap_or("it says nothing")
        ),
        version => bail!(
            "{name} has version {version} of the package seawall, and this is {here}: install that \
             version, {remedy}"
        ),
    }
}
