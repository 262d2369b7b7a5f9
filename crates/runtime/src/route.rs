//! The route of log records to the log: through the caches, or past them.
//!
//! "Logging in Persistent Memory: to Cache, or Not to Cache?" (MEMSYS'17) compares both. A cached
//! record is stored and written back: it reads its lines first, and evicts other data from the
//! caches. An uncached record goes past them: it needs whole lines, and the next reader waits.
//! Which one is cheaper depends on the processor, the memory and the program, so [`RouteChoice`]
//! has both as fixed modes and a third mode that measures.
//!
//! The measurement is an [A/B test](AbTest) of the two paths. A window lasts from a fence to a
//! fence some records later, because a record costs more than its own write: the program pays for
//! evicted lines afterwards. Each change of path begins with a run-in. Sizes (1, 2, 3 to 4, 5 to 8
//! lines, ...) are measured one at a time, then not again for 16 to 512 times as many records. The
//! run-in is a whole lap when the log is short and overwritten again and again, since lines that
//! one path left behind make the other one dearer.
//!
//! Two effects are not measured: pollution that builds up over many more records than a window has,
//! and the state of lines in a log whose lap is longer than [`LAP_MAX`] records.

use crate::AbTest;
use seawall_memory::{Addr, Clock, LINE_BYTES, Memory, MemoryExt};
use std::fmt;
use std::str::FromStr;

/// Records in a timed window.
const WINDOW: u32 = 32;
/// Untimed records before a window by another path than the previous one.
const RUN_IN: u32 = 8;
/// Maximum pairs of windows in a measurement.
const PAIRS: usize = 9;
/// Pairs after which it ends if all windows of one path are a quarter above all of the other.
const PAIRS_CLEAR: usize = 2;
/// Pairs after which it ends if all windows of one path are above all of the other.
const PAIRS_APART: usize = 5;
/// Pairs of a whole measurement that the other path must win: where noise is as large as the
/// difference, nothing changes.
const PAIRS_WON: usize = 7;
/// Records of a size before its first measurement.
const FIRST: u64 = 16;
/// Records between two measurements, as a multiple of those of a measurement.
const REST: u64 = 16;
const REST_CLEAR: u64 = 64;
const REST_MAX: u64 = 512;
/// The longest lap that a run-in covers.
const LAP_MAX: u32 = 1024;
/// Records of other sizes after which a measurement is given up.
const PATIENCE: u32 = 4096;
/// Sizes: class c has up to 2^c lines, the last one all longer records.
const CLASSES: usize = 12;
/// The resolution of prices: parts of the clock's unit, per record.
const FINE: u64 = 16;

/// The route of log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteChoice {
    /// Through the caches: stored, then written back.
    Cached,
    /// Past the caches, in whole lines.
    Uncached,
    /// The path that was measured to be cheaper, for each size; uncached where there is no clock.
    Adaptive,
}

impl RouteChoice {
    /// All of them.
    pub const ALL: [RouteChoice; 3] =
        [RouteChoice::Cached, RouteChoice::Uncached, RouteChoice::Adaptive];

    /// The name in options and output.
    pub const fn name(self) -> &'static str {
        match self {
            RouteChoice::Cached => "cached",
            RouteChoice::Uncached => "uncached",
            RouteChoice::Adaptive => "adaptive",
        }
    }
}

impl fmt::Display for RouteChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`RouteChoice`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no log route '{name}'; known: cached, uncached, adaptive")]
pub struct UnknownRoute {
    /// The given name.
    pub name: String,
}

impl FromStr for RouteChoice {
    type Err = UnknownRoute;

    fn from_str(name: &str) -> Result<RouteChoice, UnknownRoute> {
        let known = RouteChoice::ALL.into_iter().find(|choice| choice.name() == name);
        known.ok_or_else(|| UnknownRoute { name: name.into() })
    }
}

