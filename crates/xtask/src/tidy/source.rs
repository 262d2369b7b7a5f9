//! Rules for one Rust file: length of file, functions and lines, ASCII, a head, nothing left over.
//!
//! It reads formatted code, so a function ends at the first `}` that is indented as its `fn`.

use super::{Problem, Text};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// What nobody leaves behind; written in halves, so that this file is tidy too.
const LEFT_OVER: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
];

/// What stands before `fn` in a declaration.
const QUALIFIERS: [&str; 6] = ["pub", "const", "async", "unsafe", "extern", "default"];

/// The problems of a file.
pub(super) fn check(text: &Text) -> Vec<Problem> {
    let lines: Vec<&str> = text.text.lines().collect();
    let mut problems = Vec::new();
    if lines.len() > FILE_LINES_MAX {
        let what = format!("{} lines; split it below {FILE_LINES_MAX}", lines.len());
        problems.push(text.problem(0, what));
    }
    if text.file.contains("/src/") && !text.text.starts_with("//!") {
        problems.push(text.problem(1, "no head; say in `//!` lines why the file exists"));
    }
    for (number, line) in (1..).zip(&lines) {
        if line.chars().count() > COLUMNS_MAX {
            let what = format!("{} columns; at most {COLUMNS_MAX}", line.chars().count());
            problems.push(text.problem(number, what));
        }
        if let Some(other) = line.chars().find(|other| !other.is_ascii()) {
            problems.push(text.problem(number, format!("{other:?} is not ASCII")));
        }
        if let Some(word) = LEFT_OVER.iter().find(|word| line.contains(**word)) {
            problems.push(text.problem(number, format!("{word} left over")));
        }
    }
    problems.extend(long_functions(text, &lines));
    problems
}

fn long_functions(text: &Text, lines: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let length = function_lines(&lines[start..]);
        if length > FUNCTION_LINES_MAX {
            let what = format!("fn {name} has {length} lines; at most {FUNCTION_LINES_MAX}");
            problems.push(text.problem(start + 1, what));
        }
    }
    problems
}

/// The name of the function that `line` begins to declare, if it does.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let is_qualifier = |word: &str| {
        QUALIFIERS.contains(&word) || word.starts_with("pub(") || word.starts_with('"')
    };
    let word = words.by_ref().find(|word| !is_qualifier(word))?;
    if word != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

/// Lines from the first one to the end of the function that it begins.
fn function_lines(lines: &[&str]) -> usize {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let mut has_body = false;
    for (number, line) in (1..).zip(lines) {
        let line = line.trim_end();
        if !has_body && (line.ends_with(';') || line.ends_with('}')) {
            return number;
        }
        has_body |= line.ends_with('{');
        if number > 1 && has_body && line == format!("{:indent$}}}", "") {
            return number;
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(file: &str, text: &str) -> Vec<String> {
        let text = Text { file: file.into(), text: text.into() };
        check(&text).iter().map(Problem::to_string).collect()
    }

    fn function(body: usize) -> String {
        format!(
            "//! Why.\n\nimpl X {{\n    pub fn long<T>(\n        t: T,\n    ) {{\n{}    }}\n}}\n",
            "        x();\n".repeat(body)
        )
    }

    #[test]
    fn a_function_may_have_seventy_lines_and_no_more() {
        assert_eq!(problems("crates/a/src/a.rs", &function(66)), [""; 0]);
        let long = problems("crates/a/src/a.rs", &function(67));
        assert_eq!(long, ["crates/a/src/a.rs:4: fn long has 71 lines; at most 70"]);
    }

    #[test]
    fn functions_without_a_body_or_on_one_line_end_where_they_end() {
        assert_eq!(function_lines(&["    fn one(&self);", "    fn two() {"]), 1);
        assert_eq!(function_lines(&["fn one() {}", "x"]), 1);
        assert_eq!(function_lines(&["fn one(", "    x: u8,", ") -> u8;", "}"]), 3);
        assert_eq!(function_lines(&["fn one() {", "    if x {", "    }", "}", "}"]), 4);
        assert_eq!(function_name("    pub(crate) const unsafe fn x<'a>() {"), Some("x"));
        assert_eq!(function_name("    let fn_pointer = x;"), None);
    }

    #[test]
    fn a_long_file_a_long_line_and_a_strange_letter_are_named() {
        let text = format!("//! Why.\n{}", "\n".repeat(600));
        assert_eq!(problems("a.rs", &text), ["a.rs: 601 lines; split it below 600"]);
        let line = "x".repeat(101);
        assert_eq!(problems("a.rs", &line), ["a.rs:1: 101 columns; at most 100"]);
        assert_eq!(problems("a.rs", "x\n// \u{e9}\n").len(), 1);
    }

    #[test]
    fn a_source_file_without_a_head_is_named_and_a_test_needs_none() {
        assert_eq!(problems("crates/a/src/a.rs", "fn x() {}\n").len(), 1);
        assert_eq!(problems("crates/a/tests/a.rs", "fn x() {}\n").len(), 0);
    }

    #[test]
    fn what_is_left_over_is_named() {
        for word in LEFT_OVER {
            let found = problems("a.rs", &format!("    {word}\n"));
            assert_eq!(found, [format!("a.rs:1: {word} left over")]);
        }
    }
}
