//! Without crashes and other threads: a tree does what a map in ordinary memory does.

use crate::script::{State, Step, VERSIONS, checked, dram_bytes, made, options, reopen};
use proptest::prelude::*;
use seawall_collections::{BTree, BTreeError, Tree};
use seawall_memory::{Addr, Image};
use seawall_runtime::TxError;

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = prop_oneof![
        6 => 0u64..60,
        1 => Just(u64::MAX),
        1 => Just(u64::MAX - 1),
        1 => any::<u64>(),
    ];
    let step = prop_oneof![
        5 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        1 => (key.clone(), any::<u64>()).prop_map(|(key, by)| Step::Update(key, by)),
        4 => key.prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 0..most)
}

/// Runs the steps, looks at everything, opens again, empties the tree.
fn follows_the_model<const SLOTS: usize, const KEYS: usize>(
    steps: &[Step],
    ranges: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    let options = options(1, 16);
    let (image, heap, tree) = made::<SLOTS, KEYS>(&options);
    let mut session = heap.join(&image);
    let mut state = State::new();
    for step in steps {
        prop_assert_eq!(step.run(&tree, &mut session), Ok(step.apply(&mut state)));
        prop_assert_eq!(checked(&image, &heap, &tree), Ok(state.clone()));
    }
    for key in (0..60).chain([u64::MAX]) {
        prop_assert_eq!(tree.get(&mut session, key), Ok(state.get(&key).copied()));
    }
    for (from, to) in ranges {
        let mut found = Vec::new();
        tree.range(&mut session, *from..*to, |key, value| found.push((key, value))).unwrap();
        let wanted = state.iter().filter(|(key, _)| (*from..*to).contains(*key));
        let wanted: Vec<(u64, u64)> = wanted.map(|(key, value)| (*key, *value)).collect();
        prop_assert_eq!(&found, &wanted);
        let mut some = [(0, 0); 3];
        let count = tree.copy_range(&mut session, *from..*to, &mut some).unwrap();
        prop_assert_eq!(&some[..count], &wanted[..wanted.len().min(3)]);
        let count = tree.copy_range(&mut session, *from..*to, &mut []).unwrap();
        prop_assert_eq!(count, 0);
    }
    let pair = |entry: Option<(&u64, &u64)>| Ok(entry.map(|(key, value)| (*key, *value)));
    prop_assert_eq!(tree.first(&mut session), pair(state.first_key_value()));
    prop_assert_eq!(tree.last(&mut session), pair(state.last_key_value()));
    prop_assert_eq!(tree.len(&mut session), Ok(state.len() as u64));
    let again = Image::from_pm(image.into_pm(), dram_bytes(&options));
    let (heap, tree, found) = reopen::<_, SLOTS, KEYS>(&again, options.pm_bytes()).expect("whole");
    prop_assert_eq!(&found, &state);
    let mut session = heap.join(&again);
    for (key, value) in state {
        prop_assert_eq!(tree.remove(&mut session, key), Ok(Some(value)));
    }
    let found = tree.check(&again, &heap, |_, _| {}).expect("sound");
    prop_assert_eq!((found.leaves, found.inners, found.height), (1, 0, 0));
    prop_assert_eq!(heap.stats(&again).expect("whole").objects, 1);
    Ok(())
}

proptest! {
    #[test]
    fn a_tree_of_small_nodes_is_a_map(
        steps in steps(150), ranges in proptest::collection::vec((0u64..60, 0u64..90), 0..4),
    ) {
        follows_the_model::<3, 3>(&steps, &ranges)?;
    }

    #[test]
    fn a_tree_of_odd_nodes_is_a_map(
        steps in steps(150), ranges in proptest::collection::vec((0u64..60, 0u64..90), 0..4),
    ) {
        follows_the_model::<9, 4>(&steps, &ranges)?;
    }
}

