//! The files that every run finds in its folder.

use crate::explore::files::copy_part;
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
    put: BTreeMap<OsString, Put>,
}

/// A file that was put there.
struct Put {
    stamp: Stamp,
    /// What a small one has: the usual change is an `ftruncate` that changes nothing.
    bytes: Option<Vec<u8>>,
}

/// The most bytes of a file that are kept.
const KEPT_MAX: u64 = 64 << 10;

/// Changes when a file does.
type Stamp = (u64, i64, i64, u64, u32);

fn stamp(file: &Metadata) -> Stamp {
    (file.ino(), file.ctime(), file.ctime_nsec(), file.len(), file.mode())
}

impl Put {
    fn new(path: &Path) -> io::Result<Put> {
        let is = fs::symlink_metadata(path)?;
        let is_small = is.is_file() && is.len() <= KEPT_MAX;
        let bytes = if is_small { Some(fs::read(path)?) } else { None };
        Ok(Put { stamp: stamp(&is), bytes })
    }

    /// Whether the file at `path`, which is this now, is as it was. Of what is in a folder nobody
    /// keeps track.
    fn is_still(&mut self, path: &Path, is: &Metadata) -> bool {
        if is.is_dir() {
            return false;
        }
        let now = stamp(is);
        let is_same = self.stamp == now || self.has_only_been_touched(path, now);
        self.stamp = now;
        is_same
    }

    fn has_only_been_touched(&self, path: &Path, now: Stamp) -> bool {
        let lasting = |(inode, _, _, bytes, mode): Stamp| (inode, bytes, mode);
        let is_like_it = || lasting(now) == lasting(self.stamp);
        self.bytes
            .as_ref()
            .is_some_and(|bytes| is_like_it() && fs::read(path).is_ok_and(|found| found == *bytes))
    }
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
            if !self.put.get_mut(&name).is_some_and(|put| put.is_still(&entry.path(), &is)) {
                self.put.remove(&name);
                remove(&entry.path(), &is)?;
            }
        }
        for entry in fs::read_dir(&self.from)? {
            let name = entry?.file_name();
            let to = self.to.join(&name);
            if !(self.put.contains_key(&name) && fs::symlink_metadata(&to).is_ok()) {
                let (part, folders) = (self.from.join(&name), (&*self.from, &*self.to));
                copy_part::<io::Error>(&part, folders, &|| Ok(()))?;
                self.put.insert(name, Put::new(&to)?);
            }
        }
        Ok(())
    }
}

fn remove(path: &Path, is: &Metadata) -> io::Result<()> {
    if is.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
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
        fs::write(to.join("deep/file"), "longer").unwrap();
        std::os::unix::fs::symlink(from.join("pool"), from.join("link")).unwrap();
        template.restore().unwrap();
        assert_eq!(fs::read(to.join("deep/file")).unwrap(), b"file");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), to.join("pool"));
        fs::remove_dir_all(to.join("deep")).unwrap();
        template.restore().unwrap();
        assert_eq!(fs::read(to.join("pool")).unwrap(), b"pool");
        assert_eq!(fs::read(to.join("deep/file")).unwrap(), b"file");
        assert!(!to.join("more").exists());
    }
}
