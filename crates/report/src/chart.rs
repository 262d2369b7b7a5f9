//! Line charts: measurements as marks joined by lines, formulas as dashed lines.
//!
//! The look is that of the other plots: pixels, a grey grid, colours of Okabe and Ito that
//! colour-blind readers can distinguish. Marks differ too, so that print in grey can be read; where
//! colours come again, they have other marks.

use crate::ReportError;
use crate::experiment::ResultFile;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The outcome of drawing something.
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) const GRID: RGBColor = RGBColor(222, 222, 222);
pub(crate) const GREY: RGBColor = RGBColor(110, 110, 110);
pub(crate) const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const WIDTH: i32 = 640;
const HEIGHT: i32 = 420;
const LEFT: i32 = 76;
const RIGHT: i32 = 20;
const BOTTOM: i32 = 56;
const LEGEND_ROW: i32 = 18;
const TITLE: i32 = 36;
/// Width of an average character of the legend.
const CHARACTER: f64 = 8.0;

/// What runs along an edge.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    is_log: bool,
    /// Ticks are whole numbers.
    is_whole: bool,
    /// Of what has no scale: the names at 0, 1, 2 and so on.
    names: Vec<String>,
}

impl Axis {
    /// From 0 on, of what is counted in whole numbers.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.into(), is_log: false, is_whole: true, names: Vec::new() }
    }

    /// From 0 on, of what is not.
    pub fn ratio(label: &str) -> Axis {
        Axis { is_whole: false, ..Axis::linear(label) }
    }

    /// Powers of two.
    pub fn log(label: &str) -> Axis {
        Axis { is_log: true, ..Axis::linear(label) }
    }

    /// These names, evenly apart; the place of each is its number.
    pub fn names(label: &str, names: Vec<String>) -> Axis {
        Axis { names, ..Axis::linear(label) }
    }
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    is_formula: bool,
    /// Which colour and mark it has, if not the next.
    number: Option<usize>,
}

impl Curve {
    fn is_empty(&self) -> bool {
        self.is_formula || self.points.is_empty()
    }

    /// Measured points, joined by lines.
    pub fn measured(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.into(), points, is_formula: false, number: None }
    }

    /// Points of a formula, as a dashed line.
    pub fn formula(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { is_formula: true, ..Curve::measured(name, points) }
    }

    /// The same with the colour and mark of that number, from 0.
    pub fn numbered(self, number: usize) -> Curve {
        Curve { number: Some(number), ..self }
    }
}

/// A chart, not yet drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Name of its file, without the ending.
    pub file: String,
    title: String,
    x: Axis,
    y: Axis,
    curves: Vec<Curve>,
}

/// How values become pixels.
pub(crate) struct Scale {
    is_log: bool,
    is_whole: bool,
    pub(crate) low: f64,
    high: f64,
    from: i32,
    to: i32,
}

impl Scale {
    /// Even, from the least to the most.
    pub(crate) fn linear((low, high): (f64, f64), (from, to): (i32, i32)) -> Scale {
        Scale { is_log: false, is_whole: false, low, high, from, to }
    }

    pub(crate) fn at(&self, value: f64) -> i32 {
        let place = |value: f64| if self.is_log { value.max(1e-9).log2() } else { value };
        let (low, high) = (place(self.low), place(self.high));
        let share = (place(value) - low) / (high - low).max(1e-9);
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let (low, high) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
            let step = (high - low) / 8 + 1;
            return (low..=high).step_by(step as usize).map(|power| 2f64.powi(power)).collect();
        }
        let step = if self.is_whole { step(self.high).max(1.0) } else { step(self.high) };
        let first = (self.low / step).ceil() as i32;
        (first..=(self.high / step + 1e-9) as i32).map(|tick| f64::from(tick) * step).collect()
    }
}

fn scale(axis: &Axis, (low, high): (f64, f64), (from, to): (i32, i32)) -> Scale {
    Scale { is_log: axis.is_log, is_whole: axis.is_whole, low, high, from, to }
}

