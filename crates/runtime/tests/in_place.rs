//! Plain stores beside transactions: what a program has stored and persisted itself stays, whatever
//! transactions wrote there before, in every crash that Px86 allows, and in a crash of recovery.
//!
//! Each operation of a heap is followed by each plain store to what it wrote. The same programs on
//! a pool that was not made for this lose data, which the search must find.

use crate::steps::{self, Step as _, explore, is_long_run, models_and_kinds, reopened};
use seawall_explore::{
    CrashPoint, Model, Reached, Schedule, Schedules, Search, check, record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::{
    Heap, HeapError, HeapFlaw, HeapOptions, Logging, Session, SharedSpace, Tx, TxError,
};
use seawall_testkit::script::{NAME, options};

/// Bytes of the root: a link, and words.
const ROOT: usize = 64;
const LINK: u64 = 0;
/// Bytes that are looked at of what the link leads to.
const SEEN: usize = 24;

/// One step of a program, atomic with respect to crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A transaction that stores a word of the root and one of the object.
    Store(Logging),
    /// One that writes bytes of the root that begin and end within words.
    Write(Logging),
    /// One that replaces the object by one of so many bytes.
    Replace(Logging, u64),
    /// One that frees the object.
    Free(Logging),
    /// One that fails after all that.
    Abort(Logging),
    /// One whose nested transaction fails, or not.
    Nested(Logging, bool),
    /// A store that is begun, and waited for.
    Begin(Logging),
    /// One that is begun and ended by calls, and paused between.
    Held(Logging),
    /// One that is dropped instead.
    Dropped(Logging),
    AllocInto,
    FreeFrom,
    /// A transaction that replaces the object by a reserved one of so many bytes, which the program
    /// has filled and flushed, if it `flushes`, ..
    Publish {
        kind: Logging,
        bytes: u64,
        flushes: bool,
    },
    /// .. or one that fails after that, ..
    Unpublish(Logging),
    /// .. a reservation that is cancelled, ..
    Cancel,
    /// .. and one that replaces it by an object that the commit flushes if it is named.
    Bare {
        kind: Logging,
        names: bool,
    },
    /// One that stores all of the object, and frees the one behind it, which it has allocated (a
    /// published bug of PMDK: the first one was not flushed then).
    FreeFresh(Logging),
    /// Truncates the logs.
    Retire,
    /// Plain stores, persisted: of a word of the root, ..
    Word(u64),
    /// .. one byte of it, ..
    Byte(u8),
    /// .. a word of the object, ..
    Inside(u64),
    /// .. and of zero to the link.
    Unlink,
    /// With another thread: a transaction that fails after it has written what `Write` does, ..
    AbortWrite,
    /// .. and plain stores of the bytes before and behind that.
    Bytes,
    /// A transaction that stores a word, and tells the other thread so, ..
    Tell(Logging),
    /// .. which then stores that word itself.
    Told,
}

const BOTH: [Logging; 2] = [Logging::Redo, Logging::Undo];

fn operations() -> Vec<Step> {
    let of = |kind| {
        [
            Step::Store(kind),
            Step::Write(kind),
            Step::Replace(kind, 40),
            Step::Replace(kind, 70_000),
            Step::Free(kind),
            Step::Abort(kind),
            Step::Nested(kind, true),
            Step::Nested(kind, false),
            Step::Begin(kind),
            Step::Held(kind),
            Step::Dropped(kind),
            Step::Publish { kind, bytes: 40, flushes: true },
            Step::Publish { kind, bytes: 70_000, flushes: true },
            Step::Unpublish(kind),
            Step::Bare { kind, names: true },
            Step::FreeFresh(kind),
        ]
    };
    let alone = [Step::AllocInto, Step::FreeFrom, Step::Cancel];
    BOTH.into_iter().flat_map(of).chain(alone).collect()
}

fn plain_stores() -> [Step; 5] {
    // 1 is what the word and the byte were before everything.
    [Step::Word(77), Step::Word(1), Step::Byte(1), Step::Inside(88), Step::Unlink]
}

impl steps::Step for Step {
    type State = State;

