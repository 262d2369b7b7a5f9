//! Durability domains: how far a store must travel before it is safe.
//!
//! There are three. Where caches are not persistent and the file is mapped straight onto
//! persistent memory (`MAP_SYNC`), a line is safe once it is written back. Where the platform saves
//! caches at a power failure (eADR, CXL global persistent flush), a store is safe at once. For a
//! file on a disk, only `msync` makes it safe, page by page.
//!
//! A file on a disk is still used by line by default: it runs the same instructions as
//! persistent memory would, and survives a killed process (the page cache does), but not a power
//! failure. Every output says so: [`Durability`] is the sentence, and the only place that decides
//! it. It claims nothing that was not seen: running without flushes on persistent memory needs a
//! platform that reports that it saves the caches.

use std::fmt;
use std::path::Path;

/// The variable that overrides the choice; its values are the names of [`Domain`].
pub const DOMAIN_VARIABLE: &str = "SEAWALL_DOMAIN";

/// What makes a store durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Domain {
    /// `msync` of its page.
    Page,
    /// Write-back of its cache line.
    Line,
    /// Nothing: the caches are persistent.
    None,
}

/// A domain that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{from}: no durability domain {value:?}; choose page (msync), line (flush instructions) or \
     none (persistent caches)"
)]
pub struct DomainError {
    /// Where the value came from.
    pub from: String,
    /// The value.
    pub value: String,
}

impl Domain {
    /// The name used on the command line, in `SEAWALL_DOMAIN` and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Domain::Page => "page",
            Domain::Line => "line",
            Domain::None => "none",
        }
    }

    /// The domain called `value`, which came from `from` (an option's or a variable's name).
    ///
    /// # Errors
    /// When there is no such domain.
    pub fn parse(value: &str, from: &str) -> Result<Domain, DomainError> {
        let all = [Domain::Page, Domain::Line, Domain::None];
        let error = || DomainError { from: from.to_string(), value: value.to_string() };
        all.into_iter().find(|domain| domain.name() == value).ok_or_else(error)
    }

    /// The domain that `SEAWALL_DOMAIN` names, if it is set and not empty.
    ///
    /// # Errors
    /// When there is no such domain.
    pub fn from_environment() -> Result<Option<Domain>, DomainError> {
        let value = std::env::var_os(DOMAIN_VARIABLE).unwrap_or_default();
        if value.is_empty() {
            return Ok(None);
        }
        Domain::parse(&value.to_string_lossy(), DOMAIN_VARIABLE).map(Some)
    }

    /// The default for a mapping: persistent memory whose caches are persistent needs nothing, all
    /// else is used by line.
    pub(crate) fn fitting(medium: Medium, caches_persist: bool) -> Domain {
        let none_needed = medium == Medium::PersistentMemory && caches_persist;
        if none_needed { Domain::None } else { Domain::Line }
    }

    /// What [`drain`](seawall_memory::MemoryExt::drain) waits for.
    pub const fn drain_means(self) -> &'static str {
        match self {
            Domain::Page => "msync: the disk has every flushed page (true on any disk, and slow)",
            Domain::Line => {
                "a fence: flushed lines have left the caches (what that is worth: below)"
            }
            Domain::None => "a fence: stores have reached the caches, which must be persistent",
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// True if the kernel knows persistent memory here and says of all of it that the platform
/// flushes the CPU's caches when power fails.
pub(crate) fn caches_are_persistent(devices: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(devices) else { return false };
    let domains: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("region"))
        .map(|entry| entry.path().join("persistence_domain"))
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
        .collect();
    !domains.is_empty() && domains.iter().all(|domain| domain.trim() == "cpu_cache")
}

/// True if the platform that this runs on has persistent memory and says that it saves the caches
/// when power fails.
pub fn caches_persist_here() -> bool {
    caches_are_persistent(Path::new("/sys/bus/nd/devices"))
}

/// Where the bytes of a mapped file are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Medium {
    /// `MAP_SYNC` works.
    PersistentMemory,
    Disk,
    /// A file system that a reboot empties.
    InMemory,
}

/// What drained data in a mapping survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Durability {
    /// Power failure: mapped straight onto persistent memory.
    PowerFailure,
    /// Power failure, because `order` and `drain` call `msync` on a file on a disk.
    PowerFailureByPage,
    /// The death of this process, but not power failure: a file in the page cache.
    KilledProcess,
    /// The death of this process, but not power failure: persistent memory, but no line is flushed
    /// and the platform does not say that it saves its caches.
    Unflushed,
    /// The death of this process, but no reboot: a file system in memory.
    UntilReboot,
    /// Nothing: the file has no name and goes with the process.
    Nothing,
}

