//! Is the simulator to be believed? A report that a sceptic can run.
//!
//! Each part of the machine is asked up to four questions, as Ramulator's tests do it: does it run
//! at all; does its curve have the right shape; is the latency of a lone request the sum of its
//! path; is its peak bandwidth the formula. What is expected is added up from the numbers of the
//! machine file, never from the simulator's code; what is measured comes from small programs on
//! the simulator's public face. The same sums and programs are the simulator's own tests.

use crate::LabError;
use crate::table::{plain_table, text_of};
use seawall_sim::Machine;
use serde::Serialize;
use std::fmt;
use std::path::Path;

mod curves;
mod hardware;
mod paths;
mod points;
mod relocation;
mod scenes;
mod traffic;

use crate::chart::Chart;

/// What to validate.
#[derive(Clone, Debug)]
pub struct ValidateOptions {
    /// The name of a machine, or the path of its file.
    pub machine: String,
    /// Seed of the orders in which memory is walked.
    pub seed: u64,
}

impl Default for ValidateOptions {
    fn default() -> ValidateOptions {
        ValidateOptions { machine: crate::MACHINE.into(), seed: 1 }
    }
}

/// A question about a part of the simulated machine, with its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidatePoint {
    /// The part: "l1", "llc", "mesh", "coherence", "memory", or the name of a design.
    pub part: String,
    /// "runs", "shape", "lone latency", "peak bandwidth" or "hardware".
    pub question: &'static str,
    /// What is measured, with its unit.
    pub what: String,
    /// How the expectation is made from the machine file.
    pub formula: String,
    /// What the formula gives.
    pub expected: f64,
    /// What the simulator does.
    pub measured: f64,
    /// How far the two may be apart, in per cent of what is expected.
    pub tolerance: f64,
    /// True if they are not further apart.
    pub holds: bool,
    /// Why it is known not to hold, if it is.
    pub gap: Option<String>,
}

impl ValidatePoint {
    pub(crate) fn new(part: &str, question: &'static str, what: String) -> ValidatePoint {
        ValidatePoint {
            part: part.into(),
            question,
            what,
            formula: String::new(),
            expected: 0.0,
            measured: 0.0,
            tolerance: 0.0,
            holds: true,
            gap: None,
        }
    }

    /// True if it does not hold and nobody said why, or holds though somebody did.
    pub fn fails(&self) -> bool {
        self.holds == self.gap.is_some()
    }

    fn known_gap(self, why: &str) -> ValidatePoint {
        ValidatePoint { gap: Some(why.into()), ..self }
    }

    fn verdict(&self) -> &'static str {
        match (self.holds, self.gap.is_some()) {
            (true, false) => "holds",
            (false, true) => "gap",
            (true, true) => "HOLDS",
            (false, false) => "FAILS",
        }
    }

    pub(crate) fn expect(mut self, formula: &str, expected: f64) -> ValidatePoint {
        self.formula = formula.into();
        self.expected = expected;
        self
    }

    pub(crate) fn found(mut self, measured: f64, tolerance: f64) -> ValidatePoint {
        self.measured = measured;
        self.tolerance = tolerance;
        let allowed = self.expected.abs() * tolerance / 100.0;
        self.holds = (measured - self.expected).abs() <= allowed + 1e-9;
        self
    }
}

/// All questions and answers, and the curves behind them.
#[derive(Clone, Debug)]
pub struct ValidateReport {
    /// The machine's name, as it was asked for.
    pub machine: String,
    /// The points, by part.
    pub points: Vec<ValidatePoint>,
    charts: Vec<Chart>,
}

/// Asks every question and measures every curve; takes some seconds.
///
/// # Errors
/// An unknown machine, or one with fewer than two cores; a simulation that fails.
pub fn validate(options: &ValidateOptions) -> Result<ValidateReport, LabError> {
    let machine = Machine::load(&options.machine)?;
    if machine.core.count < 2 {
        return Err(LabError::Option {
            option: "--machine",
            value: options.machine.clone(),
            valid: "a machine with two cores or more".into(),
        });
    }
    let curves = curves::Curves::measure(&machine, options.seed)?;
    let mut points = points::all(&machine)?;
    points.extend(relocation::points(&machine)?);
    points.extend(curves.points());
    let mut charts = curves.charts();
    if let Some(hardware) = hardware::Hardware::measure(&machine, options.seed)? {
        points.extend(hardware.points());
        charts.extend(hardware.charts());
    }
    points.sort_by_key(|point| points::order(&point.part));
    Ok(ValidateReport { machine: options.machine.clone(), points, charts })
}

impl ValidateReport {
    /// How many points do not hold, but for known gaps, and how many of these hold.
    pub fn failures(&self) -> usize {
        self.points.iter().filter(|point| point.fails()).count()
    }

