//! The charts of a logging figure: a curve for each log over the size of a string.

use super::measure::Place;
use super::{Column, View};
use crate::figures::stem;
use seawall_report::{Axis, Chart, Curve};
use seawall_workloads::memsys17::{Log, Structure};

impl View<'_> {
    /// A chart for every table and structure, where there are sizes enough for a curve.
    pub(crate) fn charts(&self) -> Vec<Chart> {
        if self.figure.value_bytes.len() < 3 {
            return Vec::new();
        }
        let mut charts = Vec::new();
        for structure in self.figure.structures() {
            charts.extend(self.figure.tables.iter().map(|column| self.chart(*column, structure)));
            if self.figure.tables.contains(&Column::Cycles) {
                charts.push(self.ratios(structure));
            }
        }
        charts
    }

    fn curve(&self, structure: Structure, value: impl Fn(Place) -> Option<f64>) -> Vec<(f64, f64)> {
        let sizes = self.figure.value_bytes.iter();
        sizes.filter_map(|bytes| Some((*bytes as f64, value((structure, *bytes))?))).collect()
    }

    fn chart(&self, column: Column, structure: Structure) -> Chart {
        let (end, label, y) = match column {
            Column::Cycles => ("cycles", "simulated", Axis::log("cycles a record")),
            Column::Nanoseconds => ("host", "on this host", Axis::log("ns a record")),
            Column::Misses => ("misses", "simulated", Axis::linear("misses of the LLC, %")),
            Column::Partial => ("partial", "simulated", Axis::ratio("partial lines a record")),
        };
        let file = format!("{}-{structure}-{end}", stem(&self.figure.name));
        let title = format!("{}: {structure}, {label}", self.figure.name);
        let mut chart = Chart::new(&file, &title, Axis::log("bytes of a string"), y);
        for log in Log::ALL {
            let value = |place| match column {
                Column::Cycles => self.cycles(place, log),
                Column::Nanoseconds => self.host(place)?.nanoseconds(log),
                Column::Misses => Some(100.0 * self.simulated(place, log)?.miss_rate()),
                Column::Partial => {
                    let run = self.simulated(place, log)?;
                    Some(run.partial_lines() as f64 / run.records as f64)
                }
            };
            let name = match log.is_durable() {
                true => log.name().to_owned(),
                false => format!("{} (not durable)", log.name()),
            };
            chart = chart.with(Curve::measured(&name, self.curve(structure, value)));
        }
        chart
    }

    /// What the paper calls speedup, the same of logs that are both durable, and our choice.
    fn ratios(&self, structure: Structure) -> Chart {
        let file = format!("{}-{structure}-speedup", stem(&self.figure.name));
        let title = format!("{}: {structure}, one log over another", self.figure.name);
        let (x, y) = (Axis::log("bytes of a string"), Axis::ratio("ratio of times"));
        let simulated = |log: Log, over: Log| {
            self.curve(structure, |place| {
                Some(self.cycles(place, log)? / self.cycles(place, over)?)
            })
        };
        let host =
            |log: Log, over: Log| self.curve(structure, |place| self.host(place)?.ratio(log, over));
        let (uncached, unflushed) = (Log::Uncached, Log::CachedUnflushed);
        let better = self.curve(structure, |place| self.over_better(place));
        let host_better = self.curve(structure, |place| self.host_over_better(place));
        let flushed = Log::CachedFlushed;
        Chart::new(&file, &title, x, y)
            .with(Curve::measured("uncached/unflushed, simulated", simulated(uncached, unflushed)))
            .with(Curve::measured("cached/uncached, simulated", simulated(flushed, uncached)))
            .with(Curve::measured("cached/uncached, host", host(flushed, uncached)))
            .with(Curve::measured("adaptive/better, simulated", better))
            .with(Curve::measured("adaptive/better, host", host_better))
    }
}
