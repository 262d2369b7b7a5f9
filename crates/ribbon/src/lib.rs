//! Ribbon: cache-line flushes by other threads, and none for lines that are known clean.
//!
//! "Ribbon: High Performance Cache Line Flushing for Persistent Memory" (Wu, Peng, Ren, Li,
//! PACT'20): threads put their flushes into a FIFO of their own and go on; flusher threads take
//! them out and execute them; at a fence a thread waits until all of its own are flushed and
//! fenced. How many flushers there are follows the bandwidth that they reach ([`estimate`]). It is
//! software above the seam: [`RibbonMemory`] wraps a thread's handle and is a `Memory` itself, and
//! what a crash may leave is what the seam says, no more. A machine on which flushing costs a
//! thread nothing until its fence gains nothing by flushers: [`Mode::Auto`] finds out.
//!
//! **The FIFO** of a thread is three words, each on a line of its own, and a ring of addresses.
//! `pushed` counts what the owner put in. `claimed` counts what has been taken on: flushers and
//! owner advance it by compare-and-exchange, and the one that succeeds executes that part. `done`
//! counts what flushers have flushed *and fenced* (a write-back is only ordered by a fence of the
//! thread that ran it). A fence of the owner takes on whatever is left, and then waits for `done`,
//! so without a flusher nothing hangs, and the owner does everything. Slots are not used again
//! before all of the FIFO is done; if it is full, the owner flushes by itself.
//!
//! **A flusher that dies**, or stayed behind in the parent of a fork: an owner out of patience
//! flushes everything since its last fence once more, which does no harm, and begins a new
//! *generation*, the upper 16 bits of `claimed` and `done`. A thread that still works
//! for an old one finds its compare-and-exchange refused: it can neither claim nor count.
//!
//! **Skipped flushes** (option `early`: [`EarlyStores::Hook`]). A thread hands lines that it has
//! stored to, and left, to the flushers of its own accord. When its program asks for the flush,
//! nothing needs to be done if the line is clean by then. When is that known? Each line has an
//! *owner word* in a table in DRAM (lines that hash alike share one), and three rules hold:
//!
//! 1. Before its first store to a line a thread makes itself the owner. If another one is, it makes
//!    the word *shared* instead. Shared words stay so, and so the owner has made every store to its
//!    lines that was made since the table began.
//! 2. A line is handed on after the store. A store to it from then on cancels that.
//! 3. The flush is skipped if the line was handed on, not stored to since, reported flushed and
//!    fenced, and the owner word *then* still names the thread.
//!
//! So a skipped flush would have written nothing: the thread's own stores to the line are covered
//! by the reported flush (rule 2; the push publishes them to the flusher), and so is what others
//! stored before the table began. Another thread's later store comes after it made the word shared
//! (rule 1: a locked operation, before the store); if this thread had seen that store, or anything
//! after it, it would see the shared word in rule 3. What it has not seen, its flush need not
//! cover, if the look at the word is no earlier than the flush would be. A load overtakes older
//! stores that wait in the store buffer, fence or not, and a flush behind a fence does not
//! (litmus tests D42 to D44). So a locked operation stands between each fence and the first look
//! behind it (planted bug `LooksEarly`). Marks that are left *after* the store do not give
//! this: a thread may read another's data before the mark is visible, flush on its behalf, and
//! skip (planted bug `OwnsLate`). A store past the caches is no exception: the fence that
//! follows waits for it, flushed or not.
//!
//! A thread may leave off skipping, where [`Mode::Auto`] finds that it does not pay, and begin
//! again. Meanwhile rule 1 holds on, as the other threads' skips rest on it
//! (planted bug `UnmarkedInPause`). Rule 2 does not: its stores cancel nothing. So what it had
//! handed on before is forgotten when it begins again (planted bug `RemembersPause`), and of each
//! line that it skips, all three have held since the line was handed on. What is handed on only now
//! was stored before, in the pause or not, and that is all that rule 2 asks.
//!
//! While no thread skips, none marks anything either, and a store costs what it costs without a
//! Ribbon. When one begins, nothing is handed on before all threads are known to mark (`phases`);
//! from then on it is as if the table began (planted bug `NoGrace`).
//!
//! All threads that store to the pool while lines are skipped must do it through the same Ribbon.
//!
//! **The paper samples stores** by hardware counters instead, and skips no flush: a clean line's is
//! cheaper. [`EarlyStores::Samples`] does that over any `Memory`, at the price of such samples
//! (`ribbon/sampler.rs`). A pool of the host may use real counters, or look at which pages were
//! stored to ([`EarlySource`]); a cleaner flushes those lines then.

