//! A pointer that nothing was allocated for.

use seawall_memory::Addr;
use seawall_runtime::typed::{Persist, Ptr, derived};

fn made<'p>() -> Ptr<'p, u64> {
    Ptr::new(Addr::pm(4096))
}

struct Forger;

impl derived::Source for Forger {
    fn load<W: seawall_memory::Word>(&self, _: Addr) -> W {
        W::from_bits(4096)
    }

    fn read(&self, _: Addr, _: &mut [u8]) {}
}

fn loaded<'p>() -> Ptr<'p, u64> {
    Persist::load(&Forger, Addr::NULL)
}

fn main() {}
