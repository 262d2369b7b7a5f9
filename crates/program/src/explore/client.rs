//! The servers of an exploration, from the side that asks.

use super::explored::SiteLines;
use super::wire::{Done, End, Module, Reply, Serving, Task, read_frame, write_frame};
use crate::folder::make_files;
use crate::kept::Kept;
use crate::limit::Limit;
use crate::request::{self, Answer};
use crate::spawn::{ProgramError, TUNABLES, answered, signal_in_words};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seawall_explore::{Site, SourceLine};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that a program may run at a time.
pub(crate) const THREADS: usize = 16;

/// A process that has loaded the program.
pub(crate) struct Server {
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
    modules: Vec<Module>,
    folder: PathBuf,
    process: Kept,
    limit: Limit,
}

impl Server {
    /// Starts it; `folder` is its own.
    pub(crate) fn start(
        command: &[PathBuf],
        serving: &Serving,
        folder: &Path,
        limit: &Limit,
    ) -> Result<Server, ProgramError> {
        limit.check()?;
        let io = |error| failed("cannot start the process of a program", error);
        for files in [&serving.folder, &serving.template] {
            make_files(files).map_err(io)?;
        }
        let task = request::Task::Explore(serving.clone());
        let mut process = Kept::start(command, folder, task, |command| {
            command.env("GLIBC_TUNABLES", TUNABLES).stderr(Stdio::null());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        })
        .map_err(io)?;
        let streams = process.0.stdin.take().zip(process.0.stdout.take());
        let (asked, told) = streams.expect("both are pipes");
        let (told, modules) = (BufReader::new(told), Vec::new());
        let (folder, limit) = (folder.to_owned(), limit.clone());
        let mut server = Server { asked, told, modules, folder, process, limit };
        match server.read()? {
            Reply::Ready(modules) => server.modules = modules,
            Reply::Done(_) => return Err(server.is_gone()),
        }
        Ok(server)
    }

    /// Has one thing done. A server that was left before its answer came is of no more use.
    pub(crate) fn ask(&mut self, task: &Task) -> Result<Done, ProgramError> {
        self.limit.check()?;
        if write_frame(&mut self.asked, task).is_err() {
            return Err(self.is_gone());
        }
        match self.read()? {
            Reply::Done(done) => Ok(*done),
            Reply::Ready(_) => Err(self.is_gone()),
        }
    }

    pub(crate) fn modules(&self) -> &[Module] {
        &self.modules
    }

    fn read(&mut self) -> Result<Reply, ProgramError> {
        let unread = |error| failed("cannot read what a program's process answers", error);
        let look = Timespec::try_from(Limit::LOOK).expect("it is short");
        while self.told.buffer().is_empty() {
            let mut told = [PollFd::new(self.told.get_ref(), PollFlags::IN)];
            match poll(&mut told, Some(&look)) {
                Ok(0) => self.limit.check()?,
                Ok(_) => break,
                Err(error) if error == rustix::io::Errno::INTR => {}
                Err(error) => return Err(unread(error.into())),
            }
        }
        match read_frame(&mut self.told) {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.is_gone()),
            Err(error) => Err(unread(error)),
        }
    }

    /// Why it does not answer: it ends, and says why in a file.
    fn is_gone(&mut self) -> ProgramError {
        let _ = self.process.0.wait();
        let what = match answered(&self.folder) {
            Some(Answer::Failed { what, .. }) => what,
            _ => "it has ended".to_owned(),
        };
        failed("the process of a program does not answer", io::Error::other(what))
    }
}

pub(crate) fn failed(what: &str, error: io::Error) -> ProgramError {
    ProgramError::Io { what: what.to_owned(), error }
}

/// Servers that are lent to the threads of a search.
pub(crate) struct Servers {
    idle: Mutex<Vec<Server>>,
    is_back: Condvar,
    modules: Vec<Module>,
    names: Mutex<Names>,
}

/// The lines of instructions, as far as they were met.
#[derive(Default)]
struct Names {
    /// Each with the lines that it is inlined in.
    lines: FxHashMap<u64, SourceLine>,
    /// Of a site with all that have called it.
    sites: FxHashMap<u64, &'static SourceLine>,
}

/// Lines that name a place: its own, and those that have called it.
pub const LINES_SHOWN: usize = 4;

