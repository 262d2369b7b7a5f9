//! Records are hashes of objects: how many, what an update writes, and what a check finds.

use super::*;
use crate::{History, Setup, Worker, Workload};
use seawall_memory::Image;
use std::sync::Arc;

fn filled(setup: &Setup) -> (Image, RedisYcsb) {
    let layout = RedisYcsb::layout(setup);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let redis = RedisYcsb::create(&image, setup);
    (image, redis)
}

#[test]
fn a_record_has_an_object_for_each_of_its_parts() {
    assert_eq!(blocks_of(&[100; 10]), [34, 1, 0, 0]);
    assert_eq!(blocks_of(&[4; 21]), [4 + 3 * 21, 0, 1, 0]);
    assert_eq!(blocks_of(&[4; 3]), [5 + 3 * 3, 0, 0, 0]);
    assert_eq!((string_words(100), string_words(6), string_words(31)), (13, 1, 5));
}

#[test]
fn an_update_writes_one_field_and_every_field_is_written_at_some_time() {
    let mix = Some("ycsb-a:uniform".parse().unwrap());
    let setup = Setup { entries: 8, mix, ..Setup::of::<RedisYcsb>(1) };
    let (image, redis) = filled(&setup);
    let mut worker = Worker::new(&setup, 0, Arc::new(History::off()));
    let mut server = redis.join(&image);
    let fields = || -> Vec<u64> {
        let entries = redis.keys(&image, 0).map(|key| redis.entry(&image, key).unwrap());
        let fields = entries.flat_map(|entry| redis.stored.fields(&image, entry, 10));
        fields.map(|field| image.load::<u64>(field.plus(HELD))).collect()
    };
    let start = fields();
    let mut last = start.clone();
    while worker.number < 2000 {
        redis.step(&image, &mut server, &mut worker);
        worker.number += 1;
        let now = fields();
        let changed = now.iter().zip(&last).filter(|(now, last)| now != last).count();
        assert!(changed <= 1, "{changed} fields at once");
        last = now;
    }
    let same = last.iter().zip(&start).filter(|(now, start)| now == start).count();
    assert!(same < start.len() / 8, "{same} of {} fields are where they were", start.len());
    redis.contents(&image).unwrap();
}

#[test]
fn a_torn_field_one_in_a_wrong_chain_and_a_lost_object_are_found() {
    let setup = Setup { entries: 8, ..Setup::of::<RedisYcsb>(1) };
    let (image, redis) = filled(&setup);
    let key = redis.keys(&image, 0).next().unwrap();
    let entry = redis.entry(&image, key).unwrap();
    let field = redis.stored.fields(&image, entry, 10)[0];
    let damage = |at: Addr, value: u64| {
        let right = image.load::<u64>(at);
        image.store(at, value);
        let found = redis.contents(&image).unwrap_err().0;
        image.store(at, right);
        found
    };
    let value = image.load::<Addr>(field.plus(HELD));
    for word in 0..13 {
        let found = damage(value.plus(HEADER + 8 * word), 2);
        assert!(found.contains("is torn"), "word {word}: {found}");
    }
    assert!(damage(value, 0).contains("is torn"));
    let called = image.load::<Addr>(field.plus(NAME));
    let other = (0..10).find(|other| bucket_of(*other, 10) != bucket_of(0, 10)).unwrap();
    let wrong = damage(called.plus(HEADER), name(other));
    assert!(wrong.contains("torn") || wrong.contains("wrong chain"), "{wrong}");
    let last = redis
        .stored
        .fields(&image, entry, 10)
        .into_iter()
        .find(|field| image.load::<u64>(field.plus(NEXT)) != 0);
    if let Some(field) = last {
        assert!(damage(field.plus(NEXT), 0).contains("is torn"), "a field is missing");
    }
    assert!(redis.contents(&image).is_ok());
}

#[test]
fn a_cache_with_records_forgets_and_stays_whole() {
    let setup = Setup { entries: 32, search_percent: 0, ..Setup::of::<RedisYcsb>(2) };
    let (image, redis) = filled(&setup);
    let history = Arc::new(History::new());
    let mut worker = Worker::new(&setup, 1, history.clone());
    let mut server = redis.join(&image);
    while worker.number < 300 {
        redis.step(&image, &mut server, &mut worker);
        worker.number += 1;
    }
    redis.contents(&image).unwrap();
    assert!(history.effects().iter().any(|effect| effect.tag == 0), "nothing was forgotten");
}
