//! A look at a pool by the types that it describes: whoever it satisfies can read every structure.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_collections::fields::{
    BTree, Boxed, BoxedField, DRAM_BYTES, Inspected, Map, MapField, Text, TextField, Vector,
    VectorField, inspect,
};
use seawall_memory::Image;
use seawall_runtime::typed::{self, Bytes, Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, Heap, HeapError, HeapOptions, TxError};

#[derive(Clone, Copy, Persist)]
struct Root<'p> {
    words: Map<str, [u8]>,
    places: BTree<str, [u8]>,
    numbers: BTree<i32, u16>,
    first: Option<Ptr<'p, Node<'p>>>,
    list: Vector<[u16; 3]>,
    text: Text,
    boxed: Boxed<[u64; 9]>,
}

#[derive(Clone, Copy, Persist)]
#[persist(lines)]
struct Node<'p> {
    value: u8,
    next: Option<Ptr<'p, Node<'p>>>,
    name: Text,
    keys: [BTree<Bytes<9>, u64>; 2],
    pairs: [[Vector<u8>; 2]; 2],
}

fn options() -> HeapOptions {
    let most = 16 << 20;
    HeapOptions { threads: 1, bytes: 4 << 20, bytes_max: most, ..typed::options::<Root<'_>>() }
}

fn image(pm: Vec<u8>) -> Image {
    Image::from_pm(pm, options().dram_bytes() + DRAM_BYTES)
}

/// Changes all structures, as `round` says.
fn change<'p>(
    tx: &mut Tx<'p, '_, '_, Image>,
    root: Ptr<'p, Root<'p>>,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), TxError> {
    let key = format!("{:06}", rng.random_range(0..400));
    let long = format!("a long key, so that trees stand behind trees: {key}");
    let value = vec![rng.random(); rng.random_range(0..300)];
    match rng.random_range(0..4) {
        0 => {
            drop((root.at(Root::WORDS).remove(tx, &key)?, root.at(Root::PLACES).remove(tx, &long)?))
        }
        1 => drop(root.at(Root::PLACES).insert(tx, &long, &value)?),
        2 => drop(root.at(Root::PLACES).insert(tx, &key, &value)?),
        _ => drop(root.at(Root::WORDS).insert(tx, &key, &value)?),
    }
    root.at(Root::NUMBERS).insert(tx, &rng.random_range(-300..300), &7)?;
    root.at(Root::LIST).push(tx, [1, 2, rng.random()])?;
    root.at(Root::TEXT).set(tx, &long)?;
    root.at(Root::BOXED).set(tx, &[rng.random(); 9])?;
    let next = tx.get(root.at(Root::FIRST))?;
    if rng.random_range(0..10) == 0 {
        let (name, keys) = (Text::EMPTY, [BTree::EMPTY; 2]);
        let pairs = [[Vector::EMPTY; 2]; 2];
        let node = tx.alloc(Node { value: 1, next, name, keys, pairs })?;
        tx.set(root.at(Root::FIRST), Some(node))?;
        node.at(Node::NAME).set(tx, &key)?;
    } else if let Some(node) = next {
        let tree = node.at(Node::KEYS).index(rng.random_range(0..2));
        tree.insert(tx, &Bytes([rng.random(); 9]), &1)?;
        node.at(Node::PAIRS).index(1).index(0).push(tx, 5)?;
    }
    Ok(())
}

fn read_all<'p>(
    session: &mut Session<'p, '_, Image>,
    root: Ptr<'p, Root<'p>>,
) -> Result<(), AccessError> {
    root.at(Root::WORDS).iter(session)?;
    root.at(Root::PLACES).iter(session)?;
    root.at(Root::NUMBERS).iter(session)?;
    root.at(Root::LIST).to_vec(session)?;
    root.at(Root::TEXT).get(session)?;
    root.at(Root::BOXED).get(session)?;
    let mut next = session.get(root.at(Root::FIRST))?;
    for _ in 0..1000 {
        let Some(node) = next else { break };
        node.at(Node::NAME).get(session)?;
        (0..2).try_for_each(|place| {
            node.at(Node::KEYS).index(place).iter(session)?;
            let pair = node.at(Node::PAIRS).index(place);
            (0..2).try_for_each(|other| pair.index(other).to_vec(session).map(drop))
        })?;
        next = session.get(node.at(Node::NEXT))?;
    }
    Ok(())
}

