//! The points of a sweep, one by one, for those who run them elsewhere.

use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::watched::{Watched, watch};
use pyo3::prelude::*;
use seawall_lab::{OpenSweep, SweepPlan, SweepTask};
use seawall_report::{Files, Form, Output, Progress, command_line, write_results};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Asks tasks that run in this process to end.
#[pyclass(frozen, module = "seawall._seawall")]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop(Arc::default())
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A point that is not done: its key, that of its baseline, what it is, and the text of its task.
type Left = (String, Option<String>, String, String);

/// The file of a sweep, and what is made of it.
#[pyclass(frozen, module = "seawall._seawall")]
pub(crate) struct SweepFile {
    open: Mutex<Option<OpenSweep>>,
    progress: Progress,
    points: usize,
    out: PathBuf,
    outputs: Vec<(Form, Output)>,
    /// What its page says was typed.
    command: String,
}

impl SweepFile {
    fn lock(&self) -> MutexGuard<'_, Option<OpenSweep>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&OpenSweep) -> Result<T, Failure>) -> Result<T, Failure> {
        act(self.lock().as_ref().ok_or_else(closed)?)
    }
}

fn closed() -> Failure {
    Failure::new("the file of the sweep is closed; open it again")
}

#[pymethods]
impl SweepFile {
    /// Opens the file of the experiment `name`; `text` describes it as JSON, if it is given.
    /// The results are a plot, a page, and the table as CSV and for LaTeX.
    #[new]
    #[pyo3(signature = (name, text, out, jobs, results, show))]
    fn new(
        py: Python<'_>,
        name: &str,
        text: Option<&str>,
        out: Option<PathBuf>,
        jobs: Option<usize>,
        results: [Option<PathBuf>; 4],
        show: bool,
    ) -> PyResult<SweepFile> {
        let plan = plan(name, text, out, jobs)?;
        let (points, out) = (plan.points(), plan.out().to_owned());
        let files = Files::new().reads("the experiment", name).makes("--out", Some(&out));
        let forms = [Form::Plot, Form::Html, Form::Csv, Form::Latex];
        let results = forms.into_iter().zip(&results);
        let files = results.fold(files, |files, (form, path)| files.results(form, path));
        let outputs = files.outputs().map_err(Failure::from)?;
        let command = match text {
            None => command_line(["seawall", "sweep", name]),
            Some(_) => "seawall.sweep(..), of a dictionary".to_owned(),
        };
        let stop = Arc::default();
        let open = watch(py, None, Progress::hidden(), &stop, move |_, stop| {
            Ok(OpenSweep::open(plan, stop)?)
        })?;
        let open = match open {
            Watched::Done(open) => open,
            Watched::Stopped(_, error) => return Err(error),
        };
        let progress = if show { Progress::on_stderr() } else { Progress::hidden() };
        let left = open.left();
        progress.start(left.iter().map(|task| task.names().0));
        Ok(SweepFile { open: Mutex::new(Some(open)), progress, points, out, outputs, command })
    }

    /// The path of the file.
    fn out(&self) -> String {
        self.out.display().to_string()
    }

    /// How many points the sweep has.
    fn points(&self) -> usize {
        self.points
    }

    /// The points that are not done, in the order of the plan.
    fn left(&self) -> Result<Vec<Left>, Failure> {
        let left = |task: SweepTask| {
            let baseline = task.baseline().map(str::to_owned);
            Ok((task.key().to_owned(), baseline, task.about(), task.to_text()?))
        };
        self.with(|open| open.left().into_iter().map(left).collect())
    }

    /// The cycles of a point that is done.
    fn cycles(&self, key: &str) -> Result<Option<u64>, Failure> {
        self.with(|open| Ok(open.cycles(key)))
    }

    /// The references to memory of a point that is done.
    fn references(&self, key: &str) -> Result<u64, Failure> {
        self.with(|open| Ok(open.references(key)))
    }

    /// Writes the line of a point.
    fn add(&self, line: &str) -> Result<(), Failure> {
        let (program, design) = self.with(|open| Ok(open.add(line)?))?;
        self.progress.cell_done(&program, &design);
        Ok(())
    }

    /// Closes the file, and says and draws what it has.
    fn finish(&self, py: Python<'_>) -> Result<Outcome, Failure> {
        let open = self.lock().take().ok_or_else(closed)?;
        self.progress.end();
        let mut told = Vec::new();
        let sweep = py.detach(|| {
            let sweep = open.finish()?;
            write_results(&sweep, &self.outputs, &self.command, |text| told.push(text))?;
            Ok::<_, Failure>(sweep)
        })?;
        Ok(Outcome::new(Box::new(sweep), told, None))
    }

    /// Closes the file; what was written to it stays.
    fn close(&self) {
        self.progress.end();
        self.lock().take();
    }
}

fn plan(
    name: &str,
    text: Option<&str>,
    out: Option<PathBuf>,
    jobs: Option<usize>,
) -> Result<SweepPlan, Failure> {
    let Some(text) = text else { return Ok(SweepPlan::new(name, out, jobs)?) };
    let table: toml::Table = serde_json::from_str(text)?;
    let out = out.unwrap_or_else(|| format!("{name}.jsonl").into());
    Ok(SweepPlan::of_table(name, table, out, jobs)?)
}

/// Runs the point that `task` describes, and returns its line of the file.
#[pyfunction]
#[pyo3(signature = (task, baseline_cycles, stop))]
pub(crate) fn run_point(
    py: Python<'_>,
    task: &str,
    baseline_cycles: Option<u64>,
    stop: &Stop,
) -> PyResult<String> {
    let task = py.detach(|| SweepTask::read(task)).map_err(Failure::from)?;
    let line = watch(py, None, Progress::hidden(), &stop.0, move |_, stop| {
        Ok(task.run(baseline_cycles, stop)?)
    })?;
    match line {
        Watched::Done(line) => Ok(line),
        Watched::Stopped(_, error) => Err(error),
    }
}
