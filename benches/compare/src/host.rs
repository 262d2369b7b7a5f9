//! The conditions of a measurement: CPU, file system, libraries, and durability.

use crate::pmdk;
use anyhow::{Context, Result};
use seawall_bench_common::{cpu, cpus, file_system};
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
            cpus: cpus(),
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
