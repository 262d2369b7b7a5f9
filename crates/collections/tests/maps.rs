//! Without crashes: the maps do what a map in ordinary memory would.

use crate::subject::{Contents, NAME, Subject, TINY, heap_options, made, reopened, whole};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_collections::{KvMap, Map, MapError, MapFlaw, MapOptions};
use seawall_memory::{Addr, Image, MemoryExt};
use seawall_runtime::{Heap, TxError};

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64),
    Remove(u64),
    Retire,
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    let key = prop_oneof![4 => 0..keys, 1 => (0..keys).prop_map(|key| key << 40 | u64::MAX << 60)];
    prop_oneof![
        6 => (key.clone(), any::<u16>()).prop_map(|(key, value)| Step::Insert(key, value.into())),
        3 => key.prop_map(Step::Remove),
        1 => Just(Step::Retire),
    ]
}

fn map_options() -> impl Strategy<Value = MapOptions> {
    prop_oneof![(4u64..8, 1u32..5), (4u64..70, Just(1u32))]
        .prop_map(|(segment_lines, depth)| MapOptions { segment_lines, depth })
}

fn follows<S: Subject>(steps: &[Step], map_options: &MapOptions) -> Result<(), TestCaseError> {
    let options = heap_options(1, 40);
    let (image, heap, map) = made::<S>(&options, map_options);
    let mut model = Contents::new();
    let mut session = heap.join(&image);
    for step in steps {
        match *step {
            Step::Insert(key, value) => {
                let was = map.insert(&mut session, key, value).expect("room");
                prop_assert_eq!(was, model.insert(key, value).is_some());
                prop_assert_eq!(map.get(&image, key), Some(value));
            }
            Step::Remove(key) => {
                prop_assert_eq!(map.get(&image, key), model.get(&key).copied());
                let was = map.remove(&mut session, key).expect("removed");
                prop_assert_eq!(was, model.remove(&key).is_some());
                prop_assert_eq!(map.get(&image, key), None);
            }
            Step::Retire => session.retire(),
        }
    }
    prop_assert_eq!(whole(&image, &heap, &map), Ok(model.clone()));
    let again = Image::from_pm(image.into_pm(), options.dram_bytes());
    let (heap, map, found) = reopened::<S, Image>(&again, options.pm_bytes()).expect("whole");
    prop_assert_eq!(&found, &model);
    let mut session = heap.join(&again);
    for key in model.keys() {
        prop_assert_eq!(map.remove(&mut session, *key), Ok(true));
    }
    prop_assert_eq!(whole(&again, &heap, &map), Ok(Contents::new()));
    let most = 2 + (1 << map_options.depth);
    prop_assert!(map.check(&again, &heap).expect("whole").objects <= most);
    Ok(())
}

proptest! {
    #[test]
    fn a_map_of_numbers_holds_what_a_tree_of_the_library_holds(
        steps in proptest::collection::vec(step(300), 0..500), options in map_options(),
    ) {
        follows::<Map>(&steps, &options)?;
    }

    #[test]
    fn a_map_of_strings_holds_what_a_tree_of_the_library_holds(
        steps in proptest::collection::vec(step(100), 0..200), options in map_options(),
    ) {
        follows::<KvMap>(&steps, &options)?;
    }
}

#[test]
fn a_map_that_was_emptied_in_any_order_is_small() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for segment_lines in [4, 9, 27, 70, 248] {
        for keys in (40..1_200).step_by(13) {
            let options = MapOptions { segment_lines, depth: 1 };
            let (image, heap, map) = made::<Map>(&heap_options(1, 60), &options);
            let mut session = heap.join(&image);
            let mut keys: Vec<u64> = (0..keys).collect();
            for key in &keys {
                assert_eq!(map.insert(&mut session, *key, 0), Ok(None));
            }
            keys.shuffle(&mut random);
            for key in &keys {
                assert_eq!(map.remove(&mut session, *key), Ok(Some(0)));
            }
            let objects = map.check(&image, &heap).expect("whole").objects;
            assert_eq!(objects, 4, "{segment_lines} {}", keys.len());
        }
    }
}

