//! What came of litmus tests: per test, per model and design, and in words.

use super::crash::{Crashes, Violation};
use seawall_explore::Model;
use seawall_explore::litmus::{Litmus, Outcome, Reachable, Verdict};
use seawall_report::{Finished, Report, json_lines, plain_table, text_of};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// With at most this many tests, each is described in full.
const FULL_MAX: usize = 4;
/// Outcomes of a disagreement that are shown with the way that led to them.
const WAYS_MAX: usize = 3;

/// What a model reached.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ModelCell {
    pub model: Model,
    /// Its answer to the question; none if the test asks nothing.
    pub verdict: Option<Verdict>,
    pub expected: Option<Verdict>,
    /// False if the file expects anything else.
    pub agrees: bool,
    /// All outcomes that were reached.
    pub outcomes: Vec<Outcome>,
    /// Those that the file does not allow.
    pub forbidden: Vec<Outcome>,
    /// Those that the file allows and that were not reached.
    pub missing: Vec<Outcome>,
    /// For the first few of `forbidden`: the instructions that led there.
    pub ways: Vec<Vec<String>>,
    /// States that were looked at.
    pub states: u64,
    /// False if there may be more outcomes.
    pub is_complete: bool,
}

/// What a design left.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DesignCell {
    /// The design with its parameters.
    pub design: String,
    /// The model that it promises.
    pub model: Model,
    /// Runs of the test.
    pub runs: u64,
    pub crashes: u64,
    /// Different outcomes that they left.
    pub seen: usize,
    /// Different outcomes that the model allows.
    pub allowed: usize,
    /// Crashes that left something else; the run that had the first ended the pair.
    pub forbidden: u64,
    /// The first of them.
    pub violation: Option<Violation>,
}

/// What came of one test.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TestReport {
    pub id: String,
    /// Its folder; empty for a user's own.
    pub family: String,
    pub title: String,
    /// The program in one line.
    pub program: String,
    /// The meaning of an outcome.
    pub memory: Vec<String>,
    /// The outcome asked for; may be empty.
    pub question: String,
    pub models: Vec<ModelCell>,
    pub designs: Vec<DesignCell>,
}

/// What came of all tests.
#[derive(Clone, Debug)]
pub struct LitmusReport {
    /// The tests that were run.
    pub tests: Vec<TestReport>,
    pub models: Vec<Model>,
    /// The designs, and the model that each promises.
    pub designs: Vec<(String, Model)>,
    /// Crashes asked for, for each test and design.
    pub crashes: u64,
    pub seed: u64,
    /// True if the run was stopped before every test was done.
    pub is_partial: bool,
}

impl ModelCell {
    pub(super) fn new(test: &Litmus, model: Model, reached: &Reachable) -> ModelCell {
        let outcomes = reached.outcomes();
        let expectation = test.expectation(model.name());
        let expected = expectation.map(|it| it.verdict);
        let allowed = expectation.and_then(|it| it.outcomes.as_ref()).unwrap_or(&outcomes);
        let verdict = (!test.question.is_empty()).then(|| test.verdict(&outcomes));
        let only = |one: &BTreeSet<Outcome>, other: &BTreeSet<Outcome>| {
            one.difference(other).cloned().collect::<Vec<Outcome>>()
        };
        let (forbidden, missing) = (only(&outcomes, allowed), only(allowed, &outcomes));
        // A walk that was cut has not missed anything for certain.
        let same = if reached.is_complete {
            missing.is_empty() && expected.is_none_or(|expected| verdict == Some(expected))
        } else {
            (expected, verdict) != (Some(Verdict::Forbidden), Some(Verdict::Allowed))
        };
        let way = |outcome: &Outcome| reached.way(test, outcome);
        ModelCell {
            model,
            verdict,
            expected,
            agrees: forbidden.is_empty() && same,
            ways: forbidden.iter().take(WAYS_MAX).filter_map(way).collect(),
            forbidden,
            missing,
            outcomes: outcomes.into_iter().collect(),
            states: reached.states,
            is_complete: reached.is_complete,
        }
    }

    fn letter(&self) -> String {
        let letter = match self.verdict {
            Some(Verdict::Allowed) => "A",
            Some(Verdict::Forbidden) => "F",
            None => "-",
        };
        let mark = if !self.agrees { "!" } else { "" };
        let cut = if self.is_complete { "" } else { "?" };
        format!("{letter}{mark}{cut}")
    }
}

