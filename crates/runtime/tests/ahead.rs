//! Truncation in steps: no operation flushes a whole log, and no crash between the steps, or
//! between those of two threads, loses a line.

use seawall_explore::{
    CrashImage, CrashPoint, Kind, Model, Schedule, Schedules, Search, Trace, Traced, check, record,
    search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Session, TxError};
use seawall_testkit::script::NAME;

const LINE: u64 = 64;
/// Lines at the start of the root that the first transactions change, and no later ones.
const MARKS: u64 = 192;
/// Words behind them that the others change, so that logs fill up.
const FILL: u64 = 460;
/// Lines that a step flushes before a record of at most 16 lines.
const STEP: usize = 64;

fn options(threads: u64, log_bytes: u64) -> HeapOptions {
    let root_bytes = MARKS * LINE + threads * 8 * FILL;
    HeapOptions { bytes: 1 << 16, threads, log_bytes, root_bytes, ..HeapOptions::default() }
}

type Work<'m, 'a> = Session<'m, Traced<'a>>;

fn write(session: &mut Work<'_, '_>, change: impl Fn(&mut dyn FnMut(Addr, &[u8]))) {
    let written = session.transaction(|tx| {
        let mut outcome = Ok(());
        change(&mut |at, bytes| outcome = outcome.clone().and(tx.write(at, bytes)));
        outcome
    });
    written.unwrap_or_else(|error: TxError| panic!("{error}"));
}

fn mark(root: Addr, line: u64) -> Addr {
    root.plus(line * LINE)
}

/// Changes a word of each of these marks.
fn set_marks(session: &mut Work<'_, '_>, marks: std::ops::Range<u64>) {
    let root = session.heap().root();
    write(session, |put| marks.clone().for_each(|line| put(mark(root, line), &[7; 8])));
}

/// Changes that many words behind the marks.
fn fill(session: &mut Work<'_, '_>, words: u64) {
    let memory = session.memory();
    let at = mark(session.heap().root(), MARKS).plus(8 * FILL * memory.thread() as u64);
    write(session, |put| put(at, &vec![1; 8 * words as usize]));
}

/// A new heap that flushes early, and its image.
fn heap(options: &HeapOptions, flaw: HeapFlaw) -> (Image, Heap) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes() + LINE);
    let heap = Heap::create(&image, NAME, 7, options).expect("good options").with_flaw(flaw);
    (image, heap.flushing_early())
}

