//! Programs of steps that happen wholly or not at all: a crash leaves what there was before the
//! step that it cut off, or after it.

use seawall_explore::{
    CrashImage, CrashPoint, Model, Reached, Schedule, Search, check, record, search,
};
use seawall_memory::{Image, Memory};
use seawall_runtime::{Heap, HeapFlaw, Logging, Session, TxError};
use seawall_testkit::script::NAME;
use std::fmt::Debug;
use std::hash::Hash;

/// In the long run (`SEAWALL_LONG=1`), tests try all that they can.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("SEAWALL_LONG").is_some()
}

/// All models, each with both ways of logging; but in the long run, only px86 has both, and the
/// others take turns.
pub(crate) fn models_and_kinds() -> impl Iterator<Item = (Model, Logging)> {
    let both = [Logging::Redo, Logging::Undo];
    Model::all().enumerate().flat_map(move |(number, model)| {
        let has_both = model == Model::Px86 || is_long_run();
        let kinds = if has_both { &both[..] } else { &both[number % 2..][..1] };
        kinds.iter().map(move |kind| (model, *kind)).collect::<Vec<_>>()
    })
}

/// A step of a program on a heap.
pub(crate) trait Step: Copy + Send + Sync + 'static {
    /// What is looked at of the heap.
    type State: Eq + Hash + Debug + Send + Sync + 'static;

    /// Does step `number` of a program, from 0.
    fn run<M: Memory>(&self, session: &mut Session<'_, M>, number: u64) -> Result<(), TxError>;

    /// Looks at a heap, if it is whole.
    fn look<M: Memory>(memory: &M, heap: &Heap) -> Result<Self::State, String>;
}

/// The message of the first bad image that a crash of the program can leave, if there is one.
pub(crate) fn explore<S: Step>(
    (image, heap): (Image, Heap),
    steps: &[S],
    how: &Search,
    flaw: HeapFlaw,
) -> Result<Reached, String> {
    let mut states = vec![S::look(&image, &heap).expect("whole")];
    let model = image.clone();
    let mut session = heap.join(&model);
    for (step, number) in steps.iter().zip(0..) {
        step.run(&mut session, number).expect("room");
        states.push(S::look(&model, &heap).expect("whole"));
    }
    let (heap, program) = (heap.with_flaw(flaw), steps.to_vec());
    let trace = record(image, &Schedule::default(), move |memory| {
        let mut session = heap.join(memory);
        for (step, number) in program.iter().zip(0..) {
            step.run(&mut session, number).expect("room");
            memory.output(number);
        }
    })
    .expect("it ends");
    let judge = |found: &S::State, point: &CrashPoint| is_one_of_two(&states, found, point);
    let outcome = search(&trace, how, &check(reopened::<S>(flaw), judge));
    outcome.finding.map_or(Ok(outcome.reached), |finding| Err(finding.to_string()))
}

/// Opens the heap that a crash has left, and looks at it.
pub(crate) fn reopened<S: Step>(
    flaw: HeapFlaw,
) -> impl Fn(&CrashImage) -> Result<S::State, String> {
    move |image| {
        let opened = Heap::open_flawed(image, NAME, image.pm_bytes(), flaw);
        let (heap, _) = opened.map_err(|error| error.to_string())?;
        S::look(image, &heap)
    }
}

/// A step is durable when it returns, whatever the model: what is found must be the state behind
/// the last one that was done, or behind the next.
pub(crate) fn is_one_of_two<T: PartialEq + Debug>(
    states: &[T],
    found: &T,
    point: &CrashPoint,
) -> Result<(), String> {
    let done = point.outputs[0] as usize;
    let next = (done + 1).min(states.len() - 1);
    if states[done..=next].contains(found) {
        return Ok(());
    }
    let which = states.iter().position(|state| state == found);
    Err(format!("{done} steps were done, and the heap is as after {which:?}: {found:?}"))
}
