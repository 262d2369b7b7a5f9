//! In a full pool: what is removed needs no room, and makes room for all sizes.

use seawall_collections::fields::{BTree, DRAM_BYTES, MapField};
use seawall_collections::{KvMap, MapError, MapOptions};
use seawall_memory::Image;
use seawall_runtime::typed::{self, Persist, Ptr, Session};
use seawall_runtime::{Heap, HeapError, HeapOptions, Logging, TxError};

const NAME: &str = "full";
const SIZES: [usize; 4] = [1, 100, 1000, 10_000];

#[derive(Clone, Copy, Persist)]
struct Maps {
    entries: BTree<[u8], [u8]>,
    counts: BTree<str, u64>,
}

fn options(in_place: bool) -> HeapOptions {
    HeapOptions {
        bytes: 4 << 20,
        bytes_max: 4 << 20,
        threads: 2,
        in_place,
        ..HeapOptions::default()
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("values {number}").into_bytes()
}

/// Whether so many values of each size fit.
fn has_room(mut put: impl FnMut(u64, usize) -> bool) {
    for (number, size) in (0..).zip([1, 1, 10, 100, 200, 400, 1000, 1, 9000, 60_000, 200_000, 5]) {
        assert!(put(1 << 40 | number, size), "no room for {size} bytes");
    }
}

fn is_full<T>(outcome: &Result<T, MapError>) -> bool {
    matches!(outcome, Err(MapError::Heap(TxError::Full { .. })))
}

/// Fills a map with values of so many bytes, opens it again, and removes all of them, `at_once` or
/// one by one.
fn filled_map_is_cleared(size: usize, in_place: bool, at_once: bool) {
    let options = options(in_place);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let map = session
        .transaction(|tx| KvMap::create(tx, heap.root(), &MapOptions::default()))
        .expect("room");
    let mut count = 0;
    let last = loop {
        match map.insert(&mut session, &key(count), &vec![7; size]) {
            Ok(_) => count += 1,
            full => break full,
        }
    };
    assert!(is_full(&last) && count > 300, "{count}: {last:?}");
    session.retire();
    let image = Image::from_pm(image.into_pm(), options.dram_bytes());
    let (heap, _) = Heap::open(&image, NAME, image.pm_bytes()).expect("whole");
    let mut session = heap.join(&image);
    let map = KvMap::open(&mut session, heap.root()).expect("a map");
    assert!(is_full(&map.insert(&mut session, b"more", &[1; 100_000])));
    if at_once {
        session
            .retry(Logging::Redo, |tx| {
                (0..count).try_for_each(|number| map.remove_in(tx, &key(number)).map(|_| ()))
            })
            .expect("removing needs no room");
    } else {
        for number in 0..count {
            assert_eq!(map.remove(&mut session, &key(number)), Ok(true));
        }
    }
    assert_eq!(map.len(&image), Ok(0));
    has_room(|number, size| {
        map.insert(&mut session, &number.to_le_bytes(), &vec![1; size]).is_ok()
    });
    map.check(&image, &heap).expect("whole");
}

#[test]
fn a_full_map_is_cleared_in_one_transaction() {
    for (size, in_place) in SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        println!("{size} {in_place}");
        filled_map_is_cleared(size, in_place, true);
    }
}

#[test]
fn a_full_map_is_cleared_key_by_key() {
    for (size, in_place) in SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        filled_map_is_cleared(size, in_place, false);
    }
}

fn typed_options() -> HeapOptions {
    HeapOptions { bytes: 4 << 20, bytes_max: 4 << 20, threads: 2, ..typed::options::<Maps>() }
}

/// Puts a value, and counts it, as the Python package does.
fn put<'p>(
    session: &mut Session<'p, '_, Image>,
    root: Ptr<'p, Maps>,
    (key, size): (&[u8], usize),
    count: u64,
) -> Result<(), TxError> {
    session.transaction(|tx| {
        root.at(Maps::ENTRIES).insert(tx, key, &vec![7; size][..])?;
        root.at(Maps::COUNTS).insert(tx, "values", &count)?;
        Ok(())
    })
}

/// Removes all values in one transaction.
fn clear<'p>(
    session: &mut Session<'p, '_, Image>,
    root: Ptr<'p, Maps>,
    count: u64,
) -> Result<(), TxError> {
    session.transaction(|tx| {
        for number in 0..count {
            let (entries, counts) = (root.at(Maps::ENTRIES), root.at(Maps::COUNTS));
            assert!(entries.remove(tx, &key(number)[..])?.is_some());
            match count - number - 1 {
                0 => counts.remove(tx, "values")?,
                left => counts.insert(tx, "values", &left)?,
            };
        }
        Ok(())
    })
}

fn filled_tree_is_cleared(size: usize) {
    let options = typed_options();
    let dram_bytes = options.dram_bytes() + DRAM_BYTES;
    let image = Image::new(options.pm_bytes(), dram_bytes);
    let count = typed::create::<Maps, _, HeapError>(&image, NAME, 7, &options, |pool| {
        let (mut session, root) = (pool.join(&image), pool.root());
        let is_put = |count: &u64| put(&mut session, root, (&key(*count), size), count + 1).is_ok();
        let count = (0..).take_while(is_put).count() as u64;
        session.retire();
        Ok(count)
    })
    .expect("good options");
    let image = Image::from_pm(image.into_pm(), dram_bytes);
    typed::open::<Maps, _, HeapError>(&image, NAME, options.pm_bytes(), |pool| {
        let (mut session, root) = (pool.join(&image), pool.root());
        let more = put(&mut session, root, (b"more", 100_000), count + 1);
        assert!(matches!(more, Err(TxError::Full { .. })), "{more:?}");
        let cleared = clear(&mut session, root, count);
        assert_eq!(cleared, Ok(()), "{count} values of {size} bytes");
        has_room(|number, size| {
            put(&mut session, root, (&number.to_le_bytes(), size), number).is_ok()
        });
        Ok(())
    })
    .expect("whole");
}

#[test]
fn a_full_tree_is_cleared_in_one_transaction() {
    SIZES.into_iter().for_each(filled_tree_is_cleared);
}
