//! What the pages of `compare`, `kernels`, `sweep` and of programs have in common: where the time
//! went, in the parts of the plots, and what crashes came to.

use super::spent::{Groups, PARTS, Spent};
use seawall_report::{
    HtmlChart, HtmlColumn, HtmlFate, HtmlForm, HtmlNote, HtmlPage, HtmlPart, HtmlRow,
};
use seawall_sim::{Counters, Reason, Stalls};
use serde_json::{Map, Value, json};

/// A page with what explains times and counters, and nothing else yet.
pub(crate) fn page_of_times(title: String) -> HtmlPage {
    let counters = Counters::default();
    let glossary = counters.rows().into_iter().map(|(name, about, _)| (name, about)).collect();
    HtmlPage { title, parts: parts(), glossary, ..HtmlPage::default() }
}

fn parts() -> Vec<HtmlPart> {
    let part = |part: &seawall_report::TimePart<Spent>| {
        let (red, green, blue) = part.colour;
        let is_in = |reason: &Reason| (part.share)(&spent_on(*reason)) > 0.0;
        let reasons = Reason::ALL.into_iter().filter(is_in).map(Reason::name);
        let busy = (part.share)(&Spent { core_cycles: 1, ..Spent::default() }) > 0.0;
        HtmlPart {
            name: part.name,
            colour: format!("#{red:02x}{green:02x}{blue:02x}"),
            reasons: busy.then_some("busy").into_iter().chain(reasons).collect(),
        }
    };
    PARTS.iter().map(part).collect()
}

/// A cycle that went to `reason`.
fn spent_on(reason: Reason) -> Spent {
    let mut stalls = Stalls::default();
    stalls.add(reason, 1);
    Spent { core_cycles: 1, stalls }
}

/// The shares of a page's parts.
pub(crate) fn shares(spent: &Spent) -> Vec<f64> {
    PARTS.iter().map(|part| (part.share)(spent)).collect()
}

/// The columns of [`time_values`].
pub(crate) fn time_columns() -> Vec<HtmlColumn> {
    let share = |field: &str, about| HtmlColumn::new(field, HtmlForm::Percent).about(about);
    vec![
        share("busy", "% of the threads' time in which they issued instructions"),
        share("memory", "% of the threads' time that caches and memory took"),
        share("lock", "% of the threads' time that locks took"),
        share("persist", "% of the threads' time that persistency took"),
        HtmlColumn::new("mostly", HtmlForm::Text)
            .about("the largest reasons of persistency, with their % of the time")
            .unit("%"),
    ]
}

/// Where the time went, in the groups of the tables.
pub(crate) fn time_values(values: &mut Map<String, Value>, spent: &Spent) {
    let Groups { busy, memory, lock, persist } = spent.groups();
    for (name, share) in [("busy", busy), ("memory", memory), ("lock", lock), ("persist", persist)]
    {
        values.insert(name.into(), json!(share));
    }
    values.insert("mostly".into(), json!(spent.mostly()));
}

/// The last columns of a table of cells: conflicts, where the time went, and what crashes came to.
pub(crate) fn cell_columns() -> Vec<HtmlColumn> {
    let outcome = HtmlColumn::new("outcome", HtmlForm::Text)
        .titled("crashes")
        .about("crashes injected and checked; - where a design promises nothing");
    time_columns().into_iter().chain([outcome]).collect()
}

/// Conflicting epochs.
pub(crate) fn conflicts_column() -> HtmlColumn {
    HtmlColumn::new("conflicting", HtmlForm::Number(0))
        .titled("confl.")
        .unit("%")
        .about("% of epochs that were flushed because of a conflict")
}

/// Time over that of the baseline.
pub(crate) fn time_column(baseline: &str) -> HtmlColumn {
    HtmlColumn::new("time", HtmlForm::Number(2))
        .titled(format!("time vs {baseline}"))
        .about("cycles over those of the baseline")
}

/// The row of the cell with that number, which has `row` and what all cells have; `crashes` as
/// [`crash_outcome`] takes them.
pub(crate) fn cell_row(
    at: usize,
    row: HtmlRow,
    spent: &Spent,
    crashes: (Option<u64>, usize),
) -> HtmlRow {
    let (outcome, fate) = crash_outcome(crashes.0, crashes.1);
    let mut row = HtmlRow { records: vec![at], shares: shares(spent), fate, ..row };
    time_values(&mut row.values, spent);
    row.values.insert("outcome".into(), json!(outcome));
    row
}

/// The charts of cells: `value` over the baseline for each design, and where the time went.
pub(crate) fn cell_charts(
    title: String,
    panel: &'static str,
    value: &'static str,
    cut: f64,
) -> Vec<HtmlChart> {
    let bars = HtmlChart::Bars {
        title,
        panel,
        bar: "design",
        value,
        cut: Some(cut),
        reference: Some(1.0),
    };
    let title = "Where the threads' time went".into();
    vec![bars, HtmlChart::Parts { title, panel, bar: "design" }]
}

/// That a command was stopped.
pub(crate) fn stopped_note(done: usize, all: usize) -> HtmlNote {
    HtmlNote::bad(format!("Stopped after {done} of {all} cells."))
}

/// What crashes, none if none were judged, and the result came to.
fn crash_outcome(crashes: Option<u64>, broken: usize) -> (String, HtmlFate) {
    match (crashes, broken) {
        (None, 0) => ("-".into(), HtmlFate::Unjudged),
        (Some(crashes), 0) => (format!("{crashes} ok"), HtmlFate::Good),
        (crashes, broken) => (format!("{}, {broken} BROKEN", crashes.unwrap_or(0)), HtmlFate::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_but_idle_is_in_one_part() {
        let parts = parts();
        for reason in Reason::ALL.into_iter().map(Reason::name).chain(["busy"]) {
            let of = parts.iter().filter(|part| part.reasons.contains(&reason)).count();
            assert_eq!(of, usize::from(reason != "idle"), "{reason}");
        }
    }
}
