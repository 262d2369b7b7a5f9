//! The corpus of known bugs as a table: is every broken program found, and no fixed one?

use super::ExploreError;
use crate::engine::jobs::{host_threads, in_parallel};
use crate::engine::options::listed_name;
use clap::Args;
use seawall_corpus::{Case, Effort, Row, all_cases, run_case};
use seawall_report::{Experiment, Files, Form, Progress, Report, json_lines, plain_table, text_of};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How far to look, and at what.
#[derive(Clone, Debug, Default, Args)]
pub struct CorpusOptions {
    /// Cases, or beginnings of the names of several [default: all]
    #[arg(value_delimiter = ',', value_parser = listed_name)]
    pub cases: Vec<String>,
    /// Crash after each store too, and crash recovery twice
    #[arg(long)]
    pub long: bool,
    /// Write a JSON record per case and model to this file [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What the explorer makes of the corpus.
#[derive(Debug)]
pub struct Corpus {
    rows: Vec<Row>,
}

/// There is no case of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no case of the corpus is called `{0}`, or begins so; see `seawall list corpus`")]
pub struct UnknownCase(pub(crate) String);

impl Corpus {
    /// Rows that are not as they should be.
    pub fn wrong(&self) -> usize {
        self.rows.iter().filter(|row| !row.is_as_expected()).count()
    }

    /// The table.
    pub fn to_text(&self) -> String {
        let head =
            ["case", "kind", "model", "broken", "states", "ms", "fixed", "states", "ms", "what"];
        let mut table = plain_table(&head, 4..6);
        for row in &self.rows {
            let ms = |report: &seawall_corpus::CaseReport| {
                format!("{:.1}", report.time.as_secs_f64() * 1e3)
            };
            let fixed = match (&row.fixed.message, row.fixed.complete) {
                (Some(_), _) => "WRONG",
                (None, true) => "clean",
                (None, false) => "clean *",
            };
            let mut what = row.about.what.to_owned();
            if what.len() > WHAT_COLUMNS {
                what.truncate(WHAT_COLUMNS - 2);
                what += "..";
            }
            table.add_row([
                row.about.name.to_owned(),
                row.about.kind.to_string(),
                row.broken.model.to_string(),
                if row.broken.message.is_some() { "found" } else { "MISSED" }.to_owned(),
                row.broken.states.to_string(),
                ms(&row.broken),
                fixed.to_owned(),
                row.fixed.states.to_string(),
                ms(&row.fixed),
                what,
            ]);
        }
        let mut text = text_of(&table);
        let found = self.rows.iter().filter(|row| row.broken.message.is_some()).count();
        let clean = self.rows.iter().filter(|row| row.fixed.message.is_none()).count();
        let all = self.rows.len();
        let _ = writeln!(
            text,
            "\n{found} of {all} broken programs found, {clean} of {all} fixed ones clean"
        );
        for row in self.rows.iter().filter(|row| row.fixed.message.is_some()) {
            let said = row.fixed.message.as_deref().unwrap_or_default();
            let _ = writeln!(text, "WRONG: {} under {}: {said}", row.about.name, row.fixed.model);
        }
        text += "kinds: F flush, N fence, O order, A atomicity, R recovery, L leak, T torn, \
                 C other threads, V log\n";
        if self.rows.iter().any(|row| !row.fixed.complete) {
            text += "*: not every state of every run was looked at\n";
        }
        text
    }
}

/// The cases of these names, or whose names begin so; all if there are none.
fn chosen(names: &[String]) -> Result<Vec<&'static dyn Case>, UnknownCase> {
    let is_one = |name: &str| all_cases().any(|case| case.about().name == name);
    let is_named = |case: &dyn Case, name: &String| {
        let known = case.about().name;
        if is_one(name) { known == name } else { known.starts_with(&name[..]) }
    };
    if let Some(name) = names.iter().find(|name| !all_cases().any(|case| is_named(case, name))) {
        return Err(UnknownCase(name.clone()));
    }
    let is_chosen = |case: &&'static dyn Case| {
        names.is_empty() || names.iter().any(|name| is_named(*case, name))
    };
    Ok(all_cases().filter(is_chosen).collect())
}

/// Columns of the last column.
const WHAT_COLUMNS: usize = 33;

impl Experiment for CorpusOptions {
    type Plan = CorpusOptions;
    type Report = Corpus;
    type Error = ExploreError;

    fn plan(&self) -> Result<CorpusOptions, ExploreError> {
        Ok(self.clone())
    }

    fn files(&self, _: &CorpusOptions) -> Files {
        Files::without_partial().results(Form::Json, &self.json)
    }

    fn run(
        plan: CorpusOptions,
        progress: &Progress,
        _: &Arc<AtomicBool>,
    ) -> Result<Corpus, ExploreError> {
        let cases = chosen(&plan.cases)?;
        let effort = match plan.long {
            true => Effort { thorough: true, depth: 2, ..Effort::default() },
            false => Effort::default(),
        };
        progress.start_work(cases.len() as u64);
        let explore = |case: &&dyn Case| {
            let rows = run_case(*case, &effort);
            progress.advance_work(1000);
            rows
        };
        let threads = host_threads(None).map_err(|error| ExploreError::Lab(error.to_string()))?;
        let rows = in_parallel(&threads, &cases, explore);
        progress.end();
        Ok(Corpus { rows: rows.into_iter().flatten().collect() })
    }
}

impl Report for Corpus {
    fn text(&self) -> String {
        self.to_text()
    }

    fn found(&self) -> bool {
        self.wrong() > 0
    }

    fn json(&self) -> String {
        json_lines(&self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_chosen_by_its_name_or_several_by_how_theirs_begin() {
        let run = |name: &str| {
            let options = CorpusOptions { cases: vec![name.into()], ..CorpusOptions::default() };
            CorpusOptions::run(options, &Progress::hidden(), &Arc::default())
        };
        let corpus = run("ff-8").unwrap();
        assert_eq!(corpus.wrong(), 0);
        assert!(corpus.to_text().contains("1 of 1 broken programs found"));
        let names = |of: &str| -> Vec<&str> {
            chosen(&[of.into()]).unwrap().iter().map(|case| case.about().name).collect()
        };
        assert_eq!(names("pm-1"), ["pm-1"]);
        assert!(names("pm-").contains(&"pm-11") && names("pm-").contains(&"pm-1"));
        assert!(run("zz").unwrap_err().to_string().contains("`zz`"));
    }
}
