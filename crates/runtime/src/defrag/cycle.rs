//! A cycle, step by step. Each step does little, except the one that takes over a cycle, which
//! reads the entries of all chunks; none waits for a scope.

use super::decide::Decision;
use super::fixup::Change;
use super::forwarding_table::{self, Table};
use super::grace::Grace;
use super::hardware::Hardware;
use super::known::Known;
use super::options::{DefragCounts, DefragError, DefragOptions, Manner, Protocol};
use super::pages::{self, Page, Pages};
use super::plan::{Survey, Surveyed};
use super::purpose::Purpose;
use super::scope::Phase;
use crate::alloc::chunk::{self, Chunk};
use crate::described::Described;
use crate::heap::checked_word;
use crate::persist::Branded;
use crate::{AccessError, Heap, Session, TxError};
use rustc_hash::FxHashSet;
use seawall_memory::relocation::Relocate;
use seawall_memory::{Memory, MemoryExt};
use std::ops::Range;

/// The divisor of the live bytes that gives the bytes that must have been freed since the last
/// survey for another one to be worth its time.
const FREED_PARTS: u64 = 16;

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do: the heap is dense enough, or little has been freed since the last
    /// survey.
    Rest,
    /// It did a part of a cycle, or of a survey.
    Worked,
    /// It did nothing, since scopes of other threads must end first.
    Waits,
    /// It ended a cycle.
    Done,
}

#[derive(Debug, Default)]
pub(super) enum Stage {
    #[default]
    Rest,
    Survey(u64, Survey),
    Watch(Vec<Surveyed>, Grace),
    Decide(Decision),
    Named(Grace),
    /// As published: the steps to the next check, and the moves at the last one.
    Check(u64, u64),
    /// As published: nothing has moved between two checks.
    Runs,
    Move(u64),
    FixUp(u64),
    /// As published: what the last step found.
    Change(Change),
    Truncate(u64),
    Hold(Grace),
    Release(u64),
    End(u64),
    /// The next stage: choosing pages, or the end of a cycle.
    GiveBack(Grace, Option<Survey>),
}

impl Stage {
    fn purpose(&self) -> Purpose {
        match self {
            Stage::Rest | Stage::Survey(..) | Stage::Watch(..) | Stage::Check(..) | Stage::Runs => {
                Purpose::Mark
            }
            Stage::Decide(_) | Stage::Named(_) => Purpose::Plan,
            Stage::Move(_) | Stage::FixUp(_) | Stage::Change(_) => Purpose::Heal,
            Stage::Truncate(_)
            | Stage::Hold(_)
            | Stage::Release(_)
            | Stage::End(_)
            | Stage::GiveBack(..) => Purpose::Release,
        }
    }
}

/// Defragments a heap, step by step, in any thread. A heap has one defragmenter at a time.
///
/// A step runs in a thread that is in no scope: by [`typed::Thread::defragment`], or on an untyped
/// session of a thread of its own.
///
/// [`typed::Thread::defragment`]: crate::typed::Thread::defragment
pub struct Defragmenter {
    pub(super) options: DefragOptions,
    pub(super) known: Known,
    pub(super) stage: Stage,
    pub(super) table: Option<Table>,
    /// The part of the table that relocation hardware reads, if hardware moves the objects.
    pub(super) hardware: Option<Hardware>,
    /// The number of pages that the table is for.
    pub(super) pages: u64,
    pub(super) counts: DefragCounts,
    /// Emptied pages, as chunk and page.
    pub(super) emptied: Vec<(u64, u64)>,
    /// Pages of a chunk to return to the system when no scope is left that can have an address
    /// there.
    pub(super) vacant: Vec<(u64, Range<u64>)>,
    /// Bytes that had been freed at the last survey, and live bytes then.
    surveyed: Option<(u64, u64)>,
}

