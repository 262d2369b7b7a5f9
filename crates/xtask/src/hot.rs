//! The hot paths of the simulator and the library, which `counts` counts and `regress` times.

use crate::workspace::cargo;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The designs of the simulator's points; `bench sim` adds the program of gem5.
const DESIGNS: &str = "clwb,lbpp,bsp-lbpp,hops,asap";

/// The rows of `bench sim`, which is run by `seawall` with these words too, and the number that
/// each record has under `key`.
pub(crate) fn simulator(
    mut seawall: Command,
    words: &[&str],
    key: &str,
) -> Result<Vec<(String, f64)>> {
    let json = std::env::temp_dir().join(format!("seawall-hot-{}", std::process::id()));
    seawall.args(["bench", "sim", "--runs", "1", "-w", "hash", "-d", DESIGNS]).args(words);
    printed(seawall.arg("--json").arg(&json))?;
    let records = fs::read_to_string(&json)?;
    fs::remove_file(&json)?;
    records.lines().map(|line| row(line, key)).collect()
}

fn row(line: &str, key: &str) -> Result<(String, f64)> {
    let record: Value = serde_json::from_str(line)?;
    let word = |key: &str| record[key].as_str();
    let name = word("workload").zip(word("design")).zip(record["cores"].as_u64());
    let (((workload, design), cores), number) =
        name.zip(record[key].as_f64()).context("a record of bench sim")?;
    Ok((format!("sim {workload} {design} {cores}"), number))
}

/// The paths of `crates/seawall/benches/paths.rs`, built from the sources in `tree`.
pub(crate) struct Library {
    pub(crate) program: PathBuf,
    pub(crate) names: Vec<String>,
}

impl Library {
    pub(crate) fn build(tree: &Path, target: &Path) -> Result<Library> {
        let mut build = cargo(tree);
        build.args(["bench", "--no-run", "--locked", "-p", "seawall", "--bench", "paths"]);
        build.args(["--message-format", "json"]).env("CARGO_TARGET_DIR", target);
        let program = executable(&printed(&mut build)?)?;
        let names = printed(&mut Command::new(&program))?;
        Ok(Library { program, names: names.lines().map(str::to_owned).collect() })
    }
}

/// The executable that cargo's messages name last.
fn executable(messages: &str) -> Result<PathBuf> {
    let of = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    };
    messages.lines().rev().find_map(of).context("cargo names no executable")
}

/// What a command prints; what it says of errors goes where ours go.
pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed");
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_its_row_and_the_number_that_is_asked_for() {
        let record = r#"{"workload":"hash","design":"lb","cores":4,"speed":2.5,"other":null}"#;
        assert_eq!(row(record, "speed").unwrap(), ("sim hash lb 4".into(), 2.5));
        assert!(row(record, "other").is_err());
    }

    #[test]
    fn the_last_executable_of_cargos_messages_is_taken() {
        let messages = "{\"executable\":\"a\"}\n{\"executable\":\"b\"}\n{\"executable\":null}\nx\n";
        assert_eq!(executable(messages).unwrap(), Path::new("b"));
        assert!(executable("{}").is_err());
    }
}
