//! `seawall compare --html`: throughput over the baseline, and where the time went.

use super::Comparison;
use super::plot::THROUGHPUT_MAX;
use crate::cell::Cell;
use crate::engine::pages::{
    cell_charts, cell_columns, cell_row, conflicts_column, page_of_times, stopped_note,
};
use seawall_report::{HtmlColumn, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection};
use serde_json::json;

impl Comparison {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let baseline = &self.plan.baseline;
        let title = format!("Persistency designs on {}", self.plan.machine_name);
        HtmlPage {
            facts: self.page_facts(),
            notes: self.page_notes(),
            sections: vec![HtmlSection {
                filters: vec!["workload", "design"],
                columns: columns(baseline),
                rows: self.page_rows(),
                charts: cell_charts(
                    format!("Throughput over that of {baseline}"),
                    "workload",
                    "relative",
                    THROUGHPUT_MAX,
                ),
                ..HtmlSection::default()
            }],
            ..page_of_times(title)
        }
    }

    fn page_facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("machine", self.plan.machine_name.clone())];
        if let Some(point) = self.plan.points.first() {
            facts.push(("threads", point.threads.to_string()));
            facts.push(("operations of each", point.operations.to_string()));
            facts.push(("seed", point.seed.to_string()));
            facts.push(("crashes of each cell", point.crashes.to_string()));
        }
        facts.push(("baseline", self.plan.baseline.clone()));
        facts
    }

    fn page_notes(&self) -> Vec<HtmlNote> {
        let said = self.crashes_said() + ".";
        let said = if self.broken() == 0 { HtmlNote::plain(said) } else { HtmlNote::bad(said) };
        let mut notes = vec![said];
        notes.extend(self.stuck.iter().map(|stuck| HtmlNote::bad(format!("Stuck: {stuck}"))));
        let (done, all) = (self.cells.len(), self.plan.points.len());
        if done + self.stuck.len() < all {
            notes.push(stopped_note(done, all));
        }
        notes
    }

    fn page_rows(&self) -> Vec<HtmlRow> {
        let cells = self.cells.iter().enumerate().map(|(at, cell)| self.page_row(at, cell));
        let mean = |design: &String| {
            let relative = self.mean_relative(design)?;
            Some(HtmlRow::new([
                ("workload", json!("geo. mean")),
                ("design", json!(design)),
                ("relative", json!(relative)),
            ]))
        };
        let designs = self.plan.designs();
        cells.chain(designs.iter().filter_map(mean)).collect()
    }

    fn page_row(&self, at: usize, cell: &Cell) -> HtmlRow {
        let crashes = (cell.is_crashed().then_some(cell.crashes), cell.broken.len());
        let row = HtmlRow::new([
            ("workload", json!(cell.point.workload)),
            ("design", json!(cell.point.label())),
            ("relative", json!(self.relative(cell))),
            ("mops", json!(cell.throughput * self.plan.machine.ghz * 1000.0)),
            ("conflicting", json!(cell.conflicting_epochs())),
        ]);
        cell_row(at, row, &cell.spent(), crashes)
    }
}

fn columns(baseline: &str) -> Vec<HtmlColumn> {
    let mut columns = vec![
        HtmlColumn::new("workload", HtmlForm::Text),
        HtmlColumn::new("design", HtmlForm::Text),
        HtmlColumn::new("relative", HtmlForm::Number(2))
            .titled(format!("vs {baseline}"))
            .about("throughput over that of the baseline"),
        HtmlColumn::new("mops", HtmlForm::Number(1))
            .titled("Mop/s")
            .about("millions of operations per simulated second"),
        conflicts_column(),
    ];
    columns.extend(cell_columns());
    columns
}