#[test]
fn any_numbers_are_keys_and_values() {
    let (image, heap, map) = made::<Map>(&heap_options(1, 8), &TINY);
    let mut session = heap.join(&image);
    let numbers = [0, 1, 2, !0, !1, 1 << 63, (1 << 63) - 1];
    for key in numbers {
        for value in numbers {
            map.insert(&mut session, key, value).expect("room");
            assert_eq!(map.get(&image, key), Ok(Some(value)));
        }
    }
    assert_eq!(map.len(&image), Ok(7));
    assert_eq!(map.update(&mut session, 1, |old| old.unwrap_or(0) / 2), Ok(Some((1 << 63) - 1)));
    assert_eq!(map.update(&mut session, 5, |old| old.unwrap_or(40) + 2), Ok(None));
    assert_eq!(map.get(&image, 1), Ok(Some((1 << 62) - 1)));
    assert_eq!(map.get(&image, 5), Ok(Some(42)));
    assert_eq!(map.remove(&mut session, 5), Ok(Some(42)));
    numbers.iter().for_each(|key| assert!(map.remove(&mut session, *key).unwrap().is_some()));
    assert_eq!(map.is_empty(&image), Ok(true));
}

#[test]
fn many_keys_take_few_bytes_each_and_give_them_back_when_they_go() {
    let options = heap_options(1, 100);
    let (image, heap, map) = made::<Map>(&options, &MapOptions::default());
    let mut session = heap.join(&image);
    let count = 100_000;
    for key in 0..count {
        map.insert(&mut session, key << 20, !key).expect("room");
    }
    for key in 0..count {
        assert_eq!(map.get(&image, key << 20), Ok(Some(!key)));
        assert_eq!(map.get(&image, key << 20 | 1), Ok(None));
    }
    let size = map.check(&image, &heap).expect("whole");
    assert_eq!(size.keys, count);
    assert!(size.bytes < 45 * count, "{size:?}");
    for key in count / 10..count {
        assert_eq!(map.remove(&mut session, key << 20), Ok(Some(!key)));
    }
    let size = map.check(&image, &heap).expect("whole");
    assert_eq!(size.keys, count / 10);
    assert!(size.bytes < 120 * count / 10, "{size:?}");
    for key in 0..count / 10 {
        assert_eq!(map.remove(&mut session, key << 20), Ok(Some(!key)));
    }
    let size = map.check(&image, &heap).expect("whole");
    assert_eq!((size.keys, size.objects), (0, 4), "root, directory, two segments");
    assert!(size.bytes < 40_000, "{size:?}");
}

#[test]
fn one_change_is_one_record_of_one_line() {
    let (image, heap, map) = made::<Map>(&heap_options(1, 8), &MapOptions::default());
    let mut session = heap.join(&image);
    let lines = |session: &seawall_runtime::Session<'_, Image>| {
        let counts = session.log_counts();
        (counts.records, counts.lines)
    };
    let before = lines(&session);
    map.insert(&mut session, 1, 2).expect("room");
    map.insert(&mut session, 1, 3).expect("room");
    map.remove(&mut session, 1).expect("there");
    assert_eq!(map.remove(&mut session, 1), Ok(None));
    assert_eq!(lines(&session), (before.0 + 3, before.1 + 3));
}

#[test]
fn keys_with_one_hash_are_kept_apart_until_there_are_too_many() {
    let (image, heap, map) = made::<KvMap>(&heap_options(1, 8), &TINY);
    let map = map.with_flaw(MapFlaw::WeakHash);
    let mut session = heap.join(&image);
    let key = |number: u8| vec![number; 4];
    for round in 0..3 {
        for number in 0..16 {
            let was = map.insert(&mut session, &key(number), &[number, round]);
            assert_eq!(was, Ok(round > 0));
        }
    }
    assert_eq!(map.remove(&mut session, &key(7)), Ok(true));
    assert_eq!(map.insert(&mut session, &key(20), b""), Ok(false));
    for number in (0..16).filter(|number| *number != 7) {
        assert_eq!(map.get(&image, &key(number)), Ok(Some(vec![number, 2])));
    }
    assert_eq!(map.get(&image, &key(7)), Ok(None));
    assert_eq!(map.get(&image, &key(20)), Ok(Some(vec![])));
    let before = map.check(&image, &heap).expect("whole");
    assert_eq!(before.keys, 16);
    assert!(map.insert(&mut session, &key(21), b"").is_err());
    assert_eq!(map.check(&image, &heap).map(|size| size.keys), Ok(16));
}