impl DesignCell {
    pub(super) fn new(
        design: String,
        model: Model,
        allowed: &BTreeSet<Outcome>,
        crashes: Crashes,
    ) -> DesignCell {
        DesignCell {
            design,
            model,
            runs: crashes.runs,
            crashes: crashes.crashes,
            seen: crashes.seen.intersection(allowed).count(),
            allowed: allowed.len(),
            forbidden: crashes.forbidden,
            violation: crashes.violation,
        }
    }

    fn word(&self) -> &'static str {
        match (&self.violation, self.crashes) {
            (Some(_), _) => "BAD",
            (None, 0) => "-",
            (None, _) => "ok",
        }
    }
}

impl TestReport {
    pub(super) fn new(test: &Litmus) -> TestReport {
        TestReport {
            id: test.id.clone(),
            family: test.family.clone(),
            title: test.title.clone(),
            program: test.program(),
            memory: test.columns.iter().map(|column| test.column_name(*column)).collect(),
            question: test.question_text(),
            models: Vec::new(),
            designs: Vec::new(),
        }
    }

    fn head(&self) -> String {
        let mut text = format!("{}  {}\n", self.id, self.title);
        for (number, thread) in self.program.split(" | ").enumerate() {
            let _ = writeln!(text, "  thread {}: {thread}", number + 1);
        }
        if !self.question.is_empty() {
            let _ = writeln!(text, "  may a crash leave {}?", self.question);
        }
        text
    }

    /// The test in full, with all that was reached.
    fn full_text(&self) -> String {
        let mut text = self.head();
        for cell in &self.models {
            let verdict = cell.verdict.map_or(String::new(), |verdict| format!("{verdict}; "));
            let count = cell.outcomes.len();
            let _ = writeln!(
                text,
                "  {:6}  {verdict}{count} outcomes of {}:",
                cell.model.name(),
                self.memory.join(" ")
            );
            text += &wrapped(&cell.outcomes, 10);
            if !cell.is_complete {
                let states = cell.states;
                let _ = writeln!(text, "          CUT after {states} states: there may be more");
            }
        }
        for cell in &self.designs {
            let _ = writeln!(
                text,
                "  {:6}  left {} of {} outcomes of {} in {} crashes",
                cell.design,
                cell.seen,
                cell.allowed,
                cell.model.name(),
                cell.crashes
            );
        }
        text.push('\n');
        text
    }

    fn disagreements(&self) -> String {
        let mut text = String::new();
        for cell in self.models.iter().filter(|cell| !cell.agrees) {
            let _ = writeln!(text, "\nDISAGREES: model {}", cell.model.name());
            text += &self.head();
            if let (Some(expected), Some(verdict)) = (cell.expected, cell.verdict) {
                let _ = writeln!(text, "  expected {expected}, found {verdict}");
            }
            let memory = self.memory.join(" ");
            for (what, outcomes) in
                [("reached and forbidden", &cell.forbidden), ("not reached", &cell.missing)]
            {
                if !outcomes.is_empty() {
                    let _ = writeln!(text, "  {what} ({memory}):");
                    text += &wrapped(outcomes, 4);
                }
            }
            for (outcome, way) in cell.forbidden.iter().zip(&cell.ways) {
                let _ = writeln!(text, "  {outcome} after:");
                for step in way {
                    let _ = writeln!(text, "    {step}");
                }
            }
        }
        for cell in &self.designs {
            let Some(violation) = &cell.violation else { continue };
            let _ = writeln!(text, "\nBROKEN: design {} ({})", cell.design, cell.model.name());
            text += &self.head();
            let _ = writeln!(text, "  run {} on {}: {}", violation.run, violation.machine, {
                let memory = self.memory.join(" ");
                match (&violation.stuck, &violation.outcome, violation.crash) {
                    (Some(stuck), ..) => stuck.clone(),
                    (None, Some(left), Some(at)) => format!(
                        "power fails at cycle {at} and leaves {left} ({memory}), which is forbidden"
                    ),
                    (None, left, _) => {
                        let left = left.as_ref().map_or(String::new(), Outcome::to_string);
                        format!("the memory at the end is {left} ({memory}), which is forbidden")
                    }
                }
            });
            for (cycle, thread, step) in &violation.steps {
                let _ = writeln!(text, "    cycle {cycle}: thread {thread}: {step}");
            }
        }
        text
    }
}

/// Outcomes in lines of at most 100 columns.
fn wrapped(outcomes: &[Outcome], indent: usize) -> String {
    let mut text = String::new();
    let mut line = " ".repeat(indent);
    for outcome in outcomes {
        let word = outcome.to_string();
        if line.len() + word.len() > 100 {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(indent);
        }
        line += &word;
        line.push(' ');
    }
    text + line.trim_end() + "\n"
}

