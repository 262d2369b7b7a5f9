//! What comparisons share: the time of a thread on a busy host, medians, the conditions of a run,
//! and files of records.

use anyhow::{Context, Result};
use rustix::fs::statfs;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Median, least and greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    ///
    /// # Panics
    /// Of none.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
        Spread {
            median: (sorted[low] + sorted[high]) / 2.0,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        }
    }

    /// Of the ratios within each round.
    ///
    /// # Panics
    /// If there is none.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Spread {
        let ratios: Vec<f64> =
            above.iter().zip(below).map(|(above, below)| above / below).collect();
        Spread::of(&ratios)
    }
}

/// What `work` gives, and how long this thread took for it: by the clock, without the time in which
/// another thread had its CPU.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let waited = waited_for_cpu();
    let (begun, begun_cpu) = (Instant::now(), cpu_time());
    let done = work();
    let (wall, cpu) = (begun.elapsed(), cpu_time() - begun_cpu);
    let waited = waited_for_cpu().saturating_sub(waited);
    (done, wall.saturating_sub(waited).max(cpu))
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time in which this thread was ready to run but did not; zero where the system does not say.
fn waited_for_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// The model of the CPU.
pub fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().map(str::trim) == Some(name));
        line.and_then(|line| line.split(':').nth(1)).map_or("?", str::trim).to_string()
    };
    format!("{}, family {} model {}", value("model name"), value("cpu family"), value("model"))
}

/// The number of CPUs for this process.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get())
}

/// The type of the file system that `folder` is on.
pub fn file_system(folder: &Path) -> String {
    match statfs(folder).map(|answer| answer.f_type as u64) {
        Ok(0x0102_1994) => "tmpfs".into(),
        Ok(0xef53) => "ext4".into(),
        Ok(0x5846_5342) => "xfs".into(),
        Ok(0x9123_683e) => "btrfs".into(),
        Ok(0x794c_7630) => "overlayfs".into(),
        Ok(other) => format!("file system {other:#x}"),
        Err(error) => format!("unknown file system ({error})"),
    }
}

/// The file of `--json`, which appears only when it is complete.
pub struct JsonFile {
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl JsonFile {
    /// Makes sure that it can be written.
    ///
    /// # Errors
    /// If it cannot.
    pub fn create(path: &Path) -> Result<JsonFile> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        let file = file.with_context(|| format!("--json {}: cannot be written", path.display()))?;
        Ok(JsonFile { path: path.to_path_buf(), file })
    }

    /// Writes the records, one in a line.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(mut self, records: &[Value]) -> Result<()> {
        for record in records {
            writeln!(self.file, "{record}")?;
        }
        let kept = self.file.persist(&self.path);
        kept.with_context(|| format!("--json {}: cannot be written", self.path.display()))?;
        Ok(())
    }
}
