//! Every file is formatted, also those that a macro declares: `cargo fmt` does not find them.

use super::{Problem, Text};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Programs that must not compile, whose messages name lines and columns.
const LEFT_OUT: &str = "/tests/refused/";

/// The files that rustfmt would change.
pub(super) fn check(texts: &[Text], root: &Path) -> Result<Vec<Problem>> {
    let files = texts.iter().map(|text| text.file.as_str());
    let files = files.filter(|file| file.ends_with(".rs") && !file.contains(LEFT_OUT));
    let output = Command::new("rustfmt")
        .args(["--check", "-l", "--edition", "2024"])
        .args(files)
        .current_dir(root)
        .output()
        .context("cannot run rustfmt (`rustup component add rustfmt`)")?;
    // It exits with 1 both where a file differs and where it cannot read one.
    let listed = changed(&String::from_utf8_lossy(&output.stdout), root);
    if listed.is_empty() && !output.status.success() {
        bail!("rustfmt failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let what = "not formatted: run rustfmt on it";
    Ok(listed.into_iter().map(|file| Problem { file, line: 0, what: what.into() }).collect())
}

/// The files that rustfmt lists, from `root`; it lists a module with each file that declares it.
fn changed(listed: &str, root: &Path) -> BTreeSet<String> {
    let relative = |line: &str| {
        let path = Path::new(line);
        path.strip_prefix(root).unwrap_or(path).display().to_string()
    };
    listed.lines().filter(|line| !line.is_empty()).map(relative).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_formatted_is_named_and_a_formatted_one_is_not() {
        let folder = std::env::temp_dir().join(format!("seawall-tidy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("good.rs"), "fn good() {}\n").unwrap();
        std::fs::write(folder.join("bad.rs"), "fn  bad( ) { }\n").unwrap();
        let text = |file: &str| Text { file: file.into(), text: String::new() };
        let problems = check(&[text("good.rs"), text("bad.rs")], &folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let files: Vec<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
        assert_eq!(files, ["bad.rs"]);
    }
}
