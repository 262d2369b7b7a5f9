//! Lines that are cleaned before their flush, and flushes that are skipped.

use super::fifo::Thread;
use super::scene::{LINES, Program, Scene, options};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_explore::Model;
use seawall_memory::{Addr, Fence, Image, Memory, MemoryExt, Width, layer};
use seawall_ribbon::{
    EarlyStores, FlusherStep, Mode, Ribbon, RibbonFlaw, RibbonMemory, RibbonOptions,
};
use seawall_runtime::Arena;
use std::cell::Cell;

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

/// Hands a line on, leaves off while it stores to it again, and begins again before the flush.
const PAUSING: Program = |memory, data, _| {
    for value in 1..=2u64 {
        memory.store(data, 2 * value - 1);
        memory.store(data.plus(64), value);
        memory.set_early(false);
        memory.store(data, 2 * value);
        memory.set_early(true);
        memory.flush(data, 128);
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

/// The same, with a thread 1 that skips nothing itself.
const MEETING_A_PAUSE: Program = |memory, data, signals| {
    memory.set_early(memory.thread() == 0);
    MEETING(memory, data, signals);
};

/// The same, with a thread 0 that begins to skip when no thread does: thread 1 has not looked
/// since, and marks nothing.
const MEETING_AT_A_BEGIN: Program = |memory, data, signals| {
    memory.set_early(false);
    if memory.thread() == 0 {
        memory.spin_while(signals.plus(16), 0);
        memory.set_early(true);
    } else {
        memory.store(signals.plus(16), 1u64);
    }
    MEETING(memory, data, signals);
};

/// Four words on two lines, the first two each thread's own on the first line, and so on.
const SHARED_WORDS: [u64; 4] = [0, 8, 64, 72];

/// At random: a thread counts a word of its own up, makes its lines durable, or reads a word of
/// either thread, makes it durable, and then notes, durably, what it read. In half of the
/// programs it also leaves off skipping for some of its stores.
const AT_RANDOM: Program = |memory, data, _| {
    let thread = memory.thread() as u64;
    let seed = memory.load::<u64>(data.plus(64 * (LINES - 1)));
    let choices = if seed % 4 < 2 { 6 } else { 4 };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed * 2 + thread);
    for value in 1..=10u64 {
        let word = rng.random_range(0..4);
        match rng.random_range(0..choices) {
            choice @ (0 | 1 | 4 | 5) => {
                memory.set_early(choice < 4);
                memory.store(data.plus(SHARED_WORDS[word & 2] + 8 * thread), value);
                memory.set_early(true);
            }
            2 => memory.flush(data, 128),
            _ => {
                let found = data.plus(128 + 64 * thread + 8 * word as u64);
                let read: u64 = memory.load(data.plus(SHARED_WORDS[word]));
                memory.persist(data.plus(SHARED_WORDS[word]), 8);
                memory.store(found, read);
                memory.persist(found, 8);
            }
        }
    }
};

/// What was noted is there: words 0 to 3 are shared, then those of what each thread noted.
fn has_what_was_noted(found: &[u64], _: &[u64]) -> bool {
    (0..4).all(|word| found[word] >= found[4 + word].max(found[8 + word]))
}

/// Random programs up to the first that is found wrong.
fn at_random(flaw: RibbonFlaw, programs: u64) -> Result<usize, String> {
    let mut runs = 0;
    for seed in 0..programs {
        let mode = if seed % 2 == 0 { Mode::Always } else { Mode::Never };
        let scene = Scene {
            options: RibbonOptions { mode, ..early(2, flaw) },
            model: Model::Px86,
            program: AT_RANDOM,
            seed,
            words: &[0, 8, 64, 72, 128, 136, 144, 152, 192, 200, 208, 216],
            is_good: has_what_was_noted,
            bound: 0,
            limit: 1,
            random: 40,
        };
        runs += scene.explore().map_err(|bad| format!("program {seed}: {bad}"))?;
    }
    Ok(runs)
}

#[test]
fn random_programs_find_durable_what_they_made_durable() {
    let runs = at_random(RibbonFlaw::None, 100).unwrap_or_else(|bad| panic!("{bad}"));
    assert!(runs > 1000, "{runs}");
}

#[test]
fn random_programs_find_wrong_skips() {
    use RibbonFlaw::{RemembersPause, SkipsRewritten, SkipsShared, SkipsUndone};
    for flaw in [SkipsUndone, SkipsRewritten, SkipsShared, RemembersPause] {
        let outcome = at_random(flaw, 400);
        assert!(outcome.is_err(), "{flaw:?} was not caught in {outcome:?} runs");
    }
}

fn early(threads: u64, flaw: RibbonFlaw) -> RibbonOptions {
    RibbonOptions { early: EarlyStores::Hook, flaw, ..options(threads, 1) }
}

fn alone(flaw: RibbonFlaw, model: Model) -> Result<usize, String> {
    let is_good = |found: &[u64], outputs: &[u64]| found.iter().all(|word| *word >= outputs[0]);
    let options = early(1, flaw);
    let words = &[0, 64, 128];
    Scene {
        options,
        model,
        program: ALONE,
        seed: 0,
        words,
        is_good,
        bound: 2,
        limit: 600,
        random: 400,
    }
    .explore()
}

fn pausing(flaw: RibbonFlaw) -> Result<usize, String> {
    let is_good =
        |found: &[u64], outputs: &[u64]| found[0] >= 2 * outputs[0] && found[1] >= outputs[0];
    let scene = Scene {
        options: early(1, flaw),
        model: Model::Px86,
        program: PAUSING,
        seed: 0,
        words: &[0, 64],
        is_good,
        bound: 2,
        limit: 600,
        random: 400,
    };
    scene.explore()
}

fn meeting(flaw: RibbonFlaw, program: Program) -> Result<usize, String> {
    meeting_in(Mode::Always, flaw, program)
}

fn meeting_in(mode: Mode, flaw: RibbonFlaw, program: Program) -> Result<usize, String> {
    let is_good = |found: &[u64], _: &[u64]| found[0] >= found[1];
    let options = RibbonOptions { mode, ..early(2, flaw) };
    let (model, words) = (Model::Px86, &[8, 128]);
    Scene {
        options,
        model,
        program,
        seed: 0,
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
    for program in [MEETING, MEETING_A_PAUSE, MEETING_AT_A_BEGIN] {
        let runs = meeting(RibbonFlaw::None, program).unwrap_or_else(|bad| panic!("{bad}"));
        assert!(runs > 1000, "{runs}");
    }
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
        let outcome = meeting(flaw, MEETING);
        assert!(outcome.is_err(), "{flaw:?} was not caught in {outcome:?} runs");
    }
}

#[test]
fn what_was_handed_on_before_a_pause_is_not_skipped_after_it() {
    let runs = pausing(RibbonFlaw::None).unwrap_or_else(|bad| panic!("{bad}"));
    assert!(runs > 400, "{runs}");
    let outcome = pausing(RibbonFlaw::RemembersPause);
    assert!(outcome.is_err(), "not caught in {outcome:?} runs");
}

#[test]
fn a_thread_that_skips_nothing_but_marks_nothing_either_is_found() {
    let outcome = meeting(RibbonFlaw::UnmarkedInPause, MEETING_A_PAUSE);
    assert!(outcome.is_err(), "not caught in {outcome:?} runs");
}

#[test]
fn handing_on_before_all_threads_mark_their_lines_is_found() {
    let outcome = meeting(RibbonFlaw::NoGrace, MEETING_AT_A_BEGIN);
    assert!(outcome.is_err(), "not caught in {outcome:?} runs");
}

/// In mode auto no thread skips when it joins: thread 1 learns of the phase of thread 0 only
/// if it looks.
#[test]
fn joining_without_a_look_at_who_skips_meanwhile_is_found() {
    let at_a_join = |flaw| meeting_in(Mode::Auto, flaw, MEETING_A_PAUSE);
    let runs = at_a_join(RibbonFlaw::None).unwrap_or_else(|bad| panic!("{bad}"));
    assert!(runs > 1000, "{runs}");
    let outcome = at_a_join(RibbonFlaw::JoinsBlindly);
    assert!(outcome.is_err(), "not caught in {outcome:?} runs");
}

/// How many of these flushes of a thread, each of a line that was stored to and cleaned, were
/// skipped, while another thread does `meanwhile` before the second.
fn skips_beside(meanwhile: impl FnOnce(RibbonMemory<'_, &Thread<'_>>)) -> [u64; 3] {
    let mut arena = Arena::new();
    let options = RibbonOptions { mode: Mode::Never, early: EarlyStores::Hook, ..options(2, 1) };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * 64);
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    let (one, two) = (Thread::new(&image, 0), Thread::new(&image, 1));
    let (one, two) = (ribbon.join(&one), ribbon.join(&two));
    let mut flusher = ribbon.flusher(&image, 0);
    one.set_early(false);
    two.set_early(false);
    // Neither skips: the other one has seen that, too.
    one.drain();
    two.drain();
    one.set_early(true);
    let mut meanwhile = Some(|| meanwhile(two));
    std::array::from_fn(|time| {
        if let Some(meanwhile) = meanwhile.take_if(|_| time == 1) {
            meanwhile();
            one.drain();
        }
        one.store(data.plus(128 * time as u64), 1u64);
        one.store(data.plus(128 * time as u64 + 64), 1u64);
        flusher.step();
        one.persist(data.plus(128 * time as u64), 64);
        for _ in 0..64 {
            one.persist(data.plus(64 * 63), 8);
        }
        ribbon.counts(&image).skipped
    })
}

