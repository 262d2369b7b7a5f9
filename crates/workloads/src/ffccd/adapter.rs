//! A structure of typed objects as a workload: its parts, their locks, and the phases.

use super::directory::KEYS_MAX;
use super::phases::{self, Step, shuffle};
use super::turns::Turns;
use super::{ChurnChange, ChurnStructure, Cost, Lane, PartOf, Phases, Walk, pmemobj};
use crate::harness::history::{Contents, initial_tag, tag};
use crate::harness::workload::stream;
use crate::{Collect, Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory};
use seawall_runtime::defrag::{
    DefragCounts, DefragError, DefragOptions, Defragmenter, Manner, with_collector,
};
use seawall_runtime::typed::{self, Branded, Persist, Pool, Ptr, Thread};
use seawall_runtime::{Arena, CHUNK_BYTES, Guard, Heap, HeapError, HeapOptions, Locks, TxError};
use std::marker::PhantomData;
use std::sync::Arc;

/// The greatest number of parts, which is that of a heap's threads.
const PARTS_MAX: usize = 1024;
/// Chunks of each thread beyond those of the entries: one for each object size.
const CHUNKS_A_THREAD: u64 = 10;
/// Bytes of half a log.
const LOG_BYTES: u64 = 16 << 10;

/// The root object.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Root<'p, P> {
    entries: u64,
    count: u64,
    parts: [Option<Ptr<'p, P>>; PARTS_MAX],
}

/// The root of a structure, its brand left open.
pub(crate) struct RootOf<S>(PhantomData<S>);

impl<S: ChurnStructure> Branded for RootOf<S> {
    type In<'p> = Root<'p, PartOf<'p, S>>;
}

/// The benchmark of a structure that grows and shrinks.
pub struct Churned<S> {
    heap: Heap,
    entries: u64,
    parts: u64,
    locks: Locks,
    collect: Collect,
    cost: Cost,
    pool_bytes: u64,
    /// Clones share it: they are the threads of one run.
    turns: Arc<Turns>,
    structure: PhantomData<fn() -> S>,
}

impl<S> Clone for Churned<S> {
    fn clone(&self) -> Churned<S> {
        Churned { turns: self.turns.clone(), ..*self }
    }
}

/// The number of parts: one per thread, or a multiple if that would make a part too large.
fn parts(setup: &Setup) -> u64 {
    let threads = setup.threads as u64;
    threads * setup.entries.div_ceil(threads * KEYS_MAX)
}

/// The locks that a thread holds at once: all of them while objects move as published.
fn levels(setup: &Setup) -> u64 {
    let is_published = setup.collect.way().is_some_and(|way| way.form == Manner::Published);
    if is_published { parts(setup) } else { 1 }
}

/// Small at first, with room for twice the entries, so that free space can be in the wrong place.
fn options<S: ChurnStructure>(setup: &Setup) -> HeapOptions {
    let part = <PartOf<'static, S> as Persist<'static>>::SIZE.next_multiple_of(CHUNK_BYTES / 3);
    let bytes = 2 * setup.entries * S::ENTRY_BYTES + part * parts(setup);
    let chunks = bytes.div_ceil(CHUNK_BYTES) + CHUNKS_A_THREAD * setup.threads as u64 + 8;
    // A moved object has two places for a while, and each object size needs a chunk.
    let moves = setup.collect != Collect::Nobody;
    let chunks = if moves { 2 * chunks + CHUNKS_A_THREAD } else { chunks };
    HeapOptions {
        bytes: CHUNK_BYTES,
        bytes_max: chunks * CHUNK_BYTES,
        threads: setup.threads as u64 + u64::from(matches!(setup.collect, Collect::Thread(_))),
        log_bytes: LOG_BYTES,
        defragment: moves,
        ..typed::options::<RootOf<S>>()
    }
}

/// Places the locks of the parts and the words of [`Turns`] behind the DRAM of the heap; a thread
/// holds at most `levels`.
fn place(heap_dram: u64, threads: u64, parts: u64, levels: u64) -> (Arena, Locks, Addr) {
    let mut arena = Arena::new();
    arena.dram(heap_dram);
    let locks = Locks::place(&mut arena, parts, threads, levels);
    let turns = Turns::place(&mut arena);
    (arena, locks, turns)
}