/// The pool after some changes, and after some more.
fn two_pools() -> [Vec<u8>; 2] {
    let options = options();
    let memory = image(vec![0; options.pm_bytes() as usize]);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    typed::create::<Root<'_>, _, HeapError>(&memory, "looked at", 7, &options, |pool| {
        let mut session = pool.join(&memory);
        let mut rounds = |count| {
            for _ in 0..count {
                session.transaction(|tx| change(tx, pool.root(), &mut rng)).unwrap();
            }
            let mut pm = vec![0; memory.pm_bytes() as usize];
            seawall_memory::Memory::read(&memory, seawall_memory::Addr::pm(0), &mut pm);
            pm
        };
        Ok([rounds(2000), rounds(500)])
    })
    .unwrap()
}

/// What a look at the pool finds; none if it does not open. What it calls whole can be read.
fn looked_at(pm: Vec<u8>) -> Option<Result<Inspected, AccessError>> {
    let bytes = pm.len() as u64;
    let memory = image(pm);
    let mut is_open = false;
    let found = typed::open::<Root<'_>, _, HeapError>(&memory, "looked at", bytes, |pool| {
        is_open = true;
        let found = inspect(&mut pool.heap().join(&memory));
        if found.is_ok() {
            read_all(&mut pool.join(&memory), pool.root())?;
        }
        Ok(found)
    });
    is_open.then(|| found.expect("it can be read"))
}

#[test]
fn all_structures_of_a_whole_pool_are_looked_at() {
    for pm in two_pools() {
        let found = looked_at(pm).expect("it opens").unwrap();
        assert!(found.has_root && found.objects > 500, "{found:?}");
        assert_eq!(found.seen, found.objects);
    }
}

#[test]
fn a_torn_copy_that_a_look_calls_whole_can_be_read() {
    let [before, after] = two_pools();
    let (mut damaged, mut whole) = (0, 0);
    let pages = before.len() / 4096;
    for cut in (0..pages).step_by(pages / 60) {
        for swap in [false, true] {
            let (first, then) = if swap { (&after, &before) } else { (&before, &after) };
            let mut pm = [&first[..cut * 4096], &then[cut * 4096..]].concat();
            pm.resize(first.len().max(then.len()), 0);
            let Some(found) = looked_at(pm) else { continue };
            damaged += u64::from(found.is_err());
            whole += u64::from(found.is_ok());
        }
    }
    assert!(damaged > 10 && whole > 10, "{damaged} damaged, {whole} whole");
}

#[test]
fn a_pool_with_a_damaged_word_that_a_look_calls_whole_can_be_read() {
    let [pm, _] = two_pools();
    let memory = image(pm.clone());
    let (heap, _) = Heap::open(&memory, "looked at", pm.len() as u64).unwrap();
    let mut objects = Vec::new();
    heap.objects(&memory, |object| objects.push((object.at.offset(), object.bytes))).unwrap();
    objects.push((heap.root().offset(), heap.root_bytes()));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let mut damaged = 0;
    for _ in 0..400 {
        let (at, bytes) = objects[rng.random_range(0..objects.len())];
        let at = (at + 8 * rng.random_range(0..bytes.div_ceil(8))) as usize;
        let mut other = pm.clone();
        let from = objects[rng.random_range(0..objects.len())].0;
        let word = [rng.random(), from, 0, 8][rng.random_range(0..4)];
        other[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let Some(found) = looked_at(other) else { continue };
        damaged += u64::from(found.is_err());
    }
    assert!(damaged > 50, "{damaged}");
}

mod more {
    use super::*;

    #[derive(Clone, Copy, Persist)]
    pub(super) struct Point {
        x: u32,
        y: u32,
    }

    /// The pool keeps no text of what a value is.
    #[derive(Clone, Copy, Persist)]
    pub(super) struct Unknown {
        pub(super) points: Map<u64, Point>,
    }

    impl Point {
        pub(super) const ONE: Point = Point { x: 1, y: 1 };
    }
}

#[test]
fn what_the_pool_does_not_describe_is_not_said_to_be_looked_at() {
    let options = HeapOptions { threads: 1, ..typed::options::<more::Unknown>() };
    let memory = Image::new(options.pm_bytes(), options.dram_bytes() + DRAM_BYTES);
    let found = typed::create::<more::Unknown, _, HeapError>(&memory, "p", 7, &options, |pool| {
        let mut session = pool.join(&memory);
        let points = pool.root().at(more::Unknown::POINTS);
        session.transaction(|tx| points.insert(tx, &1, &more::Point::ONE))?;
        drop(session);
        Ok(inspect(&mut pool.heap().join(&memory))?)
    });
    let found = found.unwrap();
    assert!(!found.has_root && found.seen == 0 && found.objects > 0, "{found:?}");
}
