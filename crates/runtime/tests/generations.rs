//! Crashes while the logs go from one generation to the next, again and again: what the halves say
//! of each other is never taken for damage, by one thread or two.

use seawall_explore::{
    CrashImage, CrashPoint, Kind, Model, Schedule, Search, Store, Trace, Traced, Turns, check,
    record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt, layer};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, TxError};
use seawall_testkit::places::{CLOSED_WORD, Places, REACH_WORD, word};
use seawall_testkit::script::NAME;

/// How much is written how often.
#[derive(Clone, Copy)]
struct Size {
    threads: u64,
    log_bytes: u64,
    /// Words that a transaction writes.
    words: u64,
    /// Transactions of a thread.
    rounds: u64,
}

/// Three transactions fit a half of the log.
const SMALL: Size = Size { threads: 1, log_bytes: 4096, words: 150, rounds: 8 };
/// Two transactions fit a zone of 64 KiB, and five a half of the log.
const ZONES: Size = Size { threads: 1, log_bytes: 160 << 10, words: 3500, rounds: 3 };

impl Size {
    fn options(self) -> HeapOptions {
        HeapOptions {
            bytes: 1 << 16,
            threads: self.threads,
            log_bytes: self.log_bytes,
            root_bytes: self.threads * 8 * self.words,
            ..HeapOptions::default()
        }
    }

    fn part(self, heap: &Heap, thread: u64) -> Addr {
        heap.root().plus(8 * self.words * thread)
    }
}

/// Each round writes its number everywhere. Thread 1 joins anew each time, thread 0 only once.
fn program(memory: &Traced<'_>, heap: &Heap, size: Size) {
    let part = size.part(heap, memory.thread() as u64);
    let mut session = heap.join(memory);
    for round in 1..=size.rounds {
        if memory.thread() == 1 {
            session = heap.join(memory);
        }
        let bytes = round.to_le_bytes().repeat(size.words as usize);
        let written = session.transaction(|tx| tx.write(part, &bytes));
        written.unwrap_or_else(|error: TxError| panic!("{error}"));
        memory.output(round - 1);
    }
}

fn run(size: Size, flaw: HeapFlaw, schedule: &Schedule) -> Trace {
    let options = size.options();
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options").with_flaw(flaw);
    let schedule = Schedule { threads: size.threads as usize, ..schedule.clone() };
    record(image, &schedule, move |memory| program(memory, &heap, size)).expect("it ends")
}

/// The first bad image of a run.
fn explore(size: Size, trace: &Trace, how: &Search) -> Option<String> {
    let bytes = size.options().pm_bytes();
    let recover = |image: &CrashImage| {
        let (heap, _) = Heap::open(image, NAME, bytes).map_err(|error| error.to_string())?;
        (0..size.threads).map(|thread| size.round_of(image, size.part(&heap, thread))).collect()
    };
    let judge = |rounds: &Vec<u64>, point: &CrashPoint| {
        let mut of_threads = rounds.iter().zip(point.outputs.iter());
        match of_threads.find(|(round, done)| !(**done..=**done + 1).contains(*round)) {
            None => Ok(()),
            Some((round, done)) => Err(format!("round {round} after {done}")),
        }
    };
    search(trace, how, &check(recover, judge)).finding.map(|finding| finding.to_string())
}

impl Size {
    fn round_of(self, image: &CrashImage, part: Addr) -> Result<u64, String> {
        let words: Vec<u64> = (0..self.words).map(|word| image.load(part.plus(8 * word))).collect();
        match words.iter().all(|word| *word == words[0]) {
            true => Ok(words[0]),
            false => Err("a transaction is torn".to_owned()),
        }
    }
}

#[test]
fn no_crash_makes_the_halves_of_a_log_disagree() {
    let trace = run(SMALL, HeapFlaw::None, &Schedule::default());
    for model in Model::all() {
        let how = Search { depth: 1, budget: 20_000, samples: 20, ..Search::new(model) };
        assert_eq!(explore(SMALL, &trace, &how), None, "{model}");
    }
}