/// 1, 2 or 5 times a power of ten, so that there are four to ten steps.
fn step(most: f64) -> f64 {
    let power = 10f64.powf((most / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|n| n * power).find(|n| most / n >= 4.0).unwrap_or(power)
}

impl Chart {
    /// True if nothing in it was measured.
    pub fn is_empty(&self) -> bool {
        self.curves.iter().all(Curve::is_empty)
    }

    /// A chart without curves; `file` is the name of its file, without the ending.
    pub fn new(file: &str, title: &str, x: Axis, y: Axis) -> Chart {
        Chart { file: file.into(), title: title.into(), x, y, curves: Vec::new() }
    }

    /// The same with one more curve.
    #[must_use]
    pub fn with(mut self, curve: Curve) -> Chart {
        self.curves.push(curve);
        self
    }

    fn most(&self, of: impl Fn(&(f64, f64)) -> f64) -> f64 {
        self.curves.iter().flat_map(|series| &series.points).map(of).fold(0.0, f64::max)
    }

    fn scales(&self) -> (Scale, Scale) {
        let least_x = self.curves.iter().flat_map(|series| &series.points).map(|(x, _)| *x);
        let (most_x, most_y) = (self.most(|(x, _)| *x), self.most(|(_, y)| *y));
        let most_x = most_x.max(self.x.names.len().saturating_sub(1) as f64);
        // Without a point a logarithmic axis has its 1 only.
        let or_one = |most: f64| if most > 0.0 { most } else { 1.0 };
        let low = if self.x.is_log { least_x.fold(or_one(most_x), f64::min) } else { 0.0 };
        let most_x = if self.x.is_log { or_one(most_x) } else { most_x };
        let step = step(most_y * 1.02);
        let high = (most_y * 1.02 / step).ceil() * step;
        let least_y = self.curves.iter().flat_map(|series| &series.points).map(|(_, y)| *y);
        let least_y = least_y.filter(|y| *y > 0.0).fold(or_one(most_y), f64::min);
        let (low_y, high) = match self.y.is_log {
            true => (2f64.powf(least_y.log2().floor()), 2f64.powf(or_one(most_y).log2().ceil())),
            false => (0.0, high),
        };
        let top = self.legend().last().map_or(TITLE, |(_, y)| *y) + LEGEND_ROW + 2;
        (
            scale(&self.x, (low, most_x), (LEFT, WIDTH - RIGHT - 10)),
            scale(&self.y, (low_y, high), (HEIGHT - BOTTOM, top)),
        )
    }

    /// The place of each name of the legend, in as many rows as they take.
    fn legend(&self) -> Vec<(i32, i32)> {
        let (mut x, mut y) = (LEFT, TITLE + 6);
        let mut places = Vec::new();
        for series in &self.curves {
            let width = 33 + (series.name.len() as f64 * CHARACTER) as i32;
            if x + width > WIDTH - RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND_ROW);
            }
            places.push((x, y));
            x += width + 24;
        }
        places
    }

    /// Draws it, as a plot with a file of its own.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn svg(&self) -> Result<ResultFile, ReportError> {
        let text = self.to_svg().map_err(ReportError::plot)?;
        Ok(ResultFile { file: format!("{}.svg", self.file), text })
    }

    fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut svg = String::new();
        {
            let size = (WIDTH as u32, HEIGHT as u32);
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            area.fill(&WHITE)?;
            text(&area, &self.title, (LEFT, 10), HPos::Left, VPos::Top, 16.0)?;
            let (x, y) = self.scales();
            self.draw_axes(&area, &x, &y)?;
            let mut next = 0;
            for (series, place) in self.curves.iter().zip(self.legend()) {
                let number = series.number.unwrap_or(next);
                let colour = if series.is_formula { GREY } else { COLOURS[number % COLOURS.len()] };
                let shown: Vec<(i32, i32)> =
                    series.points.iter().map(|(px, py)| (x.at(*px), y.at(*py))).collect();
                draw_name(&area, place, series, colour, number)?;
                if series.is_formula {
                    dashes(&area, &shown)?;
                } else {
                    area.draw(&PathElement::new(shown.clone(), colour.stroke_width(2)))?;
                    shown.iter().try_for_each(|place| mark(&area, *place, number, colour))?;
                    next = number + 1;
                }
            }
            area.present()?;
        }
        Ok(svg)
    }

    fn draw_axes(&self, area: &Area<'_>, x: &Scale, y: &Scale) -> Drawn {
        let (right, bottom) = (WIDTH - RIGHT, y.from);
        for tick in y.ticks() {
            let at = y.at(tick);
            area.draw(&PathElement::new([(LEFT, at), (right, at)], GRID))?;
            text(area, &plain(tick), (LEFT - 8, at), HPos::Right, VPos::Center, 13.0)?;
        }
        let names = self.x.names.iter().enumerate().map(|(at, name)| (at as f64, name.clone()));
        let ticks: Vec<(f64, String)> = match self.x.names.is_empty() {
            true => x.ticks().into_iter().map(|tick| (tick, plain(tick))).collect(),
            false => names.collect(),
        };
        for (tick, name) in ticks {
            let at = x.at(tick);
            area.draw(&PathElement::new([(at, bottom), (at, bottom + 5)], BLACK))?;
            text(area, &name, (at, bottom + 9), HPos::Center, VPos::Top, 13.0)?;
        }
        area.draw(&PathElement::new([(LEFT, y.to), (LEFT, bottom)], BLACK))?;
        area.draw(&PathElement::new([(LEFT, bottom), (right, bottom)], BLACK))?;
        let middle = ((LEFT + right) / 2, HEIGHT - 12);
        text(area, &self.x.label, middle, HPos::Center, VPos::Bottom, 14.0)?;
        let font = ("sans-serif", 14.0 * 1.24).into_font().transform(FontTransform::Rotate270);
        let style = font.color(&BLACK).pos(Pos::new(HPos::Center, VPos::Center));
        let place = (16, (y.from + y.to) / 2);
        Ok(area.draw(&Text::new(self.y.label.clone(), place, style))?)
    }
}

