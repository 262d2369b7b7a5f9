//! `seawall compare --plot`: throughput as grouped bars, and under it where the time went.
//!
//! Coordinates are pixels: the chart is small, and every label must be where it cannot meet
//! another. Colours are those of Okabe and Ito and of Paul Tol, which colour-blind readers can
//! tell apart; the order of the legend is the order of the bars.

use crate::LabError;
use crate::cell::Cell;
use crate::compare::Comparison;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use seawall_sim::Reason;
use std::path::Path;

mod paint;

use paint::{Paint, Panel};

/// A colour for each design, in the order of the plan.
const DESIGN_COLOURS: [RGBColor; 14] = [
    RGBColor(187, 187, 187),
    RGBColor(51, 34, 136),
    RGBColor(136, 204, 238),
    RGBColor(68, 170, 153),
    RGBColor(17, 119, 51),
    RGBColor(221, 204, 119),
    RGBColor(204, 102, 119),
    RGBColor(136, 34, 85),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
    RGBColor(153, 153, 51),
    RGBColor(170, 68, 153),
];

const BAR: i32 = 12;
const GROUP_GAP: i32 = 16;
const LEFT: i32 = 70;
const WIDTH_MIN: i32 = 720;
const RIGHT: i32 = 20;
const LEGEND: i32 = 84;
const UPPER: i32 = 230;
const BETWEEN: i32 = 90;
const LOWER: i32 = 200;
/// Height of a row of the names below the bars, and what a character of the upright names takes.
const NAMES: i32 = 30;
const UPRIGHT_CHARACTER: i32 = 7;

/// Bars above this end at the upper edge, so that one tall design does not flatten the others.
const SHOWN_MAX: f64 = 2.0;

/// A part of a stacked bar.
struct Part {
    name: &'static str,
    colour: RGBColor,
    share: fn(&Cell) -> f64,
}

fn memory(cell: &Cell) -> f64 {
    crate::table::Groups::of(cell).memory
}

/// Everything that a thread's time goes to; adds up to 1.
const PARTS: &[Part] = &[
    Part { name: "busy", colour: RGBColor(0, 158, 115), share: Cell::busy_share },
    Part { name: "memory", colour: RGBColor(86, 180, 233), share: memory },
    Part { name: "lock", colour: RGBColor(200, 200, 200), share: |c| c.share(Reason::Lock) },
    Part { name: "fence", colour: RGBColor(240, 228, 66), share: |c| c.share(Reason::Fence) },
    Part {
        name: "write-through",
        colour: RGBColor(102, 102, 51),
        share: |c| c.share(Reason::WriteThrough),
    },
    Part {
        name: "intra-thread conflict",
        colour: RGBColor(230, 159, 0),
        share: |c| c.share(Reason::IntraConflict),
    },
    Part {
        name: "inter-thread conflict",
        colour: RGBColor(213, 94, 0),
        share: |c| c.share(Reason::InterConflict),
    },
    Part {
        name: "replacement, versions",
        colour: RGBColor(204, 121, 167),
        share: |c| c.share(Reason::Replacement),
    },
    Part {
        name: "epoch numbers",
        colour: RGBColor(0, 114, 178),
        share: |c| c.share(Reason::EpochIds),
    },
    Part { name: "hardware log", colour: RGBColor(120, 120, 120), share: |c| c.share(Reason::Log) },
];

impl Comparison {
    /// Draws the comparison to an SVG file.
    ///
    /// # Errors
    /// When it cannot be drawn, or the file cannot be written.
    pub fn write_plot(&self, path: &Path) -> Result<(), LabError> {
        let svg = self.to_svg().map_err(|error| LabError::Plot(error.to_string()))?;
        crate::output::write_file(path, svg.as_bytes())
    }

    fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let designs = self.plan.designs();
        let group = designs.len() as i32 * BAR;
        let groups = self.plan.workloads().len() as i32 + 1;
        let width = (LEFT + groups * (group + GROUP_GAP) + RIGHT).max(WIDTH_MIN);
        let longest = designs.iter().map(|design| paint::shorten(design).len()).max().unwrap_or(0);
        let names = longest as i32 * UPRIGHT_CHARACTER;
        let height = LEGEND + UPPER + BETWEEN + LOWER + names + NAMES;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width as u32, height as u32))
                .into_drawing_area();
            area.fill(&WHITE)?;
            let paint = Paint { area: &area, left: LEFT, right: width - RIGHT };
            self.draw_throughput(&paint, &designs)?;
            self.draw_time(&paint, &designs, names)?;
            area.present()?;
        }
        Ok(svg)
    }

    /// The ratios of a workload, or the means if there is no such workload.
    fn ratio(&self, workload: Option<&str>, design: &str) -> Option<f64> {
        match workload {
            Some(workload) => self.relative(self.cell(workload, design)?),
            None => self.mean_relative(design),
        }
    }

    /// The share of a part with a workload, or its mean over all.
    fn share(&self, part: &Part, workload: Option<&str>, design: &str) -> Option<f64> {
        let Some(workload) = workload else {
            let workloads = self.plan.workloads();
            let shares: Option<Vec<f64>> =
                workloads.iter().map(|name| self.share(part, Some(name), design)).collect();
            return shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
        };
        Some((part.share)(self.cell(workload, design)?))
    }

    /// Each group of bars: its name and its workload, the mean last.
    fn groups(&self, mean: &'static str) -> Vec<(&str, Option<&str>)> {
        let workloads = self.plan.workloads().into_iter().map(|name| (name, Some(name)));
        workloads.chain([(mean, None)]).collect()
    }

    fn draw_throughput(&self, paint: &Paint<'_, '_>, designs: &[&str]) -> paint::Drawn {
        let groups = self.groups("geo. mean");
        let ratios = groups.iter().flat_map(|(_, workload)| {
            designs.iter().filter_map(|design| self.ratio(*workload, design))
        });
        let most = ratios.filter(|ratio| *ratio <= SHOWN_MAX).fold(1.0, f64::max);
        let panel = Panel { top: LEGEND, height: UPPER, most: paint::round_up(most) };
        let entries: Vec<(&str, RGBColor)> =
            designs.iter().enumerate().map(|(at, design)| (*design, colour(at))).collect();
        paint.legend(12, &entries)?;
        paint.axis(&panel, &format!("throughput relative to {}", self.plan.baseline), "")?;
        for (at, (name, workload)) in groups.into_iter().enumerate() {
            let start = group_start(at, designs.len());
            for (place, design) in designs.iter().enumerate() {
                let left = start + place as i32 * BAR;
                if let Some(ratio) = self.ratio(workload, design) {
                    let shown = ratio.min(panel.most);
                    paint.bar(&panel, left, 0.0, shown, colour(place))?;
                    if shown < ratio {
                        paint.cut(&panel, left)?;
                    }
                    let above = (left + BAR / 2 - 1, panel.at(shown) - 4);
                    paint.upright(&format!("{ratio:.2}"), above, HPos::Left, 10.0)?;
                }
            }
            let middle = start + designs.len() as i32 * BAR / 2;
            paint.text(name, (middle, panel.bottom() + 6), HPos::Center, VPos::Top, 14.0)?;
        }
        paint.line_at(&panel, 1.0)
    }

    fn draw_time(&self, paint: &Paint<'_, '_>, designs: &[&str], names: i32) -> paint::Drawn {
        let panel = Panel { top: LEGEND + UPPER + BETWEEN, height: LOWER, most: 100.0 };
        let is_used = |part: &&Part| self.cells.iter().any(|cell| (part.share)(cell) > 0.001);
        let used: Vec<&Part> = PARTS.iter().filter(is_used).collect();
        let entries: Vec<(&str, RGBColor)> =
            used.iter().map(|part| (part.name, part.colour)).collect();
        paint.legend(panel.top - 50, &entries)?;
        paint.axis(&panel, "time of the threads", " %")?;
        for (at, (name, workload)) in self.groups("mean").into_iter().enumerate() {
            let start = group_start(at, designs.len());
            for (place, design) in designs.iter().enumerate() {
                let left = start + place as i32 * BAR;
                let mut from = 0.0;
                for part in &used {
                    let Some(share) = self.share(part, workload, design) else { continue };
                    paint.bar(&panel, left, from, from + 100.0 * share, part.colour)?;
                    from += 100.0 * share;
                }
                let under = (left + BAR / 2 - 1, panel.bottom() + 5);
                paint.upright(&paint::shorten(design), under, HPos::Right, 11.0)?;
            }
            let middle = start + designs.len() as i32 * BAR / 2;
            let under = (middle, panel.bottom() + names + 6);
            paint.text(name, under, HPos::Center, VPos::Top, 14.0)?;
        }
        Ok(())
    }
}

fn group_start(group: usize, bars: usize) -> i32 {
    LEFT + GROUP_GAP / 2 + group as i32 * (bars as i32 * BAR + GROUP_GAP)
}

fn colour(design: usize) -> RGBColor {
    DESIGN_COLOURS[design % DESIGN_COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;
    use crate::{CompareOptions, Plan};
    use std::sync::Arc;

    #[test]
    fn the_parts_of_a_bar_are_all_of_the_time() {
        let designs = ["strict", "clwb", "lb", "lbpp:epochs=2", "bsp-lbpp:stores=20:records=2"];
        let options = CompareOptions {
            workloads: vec!["queue".into()],
            designs: designs.map(String::from).to_vec(),
            machine: "desktop".into(),
            operations: 60,
            crashes: 0,
            ..CompareOptions::default()
        };
        let plan = Plan::new(&options).expect("good options");
        let comparison = Comparison::run(plan, &Progress::hidden(), &Arc::default());
        for cell in &comparison.expect("it ends").cells {
            let whole: f64 = PARTS.iter().map(|part| (part.share)(cell)).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{}: {whole}", cell.point.design.text);
        }
    }
}
