//! Every structure holds every string, and every log every record.

use super::*;
use seawall_memory::Image;

fn input(structure: Structure, log: Log, value_bytes: u64, records: u64) -> Input {
    Input { structure, log, value_bytes, records, work: (10, 1), seed: 3 }
}

#[test]
fn every_structure_holds_every_string_that_was_put_into_it() {
    for structure in Structure::ALL {
        for value_bytes in [4, 12, 64] {
            let records = 5000;
            let input = input(structure, Log::Uncached, value_bytes, records);
            let memory = Image::new(input.pm_bytes(), 64);
            let mut table = input.table();
            let string = |key: u32| {
                let bytes = key.to_le_bytes().into_iter().cycle();
                bytes.take(value_bytes as usize).collect::<Vec<u8>>()
            };
            for number in 0..records as u32 {
                let key = structure.key(number);
                table.put(&memory, key, &string(key));
            }
            for number in 0..records as u32 {
                let key = structure.key(number);
                let at = table.find(&memory, key).expect("it is there");
                let mut found = vec![0; value_bytes as usize];
                memory.read(at, &mut found);
                assert_eq!(found, string(key), "{structure}: {key}");
            }
            if let Table::RbTree(tree) = &table {
                let depth = tree.depth(&memory);
                assert!((13..=26).contains(&depth), "{depth} for 5000 nodes");
            }
        }
    }
}

#[test]
fn every_log_holds_every_record_in_order() {
    for structure in [Structure::Array, Structure::BPlus] {
        for log in Log::ALL {
            for value_bytes in [4, 64, 256] {
                let input = input(structure, log, value_bytes, 300);
                let memory = Image::new(input.pm_bytes(), 64);
                input.prepare(&memory);
                input.run(&memory);
                let mut characters = Characters(input.seed);
                for number in 0..300 {
                    let at = input.log_at() + number * log.record_bytes(value_bytes);
                    assert_eq!(memory.load::<u32>(Addr::pm(at)), structure.key(number as u32));
                    let mut found = vec![0; value_bytes as usize];
                    memory.read(Addr::pm(at + KEY_BYTES), &mut found);
                    let mut expected = found.clone();
                    characters.fill(&mut expected);
                    assert_eq!(found, expected, "{log}, record {number}");
                }
            }
        }
    }
}

#[test]
fn a_record_takes_whole_lines_where_its_log_has_them() {
    assert_eq!(Log::Uncached.record_bytes(60), 64);
    assert_eq!(Log::Lines(RouteChoice::Adaptive).record_bytes(60), 64);
    assert_eq!(Log::Lines(RouteChoice::Cached).record_bytes(64), 128);
    assert!(!Log::CachedUnflushed.is_durable() && Log::CachedFlushed.is_durable());
}

#[test]
fn names_are_read_and_unknown_ones_told() {
    for log in Log::ALL {
        assert_eq!(log.name().parse(), Ok(log));
    }
    for structure in Structure::ALL {
        assert_eq!(structure.name().parse(), Ok(structure));
    }
    let error = "btree".parse::<Structure>().unwrap_err().to_string();
    assert!(error.contains("'btree'") && error.contains("rbtree, bplus"), "{error}");
}
