//! `seawall validate`: the answers of [`Validation`] as a table, as records and as plots.

use crate::LabError;
use crate::engine::options::default_options;
use clap::Args;
use seawall_report::{
    Axis, Chart, Curve, Experiment, Files, Form, Progress, Report, ReportError, ResultFile,
    json_lines, plain_table, text_of,
};
use seawall_sim::Machine;
use seawall_sim::validation::{AxisScale, Plot, PlotAxis, Validation, ValidationPoint};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod gem5;

/// What to validate.
#[derive(Clone, Debug, Args)]
pub struct ValidateOptions {
    /// Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    #[arg(long, short, default_value = crate::MACHINE, value_name = "NAME")]
    pub machine: String,
    /// Seed of the orders in which memory is walked
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Write a record per point to this file, as JSON Lines [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw the curves into this folder, as SVG [if stopped: none]
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

default_options!(ValidateOptions);

/// A machine with all questions about it and their answers.
#[derive(Clone, Debug)]
pub struct ValidateReport {
    /// The machine's name, as it was asked for.
    pub machine: String,
    validation: Validation,
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
    // The questions about its parts are asked of warm caches.
    let warm = Machine { cold: false, ..machine };
    let mut validation = Validation::measure(&warm, options.seed)?;
    validation.points.extend(gem5::points(&options.machine, options.seed)?);
    Ok(ValidateReport { machine: options.machine.clone(), validation })
}

impl ValidateReport {
    /// The number of points that do not hold and are no known gaps, and of gaps that hold.
    pub fn failures(&self) -> usize {
        self.validation.failures()
    }
}

impl fmt::Display for ValidateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["part", "question", "what", "expected", "measured", "+-", ""];
        let mut table = plain_table(&head, 3..6);
        let mut last = "";
        for point in &self.validation.points {
            let part = if point.part == last { "" } else { &point.part };
            last = &point.part;
            table.add_row(vec![
                part.to_owned(),
                point.question.to_owned(),
                point.what.clone(),
                number(point.expected),
                number(point.measured),
                format!("{} %", point.tolerance),
                verdict(point).to_owned(),
            ]);
        }
        writeln!(f, "{}: cycles where nothing else is said\n", self.machine)?;
        write!(f, "{}", text_of(&table))?;
        for point in &self.validation.points {
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
        let count = |wanted: fn(&ValidationPoint) -> bool| {
            self.validation.points.iter().filter(|point| wanted(point)).count()
        };
        let (hold, gaps) = (count(|point| point.holds), count(|point| point.gap.is_some()));
        write!(f, "\n{hold} of {} points hold", self.validation.points.len())?;
        writeln!(f, "{}", if gaps > 0 { format!(", {gaps} are known gaps") } else { String::new() })
    }
}

fn verdict(point: &ValidationPoint) -> &'static str {
    match (point.holds, point.gap.is_some()) {
        (true, false) => "holds",
        (false, true) => "gap",
        (true, true) => "HOLDS",
        (false, false) => "FAILS",
    }
}

fn chart(plot: &Plot) -> Chart {
    let chart = Chart::new(&plot.file, &plot.title, axis(&plot.x), axis(&plot.y));
    plot.curves.iter().fold(chart, |chart, curve| {
        let series = if curve.is_formula { Curve::formula } else { Curve::measured };
        chart.with(series(&curve.name, curve.points.clone()))
    })
}

fn axis(axis: &PlotAxis) -> Axis {
    match axis.scale {
        AxisScale::Whole => Axis::linear(&axis.label),
        AxisScale::Ratio => Axis::ratio(&axis.label),
        AxisScale::Log => Axis::log(&axis.label),
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

impl Experiment for ValidateOptions {
    type Plan = ValidateOptions;
    type Report = ValidateReport;
    type Error = LabError;

    fn plan(&self) -> Result<ValidateOptions, LabError> {
        Ok(self.clone())
    }

    fn files(&self, _: &ValidateOptions) -> Files {
        Files::without_partial()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
            .results(Form::Plots, &self.plots)
    }

    fn run(
        plan: ValidateOptions,
        _: &Progress,
        _: &Arc<AtomicBool>,
    ) -> Result<ValidateReport, LabError> {
        validate(&plan)
    }
}

impl Report for ValidateReport {
    fn text(&self) -> String {
        self.to_string()
    }

    fn found(&self) -> bool {
        self.failures() > 0
    }

    fn json(&self) -> String {
        json_lines(&self.validation.points)
    }

    fn plots(&self) -> Result<Vec<ResultFile>, ReportError> {
        self.validation.plots.iter().map(|plot| chart(plot).svg()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_record_a_point_and_a_plot_a_curve() {
        // What it asks of warm caches it asks on a machine that starts with cold ones, too.
        let machine = "desktop:cold=true".into();
        let report = validate(&ValidateOptions { machine, ..ValidateOptions::default() }).unwrap();
        assert_eq!(report.failures(), 0, "{report}");
        let lines = report.json();
        assert_eq!(lines.lines().count(), report.validation.points.len());
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["holds"], true);
        assert_eq!(report.plots().unwrap().len(), 6);
    }

    #[test]
    fn a_point_that_is_too_far_off_fails_and_says_what_was_expected() {
        let point = |measured| {
            let point = ValidationPoint::new("llc", "lone latency", "a load".into());
            point.expect("there and back", 100.0).found(measured, 2.0)
        };
        let points = vec![point(100.0), point(120.0)];
        let validation = Validation { points, plots: Vec::new() };
        let report = ValidateReport { machine: "micro15".into(), validation };
        assert_eq!(report.failures(), 1);
        let text = report.to_string();
        assert!(text.contains("FAILS llc: a load; expected there and back"), "{text}");
        assert!(text.contains("1 of 2 points hold"), "{text}");
    }

    #[test]
    fn a_machine_that_cannot_be_validated_is_named() {
        let options = ValidateOptions { machine: "micro16".into(), ..ValidateOptions::default() };
        assert!(validate(&options).unwrap_err().to_string().contains("micro15"));
    }
}
