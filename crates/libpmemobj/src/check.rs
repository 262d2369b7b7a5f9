//! `pmemobj_check`: whether a pool is whole, found out without changing it.
//!
//! The check opens a copy of the pool's bytes in memory, as after a crash and as `pmemobj_open`
//! does it, and walks over all objects.

use crate::error::Failure;
use crate::pool;
use seawall_memory::Image;
use seawall_native::PoolFile;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Whether the pool in the file is whole, and of that layout.
pub(crate) fn check(path: &Path, layout: Option<&[u8]>) -> Result<bool, Failure> {
    let file = PoolFile::read(path)?;
    let mut bytes = vec![0; file.bytes()? as usize];
    let read = file.file().read_exact_at(&mut bytes, 0);
    read.map_err(|error| pool::io_failure(path, &error))?;
    let size = bytes.len() as u64;
    let head = Image::from_pm(bytes[..4096].to_vec(), 0);
    let info = pool::described(&head, size)?;
    let image = Image::from_pm(bytes, info.dram_bytes());
    if let Some(layout) = layout {
        pool::check_layout(&image, &info, layout)?;
    }
    let whole = pool::opened(&image, size, None).and_then(|heap| {
        let objects = heap.objects(&image, |_| {});
        objects.map_err(|error| Failure::invalid(error.to_string()))
    });
    Ok(whole.map_err(|failure| failure.report()).is_ok())
}
