//! What the reduction shows of random programs, against interruptions at every call and every image
//! that the model allows at any moment.
//!
//! The comparison knows neither places nor moments that were shown before, and walks the images by
//! itself: all that it takes from the explorer is how a run is recorded, what a model says of it,
//! which loads could have been late, and which wide stores other threads met half done.

use super::programs::{Call, Program, Ran, Step, WORDS};
use super::{Branching, Reduction, Schedules};
use crate::models::order::Cut;
use crate::recoveries::Recoveries;
use crate::schedule::{Departure, DepartureKind, Schedule, Turns};
use crate::trace::{Event, Trace};
use crate::walk::Walk;
use crate::{CrashImage, CrashPoint, Reached, Search, check, search_on};
use seawall_memory::{MemoryExt, Model};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// What a crash shows: the words that recovery reads, what was promised, and what was told.
pub(super) type State = (Vec<u64>, Vec<u64>, Vec<u64>);

/// Every state that the explorer shows of the program.
pub(super) fn explored(
    how: &Schedules,
    reduction: Reduction,
    program: &Program,
) -> BTreeSet<State> {
    let base = Schedule { threads: program.threads(), ..Schedule::default() };
    let all = RefCell::new(BTreeSet::new());
    let mut known = Recoveries::default();
    let visit = |_: &Schedule, trace: Trace| {
        let words = |image: &CrashImage| Ok(WORDS.map(|at| image.load::<u64>(at)).to_vec());
        let judge = |found: &Vec<u64>, point: &CrashPoint| {
            let state = (found.clone(), point.promised.to_vec(), point.outputs.to_vec());
            all.borrow_mut().insert(state);
            Ok(())
        };
        let options =
            Search { depth: 0, thorough: how.thorough, torn_lines: 8, ..Search::new(how.model) };
        let (trace, go_on) = (Arc::new(trace), &mut |_| ControlFlow::Continue(()));
        let outcome = search_on(trace, &options, &check(words, judge), &mut known, go_on);
        assert_eq!(outcome.reached, Reached::Complete);
        ControlFlow::Continue(())
    };
    let record = |schedule: &Schedule| program.run(schedule).map(|ran| ran.trace);
    let (models, seen) = ([how.model], &mut Branching::default());
    let tried = how.each_but((reduction, &models), &base, seen, &mut |_| (), record, visit);
    let tried = tried.unwrap();
    assert!(tried.complete);
    all.into_inner()
}

/// A run to be made, and what it costs.
#[derive(Clone, Default)]
struct Chosen {
    choices: Vec<Departure>,
    interruptions: usize,
    delays: usize,
}

/// Every state of every run with so many interruptions and delays.
pub(super) fn every(how: &Schedules, program: &Program) -> BTreeSet<State> {
    let mut all = BTreeSet::new();
    let buffer = if how.model.buffers_stores() && how.delays > 0 { how.buffer } else { 0 };
    let base =
        Schedule { threads: program.threads(), model: how.model, buffer, ..Schedule::default() };
    let mut left = vec![(Chosen::default(), Vec::new())];
    while let Some((chosen, before)) = left.pop() {
        let turns = Turns::Chosen(chosen.choices.clone());
        let ran = program.run(&Schedule { turns, ..base.clone() }).expect("it ends");
        let trace = &ran.trace;
        let same = |(one, other): &(&Event, &Event)| {
            (one.thread, one.kind, one.operation) == (other.thread, other.kind, other.operation)
        };
        // What the run has in common with the one that it departs from was looked at. Other words
        // of a write are stored by the same events.
        let is_reversed = |last: &Departure| matches!(last.kind, DepartureKind::Reversed(_));
        let common = match chosen.choices.last().is_some_and(is_reversed) {
            true => 0,
            false => trace.events.iter().zip(&before).take_while(same).count(),
        };
        states(trace, how.model, common, &mut all);
        let events = trace.events.clone();
        longer(how, &chosen, &ran, |next| left.push((next, events.clone())));
    }
    all
}

/// The run with one more choice, after the others, in every way.
fn longer(how: &Schedules, chosen: &Chosen, ran: &Ran, mut add: impl FnMut(Chosen)) {
    let mut add = |call: u64, kind: DepartureKind, interruptions: usize, delays: usize| {
        let follows = chosen.choices.last().is_none_or(|last| last.may_precede(call, kind));
        let choices = [&chosen.choices[..], &[Departure { call, kind }]].concat();
        let interruptions = chosen.interruptions + interruptions;
        let delays = chosen.delays + delays;
        if follows && interruptions <= how.interruptions && delays <= how.delays {
            add(Chosen { choices, interruptions, delays });
        }
    };
    let trace = &ran.trace;
    let calls: Vec<(u64, u16)> = ran.calls.iter().map(|(call, thread)| (*call, *thread)).collect();
    for (at, &(call, runs)) in calls.iter().enumerate() {
        let goes_on = at > 0 && calls[at - 1].1 == runs;
        let others = (0..trace.threads as u16).filter(|other| *other != runs);
        for other in others.filter(|other| calls[at..].iter().any(|(_, of)| of == other)) {
            add(call, DepartureKind::Run(other), usize::from(goes_on), 0);
        }
    }
    for access in &trace.accesses {
        for behind in access.behind.0..access.behind.1 {
            add(access.call, DepartureKind::Behind(behind), 0, 1);
        }
    }
    for met in &trace.crossed {
        add(met.call, DepartureKind::Reversed(met.store), 0, 0);
    }
    for met in &trace.met {
        let kind = DepartureKind::Late(met.store);
        let is_late = chosen.choices.iter().any(|choice| choice.kind == kind);
        add(met.call, kind, 0, usize::from(!is_late));
    }
}

