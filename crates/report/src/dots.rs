//! Published values and ours, a row each: where the paper's is, how far from it ours may be, ours,
//! and between what ours would be with other values of parameters that nobody published.

use crate::chart::{Area, COLOURS, Drawn, GREY, GRID, Scale, plain, text};
use crate::{ReportError, ResultFile};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

const OURS: RGBColor = COLOURS[0];
const NEAR: RGBColor = RGBColor(226, 226, 226);
const WIDTH: i32 = 760;
const RIGHT: i32 = 30;
const ROW: i32 = 20;
const TITLE: i32 = 34;
const LEGEND: i32 = 24;
const BOTTOM: i32 = 52;
/// Width of an average character of a name.
const CHARACTER: f64 = 7.4;
/// No name takes more.
const NAMES_MAX: i32 = 400;

/// What became of a published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotFate {
    /// Ours is near enough: drawn filled.
    Within,
    /// It is not.
    Outside,
    /// It cannot be reproduced from what is public: drawn in grey.
    NotPublic,
}

/// A published value.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Which value.
    pub name: String,
    /// The paper's.
    pub paper: f64,
    /// How far from it ours may be.
    pub tolerance: f64,
    /// What we measure.
    pub ours: f64,
    /// What stands for a program that is compared.
    pub stand_in: Option<f64>,
    /// The least and the most of ours.
    pub range: Option<(f64, f64)>,
    /// What became of it.
    pub fate: DotFate,
}

/// A plot of values of one unit.
#[derive(Clone, Debug)]
pub struct Dots {
    /// What is drawn.
    pub title: String,
    /// What the axis counts.
    pub label: String,
    /// From above.
    pub rows: Vec<Dot>,
}

impl Dots {
    /// Draws it as the file of that name.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn svg(&self, file: &str) -> Result<ResultFile, ReportError> {
        let text = self.to_svg().map_err(ReportError::plot)?;
        Ok(ResultFile { file: file.to_owned(), text })
    }

    fn has(&self, part: impl Fn(&Dot) -> bool) -> bool {
        self.rows.iter().any(part)
    }

    fn left(&self) -> i32 {
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        (24 + (longest as f64 * CHARACTER) as i32).min(NAMES_MAX)
    }

    fn scale(&self) -> Scale {
        let all = self.rows.iter().flat_map(|row| {
            let range = row.range.unwrap_or((row.ours, row.ours));
            let stand_in = row.stand_in.unwrap_or(row.ours);
            [row.paper - row.tolerance, row.paper + row.tolerance, row.ours, stand_in]
                .into_iter()
                .chain([range.0, range.1])
        });
        let all: Vec<f64> = all.filter(|value| value.is_finite()).collect();
        let least = all.iter().copied().fold(0.0, f64::min);
        let most = all.iter().copied().fold(least + 1e-9, f64::max);
        Scale::linear((least, most + 0.03 * (most - least)), (self.left(), WIDTH - RIGHT))
    }

    fn to_svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let top = TITLE + LEGEND + 8;
        let end = top + ROW * self.rows.len() as i32;
        let mut svg = String::new();
        {
            let size = (WIDTH as u32, (end + BOTTOM) as u32);
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            area.fill(&WHITE)?;
            text(&area, &self.title, (12, 10), HPos::Left, VPos::Top, 15.0)?;
            self.legend(&area)?;
            let x = self.scale();
            for tick in x.ticks() {
                let at = x.at(tick);
                area.draw(&PathElement::new([(at, top), (at, end)], GRID))?;
                text(&area, &plain(tick), (at, end + 6), HPos::Center, VPos::Top, 12.0)?;
            }
            for (row, y) in self.rows.iter().zip((top + ROW / 2..).step_by(ROW as usize)) {
                draw_row(&area, &x, row, y)?;
            }
            area.draw(&PathElement::new([(self.left(), end), (WIDTH - RIGHT, end)], BLACK))?;
            let middle = ((self.left() + WIDTH - RIGHT) / 2, end + BOTTOM - 8);
            text(&area, &self.label, middle, HPos::Center, VPos::Bottom, 13.0)?;
            area.present()?;
        }
        Ok(svg)
    }

    fn legend(&self, area: &Area<'_>) -> Drawn {
        let y = TITLE + LEGEND / 2;
        let mut x = 16;
        let mut entry = |words: &str, draw: &dyn Fn((i32, i32)) -> Drawn| -> Drawn {
            draw((x + 10, y))?;
            text(area, words, (x + 26, y), HPos::Left, VPos::Center, 12.0)?;
            x += 44 + (words.len() as f64 * 6.6) as i32;
            Ok(())
        };
        entry("paper, tolerance", &|at| {
            near(area, at.0 - 10, at.0 + 10, at.1)?;
            diamond(area, at)
        })?;
        for (fate, words) in [
            (DotFate::Within, "ours, within it"),
            (DotFate::Outside, "ours, outside"),
            (DotFate::NotPublic, "ours, not reproducible"),
        ] {
            if self.has(|row| row.fate == fate) {
                entry(words, &|at| dot(area, at, fate))?;
            }
        }
        if self.has(|row| row.stand_in.is_some()) {
            entry("stand-in", &|at| cross(area, at))?;
        }
        if self.has(|row| row.range.is_some()) {
            entry("unpublished parameters", &|at| range(area, at.0 - 10, at.0 + 10, at.1))?;
        }
        Ok(())
    }
}

