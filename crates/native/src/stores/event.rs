//! Which event of this processor samples stores with their addresses, read from what the kernel
//! says of its counters below `/sys/bus/event_source/devices`.
//!
//! Intel's is the event `mem-stores` of the processor's own counters (PEBS; `cpu_core` where there
//! are two kinds of cores). AMD's is the device `ibs_op`, which samples all operations: those that
//! are no stores are left out when samples are read. The files there say which bits of which word
//! a term such as `umask=0x82` fills. Written after the kernel's documents, and not run: the
//! machines that this was made on have no such counters.

use super::perf::{Attr, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, PRECISE};
use std::fs;
use std::path::Path;

/// Stores from one sample to the next: a prime, so that no loop has all its samples in one place.
const STORES: u64 = 1009;
/// Cycles from one sample to the next, which must be a multiple of 16.
const CYCLES: u64 = 1 << 14;

/// What to sample, by the name that people know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) attr: Attr,
    /// Only some of the samples are of stores, and say so.
    pub(super) is_mixed: bool,
}

impl Event {
    /// The first there is, or why there is none.
    pub(super) fn of_stores(devices: &Path) -> Result<Event, String> {
        for device in ["cpu", "cpu_core"] {
            if let Ok(terms) = fs::read_to_string(devices.join(device).join("events/mem-stores")) {
                return Event::of_intel(devices, device, &terms);
            }
        }
        if devices.join("ibs_op").is_dir() {
            return Event::of_amd(devices);
        }
        let none = "no counter here samples stores precisely: neither cpu/mem-stores nor ibs_op in";
        Err(format!("{none} {}", devices.display()))
    }

    fn of_intel(devices: &Path, device: &str, terms: &str) -> Result<Event, String> {
        let flags = PRECISE | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        let attr = Attr { period: STORES, flags, ..Attr::default() };
        let attr = with_terms(attr, &devices.join(device), terms.trim())?;
        Ok(Event { name: format!("{device}/mem-stores"), attr, is_mixed: false })
    }

    /// Leaving the kernel out is something that only newer kernels do for it, by the term `swfilt`.
    fn of_amd(devices: &Path) -> Result<Event, String> {
        let device = devices.join("ibs_op");
        let leaves_out = device.join("format/swfilt").exists();
        let (flags, terms) = if leaves_out { (EXCLUDE_KERNEL, "swfilt=1") } else { (0, "") };
        let attr = Attr { period: CYCLES, flags, ..Attr::default() };
        let attr = with_terms(attr, &device, terms)?;
        Ok(Event { name: "ibs_op".into(), attr, is_mixed: true })
    }
}

/// The attributes with the device's number and the terms (`event=0xd0,umask=0x82`) filled in.
fn with_terms(mut attr: Attr, device: &Path, terms: &str) -> Result<Attr, String> {
    let read = |file: &str| {
        let path = device.join(file);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
        text.map(|text| text.trim().to_string())
    };
    let wrong = |what: &str, text: &str| format!("{}: unknown {what} {text:?}", device.display());
    let kind = read("type")?;
    attr.kind = kind.parse().map_err(|_| wrong("type", &kind))?;
    for term in terms.split(',').filter(|term| !term.is_empty()) {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = number(value).ok_or_else(|| wrong("term", term))?;
        let format = read(&format!("format/{name}"))?;
        let filled = fill(&mut attr, &format, value);
        filled.ok_or_else(|| wrong("format", &format))?;
    }
    Ok(attr)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Puts the bits of `value`, lowest first, where `format` says: `config:0-7,32-35`, `config1:3`.
fn fill(attr: &mut Attr, format: &str, mut value: u64) -> Option<()> {
    let (word, places) = format.split_once(':')?;
    let word = match word {
        "config" => &mut attr.config,
        "config1" => &mut attr.config1,
        "config2" => &mut attr.config2,
        _ => return None,
    };
    for place in places.split(',') {
        let (first, last) = place.split_once('-').unwrap_or((place, place));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 63 {
            return None;
        }
        for bit in first..=last {
            *word |= (value & 1) << bit;
            value >>= 1;
        }
    }
    (value == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn devices(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        folder
    }

    const FORMATS: [(&str, &str); 3] = [
        ("cpu/type", "4"),
        ("cpu/format/event", "config:0-7"),
        ("cpu/format/umask", "config:8-15,40-47"),
    ];

    fn intel(terms: &str) -> Result<Event, String> {
        let files = [&FORMATS[..], &[("cpu/events/mem-stores", terms)]].concat();
        Event::of_stores(devices(&files).path())
    }

    #[test]
    fn the_event_of_an_intel_processor_is_read_from_the_kernels_files() {
        let event = intel("event=0xd0,umask=0x82").unwrap();
        assert_eq!((event.name.as_str(), event.is_mixed), ("cpu/mem-stores", false));
        assert_eq!((event.attr.kind, event.attr.config), (4, 0x82d0));
        assert_eq!(event.attr.flags, 2 << 15 | 1 << 5 | 1 << 6);
        let wide = intel("event=0xcd,umask=0x302").unwrap();
        assert_eq!(wide.attr.config, 3 << 40 | 0x02cd, "a value may be in two pieces");
    }

    #[test]
    fn the_device_of_an_amd_processor_is_asked_to_leave_the_kernel_out_if_it_can() {
        let old = Event::of_stores(devices(&[("ibs_op/type", "11")]).path()).unwrap();
        assert_eq!((old.name.as_str(), old.is_mixed, old.attr.kind), ("ibs_op", true, 11));
        assert_eq!((old.attr.flags, old.attr.config2, old.attr.period % 16), (0, 0, 0));
        let files = [("ibs_op/type", "11"), ("ibs_op/format/swfilt", "config2:0")];
        let new = Event::of_stores(devices(&files).path()).unwrap();
        assert_eq!((new.attr.flags, new.attr.config2), (EXCLUDE_KERNEL, 1));
    }

    #[test]
    fn a_machine_without_such_counters_is_told_apart_from_one_that_is_not_understood() {
        let none = Event::of_stores(devices(&[("software/type", "1")]).path()).unwrap_err();
        assert!(none.contains("neither cpu/mem-stores nor ibs_op in"), "{none}");
        for (terms, why) in [
            ("event=0x100", "unknown format \"config:0-7\""),
            ("event=red", "unknown term \"event=red\""),
            ("ldlat=3", "format/ldlat"),
        ] {
            let text = intel(terms).unwrap_err();
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_format_that_cannot_be_is_refused() {
        for format in ["config", "config:", "config:7-0", "config:0-64", "config9:0", "config:a-b"]
        {
            assert_eq!(fill(&mut Attr::default(), format, 1), None, "{format}");
        }
    }
}
