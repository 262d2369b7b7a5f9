//! Files that are written whole or not at all.

use crate::LabError;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`. If that fails, what was there before is still there.
///
/// # Errors
/// When the file cannot be written; the message names it.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let is_device = fs::metadata(path).is_ok_and(|status| !status.is_file());
    if is_device {
        return fs::write(path, bytes).map_err(LabError::file(path));
    }
    // A link stays, and what it points to is written.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let part = part_of(path);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.map_err(LabError::file(path))
}

/// Finds out before a long run whether `path` can be written at its end.
///
/// # Errors
/// When it cannot; the message names it.
pub fn check_writable(path: &Path) -> Result<(), LabError> {
    if fs::metadata(path).is_ok_and(|status| !status.is_file()) {
        return fs::OpenOptions::new()
            .write(true)
            .open(path)
            .map(drop)
            .map_err(LabError::file(path));
    }
    let part = part_of(path);
    fs::write(&part, b"").and_then(|()| fs::remove_file(&part)).map_err(LabError::file(path))
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        for text in ["one", "two"] {
            check_writable(&path).unwrap();
            write_file(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_and_stays_as_it_was() {
        let missing = Path::new("/no/such/folder/out.json");
        for error in [check_writable(missing), write_file(missing, b"x")] {
            let message = error.unwrap_err().to_string();
            assert!(message.contains("/no/such/folder/out.json"), "{message}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(write_file(folder.path(), b"x").is_err(), "a folder is no file");
        assert!(folder.path().is_dir());
    }
}