#[test]
fn a_map_in_a_full_heap_says_so_and_is_as_before() {
    let (image, heap, map) = made::<Map>(&heap_options(1, 2), &MapOptions::default());
    let mut session = heap.join(&image);
    let mut count = 0;
    let full = loop {
        match map.insert(&mut session, count, count) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, MapError::Heap(TxError::Full { .. })), "{full}");
    assert_eq!(whole(&image, &heap, &map).map(|contents| contents.len() as u64), Ok(count));
    session.leave();
    let mut other = heap.join(&image);
    for chunk in [1 << 12, 1 << 8, 8] {
        while other.transaction(|tx| tx.alloc(chunk)).is_ok() {}
    }
    assert!((0..count).all(|key| map.remove(&mut other, key) == Ok(Some(key))));
    assert_eq!(map.is_empty(&image), Ok(true));
}

#[test]
fn what_is_no_map_of_the_kind_is_not_opened_as_one() {
    let options = heap_options(1, 4);
    let (image, heap, _) = made::<Map>(&options, &TINY);
    let mut session = heap.join(&image);
    let error = KvMap::open(&mut session, heap.root()).expect_err("another kind");
    assert!(error.to_string().contains("leads to no map of byte strings"), "{error}");
    for root in [0, 8, 64, 1 << 40, !0, 1 << 47, heap.root().bits()] {
        image.store(heap.root(), root);
        assert!(matches!(Map::open(&mut session, heap.root()), Err(MapError::NoMap { .. })));
    }
    let (image, heap, _) = made::<Map>(&options, &TINY);
    let mut session = heap.join(&image);
    let root: Addr = image.load(heap.root());
    for word in [0, 2, 3, 4, 5] {
        let at = root.plus(8 * word);
        let old: u64 = image.load(at);
        image.store(at, old ^ 1 << 40);
        assert!(matches!(Map::open(&mut session, heap.root()), Err(MapError::NoMap { .. })));
        image.store(at, old);
    }
    assert!(Map::open(&mut session, heap.root()).is_ok());
    for link in [Addr::NULL, Addr::pm(1 << 40), Addr::dram(0), Addr::from_bits(!7)] {
        assert!(matches!(Map::open(&mut session, link), Err(MapError::NoMap { .. })));
    }
    let bad = MapOptions { segment_lines: 3, ..TINY };
    let error = session.transaction(|tx| Map::create(tx, heap.root(), &bad)).expect_err("too few");
    assert_eq!(error.to_string(), "segment_lines is 3; it must be 4 to 992");
}

#[test]
fn a_look_up_shows_values_of_any_length() {
    let (image, heap, map) = made::<KvMap>(&heap_options(1, 40), &TINY);
    let mut session = heap.join(&image);
    for bytes in [0, 1, 63, 64, 65, 1000] {
        let value: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        map.insert(&mut session, b"key", &value).expect("room");
        let shown = map.get_with(&image, b"key", |shown| shown.to_vec());
        assert_eq!(shown, Ok(Some(value)), "{bytes} bytes");
    }
    assert_eq!(map.get_with(&image, b"none", <[u8]>::len), Ok(None));
}

