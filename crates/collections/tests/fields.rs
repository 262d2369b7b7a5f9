//! Structures that are fields: the same as those of the standard library, whatever is done, in a
//! transaction and outside; and whole after a transaction that fails.

use proptest::prelude::*;
use seawall_collections::BTree as Tree;
use seawall_collections::fields::{
    BTree, BTreeField, Boxed, BoxedField, DRAM_BYTES, Map, MapField, Text, TextField, Vector,
    VectorField,
};
use seawall_memory::{Addr, Image};
use seawall_runtime::typed::{self, Persist, Ptr};
use seawall_runtime::{HeapError, HeapOptions, Logging, TxError};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Pair {
    one: u32,
    other: u8,
}

#[derive(Clone, Copy, Persist)]
struct Root {
    before: u64,
    words: Map<str, [u8]>,
    pairs: Map<Pair, Pair>,
    numbers: BTree<i32, u16>,
    names: BTree<u64, str>,
    places: BTree<str, [u8]>,
    list: Vector<Pair>,
    text: Text,
    boxed: Boxed<[u64; 9]>,
    after: u64,
}

/// What a root holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    words: BTreeMap<String, Vec<u8>>,
    pairs: BTreeMap<(u32, u8), Pair>,
    numbers: BTreeMap<i32, u16>,
    names: BTreeMap<u64, String>,
    places: BTreeMap<String, Vec<u8>>,
    list: Vec<Pair>,
    text: String,
    boxed: Option<[u64; 9]>,
}

#[derive(Clone, Debug)]
enum Act {
    Word(String, Option<Vec<u8>>),
    Pair(u32, Option<u8>),
    Number(i32, Option<u16>),
    Name(u64, Option<String>),
    Place(String, Option<Vec<u8>>),
    /// Looks at what lies between two keys, each counted or not.
    Between(String, String, bool, bool),
    Push(u32),
    Pop,
    Set(u64, u8),
    Text(String),
    /// Changes what is there, by the methods that look before they write.
    Grow(String, i32, u8),
    Ends(bool),
    Box(u64),
    Clear(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        ("[a-e]{0,2}", proptest::option::of(bytes)).prop_map(|(key, value)| Act::Word(key, value)),
        (0u32..6, any::<Option<u8>>()).prop_map(|(key, value)| Act::Pair(key, value)),
        (-4i32..4, any::<Option<u16>>()).prop_map(|(key, value)| Act::Number(key, value)),
        (0u64..6, proptest::option::of("[a-z]{0,20}"))
            .prop_map(|(key, value)| Act::Name(key, value)),
        (place(), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)))
            .prop_map(|(key, value)| Act::Place(key, value)),
        (place(), place(), any::<bool>(), any::<bool>())
            .prop_map(|(low, high, first, last)| Act::Between(low, high, first, last)),
        any::<u32>().prop_map(Act::Push),
        Just(Act::Pop),
        (0u64..6, any::<u8>()).prop_map(|(at, value)| Act::Set(at, value)),
        "[a-z]{0,30}".prop_map(Act::Text),
        ("[a-e]{0,2}", -4i32..4, any::<u8>()).prop_map(|(word, at, by)| Act::Grow(word, at, by)),
        any::<bool>().prop_map(Act::Ends),
        any::<u64>().prop_map(Act::Box),
        (0u8..8).prop_map(Act::Clear),
    ]
}

/// Keys of one slice to four, many with the same first slices.
fn place() -> impl Strategy<Value = String> {
    "(abcdefg){0,3}[a-c\u{0}]{0,2}"
}

fn pair(key: u32) -> Pair {
    Pair { one: key, other: key as u8 }
}

type Tx<'p, 't, 'm> = typed::Tx<'p, 't, 'm, Image>;

