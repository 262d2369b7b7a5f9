//! The pages and the examples: the programs of the docs are those that the tests build, and
//! every public name is shown somewhere.

use std::path::{Path, PathBuf};

/// What is only ever returned, and how an example comes by it.
const RETURNED: &[(&str, &str)] = &[
    ("Crashed", "crash.outputs"),
    ("Durability", ".durability()"),
    ("Explored", "explore::<"),
    ("KeyValue", ".last_key_value("),
    ("MapEntry", ".entry("),
    ("Simulated", "simulate::<"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder of sources");
    files.map(|file| file.expect("listed").path()).filter(|path| path.is_file()).collect()
}

/// The code in the doc comments of a source.
fn doc_code(source: &str) -> String {
    let mut is_code = false;
    let lines = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start();
        if doc.starts_with("```") {
            is_code = !is_code;
            return None;
        }
        is_code.then_some(doc)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that the `pub use` of a source have.
fn public_names(source: &str) -> Vec<String> {
    let uses = source.split("\npub use ").skip(1);
    let names = uses.flat_map(|used| {
        let used = used.split(';').next().expect("ends");
        let list = used.split_once('{').map_or(used, |(_, list)| list.trim_end_matches('}'));
        list.split(',').map(str::to_owned).collect::<Vec<_>>()
    });
    let last = |name: String| {
        let name = name.trim().rsplit([' ', ':']).next().unwrap_or_default();
        name.to_owned()
    };
    names.map(last).filter(|name| !name.is_empty()).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[test]
fn the_programs_of_the_pages_are_the_examples_that_the_tests_build() {
    for (example, page) in [("words", "docs/library.md"), ("visits", "README.md")] {
        let program = text(&folder().join(format!("examples/{example}.rs")));
        let page_text = text(&folder().join("../..").join(page));
        assert!(program.lines().count() < 60);
        let (head, rest) = program.split_once("\n\n").expect("a head and the program");
        let is_there = page_text.contains(rest) && head.starts_with("//! ");
        assert!(is_there, "{page} has not the text of {example}.rs");
    }
}

#[test]
fn every_public_name_is_in_an_example() {
    let here = folder();
    let mut shown: String = sources(&here.join("examples")).iter().map(|path| text(path)).collect();
    for folder in [here.join("src"), here.join("../collections/src/fields")] {
        shown.extend(sources(&folder).iter().map(|path| doc_code(&text(path))));
    }
    let names = public_names(&text(&here.join("src/lib.rs")));
    assert!(names.len() > 30 && names.contains(&"open".to_owned()), "{names:?}");
    let is_shown = |name: &&String| match RETURNED.iter().find(|(returned, _)| returned == name) {
        Some((_, by)) => shown.contains(by),
        None => has_word(&shown, name),
    };
    let missing: Vec<_> = names.iter().filter(|name| !is_shown(name)).collect();
    assert!(missing.is_empty(), "in no example: {missing:?}");
}
