//! Every Rust file belongs to some target: a file that no `mod` names is never compiled, and rots.
//!
//! A table macro may declare its modules (`mod $module;`). Then the files beside it count if the
//! file with the table names them. A file that a test expects not to compile counts too. A package
//! compiles its own files only: what two packages share is a crate.

use super::{Problem, Text};
use crate::workspace::plain;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The places where a file compiles a file of another package; `folders` are those of packages.
pub(super) fn check_paths(texts: &[Text], folders: &[String]) -> Vec<Problem> {
    let owner = |file: &str| {
        let owners = folders.iter().filter(|folder| Path::new(file).starts_with(folder));
        owners.max_by_key(|folder| folder.len())
    };
    let mut problems = Vec::new();
    for text in texts.iter().filter(|text| text.file.ends_with(".rs")) {
        let beside = Path::new(&text.file).parent().unwrap_or(Path::new(""));
        for (index, line) in text.text.lines().enumerate() {
            let Some(quoted) = source_of(line.trim()) else { continue };
            let file = plain_text(&beside.join(quoted));
            if owner(&file) != owner(&text.file) {
                let what =
                    format!("compiles {file} of another package; make what they share a crate");
                problems.push(text.problem(index + 1, what));
            }
        }
    }
    problems
}

/// The file that a line names with `#[path]` or `include!`.
fn source_of(line: &str) -> Option<&str> {
    let starts =
        ["#[path = \"", "include!(\""].into_iter().find(|start| line.starts_with(start))?;
    between(line, starts, "\"")
}

/// The Rust files among `texts` that no file in `roots` leads to.
pub(super) fn check(texts: &[Text], roots: &[String]) -> Vec<Problem> {
    let known: BTreeMap<&str, &str> =
        texts.iter().map(|text| (text.file.as_str(), text.text.as_str())).collect();
    let mut reached = BTreeSet::new();
    let mut open: Vec<String> = roots.to_vec();
    while let Some(file) = open.pop() {
        if let Some(text) = known.get(file.as_str())
            && reached.insert(file.clone())
        {
            open.extend(children(&file, text, roots.contains(&file), &known));
        }
    }
    let orphans = texts.iter().filter(|text| text.file.ends_with(".rs"));
    let orphans = orphans.filter(|text| !reached.contains(&text.file));
    orphans
        .map(|text| text.problem(0, "no `mod` leads to this file; name it or remove it"))
        .collect()
}

/// The files that `file` names.
fn children(file: &str, text: &str, is_root: bool, known: &BTreeMap<&str, &str>) -> Vec<String> {
    let path = Path::new(file);
    let beside = path.parent().unwrap_or(Path::new(""));
    let folder = if is_root { beside.to_path_buf() } else { path.with_extension("") };
    let mut found = Vec::new();
    let mut given_path = None;
    for line in text.lines().map(str::trim) {
        if let Some(quoted) = between(line, "#[path = \"", "\"]") {
            given_path = Some(quoted);
        } else if let Some(name) = between(line, "mod ", ";").filter(|_| is_declaration(line)) {
            let named = folder.join(format!("{name}.rs"));
            found.push(match given_path.take() {
                Some(given) => plain_text(&beside.join(given)),
                None => plain_text(&named),
            });
        } else if let Some(quoted) = between(line, "include!(\"", "\")") {
            found.push(plain_text(&beside.join(quoted)));
        } else if let Some(quoted) = between(line, "compile_fail(\"tests/", "/*.rs\")") {
            let folder = beside.join(quoted);
            let inside = known.keys().filter(|other| Path::new(other).parent() == Some(&folder));
            found.extend(inside.map(|other| other.to_string()));
        }
    }
    if text.contains("mod $") {
        let inside = known.keys().filter(|other| Path::new(other).parent() == Some(&*folder));
        let stem = |other: &str| {
            Path::new(other).file_stem().unwrap_or_default().to_string_lossy().into_owned()
        };
        found.extend(inside.filter(|other| has_word(text, &stem(other))).map(|o| o.to_string()));
    }
    found
}

fn is_declaration(line: &str) -> bool {
    line.split("mod ").next().is_some_and(|before| {
        let before = before.trim();
        before.is_empty() || before.starts_with("pub") && !before.contains(' ')
    })
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|other: char| !other.is_alphanumeric() && other != '_').any(|other| other == word)
}

/// The path without `..`, as text.
fn plain_text(path: &Path) -> String {
    plain(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphans(files: &[(&str, &str)], roots: &[&str]) -> Vec<String> {
        let texts: Vec<Text> = files
            .iter()
            .map(|(file, text)| Text { file: file.to_string(), text: text.to_string() })
            .collect();
        let roots: Vec<String> = roots.iter().map(|root| root.to_string()).collect();
        check(&texts, &roots).into_iter().map(|problem| problem.file).collect()
    }

    #[test]
    fn a_file_that_no_mod_names_is_an_orphan() {
        let files = [
            ("a/src/lib.rs", "mod one;\n// mod lost;\n"),
            ("a/src/one.rs", "pub(crate) mod two;\n"),
            ("a/src/one/two.rs", ""),
            ("a/src/lost.rs", ""),
            ("a/src/one/lost.rs", ""),
        ];
        assert_eq!(orphans(&files, &["a/src/lib.rs"]), ["a/src/lost.rs", "a/src/one/lost.rs"]);
    }

    #[test]
    fn a_table_leads_to_the_files_that_it_names() {
        let files = [
            ("a/src/lib.rs", "mod designs;"),
            ("a/src/designs.rs", "$(mod $module;)*\ndesigns! {\n    one \"one\",\n}\n"),
            ("a/src/designs/one.rs", ""),
            ("a/src/designs/two.rs", ""),
        ];
        assert_eq!(orphans(&files, &["a/src/lib.rs"]), ["a/src/designs/two.rs"]);
    }

    #[test]
    fn a_given_path_and_an_included_file_are_followed() {
        let files = [
            ("a/tests/all.rs", "#[path = \"../../b/src/x.rs\"]\nmod x;\ninclude!(\"y.rs\");"),
            ("b/src/x.rs", ""),
            ("a/tests/y.rs", ""),
        ];
        assert_eq!(orphans(&files, &["a/tests/all.rs"]), [""; 0]);
    }

    #[test]
    fn a_file_of_another_package_is_not_compiled() {
        let found = |text: &str| {
            let text = Text { file: "a/tests/all.rs".into(), text: text.into() };
            let folders = ["a", "a/inner", "b"].map(String::from);
            check_paths(&[text], &folders)
                .into_iter()
                .map(|problem| problem.line)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("mod one;\n#[path = \"../../b/src/x.rs\"]\nmod x;"), [2]);
        assert_eq!(found("#[path = \"../inner/src/x.rs\"]\nmod x;"), [1]);
        assert_eq!(found("include!(\"../../b/y.rs\");"), [1]);
        assert_eq!(found("#[path = \"deep/x.rs\"]\nmod x;\ninclude!(\"../y.rs\");"), [0; 0]);
    }

    #[test]
    fn files_that_must_not_compile_belong_to_their_test() {
        let files = [
            ("a/tests/all.rs", "cases.compile_fail(\"tests/refused/*.rs\");"),
            ("a/tests/refused/one.rs", ""),
            ("a/tests/lost/two.rs", ""),
        ];
        assert_eq!(orphans(&files, &["a/tests/all.rs"]), ["a/tests/lost/two.rs"]);
    }
}
