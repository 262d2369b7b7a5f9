//! Without crashes: the heap does what a program on ordinary memory would.

use proptest::prelude::*;
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::{AccessError, Heap, HeapFlaw, HeapOptions, Logging, Tx, TxError};
use seawall_testkit::script::{NAME, ScriptStep, options, read, reopen, seen, states};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) fn made(options: &HeapOptions) -> (Image, Heap) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, options).expect("good options");
    (image, heap)
}

fn step() -> impl Strategy<Value = ScriptStep> {
    let bytes = prop_oneof![1u64..200, 3000u64..6000, Just(70_000)];
    let slot = 0u64..4;
    let simple = prop_oneof![
        4 => (slot.clone(), bytes.clone()).prop_map(|(slot, bytes)| ScriptStep::Alloc(slot, bytes)),
        2 => (slot.clone(), 1u64..700, 1u64..200)
            .prop_map(|(a, b, c)| ScriptStep::Together(a, [b, c])),
        2 => (slot.clone(), bytes.clone()).prop_map(|(slot, bytes)| ScriptStep::Near(slot, bytes)),
        2 => slot.clone().prop_map(ScriptStep::Free),
        1 => Just(ScriptStep::Update),
        1 => slot.clone().prop_map(ScriptStep::Byte),
        1 => (slot, 1u64..200, any::<bool>()).prop_map(|(a, b, c)| ScriptStep::Nested(a, b, c)),
        1 => Just(ScriptStep::Retire),
    ];
    (simple, prop::bool::weighted(0.2)).prop_map(|(step, aborts)| match step {
        ScriptStep::Retire => ScriptStep::Retire,
        step if aborts => ScriptStep::Aborted(Box::new(step)),
        step => step,
    })
}

fn kind() -> impl Strategy<Value = Logging> {
    prop_oneof![Just(Logging::Redo), Just(Logging::Undo)]
}

fn fits(error: &TxError) -> bool {
    matches!(error, TxError::Full { .. } | TxError::TooLarge { .. })
}

proptest! {
    #[test]
    fn every_script_leaves_what_it_should_and_so_does_opening_again(
        steps in proptest::collection::vec((step(), kind()), 0..60), together: bool,
    ) {
        let options = HeapOptions { together, ..options(1, 16) };
        let (image, heap) = made(&options);
        let mut session = heap.join(&image);
        let (mut state, mut number) = (states(&[]).remove(0), 0);
        for (step, kind) in steps {
            number += 1;
            match step.run(&mut session, kind, number) {
                Ok(()) => step.apply(&mut state, number),
                Err(error) => prop_assert!(fits(&error), "{error}"),
            }
            prop_assert_eq!(read(&image, &heap), Ok(seen(&state)));
        }
        let again = Image::from_pm(image.into_pm(), options.dram_bytes());
        let (heap, found) = reopen(&again, options.pm_bytes(), HeapFlaw::None).expect("whole");
        prop_assert_eq!(&found, &seen(&state));
        let mut session = heap.join(&again);
        ScriptStep::Alloc(0, 100).run(&mut session, Logging::Redo, 1).expect("room");
        ScriptStep::Alloc(0, 100).apply(&mut state, 1);
        prop_assert_eq!(read(&again, &heap), Ok(seen(&state)));
    }

    #[test]
    fn allocations_never_overlap_and_all_space_comes_back(
        sizes in proptest::collection::vec(1u64..40_000, 1..60), lines: bool,
    ) {
        let (image, heap) = made(&options(1, 64));
        let mut session = heap.join(&image);
        let mut blocks: Vec<(Addr, u64)> = Vec::new();
        for bytes in sizes {
            let at = session.transaction(|tx| match lines {
                true => tx.alloc_lines(bytes),
                false => tx.alloc(bytes),
            });
            let at = at.expect("room");
            prop_assert!(!lines || at.offset().is_multiple_of(64));
            let apart = |(start, size): &(Addr, u64)| {
                at >= start.plus(*size) || at.plus(bytes) <= *start
            };
            prop_assert!(blocks.iter().all(apart));
            blocks.push((at, bytes));
        }
        let stats = heap.stats(&image).expect("whole");
        prop_assert_eq!(stats.objects, blocks.len() as u64);
        prop_assert!(stats.live >= blocks.iter().map(|(_, bytes)| bytes).sum());
        prop_assert!(stats.footprint >= stats.live && stats.bytes >= stats.footprint);
        let freed = session.transaction(|tx| blocks.iter().try_for_each(|(at, _)| tx.free(*at)));
        freed.expect("freed");
        prop_assert_eq!(heap.stats(&image).expect("whole").objects, 0);
    }
}

