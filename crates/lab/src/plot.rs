//! `--plot` of `compare` and `kernels`: a ratio as grouped bars, and under it where the time went.
//!
//! Coordinates are pixels: the chart is small, and every label must be where it cannot meet
//! another. Colours are those of Okabe and Ito and of Paul Tol, which colour-blind readers can
//! tell apart; the order of the legend is the order of the bars.

use crate::LabError;
use crate::commands::compare::Comparison;
use crate::engine::spent::Spent;
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

/// Where `compare` cuts its bars off.
const THROUGHPUT_MAX: f64 = 2.0;

/// What is drawn.
pub(crate) struct Bars<'a> {
    /// What the ratios are.
    pub(crate) title: String,
    /// Ratios above this end at the upper edge, so that one tall bar does not flatten the others.
    pub(crate) cut: f64,
    pub(crate) designs: Vec<&'a str>,
    /// A group of bars for each program.
    pub(crate) groups: Vec<Group<'a>>,
    /// Which mean is shown, and that of each design.
    pub(crate) mean: &'static str,
    pub(crate) means: Vec<Option<f64>>,
}

/// A program: for each design its ratio, and where the time of the threads went.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) ratios: Vec<Option<f64>>,
    pub(crate) times: Vec<Option<Spent>>,
}

/// A part of a stacked bar.
struct Part {
    name: &'static str,
    colour: RGBColor,
    share: fn(&Spent) -> f64,
}

/// Everything that a thread's time goes to; adds up to 1.
const PARTS: &[Part] = &[
    Part { name: "busy", colour: RGBColor(0, 158, 115), share: Spent::busy_share },
    Part { name: "memory", colour: RGBColor(86, 180, 233), share: |s| s.groups().memory },
    Part { name: "lock", colour: RGBColor(200, 200, 200), share: |s| s.share(Reason::Lock) },
    Part { name: "fence", colour: RGBColor(240, 228, 66), share: |s| s.share(Reason::Fence) },
    Part {
        name: "flushes under way",
        colour: RGBColor(170, 150, 20),
        share: |s| s.share(Reason::FlushesFull),
    },
    Part {
        name: "write-through",
        colour: RGBColor(102, 102, 51),
        share: |s| s.share(Reason::WriteThrough),
    },
    Part {
        name: "intra-thread conflict",
        colour: RGBColor(230, 159, 0),
        share: |s| s.share(Reason::IntraConflict),
    },
    Part {
        name: "inter-thread conflict",
        colour: RGBColor(213, 94, 0),
        share: |s| s.share(Reason::InterConflict),
    },
    Part {
        name: "replacement, versions",
        colour: RGBColor(204, 121, 167),
        share: |s| s.share(Reason::Replacement),
    },
    Part {
        name: "epoch numbers",
        colour: RGBColor(0, 114, 178),
        share: |s| s.share(Reason::EpochIds),
    },
    Part {
        name: "persist buffer",
        colour: RGBColor(0, 90, 80),
        share: |s| s.share(Reason::BufferFull) + s.share(Reason::BufferedLine),
    },
    Part { name: "hardware log", colour: RGBColor(120, 120, 120), share: |s| s.share(Reason::Log) },
];

impl Comparison {
    /// Draws the comparison to an SVG file.
    ///
    /// # Errors
    /// When it cannot be drawn, or the file cannot be written.
    pub fn write_plot(&self, path: &Path) -> Result<(), LabError> {
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
        };
        bars.write(path)
    }
}