pub mod estimate;

mod ab_tests;
mod backoff;
mod cleaner;
mod counts;
mod dirtiness;
mod early;
mod flaws;
mod flusher;
mod memory;
mod phases;
mod pool;
mod ring;
mod sampler;
mod source;
pub mod threads;

pub use cleaner::CleanerCounters;
pub use counts::RibbonCounts;
pub use dirtiness::{Dirtiness, DirtinessMemory, DirtyCounts};
#[cfg(feature = "flaws")]
pub use flaws::RibbonFlaw;
pub use flusher::{Flusher, FlusherStep};
pub use memory::{RibbonMemory, StoreBelow};
pub use pool::{RibbonCounters, RibbonPool, RibbonPoolError};
pub use source::{
    EarlyRibbon, EarlySource, EarlyStores, SAMPLE_EVERY, SAMPLE_EVERY_MAX, Taken,
    UnknownEarlyStores,
};

use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Lines that a flusher takes on, and fences, at a time: more overlap no better (MOD, ASPLOS'20).
pub const BATCH_LINES: u64 = 16;
/// The longest FIFO, in lines.
pub const FIFO_LINES_MAX: u64 = 1 << 20;
/// The largest table of owner words.
pub const OWNER_WORDS_MAX: u64 = 1 << 28;
/// Threads, and flushers, at most.
pub const THREADS_MAX: u64 = 1024;

/// Lines that a flusher cleans early, and fences, at a time: no thread waits for them.
const CLEAN_LINES: u64 = 64;
/// Requests of a thread that may be handed on and not yet executed.
const EARLY_LINES: u64 = 256;

/// Bits of `claimed` and `done` that count; the others are the generation.
const COUNT_BITS: u32 = 48;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// What a word of the owner table says of lines that several threads store to.
const SHARED: u64 = u64::MAX;

/// Whether threads leave flushes to the flushers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Mode {
    /// Each thread measures what a line costs it with flushers and without, and with lines cleaned
    /// early and without if they may be, and does what is cheaper. On a machine without time: both.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: lines may still be skipped.
    Never,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Auto, Mode::Always, Mode::Never];

    /// Its name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Always => "always",
            Mode::Never => "never",
        }
    }
}

/// How a [`Ribbon`] is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RibbonOptions {
    /// Application threads: 1 to [`THREADS_MAX`]. Their `Memory::thread` is below this.
    pub threads: u64,
    /// Flushers there may be: 0 to [`THREADS_MAX`].
    pub flushers: u64,
    /// Lines that a FIFO holds: a power of two, [`BATCH_LINES`] to [`FIFO_LINES_MAX`].
    pub fifo_lines: u64,
    /// Requests that are shown to flushers together: 1 to [`BATCH_LINES`]. Each time costs the
    /// thread a line that flushers are looking at. Fewer flushes that were asked for are shown at
    /// the next fence; fewer lines to be cleaned early wait.
    pub chunk: u64,
    /// Whether flushes are left to the flushers.
    pub mode: Mode,
    /// Which of the stores that the handles see have their lines cleaned early, if any; for what a
    /// pool's machine sees: [`early`](RibbonOptions::early()). In mode auto each thread measures
    /// whether that pays, apart from the flushers; in the others lines are, always.
    pub early: EarlyStores,
    /// Words of the owner table that [`EarlyStores::Hook`] needs: a power of two up to
    /// [`OWNER_WORDS_MAX`]. More words, fewer lines that share one by chance.
    pub owner_words: u64,
    /// Looks at a FIFO that flushers have not finished until an owner takes over. `None`: waits as
    /// long as it takes, in the way that suits the machine; right where no flusher can get lost.
    pub patience: Option<u32>,
    /// Fruitless looks at all FIFOs until a flusher rests.
    pub polls: u32,
    /// Flushers that work at least, whatever is measured.
    pub flushers_min: u64,
    /// From one estimate of the number of flushers to the next, in units of the machine's
    /// [clock](Memory::clock); 0: all flushers work, always.
    pub period: u64,
    /// How long each of the four samples of an estimate takes, in the same unit.
    pub window: u64,
    /// A planted bug, to test the checks.
    #[cfg(feature = "flaws")]
    #[cfg_attr(feature = "serde", serde(default))]
    pub flaw: RibbonFlaw,
}

