//! Bugs that need one interruption, or a store that is late, at one place: each is found, and no
//! exploration that missed it may call itself complete. Besides, what recovery may ask of memory.

use seawall_explore::{
    CrashImage, CrashPoint, Finding, Model, Reached, RunError, Schedule, Schedules, Search, Trace,
    Traced, TurnsName, check, record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Space};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const A: Addr = Addr::pm(64);
const B: Addr = Addr::pm(128);
const C: Addr = Addr::pm(192);
const D: Addr = Addr::pm(256);

/// Room for private words of a thread.
fn private(thread: u64, number: u64) -> Addr {
    Addr::pm(1024 + 512 * thread + 8 * (number % 8))
}

fn put(memory: &Traced<'_>, at: Addr, value: u64) {
    memory.store(at, value);
    memory.persist(at, 8);
}

/// The first failure, with the schedule that shows it; an error of a run; or nothing, after every
/// schedule within the bounds.
fn explore<F: Eq + std::hash::Hash>(
    (threads, how): (usize, Schedules),
    program: fn(&Traced<'_>),
    recover: impl Fn(&CrashImage) -> Result<F, String>,
    judge: impl Fn(&F, &CrashPoint) -> Result<(), String>,
) -> Result<Option<(String, Finding)>, RunError> {
    let base = Schedule { threads, steps: 20_000, ..Schedule::default() };
    let start = || Image::new(4096, 512).with_room(16_384);
    let check = check(recover, judge);
    let mut failed = None;
    let visit = |schedule: &Schedule, trace: Trace| {
        let bounds = Search { torn_lines: 1, ..Search::new(how.model) };
        let outcome = search(&trace, &bounds, &check);
        assert!(outcome.finding.is_some() || outcome.reached == Reached::Complete);
        let turns = TurnsName(schedule.turns.clone(), 0).to_string();
        failed = outcome.finding.map(|finding| (turns, finding));
        match failed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    let tried = how.each(&base, |schedule| record(start(), schedule, program), visit)?;
    assert!(failed.is_some() || tried.complete);
    Ok(failed)
}

fn px86(interruptions: usize, delays: usize) -> Schedules {
    Schedules { interruptions, delays, limit: usize::MAX, ..Schedules::new(Model::Px86) }
}

/// The schedule that shows that what was promised is not there.
fn shown(
    how: (usize, Schedules),
    program: fn(&Traced<'_>),
    words: [Addr; 2],
    is_bad: fn([u64; 2], &[u64]) -> bool,
) -> Option<String> {
    let recover = |image: &CrashImage| Ok(words.map(|at| image.load::<u64>(at)));
    let judge = |found: &[u64; 2], point: &CrashPoint| match is_bad(*found, &point.promised) {
        true => Err(format!("{found:?} after {:?}", point.promised)),
        false => Ok(()),
    };
    let found = explore(how, program, recover, judge).expect("every run ends");
    found.map(|(turns, _)| turns)
}

#[test]
fn a_store_that_waits_in_its_buffer_lets_two_threads_into_one_slot() {
    let enter = |memory: &Traced<'_>| {
        let me = memory.thread();
        memory.store([A, B][me], 1u64);
        memory.flush([A, B][me], 8);
        memory.order();
        if memory.load::<u64>([B, A][me]) == 0 {
            put(memory, C, 100 + me as u64);
            memory.output(1);
        }
    };
    let both = |_: [u64; 2], promised: &[u64]| promised == [1, 1];
    assert_eq!(shown((2, px86(4, 0)), enter, [C, D], both), None, "without delays none can");
    assert!(shown((2, px86(0, 1)), enter, [C, D], both).is_some());
}

#[test]
fn a_hazard_pointer_needs_a_full_fence_on_both_sides() {
    fn protect(memory: &Traced<'_>, fences: [bool; 2]) {
        let (head, hazard, node) = (A, Addr::dram(0), C);
        let fence = || {
            if fences[memory.thread()] {
                memory.fetch_add(Addr::dram(64), 1);
            }
        };
        if memory.thread() == 1 {
            put(memory, head, 1);
            fence();
            if memory.load::<u64>(hazard) == 0 {
                put(memory, node, 9);
                memory.output(1);
            }
            return;
        }
        memory.store(hazard, 1u64);
        fence();
        if memory.load::<u64>(head) == 0 {
            put(memory, node, 7);
        }
    }
    let overwritten = |found: [u64; 2], promised: &[u64]| promised[1] == 1 && found[0] == 7;
    let how = || (2, px86(2, 1));
    let without = |memory: &Traced<'_>| protect(memory, [false, false]);
    let one = |memory: &Traced<'_>| protect(memory, [true, false]);
    let both = |memory: &Traced<'_>| protect(memory, [true, true]);
    assert!(shown(how(), without, [C, D], overwritten).is_some());
    assert!(shown(how(), one, [C, D], overwritten).is_some());
    assert_eq!(shown(how(), both, [C, D], overwritten), None);
}

#[test]
fn a_non_temporal_store_may_be_seen_after_a_flag_that_was_stored_later() {
    let share = |memory: &Traced<'_>| {
        if memory.thread() == 0 {
            memory.write_nt(A, &1u64.to_le_bytes());
            memory.store(B, 1u64);
            memory.drain();
        } else if memory.load::<u64>(B) == 1 {
            let seen: u64 = memory.load(A);
            put(memory, C, 10 + seen);
        }
    };
    let stale = |found: [u64; 2], _: &[u64]| found[0] == 10;
    assert_eq!(shown((2, px86(4, 0)), share, [C, D], stale), None);
    let turns = shown((2, px86(1, 1)), share, [C, D], stale).expect("the store is late");
    assert!(turns.contains('l'), "{turns}");
}

/// The values that a crash may leave of the first and the last word of what is written to `A`.
fn left(model: Model, write: fn(&Traced<'_>)) -> BTreeSet<[u64; 2]> {
    let found = RefCell::new(BTreeSet::new());
    let recover = |image: &CrashImage| {
        found.borrow_mut().insert([A, A.plus(56)].map(|at| image.load::<u64>(at)));
        Ok(())
    };
    explore((1, Schedules::new(model)), write, recover, |(), _| Ok(())).expect("the run ends");
    found.into_inner()
}

#[test]
fn the_words_of_one_write_persist_in_any_order_and_a_direct_store_is_whole() {
    const WORDS: [u64; 8] = [7, 7, 7, 7, 7, 7, 7, 1];
    fn record() -> Vec<u8> {
        WORDS.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
    let all: BTreeSet<[u64; 2]> = [[0, 0], [0, 1], [7, 0], [7, 1]].into();
    for model in Model::all() {
        let plain = |memory: &Traced<'_>| {
            memory.write(A, &record());
            memory.persist(A, 64);
        };
        assert_eq!(left(model, plain), all, "{model}");
        let past = |memory: &Traced<'_>| {
            memory.write_nt(A, &record());
            memory.drain();
        };
        assert_eq!(left(model, past), all, "{model}");
        let direct = |memory: &Traced<'_>| {
            memory.write_line(A, WORDS);
            memory.drain();
        };
        assert_eq!(left(model, direct), [[0, 0], [7, 1]].into(), "{model}");
        let ordered = |memory: &Traced<'_>| {
            memory.store(A, 7u64);
            memory.store(A.plus(56), 1u64);
            memory.persist(A, 64);
        };
        assert_eq!(left(model, ordered), [[0, 0], [7, 0], [7, 1]].into(), "{model}");
    }
}

