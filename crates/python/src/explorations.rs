//! The parts of an exploration, one by one, for those who do them elsewhere.

use crate::commands::{Ready, Work, go_on, parse};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::sweep::Stop;
use crate::watched::{Watched, watch};
use pyo3::prelude::*;
use seawall_lab::explore::ExploreCommand;
use seawall_report::{Experiment, Progress};

fn exploration(words: &[String]) -> Result<ExploreCommand, Failure> {
    Ok(parse::<ExploreCommand>("explore", words)?.plan()?)
}

/// How many parts an exploration has for several workers.
#[pyfunction]
pub(crate) fn explore_parts(py: Python<'_>, words: Vec<String>) -> Result<usize, Failure> {
    py.detach(|| {
        let command = exploration(&words)?;
        // What is wrong with the files that are made at the end is said now.
        command.files(&command).outputs()?;
        Ok(command.parts()?)
    })
}

/// Does one part, and returns what it found.
#[pyfunction]
pub(crate) fn explore_part(
    py: Python<'_>,
    words: Vec<String>,
    part: usize,
    stop: &Stop,
) -> PyResult<String> {
    let command = py.detach(|| exploration(&words))?;
    let found = watch(py, None, Progress::hidden(), stop.flag(), move |progress, stop| {
        Ok(serde_json::to_string(&command.part(part, progress, stop)?)?)
    })?;
    match found {
        Watched::Done(found) => Ok(found),
        Watched::Stopped(_, error) => Err(error),
    }
}

/// Puts all parts together to what one process finds.
#[pyfunction]
#[pyo3(signature = (words, parts, follow, show))]
pub(crate) fn explore_together(
    py: Python<'_>,
    words: Vec<String>,
    parts: Vec<String>,
    follow: Option<Bound<'_, PyAny>>,
    show: bool,
) -> PyResult<Outcome> {
    let ready = py.detach(|| {
        let command = exploration(&words)?;
        let outputs = command.files(&command).outputs()?;
        let parts =
            parts.iter().map(|part| serde_json::from_str(part)).collect::<Result<_, _>>()?;
        let work: Work =
            Box::new(move |progress, stop| Ok(Box::new(command.together(parts, progress, stop)?)));
        Ok::<_, Failure>(Ready { outputs, work })
    })?;
    go_on(py, ready, ("explore", &words), follow.as_ref(), show)
}
