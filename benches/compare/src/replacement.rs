//! The same programs of libpmemobj on Debian's library and on ours, in turns: `--replacement`.
//!
//! The programs are compiled against Debian's headers, once. A run is a process, which the loader
//! gives one library or the other; a ratio is taken between two runs of a round.

use crate::report::{aligned, hundredths};
use crate::rounds::Spread;
use anyhow::{Context, Result, bail, ensure};
use seawall_clib::{LibraryCode, LibraryEntry, PROFILE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, its name, and what of `--ops` or `--keys` it does.
struct Program {
    path: &'static str,
    name: &'static str,
    count: u64,
}

/// Times of one line that a program prints: with Debian's library and with ours, round by round.
type Times = (Vec<f64>, Vec<f64>);

/// What was measured, by program and line.
pub(crate) struct Replaced {
    order: Vec<String>,
    times: BTreeMap<String, Times>,
}

/// Measures `rounds` rounds with pools in `folder`.
pub(crate) fn run(folder: &Path, ops: u64, keys: u64, rounds: usize) -> Result<Replaced> {
    let library = build(folder)?;
    let programs = [
        Program { path: env!("CALLS_PROGRAM"), name: "calls", count: ops },
        Program { path: env!("MAPS_PROGRAM"), name: "maps", count: keys },
    ];
    let mut replaced = Replaced { order: Vec::new(), times: BTreeMap::new() };
    for program in &programs {
        eprintln!("measuring {}", program.name);
        for round in 0..=rounds {
            // The first round does not count; the order changes from one to the next.
            let mut theirs = None;
            if round % 2 == 0 {
                theirs = Some(once(program, folder, None)?);
            }
            let ours = once(program, folder, Some(&library))?;
            let theirs = theirs.map_or_else(|| once(program, folder, None), Ok)?;
            if round > 0 {
                replaced.add(theirs, ours)?;
            }
        }
    }
    Ok(replaced)
}

impl Replaced {
    fn add(&mut self, theirs: Vec<(String, f64)>, ours: Vec<(String, f64)>) -> Result<()> {
        ensure!(theirs.len() == ours.len(), "the program prints other lines with our library");
        for ((name, theirs), (same, ours)) in theirs.into_iter().zip(ours) {
            ensure!(name == same, "the program prints {same}, not {name}, with our library");
            if !self.times.contains_key(&name) {
                self.order.push(name.clone());
            }
            let times = self.times.entry(name).or_default();
            times.0.push(theirs);
            times.1.push(ours);
        }
        Ok(())
    }

    /// Each line with the ratios of its rounds.
    fn lines(&self) -> impl Iterator<Item = (&str, &Times, Spread)> {
        self.order.iter().map(|name| {
            let times = &self.times[name];
            let ratios: Vec<f64> = times.0.iter().zip(&times.1).map(|(a, b)| a / b).collect();
            (name.as_str(), times, Spread::of(&ratios))
        })
    }

    pub(crate) fn table(&self) -> String {
        let titles = ["call or operation", "Debian's ns", "ours ns", "ratio", "min - max"];
        let mut rows = vec![titles.map(String::from).to_vec()];
        let (mut sum, mut count) = (0.0, 0.0);
        for (name, (theirs, ours), ratio) in self.lines() {
            rows.push(vec![
                name.to_string(),
                format!("{:.1}", Spread::of(theirs).median),
                format!("{:.1}", Spread::of(ours).median),
                hundredths(ratio.median),
                format!("{} - {}", hundredths(ratio.min), hundredths(ratio.max)),
            ]);
            sum += ratio.median.ln();
            count += 1.0;
        }
        let mean = hundredths((sum / f64::max(count, 1.0)).exp());
        format!("{}\ngeometric mean of the ratios: {mean}\n", aligned(&rows, 1))
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let record = |(name, (theirs, ours), ratio): (&str, &Times, Spread)| {
            json!({
                "record": "replaced",
                "name": name,
                "rounds": theirs.len(),
                "debian_ns_median": Spread::of(theirs).median,
                "ours_ns_median": Spread::of(ours).median,
                "ratio_median": ratio.median,
                "ratio_min": ratio.min,
                "ratio_max": ratio.max,
            })
        };
        self.lines().map(record).collect()
    }
}

/// Builds our library; gives the folder that it is in.
fn build(folder: &Path) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entry = LibraryEntry::named("pmemobj").context("the table of libraries has it")?;
    eprintln!("building {}", entry.package);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", PROFILE, "--quiet", "--package", entry.package]);
    let done = command.current_dir(&root).status().context("cannot run cargo")?;
    ensure!(done.success(), "cargo cannot build {}", entry.package);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let library = folder.join("library");
    let archive = target.join(PROFILE).join(entry.archive());
    entry.link(&root, LibraryCode::Archive(&archive), &library)?;
    Ok(library)
}

/// Runs a program once; gives the lines that it prints.
fn once(program: &Program, folder: &Path, library: Option<&Path>) -> Result<Vec<(String, f64)>> {
    let pool = folder.join("pool");
    let mut command = Command::new(program.path);
    command.arg(&pool).arg(program.count.to_string());
    match library {
        Some(library) => command.env("LD_LIBRARY_PATH", library),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    let output = command.output().with_context(|| format!("cannot run {}", program.name))?;
    fs::remove_file(&pool)?;
    if !output.status.success() {
        let says = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed with {}: {says}", program.name, output.status);
    }
    let text = String::from_utf8(output.stdout).context("it prints text")?;
    let line = |line: &str| {
        let (name, time) = line.split_once(' ').context("a name and a time")?;
        Ok((name.to_string(), time.parse()?))
    };
    text.lines().map(line).collect()
}
