//! `--plot` of a program: time over the baseline, and where it went.

use super::{ProgramPoint, Programs};
use crate::engine::spent::PARTS;
use seawall_report::{Bars, Group};

/// Bars are cut at this multiple of the slowest.
pub(super) const CUT: f64 = 1.2;

impl Programs {
    /// Draws the program under each design.
    pub(super) fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let labels: Vec<String> = self.plan.points.iter().map(ProgramPoint::label).collect();
        let designs: Vec<&str> = labels.iter().map(String::as_str).collect();
        let cells = || designs.iter().map(|design| self.cell(design));
        let ratios: Vec<Option<f64>> = cells().map(|cell| self.relative(cell?)).collect();
        let group = Group {
            name: self.plan.command.name(),
            ratios: ratios.clone(),
            times: cells().map(|cell| Some(cell?.spent())).collect(),
        };
        let bars = Bars {
            title: format!("{}: time over {}", self.plan.command.text, self.plan.baseline),
            cut: CUT * ratios.iter().flatten().copied().fold(1.0, f64::max),
            groups: vec![group],
            mean: "mean",
            means: ratios,
            designs: designs.clone(),
            reference: Some(1.0),
            parts: PARTS,
        };
        bars.to_svg()
    }
}
