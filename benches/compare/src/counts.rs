//! Fences and lines of libpmemobj, counted by a child with the counting library, so that the
//! process that measures time runs the library as it is.

use crate::child;
use crate::rounds::Measured;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The output of the child: a line for each count.
pub(crate) fn lines(measured: &[Measured]) -> String {
    let line = |one: &Measured| {
        json!([one.operation, one.contender, one.fences, one.lines]).to_string() + "\n"
    };
    measured.iter().map(line).collect()
}

/// Counts `group` of libpmemobj with `arguments` in a child, and adds the counts to `measured`.
///
/// # Errors
/// When the child fails.
pub(crate) fn add(measured: &mut [Measured], group: &str, arguments: &[String]) -> Result<()> {
    let mut all = vec!["--count".to_string(), "--only".to_string(), group.to_string()];
    all.extend_from_slice(arguments);
    merge(measured, &child::counting(&all)?)
}

fn merge(measured: &mut [Measured], printed: &str) -> Result<()> {
    for line in printed.lines() {
        let counted: Value = serde_json::from_str(line).context("the counting child's output")?;
        let is_it =
            |one: &&mut Measured| counted[0] == one.operation && counted[1] == one.contender;
        for one in measured.iter_mut().filter(is_it) {
            one.fences = counted[2].as_f64();
            one.lines = counted[3].as_f64();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::Role;

    #[test]
    fn what_the_child_counted_reaches_all_threads_of_the_same_contender() {
        let one = |contender, threads| Measured {
            group: "abort",
            operation: "tx, 64 B, abort",
            contender,
            role: Role::Theirs,
            threads,
            ns: vec![1.0],
            fences: None,
            lines: None,
        };
        let mut counted = one("libpmemobj", 1);
        (counted.fences, counted.lines) = (Some(5.0), Some(6.0));
        let mut measured = [one("libpmemobj", 1), one("libpmemobj", 2), one("other", 1)];
        merge(&mut measured, &lines(&[counted])).unwrap();
        let fences = measured.each_ref().map(|one| one.fences);
        assert_eq!(fences, [Some(5.0), Some(5.0), None]);
        assert!(merge(&mut measured, "no JSON").is_err());
    }
}
