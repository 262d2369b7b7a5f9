//! One run of a program under a design, and the same run with crashes.

use super::command::{POOL, check_entry};
use super::native::{self, unreadable};
use super::output::Output;
use super::plan::{Judged, Program, ProgramPlan, ProgramPoint};
use super::{ProgramCell, ProgramFacts, profile, sites};
use crate::LabError;
use crate::cell::CellRibbon;
use crate::engine::timeline::TRACE_BYTES_MAX;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_cc::Embedded;
use seawall_program::{
    CrashAfter, FILES, Judge, Limit, Persistent, ProgramError, ProgramFolder, Ran, Request, Run,
    STORES_NOTHING, Start, Timed, make_files, server,
};
use seawall_sim::{Cycle, SimError};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Crashes come at most this long after their store.
const DELAY_CYCLES_MAX: Cycle = 2000;
/// Separates the random numbers of crashes from others with the same seed.
const CRASH_STREAM: u64 = 0xc4a5;
/// One unseen store in so many makes what crashes leave worthless.
const UNSEEN_SHARE: u64 = 1000;
/// Seconds that a check may take.
const CHECK_SECONDS: u64 = 60;

/// The files of a program's runs.
pub(super) struct Bench {
    program: Arc<Program>,
    folder: ProgramFolder,
    image: PathBuf,
    /// Whether the program is at one address, always.
    is_fixed: bool,
    /// Parts of the program that are not instrumented.
    opaque: Vec<String>,
    /// What starts the process of a run, and that of a function of the program as a check.
    server: Vec<PathBuf>,
    checker: Vec<PathBuf>,
    /// What it printed natively, if it ran so.
    native: Option<Output>,
}

impl Bench {
    /// Takes the image out of the program, and runs it natively.
    pub(super) fn new(
        plan: &ProgramPlan,
        program: &Arc<Program>,
        limit: &Limit,
    ) -> Result<Bench, LabError> {
        let program = program.clone();
        let folder = ProgramFolder::new().map_err(|error| LabError::Folder { error })?;
        let embedded = seawall_cc::embedded(&program.command.path)?;
        if let Judged::ByEntry(entry) = &program.judged {
            check_entry(&embedded, entry)?;
        }
        let image = embedded.write(folder.path()).map_err(|error| LabError::Folder { error })?;
        let command = |word| server(word).map_err(|error| LabError::Folder { error });
        let (server, checker) = (command("program-process")?, command("program-check")?);
        let Embedded { opaque, is_fixed, .. } = embedded;
        let native = None;
        let bench = Bench { program, folder, image, is_fixed, opaque, server, checker, native };
        let native = native::run(plan, &bench.program, &bench.folder("native")?, limit)?;
        Ok(Bench { native, ..bench })
    }

    /// What is known of the program beside its runs.
    pub(super) fn into_facts(self, plan: &ProgramPlan) -> Result<ProgramFacts, LabError> {
        let native = self.native.filter(|_| plan.show_output);
        let printed = native.map(|output| output.text().map_err(unreadable)).transpose()?;
        Ok(ProgramFacts { printed, opaque: self.opaque })
    }