/// Does it to both, and compares what they answer.
fn apply<'p>(
    tx: &mut Tx<'p, '_, '_>,
    root: Ptr<'p, Root>,
    model: &mut Model,
    act: &Act,
) -> Result<(), TxError> {
    match act {
        Act::Word(key, Some(value)) => {
            let old = root.at(Root::WORDS).insert(tx, key, value)?;
            assert_eq!(old, model.words.insert(key.clone(), value.clone()));
        }
        Act::Word(key, None) => {
            assert_eq!(root.at(Root::WORDS).remove(tx, key)?, model.words.remove(key));
        }
        Act::Pair(key, Some(value)) => {
            let value = Pair { one: 1, other: *value };
            let old = root.at(Root::PAIRS).insert(tx, &pair(*key), &value)?;
            assert_eq!(old, model.pairs.insert((*key, *key as u8), value));
        }
        Act::Pair(key, None) => {
            let old = root.at(Root::PAIRS).remove(tx, &pair(*key))?;
            assert_eq!(old, model.pairs.remove(&(*key, *key as u8)));
        }
        Act::Number(key, Some(value)) => {
            let old = root.at(Root::NUMBERS).insert(tx, key, value)?;
            assert_eq!(old, model.numbers.insert(*key, *value));
        }
        Act::Number(key, None) => {
            assert_eq!(root.at(Root::NUMBERS).remove(tx, key)?, model.numbers.remove(key));
        }
        Act::Name(key, Some(value)) => {
            let old = root.at(Root::NAMES).insert(tx, key, value)?;
            assert_eq!(old, model.names.insert(*key, value.clone()));
        }
        Act::Name(key, None) => {
            assert_eq!(root.at(Root::NAMES).remove(tx, key)?, model.names.remove(key));
        }
        Act::Place(..) | Act::Between(..) => apply_to_places(tx, root, model, act)?,
        Act::Push(value) => {
            root.at(Root::LIST).push(tx, pair(*value))?;
            model.list.push(pair(*value));
        }
        Act::Pop => assert_eq!(root.at(Root::LIST).pop(tx)?, model.list.pop()),
        Act::Set(at, value) => {
            let new = Pair { one: 9, other: *value };
            let old = root.at(Root::LIST).set(tx, *at, new)?;
            let place = model.list.get_mut(*at as usize);
            assert_eq!(old, place.map(|place| std::mem::replace(place, new)));
        }
        Act::Text(text) => {
            root.at(Root::TEXT).set(tx, text)?;
            model.text.clone_from(text);
        }
        Act::Grow(word, at, by) => grow(tx, root, model, (word, *at, *by))?,
        Act::Ends(first) => pop(tx, root, model, *first)?,
        Act::Box(value) => {
            root.at(Root::BOXED).set(tx, &[*value; 9])?;
            model.boxed = Some([*value; 9]);
        }
        Act::Clear(what) => clear(tx, root, model, *what)?,
    }
    Ok(())
}

/// The same for the tree whose keys are strings.
fn apply_to_places<'p>(
    tx: &mut Tx<'p, '_, '_>,
    root: Ptr<'p, Root>,
    model: &mut Model,
    act: &Act,
) -> Result<(), TxError> {
    match act {
        Act::Place(key, Some(value)) => {
            let old = root.at(Root::PLACES).insert(tx, key, value)?;
            assert_eq!(old, model.places.insert(key.clone(), value.clone()));
            assert_eq!(root.at(Root::PLACES).get(tx, key)?.as_ref(), Some(value));
        }
        Act::Place(key, None) => {
            assert_eq!(root.at(Root::PLACES).remove(tx, key)?, model.places.remove(key));
        }
        Act::Between(low, high, first, last) => {
            let (low, high) = (low.min(high).clone(), low.max(high).clone());
            let bound = |key: String, is_in: bool| match is_in {
                true => Bound::Included(key),
                false => Bound::Excluded(key),
            };
            if low < high || *first && *last {
                let range = (bound(low, *first), bound(high, *last));
                let ours = root.at(Root::PLACES).range(tx, range.clone())?;
                let wanted = model.places.range(range);
                assert!(ours.eq(wanted.map(|(key, value)| (key.clone(), value.clone()))));
            }
        }
        _ => unreachable!("another field's"),
    }
    Ok(())
}

