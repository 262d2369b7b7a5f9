//! What is typed to try all that a crash may leave: of runs, of litmus tests, of known bugs.

use super::flaws;
use clap::Args;
use seawall_lab::DefragOptions;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// Workload, case of the corpus, fast-fair or hash-table
    pub(crate) workload: String,
    /// Move objects together meanwhile, by a step behind each operation of the first thread:
    /// espresso, sfccd, ffccd, or sfccd:TRIGGER:TARGET
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "replay")]
    pub(crate) defragment: Option<DefragOptions>,
    /// Persistency models, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "px86,bep", value_name = "MODELS")]
    pub(crate) model: Vec<String>,
    /// Threads
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Operations of each thread
    #[arg(long, value_name = "N")]
    pub(crate) ops: Option<u64>,
    /// Entries at the start
    #[arg(long, value_name = "N")]
    pub(crate) entries: Option<u64>,
    /// Per cent of operations that only search
    #[arg(long, value_name = "PERCENT")]
    pub(crate) search: Option<u32>,
    /// Requests of YCSB instead of the workload's own: ycsb-a, .. (`seawall list mixes`)
    #[arg(long, value_name = "MIX", conflicts_with_all = ["search", "replay"])]
    pub(crate) mix: Option<String>,
    /// Schedules of the threads to try at most
    #[arg(long, value_name = "N")]
    pub(crate) schedules: Option<u64>,
    /// Interruptions of a thread in one schedule at most, where not at random
    #[arg(long, value_name = "N")]
    pub(crate) preemptions: Option<u64>,
    /// Seed of the operations, the schedules and the random images
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Crash states at most, for each model and part of a run
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<u64>,
    /// Crashes during recovery that follow the first crash
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u64>,
    /// Do one part of the work, as 3/64
    #[arg(long, value_name = "PART")]
    pub(crate) shard: Option<String>,
    /// File to note finished work in, and to go on from if stopped
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Crash after each store, too
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Break the structure on purpose: the same as --flaw no-order
    #[arg(long, conflicts_with = "flaw")]
    pub(crate) broken: bool,
    /// Break the structure on purpose
    #[arg(long, value_name = "FLAW", value_parser = flaws())]
    pub(crate) flaw: Option<String>,
    /// The fixed twin of a case of the corpus
    #[arg(long)]
    pub(crate) fixed: bool,
    /// Build one image again, as a finding printed it
    #[arg(long, value_name = "IMAGE")]
    pub(crate) replay: Option<String>,
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
    /// Ids (A01) or families (x86) of tests, or paths of .litmus files [default: the suite]
    #[arg(value_name = "TEST")]
    pub(crate) tests: Vec<String>,
    /// Persistency models, separated by commas, or none [default: all]
    #[arg(long, value_delimiter = ',', value_name = "MODELS")]
    pub(crate) models: Vec<String>,
    /// Designs, separated by commas, each NAME or NAME:KEY=VALUE:.., or none [default: all that
    /// promise something, in bulk mode with stores=2:records=4]
    #[arg(long, short, value_delimiter = ',', value_name = "DESIGNS")]
    pub(crate) designs: Vec<String>,
    /// Crashes of each test under each design
    #[arg(long, default_value_t = seawall_lab::litmus::LITMUS_CRASHES, value_name = "N")]
    pub(crate) crashes: u64,
    /// 10000 crashes of each test under each design
    #[arg(long, conflicts_with = "crashes")]
    pub(crate) long: bool,
    /// Seed of timing and crashes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
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
    /// Cases, or beginnings of their names [default: all]
    pub(crate) cases: Vec<String>,
    /// Crash after each store too, and crash recovery twice
    #[arg(long)]
    pub(crate) long: bool,
    /// Write a JSON record per case and model to this file [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
