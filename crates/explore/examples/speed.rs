//! How many crash images a second this machine checks, on a few small structures.
//!
//! `cargo run --release -p seawall-explore --example speed`

use seawall_explore::{Model, Schedule, Search, Traced, record, search};
use seawall_memory::{Addr, Image, Memory};
use std::time::Instant;

const BUCKETS: u64 = 64;
const SLOTS: u64 = 3;

/// A bucket is a line of keys with a bitmap in front, and a line of values.
fn bucket(key: u64) -> Addr {
    Addr::pm(128 * (1 + key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % BUCKETS))
}

fn insert(memory: &Traced<'_>, key: u64) {
    let at = bucket(key);
    let used: u64 = memory.load(at);
    let slot = used.trailing_ones() as u64;
    if slot < SLOTS {
        memory.store(at.plus(64 + 8 * slot), key + 1);
        memory.store(at.plus(8 + 8 * slot), key);
        memory.flush(at.plus(64), 64);
        memory.order();
        memory.store(at, used | 1 << slot);
        memory.flush(at, 8);
        memory.order();
    }
}

/// What recovery and the invariants read: all buckets.
fn check(memory: &impl Memory) -> Result<(), String> {
    for index in 1..=BUCKETS {
        let at = Addr::pm(128 * index);
        let used: u64 = memory.load(at);
        for slot in (0..SLOTS).filter(|slot| used >> slot & 1 == 1) {
            let key: u64 = memory.load(at.plus(8 + 8 * slot));
            if memory.load::<u64>(at.plus(64 + 8 * slot)) != key + 1 {
                return Err(format!("key {key} has the wrong value"));
            }
        }
    }
    Ok(())
}

fn append(memory: &Traced<'_>, index: u64) {
    let at = Addr::pm(64 * (2 + index));
    memory.write(at, &[index as u8 + 1; 40]);
    memory.flush(at, 40);
    memory.order();
    memory.store(Addr::pm(64), index + 1);
    memory.persist(Addr::pm(64), 8);
}

fn check_log(memory: &impl Memory) -> Result<(), String> {
    let entries: u64 = memory.load(Addr::pm(64));
    let last = entries.saturating_sub(3)..entries;
    for index in last {
        let mut bytes = [0; 40];
        memory.read(Addr::pm(64 * (2 + index)), &mut bytes);
        if bytes != [index as u8 + 1; 40] {
            return Err(format!("entry {index} is torn"));
        }
    }
    Ok(())
}

fn main() -> Result<(), seawall_explore::RunError> {
    let schedule = Schedule::default();
    let table = record(Image::new(128 * (BUCKETS + 1), 0), &schedule, |memory| {
        (0..100).for_each(|key| insert(memory, key));
    })?;
    let log = record(Image::new(64 * 500, 0), &schedule, |memory| {
        (0..400).for_each(|index| append(memory, index));
    })?;
    println!("program        model   images  checked  seconds   images/s  coverage");
    for model in [Model::Px86, Model::Bep] {
        for (name, trace) in [("table of 100", &table), ("log of 400", &log)] {
            let start = Instant::now();
            let options = Search { thorough: true, ..Search::new(model) };
            let outcome = search(trace, &options, &|image, _| match name {
                "log of 400" => check_log(image),
                _ => check(image),
            });
            let seconds = start.elapsed().as_secs_f64();
            let rate = outcome.checked as f64 / seconds;
            let (images, checked) = (outcome.generated, outcome.checked);
            println!(
                "{name:<14} {:<6} {images:>7} {checked:>8} {seconds:>8.3} {rate:>10.0}  {outcome}",
                model.name()
            );
        }
    }
    Ok(())
}