/// Pops entries at both ends, one way or the other.
fn pop<'p>(
    tx: &mut Tx<'p, '_, '_>,
    root: Ptr<'p, Root>,
    model: &mut Model,
    is_first: bool,
) -> Result<(), TxError> {
    if is_first {
        assert_eq!(root.at(Root::NAMES).pop_first(tx)?, model.names.pop_first());
        assert_eq!(root.at(Root::NUMBERS).pop_last(tx)?, model.numbers.pop_last());
        assert_eq!(root.at(Root::PLACES).pop_first(tx)?, model.places.pop_first());
    } else {
        assert_eq!(root.at(Root::NAMES).pop_last(tx)?, model.names.pop_last());
        assert_eq!(root.at(Root::NUMBERS).pop_first(tx)?, model.numbers.pop_first());
        assert_eq!(root.at(Root::PLACES).pop_last(tx)?, model.places.pop_last());
    }
    Ok(())
}

fn grow<'p>(
    tx: &mut Tx<'p, '_, '_>,
    root: Ptr<'p, Root>,
    model: &mut Model,
    (word, at, by): (&str, i32, u8),
) -> Result<(), TxError> {
    let words = root.at(Root::WORDS);
    let grown = words.entry(tx, word)?.and_modify(|bytes| bytes.push(by))?.or_insert(&[by])?;
    let wanted = model.words.entry(word.to_owned()).and_modify(|bytes| bytes.push(by));
    assert_eq!(grown, *wanted.or_insert(vec![by]));
    let numbers = root.at(Root::NUMBERS);
    let number = numbers.entry(tx, &at)?.or_insert_with(|| by.into())?;
    assert_eq!(number, *model.numbers.entry(at).or_insert_with(|| by.into()));
    let bump = |number: &mut u16| *number = number.wrapping_add(u16::from(by));
    assert_eq!(numbers.update(tx, &-at, bump)?, model.numbers.get_mut(&-at).map(bump).is_some());
    root.at(Root::NAMES).extend(tx, [(u64::from(by), word), (7, "seven")])?;
    model.names.extend([(u64::from(by), word.to_owned()), (7, "seven".to_owned())]);
    root.at(Root::TEXT).update(tx, |text| text.push_str(word))?;
    model.text.push_str(word);
    let place = u64::from(by % 4);
    let change = |pair: &mut Pair| pair.one = pair.one.wrapping_add(1);
    let updated = root.at(Root::LIST).update(tx, place, change)?;
    assert_eq!(updated, model.list.get_mut(place as usize).map(change).is_some());
    Ok(())
}

fn clear<'p>(
    tx: &mut Tx<'p, '_, '_>,
    root: Ptr<'p, Root>,
    model: &mut Model,
    what: u8,
) -> Result<(), TxError> {
    match what {
        0 => root.at(Root::WORDS).clear(tx).map(|()| model.words.clear()),
        1 => root.at(Root::PAIRS).clear(tx).map(|()| model.pairs.clear()),
        2 => root.at(Root::NUMBERS).clear(tx).map(|()| model.numbers.clear()),
        3 => root.at(Root::NAMES).clear(tx).map(|()| model.names.clear()),
        4 => root.at(Root::LIST).clear(tx).map(|()| model.list.clear()),
        6 => root.at(Root::PLACES).clear(tx).map(|()| model.places.clear()),
        5 => root.at(Root::BOXED).take(tx).map(|old| assert_eq!(old, model.boxed.take())),
        _ => root.at(Root::TEXT).set(tx, "").map(|()| model.text.clear()),
    }
}

