//! Refinement: on random small programs every design leaves only what its model allows.
//!
//! A program that breaks this is made small by the property test's shrinking before it is shown.
//! Deliberately broken designs must be caught in the same way.

use super::crash::Pair;
use super::{as_small, tiny};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use seawall_explore::Model;
use seawall_explore::litmus::{Litmus, STATES_MAX, enumerate};
use seawall_sim::{Choice, DESIGNS, Machine};
use std::sync::atomic::AtomicBool;

const WORDS: [&str; 4] = ["x.a", "x.b", "y", "z"];
const FENCES: [&str; 7] = ["SF", "MF", "PB", "PB", "DF", "NS", "JS"];

/// An instruction before its register has a name.
#[derive(Clone, Debug)]
enum Act {
    Store(usize, u64),
    StoreNt(usize, u64),
    StoreLine(&'static str, u64),
    Load(usize),
    Add(usize),
    Swap(usize, u64),
    Write(&'static str, usize),
    Fence(&'static str),
}

fn act() -> impl Strategy<Value = Act> {
    let word = 0..WORDS.len();
    prop_oneof![
        6 => (word.clone(), 1..3u64).prop_map(|(word, value)| Act::Store(word, value)),
        2 => (word.clone(), 1..3u64).prop_map(|(word, value)| Act::StoreNt(word, value)),
        1 => (prop::sample::select(vec!["x", "y"]), 1..3u64)
            .prop_map(|(line, value)| Act::StoreLine(line, value)),
        4 => word.clone().prop_map(Act::Load),
        1 => word.clone().prop_map(Act::Add),
        1 => (word.clone(), 1..3u64).prop_map(|(word, value)| Act::Swap(word, value)),
        3 => (prop::sample::select(vec!["CO", "CF"]), word).prop_map(|(act, w)| Act::Write(act, w)),
        4 => prop::sample::select(FENCES.to_vec()).prop_map(Act::Fence),
    ]
}

fn programs() -> impl Strategy<Value = Vec<Vec<Act>>> {
    prop_oneof![
        prop::collection::vec(prop::collection::vec(act(), 1..8), 1..=1),
        prop::collection::vec(prop::collection::vec(act(), 1..5), 2..=2),
        prop::collection::vec(prop::collection::vec(act(), 1..4), 3..=3),
    ]
}

/// The program as a test; none if it uses no memory.
fn test_of(program: &[Vec<Act>]) -> Option<Litmus> {
    let (mut text, mut registers) = (String::new(), 0);
    let mut used = [false; WORDS.len()];
    for thread in program {
        let mut code = Vec::new();
        for act in thread {
            let mut register = || {
                registers += 1;
                format!("r{registers}")
            };
            let (word, line) = match *act {
                Act::Store(word, value) => (Some(word), format!("W {} {value}", WORDS[word])),
                Act::StoreNt(word, value) => (Some(word), format!("NT {} {value}", WORDS[word])),
                Act::StoreLine(line, value) => {
                    let word = WORDS.iter().position(|word| word.starts_with(line));
                    (word, format!("M64 {line} {value}"))
                }
                Act::Load(word) => (Some(word), format!("R {} {}", WORDS[word], register())),
                Act::Add(word) => (Some(word), format!("FAA {} 1", WORDS[word])),
                Act::Swap(word, value) => {
                    (Some(word), format!("CAS {} 0 {value} {}", WORDS[word], register()))
                }
                Act::Write(act, word) => (Some(word), format!("{act} {}", WORDS[word])),
                Act::Fence(fence) => (None, fence.into()),
            };
            if let Some(word) = word {
                used[word] = true;
            }
            code.push(line);
        }
        text += &format!("thread: {}\n", code.join(" ; "));
    }
    let words =
        WORDS.iter().zip(used).filter(|(_, used)| *used).map(|(word, _)| (*word).to_owned());
    let columns: Vec<String> = words.chain((1..=registers).map(|r| format!("r{r}"))).collect();
    if columns.is_empty() {
        return None;
    }
    text += &format!("memory: {}\n", columns.join(" "));
    let test = Litmus::parse("random", text.as_bytes());
    Some(test.unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Programs tried for each design; more for a longer look.
fn programs_tried() -> u32 {
    std::env::var("SEAWALL_REFINEMENT_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

/// The smallest program found for which the design leaves what `model` forbids, in words.
fn refuted(design: &str, model: Model, programs_tried: u32, crashes: u64) -> Option<String> {
    let desktop = Machine::load("desktop").expect("it is there");
    let machines = [("tiny", tiny(&desktop)), ("desktop", desktop)];
    let design = Choice::parse(design).expect("a design");
    let config = Config { cases: programs_tried, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&programs(), |program| {
        let Some(test) = test_of(&program) else { return Ok(()) };
        let reached = enumerate(&test, model, STATES_MAX);
        prop_assume!(reached.is_complete);
        let allowed = reached.outcomes();
        let is_sc = !matches!(model, Model::Px86 | Model::Eadr);
        let pair = Pair {
            test: &test,
            design: &design,
            machines: &machines,
            allowed: &allowed,
            is_sc,
            seed: 1,
        };
        let crashes = pair.run(crashes, &AtomicBool::new(false)).expect("the simulation ends");
        prop_assert!(crashes.violation.is_none(), "{}", test.program());
        Ok(())
    });
    match result {
        Ok(()) => None,
        Err(TestError::Fail(_, program)) => test_of(&program).map(|test| test.program()),
        Err(TestError::Abort(why)) => panic!("the property test gave up: {why}"),
    }
}

#[test]
fn designs_leave_only_what_their_models_allow_on_random_programs() {
    for entry in DESIGNS {
        let Some(model) = entry.model else { continue };
        let design = as_small(entry.name);
        assert_eq!(refuted(&design, model, programs_tried(), 40), None, "{design}");
    }
}

#[test]
fn broken_designs_are_refuted_by_small_programs() {
    for (design, model) in [
        ("volatile", Model::Bep),
        ("volatile", Model::Px86),
        ("lb:flaw='keeps-epochs-whole'", Model::Bep),
        ("lb:flaw='ignores-inter-conflicts'", Model::Bep),
        ("clwb:flaw='fences-early'", Model::Px86),
        ("clwb:flaw='forgets-streams'", Model::Px86),
        ("bsp-lbpp:stores=2:records=4:flaw='undoes-all'", Model::Bsp),
        ("bsp-lb:stores=2:records=4:flaw='ignores-inter-conflicts'", Model::Bsp),
        ("bsp-lbpp:stores=5:log=false", Model::Bsp),
        ("bsp-naive:flaw='ignores-order'", Model::Bsp),
        ("bsp-naive", Model::Strict),
        ("lb", Model::Bsp),
        ("lb", Model::Strict),
        ("clwb", Model::Eadr),
    ] {
        let found = refuted(design, model, 400, 60);
        let program = found.unwrap_or_else(|| panic!("{design} passes for {model}"));
        let instructions = program.split([';', '|']).count();
        assert!(instructions <= 10, "{design}: it could be smaller: {program}");
    }
}