/// The round that opening finds after a crash that lost what was stored in place, and the zone that
/// was named last.
fn after_losing_the_root(rounds: u64, flaw: HeapFlaw) -> (u64, u64) {
    let options = ZONES.options();
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options").with_flaw(flaw);
    let mut session = heap.join(&image);
    for round in 1..=rounds {
        let bytes = round.to_le_bytes().repeat(ZONES.words as usize);
        let written = session.transaction(|tx| tx.write(ZONES.part(&heap, 0), &bytes));
        written.unwrap_or_else(|error: TxError| panic!("{error}"));
    }
    drop(session);
    let mut pm = image.into_pm();
    let places = Places::of(&pm);
    pm[places.root..][..8 * ZONES.words as usize].fill(0);
    let named = word(&pm, places.thread + 8 * (REACH_WORD + 1)) & ((1 << 14) - 1);
    let crashed = Image::from_pm(pm, options.dram_bytes());
    let (heap, _) = Heap::open(&crashed, NAME, options.pm_bytes()).expect("whole");
    (crashed.load(ZONES.part(&heap, 0)), named)
}

#[test]
fn what_was_committed_behind_the_first_zone_of_a_log_is_found() {
    for (rounds, zone) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        assert_eq!(after_losing_the_root(rounds, HeapFlaw::None), (rounds, zone));
    }
    assert_eq!(after_losing_the_root(3, HeapFlaw::NoReach), (2, 0), "it is lost");
}

#[test]
fn the_zone_is_named_durably_before_a_record_that_ends_in_it_is_written() {
    let trace = run(ZONES, HeapFlaw::None, &Schedule::default());
    let options = ZONES.options();
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    Heap::create(&image, NAME, 7, &options).expect("good options");
    let places = Places::of(&image.into_pm());
    let [word, behind] = [places.thread + 8 * (REACH_WORD + 1), places.log(1) + (64 << 10)];
    let stored = |range: std::ops::Range<usize>| {
        let is_in = |store: &&Store| range.contains(&(store.at.offset() as usize));
        trace.stores().iter().find(is_in).expect("it is stored").event as usize
    };
    let between = stored(word..word + 8)..stored(behind..places.log(2));
    let kinds: Vec<&Kind> = trace.events()[between].iter().map(|event| &event.kind).collect();
    assert!(matches!(kinds[1..3], [Kind::Flush { .. }, Kind::Order]), "{kinds:?}");
}

#[test]
fn no_crash_makes_the_halves_of_two_logs_disagree() {
    let how = Search { depth: 0, budget: 3_000, samples: 20, ..Search::new(Model::Px86) };
    let two = Size { threads: 2, ..SMALL };
    for seed in 0..12 {
        let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(3) };
        let schedule = Schedule { turns, seed, ..Schedule::default() };
        let trace = run(two, HeapFlaw::None, &schedule);
        assert_eq!(explore(two, &trace, &how), None, "{seed}");
    }
}

