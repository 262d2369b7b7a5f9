//! Every schedule of a program with a bounded number of interruptions, up to those that show
//! nothing new.
//!
//! A thread runs until it waits or ends, except for a bounded number of interruptions (Musuvathi,
//! Qadeer, "Iterative Context Bounding", PLDI'07). Which thread goes first, and which goes on when
//! one waits or ends, is free, and all are tried. What is left out, and why nothing is lost:
//!
//! Two calls of different threads *conflict* if both access one line (of DRAM: one word) and one of
//! them stores to it or flushes it. A *fence* is a call that makes something durable or is seen
//! from outside: order, drain, join, a successful locked operation, an output, a longer pool. A
//! *place* is a call before which an interruption is tried: each fence, and each call to a line
//! that conflicts with a call of another thread in some run of the exploration. Where all stores
//! persist in one order, each store counts as a fence.
//!
//! **Theorem.** Let a crash come at any moment of any run with at most `b` interruptions. Then an
//! explored run with at most `b` interruptions, at places only, has a moment at which the threads
//! have been told the same and each image of that crash is possible.
//!
//! *Proof.* Cut the run at the crash. If an interruption of a thread comes before a call `e` that
//! is no place, let `e` come first, and the interruption after it. (a) `e` conflicts with no call
//! in between: then it changes nothing that they read, no order in which stores to a line persist,
//! and it is no fence, so no image is lost; a store only adds images. There are as many
//! interruptions as before or fewer, and they come later, so this ends, with interruptions at
//! places only. (b) `e` conflicts with a first call `c` in between. What comes before `c` runs as
//! before when `e` comes first, so that run, which by induction over the calls that are left to
//! come (a) is explored, has both calls: then `e` is a place. Runs are made anew until no run
//! brings another place.
//!
//! The argument is that of dynamic partial-order reduction (Flanagan, Godefroid, POPL'05); that
//! bounds need more than its places is known (Coons, Musuvathi, McKinley, "Bounded Partial-Order
//! Reduction", OOPSLA'13), which is why places hold for the whole exploration and not for one run.
//!
//! Many runs then share what they do up to some moment. [`Prefixes`] recognizes it, and crashes are
//! searched only at moments that no run has shown before.

use crate::access::{Access, FENCES};
use crate::prefixes::Prefixes;
use crate::run::THREADS_MAX;
use crate::schedule::{Departure, DepartureKind, Schedule, Turns};
use crate::trace::Trace;
use rustc_hash::FxHashMap;
use seawall_memory::Model;
use std::ops::ControlFlow;

/// Which schedules of a program to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedules {
    /// The persistency model of the machine.
    pub model: Model,
    /// Interruptions of one run at most.
    pub interruptions: usize,
    /// Delays of one run at most, where the machine has store buffers: loads that take effect
    /// before an earlier store of their thread, and non-temporal stores that stay in their buffer
    /// while another thread looks for them.
    pub delays: usize,
    /// Stores that such a buffer holds.
    pub buffer: usize,
    /// Runs at most that show something new.
    pub limit: usize,
    /// Crashes after every store are searched, too.
    pub thorough: bool,
}

/// What the reduction leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests hold the reduction to the others"))]
pub(crate) enum Reduction {
    /// What shows nothing new.
    Redundant,
    /// Nothing: each call is a place, and every run counts as new.
    Nothing,
    /// Too much: places that conflict only with a call of another run.
    OtherRuns,
    /// Too much: fences that are not to a shared word are no places.
    Fences,
    /// Too much: the default thread goes on when one waits or ends.
    Handovers,
    /// Too much: the order of fences does not tell runs apart.
    OrderOfFences,
    /// Too much: the order of the stores to a line does not tell runs apart.
    OrderOfStores,
}

/// The runs that were found.
pub struct Interleavings<R> {
    /// Each with its schedule, those with fewer interruptions first.
    pub runs: Vec<(Schedule, R)>,
    /// What was tried.
    pub tried: Tried,
}

/// How many schedules were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Runs that showed something new.
    pub runs: usize,
    /// Runs that were made.
    pub made: usize,
    /// True if all schedules within the bound were tried.
    pub complete: bool,
}

