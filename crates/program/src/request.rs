//! What the process that runs a program is asked, and what it answers: files of JSON.

use crate::explore::Serving;
use crate::folder::{Asker, CRASHED, FILES, Roots};
use seawall_ribbon::{RibbonCounts, RibbonOptions};
use seawall_sim::{Counters, Cycle, RunDetail, RunTimeline, SiteTime, Stalls, TimelineWindow};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The file of the request, in the folder of a run.
pub(crate) const REQUEST: &str = "request.json";
/// The file of the answer.
pub(crate) const ANSWER: &str = "answer.json";
/// The file of the timeline, which is too large for the answer.
pub(crate) const TIMELINE: &str = "timeline";
/// Bytes of a page of the host.
pub(crate) const PAGE: u64 = 4096;

/// What of the program's memory is persistent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Persistent {
    /// Shared mappings of files, and what the program declares.
    #[default]
    Files,
    /// The heap and anonymous mappings too.
    Heap,
    /// All of it, stacks included.
    All,
}

/// What the program's `sfence` asks of a machine that has two fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fences {
    /// That what came before persists first (`ofence` on HOPS).
    #[default]
    Order,
    /// That what came before is durable (`dfence`).
    Drain,
}

/// When measuring begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// With `main`, or where the program says so.
    #[default]
    Start,
    /// With the first thread that it starts, or where the program says so.
    Threads,
}

/// A crash to inject: so many cycles after a number of words stored, to persistent memory for a
/// check and to any memory for cuts.
pub type CrashAfter = (u64, Cycle);

/// What crashes are held to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judge {
    /// There are none.
    #[default]
    Nobody,
    /// A command that gets the path of a pool that the crash has left in place of `{pool}`.
    Check {
        /// The command, word by word.
        command: Vec<String>,
        /// Seconds that it may take.
        seconds: u64,
    },
    /// The recording of the run: what is left must be a consistent cut of it.
    Cuts,
}

/// What a process is asked for, and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) by: Asker,
    pub(crate) task: Task,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Task {
    /// One run on a simulated machine.
    Run(Box<Request>),
    /// Many runs, for an exploration.
    Explore(Serving),
    /// One run of a program as it is.
    Natively(Native),
}

/// A program as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Native {
    pub(crate) path: PathBuf,
    /// Its words, but for the first.
    pub(crate) words: Vec<String>,
    /// The folder of its files.
    pub(crate) files: PathBuf,
}

impl Task {
    /// Where its files are.
    pub(crate) fn roots(&self) -> Roots {
        let one = |folder: &PathBuf| Roots { own: folder.clone(), others: folder.clone() };
        match self {
            Task::Run(request) => {
                Roots { own: request.folder.join(FILES), others: request.folder.join(CRASHED) }
            }
            Task::Explore(serving) => one(&serving.folder),
            Task::Natively(native) => one(&native.files),
        }
    }
}

/// A program and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The instrumented image.
    pub image: PathBuf,
    /// The function that is called with the first word, instead of `main` with all of them.
    pub entry: Option<String>,
    /// The words of the command, the program's name first; `{pool}` stands for the pool.
    pub words: Vec<String>,
}

impl Start {
    /// With the path of a pool.
    #[must_use]
    pub fn with_pool(&self, pool: &str) -> Start {
        let words = self.words.iter().map(|word| word.replace("{pool}", pool)).collect();
        Start { words, ..self.clone() }
    }

    /// As messages name it.
    pub(crate) fn in_words(&self) -> String {
        match &self.entry {
            Some(entry) => format!("{entry}()"),
            None => self.words.join(" "),
        }
    }
}

/// One run of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What is run.
    pub start: Start,
    /// The machine: its name, or the path of a file.
    pub machine: String,
    /// The design with its parameters.
    pub design: String,
    /// A Ribbon for the threads of the program, if there is one: for as many as cores are left.
    pub ribbon: Option<RibbonOptions>,
    /// What is persistent.
    pub persistent: Persistent,
    /// What a fence asks.
    pub fences: Fences,
    /// When measuring begins.
    pub from: From,
    /// Crashes, in any order.
    pub crashes: Vec<CrashAfter>,
    /// What they are held to.
    pub judge: Judge,
    /// A folder of this run, with a folder `files` for the program's.
    pub folder: PathBuf,
    /// Most cycles.
    pub cycles_max: Cycle,
    /// Whether to tell where in the program the cycles go.
    pub has_profile: bool,
    /// Whether to tell latencies, the fill of queues, and what each core did.
    pub has_detail: bool,
    /// The timeline to record, if one is wanted.
    pub timeline: Option<Timed>,
}

