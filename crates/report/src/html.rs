//! `--html`: the results of a command as one file that a browser shows without a network.
//!
//! A command says what its page has: facts, and sections with a table, charts over its rows and
//! excerpts of sources. The page also holds the records of `--json`, unchanged, and what the
//! command printed. `html/page.js` builds tables, filters and details from this; `html/charts.js`
//! has Vega-Lite draw the charts.

mod assemble;
mod sheet;

pub use assemble::Shown;

use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a page of results has.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HtmlPage {
    /// Its heading.
    pub title: String,
    /// What holds for everything on it, such as the machine and the seed.
    pub facts: Vec<(&'static str, String)>,
    /// What came out, in sentences.
    pub notes: Vec<HtmlNote>,
    /// The parts of time that [`HtmlRow::shares`] are shares of.
    pub parts: Vec<HtmlPart>,
    /// What the counters of records count.
    pub glossary: BTreeMap<&'static str, &'static str>,
    /// From above.
    pub sections: Vec<HtmlSection>,
    /// Lines of sources around places that rows name, as `file:line`.
    pub sources: BTreeMap<String, HtmlExcerpt>,
}

/// A sentence about the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HtmlNote {
    /// What it says.
    pub text: String,
    /// Whether something is wrong.
    pub is_bad: bool,
}

impl HtmlNote {
    /// A sentence about what is as it should be.
    pub fn plain(text: impl Into<String>) -> HtmlNote {
        HtmlNote { text: text.into(), is_bad: false }
    }

    /// A sentence about what is not.
    pub fn bad(text: impl Into<String>) -> HtmlNote {
        HtmlNote { text: text.into(), is_bad: true }
    }
}

/// A part of time, as all charts show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HtmlPart {
    /// What the legend calls it.
    pub name: &'static str,
    /// Its colour, as `#rrggbb`.
    pub colour: String,
    /// The names in records of what is counted in it.
    pub reasons: Vec<&'static str>,
}

/// A table with its charts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HtmlSection {
    /// Its heading; none for the only section of a page.
    pub heading: Option<String>,
    /// What it shows, in sentences.
    pub notes: Vec<HtmlNote>,
    /// Lists of single values, such as the place of a crash.
    pub facts: Vec<(&'static str, String)>,
    /// Commands that repeat what it shows.
    pub commands: Vec<String>,
    /// Columns from whose values readers choose.
    pub filters: Vec<&'static str>,
    /// From the left.
    pub columns: Vec<HtmlColumn>,
    /// The columns of `--csv` and `--latex`, where these are others.
    #[serde(skip)]
    pub sheet: Vec<HtmlColumn>,
    /// From above.
    pub rows: Vec<HtmlRow>,
    /// Charts over these rows.
    pub charts: Vec<HtmlChart>,
    /// Sources that it is about.
    pub excerpts: Vec<HtmlExcerpt>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HtmlColumn {
    /// The field of [`HtmlRow::values`] that it shows.
    pub field: String,
    /// Its head.
    pub title: String,
    /// What it shows, in a sentence; empty if its head says it.
    pub about: &'static str,
    /// How its values are written.
    pub form: HtmlForm,
    /// What `--csv` and `--latex` have behind the head; empty if that says it.
    #[serde(skip)]
    pub unit: &'static str,
}

impl HtmlColumn {
    /// A column whose field is called as its head.
    pub fn new(field: impl Into<String>, form: HtmlForm) -> HtmlColumn {
        let field = field.into();
        HtmlColumn { title: field.clone(), field, about: "", form, unit: "" }
    }

    /// The same with another head.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> HtmlColumn {
        HtmlColumn { title: title.into(), ..self }
    }

    /// The same with a sentence about what it shows.
    #[must_use]
    pub fn about(self, about: &'static str) -> HtmlColumn {
        HtmlColumn { about, ..self }
    }

    /// The same with the unit of its values.
    #[must_use]
    pub fn unit(self, unit: &'static str) -> HtmlColumn {
        HtmlColumn { unit, ..self }
    }
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HtmlForm {
    /// As they are.
    Text,
    /// In the type of programs.
    Code,
    /// Numbers with so many decimals.
    Number(u8),
    /// Shares of 1, in per cent.
    Percent,
}

/// A row of a table, and what a click on it shows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HtmlRow {
    /// What columns and charts show.
    pub values: Map<String, Value>,
    /// The numbers of the records that it is made of, from 0.
    pub records: Vec<usize>,
    /// For each of [`HtmlPage::parts`] its share of the time; none where no time is known.
    pub shares: Vec<f64>,
    /// What became of it.
    pub fate: HtmlFate,
    /// The commands that repeat each of its records, where these do not say them; or one that
    /// repeats the row.
    pub commands: Vec<String>,
}

impl HtmlRow {
    /// A row with these values.
    pub fn new<const N: usize>(values: [(&str, Value); N]) -> HtmlRow {
        let values = values.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        HtmlRow { values, ..HtmlRow::default() }
    }
}

/// What became of a row, which its colour shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HtmlFate {
    /// Nothing was judged.
    #[default]
    Unjudged,
    /// It held.
    Good,
    /// It did not.
    Bad,
}

/// A chart over the rows of a section; each name is a field of the rows' values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HtmlChart {
    /// Bars, and a panel of them for each value of `panel`.
    Bars {
        /// What it shows.
        title: String,
        /// A panel each.
        panel: &'static str,
        /// A bar each.
        bar: &'static str,
        /// How long bars are.
        value: &'static str,
        /// Bars above this end at the edge.
        cut: Option<f64>,
        /// A value that a line marks.
        reference: Option<f64>,
    },
    /// Where the time of each bar went: the rows' shares, stacked.
    Parts {
        /// What it shows.
        title: String,
        /// A panel each.
        panel: &'static str,
        /// A bar each.
        bar: &'static str,
    },
    /// Curves over names, and a panel of them for each value of `panel`.
    Lines {
        /// What it shows.
        title: String,
        /// A panel each.
        panel: &'static str,
        /// The names, in the order of the rows.
        x: &'static str,
        /// How high points are.
        value: &'static str,
        /// A curve each.
        curve: &'static str,
    },
    /// Published values and ours: the fields `paper`, `tolerance`, `ours`, and where there are any
    /// `stand_in`, `least`, `most`.
    Dots {
        /// What it shows.
        title: String,
        /// A panel each.
        panel: &'static str,
        /// A line each.
        name: &'static str,
    },
    /// Events before a crash: the fields `event`, `lane`, `what` and `state`.
    Timeline {
        /// What it shows.
        title: String,
        /// The event after which power fails.
        crash: usize,
    },
}

/// Lines of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HtmlExcerpt {
    /// The file.
    pub file: String,
    /// The number of the first line.
    pub first: u32,
    /// The lines.
    pub lines: Vec<String>,
    /// What is to be seen of some of them.
    pub marks: Vec<HtmlMark>,
}

/// What is to be seen of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HtmlMark {
    /// The number of the line.
    pub line: u32,
    /// A word for its colour: `lost`, `early`, `crash` or `place`.
    pub kind: &'static str,
    /// What is said of it.
    pub text: String,
}
