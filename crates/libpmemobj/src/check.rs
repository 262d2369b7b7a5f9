//! `pmemobj_check`: whether a pool is whole, found out without changing it.
//!
//! The check opens a copy of the pool's bytes in memory, as after a crash, and walks over all
//! objects.

use crate::error::Failure;
use crate::pool;
use seawall_memory::Image;
use seawall_native::{Pool, PoolError, PoolOptions};
use seawall_runtime::Heap;
use std::path::Path;

/// Whether the pool in the file is whole, and of that layout.
pub(crate) fn check(path: &Path, layout: Option<&[u8]>) -> Result<bool, Failure> {
    if path.is_dir() {
        return Err(Failure::invalid(format!("{}: is a folder", path.display())));
    }
    // Opened only to find out whether it is in use.
    let opened = Pool::open(path, &PoolOptions::default(), |_, _| Err(String::new()));
    if let Err(error @ (PoolError::InUse { .. } | PoolError::NotFound { .. })) = opened {
        return Err(error.into());
    }
    let bytes = std::fs::read(path).map_err(|error| pool::io_failure(path, &error))?;
    let size = bytes.len() as u64;
    let described = Image::from_pm(bytes.get(..4096).unwrap_or_default().to_vec(), 0);
    if bytes.len() < 4096 {
        return Err(Failure::invalid(format!("{}: too small for a pool", path.display())));
    }
    let info = pool::described(&described, size)?;
    let image = Image::from_pm(bytes, info.dram_bytes());
    if let Some(layout) = layout {
        pool::check_layout(&image, &info, layout)?;
    }
    let whole =
        Heap::open(&image, pool::NAME, size).map_err(Failure::from).and_then(|(heap, _)| {
            heap.objects(&image, |_| {}).map_err(|error| Failure::invalid(error.to_string()))
        });
    Ok(whole.map_err(|failure| failure.report()).is_ok())
}
