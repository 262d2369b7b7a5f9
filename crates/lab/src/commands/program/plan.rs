//! From options to runs, one for each design and program: the stage in which everything is found
//! that can be wrong before a program runs.

use super::command::{self, ProgramCommand};
use super::options::{FenceChoice, FromChoice, PmChoice, ProgramOptions};
use crate::LabError;
use crate::cell::{CellRibbon, RIBBON_LABEL, ribbon_flags};
use crate::commands::compare::plan::{CompareOptions, designs};
use crate::commands::kernels::{self, KERNEL_BASELINE, KernelOptions};
use crate::engine::jobs::Piece;
use crate::engine::options::{CRASHES_MAX, SheetOptions, check_jobs, in_range};
use crate::engine::timeline::{TraceOptions, Traced};
use seawall_memory::Addr;
use seawall_program::{Fences, From, Persistent};
use seawall_report::{Files, Form};
use seawall_ribbon::{Ribbon, RibbonError};
use seawall_sim::{Choice, Machine, TimelineWindow};
use std::path::PathBuf;
use std::sync::Arc;

/// Seconds that a run of a program may take by default.
const SECONDS: u64 = 3600;
/// The baseline of programs that were compared by their structures' speed.
const COMPARE_BASELINE: &str = "lb";

/// How crashes of a program are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// By a command.
    By(Vec<String>),
    /// By a function of the program.
    ByEntry(String),
    /// By the recording of the run.
    Cuts,
    /// Not at all.
    Not,
}

/// A program of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its number in the plan.
    pub(super) number: usize,
    /// What tables call it.
    pub(super) name: String,
    pub(super) command: ProgramCommand,
    pub(super) judged: Judged,
    /// True if it is one of several.
    pub(super) has_others: bool,
}

impl Program {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The command, as it was typed.
    pub(crate) fn text(&self) -> &str {
        &self.command.text
    }

    /// The check, as it was given.
    pub(crate) fn check(&self) -> Option<String> {
        match &self.judged {
            Judged::By(words) => Some(words.join(" ")),
            Judged::ByEntry(entry) => Some(format!("{entry}()")),
            Judged::Cuts | Judged::Not => None,
        }
    }
}

/// The words of a check, behind the name of the program that it is for; none: for all others.
type Check<'a> = (Option<&'a str>, Vec<String>);

/// Programs and the designs that they are run under.
#[derive(Clone, Debug)]
pub struct ProgramExperiment {
    options: ProgramOptions,
    /// `compare` or `kernels`, for the command that repeats a cell.
    face: &'static str,
    designs: Vec<String>,
    default_designs: &'static [&'static str],
    /// Each design with flushes is run again with this Ribbon.
    ribbon: Option<CellRibbon>,
    /// Designs that are run again with these.
    beside: Vec<(String, CellRibbon)>,
    baseline: Option<String>,
    default_baseline: &'static str,
    machine: String,
    crashes: u64,
    seed: u64,
    jobs: Option<usize>,
    json: Option<PathBuf>,
    sheet: SheetOptions,
    plot: Option<PathBuf>,
    html: Option<PathBuf>,
    trace: TraceOptions,
    detail: bool,
    is_unannotated: bool,
}

impl CompareOptions {
    /// The experiment with programs of others, if there are any.
    pub fn of_program(&self) -> Option<ProgramExperiment> {
        self.program.commands.first()?;
        Some(ProgramExperiment {
            options: self.program.clone(),
            face: "compare",
            designs: self.designs.clone(),
            default_designs: &[],
            ribbon: self.ribbon.clone(),
            beside: Vec::new(),
            baseline: self.baseline.clone(),
            default_baseline: COMPARE_BASELINE,
            machine: self.machine_name(),
            crashes: self.crashes,
            seed: self.seed,
            jobs: self.jobs,
            json: self.json.clone(),
            sheet: self.sheet.clone(),
            plot: self.plot.clone(),
            html: self.html.clone(),
            trace: self.trace.clone(),
            detail: self.detail,
            is_unannotated: false,
        })
    }
}

impl KernelOptions {
    /// The experiment with programs of others, if there are any.
    pub fn of_program(&self) -> Option<ProgramExperiment> {
        self.program.commands.first()?;
        Some(ProgramExperiment {
            options: self.program.clone(),
            face: "kernels",
            designs: self.designs.clone(),
            default_designs: &kernels::DESIGNS,
            ribbon: None,
            beside: Vec::new(),
            baseline: Some(self.baseline.clone()),
            default_baseline: KERNEL_BASELINE,
            machine: self.machine_name(),
            crashes: self.crashes,
            seed: self.seed,
            jobs: self.jobs,
            json: self.json.clone(),
            sheet: self.sheet.clone(),
            plot: self.plot.clone(),
            html: self.html.clone(),
            trace: self.trace.clone(),
            detail: self.detail,
            is_unannotated: true,
        })
    }
}

