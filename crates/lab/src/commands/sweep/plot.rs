//! `seawall sweep --plot`: for each factor a chart, cost over value, a curve for each design.

use super::Sweep;
use crate::LabError;
use crate::chart::{Axis, Chart, Series, beside};
use std::path::Path;

impl Sweep {
    /// Draws a chart for each factor into one SVG file.
    ///
    /// # Errors
    /// When it cannot be drawn, or the file cannot be written.
    pub fn write_plot(&self, path: &Path) -> Result<(), LabError> {
        let charts: Vec<Chart> =
            (0..self.plan.experiment.factors.len()).map(|factor| self.chart(factor)).collect();
        let svg = beside(&charts).map_err(|error| LabError::Plot(error.to_string()))?;
        crate::engine::output::write_file(path, svg.as_bytes())
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
                chart = chart.with(Series::measured(&design.text, points).numbered(at));
            }
        }
        chart
    }
}