    /// One JSON object a line, one line a point.
    ///
    /// # Errors
    /// When a number has no JSON form.
    pub fn to_json_lines(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        for point in &self.points {
            text += &serde_json::to_string(point)?;
            text.push('\n');
        }
        Ok(text)
    }

    /// Draws every curve to a file of its own in `folder`; gives the names.
    ///
    /// # Errors
    /// When a curve cannot be drawn or a file cannot be written.
    pub fn write_plots(&self, folder: &Path) -> Result<Vec<String>, LabError> {
        std::fs::create_dir_all(folder).map_err(LabError::file(folder))?;
        let mut names = Vec::new();
        for chart in &self.charts {
            let svg = chart.to_svg().map_err(|error| LabError::Plot(error.to_string()))?;
            let name = format!("{}.svg", chart.file);
            crate::write_file(&folder.join(&name), svg.as_bytes())?;
            names.push(name);
        }
        Ok(names)
    }
}

impl fmt::Display for ValidateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["part", "question", "what", "expected", "measured", "+-", ""];
        let mut table = plain_table(&head, 3..6);
        let mut last = "";
        for point in &self.points {
            let part = if point.part == last { "" } else { &point.part };
            last = &point.part;
            table.add_row(vec![
                part.to_owned(),
                point.question.to_owned(),
                point.what.clone(),
                number(point.expected),
                number(point.measured),
                format!("{} %", point.tolerance),
                point.verdict().to_owned(),
            ]);
        }
        writeln!(f, "{}: cycles where nothing else is said\n", self.machine)?;
        write!(f, "{}", text_of(&table))?;
        for point in &self.points {
            let (part, what) = (&point.part, &point.what);
            match &point.gap {
                Some(why) if point.holds => {
                    writeln!(f, "\nHOLDS {part}: {what}; no longer a gap ({why})")?;
                }
                Some(why) => writeln!(f, "\ngap {part}: {what}: {why}")?,
                None if point.holds => {}
                None => writeln!(f, "\nFAILS {part}: {what}; expected {}", point.formula)?,
            }
        }
        let count = |wanted: fn(&ValidatePoint) -> bool| {
            self.points.iter().filter(|point| wanted(point)).count()
        };
        let (hold, gaps) = (count(|point| point.holds), count(|point| point.gap.is_some()));
        write!(f, "\n{hold} of {} points hold", self.points.len())?;
        writeln!(f, "{}", if gaps > 0 { format!(", {gaps} are known gaps") } else { String::new() })
    }
}

/// At most one decimal, or two below ten, and none for whole numbers.
fn number(value: f64) -> String {
    match value {
        whole if whole.fract() == 0.0 => format!("{whole:.0}"),
        small if small.abs() < 10.0 => format!("{small:.2}"),
        other => format!("{other:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_holds_and_every_question_is_asked() {
        let options = ValidateOptions { machine: "desktop".into(), seed: 1 };
        let report = validate(&options).unwrap();
        assert_eq!(report.failures(), 0, "{report}");
        for question in ["runs", "shape", "lone latency", "peak bandwidth"] {
            assert!(report.points.iter().any(|point| point.question == question), "{question}");
        }
        let lines = report.to_json_lines().unwrap();
        assert_eq!(lines.lines().count(), report.points.len());
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["holds"], true);
        let folder = tempfile::tempdir().unwrap();
        let names = report.write_plots(folder.path()).unwrap();
        assert_eq!(names.len(), 6);
    }

    #[test]
    fn formulas_hold_where_controllers_answer_late_and_cores_issue_less_than_their_width() {
        let machine = Machine::load("hops17").unwrap();
        assert!(machine.memory.post > 0 && machine.core.parallelism.is_some());
        let options = ValidateOptions { machine: "hops17".into(), seed: 1 };
        let report = validate(&options).unwrap();
        assert_eq!(report.failures(), 0, "{report}");
    }

    #[test]
    fn a_point_that_is_too_far_off_fails_and_says_what_was_expected() {
        let point = |measured| {
            let point = ValidatePoint::new("llc", "lone latency", "a load".into());
            point.expect("there and back", 100.0).found(measured, 2.0)
        };
        assert!(point(102.0).holds && !point(102.1).holds && !point(97.0).holds);
        let report = ValidateReport {
            machine: "micro15".into(),
            points: vec![point(100.0), point(120.0)],
            charts: Vec::new(),
        };
        assert_eq!(report.failures(), 1);
        let text = report.to_string();
        assert!(text.contains("FAILS llc: a load; expected there and back"), "{text}");
        assert!(text.contains("1 of 2 points hold"), "{text}");
    }

    #[test]
    fn a_machine_that_cannot_be_validated_is_named() {
        let options = ValidateOptions { machine: "micro16".into(), seed: 1 };
        assert!(validate(&options).unwrap_err().to_string().contains("micro15"));
    }
}
