//! What a program of the corpus is: setup, run, recovery and judgement, and words about its bug.

use seawall_explore::{CrashImage, Model, RunError, Schedule, Trace, record};
use seawall_memory::{Image, Memory};
use serde::Serialize;
use std::fmt;

/// What recovery found, as words whose meaning only the program knows.
pub type Found = Vec<u64>;

/// What kind of mistake a bug is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BugKind {
    /// A flush is missing or flushes something else (F).
    Flush,
    /// A fence is missing (N).
    Fence,
    /// Two persists come in the wrong order (O).
    Order,
    /// Several writes must land together and do not (A).
    Atomicity,
    /// Recovery is wrong (R).
    Recovery,
    /// Memory is lost for ever (L).
    Leak,
    /// A value is stored in parts (T).
    Tearing,
    /// One thread builds on what another has not made durable (C).
    Threads,
    /// A log entry is missing, or is written wrongly (V).
    Log,
}

impl BugKind {
    /// Every kind.
    pub const ALL: [BugKind; 9] = [
        BugKind::Flush,
        BugKind::Fence,
        BugKind::Order,
        BugKind::Atomicity,
        BugKind::Recovery,
        BugKind::Leak,
        BugKind::Tearing,
        BugKind::Threads,
        BugKind::Log,
    ];

    /// The letter of lists of such bugs: F N O A R L T C V.
    pub const fn letter(self) -> char {
        match self {
            BugKind::Flush => 'F',
            BugKind::Fence => 'N',
            BugKind::Order => 'O',
            BugKind::Atomicity => 'A',
            BugKind::Recovery => 'R',
            BugKind::Leak => 'L',
            BugKind::Tearing => 'T',
            BugKind::Threads => 'C',
            BugKind::Log => 'V',
        }
    }
}

impl fmt::Display for BugKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// Words about a case, and what it takes to see its bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct About {
    /// The name, as `ff-8`: a prefix for the origin and the number of the list it is from.
    pub name: &'static str,
    /// The kind of mistake.
    pub kind: BugKind,
    /// What goes wrong, in one line.
    pub what: &'static str,
    /// Where it is documented: project, place, commits or issue, finder.
    pub source: &'static str,
    /// Threads that run it.
    pub threads: usize,
    /// True if the bug shows under buffered epoch persistency too.
    pub epochs_too: bool,
    /// True if it only shows when recovery is itself cut short by a crash.
    pub needs_nested: bool,
}

impl About {
    /// One thread, seen under Px86, without a crash of recovery.
    pub const fn new(
        name: &'static str,
        kind: BugKind,
        what: &'static str,
        source: &'static str,
    ) -> About {
        About { name, kind, what, source, threads: 1, epochs_too: false, needs_nested: false }
    }

    /// The bug shows under buffered epoch persistency too.
    #[must_use]
    pub const fn epochs_too(mut self) -> About {
        self.epochs_too = true;
        self
    }

    /// The bug needs a crash of recovery.
    #[must_use]
    pub const fn nested(mut self) -> About {
        self.needs_nested = true;
        self
    }

    /// `threads` threads run it.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> About {
        self.threads = threads;
        self
    }

    /// The models under which the broken program must be found.
    pub fn models(&self) -> &'static [Model] {
        if self.epochs_too { &[Model::Px86, Model::Bep] } else { &[Model::Px86] }
    }
}

/// A program with one documented bug, written once for the broken and the fixed form.
pub trait Program: Copy + Send + Sync + 'static {
    /// Words about it.
    fn about(&self) -> About;

    /// Bytes of persistent memory it needs.
    fn pool_bytes(&self) -> u64 {
        4096
    }

    /// Bytes of volatile memory it needs.
    fn dram_bytes(&self) -> u64 {
        512
    }

    /// Fills the pool; all of it is durable before [`run`](Program::run) starts. Memory starts
    /// zeroed.
    fn setup<M: Memory>(&self, _memory: &M) {}

    /// What thread `memory.thread()` does. Each operation ends with an output.
    fn run<M: Memory>(&self, memory: &M, fixed: bool);

    /// Recovery after a crash, and the invariants that hold whatever was completed. It may write,
    /// and may be cut short by a crash and started again.
    ///
    /// # Errors
    /// What is wrong with the image, in words.
    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String>;

    /// Parts of what recovery leaves that can be looked at apart.
    fn parts(&self) -> usize {
        1
    }

    /// As [`recover`](Program::recover), but looks only at one part, from 0, of what is left.
    ///
    /// # Errors
    /// What is wrong with that part, in words.
    fn recover_part<M: Memory>(&self, memory: &M, fixed: bool, _: usize) -> Result<Found, String> {
        self.recover(memory, fixed)
    }

    /// Whether what recovery found has all that was promised: `promised[t]` operations of thread
    /// `t` had completed durably.
    ///
    /// # Errors
    /// What is missing, in words.
    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String>;
}

/// A [`Program`] on the explorer's machines: what the table of all cases holds.
pub trait Case: Sync {
    /// Words about it.
    fn about(&self) -> About;

    /// Records one run of all its threads; `schedule.threads` is taken from the case.
    ///
    /// # Errors
    /// When the run deadlocks, does not end, or panics.
    fn record(&self, fixed: bool, schedule: &Schedule) -> Result<Trace, RunError>;

    /// Parts of what recovery leaves that can be looked at apart.
    fn parts(&self) -> usize;

    /// Runs recovery on a crash image, and looks at one part of what it left.
    ///
    /// # Errors
    /// What is wrong with that part.
    fn recover(&self, image: &CrashImage, fixed: bool, part: usize) -> Result<Found, String>;

    /// Judges what recovery found.
    ///
    /// # Errors
    /// What is missing.
    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String>;
}

impl<C: Case + ?Sized> Case for &C {
    fn about(&self) -> About {
        (**self).about()
    }

    fn record(&self, fixed: bool, schedule: &Schedule) -> Result<Trace, RunError> {
        (**self).record(fixed, schedule)
    }

    fn parts(&self) -> usize {
        (**self).parts()
    }

    fn recover(&self, image: &CrashImage, fixed: bool, part: usize) -> Result<Found, String> {
        (**self).recover(image, fixed, part)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        (**self).judge(found, promised)
    }
}

/// Puts a program into the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry<P>(pub P);

impl<P: Program> Case for Entry<P> {
    fn about(&self) -> About {
        self.0.about()
    }

    fn record(&self, fixed: bool, schedule: &Schedule) -> Result<Trace, RunError> {
        let program = self.0;
        let start = Image::new(program.pool_bytes(), program.dram_bytes());
        program.setup(&start);
        let schedule = Schedule { threads: program.about().threads, ..schedule.clone() };
        record(start, &schedule, move |memory| program.run(memory, fixed))
    }

    fn parts(&self) -> usize {
        self.0.parts()
    }

    fn recover(&self, image: &CrashImage, fixed: bool, part: usize) -> Result<Found, String> {
        self.0.recover_part(image, fixed, part)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        self.0.judge(found, promised)
    }
}
