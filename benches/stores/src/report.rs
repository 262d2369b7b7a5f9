//! The table for people, and the same numbers for programs.

use crate::measure::{Measured, OPERATIONS};
use seawall_bench_common::{Spread, cpu, cpus, file_system};
use serde_json::{Value, json};
use std::path::Path;

/// The ratio of a contender to the first of ours, with as many threads, that waits for the medium
/// as it does and has the operation.
fn ratio(all: &[Measured], one: &Measured, operation: usize) -> Option<Spread> {
    let is_ours = |other: &&Measured| {
        other.threads == one.threads
            && other.contender.is_synced == one.contender.is_synced
            && other.contender.store.starts_with("seawall")
            && !other.ns[operation].is_empty()
    };
    let ours = all.iter().find(is_ours)?;
    Some(Spread::of_ratios(&one.ns[operation], &ours.ns[operation]))
}

/// A table for each operation.
pub(crate) fn tables(all: &[Measured]) -> String {
    let mut text = String::new();
    for (operation, (name, _)) in OPERATIONS.iter().enumerate() {
        text += &format!(
            "{name:<46}{:>8}{:>12}{:>24}{:>8}{:>18}\n",
            "threads", "median", "min - max", "x ours", "min - max"
        );
        for one in all {
            let Some(time) = one.time(operation) else { continue };
            let range = format!("{} - {}", duration(time.min), duration(time.max));
            let (median, spread) = ratio(all, one, operation).map_or_else(Default::default, |of| {
                (format!("{:.2}", of.median), format!("{:.2} - {:.2}", of.min, of.max))
            });
            text += &format!(
                "  {:<44}{:>8}{:>12}{range:>24}{median:>8}{spread:>18}\n",
                one.contender.name(),
                one.threads,
                duration(time.median)
            );
        }
        text.push('\n');
    }
    text
}

fn duration(ns: f64) -> String {
    if ns < 10_000.0 { format!("{ns:.0} ns") } else { format!("{:.1} us", ns / 1000.0) }
}

/// The same for programs: an object for each operation of each contender.
pub(crate) fn records(all: &[Measured]) -> Vec<Value> {
    let mut records = Vec::new();
    for one in all {
        for (operation, (name, _)) in OPERATIONS.iter().enumerate() {
            let Some(time) = one.time(operation) else { continue };
            let ratio = ratio(all, one, operation);
            records.push(json!({
                "record": "store",
                "store": one.contender.store,
                "setting": one.contender.setting,
                "synced": one.contender.is_synced,
                "operation": name,
                "threads": one.threads,
                "ns": time.median,
                "ns_min": time.min,
                "ns_max": time.max,
                "ratio": ratio.map(|ratio| ratio.median),
                "ratio_min": ratio.map(|ratio| ratio.min),
                "ratio_max": ratio.map(|ratio| ratio.max),
            }));
        }
    }
    records
}

/// The conditions, for people.
pub(crate) fn host_line(folder: &Path) -> String {
    format!("{}, {} CPUs; {} ({})", cpu(), cpus(), folder.display(), file_system(folder))
}

/// The conditions, for programs.
pub(crate) fn host(folder: &Path) -> Value {
    json!({"record": "host", "cpu": cpu(), "cpus": cpus(), "file_system": file_system(folder)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 10.0]);
        assert_eq!(spread, Spread { median: 2.5, min: 1.0, max: 10.0 });
        let ratio = Spread::of_ratios(&[10.0, 40.0, 30.0], &[10.0, 20.0, 10.0]);
        assert_eq!(ratio, Spread { median: 2.0, min: 1.0, max: 3.0 });
    }
}
