//! Medians of the rounds, and ratios round by round.

use super::{Contender, Measured, Seen};
use crate::report::aligned;
use crate::targets::Comparison;
use seawall_bench_common::Spread;
use serde_json::{Value, json};

const TITLES: [&str; 9] =
    ["contender", "phase", "pages", "file", "k ops/s", "p50 us", "p99 us", "p99.9", "pause ms"];

impl Measured {
    /// The median of a phase.
    fn median(&self, phase: usize, value: impl Fn(&Seen) -> f64) -> f64 {
        let values: Vec<f64> = self.rounds.iter().map(|seen| value(&seen[phase])).collect();
        Spread::of(&values).median
    }

    fn phases(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.rounds[0].iter().map(|seen| seen.name).enumerate()
    }

    /// One value per round.
    fn each(&self, value: impl Fn(&[Seen]) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|seen| value(seen)).collect()
    }
}

fn rate(seen: &Seen) -> f64 {
    seen.operations as f64 / seen.spent.as_secs_f64()
}

/// A line for each phase of each contender.
pub(crate) fn table(all: &[Measured]) -> String {
    let mut rows = vec![TITLES.map(String::from).to_vec()];
    for one in all {
        for (phase, name) in one.phases() {
            let median = |value: &dyn Fn(&Seen) -> f64| one.median(phase, value);
            let both = |value: &dyn Fn((f64, f64)) -> f64| {
                let [before, after] = [0, 1].map(|at| median(&|seen| value(seen.left[at])));
                format!("{before:.2} -> {after:.2}")
            };
            let mut row = vec![one.name.to_owned(), name.to_owned()];
            row.extend([both(&|left| left.0), both(&|left| left.1)]);
            row.push(format!("{:.0}", median(&rate) / 1e3));
            row.extend([0, 1, 2].map(|at| format!("{:.2}", median(&|seen| seen.times[at]))));
            row.push(format!("{:.2}", median(&|seen| seen.pause.as_secs_f64() * 1e3)));
            rows.push(row);
        }
    }
    aligned(&rows, 2)
}

/// Ratios over all phases: `pmemobj_defrag` over the contenders with a collector, where more than
/// one means that the collector is better; and the cost of a collector.
pub(crate) fn comparisons(all: &[Measured]) -> Vec<Comparison> {
    let find = |is_it: &dyn Fn(&Contender) -> bool| all.iter().find(|one| is_it(&one.contender));
    let theirs = find(&|it| matches!(it, Contender::Theirs { defragments: true }));
    let plain = find(&|it| matches!(it, Contender::Ours(None)));
    let (theirs, plain) = (theirs.expect("runs"), plain.expect("runs"));
    let collects = |one: &&Measured| matches!(one.contender, Contender::Ours(Some(_)));
    let mean = |seen: &[Seen], value: &dyn Fn(&Seen) -> f64| {
        seen.iter().map(value).sum::<f64>() / seen.len() as f64
    };
    let pages = |seen: &[Seen]| mean(seen, &|seen| seen.left[1].0);
    let file = |seen: &[Seen]| mean(seen, &|seen| seen.left[1].1);
    let time = |seen: &[Seen]| mean(seen, &|seen| seen.spent.as_secs_f64());
    let pause =
        |seen: &[Seen]| seen.iter().map(|seen| seen.pause).max().unwrap_or_default().as_secs_f64();
    let mut found = Vec::new();
    for ours in all.iter().filter(collects) {
        let mut add = |operation, other: &Measured, value: &dyn Fn(&[Seen]) -> f64, target| {
            let ratio = Spread::of_ratios(&other.each(value), &ours.each(value));
            let what = format!("{} / {}", other.name, ours.name);
            found.push(Comparison { operation, what, ratio, target });
        };
        add("bytes of pages", theirs, &pages, Some(1.0));
        add("bytes of the file", theirs, &file, Some(1.0));
        add("time", theirs, &time, Some(1.0));
        add("longest wait", theirs, &pause, Some(1.0));
        add("time", plain, &time, None);
    }
    found
}

/// A record with the medians of each phase of each contender.
pub(crate) fn records(all: &[Measured]) -> Vec<Value> {
    let mut records = Vec::new();
    for one in all {
        for (phase, name) in one.phases() {
            let median = |value: &dyn Fn(&Seen) -> f64| one.median(phase, value);
            records.push(json!({
                "record": "fragmentation",
                "contender": one.name,
                "number": phase,
                "phase": name,
                "rounds": one.rounds.len(),
                "pages_a_byte_before": median(&|seen| seen.left[0].0),
                "pages_a_byte": median(&|seen| seen.left[1].0),
                "file_a_byte_before": median(&|seen| seen.left[0].1),
                "file_a_byte": median(&|seen| seen.left[1].1),
                "operations_per_second": median(&rate),
                "p50_us": median(&|seen| seen.times[0]),
                "p99_us": median(&|seen| seen.times[1]),
                "p999_us": median(&|seen| seen.times[2]),
                "longest_wait_ms": median(&|seen| seen.pause.as_secs_f64() * 1e3),
            }));
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn measured(name: &'static str, contender: Contender, left: f64, millis: u64) -> Measured {
        let pause = Duration::from_millis(millis);
        let seen =
            Seen { left: [(9.0, 9.0), (left, left)], pause, spent: pause, ..Seen::default() };
        Measured { name, contender, rounds: vec![vec![seen.clone(), seen]; 3] }
    }

    #[test]
    fn what_takes_less_and_waits_less_is_ok_and_what_does_not_is_short() {
        let all = [
            measured("theirs", Contender::Theirs { defragments: true }, 1.5, 100),
            measured("plain", Contender::Ours(None), 5.0, 1),
            measured("good", Contender::Ours(Some((1.1, 1.0))), 1.0, 2),
            measured("bad", Contender::Ours(Some((1.1, 1.0))), 2.0, 200),
        ];
        let found = comparisons(&all);
        let verdicts: Vec<&str> = found.iter().map(Comparison::verdict).collect();
        let (good, bad) = verdicts.split_at(5);
        assert_eq!(good, ["ok", "ok", "ok", "ok", ""]);
        assert_eq!(bad, ["short", "short", "short", "short", ""]);
        assert_eq!((found[0].ratio.median, found[4].ratio.median), (1.5, 0.5));
        assert_eq!(found[0].what, "theirs / good");
    }

    #[test]
    fn a_row_has_what_is_left_before_and_after_the_rest() {
        let text = table(&[measured("theirs", Contender::Ours(None), 1.5, 100)]);
        assert!(text.contains("9.00 -> 1.50") && text.contains("100.00"), "{text}");
    }
}
