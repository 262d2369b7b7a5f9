//! Instructions of the hot paths, held to `validation/instructions.toml`.
//!
//! Times on a shared host differ by half from minute to minute; what Valgrind counts does not. A
//! path that takes 3 % more instructions than the file says is a problem, and so is one that takes
//! 3 % fewer, as the file then hides the next loss. `counts --write` writes the file.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// By how much a count may differ.
const ROOM: f64 = 0.03;

/// The points of the simulator.
const DESIGNS: &str = "clwb,lbpp,bsp-lbpp,hops,asap";
const CORES: &str = "1,32";

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
    let mut found = simulator(&root)?;
    found.extend(library(&root)?);
    let compiler = text(Command::new("rustc").arg("--version"))?;
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

/// The simulator's points, as `bench sim` counts them.
fn simulator(root: &Path) -> Result<Counts> {
    let folder = std::env::temp_dir().join(format!("seawall-counts-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let json = folder.join("counts.json");
    let mut command = cargo(root, &["run", "--release", "--quiet", "--locked", "--"]);
    command.args(["bench", "sim", "--instructions", "--runs", "1", "--references", "1000"]);
    command.args(["-w", "hash", "-d", DESIGNS, "--cores", CORES, "--json"]).arg(&json);
    let printed = text(&mut command);
    let records = printed.and_then(|_| Ok(fs::read_to_string(&json)?));
    fs::remove_dir_all(&folder)?;
    records?.lines().map(point).collect()
}

fn point(line: &str) -> Result<(String, f64)> {
    let record: Value = serde_json::from_str(line)?;
    let word = |key: &str| record[key].as_str().map(str::to_owned);
    let name = word("workload").zip(word("design")).zip(record["cores"].as_u64());
    let count = record["instructions_per_reference"].as_f64();
    let (((workload, design), cores), count) = name.zip(count).context("a record of bench sim")?;
    Ok((format!("sim {workload} {design} {cores}"), count))
}

/// The paths of `crates/seawall/benches/paths.rs`.
fn library(root: &Path) -> Result<Counts> {
    let mut build = cargo(root, &["bench", "--no-run", "--locked", "-p", "seawall"]);
    build.args(["--bench", "paths", "--message-format", "json"]);
    let program = executable(&text(&mut build)?)?;
    let names = text(&mut Command::new(&program))?;
    names.lines().map(|name| Ok((format!("lib {name}"), per_run(&program, name)?))).collect()
}

/// The executable that cargo's messages name last.
fn executable(messages: &str) -> Result<PathBuf> {
    let of = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    };
    messages.lines().rev().find_map(of).context("cargo names no executable")
}

/// Instructions of one run of a path.
fn per_run(program: &Path, name: &str) -> Result<f64> {
    let few = collected(program, name, TIMES)?;
    let many = collected(program, name, 3 * TIMES)?;
    Ok((many - few) as f64 / (2 * TIMES) as f64)
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

fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(words);
    command
}

/// What a command prints.
fn text(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{command:?} failed");
    }
    Ok(String::from_utf8(output.stdout)?)
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
