//! Lays out areas one after the other, in whole cache lines, in the pool and in DRAM.
//!
//! The layout of a structure depends on its parameters only, so the same parameters read from a
//! pool after a crash yield the same addresses, and no address needs to be stored.

use crate::pool::HEADER_BYTES;
use seawall_memory::{Addr, LINE_BYTES};

/// The maximum bytes of either region: 64 TiB.
const BYTES_MAX: u64 = 1 << 46;

/// The part of the pool (after its header) and of the DRAM region that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    pm: u64,
    dram: u64,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new()
    }
}

impl Arena {
    /// An arena with nothing taken except the pool's header.
    pub const fn new() -> Arena {
        Arena { pm: HEADER_BYTES, dram: 0 }
    }

    /// Takes `bytes` of the pool, rounded up to whole lines.
    ///
    /// # Panics
    /// When the pool would exceed 64 TiB: parameters are checked before areas are placed.
    pub fn pm(&mut self, bytes: u64) -> Addr {
        Addr::pm(take(&mut self.pm, bytes))
    }

    /// Takes `bytes` of DRAM, rounded up to whole lines.
    ///
    /// # Panics
    /// When the region would exceed 64 TiB.
    pub fn dram(&mut self, bytes: u64) -> Addr {
        Addr::dram(take(&mut self.dram, bytes))
    }

    /// The bytes of a pool that holds all that was taken.
    pub const fn pm_bytes(&self) -> u64 {
        self.pm
    }

    /// The bytes of the DRAM region.
    pub const fn dram_bytes(&self) -> u64 {
        self.dram
    }
}

fn take(used: &mut u64, bytes: u64) -> u64 {
    let start = *used;
    assert!(bytes <= BYTES_MAX && start <= BYTES_MAX - bytes, "an area of {bytes} bytes");
    *used = start + bytes.next_multiple_of(LINE_BYTES);
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_start_on_lines_and_do_not_overlap() {
        let mut arena = Arena::new();
        let first = arena.pm(1);
        let second = arena.pm(65);
        let third = arena.pm(8);
        assert_eq!(first, Addr::pm(HEADER_BYTES));
        assert_eq!(second, first.plus(64));
        assert_eq!(third, second.plus(128));
        assert_eq!(arena.pm_bytes(), third.offset() + 64);
        assert!(!arena.dram(8).is_pm());
        assert_eq!(arena.dram_bytes(), 64);
    }

    #[test]
    #[should_panic(expected = "an area of")]
    fn an_area_beyond_the_address_space_is_refused() {
        Arena::new().pm(u64::MAX - 10);
    }
}
