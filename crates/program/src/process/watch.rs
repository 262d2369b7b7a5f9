//! Crashes of a run, and what they are held to.

use crate::explore::files::copy_all;
use crate::folder::{CRASHED, FILES, pool_in};
use crate::process::failure::fail_at;
use crate::process::pages::pages;
use crate::process::regions;
use crate::process::runtime::SPACE_BYTES;
use crate::process::runtime::runtime;
use crate::process::stacks;
use crate::request::{BrokenCrash, Judge, PAGE, Request};
use crate::spawn::tail;
use rustc_hash::FxHashMap;
use rustix::process::{Pid, Signal, kill_process_group};
use seawall_memory::LINE_BYTES;
use seawall_sim::{CoreAccess, Crash, Cycle, Observer, Recording, RunOutcome};
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The observer of a run that is crashed.
pub(crate) struct Watch {
    recording: Option<Recording>,
    check: Option<Check>,
    /// Crashes that are left: the number of stores, and the delay; the next one at the end.
    left: Vec<(u64, Cycle)>,
    /// Words stored to persistent memory so far.
    seen: u64,
}

/// A command that is run on what a crash leaves.
struct Check {
    command: Vec<String>,
    limit: Duration,
    folder: PathBuf,
    crashes: u64,
    broken: Vec<BrokenCrash>,
}

impl Watch {
    pub(crate) fn new(request: &Request, cores: usize) -> Watch {
        let mut left = request.crashes.clone();
        left.sort_unstable_by(|one, other| other.cmp(one));
        let (mut recording, mut check) = (None, None);
        match &request.judge {
            Judge::Nobody => {}
            Judge::Cuts => {
                recording = Some(Recording::at(Vec::new(), cores, std::mem::take(&mut left)));
            }
            Judge::Check { command, seconds } => {
                check = Some(Check {
                    command: command.clone(),
                    limit: Duration::from_secs(*seconds),
                    folder: request.folder.clone(),
                    crashes: 0,
                    broken: Vec::new(),
                });
            }
        }
        Watch { recording, check, left, seen: 0 }
    }

    pub(crate) fn crashes(&self) -> u64 {
        let cuts = self.recording.as_ref().map_or(0, Recording::crashes);
        cuts + self.check.as_ref().map_or(0, |check| check.crashes)
    }

    pub(crate) fn stores_in_cuts(&self) -> u64 {
        self.recording.as_ref().map_or(0, Recording::stores_in_cuts)
    }

    pub(crate) fn broken(&mut self) -> Vec<BrokenCrash> {
        let mut broken = Vec::new();
        if let Some(recording) = &self.recording {
            let cuts = recording.broken().iter();
            broken.extend(
                cuts.map(|(cycle, what)| BrokenCrash { cycle: *cycle, what: what.clone() }),
            );
        }
        broken.extend(self.check.iter_mut().flat_map(|check| std::mem::take(&mut check.broken)));
        broken
    }

    /// The run is over: what it leaves at rest must be fine too.
    pub(crate) fn end(&mut self, outcome: &RunOutcome) {
        if let Some(check) = &mut self.check {
            check.judge(outcome.cycles, &outcome.pm);
        }
    }
}

impl Observer for Watch {
    fn output(&mut self, _: usize, _: u64, _: Cycle) -> Option<Cycle> {
        None
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        if let Some(recording) = &mut self.recording {
            recording.crash(now, crash);
        } else if let Some(check) = &mut self.check {
            let fs = stacks::fs();
            stacks::set_fs(runtime().host_fs.get());
            check.judge(now, &crash.pm);
            stacks::set_fs(fs);
        }
    }

    fn watches_accesses(&self) -> bool {
        true
    }

    fn stored(&mut self, access: CoreAccess, value: u64, now: Cycle) -> Option<Cycle> {
        if let Some(recording) = &mut self.recording {
            return recording.stored(access, value, now);
        }
        if u64::from(access.line) >= SPACE_BYTES / LINE_BYTES {
            return None;
        }
        self.seen += 1;
        let (_, delay) = self.left.pop_if(|(after, _)| *after <= self.seen)?;
        Some(now + delay)
    }

    fn loaded(&mut self, access: CoreAccess) {
        if let Some(recording) = &mut self.recording {
            recording.loaded(access);
        }
    }

    fn mapped(&mut self, first: u64, contents: &[u8]) {
        if let Some(recording) = &mut self.recording {
            recording.mapped(first, contents);
        }
    }
}

impl Check {
    fn judge(&mut self, now: Cycle, pm: &[u8]) {
        if regions::pools().is_empty() {
            return;
        }
        self.crashes += 1;
        let crashed = self.folder.join(CRASHED);
        let outcome = write_files(&self.folder.join(FILES), &crashed, pm)
            .and_then(|()| self.run(&pool_in(&crashed).display().to_string()));
        match outcome {
            Ok(None) => {}
            Ok(Some(what)) => self.broken.push(BrokenCrash { cycle: now, what }),
            Err(error) => {
                let what = format!("leaves a pool that the check cannot be run on: {error}");
                fail_at(&what, Vec::new())
            }
        }
    }

    /// Runs the command; returns what is wrong.
    fn run(&self, pool: &str) -> io::Result<Option<String>> {
        let words: Vec<String> =
            self.command.iter().map(|word| word.replace("{pool}", pool)).collect();
        let said = File::create(self.folder.join("check.out"))?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
        let mut child = command.stdout(said.try_clone()?).stderr(said).spawn()?;
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > self.limit {
                kill_process_group(Pid::from_child(&child), Signal::KILL)?;
                child.wait()?;
                return Ok(Some(format!("the check took more than {} s", self.limit.as_secs())));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        };
        if status.success() {
            return Ok(None);
        }
        let said = tail(&self.folder.join("check.out")).unwrap_or_default();
        Ok(Some(match said.lines().last().unwrap_or_default() {
            "" => format!("the check ended with {status}"),
            last => last.to_owned(),
        }))
    }
}

/// Writes the files of the run as a crash has left them: what the machine has of their pages, and
/// the rest as it is.
fn write_files(from: &Path, to: &Path, pm: &[u8]) -> io::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    copy_all::<io::Error>(from, to, &|| Ok(()))?;
    let mut names = FxHashMap::default();
    name_all(to, from, &mut names)?;
    let mut open: FxHashMap<&Path, File> = FxHashMap::default();
    for (n, page) in pages().persistent().into_iter().enumerate() {
        let Some(pool) = regions::pool_at(page) else { continue };
        let from = n * PAGE as usize;
        let Some(contents) = pm.get(from..from + PAGE as usize) else { continue };
        // A page that is as the file has it may be a hole.
        if pool.page(page)? == contents {
            continue;
        }
        let offset = pool.offset_of(page);
        let bytes = pool.file_bytes()?.saturating_sub(offset).min(PAGE) as usize;
        // A file that has no name any more is none that a check could find.
        for name in names.get(&pool.number).into_iter().flatten() {
            let to = match open.entry(name) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(new) => new.insert(File::options().write(true).open(name)?),
            };
            to.write_all_at(&contents[..bytes], offset)?;
        }
    }
    Ok(())
}

/// Finds the copies, below `to`, of each file below `from`, by its device and inode.
fn name_all(
    to: &Path,
    from: &Path,
    names: &mut FxHashMap<(u64, u64), Vec<PathBuf>>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (is, to) = (entry.metadata()?, to.join(entry.file_name()));
        if is.is_dir() {
            name_all(&to, &entry.path(), names)?;
        } else if is.is_file() {
            names.entry((is.dev(), is.ino())).or_default().push(to);
        }
    }
    Ok(())
}
