//! The objects in a pool of libpmemobj. No thread may use them while they are defragmented.

use super::{OBJECT_BYTES, PAGE_BYTES, Phase, Seen, file_bytes, timed};
use crate::pmdk;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// libpmemobj, with `pmemobj_defrag` or without.
pub(super) fn run(
    path: &Path,
    phases: &[Phase],
    slots: u64,
    defragments: bool,
) -> Result<Vec<Seen>> {
    let table = pmdk::Slots::create(path, slots * 400 + (64 << 20), slots)?;
    let left = || -> Result<(f64, f64)> {
        let objects = (0..slots).filter_map(|slot| table.object(slot).map(|(at, _)| at));
        let (mut pages, mut live) = (BTreeSet::new(), 0);
        for at in objects {
            pages.extend(at / PAGE_BYTES..=(at + OBJECT_BYTES - 1) / PAGE_BYTES);
            live += OBJECT_BYTES;
        }
        let bytes = pages.len() as u64 * PAGE_BYTES;
        Ok((bytes as f64 / live as f64, file_bytes(path)? as f64 / live as f64))
    };
    let mut all = Vec::new();
    for phase in phases {
        let (times, mut spent) = timed(&phase.slots, |slot| match phase.puts {
            true => table.put(slot),
            false => {
                table.take(slot);
                Ok(())
            }
        })?;
        let before = left()?;
        let begun = Instant::now();
        if defragments && !phase.puts {
            table.defrag()?;
            table.defrag()?;
        }
        let stopped = begun.elapsed();
        spent += stopped;
        let mut seen = Seen::of(phase.name, times, spent);
        seen.pause = seen.pause.max(stopped);
        seen.left = [before, left()?];
        all.push(seen);
    }
    for slot in 0..slots {
        let is_whole = table.object(slot).is_none_or(|(_, value)| value == slot);
        ensure!(is_whole, "the object of slot {slot} is not what it was");
    }
    Ok(all)
}
