//! Small programs with a known answer: may a crash leave this memory, or not?
//!
//! The x86 tests are those that the seam can say and a sequentially consistent run can decide: no
//! `clflush`, no non-temporal stores, no outcome that needs a store buffer or that asks for a
//! register. Their verdicts follow Px86 (Raad et al., POPL'20; Cho et al., PLDI'21). `MF` is a
//! locked operation on DRAM. The other tests are of buffered epoch persistency as in LB
//! (MICRO'15). Threads run under many seeds; an allowed memory must turn up under one
//! of them, a forbidden one under none.

use seawall_explore::{Model, Reached, Schedule, Traced, reachable, record};
use seawall_memory::{Addr, Image, Memory};
use std::collections::{BTreeMap, BTreeSet};

const ALLOWED: bool = true;
const FORBIDDEN: bool = false;

const X86: &[(&str, &str, &str, bool)] = &[
    ("A01", "W x 1 ; W y 1", "x=0 y=1", ALLOWED),
    ("A03", "W x 1 ; CO x ; W y 1", "x=0 y=1", ALLOWED),
    ("A04", "W x 1 ; CO x ; SF ; W y 1", "x=0 y=1", FORBIDDEN),
    ("A05", "W x 1 ; CO x ; MF ; W y 1", "x=0 y=1", FORBIDDEN),
    ("A07", "W x 1 ; SF ; W y 1", "x=0 y=1", ALLOWED),
    ("A08", "W x 1 ; MF ; W y 1", "x=0 y=1", ALLOWED),
    ("A09", "CO x ; W x 1 ; SF ; W y 1", "x=0 y=1", ALLOWED),
    ("A10", "W x 1 ; CO y ; SF ; W y 1", "x=0 y=1", ALLOWED),
    ("A13", "W x 1 ; W y 1 ; CO x ; CO y ; SF ; W z 1", "z=1 y=0", FORBIDDEN),
    ("A14", "W x 1 ; W y 1 ; CO x ; CO y ; SF ; W z 1", "x=0 y=1", ALLOWED),
    ("A15", "W x 1 ; CO x ; W x 2 ; SF ; W y 1", "x=1 y=1", ALLOWED),
    ("A16", "W x 1 ; CO x ; W x 2 ; SF ; W y 1", "x=0 y=1", FORBIDDEN),
    ("A21", "W x 1 ; CO x ; SF ; W y 1 ; CO y ; SF ; W z 1", "z=1 x=0", FORBIDDEN),
    ("A22", "W x 1 ; CO x ; W y 1 ; CO y ; SF ; W z 1", "y=1 x=0", ALLOWED),
    ("B01", "W x.a 1 ; W x.b 1", "x.a=0 x.b=1", FORBIDDEN),
    ("B02", "W x.a 1 ; W x.b 1 ; W x.a 2", "x.a=2 x.b=0", FORBIDDEN),
    ("B03", "W x.a 1 ; W x.b 1 ; CO x.a ; SF ; W y 1", "y=1 x.b=0", FORBIDDEN),
    ("B04", "W x.a 1 ; CO x.a ; W x.b 1 ; SF ; W y 1", "y=1 x.b=0", ALLOWED),
    ("B05", "W x.a 1 ; CO x.a ; W x.b 1 ; SF ; W y 1", "y=1 x.a=0", FORBIDDEN),
    ("B07", "W x.a 1 ; W y 1 ; W x.b 1", "x.b=1 y=0", ALLOWED),
    ("B08", "W x.a 1 | W x.b 1", "x.a=0 x.b=1", ALLOWED),
    ("B09", "W x.a 1 | R x.a r1 ; IF r1 1 ; W x.b 1", "x.a=0 x.b=1", FORBIDDEN),
    ("B10", "W x.a 1 ; CO x.a ; W x.b 1", "x.a=0 x.b=1", FORBIDDEN),
    ("C01", "W x 1 | R x r1 ; IF r1 1 ; W y 1", "x=0 y=1", ALLOWED),
    ("C03", "W x 1 | R x r1 ; IF r1 1 ; CO x ; SF ; W y 1", "x=0 y=1", FORBIDDEN),
    ("C04", "W x 1 | R x r1 ; IF r1 1 ; CO x ; W y 1", "x=0 y=1", ALLOWED),
    ("C05", "W x 1 ; CO x ; SF | R x r1 ; IF r1 1 ; W y 1", "x=0 y=1", ALLOWED),
    ("C07", "W x 1 ; CO x ; W f 1 | R f r1 ; IF r1 1 ; W y 1", "x=0 y=1", ALLOWED),
    ("C09", "W x 1 ; CO x ; W f 1 | R f r1 ; IF r1 1 ; SF ; W y 1", "x=0 y=1", ALLOWED),
    ("C10", "W x 1 ; W f 1 | R f r1 ; IF r1 1 ; CO x ; SF ; W y 1", "x=0 y=1", FORBIDDEN),
    ("C11", "W x 1 ; W f 1 | R f r1 ; IF r1 1 ; CO x ; W y 1", "x=0 y=1", ALLOWED),
    ("C13", "W x 1 ; W f 1 | R f r1 ; IF r1 1 ; CO x ; CO f ; SF ; W y 1", "y=1 x=0", FORBIDDEN),
    (
        "C16",
        "W x 1 ; MF ; CO y ; SF ; W z 1 | W y 1 ; MF ; CO x ; SF ; W w 1",
        "z=1 w=1 x=0 y=0",
        FORBIDDEN,
    ),
    (
        "D02",
        "CAS l 0 1 r1 ; IF r1 0 ; W x 1 ; W y 1 ; CO x ; CO y ; W l 0 | \
         CAS l 0 1 r2 ; IF r2 0 ; R x r3 ; IF r3 1 ; W z 1",
        "z=1 x=0",
        ALLOWED,
    ),
    (
        "D03",
        "CAS l 0 1 r1 ; IF r1 0 ; W x 1 ; CO x ; SF ; W l 0 | \
         CAS l 0 1 r2 ; IF r2 0 ; R x r3 ; IF r3 1 ; W z 1",
        "z=1 x=0",
        FORBIDDEN,
    ),
    ("D04", "CAS l 0 1 r1 ; W x 1", "l=0 x=1", ALLOWED),
    ("D05", "FAA x 1 ; W y 1", "x=0 y=1", ALLOWED),
    ("D07", "FAA x 1 ; CO x ; FAA x 1 ; W y 1", "x=1 y=1", ALLOWED),
    ("D08", "W x 1 ; CO x ; CAS l 0 1 r1 ; IF r1 0 ; W y 1", "x=0 y=1", FORBIDDEN),
    ("D09", "W p 1 ; CO p ; CAS h 0 1 r1", "h=1 p=0", FORBIDDEN),
    ("D10", "W p 1 ; CO p ; W h 1", "h=1 p=0", ALLOWED),
    (
        "D11",
        "W p 1 ; CO p ; CAS h 0 1 r1 ; IF r1 0 | CAS h 0 2 r2 ; IF r2 1 ; W y 1",
        "y=1 p=0",
        FORBIDDEN,
    ),
    ("E05", "W x 1 ; CO x ; R x r1 ; W o 1", "o=1 x=0", ALLOWED),
    ("F01", "W x 1 ; R x r1 ; W y 1", "x=0 y=1", ALLOWED),
    ("F09", "W x 1 ; W y 1 | W y 2 ; W x 2", "x=1 y=2", ALLOWED),
];