fn run(
    options: &HeapOptions,
    flaw: HeapFlaw,
    schedule: &Schedule,
    program: impl Fn(&Traced<'_>, &Heap) + Clone + Send + Sync + 'static,
) -> Trace {
    let (image, heap) = heap(options, flaw);
    record(image, schedule, move |memory| program(memory, &heap)).expect("it ends")
}

/// The first bad image of a run in which output n says that `marks(n)` marks are set for good.
fn finding(
    (trace, options): (&Trace, &HeapOptions),
    budget: u64,
    marks: impl Fn(&CrashPoint) -> u64 + Send + Sync,
) -> Option<String> {
    let bytes = options.pm_bytes();
    let recover = |image: &CrashImage| {
        let opened = Heap::open(image, NAME, bytes).map_err(|error| error.to_string())?;
        let root = opened.0.root();
        let is_set = |line: &u64| image.load::<u64>(mark(root, *line)) != 0;
        Ok::<u64, String>((0..MARKS).find(|line| !is_set(line)).unwrap_or(MARKS))
    };
    let judge = |set: &u64, point: &CrashPoint| {
        let wanted = marks(point);
        if *set >= wanted { Ok(()) } else { Err(format!("mark {set} of {wanted} is lost")) }
    };
    let how = Search { depth: 0, budget, samples: 20, ..Search::new(Model::Px86) };
    search(trace, &how, &check(recover, judge)).finding.map(|finding| finding.to_string())
}

/// Sixteen transactions that set twelve marks each fill the first generation; three more follow.
fn many_entries(memory: &Traced<'_>, heap: &Heap) {
    let mut session = heap.join(memory);
    for round in 0..64 {
        if round < 16 {
            set_marks(&mut session, 12 * round..12 * round + 12);
        } else {
            fill(&mut session, 24);
        }
        memory.output(round);
    }
}

/// One entry of more lines than a step flushes, in a log of twice the size.
fn one_entry(memory: &Traced<'_>, heap: &Heap) {
    let mut session = heap.join(memory);
    for round in 0..40 {
        if round == 0 {
            let root = heap.root();
            write(&mut session, |put| put(root, &[7; 110 * LINE as usize]));
        } else {
            fill(&mut session, 120);
        }
        memory.output(round);
    }
}

/// What a thread does, in a log of that many bytes, and the marks that its outputs promise.
type Alone = (fn(&Traced<'_>, &Heap), u64, fn(u64) -> u64);

const ALONE: [Alone; 2] = [
    (many_entries, 4 << 10, |rounds| 12 * rounds.min(16)),
    (one_entry, 8 << 10, |rounds| 110 * rounds.min(1)),
];

fn explore_alone((program, log_bytes, marks): Alone, flaw: HeapFlaw) -> Option<String> {
    let options = options(1, log_bytes);
    let trace = run(&options, flaw, &Schedule::default(), program);
    finding((&trace, &options), 4000, |point| marks(point.outputs[0]))
}

#[test]
fn no_crash_between_the_steps_loses_a_line() {
    for program in ALONE {
        assert_eq!(explore_alone(program, HeapFlaw::None), None);
    }
}

#[test]
fn a_step_that_leaves_out_a_line_is_caught() {
    for program in ALONE {
        let finding = explore_alone(program, HeapFlaw::LossyStep).expect("a mark is lost");
        assert!(finding.contains("mark 0 of"), "{finding}");
    }
}

/// The most lines that an operation of thread 0 flushes, and all lines that it flushes.
fn flushed(trace: &Trace) -> (usize, usize) {
    let (mut most, mut now, mut all) = (0, 0, 0);
    for event in trace.events().iter().filter(|event| event.thread == 0) {
        match event.kind {
            Kind::Flush { .. } => now += 1,
            Kind::Output { .. } => {
                (most, all) = (most.max(now), all + now);
                now = 0;
            }
            _ => {}
        }
    }
    (most, all)
}

/// Lines that an operation flushes beside a step: of its record, and words of the log's state.
const BESIDE: usize = 24;

#[test]
fn no_operation_flushes_more_than_a_step() {
    for (program, log_bytes, marks) in ALONE {
        let trace = run(&options(1, log_bytes), HeapFlaw::None, &Schedule::default(), program);
        let (most, all) = flushed(&trace);
        assert!(most <= STEP + BESIDE, "{most} lines at once");
        assert!(all > marks(64) as usize, "{all} lines, of {} marks", marks(64));
    }
}

#[test]
fn the_lines_of_an_idle_thread_are_flushed_in_steps_too() {
    let program = |memory: &Traced<'_>, heap: &Heap| {
        let (mut session, is_idle) = (heap.join(memory), Addr::dram(heap.dram_bytes()));
        if memory.thread() == 1 {
            (0..15).for_each(|round| set_marks(&mut session, 12 * round..12 * round + 12));
            memory.store(is_idle, 1u64);
            return;
        }
        assert_eq!(memory.spin_while(is_idle, 0), 1);
        for round in 0..64 {
            fill(&mut session, 24);
            memory.output(round);
        }
    };
    let schedule = Schedule { threads: 2, ..Schedule::default() };
    let (most, all) = flushed(&run(&options(2, 4096), HeapFlaw::None, &schedule, program));
    assert!(most <= STEP + BESIDE, "{most} lines at once");
    assert!(all > 180, "{all} lines");
}

/// What two threads do, and how many marks the outputs of thread 0 promise at most.
type Pair = (fn(&Traced<'_>, &Heap), u64);

const PAIRS: [Pair; 2] = [(stepper_and_retirer, 1), (writer_and_stepper, 2)];

/// Thread 0 sets a mark, fills its half, and does a step; thread 1 truncates meanwhile.
fn stepper_and_retirer(memory: &Traced<'_>, heap: &Heap) {
    let mut session = heap.join(memory);
    if memory.thread() == 1 {
        return session.retire();
    }
    set_marks(&mut session, 0..1);
    memory.output(0);
    fill(&mut session, FILL);
    memory.output(1);
    // Behind 17 lines of log a step flushes all that the first two have changed.
    fill(&mut session, 130);
    memory.output(2);
}

/// Thread 0 sets a mark, and another one; thread 1 moves on, does steps, and truncates.
fn writer_and_stepper(memory: &Traced<'_>, heap: &Heap) {
    let mut session = heap.join(memory);
    if memory.thread() == 0 {
        for round in 0..2 {
            set_marks(&mut session, round..round + 1);
            memory.output(round);
        }
        return;
    }
    for words in [FILL, 130, 130] {
        fill(&mut session, words);
    }
    session.retire();
}

/// The first bad image of two threads, and how many runs there were.
fn explore_pair((program, most): Pair, flaw: HeapFlaw, limit: usize) -> (usize, Option<String>) {
    let options = options(2, 4096);
    let base = Schedule { threads: 2, ..Schedule::default() };
    let interrupted = Schedules { interruptions: 2, limit, ..Schedules::new(Model::Px86) };
    let run = |schedule: &Schedule| {
        let (image, heap) = heap(&options, flaw);
        record(image, schedule, move |memory| program(memory, &heap))
    };
    let runs = interrupted.all(&base, run).expect("every run ends").runs;
    let marks = |point: &CrashPoint| point.outputs[0].min(most);
    let bad = |(_, trace): &(_, Trace)| finding((trace, &options), 300, marks);
    (runs.len(), runs.iter().find_map(bad))
}

#[test]
fn no_crash_loses_a_line_that_one_thread_flushes_and_another_truncates() {
    for program in PAIRS {
        let (runs, finding) = explore_pair(program, HeapFlaw::None, 100);
        assert_eq!(finding, None);
        assert!(runs > 20, "{runs} runs");
    }
}

#[test]
fn steps_that_another_thread_believes_too_early_are_caught() {
    for (flaw, program) in [HeapFlaw::EarlyStep, HeapFlaw::HastyStep].into_iter().zip(PAIRS) {
        let (runs, finding) = explore_pair(program, flaw, 600);
        let is_it = finding.is_some_and(|finding| finding.contains("is lost"));
        assert!(is_it, "{flaw:?} was not caught in {runs} runs");
    }
}
