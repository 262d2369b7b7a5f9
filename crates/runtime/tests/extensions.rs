//! Transactions that their log does not hold: it goes on in chunks of the pool, which no crash
//! leaks.

use seawall_explore::{CrashImage, CrashPoint, Model, Schedule, Search, check, record, search};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Logging, Session, TxError};
use seawall_testkit::script::{NAME, options};

/// The least that a log can have.
const LOG: u64 = 4 << 10;
const OBJECTS: u64 = 2500;

fn small_logs(in_place: bool) -> HeapOptions {
    HeapOptions { log_bytes: LOG, in_place, root_bytes: 8 * OBJECTS, ..options(1, 12) }
}

/// What a transaction does that needs more than its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Large {
    /// Writes an object of twice the log, in pieces.
    Write(Logging),
    /// The same, then fails.
    Abort(Logging),
    /// Frees all objects.
    Free(Logging),
    /// Allocates them again.
    Alloc(Logging),
}

impl Large {
    fn run<M: Memory>(self, session: &mut Session<'_, M>, number: u8) -> Result<(), TxError> {
        let root = session.heap().root();
        let write = |tx: &mut seawall_runtime::Tx<'_, '_, M>| {
            let at: Addr = tx.load(root);
            (0..16).try_for_each(|piece| tx.write(at.plus(512 * piece), &[number; 512]))
        };
        match self {
            Large::Write(kind) => session.transaction_with(kind, write),
            Large::Abort(kind) => {
                let outcome = session.transaction_with(kind, |tx| {
                    write(tx)?;
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(outcome, Err(TxError::Types));
                Ok(())
            }
            Large::Free(kind) => session.transaction_with(kind, |tx| {
                let links: Vec<Addr> = links(root).collect();
                tx.add(&[(links[0], 8 * (OBJECTS - 1))])?;
                for link in links {
                    tx.free(tx.load(link))?;
                    tx.store(link, 0u64)?;
                }
                Ok(())
            }),
            Large::Alloc(kind) => session.transaction_with(kind, |tx| {
                let links: Vec<Addr> = links(root).collect();
                tx.add(&[(links[0], 8 * (OBJECTS - 1))])?;
                for link in links {
                    let at = tx.alloc(32)?;
                    tx.store(link, at)?;
                }
                Ok(())
            }),
        }
    }
}

/// The links of the root but the first, which leads to the large object.
fn links(root: Addr) -> impl Iterator<Item = Addr> {
    (1..OBJECTS).map(move |link| root.plus(8 * link))
}

fn pool(options: &HeapOptions) -> (Image, Heap) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, options).expect("good options");
    let mut session = heap.join(&image);
    session.alloc_into(heap.root(), 8192, &[1; 8192]).expect("room");
    Large::Alloc(Logging::Redo).run(&mut session, 0).expect("room");
    session.retire();
    session.leave();
    (image, heap)
}

/// The bytes of the large object at the ends of its pieces, and how many objects there are, if
/// every link leads to one and all are alike.
type State = (Vec<u8>, usize);

fn state<M: Memory>(memory: &M, heap: &Heap) -> Result<State, String> {
    use seawall_memory::MemoryExt;
    let mut live = Vec::new();
    heap.objects(memory, |object| live.push(object.at)).map_err(|error| error.to_string())?;
    let object: Addr = memory.load(heap.root());
    let linked = links(heap.root()).filter(|link| !memory.load::<Addr>(*link).is_null()).count();
    if linked + 1 != live.len() {
        return Err(format!("{linked} links, {} objects", live.len()));
    }
    let ends = (0..16).flat_map(|piece| [512 * piece, 512 * piece + 511]);
    Ok((ends.map(|byte| memory.load(object.plus(byte))).collect(), live.len()))
}

fn explore(options: &HeapOptions, steps: &[Large], flaw: HeapFlaw) -> Result<(), String> {
    let (image, heap) = pool(options);
    let mut states = vec![state(&image, &heap).expect("whole")];
    let model = image.clone();
    let mut session = heap.join(&model);
    for (step, number) in steps.iter().zip(2..) {
        step.run(&mut session, number).expect("room");
        states.push(state(&model, &heap).expect("whole"));
    }
    let (heap, program) = (heap.with_flaw(flaw), steps.to_vec());
    let trace = record(image, &Schedule::default(), move |memory| {
        let mut session = heap.join(memory);
        for (step, number) in program.iter().zip(0..) {
            step.run(&mut session, 2 + number as u8).expect("room");
            memory.output(number);
        }
    })
    .expect("it ends");
    let recover = |image: &CrashImage| {
        let opened = Heap::open_flawed(image, NAME, image.pm_bytes(), flaw);
        let (heap, _) = opened.map_err(|error| error.to_string())?;
        state(image, &heap)
    };
    let judge = |found: &State, point: &CrashPoint| {
        let done = point.outputs[0] as usize;
        let next = (done + 1).min(states.len() - 1);
        if states[done..=next].contains(found) {
            return Ok(());
        }
        Err(format!("{done} steps were done, and it is {found:?}, not {:?}", states[done]))
    };
    let how = Search { depth: 0, budget: 20_000, samples: 10, ..Search::new(Model::Px86) };
    let finding = search(&trace, &how, &check(recover, judge)).finding;
    finding.map_or(Ok(()), |finding| Err(finding.to_string()))
}

