//! Bytes that no crash leaves in a map: a check and every operation end, without a panic; and where
//! a check finds nothing, reading everything fails nowhere.

use crate::subject::{Subject, TINY, heap_options, key_bytes, made};
use proptest::prelude::*;
use seawall_collections::fields::{
    self, BTree, Boxed, BoxedField, MapField, Text, TextField, Vector, VectorField,
};
use seawall_collections::{KvMap, Map, MapError};
use seawall_memory::{Addr, Image, MemoryExt};
use seawall_runtime::typed::{self, Persist};
use seawall_runtime::{Heap, HeapError, HeapOptions, Session};

/// The map, whose operations on numbers both kinds have.
trait Damaged: Subject {
    /// Reads everything in every way; the keys that were shown.
    fn read_all(&self, session: &mut Session<'_, Image>) -> Result<u64, MapError>;
    fn destroy(self, session: &mut Session<'_, Image>, link: Addr);
}

const KEYS: std::ops::Range<u64> = 0..70;

impl Damaged for Map {
    fn read_all(&self, session: &mut Session<'_, Image>) -> Result<u64, MapError> {
        let (image, mut shown) = (session.memory(), 0);
        let mut outcome = self.for_each(image, |_, _| shown += 1);
        let len = self.len(image);
        assert!(outcome.is_err() || len == Ok(shown));
        outcome = outcome.and(len.map(drop));
        outcome = outcome.and(self.is_empty(image).map(drop));
        for key in KEYS {
            outcome = outcome.and(self.get(image, key).map(drop));
            outcome = outcome.and(session.transaction(|tx| self.get_in(tx, key)).map(drop));
        }
        outcome.map(|()| shown)
    }

    fn destroy(self, _: &mut Session<'_, Image>, _: Addr) {}
}

impl Damaged for KvMap {
    fn read_all(&self, session: &mut Session<'_, Image>) -> Result<u64, MapError> {
        let (image, mut shown) = (session.memory(), 0);
        let mut outcome = self.for_each(image, |_, _| shown += 1);
        let len = self.len(image);
        assert!(outcome.is_err() || len == Ok(shown));
        outcome = outcome.and(len.map(drop));
        outcome = outcome.and(self.is_empty(image).map(drop));
        let all = session.transaction(|tx| {
            self.for_each_in(tx, |_, _| ())?;
            self.len_in(tx)
        });
        outcome = outcome.and(all.map(drop).map_err(MapError::from));
        let mut value = Vec::new();
        for key in KEYS {
            let key = &key_bytes(key)[..];
            outcome = outcome.and(self.get(image, key).map(drop));
            outcome = outcome.and(self.get_into(image, key, &mut value).map(drop));
            outcome = outcome.and(self.get_with(image, key, <[u8]>::len).map(drop));
            outcome = outcome.and(session.transaction(|tx| self.get_in(tx, key)).map(drop));
        }
        outcome.map(|()| shown)
    }

    fn destroy(self, session: &mut Session<'_, Image>, link: Addr) {
        let _ = session.transaction(|tx| self.free_in(tx, link));
    }
}

/// Words of the pool that are changed: of the objects of the map.
fn damage(image: &Image, heap: &Heap, flips: &[(u64, u64)]) {
    let mut words = vec![heap.root()];
    let push = |object: seawall_runtime::Object| {
        words.extend((0..object.bytes / 8).map(|word| object.at.plus(8 * word)));
    };
    heap.objects(image, push).expect("whole");
    // Many words are of slots that nothing was in; those of entries and records count more.
    words.sort_by_key(|at| image.load::<u64>(*at).wrapping_add(1) <= 1);
    let used = words.partition_point(|at| image.load::<u64>(*at).wrapping_add(1) > 1);
    for (place, value) in flips {
        let among = if place % 8 == 0 { words.len() } else { used };
        let at = words[(place / 8 % among as u64) as usize];
        // Small changes get further than large ones.
        let old: u64 = image.load(at);
        image.store(at, if value % 2 == 0 { *value } else { old ^ 1 << (value / 2 % 64) });
    }
}

/// Uses a map of which some words were changed in every way; gives whether a check has found that.
fn survives<S: Damaged>(flips: &[(u64, u64)]) -> bool {
    let (image, heap, map) = made::<S>(&heap_options(1, 8), &TINY);
    let mut session = heap.join(&image);
    (0..60).for_each(|key| assert!(!map.insert(&mut session, key, key % 15).expect("room")));
    session.retire();
    damage(&image, &heap, flips);
    let Ok(opened) = S::open(&mut session, heap.root()) else { return true };
    let checked = opened.check(&image, &heap);
    let read = opened.read_all(&mut session);
    if let Ok(size) = &checked {
        assert_eq!(read, Ok(size.keys), "{flips:?}");
    }
    for key in KEYS {
        let _ = opened.insert(&mut session, key, key % 14);
        let _ = opened.remove(&mut session, key + 3);
    }
    (0..2000).for_each(|key| drop(opened.insert(&mut session, key, 1)));
    (0..2000).for_each(|key| drop(opened.remove(&mut session, key)));
    opened.destroy(&mut session, heap.root());
    checked.is_err()
}

proptest! {
    #[test]
    fn wild_bytes_are_damage_or_a_map_but_never_a_panic(
        flips in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..6), strings: bool,
    ) {
        if strings { survives::<KvMap>(&flips) } else { survives::<Map>(&flips) };
    }
}

/// The lengths of a record are in its first word, the rest of which follows.
#[test]
fn wild_lengths_and_addresses_are_damage_to_each_operation_that_meets_them() {
    for lengths in [u64::MAX, 1 << 63, 0xffff_ffff, 0xfff0_0001, 1 << 32 | 0xffff_fff8] {
        let (image, heap, map) = made::<KvMap>(&heap_options(1, 8), &TINY);
        let mut session = heap.join(&image);
        map.insert(&mut session, b"k", b"value").expect("room");
        session.retire();
        let word = 1 | 5 << 32;
        let mut records = Vec::new();
        heap.objects(&image, |object| records.push(object.at)).expect("whole");
        records.retain(|at| image.load::<u64>(*at) == word);
        assert_eq!(records.len(), 1);
        image.store(records[0], lengths);
        let is_damage = |error: &MapError| error.to_string().contains("damaged");
        let image = &image;
        assert!(map.get(image, b"k").is_err_and(|error| is_damage(&error)), "{lengths:#x}");
        assert!(map.for_each(image, |_, _| ()).is_err_and(|error| is_damage(&error)));
        assert!(map.insert(&mut session, b"k", b"").is_err_and(|error| is_damage(&error)));
        assert!(map.remove(&mut session, b"k").is_err_and(|error| is_damage(&error)));
        let all = session.transaction(|tx| map.for_each_in(tx, |_, _| ()));
        assert!(all.is_err(), "{lengths:#x}");
        assert_eq!(map.len(image), Ok(1), "no record was looked at");
        assert!(map.check(image, &heap).is_err());
    }
}

#[derive(Clone, Copy, Persist)]
struct Fields {
    text: Text,
    list: Vector<u64>,
    boxed: Boxed<[u8]>,
    ordered: BTree<str, u64>,
    texts: BTree<u64, str>,
    entries: fields::Map<str, str>,
}

/// Uses each field in each way after a change, and gives how many calls failed.
fn fields_used(image: &Image, bytes: u64, change: &dyn Fn(&Image)) -> usize {
    let used = typed::open::<Fields, _, HeapError>(image, "fields", bytes, |pool| {
        let (mut session, root) = (pool.join(image), pool.root());
        let session = &mut session;
        change(image);
        let mut all = vec![
            root.at(Fields::TEXT).get(session).is_ok(),
            root.at(Fields::LIST).len(session).is_ok()
                && root.at(Fields::LIST).to_vec(session).is_ok(),
            root.at(Fields::BOXED).get(session).is_ok(),
            root.at(Fields::ORDERED).get(session, "a key of several slices").is_ok()
                && root.at(Fields::ORDERED).len(session).is_ok(),
            root.at(Fields::TEXTS).get(session, &3).is_ok()
                && root.at(Fields::TEXTS).iter(session).is_ok(),
            root.at(Fields::ENTRIES).get(session, "3").is_ok()
                && root.at(Fields::ENTRIES).iter(session).is_ok(),
        ];
        all.push(session.transaction(|tx| root.at(Fields::TEXT).set(tx, "another")).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::LIST).push(tx, 7)).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::BOXED).take(tx)).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::TEXTS).insert(tx, &3, "b")).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::ENTRIES).remove(tx, "3")).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::LIST).clear(tx)).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::ORDERED).clear(tx)).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::TEXTS).clear(tx)).is_ok());
        all.push(session.transaction(|tx| root.at(Fields::ENTRIES).clear(tx)).is_ok());
        Ok(all.into_iter().filter(|is_ok| !is_ok).count())
    });
    used.expect("its root is not looked at")
}