/// The timeline of a run that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// The part of what is measured.
    pub window: TimelineWindow,
    /// Most bytes that it may take in a file.
    pub bytes_max: u64,
}

/// A crash that broke the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenCrash {
    /// When it was.
    pub cycle: Cycle,
    /// What the check said, or what is wrong with the cut.
    pub what: String,
}

/// A store that was not seen: where it went, and the instruction that found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenStore {
    /// The file and the offset in it, or the address.
    pub place: String,
    /// The address of the instruction in the image.
    pub found_at: u64,
}

/// An instruction of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CodeAddress {
    /// The file of the image, or of a library that comes with it.
    pub module: PathBuf,
    /// Its address there, or that of the one behind it.
    pub offset: u64,
}

/// The cycles of all threads that went to one place in the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceTime {
    /// Behind the access; `None` for what is at no place, as idle time is.
    pub at: Option<CodeAddress>,
    /// Where the program has called the support library, if the place is in that.
    pub caller: Option<CodeAddress>,
    /// The function that it has called there, if that can be told.
    pub called: Option<CodeAddress>,
    /// The user's calls that led there, the innermost first.
    pub callers: Vec<CodeAddress>,
    /// Cycles, by what they went to, and counts.
    pub time: SiteTime,
}

/// How often a program asked for its stores to be durable, or ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asks {
    /// Lines that it flushed.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// What the program returned.
    pub exit_code: i32,
    /// Cycles of the region that was measured.
    pub cycles: Cycle,
    /// Stalled cycles by reason, all cores that ran a thread together.
    pub stalls: Stalls,
    /// The counters.
    pub counters: Counters,
    /// What the Ribbon did in all of the run, if there was one.
    pub ribbon: Option<RibbonCounts>,
    /// Cores that ran a thread at some time.
    pub cores: usize,
    /// Threads that the program started, `main` included.
    pub threads: u64,
    /// Instructions that it ran, of all threads.
    pub instructions: u64,
    /// Crashes that were judged.
    pub crashes: u64,
    /// Stores in all cuts, if cuts were judged.
    pub stores_in_cuts: u64,
    /// Those that broke it.
    pub broken: Vec<BrokenCrash>,
    /// Words stored: to all memory, and to persistent memory.
    pub stored: [u64; 2],
    /// Flushes of persistent memory, and fences, that the program asked for; those of functions
    /// that stand for the C library's too. The same whatever the design makes of them.
    pub asked: Asks,
    /// Stores past the caches to persistent memory that the machine took for ordinary ones: no
    /// fence makes them durable.
    pub ordinary: u64,
    /// Stores to persistent memory that no instrumented instruction made.
    pub unseen: u64,
    /// The first of them.
    pub unseen_stores: Vec<UnseenStore>,
    /// Flushes of what another thread had stored, by a thread that had not read it, on hardware
    /// that has no flushes.
    pub unread_flushes: Option<UnreadFlushes>,
    /// Loads that had to be shown an older value than the newest store.
    pub raced: u64,
    /// Bytes of persistent and of other memory that it touched.
    pub touched: [u64; 2],
    /// Where the cycles of all threads went, if that was asked for.
    pub profile: Option<Vec<PlaceTime>>,
    /// Latencies, queues, and the cores that ran a thread, if that was asked for.
    pub detail: Option<RunDetail>,
    /// What happened when, if that was asked for: on the cores that ran a thread.
    #[serde(skip)]
    pub timeline: Option<RunTimeline>,
    /// CPU time of the host in nanoseconds.
    pub host_nanoseconds: u64,
}

/// Such flushes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadFlushes {
    /// How many.
    pub count: u64,
    /// The address in the image behind the first of them.
    pub first: u64,
}

/// Where a thread of the program is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The thread's number; `main` is 0.
    pub thread: usize,
    /// The address in the image, and those behind calls that led there, as far as can be told.
    pub callers: Vec<u64>,
    /// What it does there on the machine, if that is why the program has no end.
    pub does: Option<String>,
}

/// The answer of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It ran to its end.
    Ran(Box<Ran>),
    /// Nothing more is asked.
    Served,
    /// It could not.
    Failed {
        /// Why: what the program does.
        what: String,
        /// Where its threads are.
        places: Vec<Place>,
    },
}
