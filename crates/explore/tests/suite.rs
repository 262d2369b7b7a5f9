//! The litmus files against the oracles, and both against the published verdicts.
//!
//! `SEAWALL_LITMUS_WRITE=1 cargo test -p seawall-explore --test all suite` writes the expectations
//! anew, for review.

use crate::oracles::{Rules, outcomes, outcomes_under};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_explore::Model;
use seawall_explore::litmus::{
    Column, Instruction, Litmus, MODELS, Outcome, STATES_MAX, Verdict, enumerate, suite,
};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn path(test: &Litmus) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/litmus");
    PathBuf::from(folder).join(&test.family).join(format!("{}.litmus", test.id))
}

fn write_expectations(test: &Litmus) {
    let text = std::fs::read_to_string(path(test)).unwrap();
    let head: Vec<&str> = text.split_inclusive('\n').collect();
    let is_expectation = |line: &&&str| MODELS.iter().any(|m| line.starts_with(&format!("{m}:")));
    let end = head.iter().take_while(|line| !is_expectation(line)).count();
    let mut text = head[..end].concat().trim_end().to_owned() + "\n\n";
    for model in MODELS {
        text += &test.expectation_text(model, &outcomes(test, model));
    }
    std::fs::write(path(test), text).unwrap();
}

#[test]
fn the_files_expect_what_the_oracles_find() {
    if std::env::var_os("SEAWALL_LITMUS_WRITE").is_some() {
        suite().iter().for_each(write_expectations);
        return;
    }
    for test in suite() {
        for expected in &test.expected {
            let found = outcomes(&test, &expected.model);
            let text = test.expectation_text(&expected.model, &found);
            assert_eq!(expected.outcomes.as_ref(), Some(&found), "{}: {text}", test.id);
        }
    }
}

/// The published verdicts of x86 shapes; F06 as the view model has it (PLDI'21).
const X86_ALLOWED: &str = "A01 A03 A07 A08 A09 A10 A11 A14 A15 A17 A19 A22 B04 B07 B08 C01 C04 C05 \
                           C07 C09 C11 C17 C19 D02 D04 D05 D07 D10 E02 E05 F01 F04 F09 N01 N07 N10";
const X86_FORBIDDEN: &str = "A02 A04 A05 A13 A16 A20 A21 A23 B01 B02 B03 B05 B09 B10 C03 C06 C10 \
                             C12 C13 C15 C16 C18 D01 D03 D08 D09 D11 E03 E04 F03 F05 F06 F07 N02 \
                             N03 N04 N06 N08 N09 N12";

/// Verdicts (A allowed, F forbidden) under strict, buffered epoch (Pelley), LB, HOPS, and bulk
/// mode with undo log, where only barriers end epochs.
const EPOCHS: &[(&str, &str)] = &[
    ("G01", "FAAAF"),
    ("G02", "FFFFF"),
    ("G03", "FAAAF"),
    ("G04", "AAAAF"),
    ("G05", "FFFFF"),
    ("G07", "FFFFF"),
    ("G08", "FFFFF"),
    ("G09", "FAFFF"),
    ("G10", "FAFFF"),
    ("G11", "FFFFF"),
    ("G13", "FFFFF"),
    ("G14", "AAAAF"),
    ("G15", "FFFFF"),
    ("G16", "FAFFF"),
    ("G17", "FFFFF"),
];

fn find(id: &str) -> Litmus {
    suite().into_iter().find(|test| test.id == id).unwrap_or_else(|| panic!("no test {id}"))
}

#[test]
fn the_files_give_the_published_verdicts_of_x86() {
    for (ids, verdict) in [(X86_ALLOWED, Verdict::Allowed), (X86_FORBIDDEN, Verdict::Forbidden)] {
        for id in ids.split_whitespace() {
            assert_eq!(find(id).expectation("px86").unwrap().verdict, verdict, "{id}");
        }
    }
}

#[test]
fn the_files_give_the_published_verdicts_of_the_epoch_models_but_for_one_barrier_that_waits() {
    let mut differs = Vec::new();
    for (id, verdicts) in EPOCHS {
        let test = find(id);
        for (model, letter) in
            ["strict", "epoch", "bep", "hops", "bsp"].iter().zip(verdicts.chars())
        {
            let published = if letter == 'A' { Verdict::Allowed } else { Verdict::Forbidden };
            if test.expectation(model).unwrap().verdict != published {
                differs.push((*id, *model));
            }
            if *model == "epoch" {
                let buffered = outcomes_under(&test, Rules::Epoch { waits: false });
                assert_eq!(test.verdict(&buffered), published, "{id}, with buffered barriers");
            }
        }
    }
    // Published for `epoch` is the buffered form, ours waits. In bulk mode hardware may also end an
    // epoch between two stores, so the first of them may be there alone.
    assert_eq!(differs, [("G04", "bsp"), ("G14", "bsp"), ("G16", "epoch")]);
}

