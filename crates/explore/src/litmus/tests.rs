//! Reading of litmus files.

use super::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn read(text: &str) -> Result<Litmus, String> {
    Litmus::parse("my/own.litmus", text.as_bytes()).map_err(|error| error.to_string())
}

fn refused(text: &str, said: &[&str]) {
    let error = read(text).expect_err(text);
    for part in said {
        assert!(error.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn a_file_reads_as_it_is_written() {
    let text = "title: a # comment\nsource: own\nthread: W x 1 ; CO x\n  ; SF ; W y.b 1\n\
                thread: R y.b r1 ; IF r1 1\nmemory: x y.b r1\nquestion: x=0 & r1=1\n\
                px86: forbidden; 00- 10-\n  11- 111 110\nbep: forbidden\n";
    let test = read(text).unwrap();
    assert_eq!((test.id.as_str(), test.title.as_str()), ("own", "a"));
    assert_eq!(test.program(), "W x 1 ; CO x ; SF ; W y.b 1 | R y.b r1 ; IF r1 1");
    assert_eq!(test.question_text(), "x=0 & r1=1");
    let px86 = test.expectation("px86").unwrap();
    let outcomes = px86.outcomes.as_ref().unwrap();
    assert_eq!(outcomes.len(), 5);
    assert_eq!(test.expectation_text("px86", outcomes), "px86:   forbidden; 00- 10- 11- 110 111\n");
    assert_eq!(test.expectation("bep").unwrap().outcomes, None);
}

#[test]
fn a_test_needs_nothing_but_threads() {
    let test = read("thread: W x 1 ; FAA y 2 ; R z r1\n").unwrap();
    assert_eq!(test.columns.len(), 2, "what is stored to");
    assert!(test.expected.is_empty() && test.question.is_empty());
}

#[test]
fn a_wide_store_stands_for_both_orders_of_its_halves() {
    let test = read("thread: W2 x.a x.b 1 ; W y 1\nthread: W2 z.a z.b 2\n").unwrap();
    let variants = test.variants();
    assert_eq!(variants.len(), 4);
    assert!(variants.iter().all(|threads| threads[0].len() == 3 && threads[1].len() == 2));
    let first: BTreeSet<String> = variants.iter().map(|threads| test.thread(&threads[0])).collect();
    let halves = ["W x.a 1 ; W x.b 1 ; W y 1", "W x.b 1 ; W x.a 1 ; W y 1"];
    assert_eq!(first, halves.map(String::from).into());
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_remedy() {
    refused("", &["my/own.litmus:1:", "no `thread:`"]);
    refused("thread: W x 1\nthred: W y 1\n", &["own.litmus:2:", "`thred`", "thread"]);
    refused("thread W x 1\n", &["no colon"]);
    refused("  thread: W x 1\n", &["begin it at the margin"]);
    refused("thread: WR x 1\n", &["unknown instruction `WR`", "W x v"]);
    refused("thread: W x\n", &["write `W x v`"]);
    refused("thread: SF x\n", &["write `SF`"]);
    refused("thread: W x 1 ;; W y 1\n", &["empty instruction"]);
    refused("thread: W x 10000\n", &["`10000`", "0 to 9999"]);
    refused("thread: W x -1\n", &["`-1`"]);
    refused("thread: W x +1\n", &["`+1`"]);
    refused("thread: W x.i 1\n", &["`x.i`", ".a to .h"]);
    refused("thread: W r1 1\n", &["`r1` is no location"]);
    refused("thread: W 9 1\n", &["`9` is no location"]);
    refused("thread: R x y\n", &["`y` is no register"]);
    refused("thread: IF r1 1\n", &["`r1`", "read it first"]);
    refused("thread: W2 x x.a 1\n", &["twice"]);
    refused("thread: R x r1\nthread: R x r1\n", &[":2:", "thread 1"]);
    refused("thread: R x r1\nthread: W y 1 ; IF r1 1\n", &["another thread"]);
    refused("thread: W x 1\nmemory: x y\n", &[":2:", "no thread uses y"]);
    refused("thread: W x 1\nmemory: x x.a\n", &["twice"]);
    refused("thread: W x 1 ; W y 1\nmemory: x\nquestion: y=1\n", &[":3:", "not in `memory:`"]);
    refused("thread: W x 1\nquestion: x\n", &["name=value"]);
    refused("thread: W x 1\npx86: allowed; 0\n", &["add a `question:`"]);
    refused("thread: W x 1\nquestion: x=1\npx86: alowed; 0\n", &["`alowed`", "forbidden"]);
    refused("thread: W x 1\nquestion: x=1\npx86: allowed; 0\n", &["does not agree"]);
    refused("thread: W x 1\nquestion: x=1\npx86: allowed; 1 1\n", &["twice"]);
    refused("thread: W x 1 ; W y 1\nquestion: x=1\npx86: allowed; 1\n", &["1 values", "names 2"]);
    refused("thread: W x 1\nquestion: x=1\npx86: allowed\npx86: allowed\n", &[":4:", "second"]);
    refused("thread: R x r1\n", &["add a `memory:` line"]);
    refused(&"thread: W x 1\n".repeat(5), &[":5:", "more than 4 threads"]);
    refused(&format!("thread: SF{}\n", " ; SF".repeat(30)), &["too many instructions"]);
    refused(&format!("thread: SF{}\n", " ; W2 x.a x.b 1".repeat(5)), &["wide stores"]);
    let long = vec![b'a'; FILE_BYTES_MAX + 1];
    assert!(Litmus::parse("f", &long).unwrap_err().to_string().contains("larger than"));
    let latin = Litmus::parse("f", b"thread: W x 1\ntitle: \xe9\n").unwrap_err();
    assert_eq!((latin.line, latin.what.contains("UTF-8")), (2, true));
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let words = "title: thread: memory: question: px86: bep: W W2 NT R CO CF SF MF PB DF FAA CAS \
                 IF x x.a y.b r1 r2 0 1 2 99999 ; ; ; & = x=1 r1=0 allowed; forbidden; 00 1- , #";
    let words: Vec<&str> = words.split_whitespace().collect();
    let (mut good, mut bad) = (0, 0);
    for round in 0..30_000 {
        let mut text = Vec::new();
        for _ in 0..rng.random_range(0..40) {
            match rng.random_range(0..20) {
                0 => text.push(rng.next_u32() as u8),
                1..5 => text.push(b'\n'),
                _ => text.extend(words[rng.random_range(0..words.len())].bytes()),
            }
            text.push(if round % 2 == 0 { b' ' } else { b"\t \n :"[rng.random_range(0..5)] });
        }
        match Litmus::parse("f", &text) {
            Ok(_) => good += 1,
            Err(error) => bad += usize::from(error.line > 0 && !error.what.is_empty()),
        }
    }
    assert_eq!(good + bad, 30_000);
    // What was read once, with a few bytes changed.
    for round in 0..20_000 {
        let file = &SUITE[round % SUITE.len()];
        let mut text = file.text.as_bytes().to_vec();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..text.len());
            text[at] = if rng.random_bool(0.5) { rng.next_u32() as u8 } else { b"; \n.:1"[at % 6] };
        }
        let _ = Litmus::parse("f", &text);
    }
}

#[test]
fn the_suite_is_exactly_the_files_of_the_folder_and_each_is_complete() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/litmus");
    let mut files = Vec::new();
    for family in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if family.is_dir() {
            files.extend(std::fs::read_dir(family).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    let tail = |path: &std::path::Path| {
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        name.strip_suffix(".litmus").unwrap_or_else(|| panic!("{name} is no test")).to_owned()
    };
    let found: BTreeSet<String> = files.iter().map(|path| tail(path)).collect();
    let listed: BTreeSet<String> =
        SUITE.iter().map(|file| format!("{}/{}", file.family, file.id)).collect();
    assert_eq!(found, listed);
    assert_eq!(listed.len(), SUITE.len());
    assert!(SUITE.len() >= 120, "{}", SUITE.len());
    let mut programs = BTreeSet::new();
    for test in suite() {
        assert!(!test.title.is_empty() && !test.source.is_empty(), "{}", test.id);
        assert!(!test.question.is_empty(), "{}", test.id);
        let models: Vec<&str> = test.expected.iter().map(|e| e.model.as_str()).collect();
        assert_eq!(models, MODELS, "{}", test.id);
        let sets = test.expected.iter().all(|expected| expected.outcomes.is_some());
        assert!(sets, "{}", test.id);
        let shape = (test.program(), test.question_text());
        assert!(programs.insert(shape), "{} repeats another test", test.id);
    }
}