impl Default for RibbonOptions {
    fn default() -> RibbonOptions {
        RibbonOptions {
            threads: 1,
            flushers: 1,
            fifo_lines: 1024,
            chunk: 8,
            mode: Mode::Auto,
            early: EarlyStores::None,
            owner_words: 1 << 16,
            patience: None,
            polls: 64,
            flushers_min: 1,
            period: 0,
            window: 0,
            #[cfg(feature = "flaws")]
            flaw: RibbonFlaw::None,
        }
    }
}

/// Options that no [`Ribbon`] can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Ribbon option {option}: {value} is not possible; it must be {range}")]
pub struct RibbonError {
    /// Which.
    pub option: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub range: String,
}

/// Where a Ribbon's words are, and its options. Plain data: the state is in DRAM, zero at first,
/// and gone after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ribbon {
    base: Addr,
    owners: Addr,
    options: RibbonOptions,
}

/// The words that all share, each on its own line. Flusher 0, which cleans, has a bell of its own.
const BELLS: [u64; 2] = [0, 1];
/// On this line a word for each bell: 1 if a flusher may wait for it.
const RESTING: u64 = 2;
const CONTROL: u64 = 3;
const RATE: u64 = 4;
const PHASE: u64 = 5;
const SHARED_LINES: u64 = 6;

/// In `CONTROL`: the number of flushers that must rest, and whether all must end.
const STOPPED: u64 = 1 << 63;

/// The lines of a thread, before its ring.
const PUSHED: u64 = 0;
const CLAIMED: u64 = 1;
const DONE: u64 = 2;
const COUNTS: u64 = 3;
const EARLY_PUSHED: u64 = 4;
const EARLY_DONE: u64 = 5;
const SEEN: u64 = 6;
const RING: u64 = 7;

/// A thread's words, as addresses.
#[derive(Clone, Copy, Debug)]
struct Fifo {
    base: Addr,
    lines: u64,
}

impl Fifo {
    #[inline]
    fn word(self, line: u64) -> Addr {
        self.base.plus(line * LINE_BYTES)
    }

    /// How often the thread has rung bells; on a line that others rarely look at.
    fn rings(self) -> Addr {
        self.word(SEEN).plus(8)
    }

    /// The slot of the request with that number.
    #[inline]
    fn slot(self, number: u64) -> Addr {
        self.base.plus(RING * LINE_BYTES + (number & (self.lines - 1)) * 8)
    }

    #[inline]
    fn early_slot(self, number: u64) -> Addr {
        let rings = RING * LINE_BYTES + self.lines * 8;
        self.base.plus(rings + (number & (EARLY_LINES - 1)) * 8)
    }
}

/// Changes a word that several threads change; returns what it is then.
fn change<M: Memory>(memory: &M, at: Addr, next: impl Fn(u64) -> u64) -> u64 {
    let mut word: u64 = memory.load(at);
    loop {
        match memory.compare_exchange(at, word, next(word)) {
            Ok(_) => return next(word),
            Err(now) => word = now,
        }
    }
}

#[inline]
const fn count_of(word: u64) -> u64 {
    word & COUNT_MASK
}

#[inline]
const fn generation_of(word: u64) -> u64 {
    word >> COUNT_BITS
}

#[inline]
const fn word_of(generation: u64, count: u64) -> u64 {
    generation << COUNT_BITS | count & COUNT_MASK
}