/// Several charts in one drawing, two in a row.
pub fn beside(charts: &[Chart]) -> Result<String, Box<dyn std::error::Error>> {
    let (columns, rows) = (charts.len().clamp(1, 2) as i32, charts.len().div_ceil(2) as i32);
    let (width, height) = (columns * WIDTH, rows * HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n"
    );
    for (at, chart) in (0..).zip(charts) {
        let (x, y) = (at % columns * WIDTH, at / columns * HEIGHT);
        svg += &chart.to_svg()?.replacen("<svg ", &format!("<svg x=\"{x}\" y=\"{y}\" "), 1);
    }
    Ok(svg + "</svg>\n")
}

fn draw_name(
    area: &Area<'_>,
    (left, y): (i32, i32),
    series: &Curve,
    colour: RGBColor,
    number: usize,
) -> Drawn {
    if series.is_formula {
        dashes(area, &[(left, y), (left + 26, y)])?;
    } else {
        let line = [(left, y), (left + 26, y)];
        area.draw(&PathElement::new(line, colour.stroke_width(2)))?;
        mark(area, (left + 13, y), number, colour)?;
    }
    text(area, &series.name, (left + 33, y), HPos::Left, VPos::Center, 13.0)
}

/// Draws words at a place, which is the side or middle of them that is named.
pub(crate) fn text(
    area: &Area<'_>,
    words: &str,
    at: (i32, i32),
    h_pos: HPos,
    v_pos: VPos,
    size: f64,
) -> Drawn {
    let style = ("sans-serif", size * 1.24).into_font().color(&BLACK);
    Ok(area.draw(&Text::new(words.to_owned(), at, style.pos(Pos::new(h_pos, v_pos))))?)
}

