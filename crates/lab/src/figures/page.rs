//! A page a figure: its published values and ours as a picture and a table, and what the command
//! prints.

use super::{PublishedValue, Reproduced};
use seawall_report::{Dot, DotFate, Dots, ReportError, ResultFile};
use std::fmt::Write;

/// What a page is made of.
pub(super) struct Page<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) source: &'a str,
    pub(super) values: &'a [PublishedValue],
    /// Of the programs themselves, in Markdown.
    pub(super) programs: &'a str,
    /// The options of the command.
    pub(super) flags: &'a str,
    /// What the command prints.
    pub(super) text: &'a str,
}

/// Values of one unit, as a picture has them: whether they are per cent, its label, and what is
/// behind the figure's name in that of its file.
const UNITS: [(bool, &str, &str); 2] = [(false, "ratio", ""), (true, "per cent", "-percent")];

impl Page<'_> {
    /// The page and its pictures.
    pub(super) fn files(&self) -> Result<Vec<ResultFile>, ReportError> {
        let mut files = Vec::new();
        let mut text = format!("# {}\n\n{}.\n\nPaper: {}.\n", self.name, self.title, self.source);
        for (is_percent, label, end) in UNITS {
            let of_unit = self.values.iter().filter(|value| value.is_percent == is_percent);
            let rows: Vec<Dot> = of_unit.map(dot).collect();
            if rows.is_empty() {
                continue;
            }
            let file = format!("{}-values{end}.svg", self.name);
            let _ = writeln!(text, "\n![the paper's values and ours, {label}]({file})");
            let dots = Dots { title: self.name.to_owned(), label: label.to_owned(), rows };
            files.push(dots.svg(&file)?);
        }
        text += &self.table();
        if !self.programs.is_empty() {
            let _ = write!(text, "\n## The programs themselves\n\n{}", self.programs);
        }
        let _ = write!(
            text,
            "\n## All of it\n\n`seawall reproduce {}{}` prints:\n\n```text\n{}\n```\n",
            self.name,
            self.flags,
            self.text.trim_end()
        );
        files.push(ResultFile { file: format!("{}.md", self.name), text });
        Ok(files)
    }

    fn table(&self) -> String {
        let has_range = self.values.iter().any(|value| value.range.is_some());
        let has_stand_ins = self.values.iter().any(|value| value.stand_in.is_some());
        let mut text = "\n| value | paper | ours |".to_owned();
        let mut line = "|---|---:|---:|".to_owned();
        for (name, _) in
            [("stand-in", has_stand_ins), ("range", has_range)].iter().filter(|(_, has)| *has)
        {
            let _ = write!(text, " {name} |");
            line += "---:|";
        }
        let _ = writeln!(text, " |\n{line}---|");
        for value in self.values {
            let number = |it: f64| match value.is_percent {
                true => format!("{it:.1} %"),
                false => format!("{it:.2}"),
            };
            let numbers = value.numbers;
            let _ = write!(text, "| {} | {} |", value.value, number(numbers.paper));
            let _ = write!(text, " {} |", number(numbers.ours));
            if has_stand_ins {
                let _ = write!(text, " {} |", value.stand_in.map_or("-".into(), number));
            }
            if has_range {
                let range = value
                    .range
                    .map(|(least, most)| format!("{} to {}", number(least), number(most)));
                let _ = write!(text, " {} |", range.unwrap_or_else(|| "-".into()));
            }
            let _ = match &value.reproduced {
                Reproduced::Held => writeln!(text, " holds |"),
                Reproduced::Missed => writeln!(text, " does not hold |"),
                Reproduced::NotPublic(why) => writeln!(text, " not reproducible: {why} |"),
            };
        }
        if has_range {
            let of = if has_stand_ins { "the stand-ins" } else { "ours" };
            let _ = writeln!(
                text,
                "\nThe range is that of {of} with other values of parameters that nobody published."
            );
        }
        text
    }
}

fn dot(value: &PublishedValue) -> Dot {
    Dot {
        name: value.value.clone(),
        paper: value.numbers.paper,
        tolerance: value.numbers.tolerance,
        ours: value.numbers.ours,
        stand_in: value.stand_in,
        range: value.range,
        fate: match value.reproduced {
            Reproduced::Held => DotFate::Within,
            Reproduced::Missed => DotFate::Outside,
            Reproduced::NotPublic(_) => DotFate::NotPublic,
        },
    }
}
