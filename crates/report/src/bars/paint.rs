//! The few shapes that a plot is made of.

use super::*;
pub(super) use crate::chart::Drawn;
use crate::chart::{GRID, text};

/// Width of an average character of a wide font, as a share of the font's size.
const CHARACTER: f64 = 0.62;
/// Pixels from one stripe of a bar to the next, and of a stripe.
const STRIPES: i32 = 6;
const STRIPE: i32 = 2;

/// How a bar is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    pub(super) colour: RGBColor,
    /// With white stripes across.
    pub(super) is_striped: bool,
}

impl Fill {
    pub(super) fn plain(colour: RGBColor) -> Fill {
        Fill { colour, is_striped: false }
    }
}

/// Where to draw, and between which edges the panels lie.
pub(super) struct Paint<'a, 'svg> {
    pub(super) area: &'a DrawingArea<SVGBackend<'svg>, Shift>,
    pub(super) left: i32,
    pub(super) right: i32,
}

/// A chart: its place, and the value at its upper edge; the lower edge is 0.
pub(super) struct Panel {
    pub(super) top: i32,
    pub(super) height: i32,
    pub(super) most: f64,
}

impl Panel {
    pub(super) fn bottom(&self) -> i32 {
        self.top + self.height
    }

    pub(super) fn at(&self, value: f64) -> i32 {
        self.bottom() - (value / self.most * f64::from(self.height)).round() as i32
    }
}

impl Paint<'_, '_> {
    pub(super) fn text(
        &self,
        words: &str,
        at: (i32, i32),
        h_pos: HPos,
        v_pos: VPos,
        size: f64,
    ) -> Drawn {
        text(self.area, words, at, h_pos, v_pos, size)
    }

    /// Text that reads upwards; `h_pos` is the end of it that is at `at`.
    pub(super) fn upright(&self, text: &str, at: (i32, i32), h_pos: HPos, size: f64) -> Drawn {
        let font = ("sans-serif", size * 1.24).into_font().transform(FontTransform::Rotate270);
        let style = font.color(&BLACK).pos(Pos::new(h_pos, VPos::Center));
        Ok(self.area.draw(&Text::new(text.to_owned(), at, style))?)
    }

    /// A bar between two values.
    pub(super) fn bar(
        &self,
        panel: &Panel,
        left: i32,
        (from, to): (f64, f64),
        fill: Fill,
    ) -> Drawn {
        let (top, bottom) = (panel.at(to), panel.at(from));
        if top == bottom {
            return Ok(());
        }
        self.filled((left, top), (left + BAR - 3, bottom), fill)
    }

    fn filled(&self, corner: (i32, i32), end: (i32, i32), fill: Fill) -> Drawn {
        self.area.draw(&Rectangle::new([corner, end], fill.colour.filled()))?;
        if fill.is_striped {
            let mut y = end.1 - STRIPES;
            while y > corner.1 {
                let stripe = [(corner.0, y), (end.0, (y + STRIPE).min(end.1))];
                self.area.draw(&Rectangle::new(stripe, WHITE.filled()))?;
                y -= STRIPES;
            }
        }
        Ok(())
    }

    /// A gap near the top of a bar that ends at the upper edge and would go further.
    pub(super) fn cut(&self, panel: &Panel, left: i32) -> Drawn {
        let corners = [(left, panel.top + 8), (left + BAR - 3, panel.top + 12)];
        Ok(self.area.draw(&Rectangle::new(corners, WHITE.filled()))?)
    }

    /// Grid, numbers and title of a panel.
    pub(super) fn axis(&self, panel: &Panel, title: &str, unit: &str) -> Drawn {
        let step = step(panel.most);
        let lines = (panel.most / step + 1e-9) as u32;
        for line in 0..=lines {
            let value = f64::from(line) * step;
            let y = panel.at(value);
            self.area.draw(&PathElement::new([(self.left, y), (self.right, y)], GRID))?;
            let decimals = if step < 1.0 { 1 - step.log10().ceil() as i32 } else { 0 } as usize;
            let number = format!("{value:.decimals$}{unit}");
            self.text(&number, (self.left - 8, y), HPos::Right, VPos::Center, 12.0)?;
        }
        let middle = (self.left - 52, panel.top + panel.height / 2);
        self.upright(title, middle, HPos::Center, 13.0)?;
        let axis = [(self.left, panel.top), (self.left, panel.bottom())];
        self.area.draw(&PathElement::new(axis, BLACK))?;
        let axis = [(self.left, panel.bottom()), (self.right, panel.bottom())];
        Ok(self.area.draw(&PathElement::new(axis, BLACK))?)
    }

    pub(super) fn line_at(&self, panel: &Panel, value: f64) -> Drawn {
        let y = panel.at(value);
        let line = PathElement::new([(self.left, y), (self.right, y)], BLACK.stroke_width(1));
        Ok(self.area.draw(&line)?)
    }

    /// Names with their fills from `top` on, in as many rows as they take.
    pub(super) fn legend(&self, top: i32, entries: &[(&str, Fill)]) -> Drawn {
        for ((name, fill), (x, row)) in entries.iter().zip(places(entries, self.left, self.right)) {
            let y = top + row as i32 * LEGEND_ROW;
            self.filled((x, y), (x + 12, y + 12), *fill)?;
            self.text(name, (x + 17, y + 11), HPos::Left, VPos::Bottom, 13.0)?;
        }
        Ok(())
    }
}

/// The left edge and the row of each entry of a legend.
fn places(entries: &[(&str, Fill)], left: i32, right: i32) -> Vec<(i32, usize)> {
    let (mut x, mut row) = (left, 0);
    let place = |(name, _): &(&str, Fill)| {
        let width = 30 + (name.chars().count() as f64 * 13.0 * CHARACTER) as i32;
        if x + width > right && x > left {
            (x, row) = (left, row + 1);
        }
        let place = (x, row);
        x += width;
        place
    };
    entries.iter().map(place).collect()
}

/// The rows that a legend takes.
pub(super) fn legend_rows(entries: &[(&str, Fill)], left: i32, right: i32) -> usize {
    places(entries, left, right).last().map_or(0, |(_, row)| row + 1)
}

/// A step between grid lines that makes four to ten of them: 1, 2 or 5 times a power of ten.
fn step(most: f64) -> f64 {
    let power = 10f64.powf((most / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|n| n * power).find(|n| most / n >= 4.0).unwrap_or(power)
}

/// The next whole step above `most`.
pub(super) fn round_up(most: f64) -> f64 {
    let step = step(most);
    (most / step).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_round_steps_and_bars_fit_below_the_top() {
        for most in [0.3, 1.0, 1.32, 3.7, 8.3, 100.0, 741.0] {
            let top = round_up(most);
            assert!(top >= most && top <= most * 1.3, "{most} -> {top}");
            let lines = top / step(top);
            assert!((3.9..=10.1).contains(&lines), "{most}: {lines} lines");
        }
    }
}
