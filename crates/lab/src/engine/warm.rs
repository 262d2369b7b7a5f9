//! Says so where a study of memory's latency cannot show it: caches begin full of the program's
//! lines, so that next to no access reaches memory.

use seawall_sim::{Counters, Machine};

/// Fewer than one access in this number is next to none.
const FEW: u64 = 1000;

/// Whether this number of a machine is felt by accesses that reach memory, and by nothing else.
pub(crate) fn is_of_reads(key: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or_default();
    key.starts_with("memory.") && name.contains("read")
}

/// What is said of runs on the machine of this name, as in `micro15:memory.nvm.read=480`, if they
/// cannot show what the numbers in the name change.
pub(crate) fn hint<'a>(machine: &str, runs: impl Iterator<Item = &'a Counters>) -> String {
    let keys = machine.split(':').skip(1).filter_map(|setting| Some(setting.split_once('=')?.0));
    let keys: Vec<&str> = keys.filter(|key| is_of_reads(key)).collect();
    let is_cold = Machine::load(machine).is_ok_and(|machine| machine.cold);
    let sum =
        |(misses, all): (u64, u64), run: &Counters| (misses + run.llc_misses, all + run.references);
    said(&keys, is_cold, runs.fold((0, 0), sum), "--cold")
}

/// What is said of runs in which `misses` of `all` accesses reached memory, while `keys` were
/// changed.
pub(crate) fn said(
    keys: &[&str],
    is_cold: bool,
    (misses, all): (u64, u64),
    remedy: &str,
) -> String {
    if keys.is_empty() || is_cold || misses * FEW >= all {
        return String::new();
    }
    let keys = keys.join(", ");
    format!(
        "{keys} can show little: {misses} of {all} accesses reached memory, as the caches begin \
         full;\n  {remedy} begins with empty ones\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_misses_feel_is_said_to_show_little_where_there_are_none() {
        let run =
            |misses| Counters { llc_misses: misses, references: 50_000, ..Default::default() };
        let found = |machine: &str, misses| hint(machine, [run(misses), run(misses)].iter());
        assert_eq!(
            found("micro15:memory.nvm.read=480:ghz=3", 7),
            "memory.nvm.read can show little: 14 of 100000 accesses reached memory, as the caches \
             begin full;\n  --cold begins with empty ones\n"
        );
        for machine in [
            "micro15",
            "micro15:memory.nvm.write=480",
            "micro15:memory.banks=4",
            "micro15:core.width=2",
            "micro15:memory.nvm.read=480:cold=true",
        ] {
            assert_eq!(found(machine, 7), "", "{machine}");
        }
        assert_eq!(found("micro15:memory.nvm.read=480", 50), "", "enough of them");
    }
}
