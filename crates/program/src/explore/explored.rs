//! A compiled program that can be explored: its runs, and its recovery on images.

use super::client::{Server, Servers, THREADS, failed};
use super::files::{copy_all, page_of};
use super::wire::{CheckLayout, Did, Done, End, PoolPage, Serving, Task};
use crate::folder::pool_in;
use crate::limit::Limit;
use crate::request::{Fences, From, PAGE, Place, Start};
use crate::spawn::ProgramError;
use seawall_cc::{PersistSite, SUPPORT_FOLDER, persist_sites};
use seawall_explore::{CrashImage, Schedule, Site, SourceLine, Trace, Turns};
use seawall_memory::{Addr, Memory, Width};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Times that pages are looked for before the exploration begins.
const ROUNDS: usize = 20;
/// Memory of a run of which nothing is known yet, in bytes.
const DRAM_BYTES: u64 = 64 << 20;
/// Memory that a run may need beyond what was seen, in bytes.
const DRAM_MORE: u64 = 256 << 10;
/// Bytes of a small pool.
const SMALL_BYTES: u64 = 2 << 20;
/// What is wrong with a program that no crash can harm.
pub const STORES_NOTHING: &str = "stores nothing to persistent memory, so that no crash can change \
                                  anything; {pool} among its words stands for a file, which it \
                                  must map shared";
/// Characters of what a check printed that a message repeats.
const SAID_SHOWN: usize = 200;

/// A command of a program that `seawall cc` compiled.
#[derive(Clone, Debug)]
pub struct Half {
    /// What is run; `{pool}` in its words stands for the pool.
    pub start: Start,
    /// What it reads from standard input.
    pub input: Option<PathBuf>,
}

/// What is to be explored.
#[derive(Clone, Debug)]
pub struct ProgramAndCheck {
    /// The program.
    pub program: Half,
    /// The check, which ends with 0 if the pool is sound.
    pub check: Half,
    /// What a fence asks.
    pub fences: Fences,
    /// When recording begins.
    pub from: From,
    /// The command that serves requests, before the folder of one.
    pub server: Vec<PathBuf>,
    /// A folder for files.
    pub folder: PathBuf,
    /// The [files](crate::make_files) as they are before each run; there may be none.
    pub before: PathBuf,
    /// Where the check has its memory.
    pub layout: CheckLayout,
    /// What the program returns when all is well.
    pub exit_code: i32,
    /// Seconds of processor time that one run, or one recovery, may take.
    pub seconds: u64,
    /// Runs, and recoveries, that are made at once.
    pub servers: usize,
    /// How long all of it may take.
    pub limit: Limit,
}

/// Names instructions: the lines of these offsets in a module, each with those that it is inlined
/// in as its callers.
pub type SiteLines = Box<dyn Fn(&Path, &[u64]) -> Vec<SourceLine> + Send + Sync>;

/// The sites of a module that make stores durable, and what has run of it.
#[derive(Clone, Debug)]
pub struct ReachedSites {
    /// The file.
    pub module: PathBuf,
    /// The sites, in order.
    pub sites: Vec<PersistSite>,
    /// The addresses of what was done to persistent memory, and of the calls that led there.
    pub reached: Vec<u64>,
}

/// The beginnings of the names of libraries whose code is none of the user's.
const LIBRARIES: [&[u8]; 2] = [b"libpmem", b"libseawall"];

/// Whether the file of a module is of a library of persistent memory.
pub(crate) fn is_library(file: &OsStr) -> bool {
    LIBRARIES.iter().any(|start| file.as_bytes().starts_with(start))
}

/// A program whose runs can be recorded.
pub struct ExploredProgram {
    how: ProgramAndCheck,
    runs: Servers,
    checks: Servers,
    start: Arc<[u8]>,
    threads: usize,
    lines: SiteLines,
    pages: Vec<PoolPage>,
    /// Pages that turned out to be stored to.
    missing: Mutex<BTreeSet<PoolPage>>,
    /// Why recovery cannot be run, which is no finding.
    failure: Mutex<Option<ProgramError>>,
    is_over: AtomicBool,
}

impl ExploredProgram {
    /// Runs the program and its check, to learn which memory and how many threads they use.
    ///
    /// # Errors
    /// When either cannot be run, or the check refuses what the program leaves without a crash.
    pub fn new(how: ProgramAndCheck, lines: SiteLines) -> Result<ExploredProgram, ProgramError> {
        ExploredProgram::with_pages(how, lines, Vec::new())
    }

