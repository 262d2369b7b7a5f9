//! `--html` of a program: time over the baseline, and where it went.

use super::plot::CUT;
use super::{ProgramCell, Programs};
use crate::engine::pages::{
    cell_charts, cell_columns, cell_row, conflicts_column, page_of_times, time_column,
};
use seawall_report::{HtmlColumn, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection};
use serde_json::json;

impl Programs {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let baseline = &self.plan.baseline;
        let times = self.cells.iter().filter_map(|cell| self.relative(cell));
        let cut = CUT * times.fold(1.0, f64::max);
        let cells = self.cells.iter().enumerate();
        let of_several = self.plan.is_of_several();
        let first = of_several.then(|| &*self.plan.programs[0].name);
        let panel = if of_several { "program" } else { "" };
        HtmlPage {
            facts: self.page_facts(),
            notes: self.page_notes(),
            sections: vec![HtmlSection {
                filters: if of_several { vec!["design", panel] } else { vec!["design"] },
                columns: columns(baseline, first),
                rows: cells.map(|(at, cell)| self.page_row(at, cell)).collect(),
                charts: cell_charts(format!("Time over that of {baseline}"), panel, "time", cut),
                ..HtmlSection::default()
            }],
            ..page_of_times(format!("{} on {}", self.plan.title(), self.plan.machine_name))
        }
    }

    fn page_facts(&self) -> Vec<(&'static str, String)> {
        let cores = self.cells.iter().map(|cell| cell.ran.cores).max().unwrap_or(0);
        vec![
            ("machine", self.plan.machine_name.clone()),
            ("cores", cores.to_string()),
            ("seed", self.plan.seed.to_string()),
            ("crashes of each cell", self.plan.crashes.to_string()),
            ("baseline", self.plan.baseline.clone()),
        ]
    }

    fn page_notes(&self) -> Vec<HtmlNote> {
        let lines = self.ribbon_summary() + &self.crash_summary();
        let is_bad = |line: &str| line.contains("BROKEN") || line.contains("WRONG");
        let notes = lines.lines().map(|line| HtmlNote { text: line.into(), is_bad: is_bad(line) });
        let opaque = self.facts.iter().flat_map(|facts| &facts.opaque).map(|part| {
            HtmlNote::plain(format!("not compiled with `seawall cc`, so not simulated: {part}"))
        });
        notes.chain(opaque).collect()
    }

    fn page_row(&self, at: usize, cell: &ProgramCell) -> HtmlRow {
        let crashes = (cell.crashed.as_ref().map(|ran| ran.crashes), cell.broken());
        let millions = |count: u64| json!(count as f64 / 1e6);
        let mut row = HtmlRow::new([
            ("design", json!(cell.point.label())),
            ("time", json!(self.relative(cell))),
            ("mcycles", millions(cell.ran.cycles)),
            ("minstr", millions(cell.ran.instructions)),
            ("mrefs", millions(cell.ran.counters.references)),
            ("conflicting", json!(cell.conflicting_epochs())),
        ]);
        if self.plan.is_of_several() {
            row.values.insert("program".into(), json!(cell.point.program.name));
            row.values.insert("over_first".into(), json!(self.over_first(cell)));
        }
        cell_row(at, row, &cell.spent(), crashes)
    }
}

/// The columns; `first` is the first of several programs.
fn columns(baseline: &str, first: Option<&str>) -> Vec<HtmlColumn> {
    let millions = |field: &str, title: &str, about| {
        HtmlColumn::new(field, HtmlForm::Number(3)).titled(title).about(about)
    };
    let mut columns = vec![HtmlColumn::new("design", HtmlForm::Text)];
    columns.extend(first.into_iter().flat_map(|first| {
        let over_first = HtmlColumn::new("over_first", HtmlForm::Number(2))
            .titled(format!("vs {first}"))
            .about("cycles over those of the first program under the same design");
        [HtmlColumn::new("program", HtmlForm::Text), over_first]
    }));
    columns.extend([
        time_column(baseline),
        millions("mcycles", "Mcycles", "millions of cycles of the region that was measured"),
        millions("minstr", "Minstr", "millions of instructions"),
        millions("mrefs", "Mrefs", "millions of loads and stores"),
        conflicts_column(),
    ]);
    columns.extend(cell_columns());
    columns
}
