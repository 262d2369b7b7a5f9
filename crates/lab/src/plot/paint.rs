//! The few shapes that a plot is made of.

use super::*;
pub(super) use crate::chart::Drawn;
use crate::chart::{GRID, text};

/// Width of an average character of a wide font, as a share of the font's size.
const CHARACTER: f64 = 0.62;
/// A design's name with its parameters may be longer than there is room.
const NAME_MAX: usize = 14;

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

    pub(super) fn bar(
        &self,
        panel: &Panel,
        left: i32,
        from: f64,
        to: f64,
        colour: RGBColor,
    ) -> Drawn {
        let corners = [(left, panel.at(to)), (left + BAR - 2, panel.at(from))];
        if corners[0].1 == corners[1].1 {
            return Ok(());
        }
        Ok(self.area.draw(&Rectangle::new(corners, colour.filled()))?)
    }

    /// A gap near the top of a bar that ends at the upper edge and would go further.
    pub(super) fn cut(&self, panel: &Panel, left: i32) -> Drawn {
        let corners = [(left, panel.top + 8), (left + BAR - 2, panel.top + 12)];
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

    /// Names with their colours from `top` on, in as many rows as they take.
    pub(super) fn legend(&self, top: i32, entries: &[(&str, RGBColor)]) -> Drawn {
        let (mut x, mut y) = (self.left, top);
        for (name, colour) in entries {
            let width = 30 + (name.len() as f64 * 13.0 * CHARACTER) as i32;
            if x + width > self.right && x > self.left {
                (x, y) = (self.left, y + 18);
            }
            self.area.draw(&Rectangle::new([(x, y), (x + 11, y + 11)], colour.filled()))?;
            self.text(name, (x + 16, y + 10), HPos::Left, VPos::Bottom, 13.0)?;
            x += width;
        }
        Ok(())
    }
}

/// A step between grid lines that gives four to ten of them: 1, 2 or 5 times a power of ten.
fn step(most: f64) -> f64 {
    let power = 10f64.powf((most / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|n| n * power).find(|n| most / n >= 4.0).unwrap_or(power)
}

/// The next whole step above `most`.
pub(super) fn round_up(most: f64) -> f64 {
    let step = step(most);
    (most / step).ceil() * step
}

/// A name that has room under a bar.
pub(super) fn shorten(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}..", &name[..end]),
    }
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

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(shorten("lbpp"), "lbpp");
        assert_eq!(shorten("lbpp:invalidating=true"), "lbpp:invalidat..");
    }
}