    fn run<M: Memory>(&self, session: &mut Session<'_, M>, _: u64) -> Result<(), TxError> {
        let (memory, root) = (session.memory(), session.heap().root());
        let object: Addr = memory.load(root);
        session.keep_freed_run(true);
        match *self {
            Step::AllocInto => {
                session.alloc_into(root, 40, &[9; 40])?;
            }
            Step::FreeFrom => session.free_from(root)?,
            Step::Cancel | Step::Publish { .. } | Step::Unpublish(_) => self.reserve(session)?,
            Step::Retire => session.retire(),
            Step::Begin(kind) => {
                let begun = session.begin(kind, |tx| tx.store(root.plus(8), 6u64));
                let ((), pending) = begun?;
                session.wait(pending);
            }
            Step::Held(kind) => {
                let mut tx = session.start(kind)?;
                all(&mut tx)?;
                let paused = tx.pause();
                session.take_up(paused).commit()?;
            }
            Step::Dropped(kind) => {
                let mut tx = session.start(kind)?;
                all(&mut tx)?;
            }
            Step::Word(value) => plain(memory, root.plus(8), value),
            Step::Byte(value) => plain(memory, root.plus(19), value),
            Step::Inside(value) if !object.is_null() => plain(memory, object.plus(8), value),
            Step::Inside(_) => {}
            Step::Unlink => plain(memory, root, 0u64),
            Step::AbortWrite => {
                let outcome = session.transaction_with(Logging::Undo, |tx| {
                    Step::Write(Logging::Undo).body(tx)?;
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(outcome, Err(TxError::Types));
            }
            Step::Bytes => {
                plain(memory, root.plus(8), 66u8);
                plain(memory, root.plus(28), 66u8);
            }
            Step::Tell(kind) => {
                session.transaction_with(kind, |tx| tx.store(root.plus(8), 5u64))?;
                memory.store(told(session), 1u64);
            }
            Step::Told => {
                memory.spin_while(told(session), 0);
                plain(memory, root.plus(8), 99u64);
            }
            Step::Abort(kind) => {
                let outcome = session.transaction_with(kind, |tx| {
                    all(tx)?;
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(outcome, Err(TxError::Types));
            }
            _ => session.transaction_with(self.kind(), |tx| self.body(tx))?,
        }
        Ok(())
    }

    fn look<M: Memory>(memory: &M, heap: &Heap) -> Result<State, String> {
        state(memory, heap)
    }
}

impl Step {
    /// Does a step with a reservation.
    fn reserve<M: Memory>(self, session: &mut Session<'_, M>) -> Result<(), TxError> {
        let memory = session.memory();
        match self {
            Step::Cancel => {
                session.share(&SharedSpace::default());
                let at = session.reserve(40)?;
                memory.write(at, &[8; 40]);
                session.cancel(at)?;
                assert_eq!(session.cancel(at), Err(TxError::NoObject { at }));
            }
            Step::Publish { kind, bytes, flushes } => {
                let at = reserved(session, bytes, flushes)?;
                session.transaction_with(kind, |tx| publish(tx, at))?;
            }
            Step::Unpublish(kind) => {
                let at = reserved(session, 40, true)?;
                let outcome = session.transaction_with(kind, |tx| {
                    publish(tx, at)?;
                    assert_eq!(tx.publish(at), Err(TxError::NoObject { at }));
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(outcome, Err(TxError::Types));
            }
            other => unreachable!("{other:?}"),
        }
        Ok(())
    }

    fn kind(self) -> Logging {
        match self {
            Step::Store(kind) | Step::Write(kind) | Step::Replace(kind, _) => kind,
            Step::Free(kind) | Step::Nested(kind, _) | Step::Bare { kind, .. } => kind,
            Step::FreeFresh(kind) => kind,
            other => unreachable!("{other:?}"),
        }
    }

    fn body<M: Memory>(self, tx: &mut Tx<'_, '_, M>) -> Result<(), TxError> {
        let root = tx.heap().root();
        let object: Addr = tx.load(root);
        match self {
            Step::Store(_) => {
                tx.store(root.plus(8), 5u64)?;
                if object.is_null() { Ok(()) } else { tx.store(object.plus(8), 5u64) }
            }
            Step::Write(_) => tx.write(root.plus(11), &[4; 17]),
            Step::Replace(_, bytes) => {
                let new = tx.alloc(bytes)?;
                tx.fill(new, &[7; 40])?;
                tx.store(root, new)?;
                if object.is_null() { Ok(()) } else { tx.free(object) }
            }
            Step::FreeFresh(_) if !object.is_null() => {
                let new = tx.alloc_bare(40)?;
                tx.add(&[(object, 40)])?;
                tx.write(object, &[3; 40])?;
                tx.flush_at_commit(new, 40);
                tx.free(new)
            }
            Step::FreeFresh(_) => Ok(()),
            Step::Bare { names, .. } => {
                let new = tx.alloc_bare(200)?;
                tx.memory().write(new, &[7; 200]);
                if names {
                    tx.flush_at_commit(new, 200);
                }
                link(tx, new)
            }
            Step::Free(_) => {
                tx.store(root, Addr::NULL)?;
                if object.is_null() { Ok(()) } else { tx.free(object) }
            }
            Step::Nested(_, fails) => {
                tx.store(root.plus(8), 2u64)?;
                let inner = tx.nested(|tx| {
                    all(tx)?;
                    if fails { Err(TxError::Types) } else { Ok(()) }
                });
                assert_eq!(inner.is_err(), fails);
                Ok(())
            }
            other => unreachable!("{other:?}"),
        }
    }
}

/// Everything that a transaction can do, in one.
fn all<M: Memory>(tx: &mut Tx<'_, '_, M>) -> Result<(), TxError> {
    Step::Store(tx.kind()).body(tx)?;
    Step::Write(tx.kind()).body(tx)?;
    Step::Replace(tx.kind(), 48).body(tx)
}

/// A reservation that the program has filled.
fn reserved<M: Memory>(
    session: &mut Session<'_, M>,
    bytes: u64,
    flushes: bool,
) -> Result<Addr, TxError> {
    session.share(&SharedSpace::default());
    let at = session.reserve(bytes)?;
    let memory = session.memory();
    memory.write(at, &[7; 40]);
    if flushes {
        memory.persist(at, 40);
    }
    Ok(at)
}

fn publish<M: Memory>(tx: &mut Tx<'_, '_, M>, at: Addr) -> Result<(), TxError> {
    tx.publish(at)?;
    link(tx, at)
}

/// Puts an object in the place of the one that there is.
fn link<M: Memory>(tx: &mut Tx<'_, '_, M>, new: Addr) -> Result<(), TxError> {
    let root = tx.heap().root();
    let object: Addr = tx.load(root);
    tx.store(root, new)?;
    if object.is_null() { Ok(()) } else { tx.free(object) }
}

/// A word in DRAM behind what the heap has there.
fn told<M: Memory>(session: &Session<'_, M>) -> Addr {
    Addr::dram(session.heap().dram_bytes())
}

fn plain<W: seawall_memory::Word, M: Memory>(memory: &M, at: Addr, value: W) {
    memory.store(at, value);
    memory.persist(at, W::WIDTH.bytes());
}

/// The root without the link, the start of the object that it leads to, and the number of objects.
type State = ([u8; ROOT - 8], Option<[u8; SEEN]>, usize);

fn state<M: Memory>(memory: &M, heap: &Heap) -> Result<State, String> {
    let mut live = Vec::new();
    heap.objects(memory, |object| live.push(object.at)).map_err(|error| error.to_string())?;
    let mut root = [0; ROOT - 8];
    memory.read(heap.root().plus(8), &mut root);
    let link: Addr = memory.load(heap.root().plus(LINK));
    if link.is_null() {
        return Ok((root, None, live.len()));
    }
    if !live.contains(&link) {
        return Err(format!("the link leads to {link}, where no object is"));
    }
    let mut object = [0; SEEN];
    memory.read(link, &mut object);
    Ok((root, Some(object), live.len()))
}

fn in_place(threads: u64) -> HeapOptions {
    HeapOptions { root_bytes: ROOT as u64, in_place: true, ..options(threads, 6) }
}

/// A pool with an object, and ones in the root.
fn pool(options: &HeapOptions) -> (Image, Heap) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes() + 64);
    let heap = Heap::create(&image, NAME, 7, options).expect("good options");
    let mut session = heap.join(&image);
    let made: Result<(), HeapError> = session.transaction(|tx| {
        tx.write(heap.root().plus(8), &[1; ROOT - 8])?;
        let at = tx.alloc(40)?;
        tx.fill(at, &[1; 40])?;
        tx.store(heap.root(), at)?;
        Ok(())
    });
    made.expect("room");
    session.retire();
    session.leave();
    (image, heap)
}

fn px86() -> Search {
    Search::new(Model::Px86)
}

#[test]
fn no_plain_store_is_lost_behind_any_operation() {
    let pairs = operations()
        .into_iter()
        .flat_map(|operation| plain_stores().into_iter().map(move |store| (operation, store)));
    for (number, (operation, store)) in pairs.enumerate() {
        let programs =
            [[operation, store, Step::Write(Logging::Undo)], [operation, Step::Retire, store]];
        // But in the long run, the two take turns.
        for (at, steps) in programs.iter().enumerate() {
            if number % 2 == at || is_long_run() {
                explore(pool(&in_place(1)), steps, &px86(), HeapFlaw::None)
                    .unwrap_or_else(|finding| panic!("{steps:?}: {finding}"));
            }
        }
    }
}

#[test]
fn no_operation_is_lost_under_any_model() {
    for (model, kind) in models_and_kinds() {
        let steps = [
            Step::Store(kind),
            Step::Word(3),
            Step::Replace(kind, 5000),
            Step::Abort(kind),
            Step::Inside(9),
            Step::Nested(kind, true),
            Step::Free(kind),
            Step::AllocInto,
            Step::Byte(8),
        ];
        explore(pool(&in_place(1)), &steps, &Search::new(model), HeapFlaw::None)
            .unwrap_or_else(|finding| panic!("{kind:?} under {model}: {finding}"));
    }
}

#[test]
fn an_object_in_the_run_of_one_that_was_freed_before_is_as_safe_as_any() {
    for kind in BOTH {
        let large = Step::Replace(kind, 70_000);
        let publish = Step::Publish { kind, bytes: 70_000, flushes: true };
        for by_log in [false, true] {
            for last in [large, publish].into_iter().filter(|last| !by_log || *last == large) {
                let steps = [large, Step::Free(kind), last, Step::Store(kind)];
                let options = HeapOptions { in_place: !by_log, ..in_place(1) };
                explore(pool(&options), &steps, &px86(), HeapFlaw::None)
                    .unwrap_or_else(|finding| panic!("{by_log}, {steps:?}: {finding}"));
            }
        }
    }
}

#[test]
fn no_crash_at_all_breaks_short_programs_under_px86() {
    let how = Search { depth: 0, budget: 1_000_000, point_limit: 50_000, ..px86() };
    for kind in BOTH {
        for steps in [
            [Step::Store(kind), Step::Word(3)],
            [Step::Abort(kind), Step::Byte(3)],
            [Step::Replace(kind, 40), Step::Unlink],
        ] {
            let reached = explore(pool(&in_place(1)), &steps, &how, HeapFlaw::None);
            assert_eq!(reached, Ok(Reached::Complete), "{steps:?}");
        }
    }
}

#[test]
fn an_abort_leaves_what_it_is_told_to_leave() {
    let (image, heap) = pool(&in_place(1));
    let mut session = heap.join(&image);
    let root = heap.root();
    let mut tx = session.start(Logging::Undo).unwrap();
    tx.write(root.plus(8), &[4; ROOT - 8]).unwrap();
    tx.abort_but(&[(root.plus(13), 3), (root.plus(24), 8), (root.plus(40), 1)]).unwrap();
    let mut bytes = [0; ROOT];
    image.read(root, &mut bytes);
    let left: Vec<usize> = (8..ROOT).filter(|byte| bytes[*byte] == 4).collect();
    assert_eq!(left, [13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31, 40]);
    assert!((8..ROOT).all(|byte| bytes[byte] == if left.contains(&byte) { 4 } else { 1 }));
}

#[test]
fn what_a_program_does_not_flush_of_its_new_object_is_found() {
    for kind in BOTH {
        for step in
            [Step::Publish { kind, bytes: 40, flushes: false }, Step::Bare { kind, names: false }]
        {
            let found = explore(pool(&in_place(1)), &[step], &px86(), HeapFlaw::None);
            assert!(found.is_err(), "{step:?}: {found:?}");
        }
    }
}

#[test]
fn the_same_programs_lose_stores_in_a_pool_that_is_written_by_its_log() {
    let by_log = HeapOptions { in_place: false, ..in_place(1) };
    for steps in [
        [Step::Store(Logging::Redo), Step::Word(77)],
        [Step::Store(Logging::Undo), Step::Word(77)],
        [Step::Abort(Logging::Undo), Step::Word(77)],
        [Step::Write(Logging::Redo), Step::Byte(1)],
        [Step::AllocInto, Step::Unlink],
        [Step::FreeFrom, Step::Word(77)],
    ] {
        let found = explore(pool(&by_log), &steps, &px86(), HeapFlaw::None);
        let is_bad = steps[0] != Step::FreeFrom;
        assert_eq!(found.is_err(), is_bad, "{steps:?}: {found:?}");
    }
}

#[test]
fn each_step_of_the_commit_is_needed() {
    let store = [Step::Store(Logging::Undo), Step::Word(77)];
    let abort = [Step::Abort(Logging::Undo), Step::Word(77)];
    let replace = [Step::Replace(Logging::Redo, 40), Step::Unlink];
    for flaw in [
        HeapFlaw::LateUndo,
        HeapFlaw::UnflushedStores,
        HeapFlaw::EarlyEndMark,
        HeapFlaw::NoFence,
        HeapFlaw::NoLogFlush,
    ] {
        for steps in [store, abort, replace] {
            // A failed transaction that is rolled back once more looks the same; the fence of the
            // next store ends it. Another thread's store would be lost.
            let is_needed = flaw != HeapFlaw::NoFence || steps != abort;
            let found = explore(pool(&in_place(1)), &steps, &px86(), flaw);
            assert_eq!(found.is_err(), is_needed, "{flaw:?} in {steps:?}: {found:?}");
        }
    }
}

/// The first bad image of any run of two threads, each with one program; the last output of each is
/// due when its program is done.
fn explore_two(
    programs: [&'static [Step]; 2],
    flaw: HeapFlaw,
    judge: impl Fn(&State, [bool; 2]) -> bool,
) -> Option<String> {
    let (image, heap) = pool(&in_place(2));
    let heap = heap.with_flaw(flaw);
    let run = |schedule: &Schedule| {
        record(image.clone(), schedule, move |memory| {
            let mut session = heap.join(memory);
            for step in programs[memory.thread()] {
                step.run(&mut session, 0).expect("room");
            }
            memory.output(0);
        })
    };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let schedules = Schedules { interruptions: 2, limit: 60, ..Schedules::new(Model::Px86) };
    let found = schedules.all(&base, run).expect("it ends");
    assert!(found.runs.len() > 2, "{} runs", found.runs.len());
    let judge = |found: &State, point: &CrashPoint| {
        let done = [0, 1].map(|thread| point.outputs[thread] > 0);
        if judge(found, done) { Ok(()) } else { Err(format!("{found:?} with {done:?}")) }
    };
    let (how, judged) = (Search { samples: 20, ..px86() }, check(reopened::<Step>(flaw), judge));
    let mut findings = found.runs.iter().map(|(_, trace)| search(trace, &how, &judged).finding);
    findings.find_map(|finding| Some(finding?.to_string()))
}

/// Bytes of one word, of which a transaction that fails has some, and plain stores the others.
fn neighbours(flaw: HeapFlaw) -> Option<String> {
    // Bytes 11 to 27 of the root are the transaction's, of which byte 8 is in the first word.
    explore_two([&[Step::AbortWrite], &[Step::Bytes]], flaw, |(root, ..), done| {
        let mine = root[3..20].iter().all(|byte| *byte == 1 || !done[0] && *byte == 4);
        let theirs = [root[0], root[20]];
        mine && theirs.iter().all(|byte| *byte == 66 || !done[1] && *byte == 1)
    })
}

#[test]
fn a_failed_transaction_restores_no_byte_of_a_neighbour() {
    assert_eq!(neighbours(HeapFlaw::None), None);
    assert!(neighbours(HeapFlaw::WholeWords).is_some(), "whole words were not caught");
}

#[test]
fn a_store_of_another_thread_behind_a_transaction_stays() {
    for flaw in [HeapFlaw::None, HeapFlaw::NoFence, HeapFlaw::NoLogFlush] {
        for sender in [Step::Tell(Logging::Redo), Step::Tell(Logging::Undo)] {
            let senders: &'static [Step] = Box::leak(Box::new([sender]));
            let found = explore_two([senders, &[Step::Told]], flaw, |(root, ..), done| {
                let word = u64::from_le_bytes(root[..8].try_into().expect("eight bytes"));
                let before = u64::from_le_bytes([1; 8]);
                word == 99 || !done[1] && (word == 5 || !done[0] && word == before)
            });
            let is_sound = flaw == HeapFlaw::None;
            assert_eq!(found.is_none(), is_sound, "{flaw:?}, {sender:?}: {found:?}");
        }
    }
}
