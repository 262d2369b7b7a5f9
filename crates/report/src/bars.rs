//! `--plot` of `compare` and `kernels`: a ratio as grouped bars, and under it where the time went.
//!
//! Coordinates are pixels: the chart is small, and no two labels may overlap. The name of each
//! design stands whole under its bars, and the legend has the order of the bars. Colours are those
//! of Okabe and Ito and of Paul Tol, which colour-blind readers can distinguish; where there are
//! more designs than colours, they come again with stripes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

mod paint;

use paint::{Fill, Paint, Panel};

/// Colours of designs, in the order of the plan.
const DESIGN_COLOURS: [RGBColor; 12] = [
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
];

/// Pixels from one bar to the next: room for an upright number.
const BAR: i32 = 16;
const GROUP_GAP: i32 = 20;
const LEFT: i32 = 70;
const WIDTH_MIN: i32 = 720;
const RIGHT: i32 = 20;
/// Height above the upper panel beside its legend: upright numbers above the bars.
const ABOVE: i32 = 48;
const LEGEND_ROW: i32 = 18;
const UPPER: i32 = 230;
const BETWEEN: i32 = 50;
const LOWER: i32 = 200;
/// Height of a row of the names below the bars, and what a character of the upright names takes.
const NAMES: i32 = 30;
const UPRIGHT_CHARACTER: i32 = 7;
/// What a character of the name of a group takes.
const GROUP_CHARACTER: i32 = 8;

/// Grouped bars of ratios, and under them stacked bars of times, a `T` each, if there are any.
#[derive(Clone, Debug)]
pub struct Bars<'a, T: 'static> {
    /// What the ratios are.
    pub title: String,
    /// Ratios above this end at the upper edge, so that one tall bar does not flatten the others.
    pub cut: f64,
    /// The bars of each group.
    pub designs: Vec<&'a str>,
    /// A group of bars for each program.
    pub groups: Vec<Group<'a, T>>,
    /// Which mean is shown.
    pub mean: &'static str,
    /// The mean of each design.
    pub means: Vec<Option<f64>>,
    /// The ratio that a line marks; none for what is no ratio.
    pub reference: Option<f64>,
    /// What times are made of; adds up to 1.
    pub parts: &'static [TimePart<T>],
}

/// A program: for each design its ratio, and where the time of the threads went.
#[derive(Clone, Debug)]
pub struct Group<'a, T> {
    /// The program.
    pub name: &'a str,
    /// Its ratio under each design.
    pub ratios: Vec<Option<f64>>,
    /// Its time under each design.
    pub times: Vec<Option<T>>,
}

/// A part of a stacked bar of times.
#[derive(Clone, Copy, Debug)]
pub struct TimePart<T> {
    /// What the time goes to.
    pub name: &'static str,
    /// Red, green and blue.
    pub colour: (u8, u8, u8),
    /// Its share of a time, 0 to 1.
    pub share: fn(&T) -> f64,
}

impl<T> TimePart<T> {
    fn fill(&self) -> Fill {
        let (red, green, blue) = self.colour;
        Fill::plain(RGBColor(red, green, blue))
    }
}

