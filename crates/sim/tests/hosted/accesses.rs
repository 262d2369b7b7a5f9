//! Accesses that are not one aligned word, and those to frames.

use super::{alone, boxed, dram, host, map, pm, watched, words};
use seawall_memory::{Memory, MemoryExt};
use seawall_sim::{Crash, Cycle, DESIGNS, Machine, Observer};

#[test]
fn unaligned_bytes_of_a_line_are_loaded_and_stored() {
    for design in DESIGNS {
        let outcome = alone(design.name, |memory| {
            for bytes in 1..=8 {
                for start in 0..=64 - bytes {
                    let value = 0x1122_3344_5566_7788 + start;
                    memory.store_words(pm(0), &[u64::MAX; 8], &[u64::MAX; 8]);
                    memory.store_bytes(pm(start), bytes as usize, value);
                    let mask = u64::MAX >> (64 - 8 * bytes);
                    assert_eq!(memory.load_bytes(pm(start), bytes as usize), value & mask);
                    if start > 0 {
                        assert_eq!(memory.load_bytes(pm(start - 1), 1), 0xff);
                    }
                }
            }
            memory.store_bytes(pm(5), 8, 0);
        });
        let expected = [u64::MAX >> 24, u64::MAX << 40];
        assert_eq!(words(&outcome.pm)[..2], expected, "{}", design.name);
    }
}

#[test]
fn a_wide_access_is_one_instruction_and_takes_one_place() {
    let outcome = alone("clwb", |memory| {
        let values = [1, 2, 3, 4, 5, 6, 7, 8];
        memory.store_words(pm(64), &values, &[u64::MAX; 8]);
        memory.store_words(pm(144), &[9, 10], &[u64::MAX, 0xff]);
        let mut found = [0; 8];
        memory.load_words(pm(64), &mut found);
        assert_eq!(found, values, "from the store buffer");
        memory.full_fence();
        memory.load_words(pm(64), &mut found);
        assert_eq!(found, values, "from the cache");
        memory.load_words(pm(144), &mut found[..2]);
        assert_eq!(found[..2], [9, 10]);
    });
    let counters = outcome.counters;
    assert_eq!((counters.references, counters.loads, counters.stores), (5, 3, 2));
    // None of these waits for a place.
    let places = Machine::load("desktop").unwrap().core.store_buffer as u64;
    alone("volatile", move |memory| {
        for line in 0..places {
            memory.store_words(pm(64 * line), &[line; 8], &[u64::MAX; 8]);
        }
        assert_eq!(memory.measured().stalls[0].total(), 0);
    });
}

/// The images of crashes at each cycle while a line is stored.
struct Torn(Vec<Vec<u64>>);

impl Observer for Torn {
    fn output(&mut self, _: usize, number: u64, now: Cycle) -> Option<Cycle> {
        (number > 0).then_some(now)
    }
    fn crash(&mut self, _: Cycle, crash: Crash) {
        self.0.push(words(&crash.pm)[..8].to_vec());
    }
}

#[test]
fn no_crash_and_no_core_sees_a_part_of_a_wide_store() {
    for (design, past) in DESIGNS.iter().flat_map(|design| [(design, false), (design, true)]) {
        let writer = boxed(move |memory| {
            map(memory);
            for value in 1..30 {
                if past {
                    memory.write_line(pm(0), [value; 8]);
                } else {
                    memory.store_words(pm(0), &[value; 8], &[u64::MAX; 8]);
                    memory.flush(pm(0), 64);
                }
                memory.order();
            }
        });
        let reader = boxed(|memory| {
            map(memory);
            for number in 0..200 {
                let mut seen = [0; 8];
                memory.load_words(pm(0), &mut seen);
                assert_eq!(seen, [seen[0]; 8]);
                memory.output(1 + number);
                memory.work(20);
            }
        });
        let machine = Machine::load("desktop").unwrap();
        let (_, torn) = watched((&machine, design.name), Torn(vec![]), vec![writer, reader]);
        assert_eq!(torn.borrow().0.len(), 200);
        for image in &torn.borrow().0 {
            assert!(image.iter().all(|word| *word == image[0]), "{}: {image:?}", design.name);
        }
    }
}

#[test]
fn accesses_to_a_frame_are_charged_without_being_performed_each() {
    let run = |loads, stores| {
        alone("volatile", move |memory| {
            for number in 0..100 {
                memory.frame(dram(8), loads, stores, number);
                memory.work(20);
            }
            memory.frame(dram(8), 1, 0, 0);
            assert_eq!(memory.load::<u64>(dram(8)), if stores > 0 { 99 } else { 0 });
        })
    };
    let (few, many) = (run(1, 1), run(9, 7));
    let counters = &many.counters;
    assert_eq!((counters.loads, counters.stores, counters.references), (902, 700, 1602));
    let width = u64::from(Machine::load("desktop").unwrap().core.width);
    let slots = 100 * (8 + 6) / width;
    assert!((slots..slots + 50).contains(&(many.cycles - few.cycles)), "{few:?} {many:?}");
    assert_eq!(run(0, 0).counters.stores, 0);
    let most = u64::from(u16::MAX) + 5;
    assert_eq!(
        alone("volatile", move |memory| memory.frame(dram(0), 0, most as u32, 1)).counters.stores,
        most
    );
}

#[test]
fn stores_to_frames_are_stores_of_an_epoch_of_hardware() {
    let epochs = |stores| {
        let run = alone("bsp-lbpp:stores=50", move |memory| {
            for number in 0..200 {
                memory.frame(pm(64 * (number % 8)), 0, stores, number);
            }
        });
        run.counters.epochs
    };
    let (few, many) = (epochs(1), epochs(10));
    // The last one has not ended.
    assert_eq!((few, many), (3, 39));
}

#[test]
fn a_store_that_no_other_core_can_see_yet_is_pending() {
    let storer = boxed(|memory| {
        map(memory);
        memory.store(pm(64), 1u64);
        assert!(!memory.is_pending(pm(64)), "its own");
        memory.work(4000);
    });
    let asker = boxed(|memory| {
        map(memory);
        memory.work(4);
        memory.load::<u64>(pm(4096));
        assert!(memory.is_pending(pm(68)), "the same word");
        assert!(!memory.is_pending(pm(72)) && !memory.is_pending(pm(1 << 30)));
        memory.work(8000);
        memory.load::<u64>(pm(4096));
        assert!(!memory.is_pending(pm(64)));
    });
    host("desktop", "clwb", vec![storer, asker]).unwrap();
}
