//! The papers' programs themselves beside the kernels and workloads that stand for them.
//!
//! What the paper ran, compiled with `seawall cc`, runs on the simulated machine. The sources are
//! not part of seawall: files of `validation/programs` say what was run, and what came out on the
//! day that they name. `--programs` runs them again where a user has them.

use crate::LabError;
use crate::cell::CellRibbon;
use crate::commands::kernels::KernelOptions;
use crate::commands::kernels::point::Extent;
use crate::commands::program::{FromChoice, PmChoice, ProgramExperiment, ProgramOptions, run_key};
use crate::engine::jobs::Runner;
use crate::figures::FigureOptions;
use seawall_report::Experiment;
use seawall_sim::Choice;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The files that come with seawall: name and text.
const FILES: &[(&str, &str)] = &[
    ("asap22", include_str!("../../validation/programs/asap22.toml")),
    ("hops17", include_str!("../../validation/programs/hops17.toml")),
    ("micro15", include_str!("../../validation/programs/micro15.toml")),
    ("pact20-4", include_str!("../../validation/programs/pact20-4.toml")),
    ("pact20-24", include_str!("../../validation/programs/pact20-24.toml")),
    ("tsoper21", include_str!("../../validation/programs/tsoper21.toml")),
];
/// Stands for the folder of the programs in a command.
const FOLDER: &str = "{dir}";

/// What programs took.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredPrograms {
    /// The day, as in "2026-11-27".
    measured: String,
    compiler: String,
    machine: String,
    baseline: String,
    /// What of the programs was measured: whole ones, or their parallel part.
    extent: Extent,
    #[serde(rename = "program")]
    programs: Vec<MeasuredProgram>,
}

/// A program, and what it took.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredProgram {
    /// That of the kernel or workload that stands for it, if there is one.
    name: String,
    /// Which of several ways to build it.
    variant: Option<String>,
    /// Where the sources are from.
    source: String,
    /// What was done to them, or to the input.
    changed: Option<String>,
    /// With `{dir}` for the folder that the programs are in.
    command: String,
    /// What it reads from standard input, in that folder.
    input: Option<String>,
    /// What of its memory is persistent.
    #[serde(default)]
    pm: Persistence,
    /// It empties the caches itself before what is measured.
    #[serde(default)]
    cold: bool,
    /// It is compared with the paper, and not only shown.
    #[serde(default = "yes")]
    held: bool,
    /// By design and, where the threads have a Ribbon, the options of `compare` that give it.
    runs: BTreeMap<String, ProgramRun>,
    /// They are of today.
    #[serde(skip)]
    again: bool,
    /// What shows then that code of it was not compiled with `seawall cc`.
    #[serde(skip)]
    doubts: Vec<String>,
}

/// What of a program's memory is persistent, as `--pm` has it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Persistence {
    Files,
    Heap,
    #[default]
    All,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramRun {
    cycles: u64,
    /// Accesses that hit another thread's epoch, and a thread's own older one.
    conflicts: Option<[u64; 2]>,
}

/// What a program, or the mean of all, took beside a kernel, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramValue {
    /// "program", with the way that it is built.
    pub name: String,
    pub value: f64,
    /// Compared with the paper's.
    pub held: bool,
    /// Run now, not read from a file.
    pub again: bool,
    /// What shows then that code of it was not compiled with `seawall cc`, so that its flushes and
    /// fences were not seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// What is said below a figure of programs that were run again.
pub(super) fn doubts_text<'a>(
    programs: impl Iterator<Item = (&'a str, &'a ProgramValue)>,
) -> String {
    let mut said = BTreeSet::new();
    for (name, program) in programs {
        said.extend(program.doubts.iter().map(|doubt| format!("  WARNING: {name}: {doubt}\n")));
    }
    said.into_iter().collect()
}

/// Designs, and the Ribbons beside them.
pub(super) type ProgramRuns<'a> = Vec<(&'a str, Option<&'a CellRibbon>)>;

/// The programs that a figure has beside its own.
pub(super) struct Wanted<'a> {
    pub(super) figure: &'a str,
    pub(super) file: &'a str,
    /// What the program of a name runs under.
    pub(super) runs: Box<dyn Fn(&str) -> ProgramRuns<'a> + 'a>,
}