const LB: &[(&str, &str, &str, bool)] = &[
    ("G01", "W x 1 ; W y 1", "x=0 y=1", ALLOWED),
    ("G02", "W x 1 ; PB ; W y 1", "x=0 y=1", FORBIDDEN),
    ("G03", "W x 1 ; PB ; W y 1 ; W z 1", "z=1 y=0", ALLOWED),
    ("G04", "W x 1 ; W y 1 ; PB", "x=1 y=0", ALLOWED),
    ("G05", "W x 1 ; W x 2 ; PB ; W y 1", "x=1 y=1", FORBIDDEN),
    ("G07", "W x 1 | R x r1 ; IF r1 1 ; PB ; W y 1", "x=0 y=1", FORBIDDEN),
    ("G08", "W x 1 ; PB ; W f 1 | R f r1 ; IF r1 1 ; PB ; W y 1", "x=0 y=1", FORBIDDEN),
    ("G09", "W x 1 ; W f 1 | R f r1 ; IF r1 1 ; W y 1", "x=0 y=1", FORBIDDEN),
    ("G10", "W x 1 ; W f 1 | R f r1 ; IF r1 1 ; PB ; W y 1", "x=0 y=1", FORBIDDEN),
    ("G11", "W x 1 ; PB ; W y 1 | W y 2 ; PB ; W z 1", "z=1 x=1 y=0", FORBIDDEN),
    ("G13", "W x 1 ; DF ; W y 1 ; PB ; W z 1", "z=1 y=0", FORBIDDEN),
    ("G14", "W x 1 ; W y 1 ; PB ; W x 2 ; W y 2 ; PB", "x=2 y=1", ALLOWED),
    ("G15", "W x 1 ; W y 1 ; PB ; W x 2 ; W y 2 ; PB", "x=2 y=0", FORBIDDEN),
    ("G16", "W x 1 ; PB ; W y 1 | R y r1 ; IF r1 1 ; W z 1", "z=1 x=0", FORBIDDEN),
    ("G17", "R y r1 ; W x 1 | W y 1 ; PB ; W z 1", "z=1 y=0", FORBIDDEN),
];

