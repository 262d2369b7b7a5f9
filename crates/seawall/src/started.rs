//! A pool in plain memory, for runs on a simulated machine or under the explorer.

use crate::thread::{BEHIND_BYTES, Thread};
use crate::{Branded, Error, HeapError};
use seawall_memory::{Image, Memory};
use seawall_runtime::{Heap, HeapOptions, typed};

const NAME: &str = "in memory";
const UUID: u128 = 0x5ea_3a11;

/// A new pool that `setup` has filled, and whose logs are truncated: what runs begin with.
pub(crate) fn started<R: Branded>(
    options: &HeapOptions,
    setup: impl FnOnce(&mut Thread<'_, R, Image>) -> Result<(), Error>,
) -> Result<(Image, Heap), HeapError> {
    options.check()?;
    let image = Image::new(options.pm_bytes(), options.dram_bytes() + BEHIND_BYTES);
    let heap =
        typed::create::<R, _, HeapError>(&image, NAME, UUID, options, |pool| Ok(pool.heap()))?;
    let heap = heap.flushing_early();
    let mut thread = Thread::join(heap, &image)?;
    setup(&mut thread)?;
    thread.settle();
    thread.leave();
    Ok((image, heap))
}

/// Recovers the pool, of which a run has left `memory`.
#[cfg(feature = "explore")]
pub(crate) fn recovered<R: Branded>(memory: &impl Memory, bytes: u64) -> Result<Heap, HeapError> {
    typed::open::<R, _, HeapError>(memory, NAME, bytes, |pool| Ok(pool.heap()))
}
