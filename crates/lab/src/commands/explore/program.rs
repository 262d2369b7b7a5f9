//! Programs of others as targets: compiled with `seawall cc`, run in processes of their own.

use super::parts::Share;
use super::report::ModelReport;
use super::target::{Found, Recorded, Target};
use super::unreached::unreached;
use super::{Explore, ExploreError, ExploreOptions, ExploreReport, Replay, UnreachedFunction};
use crate::LabError;
use crate::commands::program::{
    CHECK_ENTRY, FenceChoice, POOL, ProgramCommand, check_entry, needs_program, prepare, sites,
};
use clap::Args;
use seawall_explore::{Check, CrashImage, CrashPoint, ReplayError, Schedule, SourceLine};
use seawall_program::{
    CheckLayout, ExploredProgram, From, Half, Limit, ProgramAndCheck, ProgramError, ProgramFolder,
    Start, make_files, server,
};
use seawall_report::Progress;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Seconds of processor time that a run or a recovery may take by default.
const SECONDS: u64 = 10;

/// A program that was compiled with `seawall cc`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Programs of others")]
pub struct ExploreProgramOptions {
    /// Explore this command, of a program that `seawall cc` compiled; {pool} stands for a file of
    /// its own for each run
    #[arg(long = "program", value_name = "COMMAND", requires = "judge",
          conflicts_with_all = ["workload", "threads", "ops", "entries", "search_percent", "mix",
                                "defragment", "flaw", "fixed"])]
    pub command: Option<String>,
    /// Its recovery and check, of a program that `seawall cc` compiled: it ends with 0 if {pool} is
    /// sound
    #[arg(long, value_name = "COMMAND", requires = "command", group = "judge")]
    pub check: Option<String>,
    /// A function of the program as its recovery and check instead, int NAME(const char *pool)
    #[arg(long, value_name = "NAME", requires = "command", group = "judge",
          num_args = 0..=1, default_missing_value = CHECK_ENTRY)]
    pub check_entry: Option<String>,
    /// Run this command first, natively and once: every run begins with the {pool} that it leaves
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub prepare: Option<String>,
    /// What its sfence asks for, under models with two kinds of fence [default: order]
    #[arg(long, value_name = "KIND", requires = "command")]
    pub fence: Option<FenceChoice>,
    /// What it reads from standard input [default: nothing]
    #[arg(long, value_name = "FILE", requires = "command")]
    pub input: Option<PathBuf>,
    /// What the check reads from standard input [default: nothing]
    #[arg(long, value_name = "FILE", requires = "command")]
    pub check_input: Option<PathBuf>,
    /// What it returns when all is well [default: 0]
    #[arg(long, value_name = "N", requires = "command")]
    pub expect_exit: Option<u8>,
    /// Stop a run of it, or its recovery, after so many seconds [default: 10]
    #[arg(long = "program-seconds", value_name = "N", requires = "command")]
    pub program_seconds: Option<u64>,
}

impl ExploreProgramOptions {
    /// Refuses what would have no effect without a program.
    pub(super) fn check_alone(&self) -> Result<(), LabError> {
        let given = [
            ("--check", self.check.is_some()),
            ("--check-entry", self.check_entry.is_some()),
            ("--prepare", self.prepare.is_some()),
            ("--fence", self.fence.is_some()),
            ("--input", self.input.is_some()),
            ("--check-input", self.check_input.is_some()),
            ("--expect-exit", self.expect_exit.is_some()),
            ("--program-seconds", self.program_seconds.is_some()),
        ];
        needs_program(self.command.is_some(), &given)
    }
}

/// A program of others, ready to be explored.
struct ProgramTarget {
    explored: Arc<ExploredProgram>,
    options: ExploreProgramOptions,
    image: PathBuf,
    digest: String,
}