impl Schedules {
    /// All schedules with at most two interruptions, up to 1000 runs.
    pub fn new(model: Model) -> Schedules {
        Schedules { model, interruptions: 2, delays: 1, buffer: 16, limit: 1000, thorough: false }
    }

    /// Runs the program under every schedule. What `record` returns holds the trace of the run.
    ///
    /// # Errors
    /// The error of the first run that fails.
    pub fn all<R: AsMut<Trace>, E>(
        &self,
        base: &Schedule,
        record: impl FnMut(&Schedule) -> Result<R, E>,
    ) -> Result<Interleavings<R>, E> {
        let mut runs = Vec::new();
        let tried = self.each(base, record, |schedule, run| {
            runs.push((schedule.clone(), run));
            ControlFlow::Continue(())
        })?;
        Ok(Interleavings { runs, tried })
    }

    /// Runs the program under every schedule, and gives each run that shows something new to
    /// `visit`, until that breaks.
    ///
    /// # Errors
    /// The error of the first run that fails.
    pub fn each<R: AsMut<Trace>, E>(
        &self,
        base: &Schedule,
        record: impl FnMut(&Schedule) -> Result<R, E>,
        visit: impl FnMut(&Schedule, R) -> ControlFlow<()>,
    ) -> Result<Tried, E> {
        self.each_but(Reduction::Redundant, base, &mut |_| (), record, visit)
    }

    /// As [`each`](Schedules::each); before each run it tells which ones are to be made after it,
    /// those that are known of, the next ones first.
    pub(crate) fn each_foreseen<R: AsMut<Trace>, E>(
        &self,
        base: &Schedule,
        foresee: &mut dyn FnMut(&mut dyn Iterator<Item = Schedule>),
        record: impl FnMut(&Schedule) -> Result<R, E>,
        visit: impl FnMut(&Schedule, R) -> ControlFlow<()>,
    ) -> Result<Tried, E> {
        self.each_but(Reduction::Redundant, base, foresee, record, visit)
    }

    pub(crate) fn each_but<R: AsMut<Trace>, E>(
        &self,
        reduction: Reduction,
        base: &Schedule,
        foresee: &mut dyn FnMut(&mut dyn Iterator<Item = Schedule>),
        mut record: impl FnMut(&Schedule) -> Result<R, E>,
        mut visit: impl FnMut(&Schedule, R) -> ControlFlow<()>,
    ) -> Result<Tried, E> {
        let buffers = self.model.buffers_stores() && self.delays > 0;
        let buffer = if buffers { self.buffer } else { 0 };
        let schedule = |next: &Next| Schedule {
            turns: Turns::Chosen(next.choices.clone()),
            buffer,
            model: self.model,
            ..base.clone()
        };
        let mut tried = Tried { runs: 0, made: 0, complete: base.threads <= THREADS_MAX };
        let mut known = Known::new(self, reduction);
        loop {
            known.grew = false;
            let mut levels = vec![Vec::new(); self.interruptions + self.delays + 1];
            levels[0].push(Next::default());
            for level in 0..levels.len() {
                while let Some(next) = levels[level].pop() {
                    if tried.runs == self.limit {
                        return Ok(Tried { complete: false, ..tried });
                    }
                    let later = levels[level..].iter().flat_map(|level| level.iter().rev());
                    foresee(&mut later.map(schedule));
                    let schedule = schedule(&next);
                    let mut run = record(&schedule)?;
                    tried.made += 1;
                    let is_new = known.follow(run.as_mut());
                    known.longer(&next, run.as_mut(), |next| levels[next.cost()].push(next));
                    if is_new {
                        tried.runs += 1;
                        if visit(&schedule, run).is_break() {
                            return Ok(Tried { complete: false, ..tried });
                        }
                    }
                }
            }
            if !known.grew {
                return Ok(tried);
            }
        }
    }
}

/// What the runs so far have shown.
struct Known<'a> {
    how: &'a Schedules,
    reduction: Reduction,
    words: FxHashMap<u64, Users>,
    /// Some word has come to be shared.
    grew: bool,
    prefixes: Prefixes,
}

/// The threads that read a word, and those that write it, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Users {
    readers: u64,
    writers: u64,
}

impl Users {
    /// Whether an access by one thread may conflict with one by another.
    pub(crate) fn are_several(self) -> bool {
        self.writers != 0 && (self.readers | self.writers).count_ones() > 1
    }

