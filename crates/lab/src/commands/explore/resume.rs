//! The file of finished units from which an exploration goes on.
//!
//! Units are numbered the same way on every machine. The first line says of what exploration they
//! are; a last line that was cut short is written again.

use super::ExploreError;
use crate::LabError;
use seawall_explore::SearchOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A file of finished units.
pub(super) struct Resume {
    known: BTreeMap<usize, SearchOutcome>,
    file: Mutex<File>,
    path: PathBuf,
    /// Why the file could not be written.
    failed: Mutex<Option<io::Error>>,
    /// Units that were noted this time.
    noted: AtomicUsize,
}

#[derive(Serialize, Deserialize)]
struct Head {
    seawall_explore: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    unit: usize,
    outcome: SearchOutcome,
}

impl Resume {
    /// Opens or starts the file of the exploration that `head` describes.
    pub(super) fn open(path: &Path, head: &str) -> Result<Resume, ExploreError> {
        let failed = |error| ExploreError::Lab(LabError::file(path)(error).to_string());
        if std::fs::metadata(path).is_ok_and(|status| !status.is_file()) {
            return Err(ExploreError::OtherResume { path: path.display().to_string() });
        }
        let mut known = BTreeMap::new();
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut whole = 0;
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        let mut number = 0;
        let other = || ExploreError::OtherResume { path: path.display().to_string() };
        while reader.read_line(&mut text).map_err(|_| other())? > 0 {
            if number == 0 {
                let first: Head = serde_json::from_str(&text).map_err(|_| other())?;
                if first.seawall_explore != head {
                    return Err(other());
                }
            } else if let Ok(Line { unit, outcome }) = serde_json::from_str(&text) {
                known.insert(unit, outcome);
            } else if text.ends_with('\n') {
                return Err(other());
            }
            // A last line that was cut short is written again.
            whole += if text.ends_with('\n') { text.len() as u64 } else { 0 };
            number += 1;
            text.clear();
        }
        file.set_len(whole).map_err(failed)?;
        if whole == 0 {
            let head = Head { seawall_explore: head.to_owned() };
            let line = serde_json::to_string(&head).expect("a text");
            writeln!(file, "{line}").map_err(failed)?;
        }
        let (file, failed, path) = (Mutex::new(file), Mutex::new(None), path.to_owned());
        Ok(Resume { known, file, path, failed, noted: AtomicUsize::new(0) })
    }

    /// The outcome of the unit, if it was done before.
    pub(super) fn known(&self, unit: usize) -> Option<SearchOutcome> {
        self.known.get(&unit).cloned()
    }

    /// Notes a unit that is done.
    pub(super) fn add(&self, unit: usize, outcome: &SearchOutcome) {
        self.noted.fetch_add(1, Ordering::Relaxed);
        let line = Line { unit, outcome: outcome.clone() };
        let line = serde_json::to_string(&line).expect("plain data");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{line}") {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// What is to be said if nothing was noted this time.
    ///
    /// # Errors
    /// That of the file, if it could not be written.
    pub(super) fn finish(self) -> Result<Option<String>, ExploreError> {
        match self.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(ExploreError::Lab(LabError::file(&self.path)(error).to_string())),
            None if self.noted.into_inner() > 0 => Ok(None),
            None => Ok(Some(format!(
                "nothing new was noted in {}, as no further part of the work was finished: to get \
                 further, give it more --seconds",
                self.path.display()
            ))),
        }
    }
}
