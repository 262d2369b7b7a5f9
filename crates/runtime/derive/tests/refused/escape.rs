//! A pointer that leaves the closure of its pool.

use seawall_memory::Image;
use seawall_runtime::typed::{self, Ptr};
use seawall_runtime::HeapError;

fn returned(memory: &Image) -> Result<(), HeapError> {
    let root = typed::open::<u64, _, HeapError>(memory, "one", 1 << 20, |pool| Ok(pool.root()))?;
    drop(root);
    Ok(())
}

fn kept(memory: &Image) -> Result<(), HeapError> {
    let mut kept: Option<Ptr<'_, u64>> = None;
    typed::open::<u64, _, HeapError>(memory, "one", 1 << 20, |pool| {
        kept = Some(pool.root());
        Ok(())
    })
}

fn main() {}