/// The records that took a [`Route`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// Records through the caches.
    pub cached_records: u64,
    /// Lines of those.
    pub cached_lines: u64,
    /// Records past the caches.
    pub uncached_records: u64,
    /// Lines of those.
    pub uncached_lines: u64,
    /// How often a measurement changed the path of a size.
    pub switches: u64,
    /// Records of sizes that were being measured; about half took the other path.
    pub measured_records: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Cached,
    Uncached,
}

impl Path {
    fn other(self) -> Path {
        if self == Path::Cached { Path::Uncached } else { Path::Cached }
    }
}

/// Records of a similar size.
#[derive(Clone, Copy, Debug)]
struct Class {
    path: Path,
    /// Records until the next measurement.
    due: u64,
    /// The last pause, as a multiple of the records of the measurement.
    rest: u64,
}

/// A measurement under way: an A/B test of the path in use and the other one.
#[derive(Clone, Copy, Debug)]
struct Trial {
    class: usize,
    test: AbTest<PAIRS>,
    run_in: u32,
    /// Records of the class in this window, or run-in.
    records: u32,
    /// When the window began; `None` during the run-in.
    began: Option<u64>,
    spent: u64,
    patience: u32,
}

/// One thread's route to its log: plain volatile data.
///
/// A crash leaves any part of a record before the next order or drain, and all of it afterwards, as
/// the seam states for [`write`](Memory::write) with [`flush`](Memory::flush), and for
/// [`write_nt`](Memory::write_nt).
#[derive(Clone, Debug)]
pub struct Route {
    choice: RouteChoice,
    classes: [Class; CLASSES],
    trial: Option<Trial>,
    /// The class to measure next.
    due: Option<usize>,
    has_no_time: bool,
    last_at: Addr,
    since_wrap: u32,
    lap: u32,
    counts: RouteCounts,
}

impl Route {
    /// Creates a route that has measured nothing yet.
    pub fn new(choice: RouteChoice) -> Route {
        Route {
            choice,
            classes: [Class { path: Path::Uncached, due: FIRST, rest: REST }; CLASSES],
            trial: None,
            due: None,
            has_no_time: false,
            last_at: Addr::NULL,
            since_wrap: 0,
            lap: 0,
            counts: RouteCounts::default(),
        }
    }

    /// The given choice.
    pub fn choice(&self) -> RouteChoice {
        self.choice
    }

    /// Records and lines by each path so far.
    pub fn counts(&self) -> RouteCounts {
        self.counts
    }

    /// Writes a record of whole lines at the line-aligned `at`, without a fence: it is durable
    /// after the next [`order`](MemoryExt::order) or [`drain`](MemoryExt::drain) of the thread.
    ///
    /// # Panics
    /// In debug builds, if `at` or the length is not a multiple of a line.
    #[track_caller]
    pub fn write<M: Memory>(&mut self, memory: &M, at: Addr, lines: &[u8]) {
        let bytes = lines.len() as u64;
        debug_assert!(at.offset().is_multiple_of(LINE_BYTES) && bytes.is_multiple_of(LINE_BYTES));
        let path = match self.choice {
            RouteChoice::Cached => Path::Cached,
            RouteChoice::Uncached => Path::Uncached,
            RouteChoice::Adaptive => self.pick(at, bytes / LINE_BYTES),
        };
        match path {
            Path::Cached => {
                memory.write(at, lines);
                memory.flush(at, bytes);
                self.counts.cached_records += 1;
                self.counts.cached_lines += bytes / LINE_BYTES;
            }
            Path::Uncached => {
                memory.write_nt(at, lines);
                self.counts.uncached_records += 1;
                self.counts.uncached_lines += bytes / LINE_BYTES;
            }
        }
    }

    /// To be called after the fence that follows one or more records.
    #[inline]
    pub fn fenced<M: Memory>(&mut self, memory: &M) {
        if self.trial.is_some() {
            self.step(memory);
        } else if let Some(class) = self.due.take() {
            self.begin(class);
        }
    }

