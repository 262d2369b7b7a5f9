//! Machines as data: the TOML files under `machines/`, checked before anything is built from them.
//!
//! An unknown key, a cache whose sets are no power of two or a machine without cores is an error
//! that names the key and the valid values; nothing is guessed.

use serde::{Deserialize, Serialize};

mod dimms;
mod load;

pub use dimms::DimmConfig;
pub use load::{read_description, toml_in_words};

/// A whole simulated machine. Latencies are in core cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The description in `seawall list machines`, one line.
    pub about: String,
    /// Whether a comparison runs every workload by default; if false, the usual five.
    #[serde(default)]
    pub all_workloads: bool,
    /// Runs begin with empty caches and are measured from their first operation. By default the
    /// shared cache holds as much of memory as fits, and there is a warm-up.
    #[serde(default)]
    pub cold: bool,
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
    /// Lines of the write-combining buffer for non-temporal stores; 0: no such buffer. A program's
    /// non-temporal store is an ordinary one then, which no fence makes durable, as in gem5; the
    /// seam's `write_nt`, which promises more, is a store with a flush.
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
    /// Controllers: 1, 2 or 4, at the corners of the mesh, or 8, of which four are between the
    /// corners of its first and last row.
    pub controllers: usize,
    /// Banks behind each controller, a power of two.
    pub banks: usize,
    /// Cycles for which an access keeps its bank busy, which can be fewer than it takes; `None`:
    /// as many as it takes.
    #[serde(default)]
    pub bank_cycles: Option<u64>,
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
    #[error("machine {name}: {what}")]
    Parse {
        /// Name or path.
        name: String,
        /// The error with its place and the valid keys.
        what: String,
    },
    /// A number to change that the machine does not have.
    #[error("machine {name}: there is no number {path} to change; at '{key}' there are {known}")]
    NoNumber {
        /// Name or path of the machine.
        name: String,
        /// The number, as in `llc.banks`.
        path: String,
        /// The part of it that there is not.
        key: String,
        /// What there is in its place.
        known: String,
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

/// The built-in machines: name and text.
pub const MACHINES: &[(&str, &str)] = &[
    ("micro15", include_str!("../machines/micro15.toml")),
    ("desktop", include_str!("../machines/desktop.toml")),
    ("memsys17-i7", include_str!("../machines/memsys17-i7.toml")),
    ("hops17", include_str!("../machines/hops17.toml")),
    ("asap22", include_str!("../machines/asap22.toml")),
    ("optane24", include_str!("../machines/optane24.toml")),
    ("ffccd22", include_str!("../machines/ffccd22.toml")),
    ("tsoper21", include_str!("../machines/tsoper21.toml")),
    ("gem5-ruby", include_str!("../machines/gem5-ruby.toml")),
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

    /// Cycles for which an access of this latency keeps a bank busy.
    pub fn bank_busy(&self, latency: u64) -> u64 {
        self.bank_cycles.unwrap_or(latency)
    }
}

impl Machine {
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

    /// The tile of each memory controller: the corners of the mesh, then the first and the last row
    /// from the left in turns, and from the start again if these have no more tiles.
    pub fn controller_tiles(&self) -> Vec<usize> {
        let (tiles, columns) = (self.core.count, self.columns());
        let corners = [0, tiles - 1, columns - 1, tiles - columns];
        let between = (1..columns.saturating_sub(1)).flat_map(|x| [x, tiles - columns + x]);
        corners.into_iter().chain(between).cycle().take(self.memory.controllers).collect()
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
        within("memory.controllers", self.memory.controllers as u64, 1, 8)?;
        power("memory.controllers", self.memory.controllers)?;
        within("memory.banks", self.memory.banks as u64, 1, 256)?;
        power("memory.banks", self.memory.banks)?;
        within("memory.bank_cycles", self.memory.bank_busy(1), 1, 1_000_000)?;
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
    fn eight_controllers_are_at_the_corners_and_between_those_of_the_first_and_last_row() {
        let tiles = |name: &str| Machine::load(name).unwrap().controller_tiles();
        assert_eq!(tiles("tsoper21"), [0, 7, 3, 4, 1, 5, 2, 6], "each tile of two rows has one");
        assert_eq!(tiles("micro15"), [0, 31, 7, 24]);
        let lone = Machine::load("micro15").unwrap();
        let lone = lone.with("lone", &[("core.count".into(), 1.into())]).unwrap();
        assert_eq!(lone.controller_tiles(), [0; 4]);
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