#[test]
fn a_stricter_model_never_allows_more() {
    for test in suite() {
        let set = |model| test.expectation(model).unwrap().outcomes.clone().unwrap();
        for (less, more) in [("strict", "bep"), ("strict", "epoch"), ("strict", "eadr")] {
            assert!(set(less).is_subset(&set(more)), "{}: {less}, {more}", test.id);
        }
        assert!(set("eadr").is_subset(&set("px86")), "{}: a battery takes outcomes away", test.id);
        assert!(set("strict").is_subset(&set("bsp")), "{}: all that ran is a cut", test.id);
        assert!(set("bsp").is_subset(&set("bep")), "{}: a store is an epoch", test.id);
        assert_eq!(set("bep"), set("hops"), "{}", test.id);
        assert!(set("bep").is_subset(&set("strand")), "{}: strands only take order away", test.id);
        let has_strands = test.threads.iter().flatten().any(|step| *step == Instruction::Strand);
        assert!(has_strands || set("bep") == set("strand"), "{}: one strand is a thread", test.id);
    }
}

#[test]
fn memory_alone_cannot_tell_that_strict_persistency_is_late() {
    for test in suite() {
        let memory = |outcome: &Outcome| -> Vec<_> {
            let columns = test.columns.iter().zip(&outcome.0);
            columns
                .filter(|(column, _)| matches!(column, Column::Memory(_)))
                .map(|it| *it.1)
                .collect()
        };
        let memories = |model| -> BTreeSet<_> {
            test.expectation(model).unwrap().outcomes.iter().flatten().map(memory).collect()
        };
        assert_eq!(memories("bsp"), memories("strict"), "{}", test.id);
    }
}

fn reached(test: &Litmus, model: &str) -> BTreeSet<Outcome> {
    let model: Model = model.parse().unwrap();
    let reachable = enumerate(test, model, STATES_MAX);
    assert!(reachable.is_complete, "{} under {model} was cut", test.id);
    reachable.outcomes()
}

#[test]
fn every_model_reaches_exactly_the_outcomes_of_the_files() {
    let mut wrong = String::new();
    for test in suite() {
        for expected in &test.expected {
            let found = reached(&test, &expected.model);
            let allowed = expected.outcomes.as_ref().unwrap();
            let list = |set: BTreeSet<&Outcome>| {
                set.iter().map(|outcome| outcome.to_string()).collect::<Vec<_>>().join(" ")
            };
            if found != *allowed {
                wrong += &format!(
                    "{} under {}: {}\n  reached and forbidden: {}\n  allowed and not reached: {}\n",
                    test.id,
                    expected.model,
                    test.program(),
                    list(found.difference(allowed).collect()),
                    list(allowed.difference(&found).collect()),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A random test: every word of memory and every register is a column.
fn random_test(rng: &mut Xoshiro256PlusPlus) -> Litmus {
    const WORDS: [&str; 5] = ["x.a", "x.b", "y", "y", "z"];
    let threads = [1, 2, 2, 2, 3][rng.random_range(0..5)];
    let longest = [7, 4, 3][threads - 1];
    let (mut text, mut registers) = (String::new(), 0);
    for _ in 0..threads {
        let mut own = 0;
        let mut code = vec![format!("W {} 1", WORDS[rng.random_range(0..WORDS.len())])];
        while code.len() < rng.random_range(1..=longest) {
            let at = WORDS[rng.random_range(0..WORDS.len())];
            let value = rng.random_range(1..3);
            let mut register = || {
                registers += 1;
                own = registers;
                format!("r{registers}")
            };
            code.push(match rng.random_range(0..25u32) {
                0..6 => format!("W {at} {value}"),
                6..10 => format!("R {at} {}", register()),
                10 | 11 => format!("CO {at}"),
                12 => format!("CF {at}"),
                13 => "SF".into(),
                14 => "MF".into(),
                15 => "PB".into(),
                16 => "DF".into(),
                17 => format!("NT {at} {value}"),
                18 if value == 1 => format!("M64 {} {value}", &at[..1]),
                18 => format!("NT {at} {value}"),
                19 => format!("FAA {at} 1"),
                20 => format!("CAS {at} {} {value} {}", rng.random_range(0..2), register()),
                21 | 22 => "NS".into(),
                23 => "JS".into(),
                _ if own > 0 => format!("IF r{own} {}", rng.random_range(0..2)),
                _ => "PB".into(),
            });
        }
        text += &format!("thread: {}\n", code.join(" ; "));
    }
    let words = ["x.a", "x.b", "y", "z"].into_iter().filter(|name| text.contains(name));
    let words = words
        .filter(|name| text.contains(&format!(" {name} ")) || text.contains(&format!(" {name}\n")));
    let mut columns: Vec<String> = words.map(String::from).collect();
    columns.extend((1..=registers).map(|number| format!("r{number}")));
    if !columns.is_empty() {
        text += &format!("memory: {}\n", columns.join(" "));
    }
    Litmus::parse("random", text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn models_and_oracles_agree_on_random_programs() {
    let runs = std::env::var("SEAWALL_LITMUS_RANDOM").ok().and_then(|text| text.parse().ok());
    for seed in 0..runs.unwrap_or(300) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let test = random_test(&mut rng);
        for model in MODELS {
            let (found, allowed) = (reached(&test, model), outcomes(&test, model));
            if found != allowed {
                let list = |one: &BTreeSet<Outcome>, other: &BTreeSet<Outcome>| {
                    one.difference(other).map(Outcome::to_string).collect::<Vec<_>>().join(" ")
                };
                panic!(
                    "seed {seed}, {model}: {}\n  model only: {}\n  oracle only: {}",
                    test.program(),
                    list(&found, &allowed),
                    list(&allowed, &found)
                );
            }
        }
    }
}