#[test]
fn a_map_that_was_opened_before_is_looked_at_again() {
    let options = heap_options(1, 40);
    let (image, heap, map) = made::<Map>(&options, &TINY);
    let mut session = heap.join(&image);
    map.insert(&mut session, 1, 10).expect("room");
    let open = |session: &mut _| Map::open(session, heap.root());
    assert_eq!(open(&mut session).unwrap().get(&image, 1), Ok(Some(10)));
    // A part that never changes has changed.
    let root: Addr = image.load(heap.root());
    for word in [0, 2, 3, 4, 5] {
        let at = root.plus(8 * word);
        let old: u64 = image.load(at);
        image.store(at, old ^ 1 << 40);
        assert!(matches!(open(&mut session), Err(MapError::NoMap { .. })), "word {word}");
        image.store(at, old);
    }
    // Another is there now, and then one of another kind.
    let other = MapOptions { segment_lines: 9, ..TINY };
    session.transaction(|tx| Map::create(tx, heap.root(), &other)).expect("room");
    let second = open(&mut session).unwrap();
    assert_eq!(second.get(&image, 1), Ok(None));
    second.insert(&mut session, 2, 20).expect("room");
    assert_eq!(open(&mut session).unwrap().get(&image, 2), Ok(Some(20)));
    session.transaction(|tx| KvMap::create(tx, heap.root(), &TINY)).expect("room");
    assert!(matches!(open(&mut session), Err(MapError::NoMap { .. })));
    assert!(KvMap::open(&mut session, heap.root()).is_ok());
}

#[test]
fn a_map_that_is_shown_part_by_part_shows_all_that_stays_once_while_it_grows_and_shrinks() {
    let options = heap_options(1, 64);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let map = session.transaction(|tx| KvMap::create(tx, heap.root(), &TINY)).expect("room");
    let key = |number: u64| number.to_le_bytes();
    for number in 0..400 {
        map.insert(&mut session, &key(number), b"stays").expect("room");
    }
    let mut counts = vec![0; 400];
    let (mut next, mut part) = (Some(0), 0);
    while let Some(from) = next {
        let shown = map.for_each_of(&image, from, |key, value| {
            let number = u64::from_le_bytes(key.try_into().expect("eight bytes"));
            if value == b"stays" {
                counts[number as usize] += 1;
            }
        });
        next = shown.expect("sound");
        // Segments are split, and merged again.
        for number in 1000..1100 {
            match part % 4 {
                0 => drop(map.insert(&mut session, &key(number + 100 * part), b"goes")),
                3 => (0..4).for_each(|back| {
                    drop(map.remove(&mut session, &key(number + 100 * (part - back))));
                }),
                _ => {}
            }
        }
        part += 1;
    }
    assert!(part > 4, "{part} parts");
    assert_eq!(counts, vec![1; 400]);
}

#[test]
fn two_maps_of_one_heap_hash_differently_and_a_copy_of_a_pool_alike() {
    let order = |uuid| {
        let options = heap_options(1, 4);
        let image = Image::new(options.pm_bytes(), options.dram_bytes());
        let heap = Heap::create(&image, NAME, uuid, &options).expect("good options");
        let mut session = heap.join(&image);
        let mut orders = Vec::new();
        for _ in 0..2 {
            let map = session.transaction(|tx| Map::create(tx, heap.root(), &TINY)).expect("room");
            (0..20).for_each(|key| assert_eq!(map.insert(&mut session, key, 0), Ok(None)));
            let mut keys = Vec::new();
            map.for_each(&image, |key, _| keys.push(key)).expect("sound");
            orders.push(keys);
        }
        orders
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1)[0], order(1)[1]);
    assert_ne!(order(1)[0], order(2)[0]);
}

#[test]
fn a_removal_that_leaves_no_trace_loses_keys_and_is_caught() {
    let (image, heap, map) = made::<Map>(&heap_options(1, 8), &TINY);
    let map = map.flawed(MapFlaw::NoTombstone);
    let mut session = heap.join(&image);
    (0..40).for_each(|key| assert_eq!(map.insert(&mut session, key, key), Ok(None)));
    let caught = (0..20).any(|key| {
        map.remove(&mut session, key).expect("removed");
        whole(&image, &heap, &map).is_err()
    });
    assert!(caught);
}
