//! One public name, one meaning: no two public types of the workspace share a name by accident.

use super::{Problem, Text};
use std::collections::BTreeMap;

/// Names that several types may have, and why.
const SHARED: &[(&str, &str)] = &[
    ("BTree", "a field, the tree below it, and the workload that runs it"),
    ("Map", "a field, the map below it, and the workload that runs it"),
    ("Pool", "the facade's, over the file's and the heap's"),
    ("Thread", "the facade's, over the heap's"),
    ("Simulation", "the facade's options, over the simulator"),
    ("Session", "with types in `typed`, with addresses in `heap`"),
    ("Tx", "with types in `typed`, with addresses in `tx`"),
    ("Echo", "a program of WHISPER and one of FFCCD"),
    ("Redis", "a program of WHISPER and one of FFCCD"),
    ("Vacation", "a program of WHISPER and one of STAMP"),
    ("FastFair", "the workload, and the program that measures the explorer"),
    ("HashTable", "the structure, and the program that measures the explorer"),
    ("Tree", "the root types of FFCCD's programs, which pool files name"),
    ("Store", "the root types of FFCCD's programs, which pool files name; a store of a trace"),
    ("Strings", "the root type of a program of FFCCD, which pool files name, and a workload"),
    ("Cursor", "each thread's place in the log of a program of WHISPER"),
    ("Column", "of a litmus test's outcome, and of a figure's table"),
    ("Damage", "of a map or tree, and of a workload's pool"),
    ("ExploreError", "the facade's, and the command's"),
    ("Kind", "of an instruction of a compiled program, and of an event of a trace"),
    ("Input", "of a kernel, and of the program of MEMSYS'17"),
    ("Place", "a variable of a litmus test, and a line of the source"),
    ("Program", "of the simulator, and of the corpus"),
    ("Violation", "of a history, and of a litmus test"),
    ("Joined", "what a thread keeps, in each of the two frames for workloads on a heap"),
];

const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

/// Public types that share a name which is not in the table, and names of the table without need.
pub(super) fn check(texts: &[Text]) -> Vec<Problem> {
    check_with(texts, SHARED)
}

fn check_with(texts: &[Text], shared: &[(&str, &str)]) -> Vec<Problem> {
    let mut places: BTreeMap<&str, Vec<(&Text, usize)>> = BTreeMap::new();
    for text in texts.iter().filter(|text| is_source(&text.file)) {
        for (index, line) in text.text.lines().enumerate() {
            if let Some(name) = public_type(line) {
                places.entry(name).or_default().push((text, index + 1));
            }
        }
    }
    let mut problems = Vec::new();
    for (name, _) in shared {
        if places.get(name).is_none_or(|found| found.len() < 2) {
            let what = format!("`{name}` needs no line in the table of shared names any more");
            problems.push(Problem { file: file!().into(), line: 0, what });
        }
    }
    let is_shared = |name: &str| shared.iter().any(|(known, _)| *known == name);
    for (name, found) in places.iter().filter(|(name, found)| found.len() > 1 && !is_shared(name)) {
        let first = found[0].0;
        let what = format!(
            "`{name}` is also a type of {}: rename one, or say in {} why both have the name",
            first.file,
            file!()
        );
        problems.extend(found[1..].iter().map(|(text, line)| text.problem(*line, what.clone())));
    }
    problems
}

fn is_source(file: &str) -> bool {
    file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs")
}

/// The public type that the line declares, outside any block.
fn public_type(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("pub ")?;
    let rest = KINDS.iter().find_map(|kind| declared.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &str, text: &str) -> Text {
        Text { file: file.into(), text: text.into() }
    }

    #[test]
    fn a_second_public_type_of_a_name_is_a_problem_unless_the_table_has_it() {
        let texts = [
            text("crates/a/src/lib.rs", "pub struct Log;\npub(crate) struct Inner;\n"),
            text("crates/b/src/log.rs", "\npub enum Log {}\nstruct Inner;\n"),
            text("crates/b/tests/log.rs", "pub struct Log;\n"),
        ];
        let problems = check_with(&texts, &[]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!((problems[0].file.as_str(), problems[0].line), ("crates/b/src/log.rs", 2));
        assert!(problems[0].what.contains("crates/a/src/lib.rs"), "{problems:?}");
        assert_eq!(check_with(&texts, &[("Log", "both write logs")]), []);
    }

    #[test]
    fn a_name_that_the_table_has_without_need_is_a_problem() {
        let texts = [text("crates/a/src/lib.rs", "pub struct Log<T>(T);\n")];
        assert_eq!(check_with(&texts, &[("Log", "both write logs")]).len(), 1);
    }
}
