//! The same programs of libpmemobj on Debian's library and on ours, in turns: `--replacement`.
//!
//! The programs are compiled against Debian's headers, once. A run is a process, which the loader
//! gives one library or the other; a ratio is taken between two runs of a round.

use crate::child;
use crate::report::{aligned, hundredths};
use anyhow::{Context, Result, bail, ensure};
use seawall_bench_common::Spread;
use seawall_clib::{LibraryCode, LibraryEntry, PROFILE};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most threads of a program; `CREW_THREADS_MAX`.
pub(crate) const THREADS_MAX: u64 = 16;

/// A program, its name, and what of `--ops` or `--keys` it does.
struct Program {
    path: &'static str,
    name: &'static str,
    count: u64,
}

/// One line of a program on a number of threads, with its times round by round.
struct Line {
    name: String,
    threads: u64,
    theirs: Vec<f64>,
    ours: Vec<f64>,
}

/// What was measured.
pub(crate) struct Replaced {
    threads: Vec<u64>,
    lines: Vec<Line>,
}

/// Measures `rounds` rounds on each number of threads, with pools in `folder`.
pub(crate) fn run(
    folder: &Path,
    threads: &[u64],
    ops: u64,
    keys: u64,
    rounds: usize,
) -> Result<Replaced> {
    let library = build(folder)?;
    let programs = [
        Program { path: env!("CALLS_PROGRAM"), name: "calls", count: ops },
        Program { path: env!("MAPS_PROGRAM"), name: "maps", count: keys },
    ];
    let mut replaced = Replaced { threads: threads.to_vec(), lines: Vec::new() };
    for program in &programs {
        eprintln!("measuring {}", program.name);
        for round in 0..=rounds {
            for &threads in threads {
                // The first round does not count; the order changes from one to the next.
                let mut theirs = None;
                if round % 2 == 0 {
                    theirs = Some(once(program, threads, folder, None)?);
                }
                let ours = once(program, threads, folder, Some(&library))?;
                let theirs = theirs.map_or_else(|| once(program, threads, folder, None), Ok)?;
                if round > 0 {
                    replaced.add(threads, theirs, ours)?;
                }
            }
        }
    }
    Ok(replaced)
}

impl Line {
    fn ratio(&self) -> Spread {
        Spread::of_ratios(&self.theirs, &self.ours)
    }
}

impl Replaced {
    fn add(
        &mut self,
        threads: u64,
        theirs: Vec<(String, f64)>,
        ours: Vec<(String, f64)>,
    ) -> Result<()> {
        ensure!(theirs.len() == ours.len(), "the program prints other lines with our library");
        for ((name, theirs), (same, ours)) in theirs.into_iter().zip(ours) {
            ensure!(name == same, "the program prints {same}, not {name}, with our library");
            let is_it = |line: &Line| line.threads == threads && line.name == name;
            let place = self.lines.iter().position(is_it).unwrap_or_else(|| {
                self.lines.push(Line { name, threads, theirs: Vec::new(), ours: Vec::new() });
                self.lines.len() - 1
            });
            self.lines[place].theirs.push(theirs);
            self.lines[place].ours.push(ours);
        }
        Ok(())
    }

    fn on(&self, threads: u64) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.threads == threads)
    }

    /// The geometric mean of the ratios on a number of threads.
    fn mean(&self, threads: u64) -> String {
        let logarithms: Vec<f64> = self.on(threads).map(|line| line.ratio().median.ln()).collect();
        let count = f64::max(logarithms.len() as f64, 1.0);
        hundredths((logarithms.iter().sum::<f64>() / count).exp())
    }

    /// A table for each number of threads; then the ratios of all side by side.
    pub(crate) fn tables(&self) -> String {
        let mut text: Vec<String> = self.threads.iter().map(|&one| self.table(one)).collect();
        if text.len() > 1 {
            text.push(self.side_by_side());
        }
        text.join("\n")
    }

    fn table(&self, threads: u64) -> String {
        let titles = ["call or operation", "Debian's ns", "ours ns", "ratio", "min - max"];
        let mut rows = vec![titles.map(String::from).to_vec()];
        for line in self.on(threads) {
            let ratio = line.ratio();
            rows.push(vec![
                line.name.clone(),
                format!("{:.1}", Spread::of(&line.theirs).median),
                format!("{:.1}", Spread::of(&line.ours).median),
                hundredths(ratio.median),
                format!("{} - {}", hundredths(ratio.min), hundredths(ratio.max)),
            ]);
        }
        let (rows, mean) = (aligned(&rows, 1), self.mean(threads));
        format!("{}:\n{rows}geometric mean of the ratios: {mean}\n", counted(threads))
    }

    fn side_by_side(&self) -> String {
        let columns = |first: &str, cell: &dyn Fn(u64) -> String| {
            let cells = self.threads.iter().map(|&threads| cell(threads));
            [first.to_string()].into_iter().chain(cells).collect::<Vec<_>>()
        };
        let mut rows = vec![columns("ratio", &counted)];
        for line in self.on(self.threads[0]) {
            rows.push(columns(&line.name, &|threads| {
                let same = self.on(threads).find(|other| other.name == line.name);
                same.map(|same| hundredths(same.ratio().median)).unwrap_or_default()
            }));
        }
        rows.push(columns("geometric mean", &|threads| self.mean(threads)));
        aligned(&rows, 1)
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let record = |line: &Line| {
            let ratio = line.ratio();
            json!({
                "record": "replaced",
                "name": line.name,
                "threads": line.threads,
                "rounds": line.theirs.len(),
                "debian_ns_median": Spread::of(&line.theirs).median,
                "ours_ns_median": Spread::of(&line.ours).median,
                "ratio_median": ratio.median,
                "ratio_min": ratio.min,
                "ratio_max": ratio.max,
            })
        };
        self.lines.iter().map(record).collect()
    }
}

fn counted(threads: u64) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
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
fn once(
    program: &Program,
    threads: u64,
    folder: &Path,
    library: Option<&Path>,
) -> Result<Vec<(String, f64)>> {
    let pool = folder.join("pool");
    let mut command = Command::new(program.path);
    command.arg(&pool).arg(program.count.to_string()).arg(threads.to_string());
    command.envs(child::ENVIRONMENT);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_threads_has_a_table_and_its_ratios_are_side_by_side() {
        let mut replaced = Replaced { threads: vec![1, 16], lines: Vec::new() };
        let line = |ns| vec![("root".to_string(), ns)];
        replaced.add(1, line(8.0), line(4.0)).unwrap();
        replaced.add(16, line(9.0), line(6.0)).unwrap();
        let text = replaced.tables();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in [vec!["1", "thread:"], vec!["16", "threads:"], vec!["root", "2.00", "1.50"]] {
            assert!(lines.contains(&line), "{line:?} in {text}");
        }
        assert!(replaced.add(1, line(1.0), Vec::new()).is_err());
    }

    #[test]
    fn the_programs_run_on_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        for (path, lines) in [(env!("CALLS_PROGRAM"), 20), (env!("MAPS_PROGRAM"), 15)] {
            let program = Program { path, name: "it", count: 400 };
            for threads in [1, 2, THREADS_MAX] {
                let times = once(&program, threads, folder.path(), None).unwrap();
                assert_eq!(times.len(), lines);
                assert!(times.iter().all(|(_, time)| *time > 0.0), "{times:?}");
            }
            let error = once(&program, THREADS_MAX + 1, folder.path(), None).unwrap_err();
            assert!(error.to_string().contains("--threads"), "{error}");
        }
    }
}