impl<'a> Wanted<'a> {
    /// Programs that all run under these designs.
    pub(super) fn under(figure: &'a str, file: &'a str, designs: Vec<&'a str>) -> Wanted<'a> {
        let runs = move |_: &str| designs.iter().map(|design| (*design, None)).collect();
        Wanted { figure, file, runs: Box::new(runs) }
    }
}

/// An error if `folder` has none of the programs of these files.
pub(super) fn find<'a>(
    files: impl Iterator<Item = &'a str>,
    folder: &Path,
) -> Result<(), LabError> {
    let files = files.filter_map(|file| load(file).ok());
    let files: Vec<PathBuf> =
        files.flat_map(|file| file.programs).map(|program| program.file(folder)).collect();
    if files.iter().any(|file| file.is_file()) {
        return Ok(());
    }
    let first = files.first().map(|first| format!("there is no {}", first.display()));
    Err(LabError::NoPrograms {
        folder: folder.display().to_string(),
        what: first.unwrap_or_else(|| "none of them has programs".into()),
    })
}

/// The programs of each file that is wanted, run again where `options` say where they are; and
/// whether all of those were run to their end.
pub(super) fn of(
    wanted: &[Wanted<'_>],
    options: &FigureOptions,
    runner: &Runner<'_>,
) -> Result<(BTreeMap<String, MeasuredPrograms>, bool), LabError> {
    let (mut all, mut is_whole) = (BTreeMap::new(), true);
    for Wanted { figure, file, .. } in wanted {
        if all.contains_key(*file) {
            continue;
        }
        let wrong = |what| LabError::Figure { name: (*figure).to_owned(), what };
        let mut programs = load(file).map_err(wrong)?;
        if let Some(folder) = &options.programs {
            let of_file: Vec<&Wanted<'_>> =
                wanted.iter().filter(|other| other.file == *file).collect();
            is_whole &= programs.run(folder, &of_file, options, runner)?;
        }
        all.insert((*file).to_owned(), programs);
    }
    Ok((all, is_whole))
}

/// The programs of that file.
pub(super) fn load(name: &str) -> Result<MeasuredPrograms, String> {
    let text = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| text);
    let text = text.ok_or_else(|| format!("there are no programs '{name}'"))?;
    toml::from_str(text).map_err(|error| format!("programs {name}: {error}"))
}

