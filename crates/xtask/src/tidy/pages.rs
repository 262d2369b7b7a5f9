//! Rules for one Markdown page: one title, and every path and link in it exists.

use super::{Problem, Text};
use std::path::Path;

/// A word in backquotes that begins like this is a path of the workspace.
const FOLDERS: [&str; 5] = ["crates/", "machines/", "experiments/", "validation/", ".ci/"];

/// The problems of a page; `exists` knows the paths from the root of the workspace.
pub(super) fn check(text: &Text, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut titles = 0;
    let mut is_code = false;
    let folder = Path::new(&text.file).parent().unwrap_or(Path::new(""));
    for (number, line) in (1..).zip(text.text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        titles += usize::from(line.starts_with("# "));
        let mut missing = |path: &str| {
            problems.push(text.problem(number, format!("{path} does not exist")));
        };
        for path in line.split('`').skip(1).step_by(2).filter(|word| is_path(word)) {
            if !exists(path) {
                missing(path);
            }
        }
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let link = link.split('#').next().unwrap_or_default();
            let is_outside = link.is_empty() || link.contains("://") || link.starts_with("mailto:");
            if !is_outside && !exists(&folder.join(link).display().to_string()) {
                missing(link);
            }
        }
    }
    if titles != 1 {
        problems.push(text.problem(0, format!("{titles} titles (`# `); a page has one")));
    }
    problems
}

fn is_path(word: &str) -> bool {
    let is_plain = |other: char| other.is_ascii_alphanumeric() || "/._-".contains(other);
    FOLDERS.iter().any(|folder| word.starts_with(folder)) && word.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let text = Text { file: "validation/page.md".into(), text: text.into() };
        let exists = |path: &str| path == "crates/sim/src/lib.rs" || path == "validation/data.csv";
        check(&text, exists).iter().map(|problem| problem.what.clone()).collect()
    }

    #[test]
    fn a_page_has_one_title_outside_of_code() {
        assert_eq!(problems("# One\n\n```sh\n# a comment\n```\n"), [""; 0]);
        assert_eq!(problems("no title\n").len(), 1);
        assert_eq!(problems("# One\n# Two\n").len(), 1);
    }

    #[test]
    fn a_path_and_a_link_must_exist() {
        assert_eq!(problems("# T\n`crates/sim/src/lib.rs`, `crates/NAME/src <x>`\n"), [""; 0]);
        assert_eq!(problems("# T\n`crates/sim/src/lob.rs`\n").len(), 1);
        assert_eq!(problems("# T\n[data](data.csv) [out](https://a.b/c) [here](#t)\n"), [""; 0]);
        assert_eq!(problems("# T\n[data](date.csv)\n"), ["date.csv does not exist"]);
    }
}