/// Creates the parts and fills them, in random order.
fn fill<'p, S: ChurnStructure, M: Memory>(
    pool: Pool<'p, Root<'p, PartOf<'p, S>>>,
    memory: &M,
    setup: &Setup,
) -> Result<Heap, HeapError> {
    let (root, parts) = (pool.root(), parts(setup));
    let mut session = pool.join(memory);
    let mut made = Vec::new();
    for number in 0..parts as usize {
        let part = session.transaction(|tx| {
            let part = tx.alloc(S::empty(setup.entries.div_ceil(parts)))?;
            tx.set(root.at(Root::PARTS).index(number), Some(part))?;
            Ok::<_, TxError>(part)
        })?;
        made.push(part);
    }
    let mut keys: Vec<u64> = (0..setup.entries).collect();
    shuffle(&mut keys, &mut stream(setup.seed, 0));
    for (number, key) in (0..).zip(keys) {
        let (tag, dice, slip, lane) = (initial_tag(number), 0, false, Lane(None));
        let note = &mut |_, _| ();
        let mut change = ChurnChange { key: key / parts, tag, dice, slip, lane, note };
        S::put(&mut session, made[(key % parts) as usize], &mut change)?;
    }
    session.transaction(|tx| {
        tx.set(root.at(Root::ENTRIES), setup.entries)?;
        tx.set(root.at(Root::COUNT), parts)
    })?;
    session.retire();
    session.leave();
    Ok(pool.heap())
}

/// The state of a thread: its session, and its phases once it has begun.
pub struct Joined<'m, M: Memory, S> {
    pub(super) thread: Thread<'m, RootOf<S>, M>,
    phases: Option<Phases>,
    turns: Arc<Turns>,
    /// The number of runs over its parts that had been asked for when it did the last.
    runs: u64,
}

impl<S: ChurnStructure> Churned<S> {
    fn opened<M: Memory>(memory: &M, heap: Heap, layout: Layout) -> Result<Self, Damage> {
        let mut thread = Thread::<RootOf<S>, M>::join(heap, memory)?;
        let (entries, parts) = thread.enter(|session, root| {
            let entries = session.get(root.at(Root::ENTRIES))?;
            Ok::<_, Damage>((entries, session.get(root.at(Root::COUNT))?))
        })?;
        let fits = parts.checked_mul(KEYS_MAX).is_some_and(|keys| entries <= keys);
        if parts == 0 || parts > PARTS_MAX as u64 || !fits {
            return Err(Damage(format!("the root says {entries} entries in {parts} parts")));
        }
        let (arena, locks, turns) = place(heap.dram_bytes(), heap.threads(), parts, 1);
        layout.hold_dram(&arena)?;
        let turns = Turns::at(turns);
        let collect = Collect::by_steps(heap.moves().then(DefragOptions::default));
        let (cost, pool_bytes) = (Cost::Lean, layout.pm_bytes);
        let structure = PhantomData;
        Ok(Churned { heap, entries, parts, locks, collect, cost, pool_bytes, turns, structure })
    }

    /// Runs one step on the part of its key, whose lock is held; returns the result of a search.
    pub(super) fn run<M: Memory>(
        &self,
        thread: &mut Thread<'_, RootOf<S>, M>,
        step: Step,
        dice: u64,
        worker: &Worker,
    ) -> Result<Option<u64>, Damage> {
        let (part, key) = (step.key() % self.parts, step.key() / self.parts);
        let tag = tag(worker.thread, worker.number);
        let mut note = |key, tag| {
            worker.history.effect(worker.thread, worker.number, key * self.parts + part, tag);
        };
        match step {
            Step::Put(_) => note(key, tag),
            Step::Remove(_) => note(key, 0),
            Step::Get(_) | Step::Touch(_) => {}
        }
        let slip = worker.flaw == Flaw::Slip;
        let lane = pmemobj::lane(self.cost, self.pool_bytes, worker.thread);
        let change = &mut ChurnChange { key, tag, dice, slip, lane, note: &mut note };
        thread.enter(|session, root| {
            let part = session.get(root.at(Root::PARTS).index(part as usize))?;
            let part = part.ok_or_else(|| Damage(format!("there is no part of key {key}")))?;
            match step {
                Step::Get(_) => return Ok(S::get(session, part, key)?),
                Step::Put(_) => S::put(session, part, change)?,
                Step::Remove(_) => S::remove(session, part, change)?,
                Step::Touch(_) => S::touch(session, part, change)?,
            }
            Ok(None)
        })
    }
}

