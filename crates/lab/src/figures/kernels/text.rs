//! What `seawall reproduce` prints of a figure of kernels.

use super::{KernelFigure, KernelFigureRecord, KernelSeries, RunRecord};
use crate::figures::programs;
use crate::figures::retired::{self, Pair};
use crate::figures::varied;
use seawall_report::{plain_table, text_of};
use std::fmt::Write;

pub(super) const MEAN: &str = "mean";
pub(super) const NAMED: &str = "mean of the named";
pub(super) const PARALLEL: &str = "mean, parallel part";
pub(super) const WITH_PROGRAMS: &str = "with the programs";
pub(super) const CONFLICTS: &str = "inter-thread conflicts, %";

impl KernelFigure {
    /// A column a series: each kernel, the means, the paper's, and whether they hold.
    pub(super) fn text(&self, records: &[&KernelFigureRecord]) -> String {
        let KernelFigure { name, title, source, machine, baseline, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(first) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let quick = if first.quick { " (quick)" } else { "" };
        let _ = writeln!(
            text,
            "  ours:  {machine}, cycles over those of {baseline}, seed {}{quick}\n",
            first.seed
        );
        text += &self.ratios(records);
        text += &self.of_runs("parallel part only", records, |run| format!("{:.2}", run.parallel));
        text += &self
            .of_runs("memory channels busy, %", records, |run| format!("{:.0}", run.channels_busy));
        self.write_verdict(&mut text, records);
        let _ = writeln!(text, "  {}\n", self.note.trim().replace('\n', "\n  "));
        let means = records.iter().filter(|record| record.point == MEAN);
        let columns = means.map(|record| varied::Column {
            series: &record.series,
            paper: record.paper,
            measured: record.measured,
            varied: &record.varied,
        });
        text + &varied::text(&columns.collect::<Vec<_>>(), |value| format!("{value:.2}"))
    }

    fn head(&self) -> Vec<&str> {
        std::iter::once("").chain(self.series.iter().map(|series| &*series.name)).collect()
    }

    /// A row: what `cell` returns for each series that was measured.
    fn row(&self, name: String, cell: impl Fn(&KernelSeries) -> Option<String>) -> Vec<String> {
        let cells = self.series.iter().map(|series| cell(series).unwrap_or_else(|| "-".into()));
        std::iter::once(name).chain(cells).collect()
    }

    /// A line for each kernel and mean, without numbers where retired kernels did not run, one for
    /// each program, and one for the paper's.
    fn ratios(&self, records: &[&KernelFigureRecord]) -> String {
        let head = self.head();
        let mut table = plain_table(&head, 1..head.len());
        for point in points(records) {
            let decimals = usize::from(point != CONFLICTS) * 2;
            let measured = |series: &KernelSeries| {
                let record = find(records, series, point)?;
                Some(match record.retired {
                    true => String::new(),
                    false => format!("{:.decimals$}", record.measured),
                })
            };
            table.add_row(self.row(point.to_owned(), measured));
            for name in program_names(records, point) {
                let value = |series: &KernelSeries| {
                    let programs = &find(records, series, point)?.programs;
                    let program = programs.iter().find(|program| program.name == name)?;
                    Some(format!("{:.decimals$}", program.value))
                };
                table.add_row(self.row(format!("  {name}"), value));
            }
            let paper = |series: &KernelSeries| {
                let record = find(records, series, point)?;
                let held = if record.holds? { "" } else { "NOT " };
                Some(format!("{held}{:.decimals$}", record.paper?))
            };
            let row = self.row("  published".into(), paper);
            if row[1..].iter().any(|cell| cell != "-") {
                table.add_row(row);
            }
        }
        text_of(&table)
    }

    /// Something of every run, behind an empty line; nothing if there was none.
    fn of_runs(
        &self,
        title: &str,
        records: &[&KernelFigureRecord],
        cell: impl Fn(&RunRecord) -> String,
    ) -> String {
        let mut head = self.head();
        head[0] = title;
        let mut table = plain_table(&head, 1..head.len());
        for point in points(records) {
            let of = |series: &KernelSeries| match find(records, series, point)? {
                record if record.retired => Some(String::new()),
                record => record.run.as_ref().map(&cell),
            };
            let row = self.row(point.to_owned(), of);
            if row[1..].iter().any(|cell| cell != "-" && !cell.is_empty()) {
                table.add_row(row);
            }
        }
        match table.row_count() {
            0 => String::new(),
            _ => format!("\n{}", text_of(&table)),
        }
    }

    fn write_verdict(&self, text: &mut String, records: &[&KernelFigureRecord]) {
        let stated = records.iter().filter(|record| record.holds.is_some()).count();
        let held = records.iter().filter(|record| record.holds == Some(true)).count();
        let order = match self.is_ordered(records) {
            Some(true) => "; the order of the means is the paper's",
            Some(false) => "; the order of the means is NOT the paper's",
            None => "",
        };
        let runs = || records.iter().filter_map(|record| record.run.as_ref());
        let wrong = runs().filter(|run| !run.is_right).count();
        let right = match (wrong, runs().count()) {
            (0, 0) => "no kernel ran".to_owned(),
            (0, all) => format!("all {all} results are right"),
            _ => format!("{wrong} RESULTS ARE WRONG"),
        };
        let _ = writeln!(text, "\n  {held} of {stated} hold{order}; {right}");
        self.write_programs(text, records);
        for series in &self.series {
            if let Some(by) = &series.by {
                let _ = writeln!(text, "  {} is published by {by}", series.name);
            }
        }
    }

    /// What the programs are, and which kernels are far from theirs.
    fn write_programs(&self, text: &mut String, records: &[&KernelFigureRecord]) {
        let Some(Ok(file)) = self.programs.as_deref().map(programs::load) else { return };
        let all = || records.iter().flat_map(|record| &record.programs);
        let when = file.when(all().any(|program| program.again));
        let _ = writeln!(text, "  programs: {when}");
        let named = records
            .iter()
            .flat_map(|record| record.programs.iter().map(|program| (&*record.point, program)));
        text.push_str(&programs::doubts_text(named));
        let is_kernel = |point: &&str| self.retired.iter().any(|name| name == point);
        let left_out = records.iter().filter(|record| record.retired);
        let left_out = left_out.map(|record| &*record.point).filter(is_kernel);
        let ran = records.iter().filter(|record| record.run.is_some());
        let pairs = ran.filter_map(|record| {
            let program = record.programs.iter().find(|program| program.held)?.value;
            Some(Pair { name: &record.point, stand_in: record.measured, program })
        });
        let pairs: Vec<Pair<'_>> = pairs.collect();
        let known = retired::known(&self.retired, records.iter().any(|record| record.quick));
        *text += &retired::text("kernels", known, &left_out.collect(), &pairs);
    }

    /// Whether no two means of the figure's own paper are the other way round than there; none if
    /// some were not measured.
    fn is_ordered(&self, records: &[&KernelFigureRecord]) -> Option<bool> {
        let is_own = |record: &&&KernelFigureRecord| {
            let by = |series: &&KernelSeries| series.name == record.series && series.by.is_none();
            record.point == MEAN && self.series.iter().any(|series| by(&series))
        };
        let means: Vec<_> = records.iter().filter(is_own).collect();
        let own = self.series.iter().filter(|series| series.by.is_none()).count();
        let is_ordered = || {
            means.iter().all(|left| {
                let behind = means.iter().filter(|right| left.paper < right.paper);
                behind.into_iter().all(|right| left.compared() <= right.compared())
            })
        };
        (means.len() == own).then(is_ordered)
    }
}

/// The record of a point of a series, if it was measured.
pub(super) fn find<'a>(
    records: &[&'a KernelFigureRecord],
    series: &KernelSeries,
    point: &str,
) -> Option<&'a KernelFigureRecord> {
    let mut all = records.iter().copied();
    all.find(|record| record.series == series.name && record.point == point)
}

/// The names of programs that stand beside a point, each once.
fn program_names<'a>(records: &[&'a KernelFigureRecord], point: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for program in records.iter().filter(|it| it.point == point).flat_map(|it| &it.programs) {
        if !names.contains(&&*program.name) {
            names.push(&program.name);
        }
    }
    names
}

/// Points in the order of the records, each once.
fn points<'a>(records: &[&'a KernelFigureRecord]) -> Vec<&'a str> {
    let mut points: Vec<&str> = Vec::new();
    for record in records {
        if !points.contains(&&*record.point) {
            points.push(&record.point);
        }
    }
    points
}