impl<T> Bars<'_, T> {
    /// Draws them.
    pub fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let groups = self.groups.len() as i32 + 1;
        let width = (LEFT + groups * (self.group_width() + GROUP_GAP) + RIGHT).max(WIDTH_MIN);
        let longest = self.designs.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let names = longest as i32 * UPRIGHT_CHARACTER;
        let used = self.used_parts();
        let designs = self.design_entries();
        let parts: Vec<(&str, Fill)> = used.iter().map(|part| (part.name, part.fill())).collect();
        let rows = |entries: &[(&str, Fill)]| {
            paint::legend_rows(entries, LEFT, width - RIGHT) as i32 * LEGEND_ROW
        };
        let upper = Panel { top: rows(&designs) + ABOVE, height: UPPER, most: self.most() };
        let below = upper.bottom() + names + NAMES + BETWEEN + rows(&parts);
        let lower = Panel { top: below, height: LOWER, most: 100.0 };
        let has_times = self.groups.iter().any(|group| group.times.iter().any(Option::is_some));
        let last = if has_times { &lower } else { &upper };
        let height = last.bottom() + names + NAMES;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width as u32, height as u32))
                .into_drawing_area();
            area.fill(&WHITE)?;
            let paint = Paint { area: &area, left: LEFT, right: width - RIGHT };
            paint.legend(12, &designs)?;
            self.draw_ratios(&paint, &upper)?;
            self.draw_names(&paint, &upper, names, self.mean)?;
            if has_times {
                paint.legend(lower.top - rows(&parts) - 16, &parts)?;
                self.draw_time(&paint, &lower, &used)?;
                self.draw_names(&paint, &lower, names, "mean")?;
            }
            area.present()?;
        }
        Ok(svg)
    }

    /// Pixels of a group: its bars, or its name if that is longer.
    fn group_width(&self) -> i32 {
        let names = self.groups.iter().map(|group| group.name).chain([self.mean]);
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        self.bars_width().max(longest as i32 * GROUP_CHARACTER)
    }

    fn bars_width(&self) -> i32 {
        self.designs.len() as i32 * BAR
    }

    /// Where the bars of a group begin.
    fn group_start(&self, group: usize) -> i32 {
        let before = group as i32 * (self.group_width() + GROUP_GAP);
        LEFT + GROUP_GAP / 2 + before + (self.group_width() - self.bars_width()) / 2
    }

    fn design_entries(&self) -> Vec<(&str, Fill)> {
        self.designs.iter().enumerate().map(|(at, design)| (*design, fill(at))).collect()
    }

    /// The parts of the time that take any of it.
    fn used_parts(&self) -> Vec<&'static TimePart<T>> {
        let times = || self.groups.iter().flat_map(|group| group.times.iter().flatten());
        let is_used = |part: &&TimePart<T>| times().any(|time| (part.share)(time) > 0.001);
        self.parts.iter().filter(is_used).collect()
    }

    /// The ratio at the upper edge.
    fn most(&self) -> f64 {
        let ratios = self.groups.iter().flat_map(|group| &group.ratios).chain(&self.means);
        let shown = ratios.flatten().copied().filter(|ratio| *ratio <= self.cut);
        paint::round_up(shown.fold(1.0, f64::max))
    }

    /// The share of a part in a group for the design at `place`, or its mean over all groups.
    fn share(&self, part: &TimePart<T>, group: Option<&Group<'_, T>>, place: usize) -> Option<f64> {
        let Some(group) = group else {
            let groups = self.groups.iter();
            let shares: Option<Vec<f64>> =
                groups.map(|group| self.share(part, Some(group), place)).collect();
            return shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
        };
        group.times[place].as_ref().map(part.share)
    }

    fn draw_ratios(&self, paint: &Paint<'_, '_>, panel: &Panel) -> paint::Drawn {
        let groups = self.groups.iter().map(|group| &group.ratios);
        paint.axis(panel, &self.title, "")?;
        for (at, ratios) in groups.chain([&self.means]).enumerate() {
            let start = self.group_start(at);
            for (place, ratio) in ratios.iter().enumerate() {
                let left = start + place as i32 * BAR;
                if let Some(ratio) = *ratio {
                    let shown = ratio.min(panel.most);
                    paint.bar(panel, left, (0.0, shown), fill(place))?;
                    if shown < ratio {
                        paint.cut(panel, left)?;
                    }
                    let above = (left + BAR / 2 - 1, panel.at(shown) - 4);
                    let decimals = if self.reference.is_some() { 2 } else { 1 };
                    paint.upright(&format!("{ratio:.decimals$}"), above, HPos::Left, 10.0)?;
                }
            }
        }
        self.reference.map_or(Ok(()), |ratio| paint.line_at(panel, ratio))
    }

    fn draw_time(
        &self,
        paint: &Paint<'_, '_>,
        panel: &Panel,
        parts: &[&TimePart<T>],
    ) -> paint::Drawn {
        paint.axis(panel, "time of the threads", " %")?;
        for (at, group) in self.groups.iter().map(Some).chain([None]).enumerate() {
            let start = self.group_start(at);
            for place in 0..self.designs.len() {
                let left = start + place as i32 * BAR;
                let mut from = 0.0;
                for part in parts {
                    let Some(share) = self.share(part, group, place) else { continue };
                    let to = from + 100.0 * share;
                    paint.bar(panel, left, (from, to), part.fill())?;
                    from = to;
                }
            }
        }
        Ok(())
    }

    /// The name of each design under its bars, and of each group under its designs.
    fn draw_names(
        &self,
        paint: &Paint<'_, '_>,
        panel: &Panel,
        height: i32,
        mean: &str,
    ) -> paint::Drawn {
        let groups = self.groups.iter().map(|group| group.name);
        for (at, name) in groups.chain([mean]).enumerate() {
            let start = self.group_start(at);
            for (place, design) in self.designs.iter().enumerate() {
                let under = (start + place as i32 * BAR + BAR / 2 - 1, panel.bottom() + 5);
                paint.upright(design, under, HPos::Right, 11.0)?;
            }
            let middle = start + self.designs.len() as i32 * BAR / 2;
            let under = (middle, panel.bottom() + height + 8);
            paint.text(name, under, HPos::Center, VPos::Top, 14.0)?;
        }
        Ok(())
    }
}

fn fill(design: usize) -> Fill {
    let colour = DESIGN_COLOURS[design % DESIGN_COLOURS.len()];
    Fill { colour, is_striped: design / DESIGN_COLOURS.len() % 2 == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars<'a>(designs: &[&'a str]) -> Bars<'a, f64> {
        let ratios = || (1..=designs.len()).map(|n| Some(n as f64 / 4.0)).collect();
        let times = designs.iter().map(|_| None).collect();
        Bars {
            title: "throughput".into(),
            cut: 2.0,
            designs: designs.to_vec(),
            groups: vec![Group { name: "queue", ratios: ratios(), times }],
            mean: "geo. mean",
            means: ratios(),
            reference: Some(1.0),
            parts: &[],
        }
    }

    #[test]
    fn every_design_of_the_table_has_a_fill_of_its_own() {
        let count = seawall_sim::DESIGNS.len();
        for one in 0..count {
            assert!((one + 1..count).all(|other| fill(one) != fill(other)), "design {one}");
        }
    }

    #[test]
    fn names_are_whole_and_the_legend_has_the_order_of_the_bars() {
        let long = "bsp-lbpp:stores=300:records=4096";
        let mut designs: Vec<&str> =
            seawall_sim::DESIGNS.iter().map(|design| design.name).collect();
        designs.push(long);
        let svg = bars(&designs).to_svg().expect("it can be drawn");
        let written = |name: &str| svg.matches(&format!(">\n{name}\n<")).count();
        // In the legend, and under two groups.
        assert!(designs.iter().all(|name| written(name) == 3), "{svg}");
        let legend: Vec<usize> = designs
            .iter()
            .map(|name| svg.find(&format!(">\n{name}\n<")).expect("it is there"))
            .collect();
        assert!(legend.is_sorted());
        let without_times = svg.matches("time of the threads").count();
        assert_eq!(without_times, 0, "no panel without times");
    }
}
