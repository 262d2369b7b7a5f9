//! `--html` of a program: time over the baseline, and where it went.

use super::plot::CUT;
use super::{ProgramCell, Programs};
use crate::engine::pages::{
    crash_column, crash_outcome, page_of_times, shares, time_columns, time_values,
};
use seawall_report::{HtmlChart, HtmlColumn, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection};
use serde_json::json;

impl Programs {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let baseline = &self.plan.baseline;
        let times = self.cells.iter().filter_map(|cell| self.relative(cell));
        let cut = CUT * times.fold(1.0, f64::max);
        let cells = self.cells.iter().enumerate();
        HtmlPage {
            facts: self.page_facts(),
            notes: self.page_notes(),
            sections: vec![HtmlSection {
                filters: vec!["design"],
                columns: columns(baseline),
                rows: cells.map(|(at, cell)| self.page_row(at, cell)).collect(),
                charts: vec![
                    HtmlChart::Bars {
                        title: format!("Time over that of {baseline}"),
                        panel: "",
                        bar: "design",
                        value: "time",
                        cut: Some(cut),
                        reference: Some(1.0),
                    },
                    HtmlChart::Parts {
                        title: "Where the threads' time went".into(),
                        panel: "",
                        bar: "design",
                    },
                ],
                ..HtmlSection::default()
            }],
            ..page_of_times(format!("{} on {}", self.plan.command.text, self.plan.machine_name))
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
        let lines = self.crash_summary();
        let is_bad = |line: &str| line.contains("BROKEN") || line.contains("WRONG");
        let notes = lines.lines().map(|line| HtmlNote { text: line.into(), is_bad: is_bad(line) });
        let opaque = self.opaque.iter().map(|part| {
            HtmlNote::plain(format!("not compiled with `seawall cc`, so not simulated: {part}"))
        });
        notes.chain(opaque).collect()
    }

    fn page_row(&self, at: usize, cell: &ProgramCell) -> HtmlRow {
        let crashes = cell.crashed.as_ref().map(|ran| ran.crashes);
        let (outcome, fate) = crash_outcome(crashes, cell.broken());
        let millions = |count: u64| json!(count as f64 / 1e6);
        let mut row = HtmlRow::new([
            ("design", json!(cell.design.text)),
            ("time", json!(self.relative(cell))),
            ("mcycles", millions(cell.ran.cycles)),
            ("minstr", millions(cell.ran.instructions)),
            ("mrefs", millions(cell.ran.counters.references)),
            ("conflicting", json!(cell.conflicting_epochs())),
        ]);
        time_values(&mut row.values, &cell.spent());
        row.values.insert("outcome".into(), json!(outcome));
        HtmlRow { records: vec![at], shares: shares(&cell.spent()), fate, ..row }
    }
}

fn columns(baseline: &str) -> Vec<HtmlColumn> {
    let millions = |field: &str, title: &str, about| {
        HtmlColumn::new(field, HtmlForm::Number(3)).titled(title).about(about)
    };
    let mut columns = vec![
        HtmlColumn::new("design", HtmlForm::Text),
        HtmlColumn::new("time", HtmlForm::Number(2))
            .titled(format!("time vs {baseline}"))
            .about("cycles over those of the baseline"),
        millions("mcycles", "Mcycles", "millions of cycles of the region that was measured"),
        millions("minstr", "Minstr", "millions of instructions"),
        millions("mrefs", "Mrefs", "millions of loads and stores"),
        HtmlColumn::new("conflicting", HtmlForm::Number(0))
            .titled("confl.")
            .about("% of epochs that were flushed because of a conflict"),
    ];
    columns.extend(time_columns());
    columns.push(crash_column());
    columns
}
