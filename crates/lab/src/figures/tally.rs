//! Of all published values: which hold, which are missed, and which nobody can reproduce from what
//! is public.

use super::VariedValue;
use seawall_report::{plain_table, text_of};
use std::fmt::Write;

/// What became of a published value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reproduced {
    /// Ours is within its tolerance.
    Held,
    Missed,
    /// It depends on something that is not public.
    NotPublic(String),
}

/// A published value, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedValue {
    /// Which value of its figure.
    pub value: String,
    pub numbers: Numbers,
    /// True if they are per cent; otherwise they are ratios.
    pub is_percent: bool,
    /// What a kernel has, where a program is compared in its place.
    pub stand_in: Option<f64>,
    /// The workload that it is of, if it is of one.
    pub workload: Option<String>,
    /// The least and the most of ours, with other values of parameters that nobody published.
    pub range: Option<(f64, f64)>,
    pub reproduced: Reproduced,
}

/// The paper's number and ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub paper: f64,
    pub ours: f64,
    /// How far apart they may be.
    pub tolerance: f64,
}

impl PublishedValue {
    /// A ratio.
    pub(super) fn new(value: impl Into<String>, numbers: Numbers, holds: bool) -> PublishedValue {
        PublishedValue {
            value: value.into(),
            numbers,
            is_percent: false,
            stand_in: None,
            workload: None,
            range: None,
            reproduced: if holds { Reproduced::Held } else { Reproduced::Missed },
        }
    }

    /// The same in per cent.
    pub(super) fn percent(self) -> PublishedValue {
        PublishedValue { is_percent: true, ..self }
    }

    /// The same, with what was measured with other values of parameters.
    pub(super) fn with_range(self, varied: &[VariedValue]) -> PublishedValue {
        let all = varied.iter().map(|varied| varied.measured);
        let ours = self.stand_in.unwrap_or(self.numbers.ours);
        let range = all.fold((ours, ours), |(least, most), it| (least.min(it), most.max(it)));
        PublishedValue { range: (!varied.is_empty()).then_some(range), ..self }
    }

    /// The same, with what stands for a program whose value is compared.
    pub(super) fn with_stand_in(self, stand_in: Option<f64>) -> PublishedValue {
        PublishedValue { stand_in: stand_in.filter(|it| *it != self.numbers.ours), ..self }
    }

    /// The same, of one workload.
    pub(super) fn of_workload(self, name: &str) -> PublishedValue {
        PublishedValue { workload: Some(name.to_owned()), ..self }
    }

    /// The same, of which something is not public.
    pub(super) fn not_public(self, why: &str) -> PublishedValue {
        PublishedValue { reproduced: Reproduced::NotPublic(why.to_owned()), ..self }
    }
}

/// A table of figures with what became of their values, and why some are not reproducible.
pub(super) fn text(figures: &[(&str, Vec<PublishedValue>)]) -> String {
    let head = ["figure", "published values", "held", "missed", "not reproducible"];
    let mut table = plain_table(&head, 1..head.len());
    let mut sums = [0; 4];
    for (figure, values) in figures {
        let count =
            |is: fn(&Reproduced) -> bool| values.iter().filter(|of| is(&of.reproduced)).count();
        let counts = [
            values.len(),
            count(|reproduced| *reproduced == Reproduced::Held),
            count(|reproduced| *reproduced == Reproduced::Missed),
            count(|reproduced| matches!(reproduced, Reproduced::NotPublic(_))),
        ];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        let counts = counts.iter().map(ToString::to_string);
        table.add_row(std::iter::once((*figure).to_owned()).chain(counts));
    }
    let all = sums.iter().map(ToString::to_string);
    table.add_row(std::iter::once("all".to_owned()).chain(all));
    let [all, held, _, beyond] = sums;
    let mut text = text_of(&table) + "\n";
    if let Some(share) = (100 * held).checked_div(all - beyond) {
        let _ = writeln!(
            text,
            "{held} of {} values that can be reproduced hold ({share} %); DEVIATIONS.md says why \
             the others do not",
            all - beyond
        );
    }
    for (figure, values) in figures {
        for PublishedValue { value, reproduced, .. } in values {
            if let Reproduced::NotPublic(why) = reproduced {
                let _ = writeln!(text, "not reproducible: {figure}, {value}: {why}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_public_is_not_counted_as_missed() {
        let numbers = Numbers { paper: 1.0, ours: 1.2, tolerance: 0.1 };
        let value = |name: &str, holds: bool| PublishedValue::new(name, numbers, holds);
        let values = vec![
            value("the first", false).not_public("its source is lost"),
            value("another", false),
            value("a third", true),
        ];
        let text = text(&[("a figure", values)]);
        assert!(text.contains("1 of 2 values that can be reproduced hold (50 %)"), "{text}");
        assert!(text.contains("a figure, the first: its source is lost"), "{text}");
    }
}
