//! The options of programs of others, which `compare` and `kernels` share.

use crate::LabError;
use clap::{Args, ValueEnum};
use seawall_program::Fences;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The function that seawall.h declares as the check.
pub(in crate::commands) const CHECK_ENTRY: &str = "seawall_check";

/// Which memory of a program survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PmChoice {
    /// Files that it maps shared, and what it declares
    Files,
    /// Its heap too
    Heap,
    /// All of its memory
    All,
}

/// What the program's store fences ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FenceChoice {
    /// That earlier stores persist first
    Order,
    /// That earlier stores are durable
    Drain,
}

impl FenceChoice {
    /// What the program is run with.
    pub(in crate::commands) fn fences(chosen: Option<FenceChoice>) -> Fences {
        match chosen {
            Some(FenceChoice::Drain) => Fences::Drain,
            Some(FenceChoice::Order) | None => Fences::Order,
        }
    }
}

/// When measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FromChoice {
    /// With main, or where the program says so
    Start,
    /// With its first thread, or where the program says so
    Threads,
}

/// A program that was compiled with `seawall cc`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Programs of others")]
pub struct ProgramOptions {
    /// Run this command, of a program that `seawall cc` compiled; {pool} stands for a file of its
    /// own for each run. Given several times, as NAME=COMMAND, the programs are compared
    #[arg(id = "command", long = "program", value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// Check what each crash leaves with this command, which ends with 0 if {pool} is sound; of
    /// several programs all, or with NAME=COMMAND the one of that name
    #[arg(id = "check", long = "check", value_name = "COMMAND", requires = "command")]
    pub checks: Vec<String>,
    /// Hold it to this function of the program instead, int NAME(const char *pool)
    #[arg(long, value_name = "NAME", requires = "command", conflicts_with = "check",
          num_args = 0..=1, default_missing_value = CHECK_ENTRY)]
    pub check_entry: Option<String>,
    /// What of its memory is persistent [default: files; with `kernels`: all]
    #[arg(long, value_name = "WHAT", requires = "command")]
    pub pm: Option<PmChoice>,
    /// What its sfence asks for, on designs with two kinds of fence [default: order]
    #[arg(long, value_name = "KIND", requires = "command")]
    pub fence: Option<FenceChoice>,
    /// When measuring begins [default: start; with `kernels`: threads]
    #[arg(long, value_name = "WHEN", requires = "command")]
    pub from: Option<FromChoice>,
    /// What it reads from standard input [default: nothing]
    #[arg(long, value_name = "FILE", requires = "command")]
    pub input: Option<PathBuf>,
    /// What it returns when all is well [default: 0]
    #[arg(long, value_name = "N", requires = "command")]
    pub expect_exit: Option<u8>,
    /// Do not run it natively first
    #[arg(long, requires = "command")]
    pub no_native: bool,
    /// Show what it prints, natively and under each design
    #[arg(long, requires = "command")]
    pub show_output: bool,
    /// Show which lines of it the time goes to under each design, and why
    #[arg(long, requires = "command")]
    pub profile: bool,
    /// Write that to this file, for viewers of flame graphs: `design;function;line;reason cycles`
    #[arg(long, value_name = "FILE", requires = "command")]
    pub profile_folded: Option<PathBuf>,
    /// Stop a run of it after so many seconds [default: 3600]
    #[arg(long = "program-seconds", value_name = "N", requires = "command")]
    pub seconds: Option<u64>,
}

impl ProgramOptions {
    /// Refuses what would have no effect without a program. That these options need one is also
    /// declared with them, but the parser forgets that beside an option that excludes programs.
    pub(crate) fn check_alone(&self) -> Result<(), LabError> {
        let given = [
            ("--check", !self.checks.is_empty()),
            ("--check-entry", self.check_entry.is_some()),
            ("--pm", self.pm.is_some()),
            ("--fence", self.fence.is_some()),
            ("--from", self.from.is_some()),
            ("--input", self.input.is_some()),
            ("--expect-exit", self.expect_exit.is_some()),
            ("--no-native", self.no_native),
            ("--show-output", self.show_output),
            ("--profile", self.profile),
            ("--profile-folded", self.profile_folded.is_some()),
            ("--program-seconds", self.seconds.is_some()),
        ];
        needs_program(!self.commands.is_empty(), &given)
    }
}

/// Refuses the first of the options that is given, unless there is a program.
pub(crate) fn needs_program(
    is_there: bool,
    options: &[(&'static str, bool)],
) -> Result<(), LabError> {
    match options.iter().find(|(_, is_given)| *is_given && !is_there) {
        Some((option, _)) => Err(LabError::NeedsProgram { option }),
        None => Ok(()),
    }
}
