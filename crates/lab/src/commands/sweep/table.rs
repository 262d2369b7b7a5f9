//! What `seawall sweep` prints: for each factor, how the cost grows with its values.

use super::file::Factors;
use super::record::SweepRecord;
use super::{Place, Sweep};
use crate::engine::spent::Spent;
use crate::engine::warm;
use comfy_table::Table;
use seawall_report::{plain_table, text_sparing};
use seawall_sim::{Reason, Stalls};
use std::fmt::Write;

/// How many wrong points are listed.
const BROKEN_SHOWN: usize = 3;

impl Sweep {
    /// The tables, and what broke.
    pub fn to_text(&self) -> String {
        let experiment = &self.plan.experiment;
        let mut text = format!(
            "{}\n{}, seed {}; time over {} on the same machine, * as the design and the machine \
             say\n",
            experiment.title, experiment.machine_name, experiment.seed, experiment.baseline.text,
        );
        if experiment.mode == Factors::All {
            text += "each row is the mean over all values of the other factors\n";
        }
        // What a narrow terminal can do without; means and shares stay.
        let columns = experiment.columns.iter().rev().map(|column| &*column.name);
        let spare: Vec<&str> = ["inter", "mostly"].into_iter().chain(columns).collect();
        for (at, factor) in experiment.factors.iter().enumerate() {
            let table = text_sparing(&self.table(at), &spare);
            let _ = write!(text, "\n{}\n{table}", factor.name);
        }
        text += "\nmean: geometric, of base: over the row with *; inter: conflicts between threads \
                 of all,\npersist and mostly: where the threads' time went, in %\n";
        text += &self.summary();
        text += &self.warm_hint();
        if self.is_partial() {
            let (done, all) = (self.records.len(), self.plan.points.len());
            let out = self.plan.out.display();
            let _ = writeln!(
                text,
                "PARTIAL: {done} of {all} points are in {out}; the same command goes on from there"
            );
        }
        text
    }

    /// What is said of factors that next to no access feels.
    fn warm_hint(&self) -> String {
        let experiment = &self.plan.experiment;
        let sum = |name| self.records.values().map(|record| record.counter(name)).sum();
        let remedy = format!("machine = \"{}:cold=true\"", experiment.machine_name);
        let counts = (sum("llc_misses"), sum("references"));
        warm::said(&experiment.latencies_of_reads(), experiment.machine.cold, counts, &remedy)
    }

    fn table(&self, factor: usize) -> Table {
        let experiment = &self.plan.experiment;
        let mut head = vec!["design", "value"];
        head.extend(experiment.columns.iter().map(|column| &*column.name));
        head.extend(["mean", "of base", "inter", "persist", "mostly"]);
        let mut table = plain_table(&head, 1..head.len() - 1);
        for (at, design) in experiment.designs.iter().enumerate() {
            let mut name = &*design.text;
            let values = &experiment.factors[factor];
            if !values.applies(design) {
                continue;
            }
            let base = self.base_of(factor, at);
            let base_mean = base.and_then(|value| self.mean_of(factor, value, at));
            for value in 0..values.count() {
                let mark = if base == Some(value) { "*" } else { " " };
                let label = format!("{}{mark}", values.label(value));
                let mut row = vec![name.to_owned(), label];
                row.extend(self.row(factor, value, at, base_mean));
                table.add_row(row);
                name = "";
            }
        }
        table
    }

    fn row(&self, factor: usize, value: usize, design: usize, base: Option<f64>) -> Vec<String> {
        let places = self.places(factor, value, design);
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let columns = 0..self.plan.experiment.columns.len();
        let mut row: Vec<String> =
            columns.map(|column| ratio(self.ratio(&places, column))).collect();
        let mean = self.mean_of(factor, value, design);
        row.push(ratio(mean));
        row.push(ratio(mean.zip(base).map(|(mean, base)| mean / base)));
        row.push(self.inter(&places).map_or("-".into(), |percent| format!("{percent:.0}")));
        let spent = self.spent(&places);
        row.push(match mean {
            Some(_) => format!("{:.0}", 100.0 * spent.groups().persist),
            None => "-".into(),
        });
        row.push(spent.mostly());
        row
    }

    /// The geometric mean of a value's times under a design, if all are there.
    pub(super) fn mean_of(&self, factor: usize, value: usize, design: usize) -> Option<f64> {
        let places = self.places(factor, value, design);
        crate::commands::kernels::geometric_mean(places.into_iter().map(|place| self.mean(place)))
    }

    /// The value of a factor that a design has without the sweep, if it is one of the values.
    pub(super) fn base_of(&self, factor: usize, design: usize) -> Option<usize> {
        let experiment = &self.plan.experiment;
        let (values, design) = (&experiment.factors[factor], &experiment.designs[design]);
        (0..values.count()).find(|value| values.is_base(*value, &experiment.machine, design))
    }

    /// The geometric mean of a column's times, if all are there.
    pub(super) fn ratio(&self, places: &[&Place], column: usize) -> Option<f64> {
        let times = places.iter().map(|place| self.time(&place.points[column]));
        crate::commands::kernels::geometric_mean(times)
    }

    /// Conflicts between threads in per cent of all, if there are any.
    pub(super) fn inter(&self, places: &[&Place]) -> Option<f64> {
        let sum = |name: &str| -> u64 {
            let keys = places.iter().flat_map(|place| place.points.iter().map(|(key, _)| key));
            keys.filter_map(|key| self.records.get(key)).map(|record| record.counter(name)).sum()
        };
        let inter = sum("conflicts_inter");
        match inter + sum("conflicts_intra") + sum("conflicts_replacement") {
            0 => None,
            all => Some(100.0 * inter as f64 / all as f64),
        }
    }

    /// Where the time went, every column counting as much as its time.
    pub(super) fn spent(&self, places: &[&Place]) -> Spent {
        let mut all = Spent::default();
        let keys = places.iter().flat_map(|place| place.points.iter().map(|(key, _)| key));
        for spent in keys.filter_map(|key| self.records.get(key)).map(|record| record.spent()) {
            let mut stalls = Stalls::default();
            for reason in Reason::ALL {
                stalls.add(reason, all.stalls.get(reason) + spent.stalls.get(reason));
            }
            all = Spent { core_cycles: all.core_cycles + spent.core_cycles, stalls };
        }
        all
    }

    pub(super) fn summary(&self) -> String {
        let records = self.records.values();
        let wrong = records.clone().filter(|record| !record.right).count();
        let is_of_kernels = records.clone().all(SweepRecord::is_of_kernel);
        let held = if is_of_kernels { "results held to a plain computation" } else { "results" };
        let mut text = format!("{} {held}: ", self.records.len());
        text += &if wrong == 0 { "all right".to_owned() } else { format!("{wrong} WRONG") };
        let judged: u64 = records.clone().filter_map(|record| record.judged).sum();
        let broken: u64 = records.clone().map(|record| record.broken).sum();
        if judged > 0 {
            let outcome = match (broken, is_of_kernels) {
                (0, true) => "each left a consistent cut".to_owned(),
                (0, false) => "none broke".to_owned(),
                (broken, true) => format!("{broken} left NO CONSISTENT CUT"),
                (broken, false) => format!("{broken} BROKEN"),
            };
            let _ = write!(text, "; {judged} crashes: {outcome}");
        }
        text += "\n";
        for failure in records.filter_map(|record| record.failure()).take(BROKEN_SHOWN) {
            let _ = writeln!(text, "BROKEN {failure}");
        }
        text
    }
}
