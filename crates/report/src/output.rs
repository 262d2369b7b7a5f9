//! Files that are written whole or not at all, and the one way by which a command writes them.
//!
//! Results go to a new file beside the old one, which takes its name when it is whole. What a
//! command writes is an [`Output`], and only [`Files`] makes one, after it has set it beside all
//! else that the command reads, makes and writes.

mod files;
mod streams;

pub use files::{Files, Form, Output};

use crate::ReportError;
use seawall_native::hold_signals;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use streams::Stream;

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

/// Prints a line on standard error. The command goes on if that is closed.
pub fn tell(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes `bytes` to `path`. If that fails, what was there before is still there.
///
/// A link stays, and what it leads to is written. Pipes, devices and what is open already are
/// written as they are, so that nothing else is lost that goes there too.
///
/// # Errors
/// When the file cannot be written; the message names it.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    put(path, bytes)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let open = if let Some(stream) = Stream::of(path) {
        Some(stream.open(path))
    } else if fs::metadata(path).is_ok_and(|status| !status.is_file()) {
        let file = OpenOptions::new().write(true).open(path);
        Some(file.map(|file| Box::new(file) as Box<dyn Write>))
    } else {
        None
    };
    if let Some(open) = open {
        let written = open.and_then(|mut it| it.write_all(bytes).and_then(|()| it.flush()));
        return written.map_err(ReportError::file(path));
    }
    let whole = end_of_links(path).and_then(|end| Ok((fill_part(&end, bytes)?, end)));
    let (part, end) = whole.map_err(ReportError::file(path))?;
    take_place(&part, &end, path)
}

/// A new file beside `path` that has `bytes`, and the mode of the old one.
fn fill_part(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let (part, mut file) = {
        let mut parts = parts();
        let (part, file) = part_of(path)?;
        parts.push(part.clone());
        (part, file)
    };
    let filled = file.write_all(bytes).and_then(|()| file.sync_all());
    let filled = filled.and_then(|()| match fs::metadata(path) {
        Ok(status) => file.set_permissions(status.permissions()),
        Err(_) => Ok(()),
    });
    if filled.is_err() {
        let mut parts = parts();
        let _ = fs::remove_file(&part);
        parts.retain(|it| *it != part);
    }
    filled.map(|()| part)
}

/// Gives `part`, which is whole, the name `end`, to which `path` leads. If the system refuses, the
/// part stays, so that the results of a long run are not lost.
fn take_place(part: &Path, end: &Path, path: &Path) -> Result<(), ReportError> {
    let mut parts = parts();
    let placed = fs::rename(part, end);
    parts.retain(|it| it != part);
    placed.map_err(|source| ReportError::NotPlaced {
        path: path.display().to_string(),
        part: part.display().to_string(),
        source,
    })
}

/// The files that have not taken their place yet.
static PARTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn parts() -> MutexGuard<'static, Vec<PathBuf>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that have not taken their place yet, of a process that is to end at once. No
/// other is begun, and none takes its place, until the returned guard is dropped.
#[must_use]
pub fn drop_parts() -> impl Drop {
    let mut parts = parts();
    for part in parts.drain(..) {
        let _ = fs::remove_file(part);
    }
    parts
}

/// Finds out before a long run whether `path` can be written at its end.
///
/// # Errors
/// When it cannot; the message names it.
fn check_writable(path: &Path) -> Result<(), ReportError> {
    let check = || match fs::metadata(path) {
        // To open and close it would end what reads it.
        Ok(status) if status.file_type().is_fifo() => Ok(()),
        _ if let Some(stream) = Stream::of(path) => stream.open(path).map(drop),
        Ok(status) if !status.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        _ => check_beside(&end_of_links(path)?),
    };
    check().map_err(ReportError::file(path))
}

/// Finds out before a long run whether files can be written in the folder `path` at its end, if
/// need be after it is made.
///
/// # Errors
/// When they cannot; the message names the folder.
fn check_fillable(path: &Path) -> Result<(), ReportError> {
    let check = || {
        for folder in path.ancestors() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            match fs::symlink_metadata(folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
                Ok(_) if fs::metadata(folder)?.is_dir() => {
                    return check_beside(&folder.join("plot"));
                }
                Ok(_) => return Err(ErrorKind::NotADirectory.into()),
            }
        }
        Err(ErrorKind::NotFound.into())
    };
    check().map_err(ReportError::file(path))
}

/// Makes a file where the new one beside `path` will be, and leaves none.
fn check_beside(path: &Path) -> io::Result<()> {
    hold_signals(|| part_of(path).and_then(|(part, _)| fs::remove_file(part)))
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
    fn results_that_do_not_get_their_name_are_kept_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let part = fill_part(&path, b"of a long run").unwrap();
        fs::create_dir(&path).unwrap();
        let said = take_place(&part, &path, &path).unwrap_err().to_string();
        assert!(said.contains(&*part.display().to_string()) && said.contains("move it"), "{said}");
        assert_eq!(fs::read(part).unwrap(), b"of a long run");
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