#[test]
fn nothing_is_skipped_before_each_other_thread_has_fenced_or_left() {
    use std::mem::forget;
    assert_eq!(skips_beside(|other| forget(other)), [0, 0, 0], "one that was lost");
    assert_eq!(skips_beside(|other| (other.drain(), forget(other)).0), [0, 1, 2]);
    assert_eq!(skips_beside(|other| (other.order(), forget(other)).0), [0, 1, 2]);
    assert_eq!(skips_beside(|other| other.leave()), [0, 1, 2]);
}

#[test]
fn the_place_of_a_thread_that_was_lost_while_it_skipped_can_be_taken() {
    let (image, ribbon, data) = place(Mode::Never);
    std::mem::forget(ribbon.join(&image));
    let memory = ribbon.join(&image);
    memory.set_early(false);
    memory.store(data, 1u64);
    assert_eq!(marked(&image, &ribbon), 0, "nobody skips");
}

/// Words of the owner table that name somebody: they are the last that [`place`] takes.
fn marked(image: &Image, ribbon: &Ribbon) -> usize {
    let mut arena = Arena::new();
    Ribbon::place(&mut arena, ribbon.options()).expect("good options");
    let words = (1..=ribbon.options().owner_words)
        .map(|word| image.load::<u64>(Addr::dram(arena.dram_bytes() - 8 * word)));
    words.filter(|word| *word != 0).count()
}