/// A program, a design to run it under, and the Ribbon of its threads, if they have one.
#[derive(Clone, Debug)]
pub(crate) struct ProgramPoint {
    pub(super) program: Arc<Program>,
    pub(crate) design: Choice,
    pub(super) ribbon: Option<CellRibbon>,
}

impl ProgramPoint {
    /// The design with its parameters, as in `clwb`, or in `clwb+ribbon` where there is one.
    pub(super) fn label(&self) -> String {
        let ribbon = if self.ribbon.is_some() { RIBBON_LABEL } else { "" };
        format!("{}{ribbon}", self.design.text)
    }

    /// The same with all that the Ribbon is, as in `clwb --ribbon=always --flushers 4`.
    pub(super) fn key(&self) -> String {
        run_key(&self.design.text, self.ribbon.as_ref())
    }

    /// The run in words, as in `under clwb`, or `new under clwb` where there are several programs.
    pub(super) fn said(&self) -> String {
        let Program { name, has_others, .. } = &*self.program;
        let name = if *has_others { format!("{name} ") } else { String::new() };
        format!("{name}under {}", self.label())
    }
}

/// A run of a program: its design, and the options that give its Ribbon.
pub(crate) fn run_key(design: &str, ribbon: Option<&CellRibbon>) -> String {
    let flags = ribbon.map(|ribbon| ribbon_flags(&ribbon.options())).unwrap_or_default();
    format!("{design}{flags}")
}

impl Piece for ProgramPoint {
    fn program(&self) -> &str {
        &self.program.name
    }

    fn design(&self) -> String {
        self.label()
    }
}

/// Programs that can be run.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    pub(super) face: &'static str,
    /// The first is what others are relative to.
    pub(super) programs: Vec<Arc<Program>>,
    pub(crate) persistent: Persistent,
    pub(crate) fences: Fences,
    pub(crate) from: From,
    pub(super) input: Option<PathBuf>,
    /// What each returns when all is well.
    pub(super) exit_code: i32,
    pub(super) no_native: bool,
    pub(super) show_output: bool,
    pub(super) has_profile: bool,
    pub(super) seconds: u64,
    pub(super) machine_name: String,
    pub(super) baseline: String,
    /// The Ribbon that some of the points have, if all have the same.
    pub(super) ribbon: Option<CellRibbon>,
    pub(super) points: Vec<ProgramPoint>,
    pub(super) crashes: u64,
    pub(super) seed: u64,
    pub(super) jobs: Option<usize>,
    /// The point whose timeline is recorded.
    pub(super) traced: Option<Traced>,
    /// Whether latencies, queues and cores are recorded.
    pub(super) detail: bool,
}

impl ProgramPlan {
    /// What is recorded of a point, if something is.
    pub(super) fn window(&self, point: &ProgramPoint) -> Option<TimelineWindow> {
        let run = |point: &ProgramPoint| (point.program.number, point.key());
        let at = self.points.iter().position(|one| run(one) == run(point))?;
        Traced::at(self.traced, at)
    }

    /// True if there are several programs.
    pub(super) fn is_of_several(&self) -> bool {
        self.programs.len() > 1
    }

    /// The designs, in order, each once, and each with a Ribbon where it has one.
    pub(super) fn designs(&self) -> Vec<String> {
        self.points.iter().step_by(self.programs.len()).map(ProgramPoint::label).collect()
    }

    /// The command that runs a point by itself.
    pub(crate) fn command(&self, point: &ProgramPoint) -> String {
        let (plan, program) = (self, &point.program);
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let mut command = format!(
            "seawall {} --program {} --designs {} --machine {} --seed {} --crashes {} --pm {} \
             --from {}",
            plan.face,
            quoted(&program.command.text),
            point.key(),
            plan.machine_name,
            plan.seed,
            plan.crashes,
            match plan.persistent {
                Persistent::Files => "files",
                Persistent::Heap => "heap",
                Persistent::All => "all",
            },
            match plan.from {
                From::Start => "start",
                From::Threads => "threads",
            },
        );
        match &program.judged {
            Judged::By(words) => command += &format!(" --check {}", quoted(&words.join(" "))),
            Judged::ByEntry(entry) => command += &format!(" --check-entry {entry}"),
            Judged::Cuts | Judged::Not => {}
        }
        if plan.fences == Fences::Drain {
            command += " --fence drain";
        }
        if plan.exit_code != 0 {
            command += &format!(" --expect-exit {}", plan.exit_code);
        }
        if plan.no_native {
            command += " --no-native";
        }
        if let Some(input) = &plan.input {
            command += &format!(" --input {}", input.display());
        }
        command
    }