impl Bars<'_> {
    /// Draws them to an SVG file.
    ///
    /// # Errors
    /// When they cannot be drawn, or the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), LabError> {
        let svg = self.to_svg().map_err(|error| LabError::Plot(error.to_string()))?;
        crate::engine::output::write_file(path, svg.as_bytes())
    }

    fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let group = self.designs.len() as i32 * BAR;
        let groups = self.groups.len() as i32 + 1;
        let width = (LEFT + groups * (group + GROUP_GAP) + RIGHT).max(WIDTH_MIN);
        let longest = self.designs.iter().map(|name| paint::shorten(name).len()).max().unwrap_or(0);
        let names = longest as i32 * UPRIGHT_CHARACTER;
        let height = LEGEND + UPPER + BETWEEN + LOWER + names + NAMES;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width as u32, height as u32))
                .into_drawing_area();
            area.fill(&WHITE)?;
            let paint = Paint { area: &area, left: LEFT, right: width - RIGHT };
            self.draw_ratios(&paint)?;
            self.draw_time(&paint, names)?;
            area.present()?;
        }
        Ok(svg)
    }

    /// The share of a part in a group for the design at `place`, or its mean over all groups.
    fn share(&self, part: &Part, group: Option<&Group<'_>>, place: usize) -> Option<f64> {
        let Some(group) = group else {
            let groups = self.groups.iter();
            let shares: Option<Vec<f64>> =
                groups.map(|group| self.share(part, Some(group), place)).collect();
            return shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
        };
        group.times[place].as_ref().map(part.share)
    }

    fn draw_ratios(&self, paint: &Paint<'_, '_>) -> paint::Drawn {
        let groups = self.groups.iter().map(|group| (group.name, &group.ratios));
        let groups: Vec<_> = groups.chain([(self.mean, &self.means)]).collect();
        let ratios = groups.iter().flat_map(|(_, ratios)| ratios.iter().flatten());
        let most = ratios.copied().filter(|ratio| *ratio <= self.cut).fold(1.0, f64::max);
        let panel = Panel { top: LEGEND, height: UPPER, most: paint::round_up(most) };
        let entries: Vec<(&str, RGBColor)> =
            self.designs.iter().enumerate().map(|(at, design)| (*design, colour(at))).collect();
        paint.legend(12, &entries)?;
        paint.axis(&panel, &self.title, "")?;
        for (at, (name, ratios)) in groups.into_iter().enumerate() {
            let start = group_start(at, self.designs.len());
            for (place, ratio) in ratios.iter().enumerate() {
                let left = start + place as i32 * BAR;
                if let Some(ratio) = *ratio {
                    let shown = ratio.min(panel.most);
                    paint.bar(&panel, left, 0.0, shown, colour(place))?;
                    if shown < ratio {
                        paint.cut(&panel, left)?;
                    }
                    let above = (left + BAR / 2 - 1, panel.at(shown) - 4);
                    paint.upright(&format!("{ratio:.2}"), above, HPos::Left, 10.0)?;
                }
            }
            let middle = start + self.designs.len() as i32 * BAR / 2;
            paint.text(name, (middle, panel.bottom() + 6), HPos::Center, VPos::Top, 14.0)?;
        }
        paint.line_at(&panel, 1.0)
    }

    fn draw_time(&self, paint: &Paint<'_, '_>, names: i32) -> paint::Drawn {
        let panel = Panel { top: LEGEND + UPPER + BETWEEN, height: LOWER, most: 100.0 };
        let times = || self.groups.iter().flat_map(|group| group.times.iter().flatten());
        let is_used = |part: &&Part| times().any(|time| (part.share)(time) > 0.001);
        let used: Vec<&Part> = PARTS.iter().filter(is_used).collect();
        let entries: Vec<(&str, RGBColor)> =
            used.iter().map(|part| (part.name, part.colour)).collect();
        paint.legend(panel.top - 50, &entries)?;
        paint.axis(&panel, "time of the threads", " %")?;
        let groups = self.groups.iter().map(|group| (group.name, Some(group)));
        for (at, (name, group)) in groups.chain([("mean", None)]).enumerate() {
            let start = group_start(at, self.designs.len());
            for (place, design) in self.designs.iter().enumerate() {
                let left = start + place as i32 * BAR;
                let mut from = 0.0;
                for part in &used {
                    let Some(share) = self.share(part, group, place) else { continue };
                    paint.bar(&panel, left, from, from + 100.0 * share, part.colour)?;
                    from += 100.0 * share;
                }
                let under = (left + BAR / 2 - 1, panel.bottom() + 5);
                paint.upright(&paint::shorten(design), under, HPos::Right, 11.0)?;
            }
            let middle = start + self.designs.len() as i32 * BAR / 2;
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
    use crate::engine::progress::Progress;
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
            let whole: f64 = PARTS.iter().map(|part| (part.share)(&cell.spent())).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{}: {whole}", cell.point.design.text);
        }
    }
}
