//! Damaged pools: each is refused by an error, or used, and every call returns. What an examination
//! finds sound is opened, and reading all of it fails nowhere.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall::{
    BTree, BTreeField, Boxed, BoxedField, Error, HeapError, Map, MapField, Options, Persist, Pool,
    Ptr, ReadError, Text, TextField, Vector, VectorField,
};
use seawall_collections::fields::{DRAM_BYTES, inspect};
use seawall_memory::Image;
use seawall_runtime::Heap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

#[derive(Clone, Copy, Persist)]
struct Node<'p> {
    number: u64,
    name: Text,
    next: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Clone, Copy, Persist)]
struct Root<'p> {
    nodes: Option<Ptr<'p, Node<'p>>>,
    names: Map<str, str>,
    numbers: Map<u64, u64>,
    ordered: BTree<str, u64>,
    texts: BTree<i32, str>,
    list: Vector<u64>,
    text: Text,
    boxed: Boxed<[u8]>,
}

const KEYS: u64 = 60;
/// Links that are followed: a damaged list may be a ring.
const NODES_MAX: usize = 100;

fn options() -> Options {
    Options::default().threads(1).bytes_max(4 << 20).log_bytes(16 << 10)
}

fn name(key: u64) -> String {
    format!("{key:03}, whose name has {}", "a".repeat(key as usize % 20))
}

/// Changes everything; in a whole pool each of these transactions succeeds.
fn write_all(pool: &Pool<Root<'static>>, first: u64) -> Vec<Result<(), Error>> {
    let keys = (first..first + KEYS).map(|key| {
        pool.transaction(|tx, root| {
            root.at(Root::NAMES).insert(tx, &name(key), &name(key / 2))?;
            root.at(Root::NUMBERS).insert(tx, &key, &(key * key))?;
            root.at(Root::ORDERED).insert(tx, &name(key), &key)?;
            root.at(Root::TEXTS).insert(tx, &(key as i32), &name(key))?;
            root.at(Root::LIST).push(tx, key)
        })
    });
    let mut outcomes: Vec<_> = keys.collect();
    outcomes.push(pool.transaction(|tx, root| {
        root.at(Root::TEXT).set(tx, &name(first))?;
        root.at(Root::BOXED).set(tx, &[7; 300])?;
        for number in 0..8 {
            let next = tx.get(root.at(Root::NODES))?;
            let node = tx.alloc(Node { number, name: Text::EMPTY, next })?;
            node.at(Node::NAME).set(tx, &name(number))?;
            tx.set(root.at(Root::NODES), Some(node))?;
        }
        Ok(())
    }));
    outcomes
}