#[test]
fn no_crash_breaks_a_transaction_that_is_larger_than_its_log() {
    for in_place in [false, true] {
        for kind in [Logging::Redo, Logging::Undo] {
            let steps = [
                Large::Write(kind),
                Large::Abort(kind),
                Large::Free(kind),
                Large::Write(kind),
                Large::Alloc(kind),
            ];
            explore(&small_logs(in_place), &steps, HeapFlaw::None)
                .unwrap_or_else(|finding| panic!("{kind:?}, in place {in_place}: {finding}"));
        }
    }
}

#[test]
fn a_log_that_does_not_say_where_it_goes_on_is_caught() {
    for (in_place, steps) in [
        (false, [Large::Write(Logging::Redo), Large::Write(Logging::Redo)]),
        (true, [Large::Write(Logging::Undo), Large::Write(Logging::Undo)]),
        (true, [Large::Free(Logging::Undo), Large::Alloc(Logging::Undo)]),
    ] {
        let found = explore(&small_logs(in_place), &steps, HeapFlaw::LostExtension);
        assert!(found.is_err(), "{steps:?} was not caught");
    }
}

#[test]
fn chunks_that_a_log_took_are_there_for_objects_again() {
    for in_place in [false, true] {
        for kind in [Logging::Redo, Logging::Undo] {
            let options = small_logs(in_place);
            let (image, heap) = pool(&options);
            let mut session = heap.join(&image);
            for number in 0..100 {
                Large::Write(kind).run(&mut session, number).expect("room");
                Large::Free(kind).run(&mut session, number).expect("room");
                Large::Alloc(kind).run(&mut session, number).expect("room");
                Large::Abort(kind).run(&mut session, number).expect("room");
            }
            // All that the pool has, less the chunks of the objects.
            let taken = session.transaction(|tx| tx.alloc(7 << 16)).map(|_| ());
            assert_eq!(taken, Ok::<(), TxError>(()), "{kind:?}, in place {in_place}");
        }
    }
}

#[test]
fn a_transaction_of_megabytes_is_limited_by_the_pool_only() {
    for in_place in [false, true] {
        let bytes = 40 << 20;
        let options = HeapOptions { bytes, bytes_max: bytes, ..small_logs(in_place) };
        let image = Image::new(options.pm_bytes(), options.dram_bytes());
        let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
        let mut session = heap.join(&image);
        let large = 10 << 20;
        session.alloc_into(heap.root(), large, &[]).expect("room");
        let at: Addr = session.load(heap.root());
        for kind in [Logging::Redo, Logging::Undo] {
            let content = vec![kind as u8 + 1; large as usize];
            session.transaction_with(kind, |tx| tx.write(at, &content)).expect("room");
            let mut read = vec![0; large as usize];
            image.read(at, &mut read);
            assert!(read == content);
            let failed = session.transaction_with(kind, |tx| {
                tx.write(at, &vec![9; large as usize])?;
                Err::<(), TxError>(TxError::Types)
            });
            assert_eq!(failed, Err(TxError::Types));
            image.read(at, &mut read);
            assert!(read == content);
        }
    }
}

#[test]
fn a_full_pool_has_room_for_a_transaction_that_frees_a_part_of_it() {
    let bytes = 128 << 16;
    let options = HeapOptions { bytes, bytes_max: bytes, ..small_logs(true) };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let mut objects = Vec::new();
    for bytes in [5000, 64] {
        let mut put = || session.transaction(|tx| tx.alloc(bytes));
        while let Ok(at) = put() {
            objects.push(at);
        }
        let full = put().expect_err("full");
        assert!(matches!(full, TxError::Full { .. }), "{full}");
    }
    for part in objects.chunks(700) {
        let freed = session.transaction(|tx| part.iter().try_for_each(|at| tx.free(*at)));
        assert_eq!(freed, Ok::<(), TxError>(()), "of {} objects", objects.len());
    }
    assert_eq!(heap.objects(&image, |at| panic!("{at:?} is left")), Ok(()));
}

#[test]
fn a_transaction_that_finds_no_room_for_its_end_is_rolled_back() {
    for in_place in [false, true] {
        let (image, heap) = pool(&small_logs(in_place));
        let mut session = heap.join(&image);
        let before = state(&image, &heap);
        // One chunk is left: enough for the old values, but not for the new ones as well.
        let mut taken = Vec::new();
        while let Ok(at) = session.transaction(|tx| tx.alloc(1 << 16)) {
            taken.push(at);
        }
        let last = taken.pop().expect("room for one at least");
        session.transaction(|tx| tx.free(last)).expect("an object");
        let written = Large::Write(Logging::Undo).run(&mut session, 9);
        let is_full = matches!(written, Err(TxError::Full { .. }));
        assert_eq!(is_full, !in_place, "{written:?}");
        for at in taken {
            session.transaction(|tx| tx.free(at)).expect("an object");
        }
        assert_eq!(state(&image, &heap) == before, is_full);
        let again = Image::from_pm(image.into_pm(), heap.dram_bytes());
        let (heap, _) = Heap::open(&again, NAME, again.pm_bytes()).expect("whole");
        assert_eq!(state(&again, &heap) == before, is_full, "after a crash");
    }
}