    fn with_pages(
        how: ProgramAndCheck,
        lines: SiteLines,
        mut pages: Vec<PoolPage>,
    ) -> Result<ExploredProgram, ProgramError> {
        let tried = Tried::with_all(&how, &lines, &mut pages)?;
        let runs = how.servers_of(Role::Run, &pages, tried.dram_bytes[0])?;
        let checks = how.servers_of(Role::Check, &pages, tried.dram_bytes[1])?;
        let Tried { start, threads, .. } = tried;
        let (missing, failure, is_over) = (Mutex::default(), Mutex::default(), false.into());
        Ok(ExploredProgram {
            how,
            runs,
            checks,
            start,
            threads,
            lines,
            pages,
            missing,
            failure,
            is_over,
        })
    }

    /// Threads of a run, `main` included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The sites of the user's code that make stores durable, and where runs and recoveries have
    /// come to.
    pub fn reached(&self) -> Vec<ReachedSites> {
        let mut reached = self.runs.reached();
        reached.extend(self.checks.reached());
        let is_users = |module: &&Path| module.file_name().is_some_and(|name| !is_library(name));
        let sites = |module: &Path| {
            let of_module = reached.iter().filter(|(name, _)| module.file_name() == Some(name));
            let reached = of_module.map(|(_, at)| *at).collect();
            ReachedSites { module: module.to_owned(), sites: persist_sites(module), reached }
        };
        self.runs.modules().into_iter().filter(is_users).map(sites).collect()
    }

    /// Whether what is found from now on is worthless: recovery cannot be run, or more must be
    /// known of the program.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether what recovery says from now on is worthless: that, or it was cut short by the limit.
    pub fn is_cut(&self) -> bool {
        self.is_over() || self.how.limit.check().is_err()
    }

    /// Whether pages turned out to be stored to that were not known: the exploration must be made
    /// [again](ExploredProgram::again).
    ///
    /// # Errors
    /// Why recovery could not be run.
    pub fn lacks_pages(&self) -> Result<bool, ProgramError> {
        let lacks_pages = !lock(&self.missing).is_empty();
        lock(&self.failure).take().map_or(Ok(lacks_pages), Err)
    }

    /// The same program, with the pages that turned out to be needed.
    ///
    /// # Errors
    /// As [`new`](ExploredProgram::new).
    pub fn again(self) -> Result<ExploredProgram, ProgramError> {
        let missing = self.missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut pages = self.pages;
        pages.extend(missing);
        put_in_order(&mut pages);
        ExploredProgram::with_pages(self.how, self.lines, pages)
    }

    /// Records a run.
    ///
    /// # Errors
    /// When it does not end as it should.
    pub fn record(&self, schedule: &Schedule) -> Result<Trace, ProgramError> {
        let done = self.runs.ask(&Task::Record(schedule.clone()))?;
        self.note_missing(&done);
        let (chains, trace) = (done.chains.clone(), self.how.trace_of(done)?);
        let sites = trace.events().iter().filter_map(|event| event.at.instruction());
        self.runs.learn(&self.lines, &chains, sites);
        let named = |site: Site| site.instruction().map_or(site, |at| self.runs.named(at));
        Ok(trace.received(self.start.clone(), named))
    }

