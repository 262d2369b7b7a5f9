//! The conditions of a measurement: CPU, file system, libraries, and durability.

use crate::pmdk;
use anyhow::{Context, Result};
use rustix::fs::statfs;
use seawall_native::{Pool, PoolOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Facts that belong beside every number.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    cpu: String,
    cpus: usize,
    folder: String,
    file_system: String,
    libpmemobj: &'static str,
    flush: String,
    durability: String,
}

impl Host {
    /// The facts for pools in `folder`.
    ///
    /// # Errors
    /// If no file can be created there.
    pub(crate) fn of(folder: &Path) -> Result<Host> {
        let path = folder.join("probe.pool");
        let pool = Pool::create(&path, 4096, &PoolOptions::default())
            .context("cannot make a pool; choose another folder with --dir")?;
        let host = Host {
            cpu: cpu(),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get()),
            folder: folder.parent().unwrap_or(folder).display().to_string(),
            file_system: file_system(folder),
            libpmemobj: pmdk::VERSION,
            flush: format!("{} ({})", pool.instruction().kind, pool.instruction().why),
            durability: pool.durability().to_string(),
        };
        drop(pool);
        fs::remove_file(&path)?;
        Ok(host)
    }

    /// For people.
    pub(crate) fn lines(&self) -> [String; 3] {
        [
            format!("{}, {} CPUs; {} on {}", self.cpu, self.cpus, self.folder, self.file_system),
            format!("libpmemobj {} with PMEM_IS_PMEM_FORCE=1; {}", self.libpmemobj, self.flush),
            format!("durability of both sides here: {}", self.durability),
        ]
    }

    /// For programs.
    pub(crate) fn record(&self) -> Value {
        json!({
            "record": "host",
            "cpu": self.cpu,
            "cpus": self.cpus,
            "file_system": self.file_system,
            "libpmemobj": self.libpmemobj,
            "flush": self.flush,
            "durability": self.durability,
        })
    }
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().map(str::trim) == Some(name));
        line.and_then(|line| line.split(':').nth(1)).map_or("?", str::trim).to_string()
    };
    format!("{}, family {} model {}", value("model name"), value("cpu family"), value("model"))
}

fn file_system(folder: &Path) -> String {
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
