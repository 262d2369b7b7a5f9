//! Objects placed together: they overlap with nothing, straddle nothing, share lines while there is
//! room, live and die each by itself, and the space comes back.

use crate::heap::made;
use proptest::prelude::*;
use seawall_memory::{Addr, Image, MemoryExt, lines_of};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Logging, Placement, TOGETHER_BYTES_MAX, TxError};
use seawall_testkit::script::{NAME, options};

fn sharing(threads: u64, chunks: u64) -> HeapOptions {
    HeapOptions { together: true, ..options(threads, chunks) }
}

fn lines(at: Addr, bytes: u64) -> u64 {
    lines_of(at, bytes).count() as u64
}

/// What a step does; numbers choose among the live objects.
#[derive(Clone, Debug)]
enum Step {
    Together([u64; 3]),
    Near(usize, u64),
    Alloc(u64),
    Free(usize, usize),
    Rejoin { leaves: bool },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![4 => 1u64..100, 1 => 100u64..1300];
    prop_oneof![
        6 => [bytes(), bytes(), bytes()].prop_map(Step::Together),
        6 => (any::<usize>(), bytes()).prop_map(|(near, bytes)| Step::Near(near, bytes)),
        2 => (1u64..9000).prop_map(Step::Alloc),
        6 => (any::<usize>(), 1usize..8).prop_map(|(first, count)| Step::Free(first, count)),
        1 => any::<bool>().prop_map(|leaves| Step::Rejoin { leaves }),
        1 => Just(Step::Reopen),
    ]
}

/// Addresses and lengths of what is live.
type Live = Vec<(Addr, u64)>;

/// Runs the step as a transaction, which fails at the end if `fails`; gives what is live then.
fn run(
    session: &mut seawall_runtime::Session<'_, Image>,
    live: &Live,
    step: &Step,
    kind: Logging,
    fails: bool,
) -> Result<Live, TxError> {
    let outcome = session.transaction_with(kind, |tx| {
        let mut live = live.clone();
        match step {
            Step::Together(bytes) => {
                live.extend(tx.alloc_together(*bytes)?.into_iter().zip(*bytes))
            }
            Step::Near(near, bytes) if !live.is_empty() => {
                let near = live[near % live.len()].0;
                live.push((tx.alloc_near(near, *bytes)?, *bytes));
            }
            Step::Alloc(bytes) => live.push((tx.alloc(*bytes)?, *bytes)),
            Step::Free(first, count) => {
                for _ in 0..(*count).min(live.len()) {
                    tx.free(live.remove(first % live.len()).0)?;
                }
            }
            Step::Near(..) | Step::Rejoin { .. } | Step::Reopen => {}
        }
        if fails { Err(TxError::Types) } else { Ok(live) }
    });
    match outcome {
        Err(TxError::Types | TxError::Full { .. }) => Ok(live.clone()),
        outcome => outcome,
    }
}

/// Each live object is one, overlaps with none, and touches no more lines than it must.
fn check(heap: &Heap, image: &Image, live: &Live) -> Result<(), TestCaseError> {
    let mut live: Vec<(Addr, u64)> = live.clone();
    live.sort_unstable();
    let mut objects = Vec::new();
    heap.objects(image, |object| objects.push((object.at, object.bytes))).expect("whole");
    prop_assert_eq!(objects.len(), live.len());
    for (object, (at, bytes)) in objects.iter().zip(&live) {
        prop_assert!(object.0 == *at && object.1 >= *bytes, "{:?} {:?}", object, (at, bytes));
    }
    prop_assert!(objects.windows(2).all(|pair| pair[0].0.plus(pair[0].1) <= pair[1].0));
    Ok(())
}

