//! The file of finished units from which an exploration goes on.
//!
//! Units are numbered the same way on every machine. The first line says of what exploration they
//! are; a last line that was cut short is written again ([`Lines`]).

use super::ExploreError;
use crate::LabError;
use crate::engine::lines::{Found, Lines};
use seawall_explore::SearchOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A file of finished units.
pub(super) struct Resume {
    known: BTreeMap<usize, SearchOutcome>,
    lines: Mutex<Lines>,
    path: PathBuf,
    /// Why the file could not be written.
    failed: Mutex<Option<LabError>>,
    /// Units that were noted this time.
    noted: AtomicUsize,
}

#[derive(Serialize)]
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
        let failed = |error: LabError| ExploreError::Lab(error.to_string());
        let other = || ExploreError::OtherResume { path: path.display().to_string() };
        let (mut lines, Found { whole, torn }) = Lines::open(path, "--resume").map_err(failed)?;
        let head = Head { seawall_explore: head.to_owned() };
        let head = serde_json::to_string(&head).expect("a text") + "\n";
        let known = match whole.strip_prefix(&head) {
            None if whole.is_empty() && head.as_bytes().starts_with(&torn) => BTreeMap::new(),
            None => return Err(other()),
            Some(units) => {
                let read = |text| serde_json::from_str::<Line>(text).map_err(|_| other());
                let noted = units.lines().map(|text| read(text).map(|it| (it.unit, it.outcome)));
                noted.collect::<Result<_, _>>()?
            }
        };
        lines.drop_torn().map_err(failed)?;
        if whole.is_empty() {
            lines.add(&head).map_err(failed)?;
        }
        let (lines, failed) = (Mutex::new(lines), Mutex::new(None));
        Ok(Resume { known, lines, path: path.to_owned(), failed, noted: AtomicUsize::new(0) })
    }

    /// The outcome of the unit, if it was done before.
    pub(super) fn known(&self, unit: usize) -> Option<SearchOutcome> {
        self.known.get(&unit).cloned()
    }

    /// Notes a unit that is done.
    pub(super) fn add(&self, unit: usize, outcome: &SearchOutcome) {
        self.noted.fetch_add(1, Ordering::Relaxed);
        let line = Line { unit, outcome: outcome.clone() };
        let line = serde_json::to_string(&line).expect("plain data") + "\n";
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = lines.add(&line) {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// What is to be said if nothing was noted this time.
    ///
    /// # Errors
    /// That of the file, if it could not be written.
    pub(super) fn finish(self) -> Result<Option<String>, ExploreError> {
        match self.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(ExploreError::Lab(error.to_string())),
            None if self.noted.into_inner() > 0 => Ok(None),
            None => Ok(Some(format!(
                "nothing new was noted in {}, as no further part of the work was finished: to get \
                 further, give it more --seconds",
                self.path.display()
            ))),
        }
    }
}
