//! Lines of sources around the places that a finding names, as far as their files are found: paths
//! are those that the compiler wrote down, so the command must run in the folder where the program
//! was built, unless they are absolute.

use seawall_report::{HtmlExcerpt, HtmlMark};
use std::collections::BTreeMap;
use std::fs;

/// Lines before and after a place.
const AROUND: u32 = 4;
/// Longer files are no sources.
const BYTES_MAX: u64 = 4 << 20;
/// Characters of a line that are shown.
const LINE_MAX: usize = 240;
/// Marks of one line that are shown.
const MARKS_MAX: usize = 4;

/// The files that were looked for.
#[derive(Debug, Default)]
pub(super) struct Sources {
    files: BTreeMap<String, Option<Vec<String>>>,
}

impl Sources {
    fn lines(&mut self, file: &str) -> Option<&[String]> {
        let read = || {
            let is_source =
                fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= BYTES_MAX);
            let text = is_source.then(|| fs::read(file).ok()).flatten()?;
            let text = String::from_utf8_lossy(&text);
            let cut = |line: &str| line.replace('\t', "    ").chars().take(LINE_MAX).collect();
            Some(text.lines().map(cut).collect())
        };
        self.files.entry(file.to_owned()).or_insert_with(read).as_deref()
    }

    /// The lines around `place`, which is marked.
    pub(super) fn around(&mut self, place: &str) -> Option<HtmlExcerpt> {
        let mark = |line| HtmlMark { line, kind: "place", text: String::new() };
        let (file, line) = split(place)?;
        self.excerpt(file, vec![mark(line)])
    }

    /// What `marks` say of places, in the order of the sources; places that are near each other are
    /// shown together.
    pub(super) fn marked(&mut self, marks: &[(&str, &'static str, String)]) -> Vec<HtmlExcerpt> {
        let mut files: BTreeMap<&str, Vec<HtmlMark>> = BTreeMap::new();
        for (place, kind, text) in marks {
            if let Some((file, line)) = split(place) {
                let of_file = files.entry(file).or_default();
                of_file.push(HtmlMark { line, kind, text: text.clone() });
            }
        }
        let mut excerpts = Vec::new();
        for (file, mut marks) in files {
            marks.sort_by_key(|mark| mark.line);
            let is_near = |one: &HtmlMark, other: &HtmlMark| other.line - one.line <= 2 * AROUND;
            let groups = marks.chunk_by(is_near).map(few_each);
            excerpts.extend(groups.filter_map(|group| self.excerpt(file, group)));
        }
        excerpts
    }

    fn excerpt(&mut self, file: &str, marks: Vec<HtmlMark>) -> Option<HtmlExcerpt> {
        let (from, to) = (marks.first()?.line, marks.last()?.line);
        let lines = self.lines(file)?;
        let first = from.saturating_sub(AROUND).max(1);
        let last = (to + AROUND).min(lines.len() as u32);
        let lines = lines.get(first as usize - 1..last as usize)?.to_vec();
        Some(HtmlExcerpt { file: file.to_owned(), first, lines, marks })
    }
}

/// File and line of a place, without those that have called it.
fn split(place: &str) -> Option<(&str, u32)> {
    let (file, line) = place.split(" < ").next()?.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|line| *line > 0)?))
}

/// A few of the marks of each line, and how many more there are.
fn few_each(marks: &[HtmlMark]) -> Vec<HtmlMark> {
    let mut few = Vec::new();
    for of_line in marks.chunk_by(|one, other| one.line == other.line) {
        few.extend(of_line.iter().take(MARKS_MAX).cloned());
        let more = of_line.len().saturating_sub(MARKS_MAX);
        if more > 0 {
            let text = format!("and {more} more of this line");
            few.push(HtmlMark { text, ..of_line[0].clone() });
        }
    }
    few
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.c").display().to_string();
        let text: String = (1..=60).map(|line| format!("\tline {line}\n")).collect();
        fs::write(&file, text).unwrap();
        (folder, file)
    }

    #[test]
    fn a_place_is_shown_with_the_lines_around_it() {
        let (_folder, file) = source();
        let excerpt = Sources::default().around(&format!("{file}:2 < {file}:9")).unwrap();
        assert_eq!((excerpt.first, excerpt.lines.len()), (1, 6));
        assert_eq!(excerpt.lines[1], "    line 2");
        assert_eq!(excerpt.marks[0].line, 2);
        let last = Sources::default().around(&format!("{file}:60")).unwrap();
        assert_eq!(last.lines.last().unwrap(), "    line 60");
    }

    #[test]
    fn what_is_no_source_or_has_no_such_line_is_not_shown() {
        let (folder, file) = source();
        let folder = folder.path().display();
        for place in [
            format!("{file}:0"),
            format!("{file}:99"),
            format!("{file}:x"),
            format!("{folder}:1"),
            "/no/such/file.c:3".into(),
            "the instruction at 0x40".into(),
        ] {
            assert_eq!(Sources::default().around(&place), None, "{place}");
        }
    }

    #[test]
    fn places_near_each_other_are_shown_together_with_a_few_marks_each() {
        let (_folder, file) = source();
        let place = |line: u32| format!("{file}:{line}");
        let (near, other, far) = (place(10), place(14), place(40));
        let mut marks = vec![(&*far, "early", "e".to_owned()), (&*other, "early", "o".to_owned())];
        marks.extend((0..6).map(|at| (&*near, "lost", format!("l{at}"))));
        let excerpts = Sources::default().marked(&marks);
        let spans: Vec<(u32, usize)> =
            excerpts.iter().map(|it| (it.first, it.lines.len())).collect();
        assert_eq!(spans, [(6, 13), (36, 9)]);
        let texts: Vec<&str> = excerpts[0].marks.iter().map(|mark| &*mark.text).collect();
        assert_eq!(texts, ["l0", "l1", "l2", "l3", "and 2 more of this line", "o"]);
    }
}
