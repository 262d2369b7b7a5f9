//! Racy programs in C see what the persistency models say of x86's memory order, and nothing else.
//!
//! What `litmus.c` may see comes from `seawall litmus`, of a model in which a store is durable when
//! it is visible. The locations are persistent, so that each design orders the stores its own way.

use super::{Place, without_gcc};
use std::fs;

const ROUNDS: &str = "600";

/// A program of `litmus.c`, and the same as a litmus test.
struct Racy {
    name: &'static str,
    threads: &'static [&'static str],
    /// What an outcome consists of.
    memory: &'static str,
    /// Outcomes that are allowed, and that this core does not come to: its loads take effect as
    /// soon as they issue.
    missed: &'static [&'static str],
}

const RACY: [Racy; 10] = [
    Racy {
        name: "SB",
        threads: &["W x 1 ; R y r1", "W y 1 ; R x r2"],
        memory: "r1 r2",
        missed: &["11"],
    },
    Racy {
        name: "SB+mfence",
        threads: &["W x 1 ; MF ; R y r1", "W y 1 ; MF ; R x r2"],
        memory: "r1 r2",
        missed: &[],
    },
    Racy {
        name: "SB+xchg",
        threads: &["FAA x 1 ; R y r1", "FAA y 1 ; R x r2"],
        memory: "r1 r2",
        missed: &[],
    },
    Racy {
        name: "MP",
        threads: &["W x 1 ; W y 1", "R y r1 ; R x r2"],
        memory: "r1 r2",
        missed: &[],
    },
    Racy {
        name: "LB",
        threads: &["R x r1 ; W y 1", "R y r2 ; W x 1"],
        memory: "r1 r2",
        missed: &[],
    },
    Racy { name: "2+2W", threads: &["W x 1 ; W y 2", "W y 1 ; W x 2"], memory: "x y", missed: &[] },
    Racy {
        name: "IRIW",
        threads: &["W x 1", "W y 1", "R x r1 ; R y r2", "R y r3 ; R x r4"],
        memory: "r1 r2 r3 r4",
        missed: &["0101"],
    },
    Racy { name: "R", threads: &["W x 1 ; W y 1", "W y 2 ; R x r1"], memory: "r1 y", missed: &[] },
    Racy { name: "S", threads: &["W x 2 ; W y 1", "R y r1 ; W x 1"], memory: "r1 x", missed: &[] },
    Racy {
        name: "N6",
        threads: &["W x 1 ; R x r1 ; R y r2", "W y 2 ; W x 2"],
        memory: "r1 r2 x y",
        missed: &["2222"],
    },
];

impl Racy {
    /// What it may leave when all of its stores are visible, as `seawall litmus` has it.
    fn allowed(&self, place: &Place) -> Vec<String> {
        // A thread has read `end` when its stores are visible.
        let threads = self.threads.iter().zip(1..);
        let threads: String = threads
            .map(|(steps, number)| format!("thread: {steps} ; MF ; R end r1{number}\n"))
            .collect();
        let ends: String = (1..=self.threads.len()).map(|number| format!(" r1{number}")).collect();
        let text = format!("{threads}memory: {}{ends}\n", self.memory);
        let path = |end: &str| place.folder.path().join(format!("{}.{end}", self.name));
        fs::write(path("litmus"), text).unwrap();
        let (test, json) = (path("litmus").display().to_string(), path("json"));
        let words = ["litmus", &test, "--models", "eadr", "--designs", "none", "--json"];
        place.run(0, &[&words[..], &[json.to_str().unwrap()]].concat());
        let record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        let outcomes = record["models"][0]["outcomes"].as_array().unwrap();
        let outcomes = outcomes.iter().map(|outcome| outcome.as_str().unwrap());
        let ended = outcomes.filter(|outcome| !outcome.contains('-'));
        ended.map(|outcome| outcome[..self.memory.split(' ').count()].to_owned()).collect()
    }

    fn command(&self, outcomes: &[String]) -> String {
        let mark = |outcome: &String| match self.missed.contains(&&outcome[..]) {
            true => format!("{outcome}?"),
            false => outcome.clone(),
        };
        let outcomes: Vec<String> = outcomes.iter().map(mark).collect();
        format!("./litmus {} {ROUNDS} {}", self.name, outcomes.join(" "))
    }
}

#[test]
fn racy_programs_see_all_that_x86_allows_and_nothing_else() {
    if without_gcc("racy_programs_see_all_that_x86_allows_and_nothing_else") {
        return;
    }
    let place = Place::new();
    place.compile("litmus/litmus.c");
    for racy in RACY {
        let allowed = racy.allowed(&place);
        match racy.name {
            // Each thread's load passes its store.
            "SB" => assert!(allowed.contains(&"00".into())),
            "R" => assert!(allowed.contains(&"02".into())),
            "N6" => assert!(allowed.contains(&"1012".into())),
            name => assert!(!allowed.is_empty(), "{name}"),
        }
        let command = racy.command(&allowed);
        let words = ["compare", "--designs", "clwb,hops,lbpp", "--no-native", "--program"];
        place.run(0, &[&words[..], &[&command]].concat());
    }
}

#[test]
fn a_racy_program_that_sees_something_else_or_misses_something_is_found() {
    if without_gcc("a_racy_program_that_sees_something_else_or_misses_something_is_found") {
        return;
    }
    let place = Place::new();
    place.compile("litmus/litmus.c");
    for (outcomes, said) in [
        ("01 10 11?", "SB: 00 was seen, which is not allowed"),
        ("00 01 10 11", "SB: 11 was never seen"),
    ] {
        let command = format!("./litmus SB {ROUNDS} {outcomes}");
        let words = ["compare", "--designs", "clwb", "--no-native", "--program", &command];
        let table = place.run(1, &words);
        assert!(table.contains(said), "{table}");
    }
}
