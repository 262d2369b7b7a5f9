//! What a native run or a recovery reports, for people and for programs.

use seawall_native::Pool;
use seawall_workloads::Contents;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// What [`run_native`](super::run_native) did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum NativeReport {
    /// It ran operations.
    Run(RunReport),
    /// It recovered a pool file.
    Recovery(RecoveryReport),
}

/// Where a pool is and what it survives.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// The pool file; none for a temporary one.
    pub file: Option<PathBuf>,
    /// Size of the pool in bytes.
    pub pool_bytes: u64,
    /// Name of the flush instruction.
    pub flush: &'static str,
    /// Why this one.
    pub flush_why: String,
    /// Name of the durability domain.
    pub domain: &'static str,
    /// True if drained data survives a power failure.
    pub durable: bool,
    /// What drained data survives, in words.
    pub durability: String,
}

/// A run on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// The workload.
    pub workload: &'static str,
    /// OS threads.
    pub threads: usize,
    /// The seed.
    pub seed: u64,
    /// Entries after population.
    pub entries_before: u64,
    /// Entries after the run.
    pub entries_after: u64,
    /// Operations that each thread finished.
    pub operations: Vec<u64>,
    /// Wall-clock seconds that they took.
    pub seconds: f64,
    /// All operations by those seconds.
    pub operations_per_second: f64,
    /// Lines that were flushed, by all threads.
    pub flushed_lines: u64,
    /// Fences, by all threads.
    pub fences: u64,
    /// Where it ran.
    #[serde(flatten)]
    pub place: Place,
}

/// A recovery on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryReport {
    /// The workload.
    pub workload: &'static str,
    /// Entries after recovery, all of which the check has seen.
    pub entries: u64,
    /// Wall-clock seconds of the recovery, without the check.
    pub seconds: f64,
    /// Where it ran.
    #[serde(flatten)]
    pub place: Place,
    /// What the structure holds.
    #[serde(skip)]
    pub contents: Contents,
}

impl Place {
    pub(super) fn of(pool: &Pool, file: Option<&PathBuf>) -> Place {
        Place {
            file: file.cloned(),
            pool_bytes: pool.bytes(),
            flush: pool.instruction().kind.name(),
            flush_why: pool.instruction().why.clone(),
            domain: pool.domain().name(),
            durable: pool.is_durable(),
            durability: pool.durability().to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => writeln!(f, "pool        {}, {} bytes", file.display(), self.pool_bytes)?,
            None => writeln!(f, "pool        a temporary file, {} bytes", self.pool_bytes)?,
        }
        writeln!(f, "flush       {}: {}", self.flush, self.flush_why)?;
        writeln!(f, "domain      {}", self.domain)?;
        writeln!(f, "durability  {}", self.durability)
    }
}

impl fmt::Display for NativeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NativeReport::Run(run) => write!(f, "{run}"),
            NativeReport::Recovery(recovery) => write!(f, "{recovery}"),
        }
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.operations.iter().sum();
        writeln!(f, "workload    {}, seed {}", self.workload, self.seed)?;
        write!(f, "{}", self.place)?;
        writeln!(
            f,
            "speed       {:.0} operations/s on this machine, wall clock ({total} in {:.3} s)",
            self.operations_per_second, self.seconds
        )?;
        let each: Vec<String> = self.operations.iter().map(u64::to_string).collect();
        writeln!(f, "threads     {}, which finished {}", self.threads, each.join(", "))?;
        if total > 0 {
            let by = |count: u64| count as f64 / total as f64;
            let (lines, fences) = (by(self.flushed_lines), by(self.fences));
            writeln!(f, "operation   {lines:.2} lines flushed, {fences:.2} fences")?;
        }
        let (before, after) = (self.entries_before, self.entries_after);
        writeln!(f, "entries     {before} before, {after} after; the invariants hold")
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "workload    {}, recovered in {:.6} s", self.workload, self.seconds)?;
        write!(f, "{}", self.place)?;
        writeln!(f, "entries     {}; the invariants hold", self.entries)
    }
}
