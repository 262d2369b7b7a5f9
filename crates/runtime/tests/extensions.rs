//! Transactions that their log does not hold: it goes on in chunks of the pool, which no crash
//! leaks.

use crate::steps::{self, Step, is_long_run};
use seawall_explore::{Model, Search};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Logging, Session, TxError};
use seawall_testkit::places::{CHUNK, LINE, Places, word};
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
    /// Truncates the logs.
    Retire,
}

impl Step for Large {
    type State = State;

    fn run<M: Memory>(&self, session: &mut Session<'_, M>, number: u64) -> Result<(), TxError> {
        let root = session.heap().root();
        let write = |tx: &mut seawall_runtime::Tx<'_, '_, M>| {
            let at: Addr = tx.load(root);
            (0..16).try_for_each(|piece| tx.write(at.plus(512 * piece), &[2 + number as u8; 512]))
        };
        match *self {
            Large::Retire => {
                session.retire();
                Ok(())
            }
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

    fn look<M: Memory>(memory: &M, heap: &Heap) -> Result<State, String> {
        state(memory, heap)
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
    let how = Search { depth: 0, budget: 20_000, samples: 10, ..Search::new(Model::Px86) };
    steps::explore(pool(options), steps, &how, flaw).map(|_| ())
}

#[test]
fn no_crash_breaks_a_transaction_that_is_larger_than_its_log() {
    for in_place in [false, true] {
        let usual = if in_place { Logging::Undo } else { Logging::Redo };
        for kind in [Logging::Redo, Logging::Undo]
            .into_iter()
            .filter(|kind| *kind == usual || is_long_run())
        {
            let steps = [
                Large::Write(kind),
                Large::Retire,
                Large::Abort(kind),
                Large::Free(kind),
                Large::Retire,
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
            session.leave();
            let mut session = heap.join(&image);
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
            let before = session.log_counts().records;
            session.transaction_with(kind, |tx| tx.write(at, &content)).expect("room");
            let logged = session.log_counts().records - before;
            let is_by_parts = in_place || kind == Logging::Undo;
            assert!(!is_by_parts || logged >= 5, "{logged} records of old values");
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

/// The entry that says where a log goes on, behind a header of three words.
const ELSEWHERE: u64 = 6 << 48;

/// The one-line records of the log part of that many bytes at `start` that say where it goes on.
fn leads(pm: &[u8], start: usize, bytes: usize) -> Vec<usize> {
    let is_lead = |at: &usize| {
        let head = word(pm, at + 24);
        head & ELSEWHERE == ELSEWHERE && ((head ^ ELSEWHERE) as usize).is_multiple_of(CHUNK)
    };
    (start..start + bytes).step_by(LINE).filter(is_lead).collect()
}

/// The pool with a record that says that the log goes on at `at`, in so many bytes.
fn led_to(pm: &[u8], part: usize, lead: usize, at: u64, bytes: u64) -> Vec<u8> {
    let mut pm = pm.to_vec();
    pm[lead + 24..lead + 32].copy_from_slice(&(at | ELSEWHERE).to_le_bytes());
    pm[lead + 32..lead + 40].copy_from_slice(&bytes.to_le_bytes());
    let sum = Places::sum_at(&pm, part, &pm[lead..lead + LINE]);
    pm[lead..lead + 8].copy_from_slice(&sum.to_le_bytes());
    pm
}

fn refusal(pm: Vec<u8>, dram_bytes: u64) -> String {
    let image = Image::from_pm(pm, dram_bytes);
    let opened = Heap::open(&image, NAME, image.pm_bytes());
    opened.map(|(_, recovered)| recovered).expect_err("refused").to_string()
}

#[test]
fn a_log_that_goes_on_where_none_can_be_is_refused() {
    for kind in [Logging::Redo, Logging::Undo] {
        let (image, heap) = pool(&small_logs(false));
        let mut session = heap.join(&image);
        let mut tx = session.start(kind).expect("whole");
        let object: Addr = tx.load(heap.root());
        tx.write(object, &[9; 8192]).expect("room");
        // A redo transaction is in the log when it is committed, an undo transaction until then.
        if kind == Logging::Redo {
            tx.commit().expect("room");
        } else {
            let _ = tx.pause();
        }
        let pm = image.clone().into_pm();
        let places = Places::of(&pm);
        let mut counting = (0..3).flat_map(|log| {
            let starts = places.records(&pm, log).into_iter().map(|(start, _)| start);
            let is_lead = |start: &usize| leads(&pm, *start, LINE).len() == 1;
            starts.filter(is_lead).map(|start| (places.log(log), start)).collect::<Vec<_>>()
        });
        let (part, lead) = counting.next().expect("a log goes on");
        let (at, bytes) = (word(&pm, lead + 24) ^ ELSEWHERE, word(&pm, lead + 32));
        assert_eq!(led_to(&pm, part, lead, at, bytes), pm);
        let end = pm.len() as u64;
        for (at, bytes) in [
            (0, bytes),
            (places.root as u64, bytes),
            (at + 64, bytes),
            (end - CHUNK as u64, bytes + CHUNK as u64),
            (end, bytes),
            (at, 0),
            (at, 1 << 40),
        ] {
            let said = refusal(led_to(&pm, part, lead, at, bytes), heap.dram_bytes());
            let why = ["goes on where no log can be", "does not add up"];
            assert!(why.iter().any(|why| said.contains(why)), "{at:#x} {bytes:#x}: {said}");
        }
    }
}

#[test]
fn a_log_that_leads_back_to_itself_is_refused() {
    let bytes = 128 << 16;
    let (image, heap) = pool(&HeapOptions { bytes, bytes_max: bytes, ..small_logs(true) });
    let mut session = heap.join(&image);
    let large = session.alloc_into(heap.root(), 200_000, &[]).expect("room");
    let mut tx = session.start(Logging::Undo).expect("whole");
    for piece in 0..200 {
        tx.write(large.plus(1000 * piece), &[9; 1000]).expect("room");
    }
    let _ = tx.pause();
    let pm = image.clone().into_pm();
    let places = Places::of(&pm);
    let first = leads(&pm, places.log(2), places.log_bytes)[0];
    let part = (word(&pm, first + 24) ^ ELSEWHERE) as usize;
    let bytes = word(&pm, first + 32);
    let second = leads(&pm, part, bytes as usize)[0];
    let said = refusal(led_to(&pm, part, second, part as u64, bytes), heap.dram_bytes());
    assert!(said.contains("goes on where no log can be"), "{said}");
}

/// What is done to a pool of three chunks that a table and the objects to which it leads fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptying {
    /// Frees all, with a record that is longer than the log.
    Free,
    /// Takes the pool as a whole.
    Take,
    Retire,
}

const FILLED: u64 = 3 * CHUNK as u64;

impl Step for Emptying {
    type State = usize;

    fn run<M: Memory>(&self, session: &mut Session<'_, M>, _: u64) -> Result<(), TxError> {
        let root = session.heap().root();
        match self {
            Emptying::Free => session.transaction(|tx| {
                let table: Addr = tx.load(root);
                for link in links(table) {
                    tx.free(tx.load(link))?;
                    tx.store(link, 0u64)?;
                }
                tx.free(table)?;
                tx.store(root, 0u64)
            }),
            Emptying::Take => {
                session.alloc_into(root, FILLED, &[9; FILLED as usize])?;
                Ok(())
            }
            Emptying::Retire => {
                session.retire();
                Ok(())
            }
        }
    }

    fn look<M: Memory>(memory: &M, heap: &Heap) -> Result<usize, String> {
        use seawall_memory::MemoryExt;
        let mut live = Vec::new();
        heap.objects(memory, |object| live.push((object.at, object.bytes)))
            .map_err(|error| error.to_string())?;
        let at: Addr = memory.load(heap.root());
        match live[..] {
            [] if at.is_null() => {}
            [(only, FILLED)] if only == at => {
                let mut bytes = vec![0; FILLED as usize];
                memory.read(at, &mut bytes);
                if bytes.iter().any(|byte| *byte != 9) {
                    return Err("something was stored over the object".into());
                }
            }
            _ if live.len() == OBJECTS as usize => {
                let is_live = |at: &Addr| live.iter().any(|(live, _)| live == at);
                if !links(at).map(|link| memory.load(link)).step_by(97).all(|at| is_live(&at)) {
                    return Err("a link leads to no object".into());
                }
            }
            _ => return Err(format!("{} objects", live.len())),
        }
        Ok(live.len())
    }
}

#[test]
fn a_transaction_that_empties_a_full_pool_needs_no_room_and_happens_wholly_or_not_at_all() {
    let options = HeapOptions { log_bytes: LOG, ..options(1, 3) };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let table = session.alloc_into(heap.root(), 8 * OBJECTS, &[]).expect("room");
    for link in links(table) {
        session.alloc_into(link, 32, &[]).expect("room");
    }
    assert!(session.transaction(|tx| tx.alloc(FILLED / 3)).is_err(), "it is full");
    session.retire();
    session.leave();
    let how = Search { depth: 0, budget: 20_000, samples: 10, ..Search::new(Model::Px86) };
    for steps in
        [&[Emptying::Free, Emptying::Take][..], &[Emptying::Free, Emptying::Retire, Emptying::Take]]
    {
        steps::explore((image.clone(), heap), steps, &how, HeapFlaw::None).expect("whole");
    }
}