/// Thread 0 writes a word again and again when thread 1, whose half is full, moves on. The
/// first run with a bad image, and what is bad.
fn explore_uneven(flaw: HeapFlaw, runs: u64) -> Option<(u64, String)> {
    let options = Size { threads: 2, ..SMALL }.options();
    let program = |memory: &Traced<'_>, heap: &Heap| {
        let (mut session, full) = (heap.join(memory), Addr::dram(heap.dram_bytes()));
        let (rounds, words) = if memory.thread() == 0 { (5, 1) } else { (4, SMALL.words) };
        for round in 1..=rounds {
            match memory.thread() {
                0 if round == 2 => assert_eq!(memory.spin_while(full, 0), 1),
                1 if round == 4 => memory.store(full, 1u64),
                _ => {}
            }
            let bytes = u64::to_le_bytes(round).repeat(words as usize);
            let part = SMALL.part(heap, memory.thread() as u64);
            let written = session.transaction(|tx| tx.write(part, &bytes));
            written.unwrap_or_else(|error: TxError| panic!("{error}"));
            memory.output(round - 1);
        }
    };
    let recover = |image: &CrashImage| {
        let opened = Heap::open(image, NAME, options.pm_bytes());
        let (heap, _) = opened.map_err(|error| error.to_string())?;
        Ok([0, 1].map(|thread| image.load::<u64>(SMALL.part(&heap, thread))))
    };
    let judge = |rounds: &[u64; 2], point: &CrashPoint| {
        let is_old = |thread: usize| rounds[thread] < point.outputs[thread];
        if (0..2).any(is_old) { Err(format!("{rounds:?} after {point:?}")) } else { Ok(()) }
    };
    let how = Search { depth: 0, budget: 300, samples: 20, ..Search::new(Model::Px86) };
    (0..runs).find_map(|seed| {
        let image = Image::new(options.pm_bytes(), options.dram_bytes() + 64);
        let heap = Heap::create(&image, NAME, 7, &options).expect("good options").with_flaw(flaw);
        let schedule = Schedule { threads: 2, turns: Turns::Random, seed, ..Schedule::default() };
        let trace = record(image, &schedule, move |memory| program(memory, &heap));
        let trace = trace.expect("it ends");
        let finding = search(&trace, &how, &check(recover, judge)).finding?;
        Some((seed, finding.to_string()))
    })
}

#[test]
fn an_end_that_is_read_before_its_thread_has_stopped_writing_is_caught() {
    let (seed, finding) = explore_uneven(HeapFlaw::EarlyEnd, 2000).expect("it is caught");
    assert!(finding.contains("does not end where"), "{finding}");
    assert_eq!(explore_uneven(HeapFlaw::None, seed + 1), None);
}

#[test]
fn a_thread_that_joins_anew_goes_on_where_its_log_was() {
    let size = Size { threads: 2, ..SMALL };
    let options = size.options();
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    for round in 1..=10 * size.rounds {
        let bytes = round.to_le_bytes().repeat(size.words as usize);
        let written = heap.join(&image).transaction(|tx| tx.write(size.part(&heap, 0), &bytes));
        written.unwrap_or_else(|error: TxError| panic!("{error}"));
        let crashed = Image::from_pm(image.clone().into_pm(), options.dram_bytes());
        let (_, recovered) = Heap::open(&crashed, NAME, options.pm_bytes()).expect("whole");
        assert_eq!(recovered.replayed, if round <= 6 { round } else { 4 + (round - 7) % 3 });
    }
}

/// The rounds that change the first word: in the first generation and in the third, which begins
/// when the first is retired. The others change another line; a half of the log holds 64 of them.
const MARKS: [u64; 2] = [2, 140];

/// The first bad image of a program that changes a line in two generations, and never again.
fn explore_marks(flaw: HeapFlaw) -> Option<String> {
    let options = HeapOptions { bytes: 1 << 16, threads: 1, log_bytes: 4096, ..SMALL.options() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options").with_flaw(flaw);
    let program = move |memory: &Traced<'_>| {
        let mut session = heap.join(memory);
        for round in 1..=280 {
            let at = if MARKS.contains(&round) { heap.root() } else { heap.root().plus(64) };
            session.transaction(|tx| tx.store(at, round)).expect("it fits");
            memory.output(round - 1);
        }
    };
    let trace = record(image, &Schedule::default(), program).expect("it ends");
    let recover = |image: &CrashImage| {
        let opened = Heap::open(image, NAME, options.pm_bytes());
        let (heap, _) = opened.map_err(|error| error.to_string())?;
        Ok::<u64, String>(image.load(heap.root()))
    };
    let judge = |mark: &u64, point: &CrashPoint| {
        let last = |done: u64| MARKS.into_iter().rfind(|mark| *mark <= done).unwrap_or(0);
        let done = point.outputs[0];
        let is_right = (last(done)..=last(done + 1)).contains(mark);
        if is_right { Ok(()) } else { Err(format!("mark {mark} after round {done}")) }
    };
    let how = Search { depth: 0, budget: 3_000, samples: 20, ..Search::new(Model::Px86) };
    search(&trace, &how, &check(recover, judge)).finding.map(|finding| finding.to_string())
}

