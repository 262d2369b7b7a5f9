//! What this machine can do for persistent memory, for people to read.

use crate::cpu::Cpu;
use crate::domain::{Domain, caches_are_persistent};
use crate::flush::Flush;
use crate::map::{self, Mapping};
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
    /// What files in a folder are good for: the one for temporary files, and the current one.
    pub folders: Vec<Folder>,
}

/// What a file in a folder can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// What was found.
    pub finding: FolderFinding,
}

/// What a file in a folder can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FolderFinding {
    /// `MAP_SYNC` works: persistent memory with DAX.
    Dax,
    /// An ordinary file on a disk.
    Ordinary,
    /// A file system in memory.
    InMemory,
    /// No file can be made there; says why.
    Unusable(String),
}

impl Doctor {
    /// Looks at this machine; makes and removes one file without a name in each folder.
    pub fn examine() -> Doctor {
        let mut paths = vec![std::env::temp_dir()];
        paths.extend(std::env::current_dir().ok().filter(|path| *path != paths[0]));
        Doctor {
            cpu: Cpu::detect(),
            flush: Flush::from_environment().map_err(|error| error.to_string()),
            domain: Domain::from_environment().map_err(|error| error.to_string()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            page_bytes: map::page_bytes(),
            caches_persist: caches_are_persistent(Path::new("/sys/bus/nd/devices")),
            counters: has_counters(Path::new("/sys/bus/event_source/devices")),
            folders: paths.into_iter().map(Folder::examine).collect(),
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
        ] {
            instructions.extend(has.then_some(name));
        }
        let flush = match &self.flush {
            Ok(flush) => format!("{}: {}", flush.kind, flush.why),
            Err(error) => error.clone(),
        };
        let domain = match &self.domain {
            Ok(Some(domain)) => format!("{domain} for every pool"),
            Ok(None) => "by pool: line, or none on persistent memory with eADR".to_string(),
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
            ("cpu", self.cpu.name.clone()),
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
        let folders = self.folders.iter().map(|folder| {
            (format!("files in {}", folder.path.display()), folder.finding.to_string())
        });
        facts.chain(folders).collect()
    }
}

impl Folder {
    fn examine(path: PathBuf) -> Folder {
        let mapped = || {
            let file = tempfile::tempfile_in(&path)?;
            map::reserve(&file, 0, 4096)?;
            Ok((Mapping::of_file(&file, 4096)?.is_sync(), map::is_in_memory(&file)))
        };
        let finding = match mapped() {
            Ok((true, _)) => FolderFinding::Dax,
            Ok((false, true)) => FolderFinding::InMemory,
            Ok((false, false)) => FolderFinding::Ordinary,
            Err::<_, std::io::Error>(error) => FolderFinding::Unusable(error.to_string()),
        };
        Folder { path, finding }
    }
}

impl fmt::Display for FolderFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderFinding::Dax => f.write_str("MAP_SYNC works: flushed lines are durable"),
            FolderFinding::Ordinary => f.write_str(
                "no MAP_SYNC: flushed lines survive a killed process, not a power failure \
                 (domain page does)",
            ),
            FolderFinding::InMemory => f.write_str("a file system in memory: gone at reboot"),
            FolderFinding::Unusable(why) => write!(f, "no pool can be made there: {why}"),
        }
    }
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
        for name in ["cpu", "flush", "drain means", "hardware counters", "files in"] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} in\n{text}");
        }
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named_unusable() {
        let folder = Folder::examine(PathBuf::from("/no/such/folder"));
        assert!(matches!(folder.finding, FolderFinding::Unusable(_)));
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