impl LitmusReport {
    /// Models and designs that did what they must not, test by test.
    pub fn disagreements(&self) -> usize {
        let models = self.tests.iter().flat_map(|test| &test.models);
        let designs = self.tests.iter().flat_map(|test| &test.designs);
        models.filter(|cell| !cell.agrees).count()
            + designs.filter(|cell| cell.violation.is_some()).count()
    }

    /// Crashes of all tests and designs.
    pub fn crashes(&self) -> u64 {
        self.tests.iter().flat_map(|test| &test.designs).map(|cell| cell.crashes).sum()
    }

    /// The table, a summary, and every disagreement in full.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if self.tests.len() <= FULL_MAX {
            self.tests.iter().for_each(|test| text += &test.full_text());
        }
        text += &self.table();
        text += "\nA: a crash may leave what is asked for, F: it may not; !: the file says \
                 otherwise; ?: cut, there may be more\n";
        if !self.designs.is_empty() {
            text += "ok: a design left only what its model allows, BAD: it did not, -: it has no \
                     such store, or the set of its model was cut\n";
        }
        text.push('\n');
        self.models.iter().enumerate().for_each(|(at, model)| text += &self.of_model(at, *model));
        self.designs.iter().enumerate().for_each(|(at, pair)| text += &self.of_design(at, pair));
        if self.is_partial {
            text += "PARTIAL: stopped before all tests were done\n";
        }
        self.tests.iter().for_each(|test| text += &test.disagreements());
        text
    }

    fn table(&self) -> String {
        let mut head = vec!["test"];
        head.extend(self.models.iter().map(|model| model.name()));
        // Parameters would make the table wide; they stand in the summary.
        head.extend(self.designs.iter().map(|(name, _)| name.split(':').next().unwrap_or(name)));
        let mut table = plain_table(&head, 0..0);
        for test in &self.tests {
            let mut row = vec![test.id.clone()];
            row.extend(test.models.iter().map(ModelCell::letter));
            row.extend(test.designs.iter().map(|cell| cell.word().to_owned()));
            table.add_row(row);
        }
        text_of(&table)
    }

    fn of_model(&self, at: usize, model: Model) -> String {
        let cells: Vec<&ModelCell> = self.tests.iter().map(|test| &test.models[at]).collect();
        let outcomes: usize = cells.iter().map(|cell| cell.outcomes.len()).sum();
        let wrong = cells.iter().filter(|cell| !cell.agrees).count();
        let held = cells.iter().filter(|cell| cell.expected.is_some()).count();
        let verdict = match (wrong, held) {
            (0, 0) => "nothing was expected".into(),
            (0, _) => format!("{held} of {held} expectations met"),
            _ => format!("{wrong} of {held} expectations NOT met"),
        };
        let tests =
            if cells.len() == 1 { "1 test".into() } else { format!("{} tests", cells.len()) };
        format!("{:8} {tests}, {outcomes} outcomes, {verdict}\n", model.name())
    }

    fn of_design(&self, at: usize, (name, model): &(String, Model)) -> String {
        let cells: Vec<&DesignCell> = self.tests.iter().map(|test| &test.designs[at]).collect();
        let sum = |of: fn(&DesignCell) -> u64| cells.iter().map(|cell| of(cell)).sum::<u64>();
        let bad = cells.iter().filter(|cell| cell.violation.is_some()).count();
        let verdict = match bad {
            0 => "no memory that is forbidden".into(),
            1 => "1 test BROKEN".into(),
            _ => format!("{bad} tests BROKEN"),
        };
        format!(
            "{name} ({}): {} crashes in {} runs, {verdict}; left {} of {} outcomes\n",
            model.name(),
            sum(|cell| cell.crashes),
            sum(|cell| cell.runs),
            sum(|cell| cell.seen as u64),
            sum(|cell| cell.allowed as u64),
        )
    }
}

impl Report for LitmusReport {
    fn text(&self) -> String {
        self.to_text()
    }

    fn found(&self) -> bool {
        self.disagreements() > 0
    }

    fn finished(&self) -> Finished {
        Finished::of(self.is_partial, self.tests.is_empty())
    }

    fn json(&self) -> String {
        json_lines(self.tests.iter().map(|test| {
            let mut record = serde_json::to_value(test).unwrap_or_default();
            if let Some(record) = record.as_object_mut() {
                record.insert("seed".into(), self.seed.into());
                record.insert("crashes".into(), self.crashes.into());
            }
            record
        }))
    }
}
