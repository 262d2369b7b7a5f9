//! Two commits, timed in turns on this computer: which rows moved beyond noise.
//!
//! Each round runs the old build, the new one, and the old one again. What the two old runs differ
//! by is noise: a row has moved if the median of new over old lies outside everything that old over
//! old was. The rows are those of `seawall bench sim`, and the paths of the library.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Rounds, each of three runs of everything.
const ROUNDS: usize = 7;

/// How often a path of the library runs.
const TIMES: u64 = 100_000;

const DESIGNS: &str = "clwb,lbpp,bsp-lbpp,hops,asap";

/// What a round took for each row, in any unit.
type Costs = BTreeMap<String, f64>;

/// Compares commits; the new one is the state of the working tree if none is named.
pub(crate) fn run(old: &str, new: Option<&str>) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let old = Build::of_commit(&root, "old", old)?;
    let new = match new {
        Some(commit) => Build::of_commit(&root, "new", commit)?,
        None => Build::of_tree(&root, root.clone(), root.join("target"))?,
    };
    let mut pairs: BTreeMap<String, Pairs> = BTreeMap::new();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let (first, changed, again) = (old.costs()?, new.costs()?, old.costs()?);
        for (name, cost) in first {
            let (Some(changed), Some(again)) = (changed.get(&name), again.get(&name)) else {
                continue;
            };
            let row = pairs.entry(name).or_default();
            row.noise.push(again / cost);
            // Between the two old runs, so that a drift of the host counts half.
            row.change.push(changed / (cost * again).sqrt());
        }
    }
    if pairs.is_empty() {
        bail!("the two builds have no row in common");
    }
    println!("time of new over old; noise: old over old");
    for (name, row) in &mut pairs {
        println!("{}", row.line(name));
    }
    Ok(())
}

/// The ratios of a row.
#[derive(Default)]
struct Pairs {
    change: Vec<f64>,
    noise: Vec<f64>,
}

impl Pairs {
    /// Sorts the ratios; the median change, and the least and the largest noise.
    fn summary(&mut self) -> (f64, [f64; 2]) {
        self.change.sort_by(f64::total_cmp);
        self.noise.sort_by(f64::total_cmp);
        let last = self.noise.len() - 1;
        (self.change[self.change.len() / 2], [self.noise[0], self.noise[last]])
    }

    fn line(&mut self, name: &str) -> String {
        let (median, [least, most]) = self.summary();
        let verdict = match median {
            slower if slower > most.max(1.0) => "  SLOWER",
            faster if faster < least.min(1.0) => "  faster",
            _ => "",
        };
        format!("{name:<28} {median:>6.3}  noise {least:.3}..{most:.3}{verdict}")
    }
}

/// What is timed, built.
struct Build {
    seawall: PathBuf,
    paths: Option<PathBuf>,
}

impl Build {
    /// A commit, checked out in a folder of its own under `target`.
    fn of_commit(root: &Path, side: &str, commit: &str) -> Result<Build> {
        let tree = root.join("target/regress").join(side);
        let git = |words: &[&str], at: &Path| {
            let status = Command::new("git").args(words).current_dir(at).status()?;
            if status.success() { Ok(()) } else { bail!("git {} failed", words.join(" ")) }
        };
        if !tree.exists() {
            let place = tree.to_str().context("a folder that git can name")?;
            git(&["worktree", "add", "--quiet", "--detach", "--force", place], root)?;
        }
        git(&["checkout", "--quiet", "--detach", commit], &tree)
            .with_context(|| format!("no commit {commit}"))?;
        Build::of_tree(root, tree.clone(), tree.join("target"))
    }

    fn of_tree(root: &Path, tree: PathBuf, target: PathBuf) -> Result<Build> {
        eprintln!("building {}", tree.strip_prefix(root).unwrap_or(&tree).display());
        let cargo = |words: &[&str]| {
            let mut command = Command::new("cargo");
            command.args(words).current_dir(&tree).env("CARGO_TARGET_DIR", &target);
            command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()
        };
        if !cargo(&["build", "--release", "--locked", "-p", "seawall-cli"])?.status.success() {
            bail!("it cannot be built");
        }
        let words = ["bench", "--no-run", "--locked", "-p", "seawall", "--bench", "paths"];
        let messages = cargo(&[&words[..], &["--message-format", "json"]].concat())?.stdout;
        let paths = String::from_utf8_lossy(&messages).lines().rev().find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            Some(PathBuf::from(message["executable"].as_str()?))
        });
        Ok(Build { seawall: target.join("release/seawall"), paths })
    }

    /// Runs everything once.
    fn costs(&self) -> Result<Costs> {
        let mut costs = self.simulator()?;
        if let Some(program) = &self.paths {
            let names = Command::new(program).output()?.stdout;
            for name in String::from_utf8(names)?.lines() {
                let begun = Instant::now();
                let status = Command::new(program).args([name, &TIMES.to_string()]).status()?;
                if status.success() {
                    costs.insert(format!("lib {name}"), begun.elapsed().as_secs_f64());
                }
            }
        }
        Ok(costs)
    }

    fn simulator(&self) -> Result<Costs> {
        let json = std::env::temp_dir().join(format!("seawall-regress-{}", std::process::id()));
        let mut command = Command::new(&self.seawall);
        command.args(["bench", "sim", "--runs", "1", "-w", "hash", "-d", DESIGNS, "--json"]);
        let output = command.arg(&json).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let records = fs::read_to_string(&json)?;
        fs::remove_file(&json)?;
        records.lines().map(point).collect()
    }
}

/// A record of `bench sim`: its row, and the time of a reference.
fn point(line: &str) -> Result<(String, f64)> {
    let record: Value = serde_json::from_str(line)?;
    let word = |key: &str| record[key].as_str();
    let name = word("workload").zip(word("design")).zip(record["cores"].as_u64());
    let speed = record["references_per_second"].as_f64();
    let (((workload, design), cores), speed) = name.zip(speed).context("a record of bench sim")?;
    Ok((format!("sim {workload} {design} {cores}"), 1e9 / speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_moved_if_it_is_outside_the_noise() {
        let line = |change: &[f64]| {
            Pairs { change: change.to_vec(), noise: vec![0.97, 1.0, 1.04] }.line("row")
        };
        assert!(line(&[1.06, 1.05, 1.02]).ends_with("SLOWER"));
        assert!(line(&[0.95, 0.96, 1.02]).ends_with("faster"));
        assert!(line(&[1.03, 0.99, 1.02]).ends_with("1.040"));
    }
}
