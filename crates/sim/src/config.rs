//! Machines as data: the TOML files under `machines/`, checked before anything is built from them.
//!
//! An unknown key, a cache whose sets are no power of two or a machine without cores is an error
//! that names the key and the valid values; nothing is guessed.

use serde::{Deserialize, Serialize};
use std::path::Path;

mod dimms;

pub use dimms::DimmConfig;

/// A whole simulated machine. Latencies are in core cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The description in `seawall list machines`, one line.
    pub about: String,
    /// Whether a comparison runs every workload by default; if false, the usual five.
    #[serde(default)]
    pub all_workloads: bool,
    /// Core clock in GHz; only turns cycles into seconds.
    pub ghz: f64,
    /// The cores.
    pub core: CoreConfig,
    /// Private first-level data caches.
    pub l1: L1Config,
    /// Private second-level caches, exclusive of the first; `None` if a core has one level.
    #[serde(default)]
    pub l2: Option<L2Config>,
    /// The shared, banked, inclusive last-level cache, or a directory alone.
    pub llc: LlcConfig,
    /// The network on the chip.
    pub mesh: MeshConfig,
    /// Memory controllers and what is behind them.
    pub memory: MemoryConfig,
    /// The prefetcher into the last-level cache; `None` if there is none.
    #[serde(default)]
    pub prefetch: Option<PrefetchConfig>,
}

/// Out-of-order cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// The number of cores, 1 to 64, with one hardware thread each.
    pub count: usize,
    /// Instructions issued per cycle, 1 to 16.
    pub width: u32,
    /// Instructions that a program's dependences let issue in 1000 cycles, 50 to 16000; `None`: the
    /// full width of the core.
    #[serde(default)]
    pub parallelism: Option<u32>,
    /// Reorder-buffer entries: how far a core runs past a load that misses.
    pub rob: u64,
    /// Store-buffer entries.
    pub store_buffer: usize,
    /// The number of stores that a core can have on their way to its first level, 1 to 255; `None`:
    /// as many as the store buffer holds. With 1, as in gem5's out-of-order core under x86's order
    /// of stores, each takes the first level's latency, and no line is fetched ahead for those
    /// behind it.
    #[serde(default)]
    pub stores_in_flight: Option<usize>,
    /// The number of lines that a core can have outstanding.
    pub mshrs: usize,
    /// The number of lines that a core's flushes and non-temporal stores can have on their way to
    /// durability before its next flush waits, 1 to 512; `None`: as many as `mshrs`.
    #[serde(default)]
    pub flushes: Option<usize>,
    /// Lines of the write-combining buffer for non-temporal stores; 0: no such buffer, and
    /// non-temporal stores are stores with a flush.
    #[serde(default = "write_combining_lines")]
    pub write_combining: usize,
    /// Cycles that a line takes to leave the write-combining buffer before it enters the mesh.
    #[serde(default)]
    pub combining_leave: u64,
}

impl CoreConfig {
    /// The number of stores that can be on their way to the first level.
    pub fn stores_in_flight(&self) -> usize {
        self.stores_in_flight.unwrap_or(self.store_buffer)
    }

    /// The number of lines that a core's flushes can have on their way.
    pub fn flushes(&self) -> usize {
        self.flushes.unwrap_or(self.mshrs)
    }

    fn check(&self) -> Result<(), String> {
        within("core.count", self.count as u64, 1, 64)?;
        within("core.width", self.width.into(), 1, 16)?;
        if let Some(parallelism) = self.parallelism {
            within("core.parallelism", parallelism.into(), 50, 16_000)?;
        }
        within("core.rob", self.rob, 1, 4096)?;
        within("core.store_buffer", self.store_buffer as u64, 1, 255)?;
        within("core.stores_in_flight", self.stores_in_flight() as u64, 1, 255)?;
        within("core.mshrs", self.mshrs as u64, 1, 512)?;
        within("core.flushes", self.flushes() as u64, 1, 512)?;
        within("core.write_combining", self.write_combining as u64, 0, 64)?;
        within("core.combining_leave", self.combining_leave, 0, 100_000)?;
        Ok(())
    }
}

/// The default of a machine file: the upper end of MEMSYS'17, slide 11.
fn write_combining_lines() -> usize {
    6
}

