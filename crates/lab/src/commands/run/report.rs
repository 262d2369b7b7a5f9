//! What a native run or a recovery reports, for people and for programs.

use super::times::LatencyReport;
use seawall_native::Pool;
use seawall_ribbon::DirtyCounts;
use seawall_ribbon::{CleanerCounters, RibbonCounts, RibbonPool, Taken};
use seawall_runtime::defrag::{DefragCounts, DefragOptions};
use seawall_workloads::Contents;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What [`run_native`](super::run_native) did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum NativeReport {
    /// It ran operations.
    Run(Box<RunReport>),
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
    pub workload: &'static str,
    /// The mix of requests; none for the workload's own operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<String>,
    pub threads: usize,
    pub seed: u64,
    pub entries_before: u64,
    /// Entries after the run.
    pub entries_after: u64,
    /// Operations that each thread finished.
    pub operations: Vec<u64>,
    /// Wall-clock seconds that they took.
    pub seconds: f64,
    /// All operations by those seconds.
    pub operations_per_second: f64,
    /// Lines that were flushed, by all threads, flushers included.
    pub flushed_lines: u64,
    /// Fences, by all threads, flushers included.
    pub fences: u64,
    /// What the Ribbon did, if there was one.
    pub ribbon: Option<RibbonReport>,
    /// What the thread that defragments did, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collector: Option<CollectorReport>,
    /// Bytes of pages of 4 KiB for each live byte at the end, if it lives in a heap of typed
    /// objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_a_byte: Option<f64>,
    /// How long operations took, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyReport>,
    /// How much of the flushed lines was dirty, if that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirtiness: Option<DirtinessReport>,
    /// Where it ran.
    #[serde(flatten)]
    pub place: Place,
}

/// What a Ribbon did in a run.
#[derive(Clone, Debug, Serialize)]
pub struct RibbonReport {
    /// "auto", "always" or "never".
    pub mode: &'static str,
    /// Why it was off, if it was.
    pub off: Option<String>,
    /// Flushers that were started.
    pub flushers: u64,
    /// Of those, as many as were at work at the end.
    pub active: u64,
    /// Flushers that panicked, or that the system had no thread for.
    pub lost: u64,
    /// Lines that were flushed, a second of the run.
    pub lines_per_second: f64,
    /// Lines that flushers executed.
    pub by_flushers: u64,
    /// Lines that no flusher had taken on when their owner's fence came, which executed them.
    pub at_fences: u64,
    /// Lines that threads flushed at once: it was cheaper, or the FIFO was full.
    pub at_once: u64,
    /// Lines that were known to be clean, and not flushed.
    pub skipped: u64,
    /// Lines that flushers cleaned before they were asked for.
    pub cleaned: u64,
    pub flusher_fences: u64,
    /// Times that an owner did the work of a flusher that did not come back.
    pub takeovers: u64,
    /// Times that a thread changed its way of flushing.
    pub switches: u64,
    /// How lines were cleaned early, if they were to be.
    pub early: Option<EarlyReport>,
}

/// How lines were cleaned before their flush was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct EarlyReport {
    /// The source of the stores: "samples", "pages", "soft-dirty" or "hook".
    pub source: &'static str,
    /// The sources before it, by name, and why they were not taken.
    pub refused: Vec<(&'static str, String)>,
    /// What the cleaner did; none with the hook, whose lines flushers clean.
    pub cleaner: Option<CleanerReport>,
}

/// What the cleaner of a pool did.
#[derive(Clone, Debug, Serialize)]
pub struct CleanerReport {
    /// Times that it asked for recent stores.
    pub looks: u64,
    /// Lines that were found, once for each look that found them.
    pub found: u64,
    /// Of those, lines that it flushed.
    pub cleaned: u64,
    /// Of those found, lines that it had flushed at the look before.
    pub in_vain: u64,
    pub fences: u64,
    /// Why it stopped, if it did.
    pub stopped: Option<String>,
}

impl EarlyReport {
    fn of(taken: &Taken, cleaner: Option<CleanerCounters>) -> EarlyReport {
        let refused = taken.refused.iter().map(|(source, why)| (source.name(), why.clone()));
        let cleaner = cleaner.map(|counters| {
            let CleanerCounters { looks, found, cleaned, in_vain, fences, stopped, .. } = counters;
            CleanerReport { looks, found, cleaned, in_vain, fences, stopped }
        });
        EarlyReport { source: taken.source.name(), refused: refused.collect(), cleaner }
    }
}

impl RibbonReport {
    /// Of a pool whose threads ran for that many seconds.
    pub(super) fn of(pool: &RibbonPool<Pool>, seconds: f64) -> RibbonReport {
        let (counters, options) = (pool.counters(), pool.options());
        let RibbonCounts { by_flushers, by_owners, inline, full, cleaned, .. } = counters.counts;
        RibbonReport {
            mode: options.mode.name(),
            off: pool.off().map(str::to_owned),
            flushers: options.flushers,
            active: counters.flushers,
            lost: counters.lost,
            lines_per_second: counters.lines as f64 / seconds.max(f64::MIN_POSITIVE),
            by_flushers,
            at_fences: by_owners,
            at_once: inline + full,
            skipped: counters.skipped,
            cleaned,
            flusher_fences: counters.counts.flusher_fences,
            takeovers: counters.counts.takeovers,
            switches: counters.counts.switches,
            early: pool.early().map(|taken| EarlyReport::of(taken, counters.cleaner)),
        }
    }