    /// The program of that number without the others, if there is one.
    pub(crate) fn only(self, number: usize) -> Option<ProgramPlan> {
        let program = (**self.programs.get(number)?).clone();
        let program = Arc::new(Program { number: 0, has_others: false, ..program });
        let points = self.points.into_iter().filter(|point| point.program.number == number);
        let points = points.map(|point| ProgramPoint { program: program.clone(), ..point });
        Some(ProgramPlan { points: points.collect(), programs: vec![program], ..self })
    }

    /// A hash of the code of the first program.
    ///
    /// # Errors
    /// When it was not compiled with `seawall cc`.
    pub(crate) fn image_hash(&self) -> Result<String, LabError> {
        let embedded = seawall_cc::embedded(&self.program().command.path)?;
        let libraries = embedded.libraries.iter().map(|library| &library.image);
        let bytes = libraries.chain([&embedded.image]).flatten();
        // FNV-1a, which stays the same from compiler to compiler.
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        Ok(format!("{hash:016x}"))
    }

    /// The first program.
    pub(crate) fn program(&self) -> &Program {
        &self.programs[0]
    }

    /// The first point.
    pub(crate) fn point(&self) -> &ProgramPoint {
        &self.points[0]
    }

    /// The names of the programs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|program| &*program.name)
    }

    /// The command, or the names of several programs.
    pub(super) fn title(&self) -> String {
        match &self.programs[..] {
            [program] => program.command.text.clone(),
            _ => self.names().collect::<Vec<_>>().join(", "),
        }
    }
}

impl ProgramExperiment {
    /// Runs these designs again with these Ribbons.
    pub(crate) fn with_ribbons(self, beside: Vec<(String, CellRibbon)>) -> ProgramExperiment {
        ProgramExperiment { beside, ..self }
    }

    /// The programs, each with its check.
    fn programs(&self, persistent: Persistent) -> Result<Vec<Arc<Program>>, LabError> {
        let commands = &self.options.commands;
        let mut programs: Vec<Program> = Vec::new();
        for (number, text) in commands.iter().enumerate() {
            let (name, text) = command::named(text);
            let command = ProgramCommand::parse("--program", text)?;
            let name = name.unwrap_or(command.name()).to_owned();
            if programs.iter().any(|other| other.name == name) {
                return Err(LabError::Option {
                    option: "--program",
                    value: name,
                    valid: "called otherwise than the others: give each a name, as in --program \
                            new='./hash run {pool}'"
                        .into(),
                });
            }
            let (judged, has_others) = (Judged::Not, commands.len() > 1);
            programs.push(Program { number, name, command, judged, has_others });
        }
        let checks = self.checks(&programs)?;
        for program in &mut programs {
            let is_its = |(of, _): &&Check<'_>| *of == Some(&*program.name);
            let check = checks.iter().find(is_its).or(checks.iter().find(|(of, _)| of.is_none()));
            program.judged = match (check, &self.options.check_entry) {
                (Some((_, words)), _) => Judged::By(words.clone()),
                (None, Some(entry)) => Judged::ByEntry(entry.clone()),
                (None, None) if self.is_unannotated || persistent == Persistent::All => {
                    Judged::Cuts
                }
                (None, None) => Judged::Not,
            };
        }
        Ok(programs.into_iter().map(Arc::new).collect())
    }