/// A private first-level cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L1Config {
    /// Capacity in KiB; the number of sets must be a power of two.
    pub kib: usize,
    /// Associativity.
    pub ways: usize,
    /// Load-to-use latency of a hit.
    pub latency: u64,
}

/// A private second-level cache, which holds the victims of the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L2Config {
    /// Capacity in KiB; the number of sets must be a power of two.
    pub kib: usize,
    /// Associativity.
    pub ways: usize,
    /// Latency of a hit, from the miss in the first level.
    pub latency: u64,
}

/// The shared last-level cache, whose tags are the directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlcConfig {
    /// The number of banks, a power of two; bank i is on tile i modulo the tiles.
    pub banks: usize,
    /// Capacity of a bank in KiB; the number of sets must be a power of two.
    pub kib_per_bank: usize,
    /// Associativity.
    pub ways: usize,
    /// Latency of a bank access, without the network.
    pub latency: u64,
    /// Cycles that an access keeps the bank's port busy.
    pub port_cycles: u64,
    /// There are tags and no data: the machine has a directory and no shared cache. The capacity is
    /// that of the lines which the tags cover.
    #[serde(default)]
    pub directory_only: bool,
}

/// A two-dimensional mesh with XY routing; one tile per core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshConfig {
    /// Rows; must divide the number of cores (1 always fits).
    pub rows: usize,
    /// Bytes per flit, at least 2; a link moves one flit a cycle.
    pub flit_bytes: u64,
    /// Cycles in a router.
    pub router_latency: u64,
    /// Cycles on a link.
    pub link_latency: u64,
}

/// Memory controllers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// Controllers: 1, 2 or 4, at the corners of the mesh; a power of two.
    pub controllers: usize,
    /// Banks behind each controller, a power of two.
    pub banks: usize,
    /// Entries of each controller's write-pending queue.
    pub write_queue: usize,
    /// Cycles that one line keeps a controller's channel busy: its bandwidth.
    pub line_cycles: u64,
    /// Cycles from the arrival of a write, with a free entry of the queue, until the controller
    /// acknowledges it.
    #[serde(default)]
    pub post: u64,
    /// The persistent device.
    pub nvm: DeviceConfig,
    /// The volatile device; without one, volatile addresses are in NVM too.
    pub dram: Option<DeviceConfig>,
}

/// Access latencies of a memory device, in cycles from controller to device and back. With
/// [`dimms`](DeviceConfig::dimms) they cover only the path to a DIMM and back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// A line read.
    pub read: u64,
    /// A line write, until it is in the cells.
    pub write: u64,
    /// Cycles that a written line keeps the channel busy; by default
    /// [`line_cycles`](MemoryConfig::line_cycles).
    pub write_line_cycles: Option<u64>,
    /// The device consists of Optane-like DIMMs; only the persistent device can. Then `read` is the
    /// latency of a line that is in the DIMM's buffer, and `write` the latency from the
    /// write-pending queue into the DIMM.
    pub dimms: Option<DimmConfig>,
}

/// A stream prefetcher for each core, which observes its requests to the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchConfig {
    /// The number of 4 KiB pages that are followed at a time, 1 to 256.
    pub streams: usize,
    /// The greatest distance from the last request in lines, 1 to 63.
    pub ahead: u32,
    /// The number of lines prefetched per request, 1 to 16.
    pub per_request: u32,
}

/// Why a machine cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Neither a known name nor a file.
    #[error("no machine '{name}'; known: {known}; or give the path of a .toml file")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known names.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read machine file {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Not TOML, or a key or type is wrong.
    #[error("machine {name}: {source}")]
    Parse {
        /// Name or path.
        name: String,
        /// The error with its place and the valid keys.
        source: Box<toml::de::Error>,
    },
    /// The values do not describe a machine.
    #[error("machine {name}: {what}")]
    Invalid {
        /// Name or path.
        name: String,
        /// Key, value and the valid values.
        what: String,
    },
}

/// An earlier name of a machine, and its present one.
const OLD_NAME: (&str, &str) = ("s1-i7", "memsys17-i7");

