//! `seawall compare --plot`: throughput over the baseline, and where the time went.

use super::Comparison;
use crate::engine::spent::PARTS;
use seawall_report::{Bars, Group};

/// Bars above this end at the upper edge.
pub(super) const THROUGHPUT_MAX: f64 = 2.0;

impl Comparison {
    /// Draws the comparison.
    pub(super) fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let names = self.plan.designs();
        let designs: Vec<&str> = names.iter().map(String::as_str).collect();
        let group = |workload: &'_ str| {
            let cells = || designs.iter().map(|design| self.cell(workload, design));
            (
                cells().map(|cell| self.relative(cell?)).collect(),
                cells().map(|cell| Some(cell?.spent())).collect(),
            )
        };
        let groups = self.plan.workloads().into_iter().map(|name| {
            let (ratios, times) = group(name);
            Group { name, ratios, times }
        });
        let bars = Bars {
            title: format!("throughput relative to {}", self.plan.baseline),
            cut: THROUGHPUT_MAX,
            groups: groups.collect(),
            mean: "geo. mean",
            means: designs.iter().map(|design| self.mean_relative(design)).collect(),
            designs,
            reference: Some(1.0),
            parts: PARTS,
        };
        bars.to_svg()
    }
}
