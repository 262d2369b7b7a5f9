//! What `seawall reproduce` prints for people.

use super::{DesignFigure, FigureRecord, HIGHEST, Metric, far, part};
use crate::cell::Flushed;
use crate::figures::programs;
use crate::figures::retired::{self, Pair};
use crate::figures::varied;
use seawall_report::{plain_table, text_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

impl DesignFigure {
    /// A table: the paper, ours, the difference, whether it holds, and what each workload has.
    pub(super) fn text(&self, records: &[&FigureRecord]) -> String {
        let DesignFigure { name, title, source, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(first) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let quick = if first.quick { " (quick)" } else { "" };
        let FigureRecord { machine, operations, seed, .. } = first;
        let others = self.operations_of.iter();
        let others = others.map(|(name, n)| format!("; {name} {}", part(*n, first.quick)));
        let others: String = others.collect();
        let _ = writeln!(
            text,
            "  ours:  {machine}, {operations} operations per thread{others}, seed {seed}{quick}\n"
        );
        let mut head = vec!["series", "paper", "ours", "difference", "holds"];
        let names = self.names(records);
        head.extend(&names);
        let mut table = plain_table(&head, 1..head.len());
        for record in records {
            self.rows(record, &names).into_iter().for_each(|row| {
                table.add_row(row);
            });
        }
        text += &text_of(&table);
        for record in records {
            text += &self.highest(record);
        }
        let stated = records.iter().filter(|record| record.paper.is_some());
        let held = stated.clone().filter(|record| record.holds).count();
        let tolerance = self.number(self.tolerance);
        let _ = write!(text, "\n  {held} of {} hold (within {tolerance})", stated.count());
        if let Some(most) = self.workload_tolerance {
            let of = |record: &&FigureRecord| {
                record.paper_workloads.len() + usize::from(record.paper_most.is_some())
            };
            let all: usize = records.iter().map(of).sum();
            let (far, most) = (far(records), self.number(most));
            let _ =
                write!(text, ", {} of {all} single values (within {most}; others: !", all - far);
            if far != self.far {
                let _ = write!(text, "; the figure's file has far = {}", self.far);
            }
            text.push(')');
        }
        text += if self.is_ordered(records) {
            "; the order of the series is the paper's\n"
        } else {
            "; the order of the series is NOT the paper's\n"
        };
        text += &self.about(records);
        text.push('\n');
        let columns = records.iter().map(|record| varied::Column {
            series: &record.series,
            paper: record.paper,
            measured: record.stand_ins.unwrap_or(record.measured),
            varied: &record.varied,
        });
        let columns: Vec<_> = columns.collect();
        text + &varied::text(&columns, |value| self.number(value))
    }

    /// The lines of a table for one series.
    fn rows(&self, record: &FigureRecord, names: &[&str]) -> Vec<Vec<String>> {
        let number = |value: f64| self.number(value);
        let mut row = vec![record.series.clone()];
        row.extend(self.beside(record));
        row.extend(names.iter().map(|name| {
            let mark = if record.far.iter().any(|far| far == name) { "!" } else { "" };
            record.compared_of(name).map_or(String::new(), |value| number(value) + mark)
        }));
        let mut rows = vec![row];
        let below = |name: &str, first: [String; 2], of: &dyn Fn(&str) -> String| {
            let blank = [String::new(), String::new()];
            let head = std::iter::once(name.to_owned()).chain(first).chain(blank);
            head.chain(names.iter().map(|name| of(name))).collect::<Vec<_>>()
        };
        let empty = || [String::new(), String::new()];
        if !record.flushed.is_empty() {
            let share = |of: fn(&Flushed) -> f64, name: &str| {
                let of = |name: &str| {
                    record.flushed.get(name).map_or(String::new(), |all| percent(of(all)))
                };
                below(name, empty(), &of)
            };
            rows.push(share(|all| all.by_flushers, "  by flushers"));
            rows.push(share(|all| all.skipped, "  skipped"));
        }
        let stand_in = |name: &str| {
            record.programs.get(name)?;
            match record.workloads.get(name).and_then(Value::as_f64) {
                Some(value) => Some(number(value)),
                None if self.retired.iter().any(|other| other == name) => None,
                None => Some("-".into()),
            }
        };
        let is_beside = |name: &String| record.workloads.contains_key(name);
        if record.stand_ins.is_some() || record.programs.keys().any(is_beside) {
            let mean = record.stand_ins.map_or(String::new(), number);
            let of = |name: &str| stand_in(name).unwrap_or_default();
            rows.push(below("  stand-ins", [String::new(), mean], &of));
        }
        if !record.paper_workloads.is_empty() {
            let of = |name: &str| {
                let stated = record.paper_workloads.get(name).and_then(Value::as_f64);
                stated.map_or("-".into(), number)
            };
            rows.push(below("  paper's", empty(), &of));
        }
        rows
    }

    /// The paper's highest value and ours, if it states one.
    fn highest(&self, record: &FigureRecord) -> String {
        let Some(paper) = record.paper_most else { return String::new() };
        let ours = record.compared().map(|(_, value)| value);
        let ours = self.number(ours.fold(f64::NEG_INFINITY, f64::max));
        let mark = if record.far.iter().any(|far| far == HIGHEST) { "!" } else { "" };
        let (name, paper) = (&record.series, self.number(paper));
        format!("\n  {name}: highest {ours}{mark}, the paper's {paper}\n")
    }

    /// Where the values of programs are from.
    fn about(&self, records: &[&FigureRecord]) -> String {
        let file = self.programs.as_deref().and_then(|name| programs::load(name).ok());
        let Some(file) = file else { return String::new() };
        let all = || records.iter().flat_map(|record| &record.programs);
        let names: BTreeSet<&str> = all().map(|(name, _)| name.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let when = file.when(all().any(|(_, program)| program.again));
        let doubts = all().map(|(name, program)| (name.as_str(), program));
        let text = format!("  programs themselves: {names}; {when}\n");
        text + &programs::doubts_text(doubts) + &self.about_retired(records)
    }

    /// Which workloads did not run, and which are far from their programs where values are held.
    fn about_retired(&self, records: &[&FigureRecord]) -> String {
        let did_not_run = |name: &&str| {
            records.iter().any(|record| {
                record.programs.contains_key(*name) && !record.workloads.contains_key(*name)
            })
        };
        let left_out = self.retired.iter().map(String::as_str).filter(did_not_run);
        let held = records.iter().filter(|record| record.paper.is_some());
        let pairs = held.flat_map(|record| {
            record.programs.iter().filter_map(|(name, program)| {
                let stand_in = record.workloads.get(name)?.as_f64()?;
                Some(Pair { name, stand_in, program: program.value })
            })
        });
        let pairs: Vec<Pair<'_>> = pairs.collect();
        let known = retired::known(&self.retired, records.iter().any(|record| record.quick));
        retired::text("workloads", known, &left_out.collect(), &pairs)
    }

    /// The paper's mean, ours, how far apart they are, and whether that holds.
    fn beside(&self, record: &FigureRecord) -> [String; 4] {
        let ours = self.number(record.measured);
        let Some(paper) = record.paper else {
            return ["-".into(), ours, "-".into(), "-".into()];
        };
        let holds = if record.holds { "yes" } else { "NO" };
        let difference = self.difference(record.measured - paper);
        [self.number(paper), ours, difference, holds.into()]
    }

    fn number(&self, value: f64) -> String {
        match self.metric {
            Metric::Throughput | Metric::Time => format!("{value:.2}"),
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
            let behind = |right: &&&FigureRecord| left.paper.is_some() && left.paper < right.paper;
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
            figure: "micro15-fig11".into(),
            series: series.into(),
            point: "mean",
            paper: Some(paper),
            measured,
            stand_ins: None,
            tolerance: 0.06,
            holds: (measured - paper).abs() <= 0.06,
            workloads: Map::from_iter([("hash".to_owned(), json!(measured))]),
            programs: Default::default(),
            flushed: Default::default(),
            stalls: Map::new(),
            stalls_of: Default::default(),
            paper_workloads: Map::new(),
            paper_most: None,
            far: Vec::new(),
            varied: Vec::new(),
            design: "lb".into(),
            machine: "micro15".into(),
            seed: 1,
            operations: 10,
            quick: true,
        }
    }

    #[test]
    fn the_text_says_what_does_not_hold_and_whether_the_order_is_the_papers() {
        let Figure::Designs(figure) = Figure::load("micro15-fig11").unwrap() else {
            panic!("bars")
        };
        let (idt, pf) = (record("LB+IDT", 1.03, 1.01), record("LB+PF", 1.17, 1.4));
        let text = figure.text(&[&idt, &pf]);
        assert!(text.contains("1 of 2 hold (within 0.06); the order of the series is the"));
        assert!(text.contains("-0.02") && text.contains("+0.23"), "{text}");
        let (idt, pf) = (record("LB+IDT", 1.03, 1.09), record("LB+PF", 1.17, 1.08));
        assert!(figure.text(&[&idt, &pf]).contains("NOT the paper's"));
    }
}
