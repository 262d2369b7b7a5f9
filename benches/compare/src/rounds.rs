//! Rounds: each contender runs in turn, in an order that alternates (A B B A), so that drift of the
//! machine affects all alike; then medians, and ratios round by round.

use crate::contender::Sample;
use crate::groups::{Entry, Group, Role};
use anyhow::{Context, Result};

/// All measurements of one operation of one contender on a number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) group: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) contender: &'static str,
    pub(crate) role: Role,
    pub(crate) threads: usize,
    /// Nanoseconds per operation, one value per round.
    pub(crate) ns: Vec<f64>,
    pub(crate) fences: Option<f64>,
    pub(crate) lines: Option<f64>,
}

/// Runs `rounds` rounds of `group`, after one that does not count, on each number of threads in
/// `threads`.
///
/// # Errors
/// The first error of a contender.
pub(crate) fn run(
    name: &'static str,
    group: &mut Group,
    threads: &[usize],
    rounds: usize,
) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for &threads in threads {
        for entry in &group.entries {
            all.extend(group.operations.iter().map(|operation| Measured {
                group: name,
                operation,
                contender: entry.name,
                role: entry.role,
                threads,
                ns: Vec::new(),
                fences: None,
                lines: None,
            }));
        }
    }
    let operations = group.operations.len();
    let entries = group.entries.len();
    for round in 0..=rounds {
        for (step, &threads) in threads.iter().enumerate() {
            for index in order(entries, round) {
                let samples = one(&mut group.entries[index], threads)?;
                let from = (step * entries + index) * operations;
                if round > 0 {
                    note(&mut all[from..from + operations], &samples);
                }
            }
        }
    }
    let place = |operation: &str| group.operations.iter().position(|one| *one == operation);
    all.sort_by_key(|one| place(one.operation));
    Ok(all)
}

fn order(entries: usize, round: usize) -> Vec<usize> {
    let forwards = 0..entries;
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

fn one(entry: &mut Entry, threads: usize) -> Result<Vec<Sample>> {
    entry.contender.round(threads).with_context(|| format!("{} failed", entry.name))
}

fn note(measured: &mut [Measured], samples: &[Sample]) {
    for (measured, sample) in measured.iter_mut().zip(samples) {
        measured.ns.push(sample.ns);
        measured.fences = sample.fences;
        measured.lines = sample.lines;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_rounds_turns_around() {
        assert_eq!([order(3, 1), order(3, 2)], [[2, 1, 0], [0, 1, 2]]);
    }
}