#[test]
fn a_full_heap_says_so_and_goes_on() {
    let (image, heap) = made(&options(1, 2));
    let mut session = heap.join(&image);
    let mut blocks = Vec::new();
    let full = loop {
        match session.transaction(|tx| tx.alloc(5000)) {
            Ok(at) => blocks.push(at),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, TxError::Full { .. }), "{full}");
    assert_eq!(blocks.len(), 24);
    session.transaction(|tx| tx.free(blocks[3])).expect("freed");
    assert_eq!(session.transaction(|tx| tx.alloc(5000)), Ok(blocks[3]));
}

#[test]
fn what_is_no_object_cannot_be_freed_and_nothing_twice() {
    let (image, heap) = made(&options(1, 4));
    let mut session = heap.join(&image);
    let small = session.transaction(|tx| tx.alloc(100)).expect("room");
    let large = session.transaction(|tx| tx.alloc(100_000)).expect("room");
    for at in [small.plus(8), large.plus(64), large.plus(65_536), heap.root(), Addr::NULL] {
        assert_eq!(session.transaction(|tx| tx.free(at)), Err(TxError::NoObject { at }));
    }
    for at in [small, large] {
        session.transaction(|tx| tx.free(at)).expect("live");
        assert_eq!(session.transaction(|tx| tx.free(at)), Err(TxError::NoObject { at }));
    }
    let twice = session.transaction(|tx| {
        let at = tx.alloc(8)?;
        tx.free(at)?;
        tx.free(at)
    });
    assert!(matches!(twice, Err(TxError::NoObject { .. })));
}

#[test]
fn transactions_write_data_only() {
    let (image, heap) = made(&options(1, 2));
    let mut session = heap.join(&image);
    for at in [Addr::NULL, Addr::pm(192), Addr::dram(0), Addr::pm(1 << 40), Addr::from_bits(!7)] {
        for kind in [Logging::Redo, Logging::Undo] {
            let stored = session.transaction_with(kind, |tx| tx.store(at, 1u64));
            assert_eq!(stored, Err(AccessError::NoData { at, bytes: 8 }.into()));
        }
    }
}

#[test]
fn a_transaction_sees_what_it_wrote_in_any_width_and_others_see_it_at_commit() {
    let (image, heap) = made(&options(1, 2));
    let mut session = heap.join(&image);
    let root = heap.root();
    session.transaction(|tx| tx.store(root, 0x1122_3344_5566_7788u64)).expect("stored");
    let seen = session.transaction(|tx| {
        tx.store(root.plus(1), 0xaau8)?;
        tx.store(root.plus(4), 0xbbbbu16)?;
        tx.write(root.plus(7), &[0xcc, 0xdd])?;
        assert_eq!(image.load::<u64>(root), 0x1122_3344_5566_7788);
        let mut bytes = [0; 9];
        tx.read(root, &mut bytes);
        Ok::<_, TxError>((tx.load::<u64>(root), tx.load::<u8>(root.plus(8)), bytes[8]))
    });
    assert_eq!(seen, Ok((0xcc22_bbbb_5566_aa88, 0xdd, 0xdd)));
    assert_eq!(image.load::<u64>(root), 0xcc22_bbbb_5566_aa88);
}

#[test]
fn options_out_of_range_and_other_pools_are_refused_with_their_name() {
    let options = options(1, 2);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let bad = HeapOptions { threads: 0, ..options };
    let error = Heap::create(&image, NAME, 7, &bad).expect_err("no threads");
    assert_eq!(error.to_string(), "threads is 0; it must be 1 to 1024");
    let (image, _) = made(&options);
    let error = Heap::open(&image, "other", options.pm_bytes()).expect_err("another name");
    assert!(error.to_string().contains("`script`"), "{error}");
    let error = Heap::open(&image, NAME, options.pm_bytes() - 8).expect_err("cut short");
    assert!(error.to_string().contains("truncated"), "{error}");
}

