//! A whole exploration: the runs of a program under all schedules up to bounds, and on each run
//! every image that a crash may leave.
//!
//! Runs are searched by all cores as they come, so memory holds only a few at a time; those that
//! are sure to be needed are made ahead, on all cores, too. A run, or a part of the only run, is a
//! unit; units go in turn to a fixed number of searchers, and each searcher keeps what it knows of
//! recovery from unit to unit. The outcome is that of the units in order, up to the first that
//! finds something: so it does not depend on the number of cores. Only a limit of time makes it
//! depend on the machine.

use crate::check::Check;
use crate::covered::{Covered, Estimate, Machines};
use crate::crew::{Crew, Halt, Run, Unit, host_threads};
use crate::interleavings::{Branching, Schedules, Tried};
use crate::options::Search;
use crate::outcome::SearchOutcome;
use crate::schedule::{Schedule, Turns, TurnsName};
use crate::spare::spare;
use crate::together::Sharing;
use crate::trace::Trace;
use crate::waste::Waste;
use seawall_memory::Model;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to explore, and how far.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The persistency models. Each kind of machine has its own runs.
    pub models: Vec<Model>,
    /// Threads, steps and seed of each run.
    pub base: Schedule,
    /// Interruptions of one run at most.
    pub interruptions: usize,
    /// Delays of one run at most, where the machine has store buffers.
    pub delays: usize,
    /// Stores that such a buffer holds.
    pub buffer: usize,
    /// Different runs at most, on each kind of machine.
    pub runs: usize,
    /// Besides these, runs at random at most: one behind every third.
    pub random: usize,
    /// The time that it may take.
    pub time: Option<Duration>,
    /// How to search a run; the model does not matter.
    pub search: Search,
    /// The part of the work to do, from 1, of how many.
    pub part: (usize, usize),
    /// Threads of the host that search and make runs [default: one for each core]. What is found
    /// does not depend on it.
    pub workers: Option<usize>,
    /// Threads of the host that search at once, each with what it knows of recovery, some 100 MB at
    /// most; the others make runs. How often recovery runs depends on it.
    pub searchers: usize,
    /// Do the units of this searcher alone, from 0, as they are done when all are: what it knows of
    /// recovery, and so all counts, are the same.
    pub only: Option<usize>,
}

impl Scope {
    /// The usual exploration of a program of so many threads: without a limit of time.
    pub fn new(models: &[Model], threads: usize) -> Scope {
        let bounds = Schedules::new(Model::Px86);
        Scope {
            models: models.to_vec(),
            base: Schedule { threads, ..Schedule::default() },
            interruptions: bounds.interruptions,
            delays: bounds.delays,
            buffer: bounds.buffer,
            runs: bounds.limit,
            random: 100,
            time: None,
            search: Search { torn_lines: 1, ..Search::new(Model::Px86) },
            part: (1, 1),
            workers: None,
            searchers: SEARCHERS,
            only: None,
        }
    }
}

/// A run of a program, and what the images that it may leave are checked against.
pub struct Recorded<C> {
    /// The run.
    pub trace: Trace,
    /// Its check; that of each run has the same [`recover`](Check::recover).
    pub check: C,
}

impl<C> AsMut<Trace> for Recorded<C> {
    fn as_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }
}

/// A run that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun<E> {
    /// The turns of its threads.
    pub turns: TurnsName,
    /// What happened.
    pub error: E,
}

/// Who looks on: to stop the exploration, to show how far it is, and to keep what is done.
pub trait Onlooker: Sync {
    /// Whether to stop.
    fn stops(&self) -> bool {
        false
    }

    /// So much of the work is done, from 0 to 1: an estimate.
    fn is_at(&self, _part: f64) {}

    /// The outcome of this unit, if it was done before.
    fn known(&self, _unit: usize) -> Option<SearchOutcome> {
        None
    }

    /// The unit is done.
    fn has_done(&self, _unit: usize, _outcome: &SearchOutcome) {}

    /// The unit is done, and has found something.
    fn has_found(&self, _unit: usize, _outcome: &SearchOutcome) {}

    /// The numbers of this unit, if it has found something elsewhere: it is searched again for that
    /// alone.
    fn counted(&self, _unit: usize) -> Option<SearchOutcome> {
        None
    }
}

/// Nobody looks on.
impl Onlooker for () {}