    fn checks(&self, programs: &[Program]) -> Result<Vec<Check<'_>>, LabError> {
        let mut checks: Vec<Check<'_>> = Vec::new();
        for text in &self.options.checks {
            let (of, command) = command::named(text);
            let known = || programs.iter().map(|program| &*program.name);
            if let Some(of) = of.filter(|of| !known().any(|name| name == *of)) {
                return Err(LabError::Option {
                    option: "--check",
                    value: text.clone(),
                    valid: format!(
                        "a command, or NAME=COMMAND with the name of a program; '{of}' is none of \
                         {}",
                        known().collect::<Vec<_>>().join(", ")
                    ),
                });
            }
            if checks.iter().any(|(other, _)| *other == of) {
                let name = of.unwrap_or("all programs").to_owned();
                return Err(LabError::Twice { what: "a check of", name });
            }
            checks.push((of, command::words("--check", command)?));
        }
        Ok(checks)
    }

    /// The baseline, and all points.
    fn points(&self, programs: &[Arc<Program>]) -> Result<(String, Vec<ProgramPoint>), LabError> {
        let default: Vec<String> = self.default_designs.iter().map(|name| (*name).into()).collect();
        let named = if self.designs.is_empty() { &default } else { &self.designs };
        let choices = designs(named)?;
        let of_each = |design: Choice, ribbon: Option<CellRibbon>| {
            programs.iter().map(move |program| ProgramPoint {
                program: program.clone(),
                design: design.clone(),
                ribbon: ribbon.clone(),
            })
        };
        if self.ribbon.is_some() && !choices.iter().any(Choice::needs_flushes) {
            let names: Vec<&str> = choices.iter().map(|design| &*design.text).collect();
            return Err(LabError::NothingToFlush { design: names.join(", ") });
        }
        let mut points = Vec::new();
        for design in choices {
            let ribbon = self.ribbon.clone().filter(|_| design.needs_flushes());
            points.extend(of_each(design.clone(), None));
            points.extend(ribbon.into_iter().flat_map(|it| of_each(design.clone(), Some(it))));
        }
        let has = |name: &str| points.iter().any(|point| point.label() == name);
        let baseline = match &self.baseline {
            Some(name) => name.clone(),
            None if has(self.default_baseline) => self.default_baseline.into(),
            None => points[0].label(),
        };
        if !has(&baseline) {
            points.splice(0..0, of_each(Choice::parse(&baseline)?, None));
        }
        for (design, ribbon) in &self.beside {
            points.extend(of_each(Choice::parse(design)?, Some(ribbon.clone())));
        }
        Ok((baseline, points))
    }

    /// The point to record: that of the only design, besides a baseline that was not named; of
    /// designs that run again with a Ribbon, those runs.
    fn traced(&self, points: &[ProgramPoint], baseline: &str) -> Result<Option<Traced>, LabError> {
        let is_alone = points.iter().all(|point| point.label() == baseline);
        let has_ribbon = points.iter().any(|point| point.ribbon.is_some());
        let is_named = |point: &ProgramPoint| {
            let text = &point.design.text;
            let is_named = text != baseline || self.designs.contains(text) || is_alone;
            is_named && (point.ribbon.is_some() || !has_ribbon)
        };
        let named = points.iter().enumerate().filter(|(_, point)| is_named(point));
        let name = |point: &ProgramPoint| format!("{} under {}", point.program.name, point.label());
        let named: Vec<_> = named.map(|(at, point)| (at, name(point))).collect();
        // How many operations a program reports is not known before it runs.
        Traced::of(&self.trace, &named, Some(u64::MAX))
    }

    /// Refuses Ribbons that cannot be, or whose flushers leave the program no core.
    fn check_ribbons(&self, machine: &Machine) -> Result<(), LabError> {
        let cores = machine.core.count as u64;
        for ribbon in self.ribbon.iter().chain(self.beside.iter().map(|(_, ribbon)| ribbon)) {
            let flushers = ribbon.flushers;
            if flushers >= cores {
                return Err(LabError::Flushers { threads: 1, flushers, cores });
            }
            Ribbon::placed(&ribbon.options(), |_| Ok::<_, RibbonError>(Addr::NULL))?;
        }
        Ok(())
    }
}

impl ProgramExperiment {
    /// Reads the options.
    pub(crate) fn to_plan(&self) -> Result<ProgramPlan, LabError> {
        let options = &self.options;
        self.check_ribbons(&Machine::load(&self.machine)?)?;
        in_range("--crashes", self.crashes, 0, CRASHES_MAX)?;
        let seconds = options.seconds.unwrap_or(SECONDS);
        in_range("--program-seconds", seconds, 1, u64::MAX)?;
        check_jobs(self.jobs)?;
        let persistent = match (options.pm, self.is_unannotated) {
            (Some(PmChoice::Files), _) | (None, false) => Persistent::Files,
            (Some(PmChoice::Heap), _) => Persistent::Heap,
            (Some(PmChoice::All), _) | (None, true) => Persistent::All,
        };
        let programs = self.programs(persistent)?;
        let (baseline, points) = self.points(&programs)?;
        let from = match (options.from, self.is_unannotated) {
            (Some(FromChoice::Start), _) | (None, false) => From::Start,
            (Some(FromChoice::Threads), _) | (None, true) => From::Threads,
        };
        let fences = FenceChoice::fences(options.fence);
        let traced = self.traced(&points, &baseline)?;
        Ok(ProgramPlan {
            face: self.face,
            programs,
            persistent,
            fences,
            from,
            input: options.input.clone(),
            exit_code: options.expect_exit.unwrap_or(0).into(),
            no_native: options.no_native,
            show_output: options.show_output,
            has_profile: options.profile || options.profile_folded.is_some(),
            seconds,
            machine_name: self.machine.clone(),
            baseline,
            ribbon: self.ribbon.clone(),
            points,
            crashes: self.crashes,
            seed: self.seed,
            jobs: self.jobs,
            traced,
            detail: self.detail,
        })
    }

    /// The files that it reads and writes.
    pub(super) fn all_files(&self) -> Files {
        let files = Files::new()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
            .results(Form::Plot, &self.plot)
            .results(Form::Html, &self.html)
            .results(Form::Folded, &self.options.profile_folded)
            .results(Form::Trace, &self.trace.trace);
        self.sheet.beside(files)
    }
}