#[test]
fn a_field_whose_address_is_wild_fails_each_call_that_follows_it_and_no_call_panics() {
    let options = HeapOptions { threads: 1, ..typed::options::<Fields>() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes() + fields::DRAM_BYTES);
    let places = typed::create::<Fields, _, HeapError>(&image, "fields", 1, &options, |pool| {
        let (mut session, root) = (pool.join(&image), pool.root());
        session.transaction(|tx| {
            root.at(Fields::TEXT).set(tx, "a text")?;
            root.at(Fields::LIST).push(tx, 1)?;
            root.at(Fields::BOXED).set(tx, b"bytes")?;
            root.at(Fields::ORDERED).insert(tx, "a key of several slices", &1)?;
            root.at(Fields::TEXTS).insert(tx, &3, "three")?;
            root.at(Fields::ENTRIES).insert(tx, "3", "three").map(drop)
        })?;
        let list = root.at(Fields::LIST).addr();
        let trees = [root.at(Fields::ORDERED).addr(), root.at(Fields::TEXTS).addr()];
        let others = [root.at(Fields::TEXT).addr(), root.at(Fields::BOXED).addr()];
        Ok((list, [trees, others].concat(), root.at(Fields::ENTRIES).addr()))
    });
    let ((list, mut places, entries), pm) = (places.expect("room"), image.into_pm());
    places.extend([list, entries]);
    let bytes = pm.len() as u64;
    let opened = |change: &dyn Fn(&Image)| {
        let image = Image::from_pm(pm.clone(), options.dram_bytes() + fields::DRAM_BYTES);
        fields_used(&image, bytes, change)
    };
    assert_eq!(opened(&|_| ()), 0);
    for at in places {
        for wild in [1, bytes - 4, bytes, bytes + 8, u64::MAX, u64::MAX - 7, 1 << 63] {
            assert!(opened(&|image| image.store(at, wild)) > 0, "{wild:#x} at {at}");
        }
        // In the heap, and aligned to nothing; that matters not to the elements of a list.
        let odd = |image: &Image| image.store(at, image.load::<u64>(at) + 3);
        assert!(at == list || opened(&odd) > 0, "odd at {at}");
    }
    let no_list = |image: &Image| {
        image.store(list, bytes + 64);
        image.store(list.plus(8), 0u64);
    };
    assert!(opened(&no_list) > 0, "a list of nothing that is nowhere");
}