/// The built-in machines: name and text.
pub const MACHINES: &[(&str, &str)] = &[
    ("micro15", include_str!("../machines/micro15.toml")),
    ("desktop", include_str!("../machines/desktop.toml")),
    ("memsys17-i7", include_str!("../machines/memsys17-i7.toml")),
    ("hops17", include_str!("../machines/hops17.toml")),
    ("asap22", include_str!("../machines/asap22.toml")),
    ("optane24", include_str!("../machines/optane24.toml")),
    ("ffccd22", include_str!("../machines/ffccd22.toml")),
];

impl L2Config {
    /// The number of sets.
    pub fn sets(&self) -> usize {
        self.kib * 1024 / 64 / self.ways.max(1)
    }

    fn check(&self) -> Result<(), String> {
        within("l2.ways", self.ways as u64, 1, 64)?;
        within("l2.kib", self.kib as u64, 1, 65536)?;
        within("l2.latency", self.latency, 1, 1000)?;
        power("l2.kib / l2.ways (sets)", self.sets())
    }
}

impl MemoryConfig {
    /// Cycles that a line written to the persistent device keeps a channel busy.
    pub fn nvm_write_line_cycles(&self) -> u64 {
        self.nvm.write_line_cycles.unwrap_or(self.line_cycles)
    }
}

