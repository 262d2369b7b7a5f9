//! The same numbers as a table for people and as JSON Lines for programs.

use crate::groups::Role;
use crate::rounds::Measured;
use crate::targets::{Comparison, over_floor};
use seawall_bench_common::Spread;
use serde_json::{Value, json};

const TITLES: [&str; 8] =
    ["operation", "contender", "threads", "median", "min - max", "fences", "lines", "x floor"];

/// All measurements, one line each; the floors of a group once.
pub(crate) fn table(measured: &[Measured]) -> String {
    let mut rows = vec![TITLES.map(String::from).to_vec()];
    for (place, one) in measured.iter().enumerate() {
        let same = |other: &Measured| {
            (other.group, other.contender, other.threads) == (one.group, one.contender, one.threads)
        };
        if one.role == Role::Floor && measured[..place].iter().any(same) {
            continue;
        }
        let spread = Spread::of(&one.ns);
        rows.push(vec![
            one.operation.to_string(),
            one.contender.to_string(),
            one.threads.to_string(),
            time(spread.median),
            format!("{} - {}", time(spread.min), time(spread.max)),
            one.fences.map(tenths).unwrap_or_default(),
            one.lines.map(tenths).unwrap_or_default(),
            over_floor(measured, one).map(tenths).unwrap_or_default(),
        ]);
    }
    aligned(&rows, 2)
}

/// Ratios, their targets, and whether they are reached.
pub(crate) fn ratios(comparisons: &[Comparison]) -> String {
    let titles = ["operation", "ratio", "median", "min - max", "target", ""];
    let mut rows = vec![titles.map(String::from).to_vec()];
    for one in comparisons {
        rows.push(vec![
            one.operation.to_string(),
            one.what.clone(),
            hundredths(one.ratio.median),
            format!("{} - {}", hundredths(one.ratio.min), hundredths(one.ratio.max)),
            one.target.map(|target| format!(">= {target}")).unwrap_or_default(),
            one.verdict().to_string(),
        ]);
    }
    aligned(&rows, 2)
}

/// A record of each measurement.
pub(crate) fn records(measured: &[Measured]) -> Vec<Value> {
    let mut records = Vec::new();
    for one in measured {
        let spread = Spread::of(&one.ns);
        records.push(json!({
            "record": "measured",
            "group": one.group,
            "operation": one.operation,
            "contender": one.contender,
            "role": one.role.name(),
            "threads": one.threads,
            "rounds": one.ns.len(),
            "ns_median": spread.median,
            "ns_min": spread.min,
            "ns_max": spread.max,
            "fences": one.fences,
            "lines": one.lines,
            "over_floor": over_floor(measured, one),
        }));
    }
    records
}

/// A record of each ratio.
pub(crate) fn ratio_records(comparisons: &[Comparison]) -> Vec<Value> {
    let record = |one: &Comparison| {
        json!({
            "record": "ratio",
            "operation": one.operation,
            "what": one.what,
            "median": one.ratio.median,
            "min": one.ratio.min,
            "max": one.ratio.max,
            "target": one.target,
            "verdict": one.verdict(),
        })
    };
    comparisons.iter().map(record).collect()
}

fn time(ns: f64) -> String {
    match ns {
        1e6.. => format!("{:.2} ms", ns / 1e6),
        1e3.. => format!("{ns:.0} ns"),
        _ => format!("{ns:.1} ns"),
    }
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

pub(crate) fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

/// Columns under each other: the first `texts` of them to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>], texts: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column| rows.iter().filter_map(|row: &Vec<String>| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            line += &match column < texts {
                true => format!("{cell:<width$}  "),
                false => format!("{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["a".into(), "1".into()], vec!["long".into(), "10".into()]];
        assert_eq!(aligned(&rows, 1), "a      1\nlong  10\n");
    }

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        assert_eq!([time(97.31), time(3288.4), time(282e6)], ["97.3 ns", "3288 ns", "282.00 ms"]);
    }
}
