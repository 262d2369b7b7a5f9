//! Every schedule of a program with a bounded number of interruptions, up to those that show
//! nothing new.
//!
//! A thread runs until it waits or ends, except for a bounded number of interruptions (Musuvathi,
//! Qadeer, "Iterative Context Bounding", PLDI'07). Which thread goes first, and which goes on when
//! one waits or ends, is free, and all are tried. What is left out, and why nothing is lost:
//!
//! Two calls of different threads *depend* on each other if both use one line (of volatile memory:
//! one word) and at least one of them stores: loads and stores, stores and stores, and flushes and
//! stores, as it is their order that says what a flush covers. Loads and flushes do not depend on
//! each other. ([`Use`] is the table.) A *fence* is a call that makes something durable or is seen
//! from outside: order, drain, join, a successful locked operation, an output, a longer pool. On
//! x86 the first four are fences only if their thread has flushed something, or stored it past the
//! caches, since its last one: otherwise they make nothing durable, as most of those that locks
//! and threads consist of. A *place* is a call before which an interruption is tried: each fence,
//! each store where all stores persist in one order, and each call that races with one of another
//! thread in some run of the exploration: the two depend on each other, and the later one's thread
//! does not know the earlier one ([`Places`]).
//!
//! **Theorem.** Let a crash come at any moment of any run with at most `b` interruptions. Then an
//! explored run with at most `b` interruptions, at places only, has a moment at which the threads
//! have been told the same and each image of that crash is possible.
//!
//! *Proof.* Cut the run at the crash. If an interruption of a thread comes before a call `e` that
//! is no place, let `e` come first, and the interruption after it. (a) `e` depends on no call in
//! between: then it changes nothing that they read, nor the order in which stores to a line
//! persist. It is no fence, so nothing becomes durable. There are as many interruptions as before
//! or fewer, and they come later, so this ends, with interruptions at places only. (b) `e` depends
//! on a first call `c` in between. What comes before `c` runs as before when `e` comes first, so
//! that run, which by induction over the calls that are left to come (a) is explored, has both
//! calls. No call of another thread lies between them that depends on `e` or on what its thread
//! did after it, so the thread of `c` does not know `e`: they race, and `e` is a place. Runs are
//! made anew until no run brings another place.
//!
//! No image is lost in (a), under any model:
//!
//! - `bep`, `bsp`, `hops`, `strand` and `epoch` order stores of different threads only by accesses
//!   to one line or word, and those are in the order in which they were. Flushes do nothing.
//! - `px86` keeps the order of all stores, over all lines: what a thread knows is a place in it,
//!   and after a fence its flushes cover what came before that place. When `e` is a store, it
//!   comes before stores `s` of other threads, which it followed. Its own thread then knows less.
//!   A thread that knows `s` knows `e`, too, which is of use to a later flush of the line only:
//!   that flush depends on `e`, so it would race with it, unless its thread has loaded what the
//!   thread of `e` stored later; and then it covers `e` in both runs. A thread that has merely
//!   overwritten something need not come later, so that does not count in [`Places`]. The same
//!   holds for loads, which under x86-TSO may return what was overwritten after such a place, and
//!   for locked operations that are no fences, which know all stores before them.
//! - `strict` and `eadr` have every store as a place.
//!
//! The argument is that of dynamic partial-order reduction (Flanagan, Godefroid, POPL'05); that
//! bounds need more than its places is known (Coons, Musuvathi, McKinley, "Bounded Partial-Order
//! Reduction", OOPSLA'13), which is why places hold for the whole exploration and not for one run.
//!
//! Many runs then leave the same at some moment. [`Prefixes`] recognizes it by what the model
//! says, and not by the order of calls; crashes are searched only at moments that no run has shown.

use crate::access::{Access, Use};
use crate::places::{Places, Reduction};
use crate::prefixes::Prefixes;
use crate::run::THREADS_MAX;
use crate::schedule::{Departure, DepartureKind, Schedule, Turns};
use crate::trace::Trace;
use branching::Class;
use seawall_memory::Model;
use std::ops::ControlFlow;

pub(crate) use branching::Branching;

mod branching;

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
        let models = [self.model];
        let (how, seen) = ((Reduction::Redundant, &models[..]), &mut Branching::default());
        self.each_but(how, base, seen, &mut |_| (), record, visit)
    }

    /// As [`each`](Schedules::each), for several models of one kind of machine; before each run it
    /// tells which ones are to be made after it, those that are known of, the next ones first.
    /// `seen` is how those that were made branch, if not all are.
    pub(crate) fn each_foreseen<R: AsMut<Trace>, E>(
        &self,
        models: &[Model],
        base: &Schedule,
        seen: &mut Branching,
        foresee: &mut dyn FnMut(&mut dyn Iterator<Item = Schedule>),
        record: impl FnMut(&Schedule) -> Result<R, E>,
        visit: impl FnMut(&Schedule, R) -> ControlFlow<()>,
    ) -> Result<Tried, E> {
        self.each_but((Reduction::Redundant, models), base, seen, foresee, record, visit)
    }

    pub(crate) fn each_but<R: AsMut<Trace>, E>(
        &self,
        (reduction, models): (Reduction, &[Model]),
        base: &Schedule,
        seen: &mut Branching,
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
        let mut known = Known::new(self, reduction, models);
        loop {
            (known.places.grew, *seen) = (false, Branching::default());
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
                    seen.make(next.class());
                    known.longer(&next, run.as_mut(), |longer| {
                        seen.branch(next.class(), longer.class());
                        levels[longer.cost()].push(longer);
                    });
                    if is_new {
                        tried.runs += 1;
                        if visit(&schedule, run).is_break() {
                            return Ok(Tried { complete: false, ..tried });
                        }
                    }
                }
            }
            if !known.places.grew {
                return Ok(tried);
            }
        }
    }
}

/// What the runs so far have shown.
struct Known<'a> {
    how: &'a Schedules,
    models: &'a [Model],
    reduction: Reduction,
    places: Places,
    prefixes: Prefixes,
}

impl<'a> Known<'a> {
    fn new(how: &'a Schedules, reduction: Reduction, models: &'a [Model]) -> Known<'a> {
        let prefixes = Prefixes::new(reduction);
        Known { how, models, reduction, places: Places::new(how.model), prefixes }
    }

    /// Notes what a run shares; true if it shows something new.
    fn follow(&mut self, trace: &mut Trace) -> bool {
        if self.reduction == Reduction::OtherRuns {
            self.places = Places::new(self.how.model);
        }
        self.places.follow(trace);
        if self.reduction == Reduction::OtherRuns {
            self.places.grew = false;
        }
        self.prefixes.follow(self.models, self.how.thorough, trace)
    }

    fn is_place(&self, access: &Access) -> bool {
        let is_left_out = self.reduction == Reduction::Fences && access.does == Use::Fence;
        !is_left_out && self.places.contains(access)
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

    fn class(&self) -> Class {
        (self.interruptions, self.delays)
    }
}

/// The threads of these bits.
fn threads(bits: u64) -> impl Iterator<Item = u16> {
    (0..THREADS_MAX as u16).filter(move |thread| bits >> thread & 1 == 1)
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod tests;