impl Machine {
    /// Loads the built-in machine or the file of this name.
    ///
    /// # Errors
    /// An unknown name, an unreadable file, unknown keys, impossible values.
    pub fn load(name: &str) -> Result<Machine, MachineError> {
        let name = if name == OLD_NAME.0 { OLD_NAME.1 } else { name };
        if let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == name) {
            return Machine::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|end| end != "toml") {
            let known: Vec<&str> = MACHINES.iter().map(|(known, _)| *known).collect();
            return Err(MachineError::Unknown { name: name.into(), known: known.join(", ") });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| MachineError::Read { path: name.into(), source })?;
        Machine::parse(name, &text)
    }

    /// Parses a machine; `name` appears in messages.
    ///
    /// # Errors
    /// See [`load`](Machine::load).
    pub fn parse(name: &str, text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text)
            .map_err(|source| MachineError::Parse { name: name.into(), source: source.into() })?;
        machine.check().map_err(|what| MachineError::Invalid { name: name.into(), what })?;
        Ok(machine)
    }

    /// Returns the machine with the `settings` changed, each a key with its table as in
    /// `core.count` or `memory.nvm.write`. If the number of cores changes and the rows of the mesh
    /// do not, the mesh becomes as square as the number permits (one row stays one row). `name`
    /// appears in messages.
    ///
    /// # Errors
    /// A key that a machine does not have, a value of the wrong type, or an invalid machine.
    pub fn with(
        &self,
        name: &str,
        settings: &[(String, toml::Value)],
    ) -> Result<Machine, MachineError> {
        let invalid = |what: String| MachineError::Invalid { name: name.into(), what };
        let mut table = toml::Table::try_from(self).map_err(|error| invalid(error.to_string()))?;
        for (path, value) in settings {
            set(&mut table, path, value).map_err(invalid)?;
        }
        let mut machine: Machine = table.try_into().map_err(|source| MachineError::Parse {
            name: name.into(),
            source: Box::new(source),
        })?;
        let is_one_row = self.mesh.rows == 1 && rows_of_a_square(self.core.count) > 1;
        let keeps_mesh = is_one_row || settings.iter().any(|(path, _)| path == "mesh.rows");
        if machine.core.count != self.core.count && !keeps_mesh {
            machine.mesh.rows = rows_of_a_square(machine.core.count);
        }
        machine.check().map_err(invalid)?;
        Ok(machine)
    }

    /// The number of sets of one L1 cache.
    pub fn l1_sets(&self) -> usize {
        self.l1.kib * 1024 / 64 / self.l1.ways.max(1)
    }

    /// The number of sets of one LLC bank.
    pub fn llc_sets(&self) -> usize {
        self.llc.kib_per_bank * 1024 / 64 / self.llc.ways.max(1)
    }

    /// The number of columns of the mesh.
    pub fn columns(&self) -> usize {
        self.core.count / self.mesh.rows
    }

    fn check(&self) -> Result<(), String> {
        if !(self.ghz > 0.0 && self.ghz <= 100.0) {
            return Err(format!("ghz = {} is out of range; give more than 0, up to 100", self.ghz));
        }
        self.core.check()?;
        within("l1.ways", self.l1.ways as u64, 1, 64)?;
        within("l1.kib", self.l1.kib as u64, 1, 4096)?;
        within("l1.latency", self.l1.latency, 1, 1000)?;
        power("l1.kib / l1.ways (sets)", self.l1_sets())?;
        if let Some(l2) = self.l2 {
            l2.check()?;
        }
        within("llc.banks", self.llc.banks as u64, 1, 64)?;
        power("llc.banks", self.llc.banks)?;
        within("llc.ways", self.llc.ways as u64, 1, 64)?;
        within("llc.kib_per_bank", self.llc.kib_per_bank as u64, 1, 65536)?;
        within("llc.latency", self.llc.latency, 1, 1000)?;
        within("llc.port_cycles", self.llc.port_cycles, 1, 1000)?;
        power("llc.kib_per_bank / llc.ways (sets)", self.llc_sets())?;
        if self.llc.directory_only && self.prefetch.is_some() {
            return Err(
                "llc.directory_only = true leaves [prefetch] no cache to fetch into; give \
                        one of them"
                    .into(),
            );
        }
        within("mesh.rows", self.mesh.rows as u64, 1, self.core.count as u64)?;
        if !self.core.count.is_multiple_of(self.mesh.rows) {
            return Err(format!(
                "mesh.rows = {} must divide core.count = {}",
                self.mesh.rows, self.core.count
            ));
        }
        within("mesh.flit_bytes", self.mesh.flit_bytes, 2, 4096)?;
        within("mesh.router_latency", self.mesh.router_latency, 0, 1000)?;
        within("mesh.link_latency", self.mesh.link_latency, 0, 1000)?;
        within("memory.controllers", self.memory.controllers as u64, 1, 4)?;
        power("memory.controllers", self.memory.controllers)?;
        within("memory.banks", self.memory.banks as u64, 1, 256)?;
        power("memory.banks", self.memory.banks)?;
        within("memory.write_queue", self.memory.write_queue as u64, 1, 4096)?;
        within("memory.line_cycles", self.memory.line_cycles, 1, 100_000)?;
        within("memory.post", self.memory.post, 0, 100_000)?;
        if let Some(prefetch) = self.prefetch {
            within("prefetch.streams", prefetch.streams as u64, 1, 256)?;
            within("prefetch.ahead", prefetch.ahead.into(), 1, 63)?;
            within("prefetch.per_request", prefetch.per_request.into(), 1, 16)?;
        }
        let devices = [("nvm", Some(self.memory.nvm)), ("dram", self.memory.dram)];
        for (key, device) in devices.into_iter().filter_map(|(key, d)| Some((key, d?))) {
            within(&format!("memory.{key}.read"), device.read, 1, 1_000_000)?;
            within(&format!("memory.{key}.write"), device.write, 1, 1_000_000)?;
            if let Some(cycles) = device.write_line_cycles {
                within(&format!("memory.{key}.write_line_cycles"), cycles, 1, 100_000)?;
            }
            if let Some(dimms) = device.dimms {
                dimms.check(key, device.write)?;
            }
        }
        Ok(())
    }
}

/// Numbers that a machine file can omit.
const OPTIONAL: [&str; 5] = [
    "core.parallelism",
    "core.stores_in_flight",
    "core.flushes",
    "memory.nvm.write_line_cycles",
    "memory.dram.write_line_cycles",
];

/// Replaces the value at `path`, which must be present or be an optional one.
fn set(table: &mut toml::Table, path: &str, value: &toml::Value) -> Result<(), String> {
    let (mut table, mut rest) = (table, path);
    loop {
        let (key, inner) = rest.split_once('.').map_or((rest, None), |(k, rest)| (k, Some(rest)));
        let (is_optional, before) = (OPTIONAL.contains(&path), &path[..path.len() - rest.len()]);
        let optional = OPTIONAL.iter().filter_map(|path| path.strip_prefix(before));
        let optional = optional.filter(|key| !key.contains('.') && !table.contains_key(*key));
        let known: Vec<String> =
            table.keys().map(String::as_str).chain(optional).map(String::from).collect();
        if is_optional && inner.is_none() {
            table.insert(key.to_owned(), value.clone());
            return Ok(());
        }
        match (table.get_mut(key), inner) {
            (Some(toml::Value::Table(next)), Some(inner)) => (table, rest) = (next, inner),
            (Some(found), None) if !found.is_table() => {
                *found = value.clone();
                return Ok(());
            }
            _ => {
                return Err(format!(
                    "there is no number {path} to change; at '{key}' there are {}",
                    known.join(", ")
                ));
            }
        }
    }
}

