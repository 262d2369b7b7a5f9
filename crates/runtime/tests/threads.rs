//! Two threads at once: every way of interrupting them once, some random ones, and every crash.

use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, Trace, Traced, Turns, check,
    record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Logging, Session, TxError};
use seawall_testkit::script::NAME;

const ROUNDS: u64 = 2;
/// In the root: two counters that both threads add to, and for each thread an object it made.
const PAIR: u64 = 0;
const OBJECTS: u64 = 64;

fn options() -> HeapOptions {
    HeapOptions {
        bytes: 3 << 16,
        threads: 2,
        log_bytes: 4096,
        root_bytes: 256,
        ..Default::default()
    }
}

/// A lock in DRAM behind that of the heap.
fn locked<M: Memory>(memory: &M, heap: &Heap, action: impl FnOnce()) {
    let lock = Addr::dram(heap.dram_bytes());
    while memory.compare_exchange(lock, 0, 1).is_err() {
        memory.spin_while(lock, 1);
    }
    action();
    memory.store(lock, 0u64);
}

fn add_to_pair<M: Memory>(session: &mut Session<'_, M>, kind: Logging) {
    let pair = session.heap().root().plus(PAIR);
    let memory = session.memory();
    locked(memory, &session.heap(), || {
        let added = session.transaction_with(kind, |tx| {
            let next = tx.load::<u64>(pair) + 1;
            tx.add(&[(pair, 16)])?;
            tx.store(pair, next)?;
            tx.store(pair.plus(8), next)
        });
        added.expect("it fits");
    });
}

fn replace_object<M: Memory>(session: &mut Session<'_, M>, round: u64, kind: Logging) {
    let link = session.heap().root().plus(OBJECTS + 64 * session.memory().thread() as u64);
    let replaced = session.transaction_with(kind, |tx| {
        let old: Addr = tx.load(link);
        let new = tx.alloc(40)?;
        tx.store(new, round)?;
        tx.store(new.plus(32), round)?;
        tx.store(link, new)?;
        if old.is_null() { Ok(()) } else { tx.free(old) }
    });
    replaced.unwrap_or_else(|error: TxError| panic!("{error}"));
}

fn program(memory: &Traced<'_>, heap: &Heap, kind: Logging) {
    let mut session = heap.join(memory);
    for round in 0..ROUNDS {
        add_to_pair(&mut session, kind);
        memory.output(2 * round);
        replace_object(&mut session, round + 1, kind);
        memory.output(2 * round + 1);
        if memory.thread() == 0 {
            session.retire();
        }
    }
}

/// What each of two threads runs.
type Program = fn(&Traced<'_>, &Heap, Logging);

/// One thread writes, the other retires what it wrote.
fn writer_and_retirer(memory: &Traced<'_>, heap: &Heap, kind: Logging) {
    let mut session = heap.join(memory);
    if memory.thread() == 0 {
        session.retire();
    } else {
        add_to_pair(&mut session, kind);
        memory.output(0);
    }
}

/// The counters, and for each thread the round of its object.
type Found = (u64, u64, [u64; 2]);

fn recover(image: &CrashImage, bytes: u64, flaw: HeapFlaw) -> Result<Found, String> {
    let (heap, _) =
        Heap::open_flawed(image, NAME, bytes, flaw).map_err(|error| error.to_string())?;
    let mut live = 0;
    heap.objects(image, |_| live += 1).map_err(|error| error.to_string())?;
    let mut rounds = [0; 2];
    for (thread, round) in (0..).zip(&mut rounds) {
        let at: Addr = image.load(heap.root().plus(OBJECTS + 64 * thread));
        if !at.is_null() {
            live -= 1;
            *round = image.load(at);
            if *round != image.load::<u64>(at.plus(32)) {
                return Err(format!("the object of thread {thread} is torn"));
            }
        }
    }
    if live != 0 {
        return Err("an object is leaked or doubled".to_owned());
    }
    let pair = heap.root().plus(PAIR);
    Ok((image.load(pair), image.load(pair.plus(8)), rounds))
}

fn judge(found: &Found, point: &CrashPoint) -> Result<(), String> {
    let (first, second, rounds) = found;
    let done: u64 = point.outputs.iter().map(|outputs| outputs.div_ceil(2)).sum();
    if first != second || *first < done || *first > 2 * ROUNDS {
        return Err(format!("{done} rounds were done, and the counters are {first} and {second}"));
    }
    match (0..2).find(|thread| rounds[*thread] < point.outputs[*thread] / 2) {
        None => Ok(()),
        Some(thread) => Err(format!("the object of thread {thread} is an old one")),
    }
}

/// The first bad image of any run, and how many runs there were.
fn explore(
    program: Program,
    kind: Logging,
    flaw: HeapFlaw,
    interrupted: &Schedules,
    random: u64,
) -> (usize, Option<String>) {
    let options = options();
    let bytes = options.pm_bytes();
    let run = |schedule: &Schedule| {
        let image = Image::new(bytes, options.dram_bytes() + 64);
        let heap = Heap::create(&image, NAME, 7, &options).expect("good options").with_flaw(flaw);
        record(image, schedule, move |memory| program(memory, &heap, kind))
    };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let found = interrupted.all(&base, run).expect("every run ends");
    let mut traces: Vec<Trace> = found.runs.into_iter().map(|(_, trace)| trace).collect();
    for seed in 0..random {
        let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(3) };
        traces.push(run(&Schedule { turns, seed, ..base.clone() }).expect("it ends"));
    }
    let how = Search { depth: 0, budget: 3_000, samples: 20, ..Search::new(Model::Px86) };
    let good = |image: &CrashImage| recover(image, bytes, flaw);
    let bad = |trace: &Trace| search(trace, &how, &check(good, judge)).finding;
    let finding = traces.iter().find_map(bad).map(|finding| finding.to_string());
    (traces.len(), finding)
}

#[test]
fn no_crash_breaks_two_threads_however_they_are_interrupted() {
    let limit =
        std::env::var("SEAWALL_INTERLEAVINGS").map_or(24, |limit| limit.parse().expect("a number"));
    for kind in [Logging::Redo, Logging::Undo] {
        let once = Schedules { interruptions: 1, limit, ..Schedules::new(Model::Px86) };
        let (runs, finding) = explore(program, kind, HeapFlaw::None, &once, limit as u64 / 4);
        assert_eq!(finding, None, "{kind:?}");
        assert!(runs > 20, "{runs} runs");
        let twice = Schedules { interruptions: 2, limit, ..Schedules::new(Model::Px86) };
        let (_, finding) = explore(writer_and_retirer, kind, HeapFlaw::None, &twice, 0);
        assert_eq!(finding, None, "{kind:?}");
    }
}

#[test]
fn what_only_two_threads_get_wrong_is_caught() {
    let once = Schedules { interruptions: 1, limit: 60, ..Schedules::new(Model::Px86) };
    let twice = Schedules { interruptions: 2, limit: 1000, ..Schedules::new(Model::Px86) };
    let cases: [(_, Program, _); 2] =
        [(HeapFlaw::NoOrder, program, once), (HeapFlaw::NoWait, writer_and_retirer, twice)];
    for (flaw, program, interrupted) in cases {
        let (runs, finding) = explore(program, Logging::Redo, flaw, &interrupted, 0);
        let is_it = finding.is_some_and(|finding| finding.contains("the counters are"));
        assert!(is_it, "{flaw:?} was not caught in {runs} runs");
    }
}
