//! Lines that are cleaned before their flush, and flushes that are skipped.

use super::scene::{Program, Scene, options};
use seawall_explore::Model;
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::Arena;
use seawall_runtime::ribbon::{Mode, Ribbon, RibbonFlaw, RibbonOptions, Step};

/// The words of a line on which threads tell each other how far they are.
const HANDED_ON: u64 = 0;

/// Stores to a line and to the next one, which hands the first on; then flushes both. Again.
const ALONE: Program = |memory, data, _| {
    for value in 1..=2u64 {
        for line in 0..3 {
            memory.store(data.plus(64 * line), value);
        }
        memory.flush(data, 3 * 64);
        memory.drain();
        memory.output(value);
    }
};

/// Thread 0 stores to a line and hands it on; thread 1 stores to another word of it. When thread 0
/// reads that, it makes it durable, and says that it is.
const MEETING: Program = |memory, data, signals| {
    let (own, other, found, elsewhere) = (data, data.plus(8), data.plus(128), data.plus(64));
    if memory.thread() == 0 {
        memory.store(own, 1u64);
        memory.store(elsewhere, 1u64);
        memory.store(signals.plus(HANDED_ON), 1u64);
        memory.spin_while(signals.plus(8), 0);
        if memory.load::<u64>(other) == 1 {
            memory.persist(own, 16);
            memory.store(found, 1u64);
            memory.persist(found, 8);
        }
    } else {
        memory.spin_while(signals.plus(HANDED_ON), 0);
        memory.store(signals.plus(8), 1u64);
        memory.store(other, 1u64);
    }
};

fn early(threads: u64, flaw: RibbonFlaw) -> RibbonOptions {
    RibbonOptions { early: true, flaw, ..options(threads, 1) }
}

fn alone(flaw: RibbonFlaw, model: Model) -> Result<usize, String> {
    let is_good = |found: &[u64], outputs: &[u64]| found.iter().all(|word| *word >= outputs[0]);
    let options = early(1, flaw);
    let words = &[0, 64, 128];
    Scene { options, model, program: ALONE, words, is_good, bound: 2, limit: 600, random: 400 }
        .explore()
}

fn meeting(flaw: RibbonFlaw) -> Result<usize, String> {
    let is_good = |found: &[u64], _: &[u64]| found[0] >= found[1];
    let options = early(2, flaw);
    let (model, words) = (Model::Px86, &[8, 128]);
    Scene {
        options,
        model,
        program: MEETING,
        words,
        is_good,
        bound: 2,
        limit: 2_000,
        random: 2_000,
    }
    .explore()
}

#[test]
fn what_is_skipped_is_durable() {
    for model in [Model::Px86, Model::Bep] {
        let runs = alone(RibbonFlaw::None, model).unwrap_or_else(|bad| panic!("{model}: {bad}"));
        assert!(runs > 400, "{runs}");
    }
}

#[test]
fn another_threads_store_that_was_read_is_not_skipped() {
    let runs = meeting(RibbonFlaw::None).unwrap_or_else(|bad| panic!("{bad}"));
    assert!(runs > 1000, "{runs}");
}

#[test]
fn skipping_what_is_not_known_to_be_clean_is_found() {
    use RibbonFlaw::{HandsOnBeforeStore, SkipsRewritten, SkipsUndone};
    for flaw in [SkipsUndone, SkipsRewritten, HandsOnBeforeStore] {
        let outcome = alone(flaw, Model::Px86);
        assert!(outcome.is_err(), "{flaw:?} was not caught in {outcome:?} runs");
    }
}

#[test]
fn a_mark_after_the_store_or_none_is_found_where_threads_meet() {
    for flaw in [RibbonFlaw::OwnsLate, RibbonFlaw::SkipsShared] {
        let outcome = meeting(flaw);
        assert!(outcome.is_err(), "{flaw:?} was not caught in {outcome:?} runs");
    }
}

fn place(mode: Mode) -> (Image, Ribbon, Addr) {
    let mut arena = Arena::new();
    let options = RibbonOptions { mode, early: true, ..options(1, 1) };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * 64);
    (Image::new(arena.pm_bytes(), arena.dram_bytes()), ribbon, data)
}

#[test]
fn a_line_that_was_cleaned_is_not_flushed_and_a_rewritten_one_is() {
    let (image, ribbon, data) = place(Mode::Never);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    for line in 0..3 {
        memory.store(data.plus(64 * line), 1u64);
    }
    assert_eq!(flusher.step(), Step::Flushed(2));
    memory.store(data, 2u64);
    memory.persist(data, 3 * 64);
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.handed_on, counts.cleaned), (3, 2), "the third is not done");
    assert_eq!((counts.skipped, counts.inline, counts.in_vain), (1, 2, 2));
}

#[test]
fn lines_that_are_rewritten_all_the_time_are_handed_on_ever_more_rarely() {
    let (image, ribbon, data) = place(Mode::Never);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    for round in 0..1000u64 {
        memory.store(data.plus(64 * (round % 2)), round);
        flusher.step();
    }
    memory.leave();
    let counts = ribbon.counts(&image);
    assert!(counts.cleaned < 20, "{counts:?}");
    assert_eq!(counts.skipped, 0);
}

#[test]
fn a_table_of_one_word_loses_skips_and_no_flush() {
    let mut arena = Arena::new();
    let options = RibbonOptions { mode: Mode::Never, early: true, owner_words: 1, ..options(2, 1) };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * 4);
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    memory.store(data, 1u64);
    memory.store(data.plus(64), 1u64);
    assert_eq!(flusher.step(), Step::Flushed(1));
    let other = super::fifo::Thread::new(&image, 1);
    ribbon.join(&other).store(data.plus(128), 1u64);
    memory.persist(data, 128);
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.skipped, counts.inline), (0, 2), "the word is shared");
}
