//! What every command is: options, which clap reads; a plan, in which everything is found that a
//! user can get wrong; a run; and a report, which is printed, written and drawn.

use crate::ReportError;
use crate::output::{Files, Finished, Form, write_file};
use crate::progress::Progress;
use serde::Serialize;
use std::path::Path;
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

    /// Reads the options.
    ///
    /// # Errors
    /// Whatever is unknown, out of range, named twice, or does not fit together.
    fn plan(&self) -> Result<Self::Plan, Self::Error>;

    /// The files that the command reads, makes while it runs, and writes its results to.
    fn files(&self, plan: &Self::Plan) -> Files;

    /// Runs `plan`; stops soon after `stop` becomes true, if the command can.
    ///
    /// # Errors
    /// When something could not be run.
    fn run(
        plan: Self::Plan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self::Report, Self::Error>;
}

/// A plot, or a page, and the name of its file in a folder.
#[derive(Clone, Debug)]
pub struct ResultFile {
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

    /// How much of what was to be done is done.
    fn finished(&self) -> Finished {
        Finished::All
    }

    /// The records, as JSON Lines.
    fn json(&self) -> String;

    /// The plots: one for a command with `--plot`.
    ///
    /// # Errors
    /// When one cannot be drawn.
    fn plots(&self) -> Result<Vec<ResultFile>, ReportError> {
        Ok(Vec::new())
    }

    /// The pages of a command with `--pages`, and their pictures.
    ///
    /// # Errors
    /// When one cannot be drawn.
    fn pages(&self) -> Result<Vec<ResultFile>, ReportError> {
        Ok(Vec::new())
    }

    /// The page of a command with `--html`.
    fn html(&self) -> String {
        String::new()
    }

    /// The stacks of a command with `--profile-folded`.
    fn folded(&self) -> String {
        String::new()
    }

    /// The timeline of a command with `--trace`.
    fn trace(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The results in that form.
    ///
    /// # Errors
    /// When they cannot be drawn.
    fn result(&self, form: Form) -> Result<Written, ReportError> {
        Ok(match form {
            Form::Json => Written::File(self.json().into_bytes()),
            Form::Html => Written::File(self.html().into_bytes()),
            Form::Plot => {
                let plots = self.plots()?.into_iter().map(|plot| plot.text);
                Written::File(plots.collect::<String>().into_bytes())
            }
            Form::Plots => Written::Folder(self.plots()?),
            Form::Pages => Written::Folder(self.pages()?),
            Form::Folded => Written::File(self.folded().into_bytes()),
            Form::Trace => Written::File(self.trace()),
        })
    }
}

/// Results, ready to be written.
#[derive(Clone, Debug)]
pub enum Written {
    /// What a file has.
    File(Vec<u8>),
    /// The files of a folder.
    Folder(Vec<ResultFile>),
}

impl Written {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        match self {
            Written::File(bytes) => bytes.is_empty(),
            Written::Folder(plots) => plots.is_empty(),
        }
    }

    /// Writes them to `path`.
    ///
    /// # Errors
    /// When a file cannot be written; the message names it.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        match self {
            Written::File(bytes) => write_file(path, bytes),
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
pub fn one_plot(
    svg: Result<String, Box<dyn std::error::Error>>,
) -> Result<Vec<ResultFile>, ReportError> {
    let text = svg.map_err(ReportError::plot)?;
    Ok(vec![ResultFile { file: String::new(), text }])
}