    /// A new folder for a run.
    fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| LabError::Folder { error })?;
        Ok(folder)
    }

    /// Runs the program under the design of `point`, and again with crashes if they can be judged.
    pub(super) fn run(
        &self,
        plan: &ProgramPlan,
        point: &ProgramPoint,
        limit: &Limit,
    ) -> Result<ProgramCell, LabError> {
        let text = &self.program.command.text;
        let name = |what: &str| format!("{what}-{}", point.key().replace(['/', ':', ' '], "_"));
        let ran = self.once(plan, point, &name("run"), (Vec::new(), Judge::Nobody), limit)?;
        let judge = self.judge(point);
        if let (Judge::Check { .. }, [_, 0]) = (&judge, ran.stored)
            && ran.exit_code == plan.exit_code
        {
            let program = format!("under {}: {text}", point.label());
            let what = STORES_NOTHING.into();
            return Err(ProgramError::Failed { program, what, places: Vec::new() }.into());
        }
        let crashed = if plan.crashes == 0 || judge == Judge::Nobody {
            None
        } else {
            let [all, persistent] = ran.stored;
            let stores = if judge == Judge::Cuts { all } else { persistent };
            let points = crash_points(stores, plan.crashes, plan.seed);
            Some(self.once(plan, point, &name("crash"), (points, judge), limit)?)
        };
        let output = Output::of(&self.folder.path().join(name("run")));
        let differs = self.native.as_ref().map(|native| output.difference(native)).transpose();
        let differs = differs.map_err(unreadable)?.flatten();
        let printed = plan.show_output.then(|| output.text()).transpose().map_err(unreadable)?;
        let wrong = (ran.exit_code != plan.exit_code).then(|| {
            let said = native::last_words(&self.folder.path().join(name("run")));
            format!("it returned {} and not {}{said}", ran.exit_code, plan.exit_code)
        });
        let profile = ran.profile.as_deref().map(profile::profile);
        let unseen = sites::name(&self.image, &ran.unseen_stores);
        let unread = ran.unread_flushes.as_ref().map(|found| sites::unread(&self.image, found));
        let is_much = ran.unseen > ran.stored[1] / UNSEEN_SHARE;
        if crashed.is_some() && plan.persistent != Persistent::All && is_much {
            let (program, words) = (text.clone(), ran.unseen);
            let places = unseen.iter().take(3).map(|place| format!("\n  {place}")).collect();
            return Err(LabError::Unseen { program, words, places });
        }
        let point = point.clone();
        Ok(ProgramCell { point, ran, crashed, wrong, differs, printed, unseen, unread, profile })
    }

    fn judge(&self, point: &ProgramPoint) -> Judge {
        let by = |command| match point.design.model() {
            Some(_) => Judge::Check { command, seconds: CHECK_SECONDS },
            None => Judge::Nobody,
        };
        match &self.program.judged {
            Judged::By(command) => by(command.clone()),
            Judged::ByEntry(entry) => {
                let checker = self.checker.iter().chain([&self.image]);
                let words = checker.map(|word| word.display().to_string());
                let keeps_code = self.is_fixed.then(|| "--keeps-code".to_owned());
                by(words.chain([entry.clone(), POOL.into()]).chain(keeps_code).collect())
            }
            Judged::Cuts if point.design.promises_cuts() => Judge::Cuts,
            _ => Judge::Nobody,
        }
    }

    fn once(
        &self,
        plan: &ProgramPlan,
        point: &ProgramPoint,
        name: &str,
        (crashes, judge): (Vec<CrashAfter>, Judge),
        limit: &Limit,
    ) -> Result<Ran, LabError> {
        let folder = self.folder(name)?;
        let pool = make_files(&folder.join(FILES)).map_err(|error| LabError::Folder { error })?;
        let is_measured = judge == Judge::Nobody;
        let has_profile = plan.has_profile && is_measured;
        let window = plan.window(point).filter(|_| is_measured);
        let timeline = window.map(|window| Timed { window, bytes_max: TRACE_BYTES_MAX });
        let request = Request {
            start: Start {
                image: self.image.clone(),
                entry: None,
                words: self.program.command.with_pool(&pool),
            },
            machine: plan.machine_name.clone(),
            design: point.design.text.clone(),
            ribbon: point.ribbon.as_ref().map(CellRibbon::options),
            persistent: plan.persistent,
            fences: plan.fences,
            from: plan.from,
            crashes,
            judge,
            folder,
            cycles_max: Cycle::MAX,
            has_profile,
            has_detail: plan.detail && is_measured,
            timeline,
        };
        let run = Run {
            request,
            server: self.server.clone(),
            input: plan.input.clone(),
            seconds: plan.seconds,
        };
        seawall_program::run(&run, limit).map_err(|error| match error {
            ProgramError::Stopped => SimError::Stopped.into(),
            ProgramError::Failed { program, what, places } => {
                let program = format!("under {}: {program}", point.label());
                let what = what + &sites::threads(&self.image, &places);
                ProgramError::Failed { program, what, places }.into()
            }
            other => other.into(),
        })
    }
}

/// Distinct stores, spread over the whole run, each with its delay.
fn crash_points(stores: u64, crashes: u64, seed: u64) -> Vec<CrashAfter> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ CRASH_STREAM);
    let mut after = BTreeSet::new();
    while (after.len() as u64) < crashes.min(stores) {
        after.insert(rng.random_range(1..=stores));
    }
    after.into_iter().map(|n| (n, rng.random_range(0..=DELAY_CYCLES_MAX))).collect()
}