/// Explores a program of others.
pub(super) fn explore(
    program: &ExploreProgramOptions,
    options: &ExploreOptions,
    share: Share<'_>,
    progress: &Progress,
    stop: &Arc<AtomicBool>,
) -> Result<ExploreReport, ExploreError> {
    let options = &options.without_repeats();
    options.check()?;
    let limit = Limit::new(stop).within(options.time());
    let folder = ProgramFolder::new().map_err(|error| lab(LabError::Folder { error }))?;
    let how = ProgramAndCheck { servers: share.servers(), ..how(program, folder.path(), &limit)? };
    let (image, digest) = (how.program.start.image.clone(), digest(&how).map_err(lab)?);
    let replay = options.replay.as_deref().map(Replay::parse).transpose()?;
    if let Some(Replay { text, key, .. }) = &replay
        && *key != digest
    {
        let why = "it is of a program that was compiled from something else".into();
        return Err(ReplayError::OtherRun { choice: (*text).into(), why }.into());
    }
    let failed = |error| said(&image, error);
    let mut explored = ExploredProgram::new(how, Box::new(lines)).map_err(failed)?;
    loop {
        let target = ProgramTarget {
            explored: Arc::new(explored),
            options: program.clone(),
            image: image.clone(),
            digest: digest.clone(),
        };
        let replay = options.replay.as_deref().map(Replay::parse).transpose()?;
        // The search ends a little before what it waits for is cut short.
        let time = limit.left().map(|left| left.saturating_sub(Limit::LOOK));
        let report = Explore { options, share, time, progress, stop }.target(&target, replay);
        if !target.explored.lacks_pages().map_err(failed)? {
            return report.map(|report| with_hint(report, program));
        }
        drop(report);
        let again = Arc::into_inner(target.explored).expect("its runs are over");
        explored = again.again().map_err(failed)?;
    }
}

/// What a finding may be due to where fences ask for order alone.
const ORDER_ALONE: &str = "fences ask for order alone, which under this model is less than on x86: \
                           --fence drain asks for durability";

fn with_hint(report: ExploreReport, options: &ExploreProgramOptions) -> ExploreReport {
    let mut report = report;
    let is_weaker = |model: &ModelReport| {
        model.outcome.finding.is_some() && !model.outcome.model.order_is_durable()
    };
    if options.fence != Some(FenceChoice::Drain) && report.models.iter().any(is_weaker) {
        report.warnings.push(ORDER_ALONE.into());
    }
    report
}

fn stopped(error: LabError) -> ExploreError {
    match error {
        LabError::Program(ProgramError::Stopped) => ExploreError::Stopped,
        error => lab(error),
    }
}

fn lab(error: LabError) -> ExploreError {
    ExploreError::Lab(error.to_string())
}

/// The file of an input, which must be there.
fn readable(input: &Option<PathBuf>) -> Result<Option<PathBuf>, ExploreError> {
    if let Some(path) = input.as_ref().filter(|path| !path.is_file()) {
        return Err(ExploreError::Lab(format!("there is no file {} to read", path.display())));
    }
    let input = input.as_ref().map(std::path::absolute).transpose();
    input.map_err(|error| lab(LabError::Folder { error }))
}

/// What is to be explored, with all files in `folder`.
fn how(
    options: &ExploreProgramOptions,
    folder: &Path,
    limit: &Limit,
) -> Result<ProgramAndCheck, ExploreError> {
    let text = options.command.as_deref().unwrap_or_default();
    let program = ProgramCommand::parse("--program", text).map_err(lab)?;
    let seconds = options.program_seconds.unwrap_or(SECONDS);
    super::in_range("--program-seconds", seconds, 1, 100_000)?;
    let half = |command: &ProgramCommand, name: &str, input: &Option<PathBuf>| {
        let embedded = seawall_cc::embedded(&command.path).map_err(LabError::from).map_err(lab)?;
        let folder = folder.join(name);
        let io = |error| lab(LabError::Folder { error });
        std::fs::create_dir_all(&folder).map_err(io)?;
        let image = embedded.write(&folder).map_err(io)?;
        let start = Start { image, entry: None, words: command.words.clone() };
        Ok::<_, ExploreError>((Half { start, input: readable(input)? }, embedded))
    };
    let path = program.path.canonicalize().ok();
    let (program, embedded) = half(&program, "program", &options.input)?;
    let mut layout = CheckLayout { keeps_code: embedded.is_fixed };
    let check = match (&options.check, &options.check_entry) {
        (_, Some(entry)) => {
            check_entry(&embedded, entry).map_err(lab)?;
            let image = program.start.image.clone();
            let start = Start { image, entry: Some(entry.clone()), words: vec![POOL.into()] };
            Half { start, input: readable(&options.check_input)? }
        }
        (check, None) => {
            let check = check.as_deref().unwrap_or_default();
            let check = ProgramCommand::parse("--check", check).map_err(lab)?;
            layout.keeps_code &= check.path.canonicalize().ok() == path;
            half(&check, "recovery", &options.check_input)?.0
        }
    };
    let before = folder.join("before");
    make_files(&before).map_err(|error| lab(LabError::Folder { error }))?;
    if let Some(text) = &options.prepare {
        let command = ProgramCommand::parse("--prepare", text).map_err(lab)?;
        prepare(&command, &before, folder, seconds, limit).map_err(stopped)?;
    }
    let server = server("program-process").map_err(|error| lab(LabError::Folder { error }))?;
    Ok(ProgramAndCheck {
        program,
        check,
        fences: FenceChoice::fences(options.fence),
        from: From::Start,
        server,
        folder: folder.to_owned(),
        before,
        layout,
        exit_code: options.expect_exit.unwrap_or(0).into(),
        seconds,
        servers: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        limit: limit.clone(),
    })
}

