//! The undo log of strands is atomic under every model, and its planted bugs are found.

use seawall_explore::{
    CrashImage, CrashPoint, Model, Reached, Schedule, Search, check, record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::Arena;
use seawall_workloads::strand_log::{StrandFlaw, StrandLogs, StrandTx};

/// Two of them share a line.
const WORDS: [u64; 4] = [0, 64, 72, 128];

fn place() -> (Arena, StrandLogs, Addr) {
    let mut arena = Arena::new();
    let logs = StrandLogs::place(&mut arena, 1, WORDS.len() as u64);
    let data = arena.pm(192);
    (arena, logs, data)
}

/// Three transactions over all words; the second is aborted. Returns the extent of the search, or
/// the violation.
fn explore(model: Model, flaw: StrandFlaw) -> Result<Reached, String> {
    let (arena, logs, data) = place();
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    let trace = record(image, &Schedule::default(), move |memory| {
        for number in 1..=3u64 {
            let mut tx = StrandTx::begin(memory, &logs, flaw);
            for word in WORDS {
                tx.store(data.plus(word), number);
            }
            tx.store(data, number);
            if number == 2 {
                tx.abort()
            } else {
                tx.commit()
            }
            memory.output(number);
        }
    })
    .expect("it ends");
    let recover = |image: &CrashImage| {
        logs.recover(image, image.pm_bytes()).map_err(|error| error.to_string())?;
        Ok(WORDS.map(|word| image.load::<u64>(data.plus(word))))
    };
    let judge = |found: &[u64; 4], point: &CrashPoint| {
        let allowed: &[u64] = [&[0, 1][..], &[1], &[1, 3], &[3]][point.outputs[0] as usize];
        match allowed.iter().any(|value| *found == [*value; 4]) {
            true => Ok(()),
            false => Err(format!("{found:?} after {} transactions", point.outputs[0])),
        }
    };
    let outcome = search(&trace, &Search::new(model), &check(recover, judge));
    match outcome.finding {
        None => Ok(outcome.reached),
        Some(finding) => Err(finding.to_string()),
    }
}

#[test]
fn no_crash_leaves_a_part_of_a_transaction_under_any_model() {
    for model in Model::all() {
        explore(model, StrandFlaw::None).unwrap_or_else(|finding| panic!("{model}: {finding}"));
    }
}

#[test]
fn a_word_that_is_not_behind_its_old_value_is_found() {
    for model in [Model::Px86, Model::Bep, Model::Strand] {
        assert!(explore(model, StrandFlaw::NoOrder).is_err(), "{model}");
    }
}

#[test]
fn a_strand_too_many_or_a_join_too_few_is_found_where_there_are_strands() {
    for flaw in [StrandFlaw::SplitsPairs, StrandFlaw::NoJoin] {
        assert!(explore(Model::Strand, flaw).is_err(), "{flaw:?}");
        for model in [Model::Px86, Model::Bep, Model::Hops] {
            explore(model, flaw).unwrap_or_else(|finding| panic!("{model}, {flaw:?}: {finding}"));
        }
    }
}
