//! Temporary folders of commands that run programs: none stays, however the command ends.
//!
//! A folder is removed when it is dropped, and by [`drop_folders`] in a process that ends at once.
//! A process that is killed can do neither: its [keeper](keeper) does it then.

mod keeper;

pub use keeper::keep_folders;

use keeper::{Keeper, remove};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The folders that are there, and who keeps them as long as there are any.
struct Folders {
    paths: Vec<PathBuf>,
    keeper: Option<Keeper>,
}

static FOLDERS: Mutex<Folders> = Mutex::new(Folders { paths: Vec::new(), keeper: None });

fn folders() -> MutexGuard<'static, Folders> {
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if folders.keeper.as_ref().is_some_and(|keeper| !keeper.is_own()) {
        *folders = Folders { paths: Vec::new(), keeper: None };
    }
    folders
}

impl Folders {
    fn make(&mut self) -> io::Result<PathBuf> {
        let keeper = match &mut self.keeper {
            Some(keeper) => keeper,
            none => none.insert(Keeper::start()?),
        };
        let path = keeper.make()?;
        self.paths.push(path.clone());
        Ok(path)
    }

    /// Removes a folder, and ends the keeper with the last one.
    fn remove(&mut self, folder: &Path) {
        let Some(place) = self.paths.iter().position(|known| known == folder) else { return };
        remove(folder);
        self.paths.swap_remove(place);
        self.keeper.iter_mut().for_each(|keeper| keeper.forget(folder));
        if self.paths.is_empty() {
            self.keeper = None;
        }
    }
}

/// A folder for the files of programs, which is removed with all that is in it.
#[derive(Debug)]
pub struct ProgramFolder(PathBuf);

impl ProgramFolder {
    /// An empty one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<ProgramFolder> {
        let mut folders = folders();
        let made = folders.make();
        if made.is_err() && folders.paths.is_empty() {
            folders.keeper = None;
        }
        made.map(ProgramFolder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ProgramFolder {
    fn drop(&mut self) {
        folders().remove(&self.0);
    }
}

/// Removes all folders, in a process that is to end at once. No other is made until the returned
/// guard is dropped.
#[must_use]
pub fn drop_folders() -> impl Drop {
    let mut folders = folders();
    for folder in std::mem::take(&mut folders.paths) {
        remove(&folder);
    }
    folders.keeper = None;
    folders
}
