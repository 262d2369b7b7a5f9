//! What this machine can do for persistent memory, for people to read.

use crate::cpu::Cpu;
use crate::domain::{Domain, Durability, Medium, caches_persist_here};
use crate::flush::{Flush, FlushKind};
use crate::map::{self, Mapping};
use crate::pool::{POOL_BYTES_MIN, Pool, PoolOptions};
use seawall_memory::{Handles, StoreSource};
use std::fmt;
use std::path::{Path, PathBuf};

/// Facts about this machine; displayed as one line each.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// The CPU and its instructions.
    pub cpu: Cpu,
    /// The flush instruction that runs would use, or why there is none.
    pub flush: Result<Flush, String>,
    /// The domain that `SEAWALL_DOMAIN` names, if any, or what is wrong with it.
    pub domain: Result<Option<Domain>, String>,
    /// Hardware threads that this process may use.
    pub cores: usize,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// True if the kernel knows persistent memory and the platform saves the caches (eADR).
    pub caches_persist: bool,
    /// Whether the kernel counts cycles and instructions for programs.
    pub counters: bool,
    /// The sources of recent stores on this machine, each with the reason if it does not work; none
    /// where no pool can be made in the folder for temporary files.
    pub stores: Vec<(StoreSource, Result<(), String>)>,
    /// What files in a folder are good for: the one for temporary files, and the current one.
    pub folders: Vec<Folder>,
}

/// What drained data in a file of a folder survives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// What was found, in the domain that pools there have by default; or why no file
    /// can be made there.
    pub durability: Result<Durability, String>,
}

impl Doctor {
    /// Looks at this machine; makes and removes one file without a name in each folder.
    pub fn examine() -> Doctor {
        let mut paths = vec![std::env::temp_dir()];
        paths.extend(std::env::current_dir().ok().filter(|path| *path != paths[0]));
        let flush = Flush::from_environment().map_err(|error| error.to_string());
        let domain = Domain::from_environment().map_err(|error| error.to_string());
        let caches_persist = caches_persist_here();
        let flushes = flush.as_ref().is_ok_and(|flush| flush.kind != FlushKind::None);
        let durability_of = |medium, wanted: Option<Domain>| {
            let domain = wanted.unwrap_or_else(|| Domain::fitting(medium, caches_persist));
            Durability::of(medium, domain, flushes, caches_persist)
        };
        let examine = |path: PathBuf| {
            let found = || Ok(durability_of(medium_of(&path)?, domain.clone()?));
            let durability = found();
            Folder { path, durability }
        };
        let folders = paths.into_iter().map(examine).collect();
        Doctor {
            cpu: Cpu::detect(),
            flush,
            domain,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            page_bytes: map::page_bytes(),
            caches_persist,
            counters: has_counters(Path::new("/sys/bus/event_source/devices")),
            stores: sources(),
            folders,
        }
    }