pub(crate) fn plain(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').into()
}

const MARKS: usize = 6;

/// The mark of curve `number`. No two of 36 curves have colour and mark in common.
fn mark_of(number: usize) -> usize {
    (number + number / COLOURS.len()) % MARKS
}

/// A mark whose form shows the curve without colour: disc, square, triangle, ring, cross, empty
/// square.
fn mark(area: &Area<'_>, (x, y): (i32, i32), number: usize, colour: RGBColor) -> Drawn {
    match mark_of(number) {
        0 => area.draw(&Circle::new((x, y), 4, colour.filled()))?,
        1 => area.draw(&Rectangle::new([(x - 3, y - 3), (x + 4, y + 4)], colour.filled()))?,
        2 => area.draw(&TriangleMarker::new((x, y), 5, colour.filled()))?,
        3 => area.draw(&Circle::new((x, y), 7, colour.stroke_width(2)))?,
        4 => area.draw(&Cross::new((x, y), 5, colour.stroke_width(2)))?,
        _ => area.draw(&Rectangle::new([(x - 5, y - 5), (x + 6, y + 6)], colour))?,
    }
    Ok(())
}

/// A dashed line through the points.
fn dashes(area: &Area<'_>, points: &[(i32, i32)]) -> Drawn {
    const ON: f64 = 7.0;
    const OFF: f64 = 4.0;
    let mut phase = 0.0;
    for pair in points.windows(2) {
        let from = (f64::from(pair[0].0), f64::from(pair[0].1));
        let (dx, dy) = (f64::from(pair[1].0) - from.0, f64::from(pair[1].1) - from.1);
        let length = dx.hypot(dy);
        let at = |way: f64| {
            let share = way.clamp(0.0, length) / length.max(1e-9);
            ((from.0 + dx * share).round() as i32, (from.1 + dy * share).round() as i32)
        };
        let mut way = -phase;
        while way < length {
            if way + ON > 0.0 {
                let dash = PathElement::new([at(way), at(way + ON)], GREY.stroke_width(2));
                area.draw(&dash)?;
            }
            way += ON + OFF;
        }
        phase = ON + OFF - (way - length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_curves_as_there_are_designs_all_look_different() {
        let look = |number: usize| (number % COLOURS.len(), mark_of(number));
        let looks: std::collections::BTreeSet<_> =
            (0..seawall_sim::DESIGNS.len()).map(look).collect();
        assert_eq!(looks.len(), seawall_sim::DESIGNS.len());
    }

    #[test]
    fn a_chart_without_a_point_can_be_drawn_on_any_axis() {
        for x in [Axis::linear("x"), Axis::log("x"), Axis::names("x", vec!["a".into()])] {
            for y in [Axis::linear("y"), Axis::log("y"), Axis::ratio("y")] {
                let chart = Chart::new("", "title", x.clone(), y);
                assert!(chart.to_svg().expect("it can be drawn").contains("title"));
            }
        }
    }

    #[test]
    fn a_chart_holds_its_names_and_a_scale_its_ends() {
        let chart = Chart::new("x", "title", Axis::log("cores"), Axis::linear("GB/s"))
            .with(Curve::formula("the peak", vec![(1.0, 20.0), (32.0, 20.0)]))
            .with(Curve::measured("reads", vec![(1.0, 3.0), (8.0, 18.0), (32.0, 19.9)]));
        let svg = chart.to_svg().unwrap();
        for words in ["title", "cores", "GB/s", "the peak", "reads", "32"] {
            assert!(svg.contains(words), "{words}");
        }
        let (x, y) = chart.scales();
        assert_eq!((x.at(1.0), x.at(32.0)), (LEFT, WIDTH - RIGHT - 10));
        let octave = |from: f64| x.at(2.0 * from) - x.at(from);
        assert!((octave(4.0) - octave(2.0)).abs() <= 1, "powers of two are even");
        assert!(y.at(20.0) >= y.to && y.at(0.0) == y.from);
    }
}