    /// The lines and the fences that the handles of the application threads have not counted.
    pub(super) fn flushed_for_threads(&self) -> [u64; 2] {
        let cleaner = self.early.as_ref().and_then(|early| early.cleaner.as_ref());
        let [cleaned, fences] = cleaner.map_or([0, 0], |cleaner| [cleaner.cleaned, cleaner.fences]);
        [self.by_flushers + self.cleaned + cleaned, self.flusher_fences + fences]
    }
}

impl fmt::Display for RibbonReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.off {
            return write!(f, "off: no line is flushed here ({why})");
        }
        let asked = self.by_flushers + self.at_fences + self.at_once + self.skipped;
        let part = |lines: u64| 100.0 * lines as f64 / asked.max(1) as f64;
        write!(
            f,
            "{}, {} of {} flushers, {:.2} M lines/s; lines by flushers {:.0} %, at fences {:.0} %, \
             at once {:.0} %, skipped {:.0} %",
            self.mode,
            self.active,
            self.flushers,
            self.lines_per_second / 1e6,
            part(self.by_flushers),
            part(self.at_fences),
            part(self.at_once),
            part(self.skipped),
        )?;
        match (self.lost, self.takeovers) {
            (0, 0) => Ok(()),
            (lost, takeovers) => write!(f, "; {lost} flushers lost, {takeovers} takeovers"),
        }
    }
}

/// What a thread did that moved objects together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectorReport {
    /// The protocol, and the ratios if they are not the usual ones.
    pub way: String,
    /// Cycles that ended, of those that moved objects.
    pub cycles: u64,
    /// Pages that were emptied.
    pub emptied: u64,
    /// Pages that were to be emptied and were not, because a thread wrote to them.
    pub touched: u64,
    /// Objects that it moved; those that a thread needed first are not among them.
    pub moved: u64,
    /// Pointers that it brought up to date.
    pub healed: u64,
    /// Pages of 4 KiB that went back to the system.
    pub discarded: u64,
}

impl CollectorReport {
    pub(crate) fn of(way: DefragOptions, counts: &DefragCounts) -> CollectorReport {
        let DefragCounts { cycles, emptied, touched, moved, healed, discarded, .. } = *counts;
        let way = way.to_string();
        CollectorReport { way, cycles, emptied, touched, moved, healed, discarded }
    }
}

impl fmt::Display for CollectorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectorReport { way, cycles, emptied, touched, moved, healed, discarded } = self;
        write!(
            f,
            "{way}: cycles {cycles}, objects moved in passing {moved}, pointers {healed}; pages \
             emptied {emptied}, written to and left {touched}, given back {discarded}"
        )
    }
}

/// How much of the lines that a run flushed was dirty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirtinessReport {
    /// The mean dirty part of a flushed dirty line, in per cent; 0 if none was flushed.
    pub percent: f64,
    /// Dirty lines that were flushed.
    pub lines: u64,
    /// Bytes that were dirty in them.
    pub bytes: u64,
    /// Those lines by how many bytes were dirty: 1 to 8, 9 to 16, up to 57 to 64.
    pub eighths: [u64; 8],
    /// Lines that were flushed clean.
    pub clean: u64,
    /// Flushes that touched a line more than their length needs.
    pub straddling: u64,
    /// Lines written past the caches, which need no flush.
    pub direct_lines: u64,
}

impl DirtinessReport {
    pub(super) fn of(counts: &DirtyCounts) -> DirtinessReport {
        let DirtyCounts { lines, bytes, eighths, clean, straddling, direct_lines, .. } = *counts;
        let percent = 100.0 * counts.dirtiness();
        DirtinessReport { percent, lines, bytes, eighths, clean, straddling, direct_lines }
    }
}

impl fmt::Display for DirtinessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DirtinessReport { percent, lines, clean, straddling, direct_lines, .. } = self;
        let few = 100.0 * self.eighths[0] as f64 / (*lines).max(1) as f64;
        write!(
            f,
            "{percent:.1} % of {lines} dirty lines that were flushed ({few:.0} % of them with up \
             to 8 bytes); {clean} clean ones, {straddling} straddling flushes, {direct_lines} \
             lines past the caches"
        )
    }
}

impl fmt::Display for EarlyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {}", self.source)?;
        if let Some(CleanerReport { looks, found, cleaned, in_vain, .. }) = self.cleaner {
            write!(
                f,
                ": {found} lines found, {cleaned} cleaned, {in_vain} in vain, {looks} looks"
            )?;
        }
        if let Some(why) = self.cleaner.as_ref().and_then(|cleaner| cleaner.stopped.as_ref()) {
            write!(f, "; stopped: {why}")?;
        }
        self.refused.iter().try_for_each(|(source, why)| write!(f, "; not by {source}: {why}"))
    }
}

/// A recovery on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryReport {
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
        let mix = self.mix.as_ref().map_or(String::new(), |mix| format!(", {mix}"));
        writeln!(f, "workload    {}{mix}, seed {}", self.workload, self.seed)?;
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
        if let Some(ribbon) = &self.ribbon {
            writeln!(f, "ribbon      {ribbon}")?;
            if let Some(early) = &ribbon.early {
                writeln!(f, "early       {early}")?;
            }
        }
        if let Some(latency) = &self.latency {
            writeln!(f, "latency     {latency}")?;
        }
        if let Some(pages) = self.pages_a_byte {
            writeln!(f, "heap        {pages:.2} bytes of pages for each live byte at the end")?;
        }
        if let Some(collector) = &self.collector {
            writeln!(f, "defragment  {collector}")?;
        }
        if let Some(dirtiness) = &self.dirtiness {
            writeln!(f, "dirtiness   {dirtiness}")?;
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
