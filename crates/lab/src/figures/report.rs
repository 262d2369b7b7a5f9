//! `seawall reproduce --html`: every published value beside ours, with the records that it is made
//! of.

use super::kinds::FigureValues;
use super::{FigureOptions, Figures, PublishedValue, Reproduced};
use crate::engine::pages::page_of_times;
use seawall_report::{
    HtmlChart, HtmlColumn, HtmlFate, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection,
};
use serde_json::{Value, json};

impl FigureOptions {
    /// The options that decide what is measured, as they are typed.
    pub(super) fn flags(&self) -> String {
        let flags = [
            (self.is_quick, " --quick".to_owned()),
            (self.is_full, " --full".to_owned()),
            (self.is_varied, " --varied".to_owned()),
            (self.seed != 1, format!(" --seed {}", self.seed)),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect()
    }
}

impl Figures {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let lines = self.lines();
        let parsed = lines.lines().map(|line| serde_json::from_str(line).unwrap_or_default());
        let records: Vec<Value> = parsed.collect();
        let figures = self.shown();
        let mut notes = vec![HtmlNote::plain(
            "Bands are how far from the published value ours may be; thin lines are what ours \
             would be with other values of parameters that nobody published; diamonds are the \
             kernels that stand for programs.",
        )];
        notes.extend(tally(&figures));
        if self.is_partial() {
            notes.push(HtmlNote::bad("Stopped before everything was measured."));
        }
        let title = match &figures[..] {
            [only] => format!("{}: {}", only.name, only.title),
            _ => "Published values and ours".into(),
        };
        let values = self.values_section(&figures, &records);
        let sections = match figures.len() {
            0 | 1 => vec![values],
            _ => vec![figures_section(&figures), values],
        };
        let facts = match &figures[..] {
            [only] => vec![("paper", only.source.to_owned())],
            _ => Vec::new(),
        };
        HtmlPage { facts, notes, sections, ..page_of_times(title) }
    }

