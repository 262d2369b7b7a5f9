//! Shares, keys and rejections of the mixes.

use super::*;
use crate::harness::workload::stream;
use crate::{BTree, FastFair, Hash, Level, Queue};
use std::collections::BTreeMap;

fn drawn(mix: &str, keys: u64, count: usize) -> Vec<(Op, u64)> {
    let mut requests = Requests::new(mix.parse().unwrap(), keys, (0, 1));
    let mut rng = stream(5, 1);
    std::iter::repeat_with(|| requests.next(&mut rng)).take(count).collect()
}

#[test]
fn requests_come_in_the_shares_of_their_mix() {
    for mix in MIXES {
        let requests = drawn(mix.name, 2000, 50_000);
        let share =
            |is: fn(&Op) -> bool| requests.iter().filter(|(op, _)| is(op)).count() as f64 / 500.0;
        let shares = [
            (mix.reads, share(|op| *op == Op::Read)),
            (mix.updates, share(|op| *op == Op::Update)),
            (mix.inserts, share(|op| *op == Op::Put)),
            (mix.scans, share(|op| matches!(op, Op::Scan(1..=SCAN_MAX)))),
            (mix.read_modify_writes, share(|op| *op == Op::ReadModifyWrite)),
        ];
        for (wanted, found) in shares {
            assert!((found - wanted as f64).abs() < 1.0, "{mix}: {found} % for {wanted} %");
            assert!((wanted == 0) == (found == 0.0), "{mix}");
        }
        assert_eq!(drawn(mix.name, 2000, 100), drawn(mix.name, 2000, 100));
    }
}

/// The frequency of each key of reads, in descending order.
fn frequencies(mix: &str) -> Vec<u64> {
    let mut counts = BTreeMap::new();
    for (_, key) in drawn(mix, 2000, 100_000) {
        *counts.entry(key).or_insert(0) += 1;
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|left, right| right.cmp(left));
    counts
}

#[test]
fn keys_are_zipfian_in_c_and_uniform_when_told_so() {
    // The sum of n to the power -0.99 from 1 to 1000 is 7.73: the first key has 12.9 %.
    let zipfian = frequencies("ycsb-c");
    assert!((12_500..13_400).contains(&zipfian[0]), "{}", zipfian[0]);
    assert!((6_200..6_900).contains(&zipfian[1]), "{}", zipfian[1]);
    let uniform = frequencies("ycsb-c:uniform");
    assert_eq!(uniform.len(), 1000);
    assert!(uniform[0] < 150 && uniform[999] > 60, "{} {}", uniform[0], uniform[999]);
}

#[test]
fn mix_d_reads_what_was_inserted_last_most() {
    let keys = 1 << 20;
    let (mut last, mut hits) = (0, 0);
    let requests = drawn("ycsb-d", keys, 20_000);
    for (op, key) in &requests {
        match op {
            Op::Put => last = *key,
            _ => hits += u64::from(*key == last),
        }
    }
    // The sum up to half a million is 14.2: the latest key has 7 % of 19 000 reads.
    assert!((1_100..1_600).contains(&hits), "{hits}");
}

#[test]
fn inserts_of_all_threads_together_take_each_new_key_once() {
    let mix = "ycsb-load".parse().unwrap();
    let mut keys = Vec::new();
    for thread in 0..3 {
        let mut requests = Requests::new(mix, 30, (thread, 3));
        let mut rng = stream(5, thread);
        keys.extend((0..10).map(|_| requests.next(&mut rng).1));
    }
    keys.sort_unstable();
    assert_eq!(keys, (0..30).collect::<Vec<u64>>());
}

#[test]
fn what_is_read_is_there_at_the_start_whole_or_in_parts() {
    for parts in [1, 3] {
        let setup = Setup { entries: 31, ..Setup::of::<Hash>(1) };
        let mix: RequestMix = "ycsb-c".parse().unwrap();
        let initial = mix.initial_keys(&setup, parts);
        for part in 0..parts {
            let count = (62 + parts - 1 - part) / parts;
            let mut requests = Requests::new(mix, count, (0, 1));
            let mut rng = stream(1, part);
            for _ in 0..500 {
                let key = requests.next(&mut rng).1 * parts + part;
                assert!(initial.contains(&key), "{key} of part {part} of {parts}");
            }
        }
    }
}

#[test]
fn records_are_scattered_over_all_keys_and_neighbours_are_apart() {
    for keys in [1, 2, 3, 4, 10, 64, 1000, 8192] {
        let mut found: Vec<u64> = (0..keys).map(|record| scatter(record, keys)).collect();
        if keys > 64 {
            assert!(found.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > keys / 4));
        }
        found.sort_unstable();
        assert_eq!(found, (0..keys).collect::<Vec<u64>>());
    }
}

#[test]
fn a_mix_is_refused_in_words_where_it_cannot_run() {
    let [c, e] = ["ycsb-c", "ycsb-e"].map(|name| name.parse::<RequestMix>().unwrap());
    assert_eq!(c.check_for::<Level>(), Ok(()));
    assert_eq!(e.check_for::<FastFair>(), Ok(()));
    let message = e.check_for::<Level>().unwrap_err().to_string();
    assert!(message.contains("level does not have its keys in order"), "{message}");
    assert!(message.ends_with("or fastfair, redis-ycsb, redis"), "{message}");
    for message in [
        c.check_for::<Queue>().unwrap_err().to_string(),
        c.check_for::<BTree>().unwrap_err().to_string(),
    ] {
        let able = "hash, map, kv, level, fastfair, records, redis-ycsb, redis";
        assert!(message.contains(able), "{message}");
    }
}

#[test]
fn a_mix_is_found_by_its_name_and_a_wrong_name_lists_the_right_ones() {
    for mix in MIXES {
        assert_eq!(mix.to_string().parse(), Ok(*mix));
        for (keys, name) in KeyChoice::ALL {
            let other = RequestMix { keys, ..*mix };
            assert_eq!(other.to_string().parse(), Ok(other));
            assert_eq!(format!("{}:{name}", mix.name).parse(), Ok(other));
        }
    }
    for wrong in ["ycsb-g", "ycsb-a:", "ycsb-a:zipf", "a", ""] {
        let message = wrong.parse::<RequestMix>().unwrap_err().to_string();
        assert!(message.contains(&format!("`{wrong}`")) && message.contains("ycsb-load, ycsb-a"));
    }
}