fn found<'p, A: seawall_collections::fields::Access<'p>>(
    access: &mut A,
    root: Ptr<'p, Root>,
) -> Result<Model, A::Error> {
    let pairs = root.at(Root::PAIRS).iter(access)?;
    let list = root.at(Root::LIST).to_vec(access)?;
    assert_eq!(root.at(Root::LIST).len(access)?, list.len() as u64);
    assert_eq!(root.at(Root::LIST).get(access, 0)?, list.first().copied());
    assert_eq!(root.at(Root::LIST).last(access)?, list.last().copied());
    let numbers: BTreeMap<_, _> = root.at(Root::NUMBERS).iter(access)?.collect();
    let first = root.at(Root::NUMBERS).first_key_value(access)?;
    assert_eq!(first, numbers.iter().next().map(|(key, value)| (*key, *value)));
    let last = root.at(Root::NUMBERS).last_key_value(access)?;
    assert_eq!(last, numbers.iter().next_back().map(|(key, value)| (*key, *value)));
    assert_eq!(root.at(Root::NUMBERS).len(access)?, numbers.len() as u64);
    let places = root.at(Root::PLACES).len(access)?;
    assert_eq!(places, root.at(Root::PLACES).iter(access)?.len() as u64);
    assert_eq!(root.at(Root::PLACES).is_empty(access)?, places == 0);
    assert_eq!(root.at(Root::PAIRS).len(access)?, pairs.len() as u64);
    assert!(root.at(Root::NUMBERS).range(access, ..0)?.eq(numbers.range(..0).map(copied)));
    Ok(Model {
        words: root.at(Root::WORDS).iter(access)?.collect(),
        pairs: pairs.map(|(key, value)| ((key.one, key.other), value)).collect(),
        numbers,
        names: root.at(Root::NAMES).range(access, ..)?.collect(),
        places: root.at(Root::PLACES).iter(access)?.collect(),
        list,
        text: root.at(Root::TEXT).get(access)?,
        boxed: root.at(Root::BOXED).get(access)?,
    })
}

fn copied<K: Copy, V: Copy>((key, value): (&K, &V)) -> (K, V) {
    (*key, *value)
}

proptest! {
    #[test]
    fn fields_do_what_the_standard_library_does_and_nothing_when_a_transaction_fails(
        rounds in proptest::collection::vec(
            (proptest::collection::vec(act(), 1..6), any::<bool>(), any::<bool>()), 1..12,
        ),
    ) {
        let options = HeapOptions { threads: 1, log_bytes: 1 << 18, ..typed::options::<Root>() };
        let memory = Image::new(options.pm_bytes(), options.dram_bytes() + DRAM_BYTES);
        let mut model = Model::default();
        typed::create::<Root, _, HeapError>(&memory, "fields", 1, &options, |pool| {
            let (mut session, root) = (pool.join(&memory), pool.root());
            session.transaction(|tx| {
                tx.set(root.at(Root::BEFORE), 7)?;
                tx.set(root.at(Root::AFTER), 9)
            })?;
            let empty = pool.heap().stats(&memory)?.objects;
            for (acts, fails, undo) in rounds {
                let logging = if undo { Logging::Undo } else { Logging::Redo };
                let mut next = model.clone();
                let outcome = session.transaction_with(logging, |tx| {
                    for act in &acts {
                        apply(tx, root, &mut next, act)?;
                    }
                    assert_eq!(found(tx, root)?, next);
                    if fails { Err(TxError::Types) } else { Ok(()) }
                });
                assert_eq!(outcome.is_err(), fails);
                if !fails {
                    model = next;
                }
                assert_eq!(found(&mut session, root)?, model);
            }
            session.transaction(|tx| {
                (0..8).try_for_each(|what| clear(tx, root, &mut model, what))
            })?;
            assert_eq!(found(&mut session, root)?, Model::default());
            assert_eq!(pool.heap().stats(&memory)?.objects, empty, "what was cleared is free");
            let whole = session.get(root)?;
            assert_eq!((whole.before, whole.after), (7, 9));
            Ok(())
        })
        .expect("room");
    }
}