#[test]
#[should_panic(expected = "another pool")]
fn a_session_needs_the_memory_of_its_heap() {
    let (_, heap) = made(&options(1, 2));
    let image = Image::new(options(1, 2).pm_bytes(), options(1, 2).dram_bytes());
    let _ = heap.join(&image);
}

#[test]
fn chunks_that_were_joined_are_handed_out_once() {
    let (image, heap) = made(&options(1, 6));
    let mut session = heap.join(&image);
    let mut take = |bytes| session.transaction(|tx| tx.alloc(bytes)).expect("room");
    let (_, small) = (take(3 << 16), take(5000));
    session.transaction(|tx| tx.free(small)).expect("live");
    let mut take = |bytes| session.transaction(|tx| tx.alloc(bytes)).expect("room");
    let joined = take(3 << 16);
    session.transaction(|tx| tx.free(joined)).expect("live");
    session.transaction(|tx| tx.alloc(100)).expect("room");
    assert_eq!(heap.stats(&image).expect("whole").objects, 2);
}

#[test]
fn a_thread_that_joins_again_finds_the_free_blocks_that_it_had() {
    let (image, heap) = made(&options(1, 2));
    for _ in 0..100 {
        let mut session = heap.join(&image);
        let at = session.transaction(|tx| tx.alloc(5000)).expect("room, as it is freed each time");
        session.transaction(|tx| tx.free(at)).expect("live");
    }
}

#[test]
fn a_transaction_that_panicked_is_undone_before_anything_else_happens() {
    let (image, heap) = made(&options(1, 4));
    let (first, second) = (heap.root(), heap.root().plus(8));
    let mut session = heap.join(&image);
    let set = |tx: &mut Tx<'_, '_, Image>, value: u64| {
        tx.store(first, value)?;
        assert_ne!(value, 2, "the program panics in the middle");
        tx.store(second, value)
    };
    session.transaction(|tx| set(tx, 1)).expect("stored");
    session.retire();
    let panics = AssertUnwindSafe(|| session.transaction_with(Logging::Undo, |tx| set(tx, 2)));
    catch_unwind(panics).expect_err("it panics");
    assert_eq!(image.load::<u64>(first), 1, "nobody sees a half of it");
    session.transaction_with(Logging::Undo, |tx| tx.store(second.plus(8), 9u64)).expect("stored");
    let again = Image::from_pm(image.into_pm(), options(1, 4).dram_bytes());
    Heap::open(&again, NAME, options(1, 4).pm_bytes()).expect("whole");
    let found = [first, second, second.plus(8)].map(|at| again.load::<u64>(at));
    assert_eq!(found, [1, 1, 9]);
}

#[test]
fn a_block_that_a_thread_freed_after_it_joined_again_is_handed_out_once() {
    let (image, heap) = made(&options(1, 2));
    let first = heap.join(&image).transaction(|tx| tx.alloc(5000)).expect("room");
    heap.join(&image).transaction(|tx| tx.alloc(5000)).expect("room");
    let mut session = heap.join(&image);
    session.transaction(|tx| tx.free(first)).expect("live");
    assert!(session.transaction(|tx| tx.alloc(70_000)).is_err(), "a chunk of the two is in use");
    let mut blocks = Vec::new();
    while let Ok(at) = session.transaction(|tx| tx.alloc(5000)) {
        assert!(!blocks.contains(&at), "{at} is handed out twice");
        blocks.push(at);
    }
    assert_eq!(blocks.len(), 23);
}

#[test]
fn a_nested_transaction_that_fails_leaves_the_word_behind_the_last_that_was_stored() {
    for kind in [Logging::Redo, Logging::Undo] {
        let (image, heap) = made(&options(1, 2));
        let [first, second, third] = [0, 8, 24].map(|offset| heap.root().plus(offset));
        let mut session = heap.join(&image);
        session.transaction(|tx| tx.store(second, 7u64)).expect("stored");
        let outcome = session.transaction_with(kind, |tx| {
            tx.store(first, 1u64)?;
            let inner = tx.nested(|tx| {
                tx.store(second, 2u64)?;
                Err::<(), TxError>(TxError::Types)
            });
            assert_eq!(inner, Err(TxError::Types));
            tx.store(third, 3u64)
        });
        assert_eq!(outcome, Ok(()));
        let found = [first, second, third].map(|at| image.load::<u64>(at));
        assert_eq!(found, [1, 7, 3], "{kind:?}");
    }
}