impl Names {
    /// The line of the first of these calls, with those of the others that are known.
    fn of_chain(&self, calls: &[u64]) -> SourceLine {
        let lines = calls.iter().filter_map(|call| self.lines.get(call));
        let lines = lines.flat_map(|line| std::iter::once(line).chain(&line.callers));
        let mut chain: Vec<SourceLine> = Vec::new();
        for SourceLine { file, line, .. } in lines {
            let is_shown = |it: &SourceLine| (&it.file, it.line) == (file, *line);
            if *line > 0 && chain.len() < LINES_SHOWN && !chain.iter().any(is_shown) {
                chain.push(SourceLine { file: file.clone(), line: *line, callers: Vec::new() });
            }
        }
        let is_known =
            calls.first().and_then(|call| self.lines.get(call)).is_some_and(|it| it.line > 0);
        if !is_known {
            let file = format!("the instruction at {:#x}", calls.first().unwrap_or(&0));
            chain.truncate(LINES_SHOWN - 1);
            chain.insert(0, SourceLine { file, line: 0, callers: Vec::new() });
        }
        let callers = chain.split_off(1);
        SourceLine { callers, ..chain.remove(0) }
    }
}

impl Servers {
    /// So many; at least one.
    pub(crate) fn start(
        number: usize,
        mut start: impl FnMut(usize) -> Result<Server, ProgramError>,
    ) -> Result<Servers, ProgramError> {
        let servers: Result<Vec<Server>, ProgramError> = (0..number).map(&mut start).collect();
        let servers = servers?;
        let modules = servers[0].modules().to_vec();
        let (is_back, names) = (Condvar::new(), Mutex::default());
        Ok(Servers { idle: Mutex::new(servers), is_back, modules, names })
    }

    /// Has one thing done by the first server that is idle.
    pub(crate) fn ask(&self, task: &Task) -> Result<Done, ProgramError> {
        let mut idle = self.idle();
        let mut server = loop {
            match idle.pop() {
                Some(server) => break server,
                None => idle = self.is_back.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(idle);
        let done = server.ask(task);
        self.idle().push(server);
        self.is_back.notify_one();
        done
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Server>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up the lines of sites that were not met before; `chains` has the calls of those that
    /// stand for several.
    pub(crate) fn learn(
        &self,
        lines: &SiteLines,
        chains: &[(u64, Vec<u64>)],
        sites: impl Iterator<Item = u64>,
    ) {
        let mut names = self.names();
        let mut last = None;
        let sites = sites.filter(|site| last.replace(*site) != Some(*site));
        let mut new: Vec<u64> = sites.filter(|site| !names.sites.contains_key(site)).collect();
        new.sort_unstable();
        new.dedup();
        let chains: FxHashMap<u64, &[u64]> = chains.iter().map(|(at, all)| (*at, &**all)).collect();
        let calls = |site: &'_ u64| chains.get(site).map_or(vec![*site], |all| all.to_vec());
        let mut modules: BTreeMap<&Path, Vec<(u64, u64)>> = BTreeMap::new();
        for call in new.iter().flat_map(calls) {
            if let Some((module, offset)) = self.module_of(call)
                && !names.lines.contains_key(&call)
            {
                modules.entry(module).or_default().push((call, offset));
            }
        }
        for (module, addresses) in modules {
            let offsets: Vec<u64> = addresses.iter().map(|(_, offset)| *offset).collect();
            let found = lines(module, &offsets);
            names.lines.extend(addresses.iter().map(|(call, _)| *call).zip(found));
        }
        for site in new {
            let line = names.of_chain(&calls(&site));
            names.sites.insert(site, Box::leak(Box::new(line)));
        }
    }

    /// The site with its line, which was looked up.
    pub(crate) fn named(&self, site: u64) -> Site {
        let line = self.names().sites.get(&site).copied();
        line.map_or(Site::Instruction(site), |line| Site::Source(site, line))
    }

    /// The instructions that were named, by the names of the files of their modules.
    pub(crate) fn reached(&self) -> BTreeSet<(OsString, u64)> {
        let names = self.names();
        let reached = names.lines.keys().filter_map(|call| {
            let (module, offset) = self.module_of(*call)?;
            Some((module.file_name()?.to_owned(), offset))
        });
        reached.collect()
    }

    /// The files of the program and of the libraries that come with it.
    pub(crate) fn modules(&self) -> BTreeSet<&Path> {
        self.modules.iter().map(|module| &*module.path).collect()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The module that has an address, and the offset in it.
    fn module_of(&self, address: u64) -> Option<(&Path, u64)> {
        let holds = |module: &&Module| (module.at..module.at + module.bytes).contains(&address);
        let module = self.modules.iter().find(holds)?;
        Some((&module.path, address - module.base))
    }
}

impl End {
    /// What the program did, after its name.
    pub(crate) fn in_words(&self, seconds: u64) -> String {
        match self {
            End::Exit(code) => format!("returned {code}"),
            End::Failed(what, _) => what.clone(),
            End::Signal(libc::SIGXCPU | libc::SIGALRM | libc::SIGKILL) => {
                format!("did not end within {seconds} s")
            }
            End::Signal(signal) => format!("was ended by {}", signal_in_words(*signal)),
        }
    }
}
