//! `seawall kernels --html`: time over the baseline, and where it went.

use super::plot::CUT;
use super::{KernelCell, Kernels};
use crate::engine::pages::{
    cell_charts, cell_columns, cell_row, conflicts_column, page_of_times, stopped_note, time_column,
};
use seawall_report::{HtmlColumn, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection};
use serde_json::json;

impl Kernels {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let baseline = &self.plan.baseline;
        let designs = || self.plan.designs().map(|design| &*design.text);
        let means = designs().filter_map(|design| self.mean_relative(design));
        let cut = CUT * means.fold(1.0, f64::max);
        HtmlPage {
            facts: self.page_facts(),
            notes: self.page_notes(),
            sections: vec![HtmlSection {
                filters: vec!["kernel", "design"],
                columns: columns(baseline),
                rows: self.page_rows(),
                charts: cell_charts(format!("Time over that of {baseline}"), "kernel", "time", cut),
                ..HtmlSection::default()
            }],
            ..page_of_times(format!("Parallel kernels on {}", self.plan.machine_name))
        }
    }

    fn page_facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("machine", self.plan.machine_name.clone())];
        if let Some(point) = self.plan.points.first() {
            facts.push(("threads", point.threads.to_string()));
            facts.push(("what runs", point.extent.in_words().to_owned()));
            facts.push(("seed", point.seed.to_string()));
        }
        facts.push(("crashes of each cell", self.plan.crashes.to_string()));
        facts.push(("baseline", self.plan.baseline.clone()));
        facts
    }

    fn page_notes(&self) -> Vec<HtmlNote> {
        let wrong = self.cells.iter().filter(|cell| cell.run.result.is_err()).count();
        let cuts = || self.cells.iter().filter_map(|cell| cell.cuts.as_ref());
        let crashes: u64 = cuts().map(|cuts| cuts.crashes).sum();
        let broken: usize = cuts().map(|cuts| cuts.broken.len()).sum();
        let results = format!("{} results held to a plain computation", self.cells.len());
        let mut notes = vec![match wrong {
            0 => HtmlNote::plain(format!("{results}: all right.")),
            wrong => HtmlNote::bad(format!("{results}: {wrong} WRONG.")),
        }];
        if crashes > 0 {
            notes.push(match broken {
                0 => HtmlNote::plain(format!("{crashes} crashes: each left a consistent cut.")),
                broken => {
                    HtmlNote::bad(format!("{crashes} crashes: {broken} left NO CONSISTENT CUT."))
                }
            });
        }
        if self.is_partial {
            let (done, all) = (self.cells.len(), self.plan.points.len());
            notes.push(stopped_note(done, all));
        }
        notes
    }

    fn page_rows(&self) -> Vec<HtmlRow> {
        let cells = self.cells.iter().enumerate().map(|(at, cell)| self.page_row(at, cell));
        let mean = |design: &str| {
            let time = self.mean_relative(design)?;
            Some(HtmlRow::new([
                ("kernel", json!("geo. mean")),
                ("design", json!(design)),
                ("time", json!(time)),
            ]))
        };
        cells.chain(self.plan.designs().filter_map(|design| mean(&design.text))).collect()
    }

    fn page_row(&self, at: usize, cell: &KernelCell) -> HtmlRow {
        let crashes = (cell.cuts.as_ref().map(|cuts| cuts.crashes), cell.broken());
        let row = HtmlRow::new([
            ("kernel", json!(cell.point.kernel)),
            ("design", json!(cell.point.design.text)),
            ("time", json!(self.relative(cell))),
            ("mcycles", json!(cell.run.cycles as f64 / 1e6)),
            ("conflicting", json!(cell.conflicting_epochs())),
            ("inter", json!(cell.conflicts_between_threads())),
        ]);
        cell_row(at, row, &cell.spent(), crashes)
    }
}

fn columns(baseline: &str) -> Vec<HtmlColumn> {
    let mut columns = vec![
        HtmlColumn::new("kernel", HtmlForm::Text),
        HtmlColumn::new("design", HtmlForm::Text),
        time_column(baseline),
        HtmlColumn::new("mcycles", HtmlForm::Number(3))
            .titled("Mcycles")
            .about("millions of cycles until the last thread finished"),
        conflicts_column(),
        HtmlColumn::new("inter", HtmlForm::Number(0))
            .about("conflicts between threads, in % of all")
            .unit("%"),
    ];
    columns.extend(cell_columns());
    columns
}
