//! A figure of kernels as bars, and where the time went under each. Where kernels are retired, the
//! bars are those of their programs, and there are no times: few kernels ran.

use super::text::{self, find};
use super::{KernelFigure, KernelFigureRecord};
use crate::engine::spent::PARTS;
use seawall_report::{Bars, Group};

/// Bars are cut at this multiple of the largest mean.
const CUT: f64 = 2.0;

impl KernelFigure {
    /// Draws the records of the figure.
    pub(super) fn bars(
        &self,
        records: &[&KernelFigureRecord],
    ) -> Result<String, Box<dyn std::error::Error>> {
        let series = || self.series.iter();
        let value = |point: &str| -> Vec<Option<f64>> {
            series().map(|series| Some(find(records, series, point)?.measured)).collect()
        };
        let is_of_programs = records.iter().any(|record| record.retired);
        let spent =
            |series, name: &str| find(records, series, name)?.spent.filter(|_| !is_of_programs);
        let entries = self.entries().unwrap_or_default();
        let groups = entries.iter().map(|entry| Group {
            name: entry.name,
            ratios: value(entry.name),
            times: series().map(|series| spent(series, entry.name)).collect(),
        });
        let means = value(text::MEAN);
        let time = if is_of_programs { "time of programs" } else { "time" };
        let bars = Bars {
            title: format!("{time} over {}", self.baseline),
            cut: CUT * means.iter().flatten().copied().fold(1.0, f64::max),
            groups: groups.collect(),
            mean: "mean",
            means,
            designs: series().map(|series| &*series.name).collect(),
            reference: Some(1.0),
            parts: PARTS,
        };
        bars.to_svg()
    }
}
