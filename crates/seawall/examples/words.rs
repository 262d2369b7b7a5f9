//! Words and how often they came: a structure, its crash test and its simulation.
//! `cargo run --example words -- sea wall sea`

use seawall::{Error, Map, MapField, Memory, Options, Persist, Thread};

#[derive(Clone, Copy, Persist)]
struct Words {
    counts: Map<str, u64>,
    total: u64,
}

fn count<M: Memory>(pool: &mut Thread<'_, Words, M>, word: &str) -> Result<(), Error> {
    pool.transaction(|tx, root| {
        root.at(Words::COUNTS).entry(tx, word)?.and_modify(|n| *n += 1)?.or_insert(&1)?;
        tx.update(root.at(Words::TOTAL), |total| total + 1)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = seawall::open::<Words>("words.pool", Options::default())?;
    for word in std::env::args().skip(1) {
        pool.work(|thread| count(thread, &word))?;
    }
    let counts = pool.read(|view, root| root.at(Words::COUNTS).iter(view))?;
    counts.for_each(|(word, count)| println!("{count} {word}"));
    Ok(())
}

#[cfg(test)]
#[test]
fn no_crash_separates_the_counts_from_their_total() {
    let explored = seawall::explore::<Words, _>(
        &seawall::Exploration::default(),
        |pool| count(pool, "sea"),
        |pool| (0..3).try_for_each(|n| count(pool, ["sea", "wall"][n % 2])),
        |pool| {
            pool.read(|view, root| {
                let sum = root.at(Words::COUNTS).iter(view)?.map(|(_, n)| n).sum::<u64>();
                Ok((sum, view.get(root.at(Words::TOTAL))?))
            })
        },
        |(sum, total), _| if sum == total { Ok(()) } else { Err(format!("{sum}, not {total}")) },
    );
    println!("{}", explored.unwrap());
}

#[cfg(test)]
#[test]
fn caches_that_a_battery_saves_are_faster_than_flushes() {
    let cycles = |design: &str| {
        let on = seawall::Simulation::of(design);
        let run = seawall::simulate::<Words>(&on, |_| Ok(()), |pool| count(pool, "sea"));
        run.unwrap().cycles
    };
    assert!(cycles("eadr") < cycles("clwb"));
}