#[test]
fn a_tree_of_full_size_holds_many_keys_and_gives_all_space_back() {
    let options = options(1, 64);
    let image = Image::new(options.pm_bytes(), options.dram_bytes() + BTree::dram_bytes(64));
    let heap = seawall_runtime::Heap::create(&image, "btree", 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let dram = Addr::dram(heap.dram_bytes());
    let tree = BTree::create(&mut session, heap.root(), dram, 64).expect("room");
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let many = 40_000;
    for number in 0..many {
        assert_eq!(tree.insert(&mut session, key(number), number), Ok(None));
    }
    let found = tree.check(&image, &heap, |_, _| {}).expect("sound");
    assert_eq!((found.entries, found.height), (many, 2));
    assert!(found.leaves < many / 30, "leaves are two thirds full: {found:?}");
    let mut before = None;
    tree.range(&mut session, .., |key, _| {
        assert!(before < Some(key));
        before = Some(key);
    })
    .expect("sound");
    for number in 0..many {
        assert_eq!(tree.get(&mut session, key(number)), Ok(Some(number)));
    }
    for number in 0..many {
        assert_eq!(tree.remove(&mut session, key(number)), Ok(Some(number)));
    }
    assert_eq!(heap.stats(&image).expect("whole").objects, 1);
}

#[test]
fn ascending_keys_leave_full_leaves() {
    let (image, heap, tree) = made::<16, 8>(&options(1, 16));
    let mut session = heap.join(&image);
    for key in 0..1000 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let found = tree.check(&image, &heap, |_, _| {}).expect("sound");
    assert!(found.leaves <= 1000 / 15 + 1, "{found:?}");
}

#[test]
fn an_insert_that_fits_its_leaf_is_one_line_of_log_and_one_fence() {
    let (image, heap, tree) = made::<16, 8>(&options(1, 16));
    let mut session = heap.join(&image);
    tree.insert(&mut session, 5, 5).expect("room");
    let before = session.log_counts();
    tree.insert(&mut session, 7, 1).expect("room");
    tree.insert(&mut session, 7, 2).expect("room");
    tree.update(&mut session, 7, |value| value + 1).expect("there");
    tree.remove(&mut session, 7).expect("there");
    let after = session.log_counts();
    assert_eq!(after.commits - before.commits, 4);
    assert_eq!((after.records - before.records, after.lines - before.lines), (4, 4));
    tree.update(&mut session, 7, |value| value + 1).expect("sound");
    tree.remove(&mut session, 7).expect("sound");
    tree.get(&mut session, 5).expect("sound");
    assert_eq!(session.log_counts().records, after.records, "nothing to write");
}

#[test]
fn a_full_heap_says_so_and_the_tree_stays_as_it_was() {
    let (image, heap, tree) = made::<3, 3>(&options(1, 2));
    let mut session = heap.join(&image);
    let mut state = State::new();
    let error = loop {
        let key = state.len() as u64;
        match tree.insert(&mut session, key, key) {
            Ok(_) => state.insert(key, key),
            Err(error) => break error,
        };
    };
    assert!(matches!(error, BTreeError::Heap(TxError::Full { .. })), "{error}");
    assert_eq!(checked(&image, &heap, &tree), Ok(state.clone()));
    assert_eq!(tree.remove(&mut session, 0), Ok(Some(0)));
    assert_eq!(tree.get(&mut session, 1), Ok(Some(1)), "no lock was left behind");
}

#[test]
fn a_tree_with_other_nodes_is_refused() {
    let options = options(1, 4);
    let (image, heap, _) = made::<3, 3>(&options);
    let mut session = heap.join(&image);
    let dram = Addr::dram(heap.dram_bytes());
    let other = Tree::<4, 3>::open(&mut session, heap.root(), dram, VERSIONS);
    assert!(matches!(other, Err(BTreeError::Damage(_))), "{other:?}");
    let nowhere = Tree::<3, 3>::open(&mut session, Addr::pm(64), dram, VERSIONS);
    assert!(matches!(nowhere, Err(BTreeError::Heap(TxError::Access(_)))), "{nowhere:?}");
}
