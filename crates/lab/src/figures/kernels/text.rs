//! What `seawall reproduce` prints of a figure of kernels.

use super::{KernelFigure, KernelFigureRecord, KernelSeries, RunRecord};
use crate::figures::programs;
use crate::figures::varied;
use seawall_report::{plain_table, text_of};
use std::collections::BTreeSet;
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
        text += "\n";
        text += &self.of_runs("parallel part only", records, |run| format!("{:.2}", run.parallel));
        text += "\n";
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

    fn ratios(&self, records: &[&KernelFigureRecord]) -> String {
        let head = self.head();
        let mut table = plain_table(&head, 1..head.len());
        for point in points(records) {
            let decimals = usize::from(point != CONFLICTS) * 2;
            let measured = |series: &KernelSeries| {
                find(records, series, point).map(|record| format!("{:.decimals$}", record.measured))
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

    /// Something of every run.
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
            let of = |series: &KernelSeries| find(records, series, point)?.run.as_ref().map(&cell);
            let row = self.row(point.to_owned(), of);
            if row[1..].iter().any(|cell| cell != "-") {
                table.add_row(row);
            }
        }
        text_of(&table)
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
        let right = match wrong {
            0 => format!("all {} results are right", runs().count()),
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
        let is_far = |record: &&&KernelFigureRecord| {
            record.run.is_some()
                && (record.measured / record.compared() - 1.0).abs() > programs::APART_MAX
        };
        let far: BTreeSet<&str> = records.iter().filter(is_far).map(|it| &*it.point).collect();
        if !far.is_empty() {
            let far = far.into_iter().collect::<Vec<_>>().join(", ");
            let percent = 100.0 * programs::APART_MAX;
            let _ = writeln!(text, "  kernels more than {percent:.0} % from their programs: {far}");
        }
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