impl std::fmt::Debug for Defragmenter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Defragmenter").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Defragmenter {
    /// Creates a defragmenter for heaps with a root of type `R`, all of whose objects have types
    /// that pointers lead to from there.
    ///
    /// # Errors
    /// [`DefragError::Ratios`].
    pub fn of<R: Branded>(options: DefragOptions) -> Result<Defragmenter, DefragError> {
        Defragmenter::with(options, Known::of::<R>())
    }

    /// Creates a defragmenter for this heap, whose root and objects have described types.
    ///
    /// # Errors
    /// [`DefragError::Ratios`].
    pub fn of_described(
        described: &Described,
        heap: &Heap,
        options: DefragOptions,
    ) -> Result<Defragmenter, DefragError> {
        Defragmenter::with(options, Known::of_described(described, heap))
    }

    fn with(options: DefragOptions, known: Known) -> Result<Defragmenter, DefragError> {
        options.check()?;
        Ok(Defragmenter {
            options,
            known,
            stage: Stage::Rest,
            table: None,
            hardware: None,
            pages: 0,
            counts: DefragCounts::default(),
            emptied: Vec::new(),
            vacant: Vec::new(),
            surveyed: None,
        })
    }

    /// Adds type `T`, to whose objects no pointer leads from the root: a program finds them by
    /// [`for_each`](crate::typed::Session::for_each).
    #[must_use]
    pub fn also<T: Branded>(mut self) -> Defragmenter {
        self.known.add::<T>();
        self
    }

    /// What cycles have done so far.
    pub fn counts(&self) -> DefragCounts {
        self.counts
    }

    /// Whether objects may be moving.
    pub fn is_in_cycle(&self) -> bool {
        !matches!(self.stage, Stage::Rest | Stage::Survey(..) | Stage::GiveBack(_, Some(_)))
    }

    /// Whether the next step changes objects as published: then the caller holds all locks by which
    /// the program accesses them. Such a step is short, and follows one that has read all it needs.
    pub fn changes_objects(&self) -> bool {
        matches!(self.stage, Stage::Change(_))
    }

    /// Whether nothing moves any more, as published, and the cycle is about to move the rest. The
    /// threads can follow all their pointers first, so that little is left for steps that
    /// [change objects](Defragmenter::changes_objects) under all locks.
    pub fn waits_for_runs(&self) -> bool {
        matches!(self.stage, Stage::Runs)
    }

    /// Runs a step, if there is anything to do. The thread of `session` must be in no scope, and
    /// the only one that runs steps for this heap; before another one does, it waits for its
    /// [flushes](seawall_memory::MemoryExt::drain). A crash at any time loses nothing.
    ///
    /// # Errors
    /// [`DefragError::Immobile`] where the heap was not made for it; [`DefragError::Hardware`];
    /// [`DefragError::UnknownType`] when there is an object of a type that was not named; and
    /// [`DefragError::Heap`], which is [`Full`](crate::TxError::Full) when there is no room for the
    /// copies. A cycle that has not begun to move objects is then given up; one that has goes on
    /// with the next step, also of another defragmenter.
    pub fn step<M: Memory>(&mut self, session: &mut Session<'_, M>) -> Result<Step, DefragError> {
        session.check_process().map_err(TxError::from)?;
        session.sit();
        let memory = session.memory;
        self.stage.purpose().charge(memory, || self.step_on(session))
    }

    fn step_on<M: Memory>(&mut self, session: &mut Session<'_, M>) -> Result<Step, DefragError> {
        let layout = session.heap.layout;
        match std::mem::take(&mut self.stage) {
            Stage::Rest => self.begin(session),
            Stage::Survey(chunk, survey) => self.survey(session, chunk, survey),
            Stage::Watch(chosen, grace) => self.watch(session, chosen, grace),
            Stage::Decide(decision) => self.decide(session, decision),
            Stage::Named(grace) => {
                let next = self.after_decision(session);
                self.wait(session, grace, Stage::Named, next)
            }
            Stage::Check(left, moves) => self.check_moves(session, left, moves),
            Stage::Runs => self.go(Stage::Move(0)),
            Stage::Move(next) => self.move_some(session, next),
            Stage::FixUp(chunk) => self.fix_up(session, chunk),
            Stage::Change(change) => self.change(session, change),
            Stage::Truncate(generation) => {
                session.log.truncate_all(session.memory);
                let retired: u64 = session.memory.load(layout.retired_now);
                if retired < generation {
                    return self.go(Stage::Truncate(generation));
                }
                self.go(Stage::Hold(Grace::of_now(session.memory, &layout)))
            }
            Stage::Hold(grace) => self.wait(session, grace, Stage::Hold, Stage::Release(0)),
            Stage::Release(next) => self.release(session, next),
            Stage::End(next) => self.end(session, next),
            Stage::GiveBack(grace, survey) => self.give_back(session, grace, survey),
        }
    }

    /// Runs steps until a cycle has ended or there is nothing to do; waits for scopes of other
    /// threads.
    ///
    /// # Errors
    /// As [`step`](Defragmenter::step).
    pub fn run<M: Memory>(&mut self, session: &mut Session<'_, M>) -> Result<(), DefragError> {
        loop {
            match self.step(session)? {
                Step::Rest | Step::Done => return Ok(()),
                Step::Worked => {}
                Step::Waits => self.wait_for_one(session),
            }
        }
    }

    /// As [`run`](Defragmenter::run), but begins no cycle; for the end of a program.
    ///
    /// # Errors
    /// As [`step`](Defragmenter::step).
    pub fn finish<M: Memory>(&mut self, session: &mut Session<'_, M>) -> Result<(), DefragError> {
        while self.is_in_cycle() {
            match self.run(session) {
                Err(DefragError::Heap(TxError::Full { .. })) if self.is_in_cycle() => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// After [`Step::Waits`]: waits until one of the scopes has ended.
    pub fn wait_for_one<M: Memory>(&self, session: &Session<'_, M>) {
        let (memory, layout) = (session.memory, &session.heap.layout);
        match &self.stage {
            Stage::Watch(_, grace)
            | Stage::Named(grace)
            | Stage::Hold(grace)
            | Stage::GiveBack(grace, _) => grace.wait_for_one(memory, layout),
            Stage::Decide(decision) => decision.grace.wait_for_one(memory, layout),
            _ => {}
        }
    }

    /// As published, objects move when they are accessed, before the cycle moves any.
    fn after_decision<M: Memory>(&self, session: &Session<'_, M>) -> Stage {
        let layout = &session.heap.layout;
        match self.options.form {
            Manner::Ours => Stage::Move(0),
            Manner::Published => {
                Stage::Check(self.options.check_steps, session.memory.load(layout.moves()))
            }
        }
    }

    /// Goes on once no object has moved between two checks.
    fn check_moves<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        left: u64,
        moves: u64,
    ) -> Result<Step, DefragError> {
        if left > 1 {
            return self.go(Stage::Check(left - 1, moves));
        }
        let now: u64 = session.memory.load(session.heap.layout.moves());
        let next = Stage::Check(self.options.check_steps, now);
        self.go(if now == moves { Stage::Runs } else { next })
    }

    pub(super) fn go(&mut self, stage: Stage) -> Result<Step, DefragError> {
        self.stage = stage;
        Ok(Step::Worked)
    }

    fn wait<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        mut grace: Grace,
        here: fn(Grace) -> Stage,
        next: Stage,
    ) -> Result<Step, DefragError> {
        if grace.is_over(session.memory, &session.heap.layout) {
            return self.go(next);
        }
        self.stage = here(grace);
        Ok(Step::Waits)
    }
}

