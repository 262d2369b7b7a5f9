//! The file of finished points: one JSON record a line, in any order until all are there.
//!
//! Every line is a point of the experiment, told by its full description, or the file is not
//! touched; the point of a line that is cut short is done again ([`Lines`]).

use super::record::SweepRecord;
use crate::LabError;
use crate::engine::lines::{Found, Lines};
use seawall_report::write_file;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The option that names the file.
const OPTION: &str = "--out";

/// What every line begins with.
const BEGINNING: &str = "{\"experiment\":";

/// The file, open and locked.
pub(super) struct Store {
    path: PathBuf,
    lines: Mutex<Lines>,
    /// The record of each point that is done, by its description.
    records: Mutex<BTreeMap<String, SweepRecord>>,
}

impl Store {
    /// Opens or starts the file of an experiment with these points.
    pub(super) fn open(path: &Path, points: &BTreeSet<&str>) -> Result<Store, LabError> {
        let (lines, Found { whole, torn }) = Lines::open(path, OPTION)?;
        let other = |line: usize, what: String| LabError::OtherFile {
            path: path.display().to_string(),
            line,
            what: format!("it is not of this experiment: {what}"),
            option: OPTION,
        };
        let mut records = BTreeMap::new();
        for (at, line) in whole.lines().enumerate() {
            let record = SweepRecord::read(line).map_err(|what| other(at + 1, what))?;
            let key = record.key();
            if !points.contains(&*key) {
                return Err(other(at + 1, format!("{}, which it does not have", record.point)));
            }
            records.entry(key).or_insert(record);
        }
        let begun = &BEGINNING.as_bytes()[..torn.len().min(BEGINNING.len())];
        if !torn.starts_with(begun) {
            return Err(other(whole.lines().count() + 1, "it is no record".to_owned()));
        }
        lines.drop_torn()?;
        let (path, lines, records) = (path.to_owned(), Mutex::new(lines), Mutex::new(records));
        Ok(Store { path, lines, records })
    }

    /// The record of the point that `key` describes, if it is done.
    pub(super) fn get(&self, key: &str) -> Option<SweepRecord> {
        self.records.lock().unwrap_or_else(|error| error.into_inner()).get(key).cloned()
    }

    /// Writes a finished point.
    pub(super) fn add(&self, record: SweepRecord) -> Result<(), LabError> {
        let line = record.to_line();
        self.lines.lock().unwrap_or_else(|error| error.into_inner()).add(&line)?;
        let mut records = self.records.lock().unwrap_or_else(|error| error.into_inner());
        records.insert(record.key(), record);
        Ok(())
    }

    /// How many points are done.
    pub(super) fn count(&self) -> usize {
        self.records.lock().unwrap_or_else(|error| error.into_inner()).len()
    }

    /// Closes the file. If it has all of `keys`, its lines are in that order then.
    pub(super) fn finish<'a>(
        self,
        keys: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, SweepRecord>, LabError> {
        let records = self.records.into_inner().unwrap_or_else(|error| error.into_inner());
        let lines: Option<String> = keys.map(|key| Some(records.get(key)?.to_line())).collect();
        if let Some(lines) = lines
            && std::fs::read(&self.path).map_err(LabError::file(&self.path))? != lines.as_bytes()
        {
            write_file(&self.path, lines.as_bytes())?;
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{self, Write};
    use std::sync::OnceLock;

    fn record(kernel: &str) -> SweepRecord {
        static SAMPLE: OnceLock<SweepRecord> = OnceLock::new();
        let mut record = SAMPLE.get_or_init(SweepRecord::sample).clone();
        record.kernel().kernel = kernel.into();
        record
    }

    fn open(path: &Path, kernels: &[&str]) -> Result<Store, LabError> {
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
    fn when_all_points_are_there_their_lines_are_in_order_and_before_they_stay_as_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let lines = ["lu", "radix", "barnes"].map(|kernel| record(kernel).to_line());
        let keys = ["lu", "radix", "barnes"].map(|kernel| record(kernel).key());
        for came in [&[2, 0][..], &[2, 0, 1]] {
            let store = open(&path, &["lu", "radix", "barnes"]).unwrap();
            came[store.count()..]
                .iter()
                .for_each(|at| store.add(SweepRecord::read(&lines[*at]).unwrap()).unwrap());
            let records = store.finish(keys.iter().map(String::as_str)).unwrap();
            assert_eq!(records.len(), came.len());
            let order = if came.len() < 3 { came } else { &[0, 1, 2] };
            let wanted: String = order.iter().map(|at| &*lines[*at]).collect();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted);
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
        store.lines.lock().unwrap().add_by(&line, half).unwrap_err();
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
        let mix = other.kernel().mix.as_mut().expect("a parallel part has one");
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