proptest! {
    #[test]
    fn objects_together_overlap_with_nothing_and_straddle_nothing(
        steps in proptest::collection::vec((step(), any::<bool>(), 0u8..5), 0..120),
    ) {
        let options = sharing(1, 3);
        let (mut image, mut heap) = made(&options);
        let mut live = Live::new();
        let mut steps = steps.iter().peekable();
        while steps.peek().is_some() {
            let mut session = heap.join(&image);
            session.set_placement(Placement::Lines);
            let mut leaves = false;
            for (step, is_undo, luck) in steps.by_ref() {
                let kind = if *is_undo { Logging::Undo } else { Logging::Redo };
                let before = live.len();
                live = run(&mut session, &live, step, kind, *luck == 0).expect("sound");
                for (at, bytes) in &live[before.min(live.len())..] {
                    prop_assert_eq!(lines(*at, *bytes), bytes.div_ceil(64), "{} at {}", bytes, at);
                }
                check(&heap, &image, &live)?;
                if let Step::Rejoin { leaves: by } = step {
                    leaves = *by;
                    break;
                }
                if matches!(step, Step::Reopen) {
                    break;
                }
            }
            if leaves { session.leave() } else { drop(session) }
            image = Image::from_pm(image.into_pm(), options.dram_bytes());
            heap = Heap::open(&image, NAME, options.pm_bytes()).expect("whole").0;
            check(&heap, &image, &live)?;
        }
        let mut session = heap.join(&image);
        session.transaction(|tx| live.iter().try_for_each(|(at, _)| tx.free(*at))).expect("live");
        let whole = session.transaction(|tx| tx.alloc(3 << 16));
        let whole = whole.expect("all chunks in a row are free");
        prop_assert_eq!(whole.offset() % (1 << 16), 0);
    }

    #[test]
    fn in_line_placement_nothing_straddles_and_packed_placement_takes_less(
        sizes in proptest::collection::vec(1u64..600, 1..200),
    ) {
        let live = |placement| {
            let (image, heap) = made(&options(1, 16));
            let mut session = heap.join(&image);
            session.set_placement(placement);
            for bytes in &sizes {
                let at = session.transaction(|tx| tx.alloc(*bytes)).expect("room");
                let least = bytes.div_ceil(64);
                assert!(lines(at, *bytes) <= least + u64::from(placement == Placement::Packed));
            }
            let stats = heap.stats(&image).expect("whole");
            (stats.live, stats.straddling)
        };
        let (packed, lines) = (live(Placement::Packed), live(Placement::Lines));
        prop_assert_eq!(lines.1, 0);
        prop_assert!(packed.0 <= lines.0);
    }
}

#[test]
fn objects_together_share_lines_and_later_ones_take_what_is_left_of_them() {
    let (image, heap) = made(&sharing(1, 4));
    let mut session = heap.join(&image);
    let [entry, key, value] =
        session.transaction(|tx| tx.alloc_together([24, 16, 50])).expect("room");
    assert_eq!((key, value), (entry.plus(32), entry.plus(64)));
    let near = |session: &mut seawall_runtime::Session<'_, Image>, at, bytes| {
        session.transaction(|tx| tx.alloc_near(at, bytes)).expect("room")
    };
    assert_eq!(near(&mut session, entry, 16), entry.plus(48));
    let other = near(&mut session, value, 30);
    assert_eq!(other, entry.plus(128), "no room on the line, but behind it");
    session.transaction(|tx| tx.free(key)).expect("live");
    assert_eq!(near(&mut session, entry, 10), key, "freed by itself, and used again");
    session.transaction(|tx| tx.free(value)).expect("live");
    session.transaction(|tx| tx.free(other)).expect("live");
    assert_eq!(near(&mut session, entry, 60), value);
    // A restart forgets no place: the shelf is adopted when something is to be near.
    let again = Image::from_pm(image.into_pm(), heap.dram_bytes());
    let (heap, _) = Heap::open(&again, NAME, sharing(1, 4).pm_bytes()).expect("whole");
    let mut session = heap.join(&again);
    assert_eq!(near(&mut session, value, 64), value.plus(64));
    let types = again.load::<u64>(Addr::pm(64)).to_le_bytes();
    assert_eq!(&types, b"heap  v2");
}

#[test]
fn a_wish_that_cannot_be_fulfilled_is_an_allocation_all_the_same() {
    let (image, heap) = made(&options(1, 4));
    let mut session = heap.join(&image);
    let [one, two] = session.transaction(|tx| tx.alloc_together([40, 40])).expect("room");
    assert!(one.line() != two.line() && image.load::<u64>(Addr::pm(64)) != 0);
    assert_eq!(lines(session.transaction(|tx| tx.alloc_near(one, 40)).expect("room"), 40), 1);
    let (image, heap) = made(&sharing(1, 8));
    let mut session = heap.join(&image);
    let long = TOGETHER_BYTES_MAX - 60;
    let [one, two] = session.transaction(|tx| tx.alloc_together([long, 70])).expect("room");
    assert_ne!(one.plus(long.next_multiple_of(16)), two);
    let block = session.transaction(|tx| tx.alloc(48)).expect("room");
    assert_eq!(lines(session.transaction(|tx| tx.alloc_near(block, 48)).expect("room"), 48), 1);
    for at in [block.plus(16), Addr::NULL, heap.root()] {
        let error = session.transaction(|tx| tx.alloc_near(at, 8)).expect_err("no object");
        assert_eq!(error, TxError::NoObject { at });
    }
    let [first, _] = session.transaction(|tx| tx.alloc_together([40, 8])).expect("room");
    for at in [first.plus(8), first.plus(16)] {
        assert_eq!(session.transaction(|tx| tx.free(at)), Err(TxError::NoObject { at }));
    }
    let none: Result<[Addr; 0], _> = session.transaction(|tx| tx.alloc_together([]));
    assert_eq!(none, Ok([]));
}

