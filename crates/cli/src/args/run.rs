//! What is typed to run a workload on this machine.

use clap::Args;
use seawall_lab::run::NativeOptions;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Workload
    pub(crate) workload: String,
    #[command(flatten)]
    pub(crate) options: NativeOptions,
    /// Write what was done to this file, as one JSON record [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
