//! The table `memory.nvm.dimms` of a machine file: Optane-like DIMMs.
//!
//! One number for each part that LENS and VANS (MICRO'20) found; the parts are described in
//! [`optane`](crate::memory::optane). A machine without the table has a plain device.

use super::within;
use serde::{Deserialize, Serialize};

/// Interleaved Optane-like DIMMs. Latencies are in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimmConfig {
    /// The number of DIMMs, 1 to 64; pages of 4 KiB are interleaved over them.
    pub count: usize,
    /// Cycles that a line keeps the channel of its DIMM busy.
    pub channel_cycles: u64,
    /// Lines in the write-pending queue of each DIMM.
    pub write_queue: usize,
    /// Sets of the buffer in which written lines wait for the rest of their XPLine, a power of two.
    pub combining_sets: usize,
    /// Lines of a set, 4 to 256.
    pub combining_lines: usize,
    /// XPLines of 256 bytes in the read buffer of a DIMM.
    pub buffer_xplines: usize,
    /// The latency from the media to that buffer, on top of `media_read`.
    pub fetch: u64,
    /// Pages of 4 KiB whose media address is cached, a multiple of `translated_ways`.
    pub translated_pages: usize,
    /// Associativity of this address cache.
    pub translated_ways: usize,
    /// The latency of a miss in the address cache.
    pub translate: u64,
    /// The latency until the media have read an XPLine.
    pub media_read: u64,
    /// Cycles that reading an XPLine keeps the media busy: their read bandwidth.
    pub media_read_cycles: u64,
    /// Cycles that writing an XPLine keeps the media busy.
    pub media_write_cycles: u64,
    /// The number of XPLines that can wait to be written to the media.
    pub media_queue: usize,
    /// The size of a wear-levelling block in KiB, which is moved as a whole.
    pub wear_block_kib: u32,
    /// Writes of one XPLine after which its block is moved, up to 65535.
    pub wear_writes: u16,
}

impl DimmConfig {
    /// Checks the table of `device`, whose write latency is `write`.
    pub(super) fn check(&self, device: &str, write: u64) -> Result<(), String> {
        if device != "nvm" {
            let key = format!("memory.{device}.dimms");
            return Err(format!("{key} is not possible; only memory.nvm.dimms is"));
        }
        let limits = [
            ("count", self.count as u64, 1, 64),
            ("channel_cycles", self.channel_cycles, 1, write.min(100_000)),
            ("write_queue", self.write_queue as u64, 1, 4096),
            ("combining_sets", self.combining_sets as u64, 1, 4096),
            ("combining_lines", self.combining_lines as u64, 4, 256),
            ("buffer_xplines", self.buffer_xplines as u64, 1, 4096),
            ("fetch", self.fetch, 0, 1_000_000),
            ("translated_pages", self.translated_pages as u64, 1, 1 << 20),
            ("translated_ways", self.translated_ways as u64, 1, 4096),
            ("translate", self.translate, 0, 1_000_000),
            ("media_read", self.media_read, 1, 1_000_000),
            ("media_read_cycles", self.media_read_cycles, 1, 1_000_000),
            ("media_write_cycles", self.media_write_cycles, 1, 1_000_000),
            ("media_queue", self.media_queue as u64, 1, 4096),
            ("wear_block_kib", self.wear_block_kib.into(), 1, 1 << 20),
            ("wear_writes", self.wear_writes.into(), 1, u16::MAX.into()),
        ];
        for (key, value, low, high) in limits {
            within(&format!("memory.nvm.dimms.{key}"), value, low, high)?;
        }
        if !self.combining_sets.is_power_of_two() {
            return Err(format!(
                "memory.nvm.dimms.combining_sets = {} must be a power of two",
                self.combining_sets
            ));
        }
        if !self.translated_pages.is_multiple_of(self.translated_ways) {
            return Err(format!(
                "memory.nvm.dimms.translated_pages = {} must be a multiple of translated_ways = {}",
                self.translated_pages, self.translated_ways
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Machine;

    fn error(path: &str, value: i64) -> String {
        let machine = Machine::load("optane24").unwrap();
        let path = format!("memory.nvm.dimms.{path}");
        machine.with("test", &[(path, value.into())]).unwrap_err().to_string()
    }

    #[test]
    fn a_number_of_the_dimms_can_be_changed_and_a_wrong_one_is_named() {
        let machine = Machine::load("optane24").unwrap();
        let one = machine.with("one", &[("memory.nvm.dimms.count".into(), 1.into())]).unwrap();
        assert_eq!(one.memory.nvm.dimms.unwrap().count, 1);
        assert!(error("count", 0).contains("memory.nvm.dimms.count = 0"));
        assert!(error("combining_sets", 12).contains("combining_sets = 12 must be a power of two"));
        assert!(error("translated_ways", 7).contains("multiple of translated_ways = 7"));
        assert!(error("xplines", 7).contains("buffer_xplines"));
        let plain = Machine::load("desktop").unwrap();
        let path = "memory.nvm.dimms.count".to_owned();
        assert!(plain.with("test", &[(path, 1.into())]).is_err(), "it has no DIMMs");
    }

    #[test]
    fn only_the_persistent_device_can_be_dimms() {
        let text = include_str!("../../machines/optane24.toml");
        let (before, dimms) = text.split_once("[memory.nvm.dimms]").unwrap();
        let moved = format!("{before}[memory.dram.dimms]{dimms}");
        let error = Machine::parse("test", &moved).unwrap_err().to_string();
        assert!(error.contains("memory.dram.dimms"), "{error}");
    }
}
