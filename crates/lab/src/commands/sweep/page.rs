//! `seawall sweep --html`: for each factor a chart of the cost over its values, and a table of them
//! with the records that each is made of.

use super::file::Factors;
use super::{Place, Sweep, SweepPoint};
use crate::engine::pages::{page_of_times, shares, time_columns, time_values};
use crate::subject::Setting;
use seawall_report::{
    HtmlChart, HtmlColumn, HtmlFate, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection,
};
use seawall_sim::Machine;
use serde_json::json;
use std::collections::BTreeMap;

/// A record: its number, and its point.
type Recorded<'a> = BTreeMap<&'a str, (usize, &'a SweepPoint)>;

impl Sweep {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let experiment = &self.plan.experiment;
        let baseline = &experiment.baseline.text;
        HtmlPage {
            facts: vec![
                ("machine", experiment.machine_name.clone()),
                ("seed", experiment.seed.to_string()),
                ("crashes of each point", experiment.crashes.to_string()),
                ("baseline", baseline.clone()),
            ],
            notes: self.page_notes(),
            sections: vec![HtmlSection {
                filters: vec!["factor", "design"],
                columns: [names(), self.page_columns()].concat(),
                sheet: [sheet_names(), self.page_columns()].concat(),
                rows: self.page_rows(),
                charts: vec![HtmlChart::Lines {
                    title: format!("Time over that of {baseline}, geometric mean"),
                    panel: "factor",
                    x: "value",
                    value: "mean",
                    curve: "design",
                }],
                ..HtmlSection::default()
            }],
            ..page_of_times(experiment.title.clone())
        }
    }

    fn page_notes(&self) -> Vec<HtmlNote> {
        let mut notes = vec![HtmlNote::plain(
            "Times are over the baseline on the same machine; a value with * is what the design \
             and the machine say.",
        )];
        if self.plan.experiment.mode == Factors::All {
            notes.push(HtmlNote::plain("Each row is the mean over all values of other factors."));
        }
        let summary = self.summary();
        let is_bad = |line: &str| ["WRONG", "BROKEN", "NO CONS"].iter().any(|it| line.contains(it));
        notes.extend(
            summary.lines().map(|line| HtmlNote { text: line.into(), is_bad: is_bad(line) }),
        );
        if self.is_partial() {
            let (done, all) = (self.records.len(), self.plan.points.len());
            let out = self.plan.out.display();
            notes.push(HtmlNote::bad(format!(
                "{done} of {all} points are in {out}; the same command goes on from there."
            )));
        }
        notes
    }

    fn page_columns(&self) -> Vec<HtmlColumn> {
        let experiment = &self.plan.experiment;
        let ratio = |field: &str, about| HtmlColumn::new(field, HtmlForm::Number(2)).about(about);
        let time =
            |name: &str| ratio(&field_of(name), "time over that under the baseline").titled(name);
        let columns = experiment.columns.iter().map(|column| time(&column.name));
        let mut columns: Vec<HtmlColumn> = columns.collect();
        columns.push(ratio("mean", "geometric mean of the times"));
        columns.push(ratio("of base", "the mean over that of the value with *"));
        columns.push(
            HtmlColumn::new("inter", HtmlForm::Number(0))
                .about("conflicts between threads, in % of all")
                .unit("%"),
        );
        columns.extend(time_columns());
        columns
    }

    fn page_rows(&self) -> Vec<HtmlRow> {
        let numbered = self.in_order().enumerate();
        let recorded: Recorded<'_> =
            numbered.map(|(at, (point, _))| (&*point.key, (at, point))).collect();
        let mut rows = Vec::new();
        for (factor, values) in self.plan.experiment.factors.iter().enumerate() {
            for design in 0..self.plan.experiment.designs.len() {
                if values.applies(&self.plan.experiment.designs[design]) {
                    let of_value = |value| self.page_row((factor, value, design), &recorded);
                    rows.extend((0..values.count()).map(of_value));
                }
            }
        }
        rows
    }

    fn page_row(&self, at: (usize, usize, usize), recorded: &Recorded<'_>) -> HtmlRow {
        let (factor, value, design) = at;
        let experiment = &self.plan.experiment;
        let (values, choice) = (&experiment.factors[factor], &experiment.designs[design]);
        let base = self.base_of(factor, design);
        let mark = if base == Some(value) { "*" } else { "" };
        let label = values.label(value);
        let places = self.places(factor, value, design);
        let mean = self.mean_of(factor, value, design);
        let base_mean = base.and_then(|value| self.mean_of(factor, value, design));
        let mut row = HtmlRow::new([
            ("factor", json!(values.name)),
            ("value", json!(label)),
            ("design", json!(choice.text)),
            ("setting", json!(format!("{} = {label}{mark}", values.name))),
            ("is_base", json!(mark)),
            ("mean", json!(mean)),
            ("of base", json!(mean.zip(base_mean).map(|(mean, base)| mean / base))),
            ("inter", json!(self.inter(&places))),
        ]);
        for (number, column) in experiment.columns.iter().enumerate() {
            row.values.insert(field_of(&column.name), json!(self.ratio(&places, number)));
        }
        let spent = self.spent(&places);
        if mean.is_some() {
            time_values(&mut row.values, &spent);
            row.shares = shares(&spent);
        }
        self.add_records(&mut row, &places, recorded);
        row
    }

    /// Adds the records that a row is made of, with the commands that repeat them.
    fn add_records(&self, row: &mut HtmlRow, places: &[&Place], recorded: &Recorded<'_>) {
        let keys = places.iter().flat_map(|place| place.points.iter().map(|(key, _)| &**key));
        row.fate = HtmlFate::Unjudged;
        for (key, (at, point)) in keys.filter_map(|key| recorded.get_key_value(key)) {
            let record = &self.records[*key];
            row.records.push(*at);
            row.commands.push(self.command(point).unwrap_or_default());
            let is_broken = !record.right || record.broken > 0;
            row.fate = match row.fate {
                HtmlFate::Bad => HtmlFate::Bad,
                _ if is_broken => HtmlFate::Bad,
                _ => HtmlFate::Good,
            };
        }
    }

    /// The command that runs a point by itself, if its machine can be named so.
    pub(super) fn command(&self, point: &SweepPoint) -> Option<String> {
        let Setting { machine, machine_name, crashes, .. } = &point.setting;
        let is_named = Machine::load(machine_name).is_ok_and(|it| it == *machine);
        let baseline = &self.plan.experiment.baseline.text;
        is_named.then(|| point.subject.command(machine_name, baseline, *crashes))
    }
}

/// The field of a column, which is no other field whatever a program is called.
fn field_of(name: &str) -> String {
    format!("time of {name}")
}

fn names() -> Vec<HtmlColumn> {
    vec![
        HtmlColumn::new("design", HtmlForm::Text),
        HtmlColumn::new("setting", HtmlForm::Text).about("the factor and its value"),
    ]
}

/// As [`names`], with the value and its mark by themselves.
fn sheet_names() -> Vec<HtmlColumn> {
    let text = |field: &str| HtmlColumn::new(field, HtmlForm::Text);
    vec![text("factor"), text("design"), text("value"), text("is_base").titled("base")]
}
