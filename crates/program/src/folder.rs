//! Temporary folders of commands that run programs: none stays, however the command ends.
//!
//! A folder is removed when it is dropped, and by [`drop_folders`] in a process that ends at once.
//! A process that is killed can do neither: the [keepers](crate::kept) of its programs know its
//! folders, and remove them then.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The folders that are there.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for the files of programs, which is removed with all that is in it.
#[derive(Debug)]
pub struct ProgramFolder(TempDir);

impl ProgramFolder {
    /// An empty one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<ProgramFolder> {
        let mut known = folders();
        let folder = tempfile::Builder::new().prefix("seawall-").tempdir()?;
        known.push(folder.path().to_owned());
        Ok(ProgramFolder(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for ProgramFolder {
    fn drop(&mut self) {
        folders().retain(|known| known != self.path());
    }
}

/// Removes all folders, in a process that is to end at once. No other is made until the returned
/// guard is dropped.
#[must_use]
pub fn drop_folders() -> impl Drop {
    let mut folders = folders();
    for folder in folders.drain(..) {
        let _ = std::fs::remove_dir_all(folder);
    }
    folders
}

/// Who has asked for a process, and what is to be removed once he is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) process: u32,
    pub(crate) folders: Vec<PathBuf>,
}

impl Asker {
    /// This process.
    pub(crate) fn this() -> Asker {
        Asker { process: std::process::id(), folders: folders().clone() }
    }
}
