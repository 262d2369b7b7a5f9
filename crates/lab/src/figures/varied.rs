//! Parameters that nobody published: what a figure would be with other values of them.
//!
//! The file of a figure lists other values (`[[varied]]`), each with a reason; with `--varied` the
//! figure runs with each of them. They say whether the paper's value is within the range of what
//! is not known. Ours remains what is compared.

use crate::LabError;
use seawall_report::{plain_table, text_of};
use seawall_sim::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is set otherwise on a machine, as in `"memory.line_cycles" = 10`.
pub(super) type Settings = BTreeMap<String, toml::Value>;

/// The name of a machine with what is set on it, as `--machine` takes it.
pub(super) fn machine_name(machine: &str, settings: &Settings) -> String {
    let settings = settings.iter().map(|(key, value)| format!(":{key}={value}"));
    machine.to_owned() + &settings.collect::<String>()
}

/// The machine with these settings.
pub(super) fn machine_with(machine: &str, settings: &Settings) -> Result<Machine, LabError> {
    Ok(Machine::load(&machine_name(machine, settings))?)
}

/// Other values of parameters of a figure's machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Varied {
    /// What is other, in a few words.
    pub name: String,
    pub settings: Settings,
}

/// What a value of a figure would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariedValue {
    /// What is other.
    pub name: String,
    pub measured: f64,
}

/// Separates the name of a figure from that of its variation, in the names of copies.
const SEPARATOR: char = '\n';

impl Varied {
    /// The name of a copy of `figure` with this variation.
    fn of(&self, figure: &str) -> String {
        format!("{figure}{SEPARATOR}{}", self.name)
    }
}

/// A figure whose machine can be varied.
pub(super) trait Varying: Clone {
    fn variations(&self) -> &[Varied];
    /// Its name and the settings of its machine.
    fn parts(&mut self) -> (&mut String, &mut Settings);
}

/// A copy of each figure for each of its variations.
pub(super) fn copies<F: Varying>(figures: &[&F]) -> Vec<F> {
    let copy = |figure: &F, varied: &Varied| {
        let mut copy = figure.clone();
        let (name, settings) = copy.parts();
        *name = varied.of(name);
        settings.extend(varied.settings.clone());
        copy
    };
    let all = figures
        .iter()
        .flat_map(|figure| figure.variations().iter().map(move |varied| copy(figure, varied)));
    all.collect()
}

/// A record that can belong to a variation.
pub(super) trait Variable {
    /// The figure, the series, and what of it.
    fn place(&self) -> (&str, &str, &str);
    fn measured(&self) -> f64;
    fn varied(&mut self) -> &mut Vec<VariedValue>;
}

/// Moves the values of copies into the records of the figures of which they are copies.
pub(super) fn fold<R: Variable>(records: Vec<R>) -> Vec<R> {
    let is_copy = |record: &R| record.place().0.contains(SEPARATOR);
    let (copies, mut own): (Vec<R>, Vec<R>) = records.into_iter().partition(is_copy);
    for copy in &copies {
        let (copied, series, point) = copy.place();
        let (figure, name) = copied.split_once(SEPARATOR).unwrap_or((copied, ""));
        let place = (figure, series, point);
        if let Some(record) = own.iter_mut().find(|record| record.place() == place) {
            record.varied().push(VariedValue { name: name.to_owned(), measured: copy.measured() });
        }
    }
    own
}

/// A column of the table: a series, the paper's value, ours, and those of the variations.
pub(super) struct Column<'a> {
    pub(super) series: &'a str,
    pub(super) paper: Option<f64>,
    pub(super) measured: f64,
    pub(super) varied: &'a [VariedValue],
}

/// What people read of the variations; nothing if there are none.
pub(super) fn text(columns: &[Column<'_>], number: impl Fn(f64) -> String) -> String {
    let names = columns.iter().flat_map(|column| column.varied.iter().map(|varied| &*varied.name));
    let mut rows: Vec<&str> = Vec::new();
    for name in names {
        if !rows.contains(&name) {
            rows.push(name);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut head = vec!["parameters that nobody published"];
    head.extend(columns.iter().map(|column| column.series));
    let mut table = plain_table(&head, 1..head.len());
    let row = |name: &str, cell: &dyn Fn(&Column<'_>) -> Option<String>| {
        let cells = columns.iter().map(|column| cell(column).unwrap_or_else(|| "-".into()));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    table.add_row(row("as chosen", &|column| Some(number(column.measured))));
    for name in rows {
        let value = |column: &Column<'_>| {
            let found = column.varied.iter().find(|varied| varied.name == name)?;
            Some(number(found.measured))
        };
        table.add_row(row(name, &value));
    }
    let range = |column: &Column<'_>| {
        let (least, most) = column.range();
        Some(format!("{}-{}", number(least), number(most)))
    };
    table.add_row(row("range", &range));
    table.add_row(row("the paper", &|column| column.paper.map(&number)));
    let is_inside = |column: &Column<'_>| {
        let (least, most) = column.range();
        Some(if (least..=most).contains(&column.paper?) { "inside" } else { "outside" }.into())
    };
    table.add_row(row("", &is_inside));
    text_of(&table) + "\n"
}

impl Column<'_> {
    /// The least and the greatest of all values of ours.
    fn range(&self) -> (f64, f64) {
        let all = self.varied.iter().map(|varied| varied.measured);
        all.fold((self.measured, self.measured), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Record(String, f64, Vec<VariedValue>);

    impl Variable for Record {
        fn place(&self) -> (&str, &str, &str) {
            (&self.0, "LB", "mean")
        }

        fn measured(&self) -> f64 {
            self.1
        }

        fn varied(&mut self) -> &mut Vec<VariedValue> {
            &mut self.2
        }
    }

    #[test]
    fn values_of_variations_stand_beside_the_figures_own_and_span_a_range() {
        let varied = Varied { name: "fast memory".into(), settings: BTreeMap::new() };
        let copy = Record(varied.of("fig"), 1.2, Vec::new());
        let other = Record(varied.of("another"), 9.0, Vec::new());
        let records = fold(vec![Record("fig".into(), 1.5, Vec::new()), copy, other]);
        assert_eq!(records.len(), 1, "{records:?}");
        let varied = &records[0].2;
        assert_eq!(varied, &[VariedValue { name: "fast memory".into(), measured: 1.2 }]);
        let column = |paper| Column { series: "LB", paper: Some(paper), measured: 1.5, varied };
        let print = |paper| text(&[column(paper)], |value| format!("{value:.1}"));
        let inside = print(1.3);
        assert!(inside.contains("1.2-1.5") && inside.contains("inside"), "{inside}");
        assert!(print(1.6).contains("outside"));
    }
}