#[test]
fn stores_mark_nothing_while_no_thread_skips() {
    let (image, ribbon, data) = place(Mode::Never);
    let memory = ribbon.join(&image);
    let marks_with = |is_early: bool| {
        memory.set_early(is_early);
        (0..8u64).for_each(|line| memory.store(data.plus(64 * line), line));
        marked(&image, &ribbon)
    };
    assert_eq!((marks_with(false), marks_with(true)), (0, 8));
}

#[test]
fn lines_are_skipped_again_after_a_pause_and_none_in_it() {
    let (image, ribbon, data) = place(Mode::Never);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    let mut skips = |is_early: bool| {
        memory.set_early(is_early);
        assert_eq!(memory.is_early(), is_early);
        memory.store(data, 1u64);
        memory.store(data.plus(64), 1u64);
        memory.store(data.plus(128), 1u64);
        flusher.step();
        memory.persist(data, 64);
        for _ in 0..64 {
            memory.persist(data.plus(128), 8);
        }
        ribbon.counts(&image).skipped
    };
    assert_eq!((skips(true), skips(false), skips(true)), (1, 1, 2));
}

fn place(mode: Mode) -> (Image, Ribbon, Addr) {
    let mut arena = Arena::new();
    let options = RibbonOptions { mode, early: EarlyStores::Hook, ..options(1, 1) };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * 64);
    (Image::new(arena.pm_bytes(), arena.dram_bytes()), ribbon, data)
}

