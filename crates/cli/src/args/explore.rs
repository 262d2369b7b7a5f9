//! What is typed to try all that a crash may leave: of runs, of litmus tests, of known bugs.

use clap::Args;
use seawall_lab::explore::{CorpusOptions, ExploreOptions};
use seawall_lab::litmus::LitmusOptions;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// Workload, case of the corpus, fast-fair or hash-table
    pub(crate) workload: String,
    #[command(flatten)]
    pub(crate) options: ExploreOptions,
    /// Break the structure on purpose: the same as --flaw no-order
    #[arg(long, conflicts_with = "flaw")]
    pub(crate) broken: bool,
    /// Write the report to this file, as one JSON record [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report to this file, as a page with what happened before each crash [if stopped:
    /// to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Litmus tests: a model must reach exactly the outcomes that a test's file expects, and a
/// simulated design must never leave any others, whenever it crashes.
#[derive(Debug, Args)]
#[command(after_help = LITMUS_LANGUAGE)]
pub(crate) struct LitmusArgs {
    #[command(flatten)]
    pub(crate) options: LitmusOptions,
    /// Write a JSON record per test to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const LITMUS_LANGUAGE: &str = "\
A test is a text file; only `thread:` lines are needed:
  title:    a store that is written back and fenced persists before the next
  thread:   W x 1 ; CO x ; SF ; W y 1
  memory:   x y
  question: x=0 & y=1
  px86:     forbidden; 00 10 11

Threads: W x v store, W2 x.a x.b v store that may tear, NT x v non-temporal store,
  R x r1 load into a register, FAA x n [r1] and CAS x old new r1 locked, CO x clwb,
  CF x clflush, SF sfence, MF mfence, PB persist barrier (ofence),
  DF durable barrier (dfence), NS new strand, JS join of strands,
  IF r1 v go on only if r1 is v.
Memory starts as 0; x and y are on lines of their own, x.a to x.h are the words of one line.
An outcome has one digit for each name in `memory:` (words after the crash, registers before it,
  - for a register not read). A model's line gives the answer and all outcomes; without such lines
  the outcomes are printed and held to nothing.";

#[derive(Debug, Args)]
pub(crate) struct CorpusArgs {
    #[command(flatten)]
    pub(crate) options: CorpusOptions,
    /// Write a JSON record per case and model to this file [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