impl Durability {
    /// What holds on `medium` if `flushes` says whether lines are really flushed.
    pub(crate) fn of(
        medium: Medium,
        domain: Domain,
        flushes: bool,
        caches_persist: bool,
    ) -> Durability {
        match (medium, domain) {
            (Medium::InMemory, _) => Durability::UntilReboot,
            (Medium::Disk, Domain::Page) => Durability::PowerFailureByPage,
            (Medium::Disk, Domain::Line | Domain::None) => Durability::KilledProcess,
            (Medium::PersistentMemory, Domain::Page) => Durability::PowerFailure,
            (Medium::PersistentMemory, Domain::Line) if flushes => Durability::PowerFailure,
            (Medium::PersistentMemory, _) if caches_persist => Durability::PowerFailure,
            (Medium::PersistentMemory, _) => Durability::Unflushed,
        }
    }

    /// True if what was drained survives a power failure.
    pub const fn is_durable(self) -> bool {
        matches!(self, Durability::PowerFailure | Durability::PowerFailureByPage)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::PowerFailure => {
                "durable, survives a power failure: persistent memory, mapped with MAP_SYNC"
            }
            Durability::PowerFailureByPage => {
                "durable, survives a power failure: an ordinary file, and every drain waits for \
                 msync"
            }
            Durability::KilledProcess => {
                "survives a killed process, not a power failure: an ordinary file, whose lines are \
                 flushed to the page cache only (domain page makes it durable)"
            }
            Durability::Unflushed => {
                "survives a killed process, not a power failure: persistent memory, but no line is \
                 flushed, and nothing here says that power failure spares the caches (domain \
                 line, without SEAWALL_FLUSH=none, makes it durable)"
            }
            Durability::UntilReboot => {
                "survives a killed process, not a reboot: a file system in memory"
            }
            Durability::Nothing => "not durable: a temporary file, gone when this process ends",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back_and_anything_else_lists_them() {
        for domain in [Domain::Page, Domain::Line, Domain::None] {
            assert_eq!(Domain::parse(domain.name(), "--domain"), Ok(domain));
        }
        let error = Domain::parse("disk", "--domain").unwrap_err().to_string();
        for part in ["--domain", "\"disk\"", "page", "line", "none"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn caches_count_as_persistent_only_if_every_region_says_so() {
        let devices = tempfile::tempdir().unwrap();
        let region = |name: &str, text: &str| {
            std::fs::create_dir(devices.path().join(name)).unwrap();
            std::fs::write(devices.path().join(name).join("persistence_domain"), text).unwrap();
        };
        assert!(!caches_are_persistent(devices.path()), "no persistent memory at all");
        region("region0", "cpu_cache\n");
        region("namespace0.0", "");
        assert!(caches_are_persistent(devices.path()));
        region("region1", "memory_controller\n");
        assert!(!caches_are_persistent(devices.path()));
    }

    #[test]
    fn only_persistent_memory_whose_caches_persist_is_used_without_flushes() {
        use Medium::{Disk, InMemory, PersistentMemory};
        for (medium, caches_persist) in [(Disk, true), (InMemory, true), (PersistentMemory, false)]
        {
            assert_eq!(Domain::fitting(medium, caches_persist), Domain::Line);
        }
        assert_eq!(Domain::fitting(PersistentMemory, true), Domain::None);
    }

    #[test]
    fn nothing_is_called_durable_that_a_power_failure_may_lose() {
        use Medium::{Disk, InMemory, PersistentMemory};
        let durable = |medium, domain, flushes, caches_persist| {
            let durability = Durability::of(medium, domain, flushes, caches_persist);
            let text = durability.to_string();
            assert_eq!(durability.is_durable(), text.starts_with("durable"), "{text}");
            assert_eq!(durability.is_durable(), !text.contains("not a "), "{text}");
            durability.is_durable()
        };
        for flushes in [false, true] {
            for caches_persist in [false, true] {
                for domain in [Domain::Page, Domain::Line, Domain::None] {
                    assert!(!durable(InMemory, domain, flushes, caches_persist));
                    let by_page = domain == Domain::Page;
                    assert_eq!(durable(Disk, domain, flushes, caches_persist), by_page);
                    let flushed = by_page || flushes && domain == Domain::Line;
                    let spared = flushed || caches_persist;
                    assert_eq!(durable(PersistentMemory, domain, flushes, caches_persist), spared);
                }
            }
        }
    }
}
