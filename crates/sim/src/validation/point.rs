//! A question about a part of the simulated machine, with its answer.

use serde::Serialize;

/// A question with the expected and the measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidationPoint {
    /// The part: "l1", "llc", "mesh", "coherence", "memory", or the name of a design.
    pub part: String,
    /// "runs", "shape", "lone latency", "peak bandwidth", "stated bandwidth", "hardware" or
    /// "other simulator".
    pub question: &'static str,
    /// The measured quantity, with its unit.
    pub what: String,
    /// The formula of the expectation, in terms of the machine file.
    pub formula: String,
    /// The value of the formula.
    pub expected: f64,
    /// The simulator's value.
    pub measured: f64,
    /// The greatest difference of the two, in per cent of the expectation.
    pub tolerance: f64,
    /// Whether they are not further apart.
    pub holds: bool,
    /// Why it is known not to hold, if it is.
    pub gap: Option<String>,
}

impl ValidationPoint {
    /// A question without an answer yet.
    pub fn new(part: &str, question: &'static str, what: String) -> ValidationPoint {
        ValidationPoint {
            part: part.into(),
            question,
            what,
            formula: String::new(),
            expected: 0.0,
            measured: 0.0,
            tolerance: 0.0,
            holds: true,
            gap: None,
        }
    }

    /// With the expectation, and the formula in words.
    pub fn expect(mut self, formula: &str, expected: f64) -> ValidationPoint {
        self.formula = formula.into();
        self.expected = expected;
        self
    }

    /// With the measurement, which holds within `tolerance` per cent of the expectation.
    pub fn found(mut self, measured: f64, tolerance: f64) -> ValidationPoint {
        self.measured = measured;
        self.tolerance = tolerance;
        let allowed = self.expected.abs() * tolerance / 100.0;
        self.holds = (measured - self.expected).abs() <= allowed + 1e-9;
        self
    }

    /// With the reason why it is known not to hold.
    pub fn known_gap(self, why: &str) -> ValidationPoint {
        ValidationPoint { gap: Some(why.into()), ..self }
    }

    /// Whether it does not hold without a known reason, or holds in spite of one.
    pub fn fails(&self) -> bool {
        self.holds == self.gap.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(measured: f64) -> ValidationPoint {
        let point = ValidationPoint::new("llc", "lone latency", "a load".into());
        point.expect("there and back", 100.0).found(measured, 2.0)
    }

    #[test]
    fn a_point_holds_within_its_tolerance() {
        assert!(point(102.0).holds && !point(102.1).holds && !point(97.0).holds);
        assert!(!point(102.0).fails() && point(97.0).fails());
    }

    #[test]
    fn a_known_gap_fails_once_it_holds() {
        assert!(!point(97.0).known_gap("no port").fails());
        assert!(point(100.0).known_gap("no port").fails());
    }
}