#[test]
fn a_locked_instruction_that_leaves_its_word_lets_a_loop_wait() {
    let lock = |memory: &Traced<'_>| {
        let word = Addr::dram(0);
        while memory.swap(word, 1) == 1 {}
        put(memory, A.plus(64 * memory.thread() as u64), 1);
        memory.swap(word, 0);
    };
    let torn = |found: [u64; 2], _: &[u64]| found[0] > 1;
    assert_eq!(shown((2, px86(2, 0)), lock, [A, B], torn), None);
}

#[test]
fn a_judge_is_asked_again_when_only_outputs_grew() {
    let tell = |memory: &Traced<'_>| {
        memory.store(A, 1u64);
        memory.order();
        memory.output(1);
    };
    let how = (1, Schedules::new(Model::Bep));
    let lost = |found: &u64, point: &CrashPoint| match (point.outputs[0], found) {
        (1, 0) => Err("told, and lost".into()),
        _ => Ok(()),
    };
    let found = explore(how, tell, |image| Ok(image.load::<u64>(A)), lost);
    assert!(found.unwrap().is_some());
}

/// Thread 2 lets thread 1 work, which lets thread 0 work; the two count, without a lock.
fn chain(memory: &Traced<'_>) {
    let count = || {
        let sum: u64 = memory.load(D);
        put(memory, D, sum + 1);
        memory.output(1);
    };
    match memory.thread() {
        2 => put(memory, A, 1),
        1 if memory.load::<u64>(A) == 1 => {
            put(memory, B, 1);
            count();
        }
        0 if memory.load::<u64>(B) == 1 => count(),
        _ => {}
    }
}

