//! What a command found, as Python sees it.

use crate::failure::{Failure, of_parameters};
use pyo3::prelude::*;
use seawall_report::{Finished, Report, Room, within};

/// A report that another thread has made.
pub(crate) type Found = Box<dyn Report + Send + Sync>;

/// What a command found: records, text and plots.
#[pyclass(frozen, module = "seawall._seawall")]
pub(crate) struct Outcome {
    report: Found,
    /// What was told of the files of results.
    told: Vec<String>,
    /// What ended the command early, if anything did.
    stopped_by: Option<PyErr>,
}

impl Outcome {
    pub(crate) fn new(report: Found, told: Vec<String>, stopped_by: Option<PyErr>) -> Outcome {
        Outcome { report, told, stopped_by }
    }
}

#[pymethods]
impl Outcome {
    /// The records, as JSON Lines.
    #[getter]
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.report.json())
    }

    /// What the command prints, on a terminal of so many columns if a number is given.
    #[pyo3(signature = (columns = None))]
    fn text(&self, py: Python<'_>, columns: Option<usize>) -> String {
        let room = columns.map(|columns| Room { columns, elsewhere: "or `.text`" });
        py.detach(|| within(room, || self.report.text()))
    }

    /// What the command says beside its results.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let notes = self.report.notes().into_iter().chain(self.told.iter().cloned());
        notes.map(|note| of_parameters(&note)).collect()
    }

    /// Whether something is wrong with what was run.
    #[getter]
    fn found(&self) -> bool {
        self.report.found()
    }

    /// Whether all of it was run.
    #[getter]
    fn complete(&self) -> bool {
        self.report.finished() == Finished::All
    }

    /// Whether nothing of it was run.
    #[getter]
    fn empty(&self) -> bool {
        self.report.finished() == Finished::Nothing
    }

    /// What ended it early.
    #[getter]
    fn stopped_by(&self, py: Python<'_>) -> Option<PyErr> {
        self.stopped_by.as_ref().map(|error| error.clone_ref(py))
    }

    /// The plots, each with the name of its file in a folder, as SVG.
    fn plots(&self, py: Python<'_>) -> Result<Vec<(String, String)>, Failure> {
        let plots = py.detach(|| self.report.plots())?;
        Ok(plots.into_iter().map(|plot| (plot.file, plot.text)).collect())
    }
}
