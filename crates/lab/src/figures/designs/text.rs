//! What `seawall reproduce` prints for people.

use super::{DesignFigure, FigureRecord, Metric};
use crate::table::{plain_table, text_of};
use std::fmt::Write;

impl DesignFigure {
    /// A table: the paper, ours, the difference, whether it holds, and what each workload has.
    pub(crate) fn to_text(&self, records: &[&FigureRecord]) -> String {
        let DesignFigure { name, title, source, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(first) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let quick = if first.quick { " (quick)" } else { "" };
        let FigureRecord { machine, operations, seed, .. } = first;
        let _ = writeln!(
            text,
            "  ours:  {machine}, {operations} operations per thread, seed {seed}{quick}\n"
        );
        let mut head = vec!["series", "paper", "ours", "difference", "holds"];
        head.extend(first.workloads.keys().map(String::as_str));
        let mut table = plain_table(&head, 1..head.len());
        for record in records {
            let number = |value: f64| self.number(value);
            let mut row = vec![record.series.clone(), number(record.paper)];
            row.push(number(record.measured));
            row.push(self.difference(record.measured - record.paper));
            row.push(if record.holds { "yes".into() } else { "NO".into() });
            let workloads = record.workloads.values().filter_map(|value| value.as_f64());
            row.extend(workloads.map(number));
            table.add_row(row);
        }
        text += &text_of(&table);
        let held = records.iter().filter(|record| record.holds).count();
        let tolerance = self.number(self.tolerance);
        let _ = write!(text, "\n  {held} of {} hold (within {tolerance})", records.len());
        text += if self.is_ordered(records) {
            "; the order of the series is the paper's\n\n"
        } else {
            "; the order of the series is NOT the paper's\n\n"
        };
        text
    }

    fn number(&self, value: f64) -> String {
        match self.metric {
            Metric::Throughput => format!("{value:.2}"),
            Metric::ConflictingEpochs => format!("{value:.1}"),
        }
    }

    fn difference(&self, value: f64) -> String {
        let sign = if value < 0.0 { '-' } else { '+' };
        match self.number(value.abs()) {
            zero if zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) => zero,
            number => format!("{sign}{number}"),
        }
    }

    /// No two series are the other way round than in the paper.
    fn is_ordered(&self, records: &[&FigureRecord]) -> bool {
        records.iter().all(|left| {
            let behind = |right: &&&FigureRecord| left.paper < right.paper;
            records.iter().filter(behind).all(|right| left.measured <= right.measured)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figure;
    use serde_json::{Map, json};

    fn record(series: &str, paper: f64, measured: f64) -> FigureRecord {
        FigureRecord {
            figure: "s2-fig11".into(),
            series: series.into(),
            point: "mean",
            paper,
            measured,
            tolerance: 0.06,
            holds: (measured - paper).abs() <= 0.06,
            workloads: Map::from_iter([("hash".to_owned(), json!(measured))]),
            design: "lb".into(),
            machine: "micro15".into(),
            seed: 1,
            operations: 10,
            quick: true,
        }
    }

    #[test]
    fn the_text_says_what_does_not_hold_and_whether_the_order_is_the_papers() {
        let Figure::Designs(figure) = Figure::load("s2-fig11").unwrap() else { panic!("bars") };
        let (idt, pf) = (record("LB+IDT", 1.03, 1.01), record("LB+PF", 1.17, 1.4));
        let text = figure.to_text(&[&idt, &pf]);
        assert!(text.contains("1 of 2 hold (within 0.06); the order of the series is the"));
        assert!(text.contains("-0.02") && text.contains("+0.23"), "{text}");
        let (idt, pf) = (record("LB+IDT", 1.03, 1.09), record("LB+PF", 1.17, 1.08));
        assert!(figure.to_text(&[&idt, &pf]).contains("NOT the paper's"));
    }
}