/// An image that watches a thread: how it looks at owner words, and what stands before that.
struct Looks<'a> {
    image: &'a Image,
    owners: u64,
    /// A fence is younger than any locked operation.
    may_overtake: Cell<bool>,
    looks: Cell<u64>,
    /// Of those, looks that may be older than the last fence.
    early: Cell<u64>,
}

impl Looks<'_> {
    fn locks(&self) -> &Image {
        self.may_overtake.set(false);
        self.image
    }
}

impl layer::Layer for Looks<'_> {
    type Below = Image;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Image {
        self.image
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        if !at.is_pm() && at.offset() >= self.owners {
            self.looks.set(self.looks.get() + 1);
            self.early.set(self.early.get() + u64::from(self.may_overtake.get()));
        }
        self.image.load_bits(at, width)
    }
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.locks().compare_exchange(at, current, new)
    }
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.locks().swap(at, new)
    }
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.locks().fetch_add(at, by)
    }
    fn fence(&self, _: Fence) {
        self.may_overtake.set(true);
    }
}

/// Looks at owner words for skips, and those of them that may be older than the last fence.
fn looks(flaw: RibbonFlaw) -> (u64, u64) {
    let mut arena = Arena::new();
    let options = RibbonOptions { mode: Mode::Never, ..early(1, flaw) };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * 64);
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    let owners = arena.dram_bytes() - 8 * options.owner_words;
    let (may_overtake, looks, early) = (Cell::new(true), Cell::new(0), Cell::new(0));
    let memory = Looks { image: &image, owners, may_overtake, looks, early };
    let joined = ribbon.join(&memory);
    let mut flusher = ribbon.flusher(&image, 0);
    let mut sum = (0, 0);
    for value in 1..=3u64 {
        for line in 0..4 {
            joined.store(data.plus(64 * line), value);
        }
        flusher.step();
        joined.order();
        let before = (memory.looks.get(), memory.early.get());
        joined.persist(data, 3 * 64);
        sum = (sum.0 + memory.looks.get() - before.0, sum.1 + memory.early.get() - before.1);
    }
    joined.leave();
    assert_eq!(ribbon.counts(&image).skipped, 9);
    sum
}

#[test]
fn the_look_before_a_skip_is_no_earlier_than_the_last_fence() {
    assert_eq!(looks(RibbonFlaw::None), (9, 0));
    assert_eq!(looks(RibbonFlaw::LooksEarly), (9, 9));
}

#[test]
fn a_line_that_was_cleaned_is_not_flushed_and_a_rewritten_one_is() {
    let (image, ribbon, data) = place(Mode::Never);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    for line in 0..3 {
        memory.store(data.plus(64 * line), 1u64);
    }
    assert_eq!(flusher.step(), FlusherStep::Flushed(2));
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
fn what_was_in_vain_counts_on_when_a_thread_joins_again() {
    let (image, ribbon, data) = place(Mode::Never);
    let rounds = [1, 2].map(|_| {
        let memory = ribbon.join(&image);
        memory.store(data, 1u64);
        memory.store(data.plus(64), 1u64);
        memory.persist(data, 64); // no flusher has cleaned it
        memory.leave();
        ribbon.counts(&image).in_vain
    });
    assert_eq!(rounds, [1, 2]);
}

#[test]
fn a_table_of_one_word_loses_skips_and_no_flush() {
    let mut arena = Arena::new();
    let options = RibbonOptions {
        mode: Mode::Never,
        early: EarlyStores::Hook,
        owner_words: 1,
        ..options(2, 1)
    };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * 4);
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    memory.store(data, 1u64);
    memory.store(data.plus(64), 1u64);
    assert_eq!(flusher.step(), FlusherStep::Flushed(1));
    let other = Thread::new(&image, 1);
    ribbon.join(&other).store(data.plus(128), 1u64);
    memory.persist(data, 128);
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.skipped, counts.inline), (0, 2), "the word is shared");
}
