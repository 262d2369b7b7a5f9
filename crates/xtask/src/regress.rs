//! Two commits, timed in turns on this computer: which rows moved beyond noise.
//!
//! Each round runs the old build, the new one, and the old one again. What the two old runs differ
//! by is noise: a row has moved if the median of new over old lies outside everything that old over
//! old was. The rows are those of `seawall bench sim`, and the paths of the library.

use crate::hot::{Library, printed, simulator};
use crate::workspace::cargo;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Rounds, each of three runs of everything.
const ROUNDS: usize = 7;

/// How often a path of the library runs.
const TIMES: u64 = 100_000;

/// What a round took for each row, in any unit.
type Costs = BTreeMap<String, f64>;

/// Compares commits; the new one is the state of the working tree if none is named.
pub(crate) fn run(old: &str, new: Option<&str>) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let old = Build::of_commit(&root, "old", old)?;
    let new = match new {
        Some(commit) => Build::of_commit(&root, "new", commit)?,
        None => Build::of_tree(&root, &root.join("target"))?,
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
    library: Option<Library>,
}

impl Build {
    /// A commit, in a clone of its own under `target`.
    fn of_commit(root: &Path, side: &str, commit: &str) -> Result<Build> {
        let tree = root.join("target/regress").join(side);
        let git = |at: &Path| {
            let mut command = Command::new("git");
            command.current_dir(at);
            command
        };
        let meant = format!("{commit}^{{commit}}");
        let hash = printed(git(root).args(["rev-parse", "--verify", "--quiet", &meant]))
            .with_context(|| format!("{commit} is no commit here"))?;
        if !tree.join(".git").exists() {
            let clone = ["clone", "--quiet", "--shared", "--no-checkout", "."];
            printed(git(root).args(clone).arg(&tree))?;
        }
        printed(git(&tree).args(["fetch", "--quiet", "origin", hash.trim()]))?;
        printed(git(&tree).args(["checkout", "--quiet", "--detach", hash.trim()]))?;
        Build::of_tree(&tree, &tree.join("target"))
    }

    fn of_tree(tree: &Path, target: &Path) -> Result<Build> {
        eprintln!("building {}", tree.display());
        let mut build = cargo(tree);
        build.args(["build", "--release", "--locked", "-p", "seawall-cli"]);
        printed(build.env("CARGO_TARGET_DIR", target))?;
        // Older commits have no such program.
        let has_paths = tree.join("crates/seawall/benches/paths.rs").exists();
        let library = has_paths.then(|| Library::build(tree, target)).transpose()?;
        Ok(Build { seawall: target.join("release/seawall"), library })
    }

    /// Runs everything once.
    fn costs(&self) -> Result<Costs> {
        let speeds = simulator(Command::new(&self.seawall), &[], "references_per_second")?;
        let mut costs: Costs =
            speeds.into_iter().map(|(name, speed)| (name, 1e9 / speed)).collect();
        if let Some(Library { program, names }) = &self.library {
            for name in names {
                let begun = Instant::now();
                printed(Command::new(program).args([name, &TIMES.to_string()]))?;
                costs.insert(format!("lib {name}"), begun.elapsed().as_secs_f64());
            }
        }
        Ok(costs)
    }
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