/// Adds what a crash after more than so many events shows.
fn states(trace: &Trace, model: Model, after: usize, all: &mut BTreeSet<State>) {
    let by_lanes = trace.by_lanes(model);
    let trace = by_lanes.as_ref().unwrap_or(trace);
    let mut walk = Walk::new(trace, model);
    let logs = trace.lines.len() as u32;
    loop {
        if walk.point.event >= after {
            let window = |walk: &Walk<'_>, log| walk.state.order.window(log);
            let mut cut = Cut((0..logs).map(|log| window(&walk, log).0).collect());
            loop {
                if walk.state.order.allows(&cut) {
                    let (promised, outputs) =
                        (walk.point.promised.to_vec(), walk.point.outputs.to_vec());
                    all.insert((words(trace, &cut), promised, outputs));
                }
                let next = (0..logs).find(|&log| cut.get(log) < window(&walk, log).1);
                let Some(next) = next else { break };
                cut.set(next, cut.get(next) + 1);
                (0..next).for_each(|log| cut.set(log, window(&walk, log).0));
            }
        }
        if !walk.advance() {
            return;
        }
    }
}

/// The words of the image with so many stores of each line.
fn words(trace: &Trace, cut: &Cut) -> Vec<u64> {
    let mut words = vec![0; WORDS.len()];
    for (log, &kept) in trace.lines.iter().zip(&cut.0) {
        for &store in &log.stores[..kept as usize] {
            let change = trace.stores[store as usize].change;
            let at = WORDS.iter().position(|at| at.offset() / 8 == u64::from(change.word));
            words[at.expect("a word of the program")] = change.new;
        }
    }
    words
}

/// The size of a program, and the interruptions with which it is tried.
type Size = ((usize, usize), usize);

const SIZES: [Size; 6] =
    [((2, 6), 2), ((3, 3), 2), ((2, 6), 2), ((3, 4), 1), ((2, 4), 3), ((2, 3), 12)];

/// The programs to try: so many, or in the long run those of `SEAWALL_PROGRAMS=FROM..TO`.
fn programs(few: u64) -> Range<u64> {
    let Ok(more) = std::env::var("SEAWALL_PROGRAMS") else { return 0..few };
    let number = |text: &str| text.parse().expect("SEAWALL_PROGRAMS is a number, or two: FROM..TO");
    match more.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&more),
    }
}

/// A random program under a model: what the explorer misses, and what it shows that cannot be.
pub(super) fn differences(seed: u64, model: Model, reduction: Reduction) -> Option<String> {
    let (size, interruptions) = SIZES[seed as usize % SIZES.len()];
    let program = Program::random(seed, size);
    let delays = (seed / 6 % 3) as usize;
    let how = Schedules { interruptions, delays, limit: usize::MAX, ..Schedules::new(model) };
    difference(&how, reduction, &program).map(|difference| format!("program {seed} {difference}"))
}

/// What the explorer misses of a program, and what it shows that cannot be.
fn difference(how: &Schedules, reduction: Reduction, program: &Program) -> Option<String> {
    let [found, all] = [explored(how, reduction, program), every(how, program)];
    let missed: Vec<_> = all.difference(&found).collect();
    let added: Vec<_> = found.difference(&all).collect();
    (!missed.is_empty() || !added.is_empty()).then(|| {
        format!(
            "under {}, {} interruptions, {} delays: of {} states missed {} {:?}, added {} {:?}\n\
             {:?}",
            how.model,
            how.interruptions,
            how.delays,
            all.len(),
            missed.len(),
            missed.first(),
            added.len(),
            added.first(),
            program.0
        )
    })
}

/// The models that a program is tried under: both of x86, and another one in turn.
fn models(seed: u64) -> impl Iterator<Item = Model> {
    let others: Vec<Model> = Model::all().filter(|model| !model.buffers_stores()).collect();
    let turn = others[(seed / 18) as usize % others.len()];
    Model::all().filter(move |model| model.buffers_stores() || *model == turn)
}

#[test]
fn random_programs_show_all_that_interruptions_at_every_call_show() {
    let (mut told, all) = (0, programs(150));
    for seed in all.clone() {
        for model in models(seed) {
            if let Some(difference) = differences(seed, model, Reduction::Redundant) {
                told += 1;
                println!("{difference}");
            }
        }
        if seed % 1000 == 999 {
            println!("{} programs, {told} differ", seed + 1 - all.start);
        }
    }
    assert_eq!(told, 0, "of programs {all:?}");
}

/// A step that is always made.
fn always(call: Call) -> Step {
    Step { call, only_if: None }
}

#[test]
fn a_line_that_is_flushed_before_another_thread_stores_to_it_need_not_be_durable() {
    let [x, _, y, ..] = WORDS;
    let flushes = [Call::Store(y, 2), Call::Drain, Call::Flush(x), Call::Exchange(x, 8, 9)];
    let looks = [Call::Store(x, 8), Call::Load(x)].map(always);
    let last = Step { call: Call::Store(y, 3), only_if: Some(9) };
    let program = Program(vec![flushes.map(always).to_vec(), [&looks[..], &[last]].concat()]);
    for (interruptions, delays) in [(2, 0), (2, 1), (12, 0)] {
        let limit = usize::MAX;
        let how = Schedules { interruptions, delays, limit, ..Schedules::new(Model::Px86) };
        assert_eq!(difference(&how, Reduction::Redundant, &program), None);
    }
}

#[test]
fn a_reduction_that_leaves_out_too_much_misses_states() {
    use Reduction::{Fences, Handovers, Images};
    for reduction in [Fences, Handovers, Images] {
        let misses = |seed: u64| differences(seed, Model::Px86, reduction).is_some();
        assert!((0..400).any(misses), "{reduction:?} misses nothing");
    }
}