/// The rows of the most square mesh of `tiles` tiles that is not higher than wide.
fn rows_of_a_square(tiles: usize) -> usize {
    (1..=tiles)
        .take_while(|rows| rows * rows <= tiles)
        .filter(|n| tiles.is_multiple_of(*n))
        .last()
        .unwrap_or(1)
}

fn power(key: &str, value: usize) -> Result<(), String> {
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(format!("{key} = {value} must be a power of two"))
}

/// Refuses a value out of range, naming key, value and range.
pub(crate) fn within(key: &str, value: u64, low: u64, high: u64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is out of range; give {low} to {high}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_that_comes_with_seawall_is_valid() {
        for (name, _) in MACHINES {
            Machine::load(name).unwrap();
        }
    }

    #[test]
    fn a_machine_with_other_numbers_is_one_and_its_mesh_is_as_square_as_can_be() {
        let machine = Machine::load("micro15").unwrap();
        let with = |path: &str, value: i64| machine.with("test", &[(path.into(), value.into())]);
        for (cores, rows) in [(1, 1), (2, 1), (7, 1), (8, 2), (16, 4), (32, 4), (64, 8)] {
            let other = with("core.count", cores).unwrap();
            assert_eq!((other.core.count as i64, other.mesh.rows), (cores, rows));
        }
        for (name, _) in MACHINES {
            let machine = Machine::load(name).unwrap();
            assert_eq!(machine.with(name, &[]).unwrap(), machine);
            let cores = |count: i64| [("core.count".to_owned(), count.into())];
            let (rows, count) = (machine.mesh.rows, machine.core.count as i64);
            let back = machine.with(name, &cores(6)).unwrap().with(name, &cores(count)).unwrap();
            assert_eq!(back.mesh.rows, rows, "{name}");
        }
        assert_eq!(with("memory.nvm.write", 7).unwrap().memory.nvm.write, 7);
        assert_eq!(machine.core.parallelism, None);
        let narrow = with("core.parallelism", 1500).unwrap();
        assert_eq!(narrow.core.parallelism, Some(1500));
        let again = narrow.with("test", &[("core.parallelism".into(), 900.into())]).unwrap();
        assert_eq!(again.core.parallelism, Some(900));
        let error = |path: &str, value: i64| with(path, value).unwrap_err().to_string();
        assert!(error("core.counts", 1).contains("count, "), "{}", error("core.counts", 1));
        assert!(error("core.counts", 1).contains("parallelism"));
        assert!(error("core.parallelism", 1).contains("give 50 to 16000"));
        assert!(error("core.parallelism.x", 1).contains("core.parallelism.x"));
        assert!(error("core", 1).contains("no number core"));
        assert!(error("cores.count", 1).contains("core, "));
        assert!(error("core.count", 65).contains("give 1 to 64"));
        assert!(error("llc.banks", -1).contains("-1"));
    }

    fn broken(from: &str, to: &str) -> String {
        let text = MACHINES[0].1.replace(from, to);
        assert_ne!(text, MACHINES[0].1, "the test changes something");
        Machine::parse("test", &text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        assert!(broken("count = 32", "count = 0").contains("core.count = 0"));
        assert!(broken("kib = 32\n", "kib = 33\n").contains("power of two"));
        assert!(broken("rows = 4", "rows = 5").contains("must divide core.count"));
        let unknown = broken("rob = 192", "robb = 192");
        assert!(unknown.contains("robb") && unknown.contains("store_buffer"), "{unknown}");
        assert!(
            Machine::load("micro16").unwrap_err().to_string().contains("hops17, asap22, optane24")
        );
    }
}