#[test]
fn a_line_is_listed_anew_in_each_generation_that_changes_it() {
    assert_eq!(explore_marks(HeapFlaw::None), None);
    let finding = explore_marks(HeapFlaw::OldList).expect("it is lost");
    assert!(finding.contains("mark 2 after round"), "{finding}");
}

/// A pool of two threads of which thread 0 has written three records of a generation that thread 1
/// has moved on from; where these begin, and where their log ends.
fn moved_on() -> (Vec<u8>, HeapOptions, Vec<usize>, usize) {
    let size = Size { threads: 2, ..SMALL };
    let options = size.options();
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let [one, other] = [0, 1].map(|thread| Numbered { image: &image, thread });
    let write = |memory: &Numbered<'_>, rounds: u64| {
        let mut session = heap.join(memory);
        for round in 1..=rounds {
            let bytes = round.to_le_bytes().repeat(size.words as usize);
            let part = size.part(&heap, memory.thread as u64);
            let written = session.transaction(|tx| tx.write(part, &bytes));
            written.unwrap_or_else(|error: TxError| panic!("{error}"));
        }
    };
    write(&one, 3);
    write(&other, 4);
    let pm = image.into_pm();
    let places = Places::of(&pm);
    let records = places.records(&pm, 1).into_iter().map(|(start, _)| start).collect();
    let end = places.log(2);
    (pm, options, records, end)
}

/// A thread of the simplest machine.
struct Numbered<'m> {
    image: &'m Image,
    thread: usize,
}

impl layer::Layer for Numbered<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn thread(&self) -> usize {
        self.thread
    }
}

#[test]
fn the_newest_record_of_an_older_half_is_missed_though_its_thread_wrote_no_more() {
    let (pm, options, records, end) = moved_on();
    assert_eq!(records.len(), 3);
    for (missing, start) in (1..).zip(records.into_iter().rev()) {
        let mut cut = pm.clone();
        cut[start + 9] ^= 4;
        cut[start + 64..end].fill(0);
        let open = |flaw| {
            let image = Image::from_pm(cut.clone(), options.dram_bytes());
            Heap::open_flawed(&image, NAME, options.pm_bytes(), flaw).map(|opened| opened.1)
        };
        let error = open(HeapFlaw::None).expect_err("it is damage").to_string();
        assert!(error.contains("thread 0") && error.contains("does not end where"), "{error}");
        let unseen = open(HeapFlaw::NoBefore);
        assert_eq!(unseen.map(|recovered| recovered.replayed), Ok(7 - missing as u64));
    }
}

#[test]
fn a_flipped_bit_of_what_is_said_of_an_older_half_is_damage() {
    let (pm, options, ..) = moved_on();
    let open = |pm: Vec<u8>| {
        let image = Image::from_pm(pm, options.dram_bytes());
        Heap::open(&image, NAME, options.pm_bytes()).map(|opened| opened.1.replayed)
    };
    assert_eq!(open(pm.clone()), Ok(7));
    let first = Places::of(&pm).thread + 8 * CLOSED_WORD;
    assert_eq!(word(&pm, first) & ((1 << 40) - 1), 1, "generation 1 is over");
    for bit in 0..128 {
        let mut flipped = pm.clone();
        flipped[first + bit / 8] ^= 1 << (bit % 8);
        assert!(open(flipped).is_err(), "bit {bit}");
    }
}