/// Survey, and watching the chosen pages.
impl Defragmenter {
    fn begin<M: Memory>(&mut self, session: &Session<'_, M>) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        let layout = &heap.layout;
        if !layout.numbers.moves {
            return Err(DefragError::Immobile);
        }
        let freed = freed_bytes(session);
        if heap.phase(memory) != Phase::Rest {
            return self.take_over(session);
        }
        let is_due = |(then, live)| freed - then >= live / FREED_PARTS;
        if !self.surveyed.is_none_or(is_due) {
            return Ok(Step::Rest);
        }
        if self.options.protocol == Protocol::Ffccd && !memory.relocates() {
            return Err(DefragError::Hardware);
        }
        self.known.look_up(heap, memory)?;
        self.surveyed = Some((freed, 0));
        self.go(Stage::Survey(0, Survey::default()))
    }

    /// Takes over a cycle that was interrupted by a crash or an error, or whose defragmenter was
    /// dropped. Pages without a durable decision stay as they are.
    fn take_over<M: Memory>(&mut self, session: &Session<'_, M>) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        let layout = &heap.layout;
        session.look_away();
        let table = checked_word::load(memory, layout.moved_table()).unwrap_or(0);
        self.table = table.checked_sub(1).map(|chunk| Table::at(layout, chunk));
        self.pages = self.table.and_then(|table| table.head(memory)).map_or(0, |(pages, _)| pages);
        let named = self.table.iter().flat_map(|table| {
            let heads = (0..self.pages).map(|number| table.entry(number));
            heads.filter_map(|at| forwarding_table::page_of(checked_word::claimed(memory, at)))
        });
        let named: FxHashSet<(u64, u64)> = named.collect();
        for chunk in 0..heap.chunks(memory)? {
            let pages = Pages::load(memory, layout, chunk);
            let is_undecided = |page: &u64| match pages.page(*page) {
                Page::Watched | Page::Kept => true,
                Page::Touched => !named.contains(&(chunk, *page)),
                Page::Usual | Page::Moving => false,
            };
            for page in (0..pages::PAGES).filter(is_undecided) {
                pages::forget(memory, layout, (chunk, page));
                session.note_usual(chunk);
            }
        }
        self.emptied.clear();
        if self.table.is_none() {
            memory.swap(layout.phase, 0);
            return Ok(Step::Worked);
        }
        if heap.protocol(memory) == Protocol::Ffccd {
            // The previous defragmenter may have stopped before it showed the table to the
            // hardware.
            let table = self.table.as_ref().expect("just found");
            let hardware = Hardware::of(layout, table, self.pages);
            hardware.show(memory);
            self.hardware = Some(hardware);
        }
        memory.swap(layout.phase, 2);
        self.go(Stage::Named(Grace::of_now(memory, layout)))
    }

