//! Instructions of the hot paths, held to `validation/instructions.toml`.
//!
//! Times on a shared host differ by half from minute to minute; what Valgrind counts does not. A
//! path that takes 3 % more instructions than the file says is a problem, and so is one that takes
//! 3 % fewer, as the file then hides the next loss. `counts --write` writes the file.

use crate::hot::{Library, printed, simulator};
use crate::workspace::cargo;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// By how much a count may differ.
const ROOM: f64 = 0.03;

/// Pools in which a path of the library is counted.
const POOLS: usize = 9;

/// How often a path of the library runs; it also runs three times as often.
const TIMES: u64 = 2000;

const HEAD: &str = "\
# Instructions of this computer (x86-64) for one reference of the simulator, and for one operation
# of the library, as Valgrind counts them: `cargo run -p seawall-xtask -- counts` holds them within
# 3 %, `counts --write` writes this file. Another compiler can give other numbers.
";

/// The counts by name.
type Counts = BTreeMap<String, f64>;

/// Counts, and compares; true if all are as the file says.
pub(crate) fn run(writes: bool) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let place = root.join("validation/instructions.toml");
    let mut seawall = cargo(&root);
    seawall.args(["run", "--release", "--quiet", "--locked", "--"]);
    let words = ["--instructions", "--references", "1000"];
    let mut found = Counts::from_iter(simulator(seawall, &words, "instructions_per_reference")?);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let library = Library::build(&root, &target)?;
    for name in &library.names {
        found.insert(format!("lib {name}"), per_run(&library.program, name)?);
    }
    let compiler = printed(Command::new("rustc").arg("--version"))?;
    if writes {
        fs::write(&place, file(compiler.trim(), &found)).context("validation/instructions.toml")?;
        return Ok(true);
    }
    let known = read(&fs::read_to_string(&place).context("validation/instructions.toml")?)?;
    let mut is_right = true;
    for (name, count) in &found {
        let (line, fits) = compared(name, *count, known.get(name).copied());
        println!("{line}");
        is_right &= fits;
    }
    for name in known.keys().filter(|name| !found.contains_key(*name)) {
        println!("{name}: no longer there");
        is_right = false;
    }
    if !is_right {
        println!("find what costs, or take the new counts with `counts --write`");
    }
    Ok(is_right)
}

/// A line about a count, and whether it is within the room.
fn compared(name: &str, count: f64, known: Option<f64>) -> (String, bool) {
    let Some(known) = known else { return (format!("{name}: {count:.0}, not in the file"), false) };
    let change = count / known - 1.0;
    let fits = change.abs() <= ROOM;
    let verdict = if fits { "" } else { ": OUT" };
    (format!("{name}: {count:.0} ({known:.0}, {:+.1} %){verdict}", 100.0 * change), fits)
}

fn file(compiler: &str, found: &Counts) -> String {
    let rows = found.iter().map(|(name, count)| format!("\"{name}\" = {count:.0}\n"));
    format!("{HEAD}# {compiler}\n\n{}", rows.collect::<String>())
}

fn read(text: &str) -> Result<Counts> {
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let (name, count) = line.split_once(" = ").with_context(|| format!("no count: {line}"))?;
        Ok((name.trim_matches('"').to_owned(), count.parse()?))
    })
    .collect()
}

/// Instructions of one run of a path: the median of some pools, as each places its keys by a number
/// of its own, and a look-up takes up to 8 % more in one than in another.
fn per_run(program: &Path, name: &str) -> Result<f64> {
    let in_a_pool = |_| {
        let few = collected(program, name, TIMES)?;
        let many = collected(program, name, 3 * TIMES)?;
        Ok((many as f64 - few as f64) / (2 * TIMES) as f64)
    };
    let mut counts = (0..POOLS).map(in_a_pool).collect::<Result<Vec<f64>>>()?;
    counts.sort_by(f64::total_cmp);
    Ok(counts[POOLS / 2])
}

fn collected(program: &Path, name: &str, times: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    // Valgrind does not know clwb.
    command.args([name, &times.to_string()]).env("SEAWALL_FLUSH", "clflush");
    let output = command.output().context("valgrind, which counts instructions: install it")?;
    let log = String::from_utf8_lossy(&output.stderr);
    let count = log.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    count.with_context(|| format!("valgrind, on the path {name}: {log}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_held_from_both_sides() {
        assert!(compared("a", 102.0, Some(100.0)).1 && compared("a", 98.0, Some(100.0)).1);
        assert!(!compared("a", 104.0, Some(100.0)).1 && !compared("a", 96.0, Some(100.0)).1);
        assert!(!compared("a", 100.0, None).1);
    }

    #[test]
    fn what_is_written_is_read() {
        let counts =
            Counts::from([("sim hash clwb 1".into(), 250.0), ("lib map-get".into(), 90.0)]);
        assert_eq!(read(&file("rustc 1.95.0", &counts)).unwrap(), counts);
    }
}