    /// Each fact with its name, in the order of the display.
    pub fn lines(&self) -> Vec<(String, String)> {
        let yes = |has: bool| if has { "yes" } else { "no" };
        let mut instructions: Vec<&str> = Vec::new();
        for (has, name) in [
            (self.cpu.clwb, "clwb"),
            (self.cpu.clflushopt, "clflushopt"),
            (self.cpu.clflush, "clflush"),
            (self.cpu.movdir64b, "movdir64b"),
            (self.cpu.cvap, "dc cvap"),
            (self.cpu.cvac, "dc cvac"),
        ] {
            instructions.extend(has.then_some(name));
        }
        let flush = match &self.flush {
            Ok(flush) => format!("{}: {}", flush.kind, flush.why),
            Err(error) => error.clone(),
        };
        let domain = match &self.domain {
            Ok(Some(domain)) => format!("{domain} for every pool"),
            Ok(None) => {
                "line, and none on persistent memory with eADR (--domain or SEAWALL_DOMAIN: page, \
                 line, none)"
                    .to_string()
            }
            Err(error) => error.clone(),
        };
        let drain = match &self.domain {
            Ok(domain) => domain.unwrap_or(Domain::Line).drain_means().to_string(),
            Err(_) => "unknown until the domain is".to_string(),
        };
        let counters = match self.counters {
            true => "yes",
            false => "no: only time can be measured here, not cycles or misses",
        };
        let facts = [
            ("cpu", Cpu::model_name()),
            ("cores", self.cores.to_string()),
            ("page", format!("{} bytes", self.page_bytes)),
            ("can run", instructions.join(", ")),
            ("flush", flush),
            ("domain", domain),
            ("drain means", drain),
            ("caches persist", yes(self.caches_persist).to_string()),
            ("hardware counters", counters.to_string()),
        ];
        let facts = facts.into_iter().map(|(name, text)| (name.to_string(), text));
        let stores = self.stores.iter().map(|(source, why)| {
            let text = why.as_ref().map_or_else(|why| format!("no: {why}"), |()| "yes".to_string());
            (format!("stores by {source}"), text)
        });
        let folders = self.folders.iter().map(|folder| {
            let text = match &folder.durability {
                Ok(durability) => durability.to_string(),
                Err(why) => format!("no pool can be made there: {why}"),
            };
            (format!("files in {}", folder.path.display()), text)
        });
        facts.chain(stores).chain(folders).collect()
    }
}

/// Each source with what a small pool answers that asks for it.
fn sources() -> Vec<(StoreSource, Result<(), String>)> {
    let pool = Pool::temporary(POOL_BYTES_MIN, &PoolOptions::default());
    let ask = |pool: &Pool| {
        StoreSource::ALL.map(|source| (source, pool.recent_stores(source).map(|_| ()))).into()
    };
    pool.as_ref().map_or_else(|_| Vec::new(), ask)
}

/// Where the bytes of a file in `folder` are; else why there can be none.
fn medium_of(folder: &Path) -> Result<Medium, String> {
    let mapped = || {
        let file = tempfile::tempfile_in(folder)?;
        map::reserve(&file, 0, map::page_bytes())?;
        Ok(map::medium(&file, &Mapping::of_file(&file, map::page_bytes())?))
    };
    mapped().map_err(|error: std::io::Error| error.to_string())
}

impl fmt::Display for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in lines {
            writeln!(f, "{name:width$}  {text}")?;
        }
        Ok(())
    }
}

/// True if the kernel has a driver for a CPU's own counters (not only for software events).
fn has_counters(devices: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(devices) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("cpu") || name.starts_with("armv")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_display_has_every_fact_on_a_line_of_its_own() {
        let doctor = Doctor::examine();
        let text = doctor.to_string();
        assert_eq!(text.lines().count(), doctor.lines().len());
        for name in
            ["cpu", "flush", "drain means", "hardware counters", "stores by pages", "files in"]
        {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} in\n{text}");
        }
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named_unusable() {
        let why = medium_of(Path::new("/no/such/folder")).unwrap_err();
        let folders = vec![Folder { path: "/no/such/folder".into(), durability: Err(why) }];
        let text = Doctor { folders, ..Doctor::examine() }.to_string();
        assert!(text.contains("files in /no/such/folder  no pool can be made there: "), "{text}");
    }

    #[test]
    fn what_is_said_of_a_folder_is_what_a_pool_there_says() {
        let doctor = Doctor::examine();
        for folder in &doctor.folders {
            let Ok(durability) = folder.durability.clone() else { continue };
            let file = tempfile::Builder::new().tempdir_in(&folder.path).unwrap();
            let pool = Pool::create(&file.path().join("a.pool"), 4096, &PoolOptions::default());
            assert_eq!(pool.unwrap().durability(), durability, "{}", folder.path.display());
            assert!(doctor.to_string().contains(&durability.to_string()));
        }
    }

    #[test]
    fn counters_are_those_of_the_cpu() {
        let devices = tempfile::tempdir().unwrap();
        std::fs::create_dir(devices.path().join("software")).unwrap();
        assert!(!has_counters(devices.path()));
        std::fs::create_dir(devices.path().join("cpu_core")).unwrap();
        assert!(has_counters(devices.path()));
    }
}