impl RibbonOptions {
    fn check(&self) -> Result<(), RibbonError> {
        let fail = |option, value, range: String| Err(RibbonError { option, value, range });
        let within = |option, value: u64, min: u64, max: u64| match value {
            value if (min..=max).contains(&value) => Ok(()),
            value => fail(option, value, format!("{min} to {max}")),
        };
        let power = |option, value: u64, min: u64, max: u64| match value.is_power_of_two() {
            true if (min..=max).contains(&value) => Ok(()),
            _ => fail(option, value, format!("a power of two from {min} to {max}")),
        };
        within("threads", self.threads, 1, THREADS_MAX)?;
        within("flushers", self.flushers, 0, THREADS_MAX)?;
        within("flushers_min", self.flushers_min, 0, self.flushers.max(1))?;
        within("chunk", self.chunk, 1, BATCH_LINES)?;
        power("fifo_lines", self.fifo_lines, BATCH_LINES, FIFO_LINES_MAX)?;
        if self.cleans() && self.flushers == 0 {
            return fail("flushers", 0, "1 at least, as flusher 0 cleans lines early".into());
        }
        match self.early {
            EarlyStores::None => {}
            EarlyStores::Hook => power("owner_words", self.owner_words, 1, OWNER_WORDS_MAX)?,
            EarlyStores::Samples { every } => {
                within("every", every.into(), 1, SAMPLE_EVERY_MAX.into())?;
            }
        }
        if self.period > 0 && (self.window == 0 || self.window.saturating_mul(4) > self.period) {
            return fail("window", self.window, format!("1 to {}", self.period / 4));
        }
        Ok(())
    }

    /// Whether flusher 0 has lines to clean early.
    fn cleans(&self) -> bool {
        self.early != EarlyStores::None
    }

    fn thread_lines(&self) -> u64 {
        RING + (self.fifo_lines + EARLY_LINES) * 8 / LINE_BYTES
    }
}

impl Ribbon {
    /// Takes the DRAM that it needs; the words there must be zero at first, as in fresh DRAM.
    ///
    /// # Errors
    /// When an option is out of its range; nothing is taken then.
    pub fn place(arena: &mut Arena, options: &RibbonOptions) -> Result<Ribbon, RibbonError> {
        Ribbon::placed(options, |bytes| Ok(arena.dram(bytes)))
    }

    /// The same where `take` returns so many bytes of DRAM, in one piece.
    ///
    /// # Errors
    /// When an option is out of its range, or what `take` says.
    pub fn placed<E: From<RibbonError>>(
        options: &RibbonOptions,
        take: impl FnOnce(u64) -> Result<Addr, E>,
    ) -> Result<Ribbon, E> {
        options.check()?;
        let lines = SHARED_LINES + options.threads * options.thread_lines() + options.flushers;
        let has_owners = options.early == EarlyStores::Hook;
        let owner_words = if has_owners { options.owner_words } else { 0 };
        let base = take(lines * LINE_BYTES + owner_words * 8)?;
        let owners = base.plus(lines * LINE_BYTES);
        Ok(Ribbon { base, owners, options: options.clone() })
    }

    /// The options it was made with.
    pub fn options(&self) -> &RibbonOptions {
        &self.options
    }

