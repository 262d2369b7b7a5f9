//! What durability costs: as many fences as the documentation says, and no line flushed twice
//! between two of them.

use seawall_explore::{
    CrashImage, CrashPoint, Kind, Model, Schedule, Search, Trace, Traced, check, record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::{DIRECT_BYTES, Heap, HeapOptions, Logging, Session, TxError};
use seawall_testkit::script::{NAME, ScriptStep, options};
use std::collections::BTreeSet;

type Sessions<'m, 'a> = Session<'m, Traced<'a>>;

/// What a program does to a heap with room for everything, its logs retired.
fn traced(program: impl Fn(&mut Sessions<'_, '_>) + Clone + 'static) -> Trace {
    traced_in(&options(1, 6), program)
}

fn traced_in(
    options: &HeapOptions,
    program: impl Fn(&mut Sessions<'_, '_>) + Clone + 'static,
) -> Trace {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, options).expect("good options");
    record(image, &Schedule::default(), move |memory| program(&mut heap.join(memory)))
        .expect("it ends")
}

/// The fences of each operation of a program that ends each with an output.
fn fences(trace: &Trace) -> Vec<u32> {
    let (mut all, mut count) = (Vec::new(), 0);
    for event in trace.events() {
        match event.kind {
            Kind::Order | Kind::Drain => count += 1,
            Kind::Output { .. } => all.push(std::mem::take(&mut count)),
            _ => {}
        }
    }
    all
}

fn aborted<M: Memory>(session: &mut Session<'_, M>, kind: Logging, at: Addr) {
    let outcome = session.transaction_with(kind, |tx| {
        tx.store(at, 9u64)?;
        Err::<(), TxError>(TxError::Types)
    });
    assert_eq!(outcome, Err(TxError::Types));
}

#[test]
fn every_operation_has_the_fences_that_its_documentation_says() {
    // A fresh chunk, for the first and the last one, costs one more.
    assert_eq!(counted(false), [2, 1, 1, 1, 2, 0, 2, 0, 3, 1, 1, 2]);
    // Old values, new ones, the end; no old ones of a fresh object, and the end alone of a free.
    assert_eq!(counted(true), [4, 3, 3, 3, 3, 0, 3, 0, 4, 2, 1, 3]);
}

/// The fences of one operation after the other.
fn counted(in_place: bool) -> Vec<u32> {
    let trace = traced_in(&HeapOptions { in_place, ..options(1, 6) }, |session| {
        let memory = session.memory();
        let root = session.heap().root();
        let words = |at: Addr| [at, at.plus(16), at.plus(32)];
        session.alloc_into(root, 40, &[1; 40]).expect("room");
        memory.output(0);
        session.free_from(root).expect("an object");
        memory.output(1);
        session.alloc_into(root, 40, &[2; 40]).expect("room");
        memory.output(2);
        let stored = session
            .transaction(|tx| words(root.plus(8)).iter().try_for_each(|at| tx.store(*at, 3u64)));
        stored.expect("it fits");
        memory.output(3);
        let added = session.transaction_with(Logging::Undo, |tx| {
            tx.add(&words(root.plus(8)).map(|at| (at, 8)))?;
            words(root.plus(8)).iter().try_for_each(|at| tx.store(*at, 4u64))
        });
        added.expect("it fits");
        memory.output(4);
        aborted(session, Logging::Redo, root.plus(8));
        memory.output(5);
        aborted(session, Logging::Undo, root.plus(8));
        memory.output(6);
        session.transaction(|_| Ok::<_, TxError>(())).expect("nothing");
        memory.output(7);
        let filled = session.transaction(|tx| {
            let at = tx.alloc(DIRECT_BYTES)?;
            tx.fill(at, &[5; DIRECT_BYTES as usize])?;
            tx.store(root.plus(24), at)
        });
        filled.expect("room");
        memory.output(8);
        let at = session.transaction(|tx| tx.alloc(40)).expect("room");
        memory.output(9);
        session.transaction(|tx| tx.free(at)).expect("an object");
        memory.output(10);
        let written = session.transaction_with(Logging::Undo, |tx| {
            tx.write_all(words(root.plus(8)).iter().map(|at| (*at, [6; 7])))
        });
        written.expect("it fits");
        memory.output(11);
    });
    fences(&trace)
}

#[test]
fn no_line_is_flushed_twice_between_two_fences() {
    for (kind, in_place) in
        [Logging::Redo, Logging::Undo].map(|kind| [(kind, false), (kind, true)]).as_flattened()
    {
        let (kind, options) = (*kind, HeapOptions { in_place: *in_place, ..options(1, 6) });
        let trace = traced_in(&options, move |session| {
            for round in 0..3 {
                for number in 1..6 {
                    let step = if number == 1 {
                        ScriptStep::Alloc(round, 100)
                    } else {
                        ScriptStep::Update
                    };
                    step.run(session, kind, number).expect("room");
                }
                session.retire();
            }
        });
        let (mut flushed, mut flushes) = (BTreeSet::new(), 0);
        for event in trace.events() {
            match event.kind {
                Kind::Order | Kind::Drain => flushed.clear(),
                Kind::Flush { line } => {
                    flushes += 1;
                    assert!(flushed.insert(line), "{kind:?}: a line is flushed again");
                }
                _ => {}
            }
        }
        assert!(flushes > 10, "{flushes} flushes");
    }
}

#[test]
fn what_was_begun_is_ordered_at_once_and_durable_when_waited_for() {
    for model in [Model::Px86, Model::Bep, Model::Hops] {
        let trace = traced(|session| {
            let root = session.heap().root();
            let begun = [1u64, 2].map(|value| {
                let begun = session.begin(Logging::Redo, |tx| {
                    tx.store(root, value)?;
                    tx.store(root.plus(8), value)
                });
                let ((), pending) = begun.unwrap_or_else(|error: TxError| panic!("{error}"));
                pending
            });
            begun.into_iter().for_each(|pending| session.wait(pending));
            session.memory().output(0);
        });
        let bytes = options(1, 6).pm_bytes();
        let recover = |image: &CrashImage| {
            let (heap, _) = Heap::open(image, NAME, bytes).map_err(|error| error.to_string())?;
            Ok([0, 8].map(|word| image.load::<u64>(heap.root().plus(word))))
        };
        let judge = |found: &[u64; 2], point: &CrashPoint| {
            let done = if point.outputs[0] > 0 { 2 } else { 0 };
            let whole = found[0] == found[1] && (done..=2).contains(&found[0]);
            if whole { Ok(()) } else { Err(format!("{found:?} after {done}")) }
        };
        let outcome = search(&trace, &Search::new(model), &check(recover, judge));
        assert_eq!(outcome.finding, None, "{model}");
    }
}