#[test]
fn which_of_three_threads_goes_first_or_next_costs_no_interruption() {
    let lost = |found: [u64; 2], promised: &[u64]| promised[0] + promised[1] > found[0];
    assert!(shown((3, px86(1, 0)), chain, [D, C], lost).is_some());
}

#[test]
fn a_thread_that_begins_later_waits_at_no_cost() {
    let helped = |memory: &Traced<'_>| {
        let (begun, done) = (Addr::dram(0), Addr::dram(8));
        if memory.thread() == 0 {
            put(memory, A, 1);
            memory.store(begun, 1u64);
            memory.spin_while(done, 0);
            memory.output(1);
        } else {
            memory.spin_while(begun, 0);
            memory.store(B, 1u64); // and is not flushed
            memory.store(done, 1u64);
        }
    };
    let lost = |found: [u64; 2], promised: &[u64]| promised[0] == 1 && found != [1, 1];
    assert!(shown((2, px86(0, 0)), helped, [A, B], lost).is_some());
}

#[test]
fn words_that_are_shared_only_after_an_interruption_are_tried_before_it() {
    fn windows(memory: &Traced<'_>, windows: u64) {
        let mut hit = 0;
        for window in 0..windows {
            (0..40).for_each(|n| memory.store(private(memory.thread() as u64, n), n));
            if memory.thread() == 0 {
                memory.store(A, 1 + 2 * window);
                hit += u64::from(memory.load::<u64>(B) == 1 + window);
                memory.store(A, 2 + 2 * window);
            } else if memory.load::<u64>(A) == 1 + 2 * window {
                memory.store(B, 1 + window);
            }
        }
        if hit == windows {
            memory.store(C, 7u64); // and is not flushed
            memory.output(1);
        }
    }
    let lost = |found: [u64; 2], promised: &[u64]| promised[0] == 1 && found[0] != 7;
    assert!(shown((2, px86(1, 0)), |memory| windows(memory, 1), [C, D], lost).is_some());
    assert!(shown((2, px86(3, 0)), |memory| windows(memory, 2), [C, D], lost).is_some());
    assert!(shown((2, px86(5, 0)), |memory| windows(memory, 3), [C, D], lost).is_some());
}

#[test]
fn which_of_two_threads_goes_first_costs_no_interruption() {
    let back_and_forth = |memory: &Traced<'_>| {
        if memory.thread() == 1 {
            memory.store(A, 1u64);
            if memory.load::<u64>(B) == 1 {
                memory.store(C, 1u64);
            }
        } else if memory.load::<u64>(A) == 1 {
            memory.store(B, 1u64);
            if memory.load::<u64>(C) == 1 {
                put(memory, D, 1);
            }
        }
    };
    let both = |found: [u64; 2], _: &[u64]| found[0] == 1;
    assert!(shown((2, px86(1, 0)), back_and_forth, [D, C], both).is_none());
    assert!(shown((2, px86(2, 0)), back_and_forth, [D, C], both).is_some());
}

#[test]
fn a_locked_operation_on_a_private_word_is_a_place_to_interrupt() {
    let fence = |memory: &Traced<'_>| {
        if memory.thread() == 1 {
            return memory.output(1);
        }
        memory.store(A, 1u64);
        memory.flush(A, 8);
        memory.fetch_add(D, 1);
        memory.store(B, 1u64);
    };
    let lost = |found: [u64; 2], promised: &[u64]| promised[1] == 1 && found[0] == 0;
    assert!(shown((2, px86(1, 0)), fence, [A, B], lost).is_some());
}