#[test]
fn if_one_of_several_finds_no_room_none_was_allocated() {
    let (image, heap) = made(&sharing(1, 1));
    let mut session = heap.join(&image);
    let full = session.transaction(|tx| {
        let full = tx.alloc_together([100, 200_000]);
        assert!(matches!(full, Err(TxError::Full { .. })), "{full:?}");
        Ok::<_, TxError>(())
    });
    assert_eq!((full, heap.stats(&image).expect("whole").objects), (Ok(()), 0));
}

#[test]
fn what_another_thread_frees_is_found_again_by_the_owner() {
    let options = sharing(2, 1);
    let places = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &places).expect("there is room");
    let (one, two) = (pool.memory(0), pool.memory(1));
    let heap = Heap::create(&one, NAME, 7, &options).expect("good options");
    let (mut one, mut two) = (heap.join(&one), heap.join(&two));
    let mut groups = Vec::new();
    for _ in 0..480 {
        groups.push(one.transaction(|tx| tx.alloc_together([40, 24])).expect("two lines each"));
    }
    assert!(
        two.transaction(|tx| tx.alloc_near(groups[3][0], 8)).is_err(),
        "not its own, and no room"
    );
    two.transaction(|tx| tx.free(groups[3][1])).expect("live");
    assert_eq!(one.transaction(|tx| tx.alloc_near(groups[3][0], 20)), Ok(groups[3][1]));
    two.transaction(|tx| groups[7].iter().try_for_each(|at| tx.free(*at))).expect("live");
    assert_eq!(one.transaction(|tx| tx.alloc_together([64, 50])), Ok(groups[7].map(|at| at)));
}

#[test]
fn any_flipped_bit_of_a_state_of_a_shelf_is_noticed() {
    let options = sharing(1, 1);
    let (image, heap) = made(&options);
    let mut session = heap.join(&image);
    let objects: [Addr; 2] = session.transaction(|tx| tx.alloc_together([100, 30])).expect("room");
    session.retire();
    let shelf = objects[0].offset() / (1 << 16) * (1 << 16);
    let pm = image.into_pm();
    for granule in 0..16 {
        for bit in 0..8 {
            let mut pm = pm.clone();
            pm[(shelf + granule) as usize] ^= 1 << bit;
            let image = Image::from_pm(pm, options.dram_bytes());
            let error = heap.objects(&image, |_| {}).expect_err("a flipped bit");
            assert!(error.to_string().contains("state"), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn no_states_of_a_shelf_make_a_program_panic(
        states in proptest::collection::vec(0u8..128, 256), at in 0usize..8,
        steps in proptest::collection::vec((0u64..4200, 1u64..1200), 1..40),
    ) {
        let options = sharing(1, 2);
        let (image, heap) = made(&options);
        let mut session = heap.join(&image);
        let [first] = session.transaction(|tx| tx.alloc_together([64])).expect("room");
        session.retire();
        let shelf = (first.offset() / (1 << 16) * (1 << 16)) as usize;
        let mut pm = image.into_pm();
        for (number, state) in states.into_iter().enumerate() {
            // Mostly of an even number of bits, as sound ones.
            let odd = state.count_ones() as u8 & 1 ^ u8::from(number % 251 == 250);
            pm[shelf + 480 * at + number % 480] = state | odd << 7;
        }
        let bytes = pm.len() as u64;
        let image = Image::from_pm(pm, options.dram_bytes());
        let (heap, _) = Heap::open(&image, NAME, bytes).expect("opening looks at no states");
        let _ = heap.stats(&image);
        let mut session = heap.join(&image);
        for (granule, length) in steps {
            let at = Addr::pm(shelf as u64 + 4096 + 16 * granule);
            let _ = session.transaction(|tx| tx.alloc_near(at, length));
            let _ = session.transaction(|tx| tx.alloc_together([length, 24]));
            let _ = session.transaction_with(Logging::Undo, |tx| tx.free(at));
        }
    }
}
