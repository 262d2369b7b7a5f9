//! `seawall kernels --plot`: time over the baseline, and where it went.

use super::Kernels;
use crate::engine::spent::PARTS;
use seawall_report::{Bars, Group};

/// Bars are cut at this multiple of the slowest design's mean.
pub(super) const CUT: f64 = 2.0;

impl Kernels {
    /// Draws the kernels.
    pub(super) fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let designs: Vec<&str> = self.plan.designs().map(|design| &*design.text).collect();
        let group = |name| {
            let cells = || designs.iter().map(move |design| self.cell(name, design));
            Group {
                name,
                ratios: cells().map(|cell| self.relative(cell?)).collect(),
                times: cells().map(|cell| Some(cell?.spent())).collect(),
            }
        };
        let means: Vec<_> = designs.iter().map(|design| self.mean_relative(design)).collect();
        let bars = Bars {
            title: format!("time over {}", self.plan.baseline),
            cut: CUT * means.iter().flatten().copied().fold(1.0, f64::max),
            groups: self.plan.kernels().map(group).collect(),
            mean: "geo. mean",
            means,
            designs,
            reference: Some(1.0),
            parts: PARTS,
        };
        bars.to_svg()
    }
}
