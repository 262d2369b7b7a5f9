//! What `seawall bench cc` has measured: as records, and in words.

use seawall_report::{plain_table, text_of};
use serde::Serialize;
use std::fmt::Write;

/// The median of some runs, with the least and the greatest.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub median: f64,
    pub range: [f64; 2],
}

impl Spread {
    /// Of at least one run.
    pub(super) fn of(mut runs: Vec<f64>) -> Spread {
        runs.sort_by(f64::total_cmp);
        let middle = (runs[(runs.len() - 1) / 2] + runs[runs.len() / 2]) / 2.0;
        Spread { median: middle, range: [runs[0], runs[runs.len() - 1]] }
    }

    /// The columns of a table, in this unit.
    fn columns(self, unit: f64, decimals: usize) -> [String; 2] {
        let shown = |value: f64| format!("{:.decimals$}", value / unit);
        let [least, greatest] = self.range.map(shown);
        [shown(self.median), format!("{least}..{greatest}")]
    }
}

/// A kernel on a simulated machine.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedRecord {
    pub program: &'static str,
    pub design: String,
    pub machine: String,
    pub threads: usize,
    /// References of a run.
    pub references: u64,
    /// Simulated references per second of CPU time.
    pub references_per_second: Spread,
    pub runs: usize,
}

/// A kernel on this host, beside what the compiler alone makes of it.
#[derive(Clone, Debug, Serialize)]
pub struct NativeRecord {
    pub program: &'static str,
    /// CPU time of a run of what `seawall cc` has made, the median.
    pub milliseconds: f64,
    /// CPU time of a run of what its compiler makes alone, the median.
    pub milliseconds_of_gcc: f64,
    /// The first by the second, of runs one after the other.
    pub ratio: Spread,
    pub pairs: usize,
}

/// An exploration on one core.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryRecord {
    pub program: &'static str,
    /// Accesses of a recovery to persistent memory, about.
    pub accesses: u64,
    /// Recoveries of an exploration.
    pub recoveries: u64,
    /// Recoveries per second of wall time.
    pub recoveries_per_second: Spread,
    pub runs: usize,
}

/// A measurement, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "measures", rename_all = "lowercase")]
pub enum CcRecord {
    Simulated(SimulatedRecord),
    Native(NativeRecord),
    Recovery(RecoveryRecord),
}

/// Tables for people, of what there is.
pub(super) fn text(records: &[CcRecord]) -> String {
    let (mut simulated, mut native, mut recoveries) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        match record {
            CcRecord::Simulated(record) => simulated.push(record),
            CcRecord::Native(record) => native.push(record),
            CcRecord::Recovery(record) => recoveries.push(record),
        }
    }
    let mut text =
        String::from("programs that `seawall cc` has compiled; all figures are this host's\n");
    text += &simulated_text(&simulated);
    text += &native_text(&native);
    text += &recovery_text(&recoveries);
    text
}

fn simulated_text(records: &[&SimulatedRecord]) -> String {
    let Some(SimulatedRecord { design, machine, .. }) = records.first() else {
        return String::new();
    };
    let head = ["program", "threads", "references", "median", "range"];
    let mut table = plain_table(&head, 1..5);
    for record in records {
        let [median, range] = record.references_per_second.columns(1e6, 1);
        let (threads, references) = (record.threads.to_string(), record.references.to_string());
        table.add_row([record.program.to_owned(), threads, references, median, range]);
    }
    format!(
        "\nsimulated references per second of CPU time, in millions; {design} on {machine}, all \
         of memory\npersistent; a run is measured from its start to its end\n\n{}",
        text_of(&table)
    )
}

fn native_text(records: &[&NativeRecord]) -> String {
    if records.is_empty() {
        return String::new();
    }
    let head = ["program", "ms", "ms of gcc", "ratio", "range"];
    let mut table = plain_table(&head, 1..5);
    for record in records {
        let shown = |milliseconds: f64| format!("{milliseconds:.0}");
        let [ratio, range] = record.ratio.columns(1.0, 3);
        let (own, gcc) = (shown(record.milliseconds), shown(record.milliseconds_of_gcc));
        table.add_row([record.program.to_owned(), own, gcc, ratio, range]);
    }
    format!(
        "\nCPU time of native runs on one thread, beside what gcc alone makes; ratio of pairs of \
         runs\n\n{}",
        text_of(&table)
    )
}

fn recovery_text(records: &[&RecoveryRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let [median, range] = record.recoveries_per_second.columns(1.0, 0);
        let RecoveryRecord { recoveries, accesses, .. } = record;
        let _ = writeln!(
            text,
            "\nexplored on one core: {median} recoveries per second of wall time ({range}), of \
             about {accesses}\naccesses to persistent memory each; {recoveries} in an exploration"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_and_the_range_is_shown_in_the_unit_of_the_table() {
        let spread = Spread::of(vec![3e6, 1e6, 20e6]);
        assert_eq!(spread.columns(1e6, 1), ["3.0", "1.0..20.0"]);
        let of_two = Spread::of(vec![2.0, 1.0]);
        assert_eq!(of_two.columns(1.0, 2), ["1.50", "1.00..2.00"]);
    }
}
