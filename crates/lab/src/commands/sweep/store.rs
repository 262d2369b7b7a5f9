//! The file of finished points: one JSON record a line, in any order.
//!
//! A run writes a line whole when its point is done, so whatever ends it leaves at most a last line
//! that is cut short; the next run drops that line and does its point again. What a failed write
//! left is cut off, and nothing is written behind it. Every line is a point
//! of the experiment, told by its full description, or the file is not touched. One run at a time
//! has the file.

use super::SweepError;
use super::record::SweepRecord;
use crate::LabError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What every line begins with.
const BEGINNING: &str = "{\"experiment\":";

/// The file, which ends with a whole line.
struct Lines {
    file: File,
    bytes: u64,
    /// Why no more lines are written.
    failed: Option<(io::ErrorKind, String)>,
}

impl Lines {
    /// Writes a line by `write`: all of it or, if that fails, nothing, then and ever after.
    fn add(
        &mut self,
        line: &str,
        write: impl FnOnce(&mut File, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some((kind, what)) = &self.failed {
            return Err(io::Error::new(*kind, what.clone()));
        }
        let written = write(&mut self.file, line.as_bytes());
        match &written {
            Ok(()) => self.bytes += line.len() as u64,
            Err(error) => {
                self.failed = Some((error.kind(), error.to_string()));
                let _ = self.file.set_len(self.bytes);
            }
        }
        written
    }
}

/// The file, open and locked.
pub(super) struct Store {
    lines: Mutex<Lines>,
    path: PathBuf,
    /// The record of each point that is done, by its description.
    records: Mutex<BTreeMap<String, SweepRecord>>,
}

impl Store {
    /// Opens or starts the file of an experiment with these points.
    pub(super) fn open(path: &Path, points: &BTreeSet<&str>) -> Result<Store, SweepError> {
        let name = || path.display().to_string();
        if std::fs::metadata(path).is_ok_and(|status| !status.is_file()) {
            return Err(SweepError::NotAFile { path: name() });
        }
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = opened.map_err(LabError::file(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SweepError::InUse { path: name() }),
            Err(TryLockError::Error(error)) => return Err(LabError::file(path)(error).into()),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(LabError::file(path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let other = |line: usize, what: String| SweepError::Other { path: name(), line, what };
        let text = std::str::from_utf8(&bytes[..whole])
            .map_err(|_| other(1, "it is not text".to_owned()))?;
        let mut records = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let record = SweepRecord::read(line).map_err(|what| other(at + 1, what))?;
            let key = record.key();
            if !points.contains(&*key) {
                return Err(other(at + 1, format!("{}, which it does not have", record.point)));
            }
            records.entry(key).or_insert(record);
        }
        let torn = &bytes[whole..];
        let begun = &BEGINNING.as_bytes()[..torn.len().min(BEGINNING.len())];
        if !torn.starts_with(begun) {
            return Err(other(text.lines().count() + 1, "it is no record".to_owned()));
        }
        if !torn.is_empty() {
            file.set_len(whole as u64).map_err(LabError::file(path))?;
        }
        let lines = Mutex::new(Lines { file, bytes: whole as u64, failed: None });
        Ok(Store { lines, path: path.to_owned(), records: Mutex::new(records) })
    }

    /// The record of the point that `key` describes, if it is done.
    pub(super) fn get(&self, key: &str) -> Option<SweepRecord> {
        self.records.lock().unwrap_or_else(|error| error.into_inner()).get(key).cloned()
    }

    /// Writes a finished point.
    pub(super) fn add(&self, record: SweepRecord) -> Result<(), LabError> {
        let line = record.to_line();
        let mut lines = self.lines.lock().unwrap_or_else(|error| error.into_inner());
        let written = lines.add(&line, |file, bytes| file.write_all(bytes));
        written.map_err(LabError::file(&self.path))?;
        let mut records = self.records.lock().unwrap_or_else(|error| error.into_inner());
        records.insert(record.key(), record);
        Ok(())
    }

    pub(super) fn into_records(self) -> BTreeMap<String, SweepRecord> {
        self.records.into_inner().unwrap_or_else(|error| error.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    fn record(kernel: &str) -> SweepRecord {
        static SAMPLE: OnceLock<SweepRecord> = OnceLock::new();
        let mut record = SAMPLE.get_or_init(SweepRecord::sample).clone();
        record.point.kernel = kernel.into();
        record
    }

    fn open(path: &Path, kernels: &[&str]) -> Result<Store, SweepError> {
        let keys: Vec<String> = kernels.iter().map(|kernel| record(kernel).key()).collect();
        Store::open(path, &keys.iter().map(String::as_str).collect())
    }

    fn refused(path: &Path, kernels: &[&str]) -> String {
        open(path, kernels).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn what_was_added_is_there_again_and_a_line_cut_short_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let store = open(&path, &["lu", "radix"]).unwrap();
        store.add(record("lu")).unwrap();
        store.add(record("radix")).unwrap();
        drop(store);
        let bytes = std::fs::read(&path).unwrap();
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for end in (first..bytes.len()).step_by(7) {
            std::fs::write(&path, &bytes[..end]).unwrap();
            let store = open(&path, &["lu", "radix"]).unwrap();
            assert_eq!(store.get(&record("lu").key()), Some(record("lu")));
            assert_eq!(store.get(&record("radix").key()), None, "cut at {end}");
            assert_eq!(std::fs::read(&path).unwrap(), &bytes[..first]);
        }
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_and_no_line_comes_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let store = open(&path, &["lu", "radix"]).unwrap();
        store.add(record("lu")).unwrap();
        let before = std::fs::read(&path).unwrap();
        let half = |file: &mut File, bytes: &[u8]| {
            file.write_all(&bytes[..bytes.len() / 2])?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "no room"))
        };
        let line = record("radix").to_line();
        store.lines.lock().unwrap().add(&line, half).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let message = store.add(record("radix")).unwrap_err().to_string();
        assert!(message.contains("no room") && message.contains("out.jsonl"), "{message}");
        assert_eq!(store.get(&record("radix").key()), None);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        drop(store);
        open(&path, &["lu", "radix"]).unwrap().add(record("radix")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [&before, line.as_bytes()].concat());
    }

    #[test]
    fn a_file_that_is_not_of_this_experiment_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        open(&path, &["lu"]).unwrap().add(record("lu")).unwrap();
        let message = refused(&path, &["radix"]);
        assert!(message.contains("lu") && message.contains("--out"), "{message}");
        let line = std::fs::read_to_string(&path).unwrap();
        let old = line.replace(env!("CARGO_PKG_VERSION"), "0.0.0");
        let mut other = record("lu");
        let mix = other.mix().as_mut().expect("a parallel part has one");
        assert!(mix.contains("parallelism: "), "{mix}");
        mix.push('0');
        for text in [other.to_line(), line.replace("\"mix\":\"", "\"mox\":\"")] {
            std::fs::write(&path, text).unwrap();
            refused(&path, &["lu"]);
        }
        for text in ["dear reader", "dear reader\n", "{}\n", &old, "\u{e4}"] {
            std::fs::write(&path, text).unwrap();
            refused(&path, &["lu"]);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let message = refused(folder.path(), &["lu"]);
        assert!(message.contains("no ordinary file"), "{message}");
    }

    #[test]
    fn a_second_run_on_the_same_file_is_refused_while_the_first_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let first = open(&path, &["lu"]).unwrap();
        assert!(refused(&path, &["lu"]).contains("another"), "{}", refused(&path, &["lu"]));
        drop(first);
        open(&path, &["lu"]).unwrap();
    }
}