    /// Runs the check on an image.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn recover(&self, image: &CrashImage) -> Result<(), String> {
        self.try_recovery(image).unwrap_or_else(|error| {
            if !matches!(error, ProgramError::Stopped | ProgramError::TimeOver) {
                lock(&self.failure).get_or_insert(error);
                self.is_over.store(true, Ordering::Relaxed);
            }
            Err("recovery cannot be run".into())
        })
    }

    /// As [`recover`](ExploredProgram::recover); an error if it cannot be run.
    fn try_recovery(&self, image: &CrashImage) -> Result<Result<(), String>, ProgramError> {
        let done = self.checks.ask(&Task::Recover(image.assumed()))?;
        self.note_missing(&done);
        let failed = |what| self.how.failed(Role::Check, what, Vec::new());
        if let Some((place, _)) = done.unseen.first() {
            return Err(failed(format!(
                "changes {place} by code that `seawall cc` did not compile: compile that code, too"
            )));
        }
        let sites = done.accesses.iter().map(|access| access.site);
        self.checks.learn(&self.lines, &done.chains, sites);
        let mut last = None;
        for access in &done.accesses {
            if last.replace(access.site) != Some(access.site) {
                image.at(self.checks.named(access.site));
            }
            perform(image, access.did).map_err(failed)?;
        }
        Ok(self.verdict(&done))
    }

    /// Whether the recovery says that the image is sound.
    fn verdict(&self, done: &Done) -> Result<(), String> {
        let said = last_line(&done.said);
        match &done.end {
            End::Exit(0) => Ok(()),
            End::Exit(code) if said.is_empty() => Err(format!("the check returned {code}")),
            End::Exit(code) => Err(format!("the check returned {code}: {said}")),
            end => {
                let place = self.how.place_in_check(end, &self.lines);
                Err(format!("recovery {}{place}", end.in_words(self.how.seconds)))
            }
        }
    }

    fn note_missing(&self, done: &Done) {
        if !done.missing.is_empty() {
            lock(&self.missing).extend(done.missing.iter().cloned());
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// Does to the image what recovery did; an error if it read something else there.
fn perform(image: &CrashImage, did: Did) -> Result<(), String> {
    match did {
        Did::Read(at, width, value) => {
            let found = image.load_bits(at, width);
            if found != value {
                return Err(format!(
                    "reads {value:#x} at {at} of an image that has {found:#x} there: this is a bug \
                     of seawall"
                ));
            }
        }
        Did::Wrote(at, width, value) => image.store_bits(at, width, value),
        Did::WroteBits(at, mask, value) => {
            let old = image.load_bits(at, Width::B8);
            image.store_bits(at, Width::B8, old & !mask | value & mask);
        }
        Did::Streamed(at, bytes, value) => {
            image.write_nt(at, &value.to_le_bytes()[..usize::from(bytes)]);
        }
        Did::StreamedLine(at, words) => image.write_line(at, words),
        Did::BeganWrite(words) => image.begin_write(words as usize),
        Did::EndedWrite => image.end_write(),
        Did::Locked(at, value) => drop(image.swap(at, value)),
        Did::LockedElsewhere => drop(image.swap(Addr::dram(0), 1)),
        Did::Flushed(at) => image.flush(at, 64),
        Did::Fenced(fence) => image.fence(fence),
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn last_line(said: &str) -> String {
    said.lines().last().unwrap_or_default().chars().take(SAID_SHOWN).collect()
}

/// The last line of it, as the end of a message.
fn after_colon(said: &str) -> String {
    match last_line(said) {
        said if said.is_empty() => said,
        said => format!(": {said}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Run,
    Check,
}

impl ProgramAndCheck {
    fn servers_of(
        &self,
        role: Role,
        pages: &[PoolPage],
        dram_bytes: u64,
    ) -> Result<Servers, ProgramError> {
        Servers::start(self.servers, |n| self.server(role, n, pages, dram_bytes))
    }

    fn server(
        &self,
        role: Role,
        number: usize,
        pages: &[PoolPage],
        dram_bytes: u64,
    ) -> Result<Server, ProgramError> {
        let (name, half, template) = match role {
            Role::Run => ("run", &self.program, self.before.clone()),
            Role::Check => ("check", &self.check, self.after()),
        };
        let folder = self.folder.join(format!("{name}-{number:04}"));
        let pools = folder.join("files");
        let pool = pool_in(&pools).display().to_string();
        let serving = Serving {
            start: half.start.with_pool(&pool),
            fences: self.fences,
            from: if role == Role::Run { self.from } else { From::Start },
            folder: pools,
            template,
            input: half.input.clone(),
            said: folder.join("said"),
            pages: pages.to_vec(),
            layout: (role == Role::Check).then_some(self.layout),
            dram_bytes,
            seconds: self.seconds,
        };
        fs::create_dir_all(&folder).map_err(|error| failed("cannot make a folder", error))?;
        Server::start(&self.server, &serving, &folder, &self.limit)
    }

    /// The folder with the pools' files as a run leaves them: their stores are in none.
    fn after(&self) -> PathBuf {
        self.folder.join("after")
    }

    fn failed(&self, role: Role, what: String, places: Vec<Place>) -> ProgramError {
        let half = if role == Role::Run { &self.program } else { &self.check };
        ProgramError::Failed { program: half.start.in_words(), what, places }
    }

    /// Where the check was when it ended like this, as the end of a message.
    fn place_in_check(&self, end: &End, lines: &SiteLines) -> String {
        let End::Failed(_, places) = end else { return String::new() };
        let Some(callers) = places.first().map(|place| &place.callers[..]) else {
            return String::new();
        };
        let lines = lines(&self.check.start.image, callers);
        let is_own = |line: &&SourceLine| line.line > 0 && !line.file.starts_with(SUPPORT_FOLDER);
        let known: Vec<String> = lines.iter().filter(is_own).map(SourceLine::to_string).collect();
        if known.is_empty() { String::new() } else { format!(", at {}", known.join(" < ")) }
    }

    /// The trace of a run that ended as it should.
    fn trace_of(&self, done: Done) -> Result<Trace, ProgramError> {
        let Done { end, trace, unseen, said, .. } = done;
        if let Some((place, site)) = unseen.first() {
            let words = unseen.len();
            let what = format!(
                "changes {words} words of persistent memory by code that `seawall cc` did not \
                 compile, so that a crash could not lose or reorder them; compile that code, too; \
                 the first is {place}, found"
            );
            let found = |site| vec![Place { thread: 0, callers: vec![site], does: None }];
            return Err(match *site {
                0 => self.failed(Role::Run, what + " at the end", Vec::new()),
                site => self.failed(Role::Run, what, found(site)),
            });
        }
        match (end, trace) {
            (End::Exit(code), Some(trace)) if code == self.exit_code => Ok(trace),
            (End::Exit(code), _) => {
                let program = self.program.start.in_words();
                Err(ProgramError::Returned { program, code, said: after_colon(&said) })
            }
            (End::Failed(what, places), _) => Err(self.failed(Role::Run, what, places)),
            (end, _) => {
                let what = end.in_words(self.seconds) + &after_colon(&said);
                Err(self.failed(Role::Run, what, Vec::new()))
            }
        }
    }
}

/// What a first run and its check show.
struct Tried {
    start: Arc<[u8]>,
    threads: usize,
    /// Bytes of memory that a run may need, and its check.
    dram_bytes: [u64; 2],
    missing: Vec<PoolPage>,
}

/// Pages by file and offset; those of one small file without gaps, so that addresses are offsets in
/// it.
fn put_in_order(pages: &mut Vec<PoolPage>) {
    pages.sort();
    pages.dedup();
    if let [first, .., last] | [first @ last] = &pages[..]
        && first.file == last.file
        && last.offset < SMALL_BYTES
    {
        let file = first.file.clone();
        let offsets = (0..=last.offset).step_by(PAGE as usize);
        *pages = offsets.map(|offset| PoolPage { file: file.clone(), offset }).collect();
    }
}

/// Bytes that may be needed where so many were.
fn with_more(bytes: u64) -> u64 {
    (2 * bytes + DRAM_MORE).next_multiple_of(PAGE)
}

impl Tried {
    /// Tries until all pages are listed that are stored to.
    fn with_all(
        how: &ProgramAndCheck,
        lines: &SiteLines,
        pages: &mut Vec<PoolPage>,
    ) -> Result<Tried, ProgramError> {
        for _ in 0..ROUNDS {
            how.limit.check()?;
            let mut tried = Tried::new(how, lines, pages)?;
            if tried.missing.is_empty() {
                return Ok(tried);
            }
            pages.append(&mut tried.missing);
            put_in_order(pages);
        }
        let what = "stores to other pages each time that it runs".to_owned();
        Err(how.failed(Role::Run, what, Vec::new()))
    }

    fn new(
        how: &ProgramAndCheck,
        lines: &SiteLines,
        pages: &[PoolPage],
    ) -> Result<Tried, ProgramError> {
        let io = |error: io::Error| failed("cannot keep the files of a run", error);
        let mut server = how.server(Role::Run, 0, pages, DRAM_BYTES)?;
        let turns = Turns::Chosen(Vec::new());
        let schedule = Schedule { threads: THREADS, turns, ..Schedule::default() };
        let done = server.ask(&Task::Record(schedule))?;
        let threads = done.threads.max(1);
        let mut dram_bytes = [with_more(done.dram_bytes), DRAM_BYTES];
        let mut missing = done.missing.clone();
        let trace = how.trace_of(done)?;
        if missing.is_empty() && pages.is_empty() {
            return Err(how.failed(Role::Run, STORES_NOTHING.into(), Vec::new()));
        }
        let files = how.folder.join("run-0000").join("files");
        if how.after().exists() {
            fs::remove_dir_all(how.after()).map_err(io)?;
        }
        copy_all(&files, &how.after(), &|| how.limit.check())?;
        let start = contents(&how.after(), pages).map_err(io)?;
        if missing.is_empty() {
            let mut server = how.server(Role::Check, 0, pages, DRAM_BYTES)?;
            let last: BTreeMap<u64, u64> = trace.last_words().collect();
            let words = last.into_iter().map(|(word, value)| (Addr::pm(8 * word), value));
            let done = server.ask(&Task::Recover(words.collect()))?;
            missing.extend(done.missing.clone());
            dram_bytes[1] = with_more(done.dram_bytes);
            if missing.is_empty() && done.end != End::Exit(0) {
                let (place, said) = (how.place_in_check(&done.end, lines), after_colon(&done.said));
                let comma = if place.is_empty() { "" } else { "," };
                let end = done.end.in_words(how.seconds) + &place + comma;
                let what = format!("{end} on what the program leaves without a crash{said}");
                return Err(how.failed(Role::Check, what, Vec::new()));
            }
        }
        Ok(Tried { start, threads, dram_bytes, missing })
    }
}

/// What is in these pages of files: zeros where a file is shorter.
fn contents(folder: &Path, pages: &[PoolPage]) -> io::Result<Arc<[u8]>> {
    let mut bytes = Vec::new();
    for page in pages {
        bytes.extend(page_of(&File::open(folder.join(&page.file))?, page.offset)?);
    }
    bytes.resize(bytes.len().max(PAGE as usize), 0);
    Ok(bytes.into())
}
