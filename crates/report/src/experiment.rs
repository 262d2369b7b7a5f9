//! What every command is: options, which clap reads; a plan, in which everything is found that a
//! user can get wrong; a run; and a report, which is printed, written and drawn.

use crate::ReportError;
use crate::output::{Files, Output, write_file};
use crate::progress::Progress;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A command, by its options.
pub trait Experiment {
    /// Options that can be run.
    type Plan;
    /// What a run finds out.
    type Report: Report;
    /// Why a command cannot run.
    type Error: std::error::Error + Send + Sync + 'static;

    /// True if the command can be stopped early and report what is finished. Any other ends at once
    /// and leaves its results as they were.
    const HAS_PARTIAL: bool = true;

    /// Reads the options.
    ///
    /// # Errors
    /// Whatever is unknown, out of range, named twice, or does not fit together.
    fn plan(&self) -> Result<Self::Plan, Self::Error>;

    /// Adds the files that the command reads, and makes while it runs, to `files`.
    fn files(&self, plan: &Self::Plan, files: Files) -> Files;

    /// Where results go.
    fn results(&self) -> Results;

    /// Runs `plan`; stops soon after `stop` becomes true, if the command can.
    ///
    /// # Errors
    /// When something could not be run.
    fn run(
        plan: Self::Plan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self::Report, Self::Error>;

    /// The files that results go to, each checked against all other files of the command.
    ///
    /// # Errors
    /// When two are the same, or one cannot be written.
    fn outputs(&self, plan: &Self::Plan) -> Result<Vec<(Form, Output)>, ReportError> {
        let Results { json, plot, html, plots } = self.results();
        let files = if Self::HAS_PARTIAL { Files::new() } else { Files::without_partial() };
        let (files, plots) = self.files(plan, files).fills("--plots", plots)?;
        let [html, json, plot] =
            files.writes([("--html", html), ("--json", json), ("--plot", plot)])?;
        let all =
            [(Form::Html, html), (Form::Json, json), (Form::Plot, plot), (Form::Plots, plots)];
        Ok(all.into_iter().filter_map(|(form, output)| Some((form, output?))).collect())
    }
}

/// Where the results of a command go, as the user says it.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// A file of JSON Lines.
    pub json: Option<PathBuf>,
    /// A file with a plot.
    pub plot: Option<PathBuf>,
    /// A file with a page.
    pub html: Option<PathBuf>,
    /// A folder of plots.
    pub plots: Option<PathBuf>,
}

impl Results {
    /// Only records.
    pub fn json(json: &Option<PathBuf>) -> Results {
        Results { json: json.clone(), ..Results::default() }
    }
}

/// A form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON Lines.
    Json,
    /// One plot.
    Plot,
    /// A page of HTML.
    Html,
    /// A folder of plots.
    Plots,
}

/// A plot, and the name of its file in a folder.
#[derive(Clone, Debug)]
pub struct Svg {
    /// The name, with its ending.
    pub file: String,
    /// What is in it.
    pub text: String,
}

/// What a command found out.
pub trait Report {
    /// What people read.
    fn text(&self) -> String;

    /// What is said on standard error before the text.
    fn notes(&self) -> Option<String> {
        None
    }

    /// True if something is wrong with what was run; the exit code is 1 then.
    fn found(&self) -> bool {
        false
    }

    /// True if the run was stopped before everything was done.
    fn is_partial(&self) -> bool {
        false
    }

    /// True if nothing was done before it was stopped.
    fn is_empty(&self) -> bool {
        false
    }

    /// The records, as JSON Lines.
    fn json(&self) -> String;

    /// The plots: one for a command with `--plot`.
    ///
    /// # Errors
    /// When one cannot be drawn.
    fn plots(&self) -> Result<Vec<Svg>, ReportError> {
        Ok(Vec::new())
    }

    /// The page of a command with `--html`.
    fn html(&self) -> String {
        String::new()
    }

    /// The results in that form.
    ///
    /// # Errors
    /// When they cannot be drawn.
    fn result(&self, form: Form) -> Result<Written, ReportError> {
        Ok(match form {
            Form::Json => Written::File(self.json()),
            Form::Html => Written::File(self.html()),
            Form::Plot => Written::File(self.plots()?.into_iter().map(|plot| plot.text).collect()),
            Form::Plots => Written::Folder(self.plots()?),
        })
    }
}

/// Results, ready to be written.
#[derive(Clone, Debug)]
pub enum Written {
    /// What a file has.
    File(String),
    /// The files of a folder.
    Folder(Vec<Svg>),
}

impl Written {
    /// True for a folder with nothing in it.
    pub fn is_empty_folder(&self) -> bool {
        matches!(self, Written::Folder(plots) if plots.is_empty())
    }

    /// Writes them to `path`.
    ///
    /// # Errors
    /// When a file cannot be written; the message names it.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        match self {
            Written::File(text) => write_file(path, text.as_bytes()),
            Written::Folder(plots) => {
                std::fs::create_dir_all(path).map_err(ReportError::file(path))?;
                let mut plots = plots.iter();
                plots.try_for_each(|it| write_file(&path.join(&it.file), it.text.as_bytes()))
            }
        }
    }
}

/// `records` as JSON Lines.
pub fn json_lines<R: Serialize>(records: impl IntoIterator<Item = R>) -> String {
    let line = |record| serde_json::to_string(&record).expect("records are plain data") + "\n";
    records.into_iter().map(line).collect()
}

/// A plot whose file is not named by the command.
pub fn one_plot(svg: Result<String, Box<dyn std::error::Error>>) -> Result<Vec<Svg>, ReportError> {
    let text = svg.map_err(ReportError::plot)?;
    Ok(vec![Svg { file: String::new(), text }])
}
