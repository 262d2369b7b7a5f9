//! What an exploration that is not complete has left out: how much that is, and which option makes
//! it less.

use super::ExploreOptions;
use seawall_explore::{Covered, Estimate, Machines, SearchOutcome};

/// Digits of an estimate that mean something, and the largest one that is printed.
const DIGITS: u32 = 2;
const ESTIMATE_MAX: u64 = 1_000_000_000;

/// A number that is an estimate, with its first digits.
fn some(number: u64) -> String {
    if number > ESTIMATE_MAX {
        return format!("more than {}", grouped(ESTIMATE_MAX));
    }
    let digits = number.checked_ilog10().map_or(1, |last| last + 1);
    let unit = 10u64.pow(digits.saturating_sub(DIGITS));
    format!("some {}", grouped((number + unit / 2) / unit * unit))
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let is_border = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let with_comma = |(at, digit)| [is_border(at).then_some(','), Some(digit)];
    digits.chars().enumerate().flat_map(with_comma).flatten().collect()
}

/// Lines that say what is left, and what would be less or go further.
pub(super) fn left(explored: &Covered, options: &ExploreOptions) -> Vec<String> {
    if explored.is_complete() || explored.finding().is_some() {
        return Vec::new();
    }
    let kinds = explored.kinds.iter().filter(|kind| explored.lacks_schedules(kind));
    let several = explored.kinds.len() > 1;
    let mut lines: Vec<String> =
        kinds.filter_map(|kind| schedules(kind, several, options)).collect();
    lines.extend(ways(explored, options));
    lines
}

/// How many schedules of a kind of machine are left, an estimate.
fn schedules(kind: &Machines, several: bool, options: &ExploreOptions) -> Option<String> {
    let Estimate { schedules, less_interrupted, undelayed } = kind.estimate?;
    let left = schedules.saturating_sub(kind.tried.made as u64);
    let names: Vec<&str> = kind.models.iter().map(|model| model.name()).collect();
    let of = if several { format!("{}: ", names.join(", ")) } else { String::new() };
    let fewer = options.preemptions.saturating_sub(1);
    let less = less_interrupted.map(|all| (all, format!("--preemptions {fewer}")));
    let none = undelayed.map(|all| (all, "--delays 0".to_owned()));
    let shorter = [less, none].into_iter().flatten().filter(|(all, _)| 2 * all <= schedules);
    let shorter: String =
        shorter.map(|(all, option)| format!("; {} in all with {option}", some(all))).collect();
    let how_many = if left == 0 { "few".into() } else { some(left) };
    Some(format!(
        "{of}{how_many} schedules are left to run, an estimate from how the {} that were run \
         branch{shorter}",
        grouped(kind.tried.made as u64)
    ))
}

/// What would be less, and what goes further.
fn ways(explored: &Covered, options: &ExploreOptions) -> Option<String> {
    let unfinished = |outcome: &&SearchOutcome| !outcome.is_complete();
    let unfinished: Vec<&SearchOutcome> = explored.models.iter().filter(unfinished).collect();
    let sum = |of: fn(&SearchOutcome) -> u64| unfinished.iter().map(|it| of(it)).sum::<u64>();
    let (points, nested) = (sum(|it| it.points), sum(|it| it.nested_points));
    let mut shorter = Vec::new();
    if options.depth > 0 && nested > points {
        shorter.push(format!(
            "--depth {} (of {} failure points {} are in recovery)",
            options.depth - 1,
            grouped(points + nested),
            grouped(nested)
        ));
    }
    if options.torn_lines > 0 && unfinished.iter().any(|it| it.model.buffers_stores()) {
        shorter.push("--torn-lines 0".into());
    }
    if explored.models.len() > 1 {
        shorter.push("one model at a time".into());
    }
    shorter.push("fewer operations".into());
    let is_limited = |kind: &Machines| kind.tried.runs as u64 == options.schedules;
    let is_sampled = unfinished.iter().any(|it| it.sampled_points > 0) && !options.thorough;
    let further = [
        (explored.is_late, "more --seconds"),
        (unfinished.iter().any(|it| it.out_of_budget), "a larger --budget"),
        (explored.kinds.iter().any(is_limited), "more --schedules"),
        (is_sampled && !explored.is_late, "--thorough"),
    ];
    let further: Vec<&str> = further.iter().filter(|it| it.0).map(|it| it.1).collect();
    let (shorter, further) = (shorter.join(", "), further.join(", "));
    (!further.is_empty()).then(|| format!("shorter with {shorter}; further with {further}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_has_the_digits_that_mean_something() {
        let texts = [0, 7, 42, 127, 2_949, 12_345, 999_999, 2_000_000_000].map(some);
        assert_eq!(
            texts.join("; "),
            "some 0; some 7; some 42; some 130; some 2,900; some 12,000; some 1,000,000; more than \
             1,000,000,000"
        );
    }
}