#[test]
fn a_flush_of_another_threads_line_is_tried_before_and_after_its_store() {
    let commit = |memory: &Traced<'_>| {
        if memory.thread() == 0 {
            return memory.store(A, 1u64);
        }
        memory.fetch_add(Addr::dram(0), 1);
        memory.persist(A, 8);
        put(memory, B, 1);
    };
    let without = |found: [u64; 2], _: &[u64]| found == [0, 1];
    assert!(shown((2, px86(0, 0)), commit, [A, B], without).is_some());
}

#[test]
fn a_lock_that_spins_on_its_locked_operation_is_no_error() {
    let count = |memory: &Traced<'_>| {
        let lock = Addr::dram(0);
        while memory.compare_exchange(lock, 0, 1).is_err() {}
        let sum: u64 = memory.load(A);
        put(memory, A, sum + 1);
        memory.swap(lock, 0);
        memory.output(1);
    };
    let lost = |found: [u64; 2], promised: &[u64]| found[0] < promised.iter().sum();
    assert_eq!(shown((2, px86(2, 1)), count, [A, B], lost), None);
    assert_eq!(shown((3, px86(1, 0)), count, [A, B], lost), None);
}

/// The loop of a lock whose variables are volatile, and has a fence in it.
#[test]
fn a_loop_that_waits_may_store_what_it_has_read_and_have_a_fence() {
    let count = |memory: &Traced<'_>| {
        let (lock, found) = (Addr::dram(0), Addr::dram(64 + 64 * memory.thread() as u64));
        while memory.compare_exchange(lock, 0, 1).is_err() {
            memory.store(found, 1u64);
            memory.full_fence();
        }
        put(memory, A, 1);
        memory.swap(lock, 0);
        memory.output(1);
    };
    let lost = |found: [u64; 2], promised: &[u64]| found[0] < promised.iter().sum::<u64>().min(1);
    assert_eq!(shown((2, px86(2, 0)), count, [A, B], lost), None);
}

#[test]
fn each_word_of_a_discarded_page_may_read_as_zero() {
    fn discard(memory: &Traced<'_>) {
        let page = Addr::pm(8192);
        assert!(memory.grow(16_384));
        memory.write(page, &[7; 64]);
        memory.persist(page, 64);
        let space = memory.space().expect("a recorded run has space");
        space.discard(page, 4096);
        memory.output(1);
    }
    for word in 0..8 {
        let recover = |image: &CrashImage| match image.pm_bytes() < 16_384 {
            true => Ok(1),
            false => Ok(image.load::<u64>(Addr::pm(8192 + 8 * word))),
        };
        let kept = |found: &u64, point: &CrashPoint| match (point.promised[0], found) {
            (1, 0) => Err("reads zero".into()),
            _ => Ok(()),
        };
        let found = explore((1, Schedules::new(Model::Px86)), discard, recover, kept);
        assert!(found.unwrap().is_some(), "word {word}");
    }
}

#[test]
fn recovery_may_grow_the_pool_and_a_crash_of_it_keeps_the_length() {
    let far = Addr::pm(8192);
    let recover = |image: &CrashImage| {
        let before = image.pm_bytes();
        if !image.grow(12_288) {
            return Err("there is room".into());
        }
        if before == 4096 && image.load::<u64>(far) != 0 {
            return Err("new memory is not zero".into());
        }
        image.store(far, before);
        image.persist(far, 8);
        Ok((before, image.grow(1 << 20)))
    };
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let judge = |found: &(u64, bool), _: &CrashPoint| {
        seen.borrow_mut().insert(*found);
        Ok(())
    };
    let how = (1, Schedules::new(Model::Px86));
    let found = explore(how, |memory| put(memory, A, 1), recover, judge);
    assert!(found.unwrap().is_none());
    assert_eq!(seen.take(), [(4096, false), (12_288, false)].into(), "no room for 1 MiB");
}
