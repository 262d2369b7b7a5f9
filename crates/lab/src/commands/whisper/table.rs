//! What `seawall whisper` prints, at most 100 columns wide: three rows for each application, what
//! was counted, what was published, and how many times one is the other.

use super::{Published, Quantities, Whisper};
use seawall_report::{plain_table, text_of};
use std::fmt::Write;

/// The means of all applications of which something was published.
pub(super) struct Means {
    pub(super) measured: Quantities<Option<f64>>,
    pub(super) published: Quantities<Option<f64>>,
    pub(super) ratio: Quantities<Option<f64>>,
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Three digits that matter, at most.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

impl Whisper {
    /// The means of the values of which the published one is known; none for one application.
    pub(super) fn means(&self) -> Option<Means> {
        let both = |at: usize| -> (Vec<f64>, Vec<f64>) {
            let values = self.records.iter().filter_map(|record| {
                Some((*record.measured.each()[at], (*record.published.each()[at])?))
            });
            values.unzip()
        };
        if self.records.len() < 2 {
            return None;
        }
        let measured = Quantities::of(std::array::from_fn(|at| mean(&both(at).0)));
        let published = Quantities::of(std::array::from_fn(|at| mean(&both(at).1)));
        let ratio = self.plan.published.compare(&measured, &published);
        Some(Means { measured, published, ratio })
    }

    /// The table, and what is too far off.
    pub fn to_text(&self) -> String {
        let published = &self.plan.published;
        let mut text = format!(
            "{}: {} threads on {} under {}, {} operations each, seed {}\n{}\n\n",
            published.title,
            self.plan.points.first().map_or(0, |point| point.threads),
            self.plan.machine_name,
            published.design,
            self.plan.points.first().map_or(0, |point| point.operations),
            self.plan.points.first().map_or(0, |point| point.seed),
            published.source,
        );
        text += &self.table();
        let quantities = published.quantities.each();
        for quantity in quantities {
            if let Some(reason) = &quantity.unless {
                let _ = writeln!(text, "\n{} is held to nothing: {reason}", quantity.name);
            }
        }
        let _ = writeln!(
            text,
            "{} values are more than {} times apart (!)",
            self.far_off(),
            published.factor
        );
        if self.is_partial {
            let (done, all) = (self.records.len(), self.plan.points.len());
            let _ = writeln!(text, "PARTIAL: stopped after {done} of {all} applications");
        }
        text
    }

    fn table(&self) -> String {
        let published = &self.plan.published;
        let names = published.quantities.each().map(|quantity| &*quantity.name);
        let head: Vec<&str> =
            ["application", ""].into_iter().chain(names).chain(["lines/epoch"]).collect();
        let mut table = plain_table(&head, 2..9);
        let mut add = |name: &str, what: &str, values: Vec<String>, more: Option<f64>| {
            let row = [name.to_owned(), what.to_owned()].into_iter().chain(values);
            table.add_row(row.chain([more.map_or(String::new(), number)]));
        };
        for record in &self.records {
            let measured = record.measured.each().map(|value| Some(*value));
            let measured = texts(published, &Quantities::of(measured));
            add(&record.application, "ours", measured, Some(record.lines_per_epoch));
            add("", "published", texts(published, &record.published), None);
            add("", "times", self.verdicts(&record.ratio), None);
        }
        if let Some(means) = self.means() {
            add("mean", "ours", texts(published, &means.measured), None);
            add("", "published", texts(published, &means.published), None);
            add("", "times", self.verdicts(&means.ratio), None);
        }
        text_of(&table)
    }

    fn verdicts(&self, ratio: &Quantities<Option<f64>>) -> Vec<String> {
        let published = &self.plan.published;
        let verdict = |(at, ratio): (usize, &Option<f64>)| match ratio {
            None => String::new(),
            Some(ratio) if published.is_held(at) && *ratio > published.factor => {
                format!("{ratio:.1} !")
            }
            Some(ratio) => format!("{ratio:.1}"),
        };
        ratio.each().into_iter().enumerate().map(verdict).collect()
    }
}

fn texts(published: &Published, values: &Quantities<Option<f64>>) -> Vec<String> {
    let digits = published.quantities.each().map(|quantity| quantity.digits);
    let text = |(value, digits): (&Option<f64>, Option<usize>)| match (value, digits) {
        (None, _) => "-".to_owned(),
        (Some(value), Some(digits)) => format!("{value:.digits$}"),
        (Some(value), None) => number(*value),
    };
    values.each().into_iter().zip(digits).map(text).collect()
}
