//! `--plot` of programs: time over the baseline, and where it went.

use super::Programs;
use super::plan::Program;
use crate::engine::spent::{PARTS, Spent};
use seawall_report::{Bars, Group};
use std::sync::Arc;

/// Bars are cut at this multiple of the slowest.
pub(super) const CUT: f64 = 1.2;

impl Programs {
    /// Draws each program under each design.
    pub(super) fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let labels = self.plan.designs();
        let designs: Vec<&str> = labels.iter().map(String::as_str).collect();
        let groups: Vec<_> =
            self.plan.programs.iter().map(|program| self.group(program, &designs)).collect();
        let ratios = groups.iter().flat_map(|group| group.ratios.iter().flatten());
        let bars = Bars {
            title: format!("{}: time over {}", self.plan.title(), self.plan.baseline),
            cut: CUT * ratios.copied().fold(1.0, f64::max),
            groups,
            mean: "mean",
            means: designs.iter().map(|design| self.mean_relative(design)).collect(),
            designs,
            reference: Some(1.0),
            parts: PARTS,
        };
        bars.to_svg()
    }

    fn group<'a>(&self, program: &'a Arc<Program>, designs: &[&str]) -> Group<'a, Spent> {
        let cells = || designs.iter().map(|design| self.cell(program.number, design));
        Group {
            name: &program.name,
            ratios: cells().map(|cell| self.relative(cell?)).collect(),
            times: cells().map(|cell| Some(cell?.spent())).collect(),
        }
    }
}
