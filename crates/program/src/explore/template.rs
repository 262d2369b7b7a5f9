//! The files that every run finds in its folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A folder that is as another one before each run.
pub(crate) struct Template {
    from: PathBuf,
    to: PathBuf,
    /// The files as they were put there.
    put: BTreeMap<OsString, Stamp>,
}

/// Changes when a file does.
type Stamp = (u64, i64, i64, u64);

fn stamp(file: &Metadata) -> Stamp {
    (file.ino(), file.ctime(), file.ctime_nsec(), file.len())
}

impl Template {
    pub(crate) fn new(from: &Path, to: &Path) -> Template {
        Template { from: from.into(), to: to.into(), put: BTreeMap::new() }
    }

    /// Undoes what a run did to the folder.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.to)? {
            let entry = entry?;
            let (name, is) = (entry.file_name(), entry.metadata()?);
            if self.put.get(&name) != Some(&stamp(&is)) {
                self.put.remove(&name);
                remove(&entry.path(), &is)?;
            }
        }
        for entry in fs::read_dir(&self.from)? {
            let name = entry?.file_name();
            let to = self.to.join(&name);
            if !(self.put.contains_key(&name) && to.exists()) {
                copy_all(&self.from.join(&name), &to)?;
                self.put.insert(name, stamp(&fs::metadata(&to)?));
            }
        }
        Ok(())
    }
}

fn remove(path: &Path, is: &Metadata) -> io::Result<()> {
    if is.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_before_whatever_a_run_did_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("pool"), "pool").unwrap();
        fs::write(from.join("deep/file"), "file").unwrap();
        let mut template = Template::new(&from, &to);
        template.restore().unwrap();
        fs::write(to.join("pool"), "changed").unwrap();
        fs::write(to.join("more"), "more").unwrap();
        fs::remove_dir_all(to.join("deep")).unwrap();
        template.restore().unwrap();
        assert_eq!(fs::read(to.join("pool")).unwrap(), b"pool");
        assert_eq!(fs::read(to.join("deep/file")).unwrap(), b"file");
        assert!(!to.join("more").exists());
    }
}
