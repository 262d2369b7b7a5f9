//! The curves of a validation as data; their display is left to the caller.

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// From 0 on, in whole numbers.
    Whole,
    /// From 0 on, in fractions.
    Ratio,
    /// Powers of two.
    Log,
}

/// An axis of a plot.
#[derive(Clone, Debug)]
pub struct PlotAxis {
    /// The quantity, with its unit.
    pub label: String,
    /// The scale.
    pub scale: AxisScale,
}

/// A curve of a plot.
#[derive(Clone, Debug)]
pub struct PlotCurve {
    /// Its name in the legend.
    pub name: String,
    /// Pairs of x and y.
    pub points: Vec<(f64, f64)>,
    /// Whether it is the expectation, not a measurement.
    pub is_formula: bool,
}

/// Curves over the same axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its file name, without the extension.
    pub file: String,
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub x: PlotAxis,
    /// The vertical axis.
    pub y: PlotAxis,
    /// The curves.
    pub curves: Vec<PlotCurve>,
}

impl PlotAxis {
    fn new(label: &str, scale: AxisScale) -> PlotAxis {
        PlotAxis { label: label.into(), scale }
    }

    pub(super) fn linear(label: &str) -> PlotAxis {
        PlotAxis::new(label, AxisScale::Whole)
    }

    pub(super) fn ratio(label: &str) -> PlotAxis {
        PlotAxis::new(label, AxisScale::Ratio)
    }

    pub(super) fn log(label: &str) -> PlotAxis {
        PlotAxis::new(label, AxisScale::Log)
    }
}

impl PlotCurve {
    pub(super) fn measured(name: &str, points: Vec<(f64, f64)>) -> PlotCurve {
        PlotCurve { name: name.into(), points, is_formula: false }
    }

    pub(super) fn formula(name: &str, points: Vec<(f64, f64)>) -> PlotCurve {
        PlotCurve { is_formula: true, ..PlotCurve::measured(name, points) }
    }
}

impl Plot {
    pub(super) fn new(file: &str, title: &str, x: PlotAxis, y: PlotAxis) -> Plot {
        Plot { file: file.into(), title: title.into(), x, y, curves: Vec::new() }
    }

    pub(super) fn with(mut self, curve: PlotCurve) -> Plot {
        self.curves.push(curve);
        self
    }
}
