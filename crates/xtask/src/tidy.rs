//! Walks the workspace and applies every rule.

use crate::workspace;
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod arrows;
mod circles;
mod flaws;
mod format;
mod modules;
mod names;
mod pages;
mod source;

/// Something to be put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    /// The line from 1; 0 if it is about the whole file.
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// A text file of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Text {
    pub(crate) fn problem(&self, line: usize, what: impl Into<String>) -> Problem {
        Problem { file: self.file.clone(), line, what: what.into() }
    }
}

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// Checks the workspace that this program was built from; gives the number of files looked at.
pub(crate) fn check_workspace() -> Result<(usize, Vec<Problem>)> {
    let metadata = workspace::metadata(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let root = metadata["workspace_root"].as_str().context("cargo names no workspace root")?;
    let root = PathBuf::from(root);
    let mut packages = vec![metadata];
    for folder in arrows::OUTSIDE {
        packages.push(workspace::metadata(&root.join(folder))?);
    }
    let texts = read_texts(&root)?;
    let mut problems = Vec::new();
    for text in &texts {
        if text.file.ends_with(".rs") {
            problems.extend(source::check(text));
            problems.extend(flaws::check(text));
        } else {
            problems.extend(pages::check(text, |path| root.join(path).exists()));
        }
    }
    let roots: Vec<String> =
        packages.iter().flat_map(|metadata| arrows::target_files(metadata, &root)).collect();
    problems.extend(modules::check(&texts, &roots));
    let folders: Vec<String> =
        packages.iter().flat_map(|metadata| arrows::folders(metadata, &root)).collect();
    problems.extend(modules::check_paths(&texts, &folders));
    problems.extend(circles::check(&texts));
    problems.extend(names::check(&texts));
    problems.extend(format::check(&texts, &root)?);
    problems.extend(packages.iter().flat_map(arrows::check));
    problems.extend(packages.iter().flat_map(flaws::check_manifests));
    problems.extend(no_text(&root)?);
    Ok((texts.len(), problems))
}

/// Files that git keeps and that nobody can read: packages and programs do not belong into the
/// history. Without git there is nothing to ask.
fn no_text(root: &Path) -> Result<Vec<Problem>> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let Ok(listed) = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    else {
        return Ok(Vec::new());
    };
    let files = listed.split('\0').filter(|file| root.join(file).is_file());
    let mut problems = Vec::new();
    for file in files {
        let bytes = fs::read(root.join(file)).with_context(|| file.to_owned())?;
        if !is_text(&bytes) {
            let what = "no text; leave it out of the repository".into();
            problems.push(Problem { file: file.into(), line: 0, what });
        }
    }
    Ok(problems)
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// All Rust and Markdown files under `root`, in the order of their names. What a link leads to is
/// read in its own place.
fn read_texts(root: &Path) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                let text = fs::read_to_string(&path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                texts.push(Text { file, text });
            }
        }
    }
    texts.sort_by(|left, right| left.file.cmp(&right.file));
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_workspace_is_looked_at() {
        let (files, _) = check_workspace().unwrap();
        assert!(files > 50, "only {files} files were found");
    }

    #[test]
    fn a_package_is_no_text() {
        assert!(is_text("a name: \u{e9}\n".as_bytes()) && is_text(b""));
        assert!(!is_text(b"PK\x03\x04\x00") && !is_text(&[0xff, 0xfe]));
    }

    #[test]
    fn a_problem_is_shown_with_its_place() {
        let text = Text { file: "a.rs".into(), text: String::new() };
        assert_eq!(text.problem(3, "too long").to_string(), "a.rs:3: too long");
        assert_eq!(text.problem(0, "too long").to_string(), "a.rs: too long");
    }
}
