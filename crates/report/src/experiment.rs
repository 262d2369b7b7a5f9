//! What every command is: options, which clap reads; a plan, in which everything is found that a
//! user can get wrong; a run; and a report, which is printed, written and drawn.

use crate::ReportError;
use crate::html::{HtmlPage, Shown};
use crate::output::{Files, Finished, Form, Output, write_file};
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

    /// The page of a command with `--html`, whose tables `--csv` and `--latex` have too.
    fn page(&self) -> HtmlPage {
        HtmlPage::default()
    }

    /// The stacks of a command with `--profile-folded`.
    fn folded(&self) -> String {
        String::new()
    }

    /// The timeline of a command with `--trace`.
    fn trace(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The results in that form, of a command as it was typed.
    ///
    /// # Errors
    /// When they cannot be drawn.
    fn result(&self, form: Form, command: &str) -> Result<Written, ReportError> {
        Ok(match form {
            Form::Json => Written::File(self.json().into_bytes()),
            Form::Csv => Written::File(self.page().to_csv().into_bytes()),
            Form::Latex => Written::File(self.page().to_latex(command).into_bytes()),
            Form::Html => {
                let page = self.page().to_html(Shown {
                    command,
                    printed: &self.text(),
                    records: &self.json(),
                    is_partial: self.finished() != Finished::All,
                });
                Written::File(page.into_bytes())
            }
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

/// Writes the results that a user wants of `report`. One that fails keeps none of the others from
/// being tried; the first error is returned, others are told, and so is where results are of a
/// command that was stopped.
///
/// # Errors
/// When a result cannot be drawn, or its file cannot be written.
pub fn write_results<R: Report + ?Sized>(
    report: &R,
    outputs: &[(Form, Output)],
    command: &str,
    mut tell: impl FnMut(String),
) -> Result<(), ReportError> {
    let mut all = Ok(());
    for (form, output) in outputs {
        let written = report.result(*form, command).and_then(|result| {
            let finished = match report.finished() {
                Finished::Some if result.is_empty() => Finished::Nothing,
                finished => finished,
            };
            output.put(finished, |path| result.write(path))
        });
        match (written, &all) {
            (Ok(said), _) => said.into_iter().for_each(&mut tell),
            (Err(error), Ok(())) => all = Err(error),
            (Err(error), Err(_)) => tell(format!("error: {error}")),
        }
    }
    all
}

/// `records` as JSON Lines.
pub fn json_lines<R: Serialize>(records: impl IntoIterator<Item = R>) -> String {
    let line = |record| serde_json::to_string(&record).expect("records are plain data") + "\n";
    records.into_iter().map(line).collect()
}

/// `words` as a line that a shell reads as the same words; plain ones stay as they are.
pub fn command_line<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+=@%".contains(c);
    let quoted = |word: W| {
        let word = word.as_ref();
        match word.chars().all(is_plain) && !word.is_empty() && !word.starts_with('=') {
            true => word.to_owned(),
            // No argument has a zero byte.
            false => shlex::try_quote(word).map_or(word.into(), |word| word.into_owned()),
        }
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A plot whose file is not named by the command.
pub fn one_plot(
    svg: Result<String, Box<dyn std::error::Error>>,
) -> Result<Vec<ResultFile>, ReportError> {
    let text = svg.map_err(ReportError::plot)?;
    Ok(vec![ResultFile { file: String::new(), text }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_command_line_as_the_words_that_it_is_made_of() {
        let words = ["seawall", "a b", "", "it's", "$x", "lb:flaw='x'", "=cat", "\u{e9}", "!", "~"];
        let line = command_line(words);
        assert_eq!(shlex::split(&line).unwrap(), words);
        assert!(words.iter().skip(1).all(|word| !line.contains(&format!(" {word} "))), "{line}");
        let plain = "seawall compare --machine desktop:core.count=2 -d clwb,lb --html a/b_c.html";
        assert_eq!(command_line(plain.split(' ')), plain);
    }
}
