//! Temporary folders of commands that run programs: none stays, however the command ends.
//!
//! A folder is removed when it is dropped, and by [`drop_folders`] in a process that ends at once.
//! A process that is killed can do neither: its [keeper](keeper) does it then.
//!
//! The files of a run are in one folder: in [`IN`] those that it makes beside {pool}, and below
//! [`OUT`], at their own paths, its copies of those that are elsewhere (`process/elsewhere.rs`).

mod keeper;

pub use keeper::keep_folders;

use keeper::{Keeper, remove};
use serde::{Deserialize, Serialize};
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

/// In the folder of a process: its files.
pub const FILES: &str = "files";
/// What a crash has left of them.
pub(crate) const CRASHED: &str = "crashed";
/// In the folder of the files of a run: those beside {pool}.
const IN: &str = "in";
/// Those that are elsewhere.
pub(crate) const OUT: &str = "out";

/// All of them.
pub(crate) const PARTS: [&str; 2] = [IN, OUT];

/// The file that {pool} stands for, of a run with its files in this folder.
pub fn pool_in(files: &Path) -> PathBuf {
    files.join(IN).join("pool")
}

/// Makes the folder of the files of a run; returns the path of {pool}.
///
/// # Errors
/// When it cannot be made.
pub fn make_files(files: &Path) -> io::Result<PathBuf> {
    for part in PARTS {
        std::fs::create_dir_all(files.join(part))?;
    }
    Ok(pool_in(files))
}

/// A file in the folder of a run, as its program knows it.
pub(crate) fn as_known(file: &Path) -> PathBuf {
    if let Ok(outside) = file.strip_prefix(OUT) {
        return Path::new("/").join(outside);
    }
    file.strip_prefix(IN).unwrap_or(file).into()
}

/// Where the files of a process are, and those of other processes that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) own: PathBuf,
    pub(crate) others: PathBuf,
}

/// Who has asked for a process, and the folders that he has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) process: u32,
    pub(crate) folders: Vec<PathBuf>,
}

impl Asker {
    /// This process.
    pub(crate) fn this() -> Asker {
        Asker { process: std::process::id(), folders: folders().paths.clone() }
    }
}
