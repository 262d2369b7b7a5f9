//! What is left when the process is killed: a child commits transactions one by one and dies
//! without closing the store; what it had committed is looked up afterwards.

use crate::store::{Contender, value};
use crate::stores::CONTENDERS;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// Transactions that the child commits.
pub(crate) const COMMITTED: u64 = 1000;

/// A contender, and how many of the transactions are left; why not, if the store does not open.
pub(crate) struct Left {
    contender: &'static Contender,
    left: Result<u64>,
}

/// Commits, and is killed.
///
/// # Errors
/// When it is still alive.
pub(crate) fn die(contender: &Contender, folder: &Path) -> Result<()> {
    let store = (contender.open)(folder)?;
    store.work(&mut |worker| {
        for key in 1..=COMMITTED {
            worker.put(&[(key, value(key, 0))])?;
        }
        // Nothing is closed or dropped.
        std::process::abort();
    })?;
    bail!("the process is still alive")
}

/// Lets a child of each contender die, and counts.
pub(crate) fn run(contenders: &[&'static Contender], folder: &Path) -> Result<Vec<Left>> {
    let one = |contender: &&'static Contender| {
        let contender: &'static Contender = contender;
        let folder = tempfile::tempdir_in(folder)?;
        let index = CONTENDERS.iter().position(|known| std::ptr::eq(known, contender));
        let index = index.context("a contender of the table")?;
        let mut child = Command::new(std::env::current_exe()?);
        child.args(["--die-in", &index.to_string(), "--store"]).arg(folder.path());
        let status = child.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.code().is_none(), "{}: the child was not killed", contender.name());
        Ok(Left { contender, left: count(contender, folder.path()) })
    };
    contenders.iter().map(one).collect()
}

fn count(contender: &Contender, folder: &Path) -> Result<u64> {
    let store = (contender.open)(folder)?;
    let mut left = 0;
    store.work(&mut |worker| {
        for key in 1..=COMMITTED {
            left += u64::from(worker.get(&[key])? == key);
        }
        Ok(())
    })?;
    Ok(left)
}

/// For people.
pub(crate) fn table(all: &[Left]) -> String {
    let mut text = format!(
        "{:<44}{:>10}  by its documentation: after a kill; after a power failure\n",
        "of 1000 transactions, left after a kill", "left"
    );
    for Left { contender, left } in all {
        let left = left.as_ref().map_or_else(ToString::to_string, u64::to_string);
        let [kill, power] = contender.promise;
        text += &format!("{:<44}{left:>10}  {kill}; {power}\n", contender.name());
    }
    text
}

/// For programs.
pub(crate) fn records(all: &[Left]) -> Vec<Value> {
    let record = |Left { contender, left }: &Left| {
        json!({
            "record": "kill",
            "store": contender.store,
            "setting": contender.setting,
            "committed": COMMITTED,
            "left": left.as_ref().ok(),
            "promise_kill": contender.promise[0],
            "promise_power": contender.promise[1],
        })
    };
    all.iter().map(record).collect()
}