const NAMES: &[&str] = &["x", "y", "z", "w", "f", "o", "l", "p", "h"];

/// Each name is a line; `.b` is its second word.
fn place(name: &str) -> Addr {
    let (line, part) = name.split_once('.').unwrap_or((name, "a"));
    let line = NAMES.iter().position(|known| *known == line).expect("a known name");
    Addr::pm(64 * (1 + line as u64) + if part == "b" { 8 } else { 0 })
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

fn run(memory: &Traced<'_>, program: &str) {
    let mut registers = BTreeMap::new();
    for instruction in program.split(';') {
        let words: Vec<&str> = instruction.split_whitespace().collect();
        match words.as_slice() {
            ["W", at, value] => memory.store(place(at), number(value)),
            ["R", at, register] => {
                registers.insert(*register, memory.load(place(at)));
            }
            ["IF", register, value] => {
                if registers[register] != number(value) {
                    return;
                }
            }
            ["CO", at] => memory.flush(place(at), 8),
            ["SF" | "PB"] => memory.order(),
            ["DF"] => memory.drain(),
            ["MF"] => {
                memory.fetch_add(Addr::dram(0), 1);
            }
            ["FAA", at, by] => {
                memory.fetch_add(place(at), number(by));
            }
            ["CAS", at, old, new, register] => {
                let found = memory.compare_exchange(place(at), number(old), number(new));
                registers.insert(register, found.unwrap_or_else(|other| other));
            }
            other => panic!("unknown instruction {other:?}"),
        }
    }
}

/// All memories that a crash may leave at `names`, over enough schedules for these programs.
fn memories(program: &'static str, model: Model, names: &[&str]) -> BTreeSet<Vec<u64>> {
    let threads: Vec<&'static str> = program.split('|').collect();
    let places: Vec<Addr> = names.iter().map(|name| place(name)).collect();
    let mut found = BTreeSet::new();
    for seed in 0..if threads.len() == 1 { 1 } else { 200 } {
        let schedule = Schedule { threads: threads.len(), seed, ..Schedule::default() };
        let programs = threads.clone();
        let trace = record(Image::new(1024, 64), &schedule, move |memory| {
            run(memory, programs[memory.thread()]);
        });
        let (images, outcome) = reachable(&trace.expect("litmus tests end"), model, &places);
        assert_eq!(outcome.reached, Reached::Complete, "{program}");
        found.extend(images);
    }
    found
}

fn judge(tests: &[(&'static str, &'static str, &'static str, bool)], model: Model) {
    for (id, program, question, allowed) in tests {
        let parts: Vec<(&str, &str)> = question
            .split_whitespace()
            .map(|part| part.split_once('=').expect("name=value"))
            .collect();
        let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
        let asked: Vec<u64> = parts.iter().map(|(_, value)| number(value)).collect();
        let found = memories(program, model, &names).contains(&asked);
        assert_eq!(found, *allowed, "{id} under {model}: {program}, may {question} be?");
    }
}

#[test]
fn px86_allows_what_the_published_litmus_tests_allow() {
    judge(X86, Model::Px86);
}

#[test]
fn buffered_epoch_persistency_allows_what_its_litmus_tests_allow() {
    judge(LB, Model::Bep);
}

#[test]
fn strict_persistency_forbids_every_reordering() {
    let orders = ["A01", "A03", "A07", "A08", "A10", "B07", "D04", "D05", "D10", "F01"];
    let tests: Vec<_> = X86.iter().filter(|test| orders.contains(&test.0)).collect();
    assert_eq!(tests.len(), orders.len());
    for model in [Model::Strict, Model::Eadr] {
        for (id, program, question, _) in &tests {
            judge(&[(*id, *program, *question, FORBIDDEN)], model);
        }
    }
}

#[test]
fn the_images_of_small_programs_are_counted_exactly() {
    let count = |program, model| memories(program, model, &["x", "y", "z"]).len();
    assert_eq!(count("W x 1 ; W y 1 ; W z 1", Model::Px86), 8);
    assert_eq!(count("W x 1 ; W y 1 ; W z 1", Model::Bep), 8);
    assert_eq!(count("W x 1 ; W y 1 ; W z 1", Model::Strict), 4);
    assert_eq!(count("W x 1 ; CO x ; SF ; W y 1 ; CO y ; SF ; W z 1", Model::Px86), 4);
    assert_eq!(count("W x 1 ; PB ; W y 1 ; PB ; W z 1", Model::Bep), 4);
    assert_eq!(count("W x 1 ; PB ; W y 1 ; PB ; W z 1", Model::Px86), 8);
    assert_eq!(count("W x 1 ; W x 2 ; W y 1 ; PB ; W z 1", Model::Bep), 3 * 2 + 1);
}
