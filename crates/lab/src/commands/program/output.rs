//! What a program prints: natively and under designs. A result that is wrong often shows there, in
//! a sum or a count; so do times and the order of threads, which may differ.

use super::command::POOL;
use seawall_program::{FILES, pool_in};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// The most bytes of a run's output that are shown.
const SHOWN_MAX: u64 = 256 << 10;
/// The most characters of a line that is named.
const LINE_SHOWN: usize = 80;

/// What a run has printed on standard output.
#[derive(Clone, Debug)]
pub(super) struct Output {
    path: PathBuf,
    /// Its own file, of which the path is no difference.
    pool: String,
}

/// The first line in which two outputs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// From 1.
    line: u64,
    /// What each says; nothing if it has ended.
    native: Option<String>,
    here: Option<String>,
}

impl Output {
    /// Of the run in this folder.
    pub(super) fn of(folder: &Path) -> Output {
        let pool = pool_in(&folder.join(FILES)).display().to_string();
        Output { path: folder.join("stdout"), pool }
    }

    fn lines(&self) -> io::Result<impl Iterator<Item = io::Result<String>>> {
        let lines = BufReader::new(File::open(&self.path)?).split(b'\n');
        Ok(lines.map(|line| Ok(self.plain(&line?))))
    }

    fn plain(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace(&self.pool, POOL)
    }

    /// Where it differs from what was printed natively.
    pub(super) fn difference(&self, native: &Output) -> io::Result<Option<Difference>> {
        let (mut here, mut native) = (self.lines()?, native.lines()?);
        for line in 1.. {
            let (native, here) = (native.next().transpose()?, here.next().transpose()?);
            if native != here {
                return Ok(Some(Difference { line, native, here }));
            }
            if native.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// All of it, or its beginning.
    pub(super) fn text(&self) -> io::Result<String> {
        let file = File::open(&self.path)?;
        let left_out = file.metadata()?.len().saturating_sub(SHOWN_MAX);
        let mut bytes = Vec::new();
        file.take(SHOWN_MAX).read_to_end(&mut bytes)?;
        let mut text = self.plain(&bytes);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if left_out > 0 {
            text += &format!("({left_out} more bytes are not shown)\n");
        }
        Ok(text)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |line: &Option<String>| match line {
            Some(line) => line.chars().take(LINE_SHOWN).collect(),
            None => "(nothing more)".to_owned(),
        };
        writeln!(to, "line {}", self.line)?;
        writeln!(to, "    natively  {}", said(&self.native))?;
        writeln!(to, "    here      {}", said(&self.here))
    }
}

/// What each run has printed, under the names of the runs; the same text only once.
pub(super) fn shown<'a>(runs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, text) in runs {
        match texts.iter_mut().find(|(other, _)| *other == text) {
            Some((_, names)) => names.push(name),
            None => texts.push((text, vec![name])),
        }
    }
    let one = |(text, names): &(&str, Vec<&str>)| {
        let text = if text.is_empty() { "(nothing)\n" } else { text };
        format!("\nprinted {}:\n{text}", names.join(", "))
    };
    texts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(folder: &Path, name: &str, text: &str) -> Output {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let text = text.replace("POOL", &pool_in(&folder.join(FILES)).display().to_string());
        std::fs::write(folder.join("stdout"), text).unwrap();
        Output::of(&folder)
    }

    #[test]
    fn the_first_line_that_differs_is_named_and_paths_of_pools_are_no_difference() {
        let folder = tempfile::tempdir().unwrap();
        let native = printed(folder.path(), "native", "in POOL\nsum 5\nend\n");
        let same = printed(folder.path(), "same", "in POOL\nsum 5\nend\n");
        assert_eq!(same.difference(&native).unwrap(), None);
        let other = printed(folder.path(), "other", "in POOL\nsum 6\nend\n");
        let said = other.difference(&native).unwrap().unwrap().to_string();
        assert_eq!(said, "line 2\n    natively  sum 5\n    here      sum 6\n");
        let short = printed(folder.path(), "short", "in POOL\nsum 5\n");
        let said = short.difference(&native).unwrap().unwrap().to_string();
        assert_eq!(said, "line 3\n    natively  end\n    here      (nothing more)\n");
    }

    #[test]
    fn the_same_text_is_shown_once() {
        let text = shown([("natively", "5\n"), ("under lb", "6\n"), ("under clwb", "5\n")]);
        assert_eq!(text, "\nprinted natively, under clwb:\n5\n\nprinted under lb:\n6\n");
        assert_eq!(shown([("natively", "")]), "\nprinted natively:\n(nothing)\n");
    }

    #[test]
    fn the_end_of_a_long_text_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let long = printed(folder.path(), "long", &"x".repeat(SHOWN_MAX as usize + 7));
        assert!(long.text().unwrap().ends_with("x\n(7 more bytes are not shown)\n"));
    }
}
