//! What the toy does not do: it has no flushes and relocates nothing, so programs of the seam do
//! not ask for these, and it runs no compiled code.

use super::Toy;
use crate::Cycle;
use crate::engine::counters::Reason;
use crate::run::Measured;
use crate::seam::HostPort;
use seawall_memory::Addr;

/// A call that no program of the seam makes on a machine that says it cannot.
pub(super) fn call() -> ! {
    panic!("the toy has no such operation")
}

impl HostPort for Toy {
    fn map(&mut self, _: u64, _: bool, _: &[u8]) -> bool {
        call()
    }

    fn is_mapped(&self, _: Addr) -> bool {
        true
    }

    fn lock(&mut self, _: usize, _: Addr, _: usize) -> Option<[u64; 2]> {
        call()
    }

    fn unlock(&mut self, _: usize, _: Addr, _: usize, _: Option<[u64; 2]>) {
        call()
    }

    fn full_fence(&mut self, _: usize) -> bool {
        call()
    }

    fn load_bytes(&mut self, _: usize, _: Addr, _: usize) -> Option<u64> {
        call()
    }

    fn load_at_once(&mut self, _: usize, _: Addr, _: &mut [u64]) -> bool {
        call()
    }

    fn store_at_once(&mut self, _: usize, _: Addr, _: &[u64], _: &[u64]) -> bool {
        call()
    }

    fn stream_at_once(&mut self, _: usize, _: Addr, _: &[u64; 8]) -> bool {
        call()
    }

    fn frame_loads(&mut self, _: usize, _: Addr, _: u32) -> bool {
        call()
    }

    fn frame_stores(&mut self, _: usize, _: Addr, _: u16, _: u64) -> bool {
        call()
    }

    fn park(&mut self, _: usize, _: Reason, _: Option<Cycle>) -> Option<bool> {
        call()
    }

    fn turn(&mut self, _: usize) -> bool {
        call()
    }

    fn unpark(&mut self, _: usize, _: usize) -> bool {
        call()
    }

    fn end(&mut self, _: usize) -> bool {
        call()
    }

    fn warm(&mut self, _: usize) -> bool {
        true
    }

    fn set_site(&mut self, _: usize, _: u32) {}

    fn wait_for_address(&mut self, _: usize, _: Cycle) {}

    fn arrived(&mut self, _: usize) -> Cycle {
        0
    }

    fn measured(&mut self, _: usize) -> Option<Measured> {
        call()
    }

    fn mark_region(&mut self, _: usize, _: bool) -> bool {
        true
    }

    fn is_pending(&self, _: usize, _: Addr) -> bool {
        false
    }

    fn cores(&self) -> usize {
        self.cores.len()
    }

    fn ghz(&self) -> f64 {
        1.0
    }
}