    fn survey<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chunk: u64,
        mut survey: Survey,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, session.heap);
        if chunk < heap.chunks(memory)? {
            session.look_at(chunk);
            let next = survey.look(memory, &heap, chunk, &self.known);
            session.look_away();
            let next = if self.vacate_free(session, chunk)? { next? } else { chunk };
            return self.go(Stage::Survey(next, survey));
        }
        if self.vacant.is_empty() {
            return self.choose(session, survey);
        }
        let grace = Grace::of_now(memory, &heap.layout);
        self.go(Stage::GiveBack(grace, Some(survey)))
    }

    /// Chooses the pages to empty, if a cycle is due.
    pub(super) fn choose<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        survey: Survey,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, session.heap);
        self.surveyed = self.surveyed.map(|(freed, _)| (freed, survey.live));
        if !survey.is_due(self.options.trigger) {
            return Ok(Step::Rest);
        }
        if let Some(tag) = survey.unknown {
            self.known.learn(&heap, memory, tag)?;
        }
        let chosen = survey.choose(self.options.trigger, self.options.target);
        let layout = &heap.layout;
        if chosen.is_empty() || memory.compare_exchange(layout.phase, 0, 1).is_err() {
            return Ok(Step::Rest);
        }
        let DefragOptions { protocol, form, .. } = self.options;
        memory.store(layout.protocol(), protocol.number() | form.bits());
        let (empty, chosen): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|page| page.objects == 0);
        let empty = watch_over(session, &empty).inspect_err(|_| {
            memory.swap(layout.phase, 0);
        })?;
        self.emptied = empty.iter().map(|page| (page.chunk, page.page)).collect();
        self.go(Stage::Watch(chosen, Grace::of_now(memory, layout)))
    }

    fn watch<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chosen: Vec<Surveyed>,
        mut grace: Grace,
    ) -> Result<Step, DefragError> {
        if !grace.is_over(session.memory, &session.heap.layout) {
            self.stage = Stage::Watch(chosen, grace);
            return Ok(Step::Waits);
        }
        if chosen.is_empty() {
            return self.go(Stage::End(0));
        }
        match self.place_table(session, chosen.len() as u64) {
            Ok(table) => {
                (self.table, self.pages) = (Some(table), chosen.len() as u64);
                self.go(Stage::Decide(Decision::of(chosen)))
            }
            Err(error) => {
                self.stage = Stage::End(0);
                Err(error.into())
            }
        }
    }
}

/// Marks pages, so that nothing is allocated there; leaves out those of chunks that have another
/// use by now, or that objects are moved to.
pub(super) fn watch_over<M: Memory>(
    session: &mut Session<'_, M>,
    chosen: &[Surveyed],
) -> Result<Vec<Surveyed>, AccessError> {
    let (memory, layout) = (session.memory, session.heap.layout);
    let mut watched = Vec::with_capacity(chosen.len());
    for group in chosen.chunk_by(|one, other| one.chunk == other.chunk) {
        let is_same = session.with_chunk_lock(|_| -> Result<bool, AccessError> {
            let chunk = group[0].chunk;
            let is_destination = Pages::load(memory, &layout, chunk).is_destination();
            let entry = chunk::load(memory, &layout, chunk)?;
            let is_same = entry == Chunk::Small(group[0].class) && !is_destination;
            for page in group.iter().filter(|_| is_same) {
                let to = if page.objects == 0 { Page::Kept } else { Page::Watched };
                let page = (page.chunk, page.page);
                let _ = pages::change(memory, &layout, page, (Page::Usual, to));
            }
            Ok(is_same)
        })?;
        watched.extend(group.iter().filter(|_| is_same));
    }
    Ok(watched)
}

/// The bytes that the threads of the heap have freed since it was opened.
fn freed_bytes<M: Memory>(session: &Session<'_, M>) -> u64 {
    let layout = &session.heap.layout;
    let freed = |thread| session.memory.load::<u64>(layout.freed_bytes(thread));
    (0..layout.numbers.threads).map(freed).sum()
}