    fn values_section(&self, figures: &[FigureValues<'_>], records: &[Value]) -> HtmlSection {
        let mut rows = Vec::new();
        for figure in figures {
            let command = format!("seawall reproduce {}{}", figure.name, self.flags());
            let of_figure = || figure.values.iter().map(|value| value.is_percent);
            let is_mixed = of_figure().any(|it| it) && of_figure().any(|it| !it);
            rows.extend(figure.values.iter().map(|value| HtmlRow {
                records: records_of(figure.name, value, records),
                commands: vec![command.clone()],
                ..value_row(figure.name, value, is_mixed)
            }));
        }
        let has = |field: &str| rows.iter().any(|row| !row.values[field].is_null());
        let number = |field: &str, about| HtmlColumn::new(field, HtmlForm::Number(2)).about(about);
        let mut columns = vec![
            HtmlColumn::new("figure", HtmlForm::Text),
            HtmlColumn::new("value", HtmlForm::Text),
            number("paper", "the published value"),
            number("ours", "what we measure"),
            number("tolerance", "how far apart they may be"),
        ];
        let optional = [
            number("stand_in", "the kernel that stands for a program").titled("kernel alone"),
            number("least", "ours at least, with other values of unpublished parameters"),
            number("most", "ours at most, with other values of unpublished parameters"),
        ];
        columns.extend(optional.into_iter().filter(|column| has(&column.field)));
        columns.push(HtmlColumn::new("unit", HtmlForm::Text));
        columns.push(HtmlColumn::new("outcome", HtmlForm::Text));
        HtmlSection {
            heading: (figures.len() > 1).then(|| "Values".into()),
            filters: vec!["figure", "outcome"],
            columns,
            rows,
            charts: vec![HtmlChart::Dots {
                title: "The published value (upright line), and ours (point)".into(),
                panel: "panel",
                name: "value",
            }],
            ..HtmlSection::default()
        }
    }
}

fn value_row(figure: &str, value: &PublishedValue, is_mixed: bool) -> HtmlRow {
    let unit = if value.is_percent { "per cent" } else { "ratio" };
    let panel = if is_mixed { format!("{figure}, {unit}") } else { figure.to_owned() };
    let (outcome, fate) = match &value.reproduced {
        Reproduced::Held => ("holds".to_owned(), HtmlFate::Good),
        Reproduced::Missed => ("does not hold".to_owned(), HtmlFate::Bad),
        Reproduced::NotPublic(why) => (format!("not reproducible: {why}"), HtmlFate::Unjudged),
    };
    let row = HtmlRow::new([
        ("figure", json!(figure)),
        ("panel", json!(panel)),
        ("value", json!(value.value)),
        ("workload", json!(value.workload)),
        ("paper", json!(value.numbers.paper)),
        ("ours", json!(value.numbers.ours)),
        ("tolerance", json!(value.numbers.tolerance)),
        ("stand_in", json!(value.stand_in)),
        ("least", json!(value.range.map(|(least, _)| least))),
        ("most", json!(value.range.map(|(_, most)| most))),
        ("unit", json!(unit)),
        ("outcome", json!(outcome)),
    ]);
    HtmlRow { fate, ..row }
}

/// The numbers of a figure's records whose series a value names; of all of them, if it names none.
fn records_of(figure: &str, value: &PublishedValue, records: &[Value]) -> Vec<usize> {
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or("").to_owned();
    let of_figure = |at: &usize| records[*at]["figure"] == figure;
    let all: Vec<usize> = (0..records.len()).filter(of_figure).collect();
    let names = |at: &usize| {
        let series = text(&records[*at], "series");
        !series.is_empty() && value.value.contains(&series)
    };
    let named: Vec<usize> = all.iter().copied().filter(names).collect();
    let is_point = |at: &usize| {
        let point = text(&records[*at], "point");
        !point.is_empty() && value.value.contains(&point)
    };
    let exact: Vec<usize> = named.iter().copied().filter(is_point).collect();
    [exact, named, all].into_iter().find(|some| !some.is_empty()).unwrap_or_default()
}

/// Values, and how many hold, are missed, and cannot be reproduced.
fn counts(values: &[PublishedValue]) -> [usize; 4] {
    let count = |is: fn(&Reproduced) -> bool| values.iter().filter(|it| is(&it.reproduced)).count();
    [
        values.len(),
        count(|it| *it == Reproduced::Held),
        count(|it| *it == Reproduced::Missed),
        count(|it| matches!(it, Reproduced::NotPublic(_))),
    ]
}

fn tally(figures: &[FigureValues<'_>]) -> Option<HtmlNote> {
    let sums = figures.iter().map(|figure| counts(&figure.values));
    let [all, held, _, beyond] =
        sums.fold([0; 4], |sum, of| [0, 1, 2, 3].map(|at| sum[at] + of[at]));
    let share = (100 * held).checked_div(all - beyond)?;
    let of = all - beyond;
    Some(HtmlNote::plain(format!("{held} of {of} values that can be reproduced hold ({share} %).")))
}

fn figures_section(figures: &[FigureValues<'_>]) -> HtmlSection {
    let row = |figure: &FigureValues<'_>| {
        let [all, held, missed, beyond] = counts(&figure.values);
        let row = HtmlRow::new([
            ("figure", json!(figure.name)),
            ("title", json!(figure.title)),
            ("paper", json!(figure.source)),
            ("values", json!(all)),
            ("held", json!(held)),
            ("missed", json!(missed)),
            ("beyond", json!(beyond)),
        ]);
        HtmlRow { commands: vec![format!("seawall reproduce {}", figure.name)], ..row }
    };
    let count = |field: &str| HtmlColumn::new(field, HtmlForm::Number(0));
    HtmlSection {
        heading: Some("Figures".into()),
        columns: vec![
            HtmlColumn::new("figure", HtmlForm::Text),
            HtmlColumn::new("title", HtmlForm::Text).titled("what it shows"),
            count("values").titled("published values"),
            count("held"),
            count("missed"),
            count("beyond").titled("not reproducible"),
            HtmlColumn::new("paper", HtmlForm::Text),
        ],
        rows: figures.iter().map(row).collect(),
        ..HtmlSection::default()
    }
}