impl<S: ChurnStructure> Churned<S> {
    /// Follows all pointers of the parts of a thread, each under its lock: the read barrier moves
    /// the objects that have not moved.
    fn run_over<M: Memory>(
        &self,
        memory: &M,
        thread: &mut Thread<'_, RootOf<S>, M>,
        (number, threads): (u64, u64),
    ) {
        for part in (number..self.parts).step_by(threads as usize) {
            let guard = self.locks.acquire(memory, part, 0);
            // What is damaged the final check reports.
            let _ = thread.enter(|session, root| {
                let mut contents = Contents::new();
                let (parts, left) = (self.parts, u64::MAX);
                let mut walk = Walk { left, contents: &mut contents, parts, part };
                match session.get(root.at(Root::PARTS).index(part as usize))? {
                    Some(part) => S::check(session, part, &mut walk),
                    None => Ok(()),
                }
            });
            self.locks.release(memory, guard);
        }
    }
}

/// A step of defragmentation.
fn defragment<M: Memory, R: Branded>(
    thread: &mut Thread<'_, R, M>,
    defragmenter: &mut Defragmenter,
    worker: &Worker,
) {
    match thread.defragment(defragmenter) {
        Ok(_) | Err(DefragError::Heap(TxError::Full { .. })) => {}
        Err(error) => assert!(worker.flaw != Flaw::None, "{error}"),
    }
}

fn defragmenter<S: ChurnStructure>(way: DefragOptions) -> Defragmenter {
    Defragmenter::of::<RootOf<S>>(way).expect("ratios from a setup that was checked")
}

impl<S: ChurnStructure> Workload for Churned<S> {
    const NAME: &'static str = S::NAME;
    const ABOUT: &'static str = S::ABOUT;
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 0;
    const IN_HEAP: bool = true;
    const MOVES: bool = true;
    const SLIPS: bool = true;

    fn layout(setup: &Setup) -> Layout {
        let options = options::<S>(setup);
        let (arena, ..) = place(options.dram_bytes(), options.threads, parts(setup), levels(setup));
        let lanes = pmemobj::bytes(setup.cost, setup.threads);
        let pm_bytes = options.pm_bytes_max().next_multiple_of(LINE_BYTES) + lanes;
        Layout { pm_bytes, dram_bytes: arena.dram_bytes() }
    }

    fn steps(setup: &Setup, thread: usize, phases: u64) -> Option<u64> {
        let place = (thread as u64, setup.threads as u64);
        Some(phases::steps(setup.entries, place, phases, S::TOUCHES))
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Churned<S> {
        let options = options::<S>(setup);
        let heap = typed::create::<RootOf<S>, Heap, HeapError>(
            memory,
            S::NAME,
            setup.uuid(),
            &options,
            |pool| fill::<S, M>(pool, memory, setup),
        );
        let heap = heap.expect("options made from a setup that was checked, and room for entries");
        let (entries, parts) = (setup.entries, parts(setup));
        let (_, locks, turns) = place(heap.dram_bytes(), heap.threads(), parts, levels(setup));
        let heap = heap.with_flaw(setup.flaw.of_heap());
        let Setup { collect, cost, .. } = *setup;
        let pool_bytes = options.pm_bytes_max();
        let structure = PhantomData;
        let turns = Turns::at(turns);
        Churned { heap, entries, parts, locks, collect, cost, pool_bytes, turns, structure }
    }

    fn heap(&self) -> Option<Heap> {
        Some(self.heap)
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Churned<S>, Damage> {
        Churned::open_flawed(memory, layout, Flaw::None)
    }

    fn open_flawed<M: Memory>(
        memory: &M,
        layout: Layout,
        flaw: Flaw,
    ) -> Result<Churned<S>, Damage> {
        let heap = Heap::read(memory, S::NAME, layout.pm_bytes)?;
        layout.hold_dram(&place(heap.dram_bytes(), heap.threads(), 0, 1).0)?;
        let heap = typed::open_flawed::<RootOf<S>, Heap, HeapError>(
            memory,
            S::NAME,
            layout.pm_bytes,
            flaw.of_heap(),
            |pool| Ok(pool.heap()),
        )?;
        Churned::opened(memory, heap, layout)
    }

    type Local<'m, M: Memory + 'm> = Joined<'m, M, S>;

    fn join<'m, M: Memory>(&self, memory: &'m M) -> Joined<'m, M, S> {
        let thread = Thread::join(self.heap, memory).expect("a heap that was made or opened");
        Joined { thread, phases: None, turns: self.turns.clone(), runs: 0 }
    }

