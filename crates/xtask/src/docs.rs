//! Runs the commands that the pages show with their output, and compares the two.
//!
//! A command is a line `$ seawall ..` of a block; the lines up to the next one are its output, in
//! order, with `...` for what is left out. Line breaks do not count, and neither do line numbers of
//! sources. What takes long, or is never the same twice, is named in [`LEFT_OUT`].

use crate::gallery;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands that are not run, by how they start, and why.
const LEFT_OUT: &[(&str, &str)] =
    &[("run ", "operations a second of this computer, and a process that is killed")];

/// A command of a page, and what it is said to print.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    command: String,
    /// The parts between `...`, words with single spaces.
    parts: Vec<String>,
}

/// Runs the commands of `README.md` and `docs`; true if all print what the pages show, and draw the
/// plots of the gallery.
pub(crate) fn run() -> Result<bool> {
    let (root, seawall) = built()?;
    let scratch = std::env::temp_dir().join(format!("seawall-docs-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let outcome = check_pages(&root, &seawall, &scratch);
    let outcome = outcome.and_then(|is_true| Ok(gallery::check(&root, &seawall)? && is_true));
    std::fs::remove_dir_all(&scratch)?;
    outcome
}

/// The root of the workspace, and the command, which is built for it.
pub(crate) fn built() -> Result<(PathBuf, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let built = Command::new("cargo")
        .args(["build", "--release", "-p", "seawall-cli"])
        .current_dir(&root)
        .status()
        .context("cannot run cargo build")?;
    if !built.success() {
        bail!("the command `seawall` does not build; its messages are above");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    Ok((root, target.join("release/seawall")))
}

/// Runs the commands of all pages under `root`.
fn check_pages(root: &Path, seawall: &Path, scratch: &Path) -> Result<bool> {
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs"))? {
        pages.push(entry?.path());
    }
    pages.retain(|page| page.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    let mut is_true = true;
    for page in pages {
        let text = std::fs::read_to_string(&page)?;
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        for shown in shown(&text) {
            let verdict = held(&shown, seawall, scratch)?;
            println!("{name}: seawall {}: {}", shown.command, verdict.as_deref().unwrap_or("ok"));
            is_true &= verdict.is_none_or(|why| why.starts_with("left out"));
        }
    }
    Ok(is_true)
}

/// What is wrong with a command or its output, or why it was not run.
fn held(shown: &Shown, seawall: &Path, scratch: &Path) -> Result<Option<String>> {
    if let Some((_, why)) = LEFT_OUT.iter().find(|(start, _)| shown.command.starts_with(start)) {
        return Ok(Some(format!("left out: {why}")));
    }
    if shown.command.contains(['"', '\'']) {
        return Ok(Some("has quotes: show a command that needs none".into()));
    }
    let output = Command::new(seawall)
        .args(shown.command.split_whitespace())
        .current_dir(scratch)
        .output()
        .with_context(|| format!("cannot run {}", seawall.display()))?;
    if output.status.code().is_none_or(|code| code > 1) {
        return Ok(Some(format!("fails: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let missing = missing(&shown.parts, &String::from_utf8_lossy(&output.stdout));
    Ok(missing.map(|part| format!("does not print this, in this order: {part}")))
}

/// The first of `parts` that `output` lacks behind those before it.
fn missing<'a>(parts: &'a [String], output: &str) -> Option<&'a str> {
    let output = words(output);
    let mut rest = output.as_str();
    for part in parts {
        match rest.split_once(part.as_str()) {
            Some((_, behind)) => rest = behind,
            None => return Some(part),
        }
    }
    None
}

/// Single spaces between words, and no line numbers behind names of sources.
fn words(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.split_once(".rs:") {
        Some((file, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{file}.rs:N{rest}")
        }
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The commands of a page with what it shows of their output.
fn shown(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let mut is_open = false;
        for line in block.lines().skip(1) {
            if let Some(typed) = line.strip_prefix("$ ") {
                is_open = typed.starts_with("seawall ");
                if is_open {
                    let command = typed["seawall ".len()..].trim().to_owned();
                    found.push(Shown { command, parts: vec![String::new()] });
                }
            } else if let Some(last) = found.last_mut().filter(|_| is_open) {
                match line.trim() {
                    "..." => last.parts.push(String::new()),
                    line => last.parts.last_mut().into_iter().for_each(|part| {
                        *part += &format!(" {line}");
                    }),
                }
            }
        }
    }
    for shown in &mut found {
        shown.parts.iter_mut().for_each(|part| *part = words(part));
        shown.parts.retain(|part| !part.is_empty());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "Text.\n\n```\n$ seawall list a\none  1\n...\ntwo\nat x.rs:90\nand\n$ ls\nfile\n```\n";

    #[test]
    fn a_command_is_found_with_the_parts_of_its_output() {
        let parts = vec!["one 1".to_owned(), "two at x.rs:N and".to_owned()];
        assert_eq!(shown(PAGE), [Shown { command: "list a".into(), parts }]);
    }

    #[test]
    fn parts_must_be_printed_in_their_order_wherever_lines_break() {
        let parts = &shown(PAGE)[0].parts;
        assert_eq!(missing(parts, "one 1\nmore\ntwo\nat x.rs:7\nand\n"), None);
        assert_eq!(missing(parts, "two at x.rs:7 and\none 1\n"), Some("two at x.rs:N and"));
        assert_eq!(missing(parts, "one 2\ntwo at x.rs:90 and"), Some("one 1"));
    }

    /// The whole numbers in the cells of a table's row.
    fn numbers(row: &str) -> Vec<usize> {
        row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
    }

    /// The published values of a figure's page: all, held, missed, not reproducible.
    fn counted(page: &str) -> Vec<usize> {
        let table = page.split("\n## ").next().unwrap();
        let ends = |end: &str| table.lines().filter(|line| line.contains(end)).count();
        let (held, missed) = (ends("| holds |"), ends("| does not hold |"));
        let beyond = ends("| not reproducible: ");
        vec![held + missed + beyond, held, missed, beyond]
    }

    #[test]
    fn the_summaries_of_the_figures_are_the_sums_of_their_pages() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let (list, mut sums) = (read("docs/figures.md"), vec![0; 4]);
        for row in list.lines().filter(|line| line.starts_with("| [")) {
            let name = row.split(['[', ']']).nth(1).unwrap();
            let values = counted(&read(&format!("docs/figures/{name}.md")));
            assert_eq!(numbers(row), values, "{name}");
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let all = list.lines().find(|line| line.starts_with("| all |")).unwrap();
        assert_eq!(numbers(all), sums);
        let [all, held, missed, beyond] = sums[..] else { unreachable!("four columns") };
        assert_eq!(all, held + missed + beyond);
        let readme = read("README.md").replace('\n', " ");
        let told = format!(
            "Of {} values that can be reproduced from what is public, {held} hold",
            held + missed
        );
        assert!(readme.contains(&told), "{told}");
        let readme = read("README.md");
        let table = readme.split("| paper | published values |").nth(1).unwrap();
        let papers = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let cells = papers.map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            [2, 3, 4, 5].map(|cell| cells[cell].parse().unwrap_or(0))
        });
        let sum = cells.fold([0; 4], |sum, row| [0, 1, 2, 3].map(|at| sum[at] + row[at]));
        assert_eq!(sum, [all, held, missed, beyond]);
    }

    #[test]
    fn what_is_left_out_is_on_a_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut text = std::fs::read_to_string(root.join("README.md")).unwrap();
        for entry in std::fs::read_dir(root.join("docs")).unwrap() {
            text += &std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        }
        for (start, _) in LEFT_OUT {
            assert!(text.contains(&format!("$ seawall {start}")), "{start}");
        }
    }
}