    /// Adds an access by a thread; true if it is the first of its kind.
    pub(crate) fn add(&mut self, thread: u16, writes: bool) -> bool {
        let before = *self;
        *(if writes { &mut self.writers } else { &mut self.readers }) |= 1 << thread;
        before != *self
    }

    /// Adds all that the others do.
    pub(crate) fn join(&mut self, others: Users) {
        self.readers |= others.readers;
        self.writers |= others.writers;
    }

    /// Whether an access by this thread conflicts with one of another.
    pub(crate) fn conflict_with(self, thread: u16, writes: bool) -> bool {
        let users = if writes { self.readers | self.writers } else { self.writers };
        users & !(1 << thread) != 0
    }
}

impl Known<'_> {
    fn new(how: &Schedules, reduction: Reduction) -> Known<'_> {
        let prefixes = Prefixes::new(reduction);
        Known { how, reduction, words: FxHashMap::default(), grew: false, prefixes }
    }

    /// Notes what a run shares; true if it shows something new.
    fn follow(&mut self, trace: &mut Trace) -> bool {
        if self.reduction == Reduction::OtherRuns {
            self.words.clear();
        }
        for access in &trace.accesses {
            let users = self.words.entry(access.word).or_default();
            self.grew |= users.add(access.thread, access.writes) && users.are_several();
        }
        match self.reduction {
            Reduction::Nothing => return true,
            Reduction::OtherRuns => self.grew = false,
            _ => {}
        }
        self.prefixes.follow(self.how, &self.words, trace)
    }

    fn is_place(&self, access: &Access) -> bool {
        let fences = FENCES.bits() / 8;
        match self.reduction {
            Reduction::Nothing => return true,
            Reduction::Fences if access.word == fences => return false,
            _ => {}
        }
        let is_ordered =
            self.how.model.orders_all_stores() && access.writes && access.word < fences;
        if access.word == fences || is_ordered {
            return true;
        }
        let users = self.words.get(&access.word).copied().unwrap_or_default();
        users.conflict_with(access.thread, access.writes)
    }

    /// The choices of a run, extended by one later choice in every way.
    fn longer(&self, run: &Next, trace: &Trace, mut add: impl FnMut(Next)) {
        let mut add_choice = |call: u64, kind: DepartureKind, costs: [usize; 2]| {
            let cost = [run.interruptions + costs[0], run.delays + costs[1]];
            let follows = run.choices.last().is_none_or(|last| last.may_precede(call, kind));
            if follows && cost[0] <= self.how.interruptions && cost[1] <= self.how.delays {
                let choices = [&run.choices[..], &[Departure { call, kind }]].concat();
                add(Next { choices, interruptions: cost[0], delays: cost[1] });
            }
        };
        for handover in &trace.handovers {
            if self.reduction != Reduction::Handovers {
                for thread in threads(handover.others) {
                    add_choice(handover.call, DepartureKind::Run(thread), [0, 0]);
                }
            }
        }
        let mut last = 0;
        for access in &trace.accesses {
            if access.call != last && self.is_place(access) {
                last = access.call;
                for thread in threads(access.others) {
                    add_choice(access.call, DepartureKind::Run(thread), [1, 0]);
                }
            }
            for behind in access.behind.0..access.behind.1 {
                add_choice(access.call, DepartureKind::Behind(behind), [0, 1]);
            }
        }
        for met in &trace.crossed {
            add_choice(met.call, DepartureKind::Reversed(met.store), [0, 0]);
        }
        for met in &trace.met {
            let is_late = |choice: &Departure| choice.kind == DepartureKind::Late(met.store);
            let delays = usize::from(!run.choices.iter().any(is_late));
            add_choice(met.call, DepartureKind::Late(met.store), [0, delays]);
        }
    }
}

/// A schedule to be tried.
#[derive(Clone, Default)]
struct Next {
    choices: Vec<Departure>,
    interruptions: usize,
    delays: usize,
}

impl Next {
    fn cost(&self) -> usize {
        self.interruptions + self.delays
    }
}

/// The threads of these bits.
fn threads(bits: u64) -> impl Iterator<Item = u16> {
    (0..THREADS_MAX as u16).filter(move |thread| bits >> thread & 1 == 1)
}

#[cfg(test)]
mod tests;