/// Reads everything, in a view and in a transaction.
fn read_all(pool: &Pool<Root<'static>>) -> Vec<Result<(), String>> {
    macro_rules! all {
        ($view:ident, $root:ident, $Error:ty) => {{
            let mut all: Vec<Result<(), $Error>> = vec![
                $root.at(Root::NAMES).iter($view).map(drop),
                $root.at(Root::NAMES).len($view).map(drop),
                $root.at(Root::NUMBERS).iter($view).map(drop),
                $root.at(Root::ORDERED).iter($view).map(drop),
                $root.at(Root::ORDERED).len($view).map(drop),
                $root.at(Root::ORDERED).last_key_value($view).map(drop),
                $root.at(Root::TEXTS).range($view, 3..40).map(drop),
                $root.at(Root::TEXTS).first_key_value($view).map(drop),
                $root.at(Root::LIST).to_vec($view).map(drop),
                $root.at(Root::LIST).last($view).map(drop),
                $root.at(Root::TEXT).get($view).map(drop),
                $root.at(Root::BOXED).get($view).map(drop),
            ];
            for key in 0..KEYS + 3 {
                all.push($root.at(Root::NAMES).get($view, &name(key)).map(drop));
                all.push($root.at(Root::NUMBERS).get($view, &key).map(drop));
                all.push($root.at(Root::ORDERED).get($view, &name(key)).map(drop));
                all.push($root.at(Root::TEXTS).get($view, &(key as i32)).map(drop));
                all.push($root.at(Root::LIST).get($view, key).map(drop));
            }
            let mut next = $view.get($root.at(Root::NODES));
            for _ in 0..NODES_MAX {
                let Ok(Some(node)) = next else { break };
                all.push(node.at(Node::NAME).get($view).map(drop));
                next = $view.get(node).map(|node: Node<'_>| node.next);
            }
            all.push(next.map(drop));
            all
        }};
    }
    let texts = |all: Vec<Result<(), String>>| all;
    let outside = pool.read(|view, root| {
        let all = all!(view, root, ReadError);
        Ok::<_, ReadError>(all.into_iter().map(|one| one.map_err(|e| e.to_string())).collect())
    });
    let inside = pool.transaction(|tx, root| {
        let all = all!(tx, root, Error);
        Ok::<_, Error>(all.into_iter().map(|one| one.map_err(|e| e.to_string())).collect())
    });
    let mut all = texts(outside.unwrap_or_else(|error| vec![Err(error.to_string())]));
    all.extend(texts(inside.unwrap_or_else(|error| vec![Err(error.to_string())])));
    all
}

/// Removes everything, part by part.
fn remove_all(pool: &Pool<Root<'static>>) {
    for key in (0..KEYS).step_by(2) {
        let _ = pool.transaction(|tx, root| root.at(Root::NAMES).remove(tx, &name(key)));
        let _ = pool.transaction(|tx, root| root.at(Root::NUMBERS).remove(tx, &key));
        let _ = pool.transaction(|tx, root| root.at(Root::ORDERED).remove(tx, &name(key)));
        let _ = pool.transaction(|tx, root| root.at(Root::TEXTS).pop_first(tx));
        let _ = pool.transaction(|tx, root| root.at(Root::LIST).pop(tx));
    }
    let _ = pool.transaction(|tx, root| root.at(Root::NAMES).clear(tx));
    let _ = pool.transaction(|tx, root| root.at(Root::NUMBERS).clear(tx));
    let _ = pool.transaction(|tx, root| root.at(Root::ORDERED).clear(tx));
    let _ = pool.transaction(|tx, root| root.at(Root::TEXTS).clear(tx));
    let _ = pool.transaction(|tx, root| root.at(Root::LIST).clear(tx));
    let _ = pool.transaction(|tx, root| root.at(Root::TEXT).set(tx, ""));
    let _ = pool.transaction(|tx, root| root.at(Root::BOXED).take(tx));
    for _ in 0..NODES_MAX {
        let freed = pool.transaction(|tx, root| {
            let Some(node) = tx.get(root.at(Root::NODES))? else { return Ok(false) };
            let next = tx.get(node)?.next;
            node.at(Node::NAME).set(tx, "")?;
            tx.free(node)?;
            tx.set(root.at(Root::NODES), next)?;
            Ok::<_, Error>(true)
        });
        if freed != Ok(true) {
            break;
        }
    }
}

/// What an examination says of the bytes of a pool.
fn examined(bytes: &[u8]) -> Result<(), HeapError> {
    let of = |dram_bytes| Image::from_pm(bytes.to_vec(), dram_bytes);
    let (head, length) = (of(0), bytes.len() as u64);
    let name = seawall_runtime::pool::read(&head, length)?.name;
    let image = of(Heap::read(&head, &name, length)?.dram_bytes() + DRAM_BYTES);
    let (heap, _) = Heap::open(&image, &name, length)?;
    heap.stats(&image)?;
    inspect(&mut heap.join(&image))?;
    Ok(())
}

/// Changes some bytes or words, most often of those that are in use.
fn damage(rng: &mut Xoshiro256PlusPlus, bytes: &mut [u8]) {
    for _ in 0..rng.random_range(1..4) {
        let start = rng.random_range(0..bytes.len());
        let used = (0..200).map(|step| (start + 61 * step) % bytes.len());
        let at = used.into_iter().find(|at| bytes[*at] != 0).unwrap_or(start);
        let word = at / 8 * 8;
        match rng.random_range(0..4) {
            0 => bytes[at] = rng.random(),
            1 => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => bytes[word..word + 8].copy_from_slice(&rng.random::<u64>().to_le_bytes()),
            _ => {
                let near = rng.random_range(0..bytes.len() as u64) / 8 * 8;
                bytes[word..word + 8].copy_from_slice(&near.to_le_bytes());
            }
        }
    }
}

fn number_of(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

fn used(path: &Path, seed: u64, is_sound: bool) {
    let pool = match seawall::open::<Root<'static>>(path, options()) {
        Ok(pool) => pool,
        Err(error) => return assert!(!is_sound, "seed {seed}: {error}"),
    };
    for outcome in read_all(&pool) {
        assert!(!is_sound || outcome.is_ok(), "seed {seed}: {outcome:?}");
    }
    write_all(&pool, 30);
    remove_all(&pool);
    write_all(&pool, 0);
    read_all(&pool);
}

/// `SEAWALL_DAMAGES` tries more.
#[test]
fn a_damaged_pool_is_refused_or_used_and_no_call_panics() {
    let folder = tempfile::tempdir().expect("room");
    let path = folder.path().join("a.pool");
    {
        let pool = seawall::open::<Root<'static>>(&path, options()).expect("room");
        assert!(write_all(&pool, 0).iter().all(Result::is_ok));
        assert!(read_all(&pool).iter().all(Result::is_ok));
    }
    let whole = std::fs::read(&path).expect("a pool");
    assert_eq!(examined(&whole), Ok(()));
    let (mut found, from) = (0, number_of("SEAWALL_DAMAGES_FROM", 100));
    let count = number_of("SEAWALL_DAMAGES", 150);
    for seed in from..from + count {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut bytes = whole.clone();
        damage(&mut rng, &mut bytes);
        let is_sound = catch_unwind(|| examined(&bytes).is_ok());
        let is_sound = is_sound.unwrap_or_else(|_| panic!("the examination of seed {seed} panics"));
        std::fs::write(&path, &bytes).expect("room");
        found += u64::from(!is_sound);
        let outcome = catch_unwind(AssertUnwindSafe(|| used(&path, seed, is_sound)));
        assert!(outcome.is_ok(), "seed {seed} panics");
    }
    println!("{found} of {count} damages were found by an examination");
    assert!(found * 10 > count, "{found} of {count}");
}
