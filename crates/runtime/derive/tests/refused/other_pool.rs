//! A pointer of one pool stored in another, and followed there.

use seawall_memory::Image;
use seawall_runtime::typed::{self, Persist, Pool, Ptr};
use seawall_runtime::HeapError;

#[derive(Clone, Copy, Persist)]
struct Root<'p> {
    value: Option<Ptr<'p, u64>>,
}

fn stored(memory: &Image, other: &Image) -> Result<(), HeapError> {
    typed::open::<Root, _, _>(memory, "one", 1 << 20, |one| {
        typed::open::<Root, _, _>(other, "two", 1 << 20, |two| {
            let ptr = one.join(memory).transaction(|tx| tx.alloc(7u64))?;
            two.join(other).transaction(|tx| tx.set(two.root(), Root { value: Some(ptr) }))?;
            Ok(())
        })
    })
}

fn followed<'p, 'q>(one: Pool<'p, u64>, two: Pool<'q, u64>, memory: &Image) -> u64 {
    two.join(memory).get(one.root()).unwrap_or(0)
}

fn main() {}