/// Longer than what goes through the log, with either logging.
#[test]
fn what_is_large_is_there_after_a_restart() {
    for logging in [Logging::Redo, Logging::Undo] {
        let options = HeapOptions {
            threads: 1,
            bytes: 4 << 20,
            bytes_max: 4 << 20,
            log_bytes: 1 << 20,
            ..typed::options::<Root>()
        };
        let dram = options.dram_bytes() + DRAM_BYTES;
        let memory = Image::new(options.pm_bytes(), dram);
        let (long, bytes) = ("x".repeat(20_000), vec![7; 9_000]);
        typed::create::<Root, _, HeapError>(&memory, "fields", 1, &options, |pool| {
            let (mut session, root) = (pool.join(&memory), pool.root());
            for part in 0..30 {
                session.transaction_with(logging, |tx| {
                    (0..100).try_for_each(|at| root.at(Root::LIST).push(tx, pair(100 * part + at)))
                })?;
            }
            session.transaction_with(logging, |tx| {
                root.at(Root::TEXT).set(tx, &long)?;
                root.at(Root::WORDS).insert(tx, "long", &bytes[..])?;
                root.at(Root::NAMES).insert(tx, &7, &long).map(drop)
            })?;
            Ok(())
        })
        .expect("room");
        let memory = Image::from_pm(memory.into_pm(), dram);
        let bytes_of_pool = memory.pm_bytes();
        let model = typed::open::<Root, _, HeapError>(&memory, "fields", bytes_of_pool, |pool| {
            Ok(found(&mut pool.join(&memory), pool.root())?)
        });
        let model = model.expect("it recovers");
        assert_eq!(model.list, (0..3000).map(pair).collect::<Vec<_>>());
        assert_eq!((&model.text, &model.names[&7]), (&long, &long));
        assert_eq!(model.words["long"], bytes);
    }
}

/// More values than are read together, of lengths on both sides of what is read on the stack.
#[test]
fn a_range_has_each_value_whatever_its_length() {
    let options = HeapOptions { threads: 1, ..typed::options::<Root>() };
    let memory = Image::new(options.pm_bytes(), options.dram_bytes() + DRAM_BYTES);
    typed::create::<Root, _, HeapError>(&memory, "fields", 1, &options, |pool| {
        let (mut session, names) = (pool.join(&memory), pool.root().at(Root::NAMES));
        let name = |key: u64| "y".repeat([0, 1, 7, 255, 256, 257, 600][key as usize % 7]);
        let wanted: Vec<_> = (0..100).map(|key| (key, name(key))).collect();
        session.transaction(|tx| {
            wanted.iter().try_for_each(|(key, name)| names.insert(tx, key, name).map(drop))
        })?;
        assert!(names.iter(&mut session)?.eq(wanted.iter().cloned()));
        for count in [0, 1, 31, 32, 33, 64, 65] {
            let found = names.range(&mut session, 10..10 + count as u64)?;
            assert!(found.eq(wanted[10..10 + count].iter().cloned()));
            let found = session.transaction(|tx| names.range(tx, 10..10 + count as u64))?;
            assert!(found.eq(wanted[10..10 + count].iter().cloned()));
        }
        // A length beyond the pool, in the object of the fortieth value.
        session.transaction(|tx| {
            let (at, tx) = tx.place(names)?;
            let dram = Addr::dram(tx.heap().dram_bytes());
            let tree = Tree::open_in(tx, at, dram, 1 << 10).expect("it is there");
            let value = tree.get_in(tx, 40).expect("it is sound").expect("it was inserted");
            tx.store(Addr::from_bits(value), 1u64 << 40)
        })?;
        assert!(names.range(&mut session, 0..40)?.eq(wanted[..40].iter().cloned()));
        let error = names.range(&mut session, 0..50).expect_err("damaged");
        assert!(error.to_string().contains("longer than the pool"), "{error}");
        Ok(())
    })
    .expect("room");
}
