//! The threads of the host that search the runs of an exploration.
//!
//! A searcher is a queue of units and what is known there of recovery. The threads, or workers,
//! take units from searchers that no other works on, the earliest first, and record runs ahead
//! ([`Ahead`]) when few units wait; who makes the runs works, too, when enough wait. So it goes on
//! with any number of workers, none included.

use crate::ahead::Ahead;
use crate::check::Check;
use crate::covered::{Covered, Done, Machines};
use crate::options::Search;
use crate::outcome::{PointsTried, SearchOutcome};
use crate::recoveries::{Recoveries, Seen};
use crate::schedule::{Schedule, TurnsName};
use crate::scope::{KIND, Onlooker, Recorded, Scope};
use crate::search::{points, search_on};
use crate::together::Sharing;
use crate::trace::Trace;
use crate::waste::waste;
use seawall_memory::Model;
use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// How many times as many images of a point are tried each time that a unit is searched again.
const MORE_IMAGES: u64 = 8;

/// Units that wait at most before who makes runs works, too.
const WAITING_MAX: usize = 32;

/// Threads of the host.
pub(crate) fn host_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A run that units are of.
pub(crate) struct Run<C> {
    pub(crate) number: usize,
    pub(crate) turns: TurnsName,
    pub(crate) trace: Arc<Trace>,
    pub(crate) check: C,
}

/// A run, or a part of one, under one model.
pub(crate) struct Unit<C> {
    pub(crate) number: usize,
    pub(crate) run: Arc<Run<C>>,
    pub(crate) model: Model,
    pub(crate) events: Range<usize>,
    /// Images of one point up to which all of them are tried.
    pub(crate) point_limit: u64,
    /// Whether it is the first one of its run.
    pub(crate) is_first: bool,
    /// Whether it was searched before.
    pub(crate) is_again: bool,
    /// When it must be done.
    pub(crate) deadline: Option<Instant>,
}

/// A unit that somebody works on, its searcher, and what is known there.
struct Taken<C: Check> {
    searcher: usize,
    unit: Unit<C>,
    known: Recoveries<C::Found>,
}

struct Searcher<C: Check> {
    waiting: VecDeque<Unit<C>>,
    /// `None` while somebody works on it.
    known: Option<Recoveries<C::Found>>,
}

struct State<C: Check> {
    searchers: Vec<Searcher<C>>,
    waiting: usize,
    /// No more units come.
    is_closed: bool,
    done: Vec<Done>,
    /// When the units of the kind of machine must be done.
    deadline: Option<Instant>,
}

impl<C: Check> State<C> {
    /// A searcher that nobody works on, with the earliest unit that waits there.
    fn take(&mut self) -> Option<Taken<C>> {
        let free =
            self.searchers.iter().enumerate().filter(|(_, searcher)| searcher.known.is_some());
        // Units that are searched again come after all others.
        let first = |searcher: &Searcher<C>| {
            searcher.waiting.front().map(|unit| (unit.is_again, unit.point_limit, unit.number))
        };
        let (_, at) = free.filter_map(|(at, searcher)| Some((first(searcher)?, at))).min()?;
        let searcher = &mut self.searchers[at];
        let unit = searcher.waiting.pop_front()?;
        self.waiting -= 1;
        Some(Taken { searcher: at, unit, known: searcher.known.take()? })
    }

    /// Notes the outcome of a unit; one that was stopped is worth less than one before it.
    fn note(&mut self, unit: &Unit<C>, outcome: SearchOutcome) {
        let Unit { number, model, is_first, run, is_again, .. } = unit;
        if *is_again {
            let before = self.done.iter_mut().find(|done| done.number == *number);
            let is_better = |before: &Done| before.outcome.stopped || !outcome.stopped;
            if let Some(before) = before.filter(|before| is_better(before)) {
                before.outcome = outcome;
            }
            return;
        }
        let waste = if *is_first { waste(&run.trace) } else { Vec::new() };
        let is_told = [run.trace.has_output(), !run.trace.stores().is_empty()];
        let (number, run, model, is_first) = (*number, run.number, *model, *is_first);
        self.done.push(Done { number, run, model, is_first, outcome, waste, is_told });
    }
}

