//! Bytes that no crash leaves: a check and every operation end, without a panic.

use crate::script::{VERSIONS, made, options};
use proptest::prelude::*;
use seawall_collections::Tree;
use seawall_memory::{Addr, Image, MemoryExt};
use seawall_runtime::Heap;

/// A tree of three levels, and where its nodes are.
fn grown() -> (Image, Heap, Tree<3, 3>, Vec<Addr>) {
    let (image, heap, tree) = made::<3, 3>(&options(1, 2));
    let mut session = heap.join(&image);
    for key in 0..40 {
        tree.insert(&mut session, key * 5 % 41, key).expect("room");
    }
    session.leave();
    let mut nodes = Vec::new();
    heap.objects(&image, |object| nodes.push(object.at)).expect("whole");
    (image, heap, tree, nodes)
}

proptest! {
    #[test]
    fn wild_words_are_reported_or_harmless(
        wild in proptest::collection::vec((any::<prop::sample::Index>(), 0u64..8, word()), 1..6),
        anchor in proptest::option::weighted(0.2, any::<u64>()),
    ) {
        let (image, heap, tree, nodes) = grown();
        for (node, word, value) in wild {
            let value = match value {
                Word::Any(value) => value,
                Word::Node(index) => index.get(&nodes).bits(),
                Word::Flip(bit) => {
                    image.load::<u64>(node.get(&nodes).plus(8 * word)) ^ 1 << bit
                }
            };
            image.store(node.get(&nodes).plus(8 * word), value);
        }
        if let Some(anchor) = anchor {
            image.store(heap.root(), anchor);
        }
        let mut shown = 0;
        let found = tree.check(&image, &heap, |_, _| shown += 1);
        prop_assert!(found.is_err() || found.is_ok_and(|found| found.entries == shown));
        prop_assert!(shown <= 3 * nodes.len() as u64);
        let mut session = heap.join(&image);
        let dram = Addr::dram(heap.dram_bytes());
        let tree = Tree::<3, 3>::open(&mut session, heap.root(), dram, VERSIONS).expect("its kind");
        for key in [0, 7, 20, 41, u64::MAX] {
            let _ = tree.get(&mut session, key);
            let _ = tree.range(&mut session, key.., |_, _| {});
        }
        let _ = (tree.first(&mut session), tree.last(&mut session), tree.len(&mut session));
        for key in 0..45 {
            let _ = tree.insert(&mut session, key, 1);
            let _ = tree.update(&mut session, key + 3, |value| value + 1);
            let _ = tree.remove(&mut session, key + 1);
        }
        let _ = session.transaction(|tx| tree.free_in(tx));
    }
}

#[derive(Clone, Debug)]
enum Word {
    Any(u64),
    Node(prop::sample::Index),
    Flip(u32),
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        any::<u64>().prop_map(Word::Any),
        any::<prop::sample::Index>().prop_map(Word::Node),
        (0u32..64).prop_map(Word::Flip),
    ]
}

#[test]
fn a_flipped_bit_of_a_link_or_a_key_that_is_used_is_reported() {
    let (image, heap, tree, nodes) = grown();
    let sound = tree.check(&image, &heap, |_, _| {}).expect("sound");
    assert!(sound.height >= 2 && sound.entries == 40, "{sound:?}");
    let (mut reported, mut tried) = (0, 0);
    for node in nodes {
        for bit in 0..512 {
            let at = node.plus(bit / 64 * 8);
            let there: u64 = image.load(at);
            image.store(at, there ^ 1 << (bit % 64));
            tried += 1;
            reported += u64::from(tree.check(&image, &heap, |_, _| {}).is_err());
            image.store(at, there);
        }
    }
    assert!(reported * 3 > tried, "{reported} of {tried}");
}
