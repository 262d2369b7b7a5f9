//! What is typed to run a workload on this machine.

use super::{RequestArgs, RibbonChoice};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use seawall_lab::DefragOptions;
use seawall_lab::run::EarlySource;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Workload
    pub(crate) workload: String,
    /// Threads
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) threads: usize,
    /// Seconds to run
    #[arg(long, default_value_t = 2.0, value_name = "N", conflicts_with = "ops")]
    pub(crate) seconds: f64,
    /// Operations of each thread, instead of a time
    #[arg(long, value_name = "N")]
    pub(crate) ops: Option<u64>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) requests: RequestArgs,
    /// Pool file to create; it stays after the run [default: a temporary one]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// File to create for the count of finished operations of each thread
    #[arg(long, value_name = "FILE")]
    pub(crate) witness: Option<PathBuf>,
    /// What a drain must survive: line, page or none [default: what fits the file]
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Leave flushes to other threads, where that pays, always, or never (and count)
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true,
          default_missing_value = "auto")]
    pub(crate) ribbon: Option<RibbonChoice>,
    /// Clean lines before their flush is asked for, where that pays, told of stores by the first of
    /// the others (auto), sampled addresses, marked pages, or handles, which then skip the flush
    #[arg(long, value_parser = early_source(), value_name = "SOURCE", requires = "ribbon",
          num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub(crate) early: Option<EarlySource>,
    /// Such threads [default: a processor fewer than there are, 1 to 24]
    #[arg(long, requires = "ribbon", value_name = "N")]
    pub(crate) flushers: Option<u64>,
    /// Count how much of each flushed line was dirty (which takes time)
    #[arg(long, conflicts_with_all = ["ribbon", "defragment"])]
    pub(crate) dirtiness: bool,
    /// Move objects together meanwhile, in a thread more: espresso, sfccd, or sfccd:TRIGGER:TARGET
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) defragment: Option<DefragOptions>,
    /// Measure how long each operation takes
    #[arg(long)]
    pub(crate) latency: bool,
    /// Recover and check this pool file instead of running
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["file", "witness", "ops", "seconds", "mix", "ribbon", "dirtiness",
                                "defragment", "latency"])]
    pub(crate) recover: Option<PathBuf>,
    /// Write what was done to this file, as one JSON record [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn early_source() -> impl TypedValueParser<Value = EarlySource> {
    let all = EarlySource::ALL;
    PossibleValuesParser::new(all.map(EarlySource::name)).try_map(move |name| {
        all.into_iter().find(|source| source.name() == name).ok_or("no such source")
    })
}