    fn step<M: Memory>(&self, memory: &M, local: &mut Joined<'_, M, S>, worker: &mut Worker) {
        let Joined { thread, phases, turns, runs } = local;
        let phases = phases.get_or_insert_with(|| {
            let seed = worker.below(u64::MAX);
            Phases::new(self.entries, worker.place(), seed, S::TOUCHES)
        });
        memory.work(20);
        let Some(step) = phases.step(worker.number) else { return };
        let is_search = worker.below(100) < u64::from(worker.search_percent);
        let step = if is_search { Step::Get(step.key()) } else { step };
        let guard = self.locks.acquire(memory, step.key() % self.parts, 0);
        let done = self.run(thread, step, phases.dice(), worker);
        // Under the planted bug later operations can fail; the final check reports it.
        if let Err(damage) = done
            && worker.flaw != Flaw::Slip
        {
            worker.fail(damage);
        }
        self.locks.release(memory, guard);
        let Collect::Steps(way) = self.collect else { return };
        let (number, threads) = worker.place();
        let steppers = if way.form == Manner::Published { threads } else { 1 };
        if number >= steppers {
            return;
        }
        turns.run_if_asked(memory, runs, || self.run_over(memory, thread, (number, threads)));
        let new = || defragmenter::<S>(way);
        let Some(mut defragmenter) = turns.take(memory, steppers, new) else { return };
        defragment(thread, &mut defragmenter, worker);
        if steppers > 1 && defragmenter.waits_for_runs() {
            turns.ask(memory);
        }
        if defragmenter.changes_objects() {
            let take = |part| self.locks.acquire(memory, part, part);
            let guards: Vec<Guard> = (0..self.parts).map(take).collect();
            defragment(thread, &mut defragmenter, worker);
            guards.into_iter().for_each(|guard| self.locks.release(memory, guard));
        }
        turns.give_back(memory, steppers, defragmenter);
    }

    fn again(&self) -> Churned<S> {
        Churned { turns: self.turns.again(), ..*self }
    }

    fn beside_collector<M: Memory, T>(
        &self,
        handle: impl FnOnce() -> M + Send,
        body: impl FnOnce() -> T,
    ) -> (T, Result<DefragCounts, DefragError>) {
        match self.collect {
            Collect::Thread(way) => {
                with_collector(self.heap, handle, defragmenter::<S>(way), |_| body())
            }
            _ => (body(), Ok(DefragCounts::default())),
        }
    }

    fn moved<M: Memory>(local: &Joined<'_, M, S>) -> DefragCounts {
        local.turns.counts()
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Thread::<RootOf<S>, M>::join(self.heap, memory)?.enter(|session, root| {
            let reach = session.reach(root)?;
            if let Some(dangling) = reach.dangling.first() {
                let (at, to) = (dangling.at, dangling.to);
                return Err(Damage(format!("the pointer at {at} leads to no object, but to {to}")));
            }
            if let Some(lost) = reach.lost.first() {
                return Err(Damage(format!("no pointer leads to the object at {}", lost.at)));
            }
            let mut contents = Contents::new();
            let (parts, left) = (self.parts, reach.reached);
            let mut walk = Walk { left, contents: &mut contents, parts, part: 0 };
            for number in 0..PARTS_MAX {
                walk.part = number as u64;
                let part = session.get(root.at(Root::PARTS).index(number))?;
                walk.ensure(part.is_some() == (walk.part < parts), || {
                    "it is there, or is not there, as the others are".to_owned()
                })?;
                if let Some(part) = part {
                    walk.object("part")?;
                    S::check(session, part, &mut walk)?;
                }
            }
            walk.ensure(walk.left == 0, || format!("{} objects more can be reached", walk.left))?;
            Ok(contents)
        })
    }
}
