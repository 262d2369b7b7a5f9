//! Files that are written whole or not at all, and the one way by which a command writes them.
//!
//! Results go to a new file beside the old one, which takes its name when it is whole. What a
//! command writes is an [`Output`], and only [`Files`] makes one, after it has set it beside all
//! else that the command reads, makes and writes.

mod files;

pub use files::{Files, Output};

use crate::LabError;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Links that lead to links, at most.
const LINKS_MAX: usize = 40;
/// Files beside the old one that earlier processes of our number have left, at most.
const PARTS_MAX: u32 = 100;

/// How much of what a command was to do it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Everything.
    All,
    /// Some of it, when it was stopped.
    Some,
    /// Nothing, when it was stopped.
    Nothing,
}

impl Finished {
    /// What is finished of a command that was stopped early, if `is_partial`, with no results at
    /// all, if `is_empty`.
    pub fn of(is_partial: bool, is_empty: bool) -> Finished {
        match (is_partial, is_empty) {
            (false, _) => Finished::All,
            (true, false) => Finished::Some,
            (true, true) => Finished::Nothing,
        }
    }
}

/// Writes `bytes` to `path`. If that fails, what was there before is still there.
///
/// A link stays, and what it leads to is written. Pipes and devices are written as they are; what
/// standard output or standard error is, by any name, goes there, so that nothing else is lost
/// that goes there too.
///
/// # Errors
/// When the file cannot be written; the message names it.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    put(path, bytes).map_err(LabError::file(path))
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let status = fs::metadata(path).ok();
    if let Some(status) = &status {
        if let Some(mut stream) = standard_stream(status) {
            return stream.write_all(bytes).and_then(|()| stream.flush());
        }
        if !status.is_file() {
            return OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
    }
    let path = end_of_links(path)?;
    let (part, mut file) = part_of(&path)?;
    let filled = file.write_all(bytes).and_then(|()| file.sync_all());
    let placed = filled.and_then(|()| {
        if let Some(status) = status {
            file.set_permissions(status.permissions())?;
        }
        fs::rename(&part, &path)
    });
    if placed.is_err() {
        let _ = fs::remove_file(&part);
    }
    placed
}

/// Finds out before a long run whether `path` can be written at its end.
///
/// # Errors
/// When it cannot; the message names it.
fn check_writable(path: &Path) -> Result<(), LabError> {
    let check = || match fs::metadata(path) {
        // To open and close it would end what reads it.
        Ok(status) if status.file_type().is_fifo() => Ok(()),
        Ok(status) if standard_stream(&status).is_some() => Ok(()),
        Ok(status) if !status.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        _ => part_of(&end_of_links(path)?).and_then(|(part, _)| fs::remove_file(part)),
    };
    check().map_err(LabError::file(path))
}

/// Standard output or standard error, if `status` is of what that is.
fn standard_stream(status: &Metadata) -> Option<Box<dyn Write>> {
    let is_it = |stream: io::Result<std::os::fd::OwnedFd>| {
        let of_stream = stream.and_then(|copy| File::from(copy).metadata());
        of_stream.is_ok_and(|it| (it.dev(), it.ino()) == (status.dev(), status.ino()))
    };
    if is_it(io::stdout().as_fd().try_clone_to_owned()) {
        Some(Box::new(io::stdout()))
    } else if is_it(io::stderr().as_fd().try_clone_to_owned()) {
        Some(Box::new(io::stderr()))
    } else {
        None
    }
}

/// Where `path` leads if its last part is a link, or a link to one, be anything there or not.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().map_or(to.clone(), |folder| folder.join(&to)),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("links lead to links without end"))
}

/// A new file beside `path`, open, and its name.
fn part_of(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for number in 0..PARTS_MAX {
        let dash = if number == 0 { String::new() } else { format!("-{number}") };
        let part = with_ending(path, &format!(".{}{dash}.part", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&part) {
            Ok(file) => return Ok((part, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    #[test]
    fn links_stay_and_lead_to_the_new_file_which_has_the_mode_of_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("second", at("first")).unwrap();
        symlink("real", at("second")).unwrap();
        for text in ["one", "two"] {
            write_file(&at("first"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(at("real")).unwrap(), text);
            assert!(at("first").is_symlink() && at("second").is_symlink());
            let mode = fs::metadata(at("real")).unwrap().permissions().mode() & 0o777;
            assert!(text == "one" || mode == 0o600, "{mode:o}");
            fs::set_permissions(at("real"), fs::Permissions::from_mode(0o600)).unwrap();
        }
        symlink("loop", at("loop")).unwrap();
        assert!(write_file(&at("loop"), b"x").unwrap_err().to_string().contains("loop"));
        assert!(at("loop").is_symlink());
    }

    #[test]
    fn what_another_process_has_left_in_the_way_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let left = with_ending(&path, &format!(".{}.part", std::process::id()));
        fs::write(&left, "of somebody").unwrap();
        check_writable(&path).unwrap();
        write_file(&path, b"x").unwrap();
        assert_eq!(fs::read_to_string(&left).unwrap(), "of somebody");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