fn draw_row(area: &Area<'_>, x: &Scale, row: &Dot, y: i32) -> Drawn {
    let names = x.at(x.low) - 10;
    text(area, &row.name, (names, y), HPos::Right, VPos::Center, 12.0)?;
    near(area, x.at(row.paper - row.tolerance), x.at(row.paper + row.tolerance), y)?;
    if let Some((least, most)) = row.range {
        range(area, x.at(least), x.at(most), y)?;
    }
    if let Some(value) = row.stand_in {
        cross(area, (x.at(value), y))?;
    }
    diamond(area, (x.at(row.paper), y))?;
    match row.ours.is_finite() {
        true => dot(area, (x.at(row.ours), y), row.fate),
        false => Ok(()),
    }
}

/// What is near enough.
fn near(area: &Area<'_>, from: i32, to: i32, y: i32) -> Drawn {
    Ok(area.draw(&Rectangle::new([(from, y - 7), (to.max(from + 2), y + 7)], NEAR.filled()))?)
}

fn range(area: &Area<'_>, from: i32, to: i32, y: i32) -> Drawn {
    area.draw(&PathElement::new([(from, y), (to, y)], OURS.stroke_width(1)))?;
    for end in [from, to] {
        area.draw(&PathElement::new([(end, y - 4), (end, y + 4)], OURS.stroke_width(1)))?;
    }
    Ok(())
}

fn diamond(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    let corners = [(x, y - 6), (x + 5, y), (x, y + 6), (x - 5, y)];
    Ok(area.draw(&Polygon::new(corners, BLACK.filled()))?)
}

fn dot(area: &Area<'_>, at: (i32, i32), fate: DotFate) -> Drawn {
    let (fill, line) = match fate {
        DotFate::Within => (OURS, OURS),
        DotFate::Outside => (WHITE, OURS),
        DotFate::NotPublic => (WHITE, GREY),
    };
    area.draw(&Circle::new(at, 5, fill.filled()))?;
    Ok(area.draw(&Circle::new(at, 5, line.stroke_width(2)))?)
}

fn cross(area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    for (dx, dy) in [(4, 4), (4, -4)] {
        let line = [(x - dx, y - dy), (x + dx, y + dy)];
        area.draw(&PathElement::new(line, GREY.stroke_width(2)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ours: f64, fate: DotFate) -> Dot {
        let tolerance = 0.1;
        Dot { name: name.into(), paper: 1.0, tolerance, ours, stand_in: None, range: None, fate }
    }

    #[test]
    fn the_legend_names_what_is_drawn_and_nothing_else() {
        let rows = vec![row("LB", 1.05, DotFate::Within), row("LB++", f64::NAN, DotFate::Within)];
        let dots = Dots { title: "t".into(), label: "time".into(), rows };
        let svg = dots.svg("f.svg").unwrap().text;
        assert!(svg.contains("within it") && !svg.contains("outside"), "{svg}");
        assert!(!svg.contains("kernel") && !svg.contains("parameters") && !svg.contains("NaN"));
        let far = Dot {
            stand_in: Some(2.0),
            range: Some((0.5, 2.5)),
            ..row("LB", 1.5, DotFate::Outside)
        };
        let rows = vec![far, row("a lost loop", 3.0, DotFate::NotPublic)];
        let svg = Dots { rows, ..dots }.svg("f.svg").unwrap().text;
        assert!(svg.contains("not reproducible"), "{svg}");
        assert!(svg.contains("outside") && !svg.contains("within it"), "{svg}");
        assert!(svg.contains("stand-in") && svg.contains("unpublished parameters"));
    }
}