/// Of what is run: replay strings are good for it alone.
fn digest(how: &ProgramAndCheck) -> Result<String, LabError> {
    let mut hasher = DefaultHasher::new();
    for half in [&how.program, &how.check] {
        let Start { image, entry, words } = &half.start;
        let image = std::fs::read(image).map_err(|error| LabError::Folder { error })?;
        (image, entry, words).hash(&mut hasher);
    }
    Ok(format!("{:08x}", hasher.finish() as u32))
}

/// The lines of instructions of a module.
fn lines(module: &Path, offsets: &[u64]) -> Vec<SourceLine> {
    sites::source_lines(module, offsets)
}

fn said(image: &Path, error: ProgramError) -> ExploreError {
    let what = match error {
        ProgramError::Stopped => return ExploreError::Stopped,
        ProgramError::Failed { program, what, places } => {
            format!("{program} {what}{}", sites::threads(image, &places))
        }
        other => other.to_string(),
    };
    ExploreError::Program { what, schedule: None }
}

impl Target for ProgramTarget {
    fn name(&self) -> String {
        self.options.command.clone().unwrap_or_default()
    }

    fn in_words(&self) -> String {
        let threads = self.explored.threads();
        let plural = if threads == 1 { "" } else { "s" };
        let code = self.options.expect_exit.filter(|code| *code > 0);
        let code = code.map_or_else(String::new, |code| format!(", which returns {code}"));
        format!("{}: {threads} thread{plural}{code}", self.name())
    }

    fn key(&self) -> String {
        self.digest.clone()
    }

    fn command(&self) -> String {
        let ExploreProgramOptions {
            command,
            check,
            check_entry,
            prepare,
            fence,
            input,
            check_input,
            expect_exit,
            ..
        } = &self.options;
        let quoted = |name: &str, text: &Option<String>| {
            let text = text.as_ref()?;
            let text = shlex::try_quote(text).map_or_else(|_| text.clone(), Into::into);
            Some(format!("--{name} {text}"))
        };
        let fence = matches!(fence, Some(FenceChoice::Drain)).then(|| "--fence drain".to_owned());
        let path = |path: &Option<PathBuf>| Some(path.as_ref()?.display().to_string());
        let words = [
            quoted("program", command),
            quoted("check", check),
            quoted("check-entry", check_entry),
            quoted("prepare", prepare),
            fence,
            quoted("input", &path(input)),
            quoted("check-input", &path(check_input)),
            expect_exit.map(|code| format!("--expect-exit {code}")),
        ];
        words.into_iter().flatten().collect::<Vec<String>>().join(" ")
    }

    fn exit_code(&self) -> Option<u8> {
        Some(self.options.expect_exit.unwrap_or(0))
    }

    fn is_outdated(&self) -> bool {
        self.explored.is_over()
    }

    fn unreached(&self) -> Vec<UnreachedFunction> {
        unreached(&self.explored.reached())
    }

    fn threads(&self) -> usize {
        self.explored.threads()
    }

    /// What was promised is in the pool, where the check looks for it.
    fn promises_by_outputs(&self) -> bool {
        false
    }

    fn record(&self, schedule: &Schedule) -> Result<Recorded, ExploreError> {
        let trace = self.explored.record(schedule).map_err(|error| said(&self.image, error))?;
        let check = ProgramCheck { explored: self.explored.clone() };
        Ok(Recorded { trace, moved: None, check: Box::new(check) })
    }
}

/// A command that is run on each image.
struct ProgramCheck {
    explored: Arc<ExploredProgram>,
}

impl Check for ProgramCheck {
    type Found = Found;

    fn recover(&self, image: &CrashImage) -> Result<Found, String> {
        self.explored.recover(image).map(|()| Found::Sound)
    }

    fn judge(&self, _: &Found, _: &CrashPoint) -> Result<(), String> {
        Ok(())
    }

    fn is_cut(&self) -> bool {
        self.explored.is_cut()
    }
}