    /// Wraps the handle of an application thread. What the thread flushed before, it must have
    /// fenced by itself.
    ///
    /// A thread has one such wrapper at a time. Requests of one that was lost (its thread died) are
    /// dropped: no fence waited for them. A flush outside of the pool, a bug of the program, panics
    /// where it is executed: perhaps in a flusher.
    ///
    /// # Panics
    /// When the thread is none of those that the options allow for.
    pub fn join<'m, M: Memory>(&self, memory: &'m M) -> RibbonMemory<'m, &'m M> {
        RibbonMemory::new(self.clone(), memory)
    }

    /// Flusher `index`, to be run by a thread of its own, with that thread's handle. One at a time
    /// has an index.
    ///
    /// # Panics
    /// When the options allow for no such flusher.
    pub fn flusher<'m, M: Memory>(&self, memory: &'m M, index: u64) -> Flusher<'m, M> {
        Flusher::new(self.clone(), memory, index)
    }

    /// Runs flusher `index` until [`close`](Ribbon::close). It rests by waiting for a word, which
    /// is right where that costs nothing; on real processors see [`threads`].
    ///
    /// # Panics
    /// When the options allow for no such flusher.
    pub fn serve<M: Memory>(&self, memory: &M, index: u64) {
        self.flusher(memory, index).serve();
    }

    /// Makes all flushers return. What is still in FIFOs is executed by their owners.
    pub fn close<M: Memory>(&self, memory: &M) {
        change(memory, self.word(CONTROL), |control| control | STOPPED);
        for bell in BELLS {
            memory.fetch_add(self.word(bell), 1);
        }
    }

    /// How many flushers work.
    pub fn active<M: Memory>(&self, memory: &M) -> u64 {
        let told_to_rest = memory.load::<u64>(self.word(CONTROL)) & !STOPPED;
        self.options.flushers.saturating_sub(told_to_rest)
    }

    /// Lets the first `active` flushers work, at least one, and the others rest.
    pub fn set_active<M: Memory>(&self, memory: &M, active: u64) {
        let told_to_rest = self.options.flushers.saturating_sub(active.max(1));
        change(memory, self.word(CONTROL), |control| control & STOPPED | told_to_rest);
    }

    #[inline]
    fn word(&self, line: u64) -> Addr {
        self.base.plus(line * LINE_BYTES)
    }

    #[inline]
    fn fifo(&self, thread: u64) -> Fifo {
        let line = SHARED_LINES + thread * self.options.thread_lines();
        Fifo { base: self.word(line), lines: self.options.fifo_lines }
    }

    fn resting(&self, bell: u64) -> Addr {
        self.word(RESTING).plus(8 * bell)
    }

    fn flusher_line(&self, index: u64) -> Addr {
        self.word(SHARED_LINES + self.options.threads * self.options.thread_lines() + index)
    }

    /// The word of the owner table that is for the line: for lines that are neighbours, words that
    /// are neighbours, so that few lines of the table are in use.
    #[inline]
    fn owner_word(&self, line: Line) -> Addr {
        let place = (line.0 ^ line.0 >> 16) & (self.options.owner_words - 1);
        self.owners.plus(8 * place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut RibbonOptions)) -> String {
        let mut options = RibbonOptions::default();
        change(&mut options);
        Ribbon::place(&mut Arena::new(), &options).unwrap_err().to_string()
    }

    #[test]
    fn impossible_options_are_refused_with_what_is_possible() {
        assert_eq!(
            refused(|options| options.fifo_lines = 100),
            "Ribbon option fifo_lines: 100 is not possible; it must be a power of two from 16 to \
             1048576"
        );
        assert!(refused(|options| options.threads = 0).contains("1 to 1024"));
        assert!(refused(|options| options.flushers_min = 2).contains("flushers_min: 2"));
        assert!(refused(|options| options.period = 100).contains("window: 0"));
        let hook = EarlyStores::Hook;
        let table = refused(|options| (options.early, options.owner_words) = (hook, 3));
        assert!(table.contains("owner_words: 3"), "{table}");
        let nobody = refused(|options| (options.early, options.flushers) = (hook, 0));
        assert!(nobody.contains("flushers: 0") && nobody.contains("1 at least"), "{nobody}");
        let period = refused(|options| options.early = EarlyStores::Samples { every: 0 });
        assert!(period.contains("every: 0") && period.contains("1 to 1048576"), "{period}");
    }

    #[test]
    fn words_of_threads_and_flushers_do_not_overlap() {
        let options = RibbonOptions {
            threads: 3,
            flushers: 2,
            fifo_lines: 16,
            early: EarlyStores::Hook,
            owner_words: 8,
            ..RibbonOptions::default()
        };
        let mut arena = Arena::new();
        let ribbon = Ribbon::place(&mut arena, &options).unwrap();
        let mut words: Vec<Addr> = (0..SHARED_LINES).map(|line| ribbon.word(line)).collect();
        for thread in 0..3 {
            let fifo = ribbon.fifo(thread);
            words.extend((0..RING).map(|line| fifo.word(line)));
            words.extend((0..16).map(|number| fifo.slot(number)));
            words.extend((0..EARLY_LINES).map(|number| fifo.early_slot(number)));
        }
        words.extend((0..2).map(|index| ribbon.flusher_line(index)));
        words.extend((0..8).map(|word| ribbon.owners.plus(8 * word)));
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
        assert!(words.iter().all(|word| word.offset() < arena.dram_bytes()));
    }
}