/// Explores the program of which `record` makes one run.
///
/// # Errors
/// The error of the first run that fails, unless the runs before it have shown a failure under all
/// models of its machine.
pub fn explore<C, E>(
    how: &Scope,
    record: impl Fn(&Schedule) -> Result<Recorded<C>, E> + Sync,
    observer: &dyn Onlooker,
) -> Result<Covered, FailedRun<E>>
where
    C: Check + Send + Sync,
    C::Found: Send,
    E: Send,
{
    let (number, of) = how.part;
    let (part, searchers) = ((number, of.max(1)), how.searchers.max(1));
    let how = &Scope { part, searchers, ..how.clone() };
    let kinds = kinds(&how.models);
    let record = |schedule: &Schedule| {
        let turns = || TurnsName(schedule.turns.clone(), schedule.seed);
        record(schedule).map_err(|error| FailedRun { turns: turns(), error })
    };
    let (mut sharing, begun) = (Sharing::default(), Instant::now());
    let mut only = None;
    loop {
        let crew = Crew::new(how, &record, observer, &sharing, begun);
        let made = crew.work(|| {
            let kind = |(at, models): (usize, &Vec<Model>)| {
                // How many runs of one kind are made does not number those of the next.
                let (units, number, only) = (KIND * at, KIND * at, &mut only);
                let mut runs = Runs { how, crew: &crew, units, number, only };
                runs.of_kind(models.clone(), kinds.len() - at)
            };
            kinds.iter().enumerate().map(kind).collect()
        })?;
        // Threads of recovery were not interrupted before they were known to share words.
        let is_whole = !crew.has_shared(&mut sharing);
        let mut covered = Covered { is_whole, ..crew.explored(made) };
        if covered.is_complete() && covered.finding().is_none() && covered.silence.is_empty() {
            covered
                .waste
                .extend(only.map_or_else(Vec::new, |run| spare_of(how, &run, observer, begun)));
            return Ok(covered);
        }
        if is_whole || covered.is_late || covered.is_stopped || covered.finding().is_some() {
            return Ok(covered);
        }
    }
}

/// The flushes and fences that the only run could do without.
fn spare_of<C>(how: &Scope, run: &Run<C>, observer: &dyn Onlooker, begun: Instant) -> Vec<Waste>
where
    C: Check + Send + Sync,
    C::Found: Send,
{
    let is_late = || how.time.is_some_and(|time| begun.elapsed() >= time);
    let stops = || is_late() || observer.stops();
    let search = Search { model: Model::Px86, ..how.search.clone() };
    let workers = how.workers.unwrap_or_else(host_threads);
    spare(&run.trace, &search, &run.check, workers, &stops)
}

/// The models by the kinds of machines whose runs differ.
fn kinds(models: &[Model]) -> Vec<Vec<Model>> {
    let kind =
        |model: Model| (model.buffers_stores(), model.orders_all_stores(), model.orders_loads());
    let mut kinds: Vec<Vec<Model>> = Vec::new();
    for &model in models {
        match kinds.iter_mut().find(|known| kind(known[0]) == kind(model)) {
            Some(known) if known.contains(&model) => {}
            Some(known) => known.push(model),
            None => kinds.push(vec![model]),
        }
    }
    kinds
}

/// Runs by few interruptions between two at random.
const BETWEEN_RANDOM: usize = 3;

/// The events that a part of the only run has at least, and at most.
const PART_EVENTS: (usize, usize) = (50, 1000);

/// Searchers by default: more of them know less of recovery each.
const SEARCHERS: usize = 4;

/// Units and runs of each kind of machine are numbered from a multiple of this.
pub(crate) const KIND: usize = 1 << 40;

/// Makes the runs of a program, in order.
struct Runs<'a, C: Check, E> {
    how: &'a Scope,
    crew: &'a Crew<'a, C, E>,
    /// Units and runs so far.
    units: usize,
    number: usize,
    /// The run of the only thread on x86.
    only: &'a mut Option<Arc<Run<C>>>,
}