/// Of what it noted last, behind words that are logged, nothing is put back.
#[test]
fn an_undo_transaction_that_is_too_large_for_a_full_pool_leaves_other_words_alone() {
    let (image, heap) = made(&options(1, 16));
    let mut session = heap.join(&image);
    session.transaction(|tx| tx.alloc(15 << 16)).expect("room");
    let at = session.transaction(|tx| tx.alloc(24_000)).expect("room");
    for part in 0..30 {
        let stored = session.transaction(|tx| {
            (100 * part..100 * (part + 1))
                .try_for_each(|word| tx.store(at.plus(8 * word), word + 1))
        });
        stored.expect("it fits");
    }
    let failed = session.transaction_with(Logging::Undo, |tx| {
        (0..3000).try_for_each(|word| {
            tx.add(&[(at.plus(8 * word), 8)])?;
            tx.store(at.plus(8 * word), 0u64)
        })
    });
    assert!(matches!(failed, Err(TxError::Full { .. })), "{failed:?}");
    let words = (0..3000).map(|word| image.load::<u64>(at.plus(8 * word)));
    assert!(words.eq(1..3001), "each word is as it was");
    let again = Image::from_pm(image.into_pm(), heap.dram_bytes());
    let bytes = again.pm_bytes();
    let (_, recovered) = Heap::open(&again, NAME, bytes).expect("whole");
    assert_eq!(recovered.rolled_back, 0, "that it was over is said");
}

#[test]
fn a_transaction_by_calls_commits_when_it_is_told_to_and_else_rolls_back() {
    for in_place in [false, true] {
        for kind in [Logging::Redo, Logging::Undo] {
            let (image, heap) = made(&HeapOptions { in_place, ..options(1, 2) });
            let mut session = heap.join(&image);
            let root = heap.root();
            let mut tx = session.start(kind).expect("whole");
            tx.store(root, 1u64).expect("it fits");
            tx.commit().expect("it fits");
            let mut tx = session.start(kind).expect("whole");
            tx.store(root, 2u64).expect("it fits");
            tx.abort().expect("whole");
            assert_eq!(session.load::<u64>(root), 1);
            session.start(kind).expect("whole").store(root, 3u64).expect("it fits");
            assert_eq!(session.load::<u64>(root), 1, "it was dropped");
            let mut tx = session.start(kind).expect("whole");
            tx.store(root, 4u64).expect("it fits");
            let paused = tx.pause();
            let mut tx = session.take_up(paused);
            tx.store(root.plus(8), 5u64).expect("it fits");
            tx.commit().expect("it fits");
            assert_eq!([root, root.plus(8)].map(|at| session.load::<u64>(at)), [4, 5]);
            let mut tx = session.start(kind).expect("whole");
            tx.store(root, 6u64).expect("it fits");
            let lost = tx.pause();
            session.transaction(|_| Ok::<_, TxError>(())).expect("nothing");
            assert_eq!(session.load::<u64>(root), 4, "the next one rolled it back");
            let again = std::panic::AssertUnwindSafe(|| session.take_up(lost).commit());
            assert!(std::panic::catch_unwind(again).is_err(), "it is over");
        }
    }
}

#[test]
fn a_nested_transaction_that_fails_leaves_the_content_of_an_object_of_the_outer_one() {
    for (in_place, bytes) in [(false, 40), (false, 5000), (true, 40), (true, 5000)] {
        for kind in [Logging::Redo, Logging::Undo] {
            let (image, heap) = made(&HeapOptions { in_place, ..options(1, 2) });
            let mut session = heap.join(&image);
            let at = session.transaction_with(kind, |tx| {
                let at = tx.alloc(bytes)?;
                tx.fill(at, &vec![1; bytes as usize])?;
                let inner = tx.nested(|tx| {
                    tx.fill(at, &vec![2; bytes as usize])?;
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(inner, Err(TxError::Types));
                Ok::<_, TxError>(at)
            });
            let mut found = vec![0; bytes as usize];
            image.read(at.expect("room"), &mut found);
            assert!(found.iter().all(|byte| *byte == 1), "{bytes} bytes, {kind:?}, {in_place}");
        }
    }
}
