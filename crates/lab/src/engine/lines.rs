//! A file of finished records, one a line, which a run that was stopped goes on from.
//!
//! A line is written whole when its record is done, so whatever ends a run leaves at most a last
//! line that is cut short, which the next run drops. What a failed write left is cut off, and
//! nothing is written behind it. A file that does not begin as such files do is not touched. One
//! run at a time has the file.

use crate::LabError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file, open and locked, which ends with a whole line.
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// There was no such file before.
    is_new: bool,
    /// Why no more lines are written.
    failed: Option<(io::ErrorKind, String)>,
}

/// What a file has when it is opened: its whole lines, and what of one is behind them.
pub(crate) struct Found {
    pub(crate) whole: String,
    pub(crate) torn: Vec<u8>,
}

impl Lines {
    /// Opens the file, or starts it; `option` is what a user gives another one with.
    ///
    /// # Errors
    /// No ordinary file, one that another run has, or one that is not text.
    pub(crate) fn open(path: &Path, option: &'static str) -> Result<(Lines, Found), LabError> {
        let name = || path.display().to_string();
        if std::fs::metadata(path).is_ok_and(|status| !status.is_file()) {
            return Err(LabError::NotAFile { path: name(), option });
        }
        let is_new = !path.exists();
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = opened.map_err(LabError::file(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LabError::InUse { path: name(), option }),
            Err(TryLockError::Error(error)) => return Err(LabError::file(path)(error)),
        }
        if !is_at(&file, path) {
            return Err(LabError::InUse { path: name(), option });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(LabError::file(path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let torn = bytes.split_off(whole);
        let whole = String::from_utf8(bytes).map_err(|_| LabError::OtherFile {
            path: name(),
            line: 1,
            what: "it is not text".into(),
            option,
        })?;
        let bytes = whole.len() as u64;
        let lines = Lines { file, path: path.to_owned(), bytes, is_new, failed: None };
        Ok((lines, Found { whole, torn }))
    }

    /// Cuts off what is behind the last whole line.
    pub(crate) fn drop_torn(&self) -> Result<(), LabError> {
        self.file.set_len(self.bytes).map_err(LabError::file(&self.path))
    }

    /// Writes a line, which ends with a line feed: all of it or, if that fails, nothing, then and
    /// ever after.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), LabError> {
        self.add_by(line, |file, bytes| file.write_all(bytes))
    }

    pub(crate) fn add_by(
        &mut self,
        line: &str,
        write: impl FnOnce(&mut File, &[u8]) -> io::Result<()>,
    ) -> Result<(), LabError> {
        if let Some((kind, what)) = &self.failed {
            return Err(LabError::file(&self.path)(io::Error::new(*kind, what.clone())));
        }
        let written = write(&mut self.file, line.as_bytes());
        match &written {
            Ok(()) => self.bytes += line.len() as u64,
            Err(error) => {
                self.failed = Some((error.kind(), error.to_string()));
                let _ = self.file.set_len(self.bytes);
            }
        }
        written.map_err(LabError::file(&self.path))
    }
}

/// A run that ends before it has written a line leaves no file.
impl Drop for Lines {
    fn drop(&mut self) {
        if self.is_new && self.bytes == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether `file` still is the one of this name: its run may have removed it before it was locked
/// here.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |open: std::fs::Metadata, named: std::fs::Metadata| {
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    };
    file.metadata().is_ok_and(|open| path.metadata().is_ok_and(|named| same(open, named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_line_goes_if_it_was_not_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let open = || Lines::open(&path, "--out").map(|(lines, _)| lines).unwrap();
        drop(open());
        assert!(!path.exists());
        File::create(&path).unwrap();
        drop(open());
        assert!(path.exists(), "it is the user's");
        std::fs::remove_file(&path).unwrap();
        open().add("{}\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_the_one_of_that_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        File::create(&path).unwrap();
        assert!(!is_at(&file, &path));
    }
}