impl<C, E> Runs<'_, C, E>
where
    C: Check + Send + Sync,
    C::Found: Send,
    E: Send,
{
    /// Makes the runs on a kind of machine, the first of so many that are left.
    fn of_kind(&mut self, models: Vec<Model>, left: usize) -> Result<Machines, E> {
        self.crew.begin_kind(left);
        let base = Schedule { model: models[0], ..self.how.base.clone() };
        if base.threads > 1 {
            return self.interleaved(models, &base);
        }
        let schedule = Schedule { turns: Turns::Chosen(Vec::new()), ..base };
        let is_made = match self.crew.record(&schedule) {
            Ok(run) => {
                self.add(&schedule, run, &models);
                true
            }
            Err(Halt::Enough) => false,
            Err(Halt::Failed(error)) => return Err(error),
        };
        let runs = usize::from(is_made);
        let tried = Tried { runs, made: 1, complete: is_made };
        Ok(Machines { models, tried, random: 0, estimate: None })
    }

    /// Makes all runs of several threads, up to the bounds, and some at random between them.
    fn interleaved(&mut self, models: Vec<Model>, base: &Schedule) -> Result<Machines, E> {
        let Scope { interruptions, delays, buffer, runs: limit, .. } = *self.how;
        let thorough = self.how.search.thorough;
        let bounds = Schedules { model: models[0], interruptions, delays, buffer, limit, thorough };
        let crew = self.crew;
        let (mut runs, mut random, made) = (0, 0, Cell::new(0));
        let mut seen = Branching::default();
        let mut failed = None;
        let tried = bounds.each_foreseen(
            &models,
            base,
            &mut seen,
            &mut |later| crew.foresee(later),
            |schedule| {
                if crew.is_over(&models) {
                    return Err(Halt::Enough);
                }
                made.set(made.get() + 1);
                crew.record(schedule)
            },
            |schedule, run| {
                runs += 1;
                self.add(schedule, run, &models);
                if runs % BETWEEN_RANDOM == 0 && random < self.how.random {
                    random += 1;
                    failed = self.at_random(base, random as u64, &models).err();
                }
                match failed {
                    Some(_) => ControlFlow::Break(()),
                    None => ControlFlow::Continue(()),
                }
            },
        );
        let tried = match (failed, tried) {
            (Some(Halt::Failed(error)), _) | (_, Err(Halt::Failed(error))) => {
                // If the runs before it were enough, searching them faster would have stopped.
                if !crew.finish(&models) {
                    return Err(error);
                }
                Tried { runs, made: made.get(), complete: false }
            }
            (None, Ok(tried)) => tried,
            (_, Err(Halt::Enough)) | (Some(Halt::Enough), _) => {
                Tried { runs, made: made.get(), complete: false }
            }
        };
        let delays = if models[0].buffers_stores() { delays } else { 0 };
        let estimate = (!tried.complete && tried.made > 0).then(|| Estimate {
            schedules: seen.within((interruptions, delays)),
            less_interrupted: interruptions.checked_sub(1).map(|less| seen.within((less, delays))),
            undelayed: (delays > 0).then(|| seen.within((interruptions, 0))),
        });
        Ok(Machines { models, tried, random, estimate })
    }

    fn at_random(&mut self, base: &Schedule, number: u64, models: &[Model]) -> Result<(), Halt<E>> {
        let turns = if number % 2 == 1 { Turns::Random } else { Turns::Priorities(3) };
        let seed = base.seed ^ (number - 1) << 32;
        let schedule = Schedule { turns, seed, ..base.clone() };
        let run = self.crew.record(&schedule)?;
        self.add(&schedule, run, models);
        Ok(())
    }

    /// Gives the units of a run to the searchers.
    fn add(&mut self, schedule: &Schedule, run: Recorded<C>, models: &[Model]) {
        let number = self.number;
        self.number += 1;
        let events = run.trace.events().len() + 1;
        let part = match schedule.threads {
            1 => events.div_ceil(self.how.searchers).clamp(PART_EVENTS.0, PART_EVENTS.1),
            _ => events,
        };
        let turns = TurnsName(schedule.turns.clone(), schedule.seed);
        let run = Arc::new(Run { number, turns, trace: Arc::new(run.trace), check: run.check });
        if schedule.threads == 1 && models.contains(&Model::Px86) {
            *self.only = Some(run.clone());
        }
        for (at, from) in (0..events).step_by(part).enumerate() {
            // The last part has the end of the run.
            let to = if from + part < events { from + part } else { usize::MAX };
            for (of, &model) in models.iter().enumerate() {
                let (unit, run, is_first) = (self.units, run.clone(), (at, of) == (0, 0));
                self.units += 1;
                let (number, of) = self.how.part;
                let searcher = (run.number + at) % self.how.searchers;
                if unit % of == number - 1 && self.how.only.is_none_or(|only| only == searcher) {
                    let unit = Unit {
                        number: unit,
                        run,
                        model,
                        events: from..to,
                        point_limit: self.how.search.point_limit,
                        is_first,
                        is_again: false,
                        deadline: None,
                    };
                    self.crew.add(searcher, unit);
                }
            }
        }
    }
}
