//! What both sides of an exploration do with files of pools.

use crate::request::PAGE;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Copies a file, or a folder with all that is in it. Holes of files stay holes.
pub(crate) fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let is = fs::metadata(from)?;
    if is.is_file() {
        return fs::copy(from, to).map(drop);
    }
    if is.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_all(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// The page of a file that begins at `offset`: zeros where the file is shorter.
pub(crate) fn page_of(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(bytes)
}