    #[inline]
    fn pick(&mut self, at: Addr, lines: u64) -> Path {
        if self.has_no_time {
            return Path::Uncached;
        }
        self.since_wrap = self.since_wrap.saturating_add(1);
        if at <= self.last_at {
            self.lap = self.since_wrap;
            self.since_wrap = 0;
        }
        self.last_at = at;
        let class = class_of(lines);
        if let Some(trial) = &mut self.trial {
            if trial.class == class {
                trial.records += 1;
                trial.spent += 1;
                self.counts.measured_records += 1;
                let path = self.classes[class].path;
                return if trial.test.is_other() { path.other() } else { path };
            }
            trial.patience = trial.patience.saturating_sub(1);
        }
        let class_state = &mut self.classes[class];
        class_state.due = class_state.due.saturating_sub(1);
        if class_state.due == 0 {
            self.due = Some(class);
        }
        class_state.path
    }

    fn begin(&mut self, class: usize) {
        self.trial = Some(Trial {
            class,
            test: AbTest::default(),
            run_in: 0,
            records: 0,
            began: None,
            spent: 0,
            patience: PATIENCE,
        });
    }

    /// Handles a fence during a measurement: begins a window, ends one, or neither.
    fn step<M: Memory>(&mut self, memory: &M) {
        let Some(mut trial) = self.trial.take() else { return };
        if trial.patience == 0 {
            self.classes[trial.class].due = u64::from(PATIENCE);
            return;
        }
        let Some(began) = trial.began else {
            if trial.records >= trial.run_in {
                let now = memory.clock().map(|clock| clock.now());
                self.has_no_time = now.is_none();
                (trial.began, trial.records) = (now, 0);
            }
            self.trial = Some(trial).filter(|_| !self.has_no_time);
            return;
        };
        if trial.records < WINDOW {
            self.trial = Some(trial);
            return;
        }
        let now = memory.now();
        let was_other = trial.test.is_other();
        let price = now.saturating_sub(began) * FINE / u64::from(trial.records);
        trial.test.record(price as f64);
        if let Some(verdict) = trial.verdict() {
            self.decide(&trial, verdict);
            return;
        }
        trial.records = 0;
        trial.began = Some(now);
        if trial.test.is_other() != was_other {
            trial.run_in = if self.lap > LAP_MAX { RUN_IN } else { self.lap.max(RUN_IN) };
            trial.began = None;
        }
        self.trial = Some(trial);
    }

    fn decide(&mut self, trial: &Trial, verdict: Verdict) {
        let class = &mut self.classes[trial.class];
        if verdict.other_is_cheaper {
            class.path = class.path.other();
            class.rest = REST / 2;
            self.counts.switches += 1;
        }
        let least = if verdict.is_clear { REST_CLEAR } else { REST };
        class.rest = (2 * class.rest).clamp(least, REST_MAX);
        class.due = trial.spent * class.rest;
    }
}

/// The outcome of a measurement.
#[derive(Clone, Copy)]
struct Verdict {
    other_is_cheaper: bool,
    is_clear: bool,
}

impl Trial {
    /// Returns the outcome, when there are enough windows.
    fn verdict(&self) -> Option<Verdict> {
        let sorted = self.test.sorted();
        let [own, other] = sorted.pairs()?;
        let pairs = own.len();
        if pairs < PAIRS_CLEAR {
            return None;
        }
        let is_below = |low: &[f64], high: &[f64], by: f64| low[pairs - 1] * by < high[0] * 4.0;
        let is_clear = is_below(own, other, 5.0) || is_below(other, own, 5.0);
        let is_apart = is_below(own, other, 4.0) || is_below(other, own, 4.0);
        let is_over = is_clear || is_apart && pairs >= PAIRS_APART || pairs == PAIRS;
        if !is_over {
            return None;
        }
        let [own, other] = self.test.medians();
        // Three per cent are not worth a change.
        let other_is_cheaper = self.test.won() >= PAIRS_WON.min(pairs) && other * 33.0 < own * 32.0;
        Some(Verdict { other_is_cheaper, is_clear })
    }
}

/// The number of the size: 1, 2, 3 to 4, 5 to 8 lines, ...
fn class_of(lines: u64) -> usize {
    let class = u64::BITS - lines.saturating_sub(1).leading_zeros();
    (class as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests;