impl MeasuredPrograms {
    /// Runs those programs again that are in `folder`, under what they were run under before;
    /// returns whether all were.
    fn run(
        &mut self,
        folder: &Path,
        wanted: &[&Wanted<'_>],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<bool, LabError> {
        let MeasuredPrograms { machine, baseline, extent, .. } = self.clone();
        for program in &mut self.programs {
            if !program.file(folder).is_file() {
                continue;
            }
            let Repeated { designs, beside } = program.repeated(wanted);
            let baseline = Some(baseline.clone()).filter(|it| designs.contains(it));
            let of_program = KernelOptions {
                baseline: baseline.or(designs.first().cloned()).unwrap_or_default(),
                designs,
                machine: machine.clone(),
                crashes: 0,
                seed: options.seed,
                jobs: options.jobs,
                cold: program.cold,
                program: program.options(folder, extent),
                ..KernelOptions::default()
            };
            let Some(experiment) = of_program.of_program() else { continue };
            let plan = experiment.with_ribbons(beside).plan()?;
            let ran = ProgramExperiment::run(plan, runner.progress, runner.stop)?;
            if ran.is_partial() {
                return Ok(false);
            }
            program.runs = ran
                .runs()
                .map(|(run, cycles, conflicts)| {
                    (run, ProgramRun { cycles, conflicts: Some(conflicts) })
                })
                .collect();
            (program.again, program.doubts) = (true, ran.doubts());
        }
        Ok(true)
    }

    /// The programs that are compared, by name.
    pub(super) fn held(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().filter(|program| program.held).map(|program| &*program.name)
    }

    /// What the programs of that name took under a design, over the baseline.
    pub(super) fn values(&self, name: &str, design: &str) -> Vec<ProgramValue> {
        self.values_over(name, design, &self.baseline)
    }

    /// What they took in that run, over another one.
    pub(super) fn values_over(&self, name: &str, run: &str, baseline: &str) -> Vec<ProgramValue> {
        let of_name = self.programs.iter().filter(|program| program.name == name);
        let values = of_name.filter_map(|program| {
            let cycles = |run: &str| Some(program.runs.get(run)?.cycles as f64);
            Some(ProgramValue {
                name: program.label(),
                value: cycles(run)? / cycles(baseline)?,
                held: program.held,
                again: program.again,
                doubts: program.doubts.clone(),
            })
        });
        values.collect()
    }

    /// Conflicts between threads in per cent of all, in the programs that are compared.
    pub(super) fn inter_percent(&self, design: &str) -> Option<f64> {
        let held = self.programs.iter().filter(|program| program.held);
        let conflicts = held.map(|program| program.runs.get(design)?.conflicts);
        let conflicts: Option<Vec<[u64; 2]>> = conflicts.collect();
        let sum = |at: usize| -> Option<u64> {
            Some(conflicts.as_ref()?.iter().map(|both| both[at]).sum())
        };
        let (inter, intra) = (sum(0)?, sum(1)?);
        (inter + intra > 0).then(|| 100.0 * inter as f64 / (inter + intra) as f64)
    }

    /// These without what a program took under a design.
    #[cfg(test)]
    pub(super) fn without(mut self, name: &str, design: &str) -> MeasuredPrograms {
        for program in self.programs.iter_mut().filter(|program| program.name == name) {
            program.runs.remove(design).expect("it has run");
        }
        self
    }

    /// True if any was run again.
    pub(super) fn are_again(&self) -> bool {
        self.programs.iter().any(|program| program.again)
    }

    /// When the values were measured of which some, or none, are of programs that were run again.
    pub(super) fn when(&self, again: bool) -> String {
        match again {
            true => "run again where they were found".to_owned(),
            false => format!("with {} on {}, not run again", self.compiler, self.measured),
        }
    }

    /// What was run, and how to run it again.
    pub(super) fn to_markdown(&self) -> String {
        let mut text = format!(
            "Measured on {} with {}; not run again when the figure is. `--programs FOLDER` runs \
             those again that are there under these names.\n\n\
             | program | sources | command, in the folder | what was changed |\n\
             |---|---|---|---|\n",
            self.measured, self.compiler
        );
        for program in &self.programs {
            let input = program.input.as_ref().map(|input| format!(" < {input}"));
            let variant = program.variant.as_ref().map(|variant| format!(", {variant}"));
            let _ = writeln!(
                text,
                "| {}{} | {} | `{}{}` | {} |",
                program.name,
                variant.unwrap_or_default(),
                program.source,
                program.command.replace(&format!("{FOLDER}/"), ""),
                input.unwrap_or_default(),
                program.changed.as_deref().unwrap_or("nothing"),
            );
        }
        text
    }

    /// What is wrong with the file for a figure on that machine, over that baseline.
    pub(super) fn check(
        &self,
        (machine, baseline, extent): (&str, &str, Extent),
        names: &[&str],
    ) -> Result<(), String> {
        let of = |name: &str| name.split(':').next().map(str::to_owned);
        let is_like = of(&self.machine) == of(machine) && self.baseline == baseline;
        if !is_like || self.extent != extent {
            let what = "its programs ran on another machine, over another baseline, or in part";
            return Err(what.into());
        }
        for program in &self.programs {
            if !names.contains(&&*program.name) {
                return Err(format!(
                    "'{}' of its programs is none of those that it has",
                    program.name
                ));
            }
            for run in program.runs.keys() {
                let design = run.split(' ').next().unwrap_or_default();
                Choice::parse(design).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

/// What a program is run under again: designs, and designs with Ribbons.
#[derive(Default)]
struct Repeated {
    designs: Vec<String>,
    beside: Vec<(String, CellRibbon)>,
}

impl MeasuredProgram {
    fn repeated(&self, wanted: &[&Wanted<'_>]) -> Repeated {
        let (mut repeated, mut known) = (Repeated::default(), BTreeSet::new());
        for (design, ribbon) in wanted.iter().flat_map(|wanted| (wanted.runs)(&self.name)) {
            let key = run_key(design, ribbon);
            if !self.runs.contains_key(&key) || !known.insert(key) {
                continue;
            }
            match ribbon {
                None => repeated.designs.push(design.to_owned()),
                Some(ribbon) => repeated.beside.push((design.to_owned(), ribbon.clone())),
            }
        }
        repeated
    }

    fn label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("program, {variant}"),
            None => "program".into(),
        }
    }

    fn options(&self, folder: &Path, extent: Extent) -> ProgramOptions {
        ProgramOptions {
            commands: vec![self.in_folder(folder)],
            input: self.input.as_ref().map(|input| folder.join(input)),
            pm: Some(match self.pm {
                Persistence::Files => PmChoice::Files,
                Persistence::Heap => PmChoice::Heap,
                Persistence::All => PmChoice::All,
            }),
            from: Some(match extent {
                Extent::Whole => FromChoice::Start,
                Extent::Parallel | Extent::Bare => FromChoice::Threads,
            }),
            ..ProgramOptions::default()
        }
    }

    fn in_folder(&self, folder: &Path) -> String {
        let quoted = shlex::try_quote(&folder.display().to_string()).map(String::from);
        self.command.replace(FOLDER, &quoted.unwrap_or_default())
    }

    /// The file of the program.
    fn file(&self, folder: &Path) -> PathBuf {
        let word = self.command.split(' ').next().unwrap_or_default();
        folder.join(word.trim_start_matches(FOLDER).trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Figure, KernelFigure};

    fn figure(name: &str) -> KernelFigure {
        match Figure::load(name).unwrap() {
            Figure::Kernels(figure) => figure,
            _ => panic!("{name} is of another kind"),
        }
    }

    #[test]
    fn every_program_that_is_compared_has_run_under_every_series_but_the_slowest() {
        for name in ["micro15-fig13", "micro15-fig14", "tsoper21-fig11"] {
            let figure = figure(name);
            let programs = load(figure.programs.as_ref().unwrap()).unwrap();
            for series in figure.series.iter().filter(|series| series.name != "naive") {
                for program in &programs.programs {
                    let of_kernel = programs.values(&program.name, &series.design);
                    let value = of_kernel.iter().find(|value| value.name == program.label());
                    let value = value.unwrap_or_else(|| panic!("{}", program.name));
                    // As threads that wait sleep, barnes has 11.6 with epochs of 300 stores.
                    assert!((0.5..12.0).contains(&value.value), "{name}: {value:?}");
                    assert_eq!(value.held, program.held);
                }
            }
        }
    }

    #[test]
    fn one_way_to_build_a_program_is_compared_and_the_others_are_shown() {
        let figure = figure("micro15-fig14");
        let programs = load("micro15").unwrap();
        let values = programs.values("intruder", &figure.series[0].design);
        let names: Vec<_> = values.iter().map(|value| (&*value.name, value.held)).collect();
        assert_eq!(names, [("program, TL2", true), ("program, one lock", false)]);
        let inter = programs.inter_percent(&figure.series[0].design).unwrap();
        assert!((50.0..100.0).contains(&inter), "{inter}");
        let markdown = programs.to_markdown();
        assert!(markdown.contains("| intruder, TL2 | STAMP 9222e27"), "{markdown}");
        assert!(markdown.contains("`splash/BARNES < splash/n16384-p32`"), "{markdown}");
    }

    #[test]
    fn a_folder_with_blanks_in_its_name_is_one_word_of_the_command() {
        let programs = load("micro15").unwrap();
        let dedup = programs.programs.iter().find(|it| it.name == "dedup").unwrap();
        let command = dedup.in_folder(Path::new("/my programs"));
        let words = shlex::split(&command).unwrap();
        assert_eq!(words[0], "/my programs/dedup/dedup");
        assert!(words.contains(&"/my programs/dedup/media.dat".to_owned()), "{words:?}");
        assert_eq!(dedup.file(Path::new("/p")), Path::new("/p/dedup/dedup"));
    }
}
