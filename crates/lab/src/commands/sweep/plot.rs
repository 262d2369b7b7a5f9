//! `seawall sweep --plot`: for each factor a chart, cost over value, a curve for each design.

use super::Sweep;
use seawall_report::{Axis, Chart, Curve, beside};

impl Sweep {
    /// Draws a chart for each factor.
    pub(super) fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let charts: Vec<Chart> =
            (0..self.plan.experiment.factors.len()).map(|factor| self.chart(factor)).collect();
        beside(&charts)
    }

    fn chart(&self, factor: usize) -> Chart {
        let experiment = &self.plan.experiment;
        let values = &experiment.factors[factor];
        let labels = (0..values.count()).map(|value| values.label(value)).collect();
        let baseline = &experiment.baseline.text;
        let title = format!("time over {baseline}, by {}", values.name);
        let x = Axis::names(&values.keys(), labels);
        let mut chart =
            Chart::new("", &title, x, Axis::log(&format!("time over {baseline}, geometric mean")));
        for (at, design) in experiment.designs.iter().enumerate() {
            let mean = |value| Some((value as f64, self.mean_of(factor, value, at)?));
            let points: Vec<(f64, f64)> = (0..values.count()).filter_map(mean).collect();
            if !points.is_empty() {
                chart = chart.with(Curve::measured(&design.text, points).numbered(at));
            }
        }
        chart
    }
}