/// Why no more runs are made.
pub(crate) enum Halt<E> {
    Enough,
    Failed(E),
}

/// What a worker does next.
enum Job<C: Check> {
    Search(Box<Taken<C>>),
    Record(Schedule),
}

/// Makes a run.
type Record<'a, C, E> = dyn Fn(&Schedule) -> Result<Recorded<C>, E> + Sync + 'a;

pub(crate) struct Crew<'a, C: Check, E> {
    how: &'a Scope,
    record: &'a Record<'a, C, E>,
    ahead: Ahead<Result<Recorded<C>, E>>,
    workers: usize,
    observer: &'a dyn Onlooker,
    begun: Instant,
    state: Mutex<State<C>>,
    changed: Condvar,
    /// For each model the first unit that found something: later ones need not be done.
    first: Vec<AtomicUsize>,
    /// Whether there was too little time.
    is_late: AtomicBool,
    has_failed: AtomicBool,
}

impl<'a, C, E> Crew<'a, C, E>
where
    C: Check + Send + Sync,
    C::Found: Send,
    E: Send,
{
    /// `sharing` is what threads of recovery are known to share.
    pub(crate) fn new(
        how: &'a Scope,
        record: &'a Record<'a, C, E>,
        observer: &'a dyn Onlooker,
        sharing: &Sharing,
        begun: Instant,
    ) -> Crew<'a, C, E> {
        let known = || Recoveries { seen: Seen::of(sharing), ..Recoveries::default() };
        let searcher = |_| Searcher { waiting: VecDeque::new(), known: Some(known()) };
        let searchers = (0..how.searchers).map(searcher).collect();
        let state =
            State { searchers, waiting: 0, is_closed: false, done: Vec::new(), deadline: None };
        let workers = how.workers.unwrap_or_else(host_threads).max(1);
        Crew {
            how,
            record,
            ahead: Ahead::new(workers),
            workers,
            observer,
            begun,
            state: Mutex::new(state),
            changed: Condvar::new(),
            first: how.models.iter().map(|_| AtomicUsize::new(usize::MAX)).collect(),
            is_late: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Calls `make`, which adds units, while workers do them; returns when all are done.
    pub(crate) fn work<T>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        thread::scope(|scope| {
            for _ in 1..self.workers {
                // Without more threads this one does all of it.
                let _ = thread::Builder::new().spawn_scoped(scope, || self.work_on());
            }
            let guard = Abandoned(self);
            let made = make();
            if made.is_err() {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            self.lock().is_closed = true;
            self.changed.notify_all();
            self.work_on();
            drop(guard);
            made
        })
    }

    /// A new kind of machine, the first of so many that are left, which share the time.
    pub(crate) fn begin_kind(&self, left: usize) {
        let share = |end: Instant| match left {
            1 => end,
            _ => Instant::now() + end.saturating_duration_since(Instant::now()) / left as u32,
        };
        self.lock().deadline = self.end().map(share);
    }

    /// Whether no more runs under these models are wanted.
    pub(crate) fn is_over(&self, models: &[Model]) -> bool {
        let deadline = self.lock().deadline;
        let found = |model: &Model| self.first_of(*model).load(Ordering::Relaxed) < usize::MAX;
        self.must_stop(deadline) || models.iter().all(found)
    }

    /// Works until all units are done that were added so far; true if each of these models has
    /// found something in them.
    pub(crate) fn finish(&self, models: &[Model]) -> bool {
        let mut state = self.lock();
        let is_busy = |state: &State<C>| {
            let is_at_work = |searcher: &Searcher<C>| searcher.known.is_none();
            state.waiting > 0 || state.searchers.iter().any(is_at_work)
        };
        while is_busy(&state) && !self.has_failed.load(Ordering::Relaxed) {
            state = match state.take() {
                Some(taken) => {
                    drop(state);
                    self.do_unit(taken)
                }
                None => self.wait(state),
            };
        }
        models.iter().all(|model| self.first_of(*model).load(Ordering::Relaxed) < usize::MAX)
    }

    /// Adds a unit to a searcher; works if too many wait.
    pub(crate) fn add(&self, searcher: usize, mut unit: Unit<C>) {
        let mut state = self.lock();
        if self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        unit.deadline = state.deadline;
        state.searchers[searcher].waiting.push_back(unit);
        state.waiting += 1;
        self.changed.notify_one();
        while state.waiting > WAITING_MAX {
            state = match state.take() {
                Some(taken) => {
                    drop(state);
                    self.do_unit(taken)
                }
                None => self.wait(state),
            };
        }
    }

    /// The run of this schedule, made now if it was not made ahead. One that fails when all is to
    /// stop was cut short by that.
    pub(crate) fn record(&self, schedule: &Schedule) -> Result<Recorded<C>, Halt<E>> {
        let made = self.ahead.take(schedule).unwrap_or_else(|| (self.record)(schedule));
        made.map_err(|error| match self.must_stop(self.end()) {
            true => Halt::Enough,
            false => Halt::Failed(error),
        })
    }

    /// Lets the workers make these runs ahead, as many as it pays.
    pub(crate) fn foresee(&self, later: &mut dyn Iterator<Item = Schedule>) {
        if self.workers > 1 && self.ahead.foresee(later) {
            // Under the lock, as a worker looks for both kinds of jobs under it.
            let _state = self.lock();
            self.changed.notify_all();
        }
    }

    /// Does units, and makes runs ahead, until none is left and no more come.
    fn work_on(&self) {
        let _guard = Abandoned(self);
        let mut state = self.lock();
        loop {
            state = match self.next_job(&mut state) {
                Some(Job::Search(taken)) => {
                    drop(state);
                    self.do_unit(*taken)
                }
                Some(Job::Record(schedule)) => {
                    drop(state);
                    self.ahead.put(&schedule, || (self.record)(&schedule));
                    self.lock()
                }
                None if state.is_closed && state.waiting == 0 => return,
                None => self.wait(state),
            };
        }
    }

    /// Runs are made ahead only while few units wait, and somebody searches.
    fn next_job(&self, state: &mut State<C>) -> Option<Job<C>> {
        let few = state.waiting < WAITING_MAX / 2 && !state.is_closed;
        let is_searched = state.searchers.iter().any(|searcher| searcher.known.is_none());
        let ahead = few && (is_searched || state.waiting == 0);
        let record = if ahead { self.ahead.next() } else { None };
        record.map(Job::Record).or_else(|| state.take().map(|taken| Job::Search(Box::new(taken))))
    }

    fn do_unit(&self, taken: Taken<C>) -> MutexGuard<'_, State<C>> {
        let Taken { searcher, mut unit, mut known } = taken;
        let outcome = self.outcome(&unit, &mut known);
        let mut state = self.lock();
        state.searchers[searcher].known = Some(known);
        if let Some(outcome) = outcome {
            let again = self.again(&unit, &outcome);
            state.note(&unit, outcome);
            if let Some((point_limit, deadline)) = again {
                (unit.point_limit, unit.deadline, unit.is_again) = (point_limit, deadline, true);
                state.searchers[searcher].waiting.push_back(unit);
                state.waiting += 1;
            }
        }
        self.changed.notify_all();
        state
    }

    /// How many images of a point to try, and until when, if the unit is to be searched again: when
    /// its share of the time was too short, or for more images of the points that have many. With
    /// several threads the time is for other schedules.
    fn again(&self, unit: &Unit<C>, outcome: &SearchOutcome) -> Option<(u64, Option<Instant>)> {
        let Scope { base, time, search, .. } = self.how;
        let end = self.end();
        if base.threads > 1 || outcome.is_complete() || outcome.finding.is_some() {
            return None;
        }
        if outcome.stopped {
            let has_time = unit.deadline < end && !self.is_halted();
            return has_time.then_some((unit.point_limit, end));
        }
        let is_wanted = time.is_some() || search.thorough;
        let more = unit.point_limit.saturating_mul(MORE_IMAGES);
        // What is left out for other reasons, more images of a point do not bring.
        let is_cut = outcome.sampled_points > 0 && !outcome.out_of_budget && !outcome.is_full;
        (is_wanted && is_cut).then_some((more, end))
    }

    /// When the time is over, if it ever is.
    fn end(&self) -> Option<Instant> {
        self.how.time.and_then(|time| self.begun.checked_add(time))
    }

    /// Searches the unit; `None` if that is not needed.
    fn outcome(&self, unit: &Unit<C>, known: &mut Recoveries<C::Found>) -> Option<SearchOutcome> {
        let (first, deadline) = (self.first_of(unit.model), unit.deadline);
        let is_needless = || first.load(Ordering::Relaxed) < unit.number;
        if let Some(outcome) = self.observer.known(unit.number) {
            return Some(outcome);
        }
        if is_needless() {
            return None;
        }
        let Run { trace, check, turns, .. } = &*unit.run;
        let events = unit.events.clone();
        let usual = &self.how.search;
        let (model, point_limit) = (unit.model, unit.point_limit);
        let search = Search { model, events, point_limit, ..usual.clone() };
        if self.must_stop(deadline) {
            let tried = Some(PointsTried { whole: 0, all: points(trace, &search) });
            return Some(SearchOutcome { stopped: true, tried, ..SearchOutcome::of(model) });
        }
        let mut outcome =
            search_on(trace.clone(), &search, check, known, &mut |_| match is_needless()
                || self.must_stop(deadline)
            {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        if let Some(finding) = &mut outcome.finding {
            finding.schedule = Some(turns.to_string());
            first.fetch_min(unit.number, Ordering::Relaxed);
            self.observer.has_found(unit.number, &outcome);
            if let Some(counted) = self.observer.counted(unit.number) {
                outcome = SearchOutcome { finding: outcome.finding, ..counted };
            }
        } else if !outcome.stopped && self.again(unit, &outcome).is_none() {
            self.observer.has_done(unit.number, &outcome);
        }
        self.tell(unit);
        Some(outcome)
    }

    /// Nothing more is done, as a worker has panicked.
    fn abandon(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        state.searchers.iter_mut().for_each(|searcher| searcher.waiting.clear());
        (state.waiting, state.is_closed) = (0, true);
        self.changed.notify_all();
    }

    fn tell(&self, unit: &Unit<C>) {
        let of_runs = (unit.run.number % KIND) as f64 / self.how.runs as f64;
        let of_time = self
            .how
            .time
            .map_or(0.0, |time| self.begun.elapsed().as_secs_f64() / time.as_secs_f64().max(1e-9));
        self.observer.is_at(of_runs.max(of_time).min(1.0));
    }

    fn first_of(&self, model: Model) -> &AtomicUsize {
        let at = self.how.models.iter().position(|of| *of == model).expect("a model of these");
        &self.first[at]
    }

    fn must_stop(&self, deadline: Option<Instant>) -> bool {
        let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        // The only run has more time when the other kinds of machines are done.
        if is_late && (self.how.base.threads > 1 || deadline == self.end()) {
            self.is_late.store(true, Ordering::Relaxed);
        }
        is_late || self.is_halted()
    }

    /// Whether everything is to stop.
    fn is_halted(&self) -> bool {
        self.observer.stops() || self.has_failed.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State<C>>) -> MutexGuard<'s, State<C>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what threads of recovery have come to share; true if that is more than was known.
    pub(crate) fn has_shared(&self, sharing: &mut Sharing) -> bool {
        sharing.grew = false;
        let state = self.lock();
        let known = state.searchers.iter().filter_map(|searcher| searcher.known.as_ref());
        known.for_each(|known| sharing.add(&known.seen.shared()));
        sharing.grew
    }

    /// The outcome, once all units are done.
    pub(crate) fn explored(self, kinds: Vec<Machines>) -> Covered {
        let first = self.first.iter().map(|first| first.load(Ordering::Relaxed)).collect();
        let (is_late, is_stopped) = (self.is_late.into_inner(), self.observer.stops());
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Covered::of(self.how, kinds, state.done, first, [is_late, is_stopped])
    }
}

/// Should this thread panic, the others end too, and do not wait for it.
struct Abandoned<'c, 'a, C, E>(&'c Crew<'a, C, E>)
where
    C: Check + Send + Sync,
    C::Found: Send,
    E: Send;

impl<C, E> Drop for Abandoned<'_, '_, C, E>
where
    C: Check + Send + Sync,
    C::Found: Send,
    E: Send,
{
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abandon();
        }
    }
}
