//! Modules that use each other in a circle: at most [`FILES_MAX`] of them, and all in one folder.
//!
//! Only `use crate::..` outside of tests counts: neither `super::`, between a folder and the file
//! of its name, nor names that `lib.rs` re-exports.

use super::{Problem, Text};
use std::collections::{BTreeMap, BTreeSet};

const FILES_MAX: usize = 4;

/// Where a crate's own paths start.
const START: &str = "use crate::";

/// Circles that are too large, or that tie folders together, of all crates.
pub(super) fn check(texts: &[Text]) -> Vec<Problem> {
    let mut crates: BTreeMap<&str, BTreeMap<&str, &Text>> = BTreeMap::new();
    for text in texts.iter().filter(|text| text.file.ends_with(".rs")) {
        if let Some((package, file)) = text.file.split_once("/src/") {
            let module = file.trim_end_matches(".rs");
            if !module.ends_with("/tests") {
                crates.entry(package).or_default().insert(module, text);
            }
        }
    }
    crates.values().flat_map(check_crate).collect()
}

fn check_crate(modules: &BTreeMap<&str, &Text>) -> Vec<Problem> {
    let arrows: BTreeMap<&str, BTreeSet<&str>> =
        modules.iter().map(|(module, text)| (*module, used(module, &text.text, modules))).collect();
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for module in modules.keys() {
        let circle = circle_of(module, &arrows);
        if circle.len() < 2 || !known.insert(circle.clone()) {
            continue;
        }
        let names: Vec<&str> = circle.iter().copied().collect();
        let folders: BTreeSet<&str> = names.iter().map(|name| folder(name, modules)).collect();
        let what = format!("{} files use each other: {}", names.len(), names.join(", "));
        if names.len() > FILES_MAX {
            problems.push(modules[module].problem(0, format!("{what}; at most {FILES_MAX} may")));
        } else if folders.len() > 1 {
            problems.push(modules[module].problem(0, format!("{what}; they are in two folders")));
        }
    }
    problems
}

/// The folder that a module is in, or that has its name; none for a single file.
fn folder<'m>(module: &'m str, modules: &BTreeMap<&str, &Text>) -> &'m str {
    let first = module.split('/').next().unwrap_or(module);
    let is_in = |other: &&str| other.strip_prefix(first).is_some_and(|rest| rest.starts_with('/'));
    if modules.keys().any(is_in) { first } else { "" }
}

/// The modules that a module can reach and that reach it.
fn circle_of<'a>(
    module: &'a str,
    arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeSet<&'a str> {
    let ahead = reached(module, arrows);
    ahead.into_iter().filter(|other| reached(other, arrows).contains(module)).collect()
}

fn reached<'a>(
    module: &'a str,
    arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for other in arrows.get(next).into_iter().flatten() {
            if found.insert(*other) {
                open.push(other);
            }
        }
    }
    found
}

/// The modules that the code of a module uses by `use crate::..`.
fn used<'a>(module: &str, text: &str, modules: &BTreeMap<&'a str, &Text>) -> BTreeSet<&'a str> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let uses = code.split(START).skip(1).filter_map(|rest| rest.split(';').next());
    let mut found = BTreeSet::new();
    for path in uses.flat_map(|tree| paths(tree.trim())) {
        let parts: Vec<&str> = path.split("::").collect();
        let longest = (1..=parts.len()).rev().find_map(|length| {
            modules.get_key_value(parts[..length].join("/").as_str()).map(|(name, _)| *name)
        });
        found.extend(longest.filter(|other| *other != module));
    }
    found
}

/// The paths of a tree such as `a::{b, c::{d, e}}`.
fn paths(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let mut branches = vec![String::new()];
    let mut depth = 0;
    for letter in inside.chars() {
        match letter {
            ',' if depth == 0 => branches.push(String::new()),
            _ => {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                branches.last_mut().into_iter().for_each(|branch| branch.push(letter));
            }
        }
    }
    let all = branches.iter().filter(|branch| !branch.trim().is_empty());
    all.flat_map(|branch| paths(branch.trim())).map(|path| format!("{head}{path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let text = |(file, text): &(&str, &str)| Text {
            file: format!("crates/a/src/{file}.rs"),
            text: text.to_string(),
        };
        check(&files.iter().map(text).collect::<Vec<_>>()).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn two_files_of_a_folder_may_use_each_other_and_two_folders_may_not() {
        let inside = [("b/x", "use crate::b::y::Y;"), ("b/y", "use crate::{b::x::X, Z};")];
        assert!(problems(&inside).is_empty());
        let across = [("b/x", "use crate::c::{y::Y};"), ("c/y", "use crate::b::x::{X, Z};")];
        let found = problems(&across);
        assert!(found.len() == 1 && found[0].contains("b/x, c/y; they are in two"), "{found:?}");
        let test =
            [("b", "use crate::c::Y;"), ("c", "#[cfg(test)]\nmod tests {\nuse crate::b;\n}")];
        assert!(problems(&test).is_empty());
    }

    #[test]
    fn a_circle_of_five_is_too_large() {
        let names: Vec<String> = (0..5).map(|number| format!("b/m{number}")).collect();
        let uses: Vec<String> =
            (0..5).map(|number| format!("use crate::b::m{};", (number + 1) % 5)).collect();
        let files: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(uses.iter().map(String::as_str)).collect();
        let found = problems(&files);
        assert!(found.len() == 1 && found[0].contains("5 files use each other"), "{found:?}");
    }

    #[test]
    fn a_tree_has_a_path_for_each_of_its_leaves() {
        assert_eq!(paths("a::{b, c::{d, e}}"), ["a::b", "a::c::d", "a::c::e"]);
        assert_eq!(paths("a::b"), ["a::b"]);
    }
}
