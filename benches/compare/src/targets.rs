//! The targets, as ratios to libpmemobj, and the ratios that were reached.

use crate::groups::Role;
use crate::rounds::Measured;
use seawall_bench_common::Spread;

/// Operation, baseline, and how many times faster seawall should be.
const TARGETS: &[(&str, &str, f64)] = &[
    ("tx, 64 B", "libpmemobj", 3.0),
    ("tx, 4 x 64 B", "libpmemobj", 4.0),
    ("alloc + free, 64 B", "libpmemobj", 4.0),
    ("hash map, insert", "hashmap_tx", 6.0),
    ("hash map, insert", "hashmap_rp", 2.5),
    ("hash map, look up", "hashmap_rp", 1.0),
    ("hash map, remove", "hashmap_tx", 6.0),
    ("hash map, remove", "hashmap_rp", 2.5),
    ("ordered map, insert", "btree", 2.0),
    ("create 1 GiB", "libpmemobj", 5.0),
    ("open after a kill", "libpmemobj", 5.0),
];

/// How many times faster each operation should be at least where programs also store in place.
const IN_PLACE: f64 = 1.0;

/// The factor by which two threads should be faster than one.
const SCALE: f64 = 1.7;

/// A ratio and its target.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) operation: &'static str,
    /// The two values that are divided.
    pub(crate) what: String,
    pub(crate) ratio: Spread,
    /// The least ratio that is enough, if one was set.
    pub(crate) target: Option<f64>,
}

impl Comparison {
    /// `ok` or `short`, or nothing where there is no target.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.target {
            Some(target) if self.ratio.median >= target => "ok",
            Some(_) => "short",
            None => "",
        }
    }
}

/// Each of libpmemobj's contenders over each contender that is compared with it, on one thread;
/// then how each scales to two.
pub(crate) fn comparisons(measured: &[Measured]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let on_one = || measured.iter().filter(|one| one.threads == 1);
    for other in
        on_one().filter(|one| matches!(one.role, Role::Ours | Role::InPlace | Role::ByHand))
    {
        let same = |one: &&Measured| one.operation == other.operation && one.role == Role::Theirs;
        for theirs in on_one().filter(same) {
            all.push(Comparison {
                operation: other.operation,
                what: format!("{} / {}", theirs.contender, other.contender),
                ratio: Spread::of_ratios(&theirs.ns, &other.ns),
                target: target(other, theirs.contender),
            });
        }
    }
    for two in measured.iter().filter(|one| one.threads == 2 && one.role != Role::Floor) {
        let same =
            |one: &&Measured| (one.operation, one.contender) == (two.operation, two.contender);
        if let Some(one) = on_one().find(same) {
            let throughputs: Vec<f64> = one.ns.iter().map(|ns| 2.0 * ns).collect();
            all.push(Comparison {
                operation: two.operation,
                what: format!("{}: 2 threads / 1", two.contender),
                ratio: Spread::of_ratios(&throughputs, &two.ns),
                target: matches!(two.role, Role::Ours | Role::InPlace).then_some(SCALE),
            });
        }
    }
    all
}

fn target(ours: &Measured, baseline: &str) -> Option<f64> {
    if ours.role == Role::InPlace {
        return Some(IN_PLACE);
    }
    let is_it = |(operation, against, _): &&(&str, &str, f64)| {
        ours.role == Role::Ours && *operation == ours.operation && *against == baseline
    };
    TARGETS.iter().find(is_it).map(|(_, _, ratio)| *ratio)
}

/// Times the floor of the same rounds, if there is one.
pub(crate) fn over_floor(measured: &[Measured], of: &Measured) -> Option<f64> {
    let is_floor = |one: &&Measured| {
        one.role == Role::Floor && one.operation == of.operation && one.threads == of.threads
    };
    let floor = measured.iter().find(is_floor)?;
    Some(Spread::of_ratios(&of.ns, &floor.ns).median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::KINDS;

    fn measured(contender: &'static str, role: Role, threads: usize, ns: f64) -> Measured {
        let (group, operation) = ("tx-64", "tx, 64 B");
        let (fences, lines) = (None, None);
        Measured { group, operation, contender, role, threads, ns: vec![ns; 3], fences, lines }
    }

    #[test]
    fn a_target_is_judged_for_ours_and_only_shown_by_hand() {
        let all = [
            measured("libpmemobj", Role::Theirs, 1, 600.0),
            measured("seawall", Role::Ours, 1, 200.0),
            measured("slow", Role::Ours, 1, 201.0),
            measured("by hand", Role::ByHand, 1, 100.0),
        ];
        let found = comparisons(&all);
        let verdicts: Vec<&str> = found.iter().map(Comparison::verdict).collect();
        assert_eq!(verdicts, ["ok", "short", ""]);
        assert_eq!(found[2].what, "libpmemobj / by hand");
    }

    #[test]
    fn two_threads_that_do_not_hinder_each_other_scale_to_two() {
        let all =
            [measured("seawall", Role::Ours, 1, 200.0), measured("seawall", Role::Ours, 2, 200.0)];
        let found = comparisons(&all);
        assert_eq!((found.len(), found[0].ratio.median, found[0].verdict()), (1, 2.0, "ok"));
    }

    #[test]
    fn the_floor_is_that_of_the_same_rounds() {
        let all = [
            measured("seawall", Role::Ours, 1, 200.0),
            measured("NT", Role::Floor, 1, 100.0),
            measured("NT", Role::Floor, 2, 50.0),
        ];
        assert_eq!(over_floor(&all, &all[0]), Some(2.0));
    }

    #[test]
    fn every_group_has_a_name_of_its_own() {
        for (place, kind) in KINDS.iter().enumerate() {
            assert!(KINDS.iter().skip(place + 1).all(|other| other.name != kind.name));
        }
    }
}
