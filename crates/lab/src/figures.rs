//! The figures of the papers: their numbers beside ours.
//!
//! A figure is data (`experiments/*.toml`): what the paper states, and what of ours stands beside
//! it. There are seven kinds, each with a runner of its own: bars that compare persistency designs
//! ([`DesignFigure`]), times of programs that hardware cuts into epochs ([`KernelFigure`]), sweeps
//! that compare ways of logging ([`LoggingFigure`]), how much of flushed lines was dirty
//! ([`DirtinessFigure`]), what placing objects together gains ([`CoalescingFigure`]), and how much
//! memory ([`FragmentationFigure`]) and time ([`MovingFigure`]) defragmentation takes. Points
//! that several figures of a kind share are run once.

use crate::LabError;
use crate::chart::Chart;
use crate::engine::options::{check_jobs, once};
use crate::engine::progress::Progress;
use logging::{Measured, View};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod coalescing;
mod designs;
mod dirtiness;
mod fragmentation;
mod kernels;
mod logging;
mod moving;

pub use coalescing::{CoalescingFigure, CoalescingRecord, CoalescingRun};
pub use designs::{DesignFigure, FigureRecord, Metric, Series};
pub use dirtiness::{DirtinessFigure, DirtinessProgram, DirtinessRecord};
pub use fragmentation::{FragmentationFigure, FragmentationProgram, FragmentationRecord, Way};
pub use kernels::{Conflicts, KernelFigure, KernelFigureRecord, KernelSeries, RunRecord};
pub use logging::{Column, LOSS_MAX, LoggingFigure, LoggingRecord, Quantity, Stated};
pub use moving::{MovingFigure, MovingProgram, MovingRecord, MovingSeries};

/// The figures that come with seawall: name and text.
const FIGURES: &[(&str, &str)] = &[
    ("pact20-4", include_str!("../../../experiments/pact20-4.toml")),
    ("pact20-24", include_str!("../../../experiments/pact20-24.toml")),
    ("pact20-dirtiness", include_str!("../../../experiments/pact20-dirtiness.toml")),
    ("pact20-coalescing", include_str!("../../../experiments/pact20-coalescing.toml")),
    ("memsys17-slide8", include_str!("../../../experiments/memsys17-slide8.toml")),
    ("memsys17-slide14", include_str!("../../../experiments/memsys17-slide14.toml")),
    ("memsys17-slide18", include_str!("../../../experiments/memsys17-slide18.toml")),
    ("micro15-fig11", include_str!("../../../experiments/micro15-fig11.toml")),
    ("micro15-fig12", include_str!("../../../experiments/micro15-fig12.toml")),
    ("micro15-fig13", include_str!("../../../experiments/micro15-fig13.toml")),
    ("micro15-fig14", include_str!("../../../experiments/micro15-fig14.toml")),
    ("micro15-flush", include_str!("../../../experiments/micro15-flush.toml")),
    ("hops-fig2", include_str!("../../../experiments/hops-fig2.toml")),
    ("asplos17-fig10", include_str!("../../../experiments/asplos17-fig10.toml")),
    ("hpca22-fig8", include_str!("../../../experiments/hpca22-fig8.toml")),
    ("ffccd-fragmentation", include_str!("../../../experiments/ffccd-fragmentation.toml")),
    ("ffccd-time", include_str!("../../../experiments/ffccd-time.toml")),
    ("isca22-table3", include_str!("../../../experiments/isca22-table3.toml")),
    ("isca22-table4", include_str!("../../../experiments/isca22-table4.toml")),
    ("isca22-fig14", include_str!("../../../experiments/isca22-fig14.toml")),
    ("isca22-fig15", include_str!("../../../experiments/isca22-fig15.toml")),
];

/// What papers were called before their figures had the names of their conferences.
const OLD_PAPERS: &[(&str, &str)] = &[
    ("s0", "pact20"),
    ("s1", "memsys17"),
    ("s2", "micro15"),
    ("s3", "ffccd"),
    ("s4", "hops"),
    ("w17", "asplos17"),
    ("as22", "hpca22"),
    ("f22", "isca22"),
];

/// The name that a figure, or a paper, has today.
fn name_of_today(name: &str) -> String {
    let (paper, rest) = name.split_once('-').unwrap_or((name, ""));
    match OLD_PAPERS.iter().find(|(old, _)| *old == paper) {
        None => name.to_owned(),
        Some((_, today)) if rest.is_empty() => (*today).to_owned(),
        Some((_, today)) => format!("{today}-{rest}"),
    }
}

/// A figure of a paper.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Bars that compare designs.
    Designs(DesignFigure),
    /// Programs that hardware cuts into epochs.
    Kernels(KernelFigure),
    /// A sweep that compares ways of logging.
    Logging(LoggingFigure),
    /// How much of flushed lines was dirty.
    Dirtiness(DirtinessFigure),
    /// What placing objects together gains.
    Coalescing(CoalescingFigure),
    /// How much memory programs take that grow and shrink.
    Fragmentation(FragmentationFigure),
    /// The time that moving objects takes.
    Moving(MovingFigure),
}

/// How to run figures.
#[derive(Clone, Debug)]
pub struct FigureOptions {
    /// Run fewer operations.
    pub is_quick: bool,
    /// Run as many as the paper, where the default is fewer.
    pub is_full: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Host threads; none: one per core of the host.
    pub jobs: Option<usize>,
}

impl Default for FigureOptions {
    fn default() -> FigureOptions {
        FigureOptions { is_quick: false, is_full: false, seed: 1, jobs: None }
    }
}

/// Figures with what was measured for them.
#[derive(Debug)]
pub struct Figures {
    figures: Vec<Figure>,
    options: FigureOptions,
    records: Vec<FigureRecord>,
    measured: Measured,
    kernels: kernels::Measured,
    dirtiness: Vec<DirtinessRecord>,
    coalescing: Vec<CoalescingRecord>,
    fragmentation: Vec<FragmentationRecord>,
    moving: Vec<MovingRecord>,
    is_partial: bool,
}

impl Figure {
    /// The figures that come with seawall.
    pub fn known() -> Vec<Figure> {
        let figures = FIGURES.iter().map(|(name, text)| Figure::parse(name, text));
        figures.map(|figure| figure.expect("checked by a test")).collect()
    }

    /// The figure of that name or in that `.toml` file, or if there is none, those of that group:
    /// of `pact20` those whose names begin with `pact20-`.
    ///
    /// # Errors
    /// As [`load`](Figure::load).
    pub fn load_all(asked: &str) -> Result<Vec<Figure>, LabError> {
        let today = name_of_today(asked);
        let name = today.as_str();
        let is_of_group =
            |known: &str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        let group: Vec<_> = FIGURES.iter().filter(|(known, _)| is_of_group(known)).collect();
        if group.is_empty() {
            return Ok(vec![Figure::load(asked)?]);
        }
        group.into_iter().map(|(name, text)| Figure::parse(name, text)).collect()
    }

    /// The figure of that name, or the one in that `.toml` file.
    ///
    /// # Errors
    /// An unknown name, an unreadable file, a description that is wrong.
    pub fn load(asked: &str) -> Result<Figure, LabError> {
        let today = name_of_today(asked);
        let name = today.as_str();
        if let Some((_, text)) = FIGURES.iter().find(|(known, _)| *known == name) {
            return Figure::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|end| end != "toml") {
            let known: Vec<&str> = FIGURES.iter().map(|(known, _)| *known).collect();
            return Err(LabError::UnknownFigure { name: asked.into(), known: known.join(", ") });
        }
        let text = std::fs::read_to_string(path).map_err(LabError::file(path))?;
        Figure::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Figure, LabError> {
        let wrong = |what: String| LabError::Figure { name: name.into(), what };
        let table: toml::Table = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        macro_rules! figure {
            ($Kind:ident, $Figure:ty) => {{
                let mut figure: $Figure =
                    toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
                figure.name = name.to_owned();
                figure.check().map_err(wrong)?;
                Ok(Figure::$Kind(figure))
            }};
        }
        match table.get("kind").and_then(toml::Value::as_str) {
            None => figure!(Designs, DesignFigure),
            Some("kernels") => figure!(Kernels, KernelFigure),
            Some("logging") => figure!(Logging, LoggingFigure),
            Some("dirtiness") => figure!(Dirtiness, DirtinessFigure),
            Some("coalescing") => figure!(Coalescing, CoalescingFigure),
            Some("fragmentation") => figure!(Fragmentation, FragmentationFigure),
            Some("moving") => figure!(Moving, MovingFigure),
            Some(other) => Err(wrong(format!(
                "kind = \"{other}\"; give \"kernels\", \"logging\", \"dirtiness\", \
                 \"coalescing\", \"fragmentation\", \"moving\", or no kind"
            ))),
        }
    }

    /// Name on the command line.
    pub fn name(&self) -> &str {
        match self {
            Figure::Designs(figure) => &figure.name,
            Figure::Kernels(figure) => &figure.name,
            Figure::Logging(figure) => &figure.name,
            Figure::Dirtiness(figure) => &figure.name,
            Figure::Coalescing(figure) => &figure.name,
            Figure::Fragmentation(figure) => &figure.name,
            Figure::Moving(figure) => &figure.name,
        }
    }

    /// What it shows, and where the paper says so.
    pub fn about(&self) -> (&str, &str) {
        match self {
            Figure::Designs(figure) => (&figure.title, &figure.source),
            Figure::Kernels(figure) => (&figure.title, &figure.source),
            Figure::Logging(figure) => (&figure.title, &figure.source),
            Figure::Dirtiness(figure) => (&figure.title, &figure.source),
            Figure::Coalescing(figure) => (&figure.title, &figure.source),
            Figure::Fragmentation(figure) => (&figure.title, &figure.source),
            Figure::Moving(figure) => (&figure.title, &figure.source),
        }
    }
}

impl Figures {
    /// Runs `figures`; stops soon after `stop` becomes true, with what is complete by then.
    ///
    /// # Errors
    /// A figure that is named twice or cannot be run.
    pub fn run(
        figures: Vec<Figure>,
        options: &FigureOptions,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Figures, LabError> {
        let names: Vec<String> = figures.iter().map(|figure| figure.name().to_owned()).collect();
        once("figure", &names)?;
        check_jobs(options.jobs)?;
        let (mut designs, mut programs, mut logging) = (Vec::new(), Vec::new(), Vec::new());
        let (mut dirty, mut coalescing) = (Vec::new(), Vec::new());
        let (mut fragmentation, mut moving) = (Vec::new(), Vec::new());
        for figure in &figures {
            match figure {
                Figure::Designs(figure) => designs.push(figure),
                Figure::Kernels(figure) => programs.push(figure),
                Figure::Logging(figure) => logging.push(figure),
                Figure::Dirtiness(figure) => dirty.push(figure),
                Figure::Coalescing(figure) => coalescing.push(figure),
                Figure::Fragmentation(figure) => fragmentation.push(figure),
                Figure::Moving(figure) => moving.push(figure),
            }
        }
        let (records, is_whole) = match designs.is_empty() {
            true => (Vec::new(), true),
            false => designs::run(&designs, options, progress, stop)?,
        };
        let kernels = match programs.is_empty() {
            true => kernels::Measured::default(),
            false => kernels::Measured::run(&programs, options, progress, stop)?,
        };
        let measured = match logging.is_empty() {
            true => Measured::default(),
            false => Measured::run(&logging, options, progress, stop)?,
        };
        let (dirtiness, all_dirty) = dirtiness::run(&dirty, options, progress, stop)?;
        let (coalescing, all_placed) = coalescing::run(&coalescing, options, progress, stop)?;
        let (fragmentation, all_small) =
            fragmentation::run(&fragmentation, options, progress, stop)?;
        let (moving, all_moved) = moving::run(&moving, options, progress, stop)?;
        let is_whole = is_whole && all_dirty && all_placed && all_small && all_moved;
        let is_partial = !is_whole || kernels.is_partial || measured.is_partial;
        let options = options.clone();
        Ok(Figures {
            figures,
            options,
            records,
            measured,
            kernels,
            dirtiness,
            coalescing,
            fragmentation,
            moving,
            is_partial,
        })
    }

    /// A record for each series of the figures of designs, in the order of the figures.
    pub fn records(&self) -> &[FigureRecord] {
        &self.records
    }

    /// A record for each value of the figures of kernels, in the order of the figures.
    pub fn kernel_records(&self) -> &[KernelFigureRecord] {
        &self.kernels.records
    }

    /// A record for each point of the logging figures, in the order of the figures.
    pub fn logging_records(&self) -> Vec<LoggingRecord> {
        self.views().flat_map(|view| view.records()).collect()
    }

    /// A record for each program of the figures of dirtiness, in the order of the figures.
    pub fn dirtiness_records(&self) -> &[DirtinessRecord] {
        &self.dirtiness
    }

    /// A record for each row of the figures of coalescing, in the order of the figures.
    pub fn coalescing_records(&self) -> &[CoalescingRecord] {
        &self.coalescing
    }

    /// A record for each program of the figures of fragmentation, in the order of the figures.
    pub fn fragmentation_records(&self) -> &[FragmentationRecord] {
        &self.fragmentation
    }

    /// A record for each program and protocol of the figures of moving, in the order of the
    /// figures.
    pub fn moving_records(&self) -> &[MovingRecord] {
        &self.moving
    }

    fn fragmentation_of(&self, figure: &FragmentationFigure) -> Vec<&FragmentationRecord> {
        self.fragmentation.iter().filter(|record| record.figure == figure.name).collect()
    }

    fn moving_of(&self, figure: &MovingFigure) -> Vec<&MovingRecord> {
        self.moving.iter().filter(|record| record.figure == figure.name).collect()
    }

    fn dirtiness_of(&self, figure: &DirtinessFigure) -> Vec<&DirtinessRecord> {
        self.dirtiness.iter().filter(|record| record.figure == figure.name).collect()
    }

    fn coalescing_of(&self, figure: &CoalescingFigure) -> Vec<&CoalescingRecord> {
        self.coalescing.iter().filter(|record| record.figure == figure.name).collect()
    }

    fn of(&self, figure: &DesignFigure) -> Vec<&FigureRecord> {
        self.records.iter().filter(|record| record.figure == figure.name).collect()
    }

    fn view<'a>(&'a self, figure: &'a LoggingFigure) -> View<'a> {
        View { figure, measured: &self.measured, options: &self.options }
    }

    fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.figures.iter().filter_map(|figure| match figure {
            Figure::Logging(figure) => Some(self.view(figure)),
            _ => None,
        })
    }

    /// True if everything was measured and is within its tolerance or bound; of a figure whose
    /// file says how many values of single workloads are not, exactly so many may be outside.
    pub fn hold(&self) -> bool {
        let bars = self.figures.iter().all(|figure| match figure {
            Figure::Designs(figure) => figure.holds(&self.of(figure)),
            Figure::Dirtiness(figure) => figure.holds(&self.dirtiness_of(figure)),
            Figure::Coalescing(figure) => figure.holds(&self.coalescing_of(figure)),
            Figure::Fragmentation(figure) => figure.holds(&self.fragmentation_of(figure)),
            Figure::Moving(figure) => figure.holds(&self.moving_of(figure)),
            Figure::Kernels(_) | Figure::Logging(_) => true,
        });
        let kernels = self.kernels.records.iter().all(|record| {
            record.holds != Some(false) && record.run.as_ref().is_none_or(|run| run.is_right)
        });
        !self.is_partial && bars && kernels && self.views().all(|view| view.holds())
    }

    /// True if the run was stopped before everything was measured.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// What people read of each figure.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for figure in &self.figures {
            text += &match figure {
                Figure::Designs(figure) => figure.to_text(&self.of(figure)),
                Figure::Kernels(figure) => figure.to_text(&self.kernels.of(figure)),
                Figure::Logging(figure) => self.view(figure).to_text(),
                Figure::Dirtiness(figure) => figure.to_text(&self.dirtiness_of(figure)),
                Figure::Coalescing(figure) => figure.to_text(&self.coalescing_of(figure)),
                Figure::Fragmentation(figure) => figure.to_text(&self.fragmentation_of(figure)),
                Figure::Moving(figure) => figure.to_text(&self.moving_of(figure)),
            };
        }
        if self.is_partial {
            text += "PARTIAL: stopped before everything was measured\n";
        }
        text
    }

    /// Writes the records to `path`, a line each.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_json(&self, path: &Path) -> Result<(), LabError> {
        let lines = self.lines().map_err(|error| LabError::file(path)(error.into()))?;
        crate::engine::output::write_lines(path, &lines)
    }

    /// True if nothing at all was measured.
    pub fn is_empty(&self) -> bool {
        self.lines().is_ok_and(|lines| lines.is_empty())
    }

    /// The records of all figures.
    fn lines(&self) -> Result<Vec<serde_json::Value>, serde_json::Error> {
        let mut lines = Vec::new();
        for record in &self.records {
            lines.push(serde_json::to_value(record)?);
        }
        for record in &self.kernels.records {
            lines.push(serde_json::to_value(record)?);
        }
        for record in self.logging_records() {
            lines.push(serde_json::to_value(record)?);
        }
        for record in &self.dirtiness {
            lines.push(serde_json::to_value(record)?);
        }
        for record in &self.fragmentation {
            lines.push(serde_json::to_value(record)?);
        }
        for record in &self.moving {
            lines.push(serde_json::to_value(record)?);
        }
        for record in &self.coalescing {
            lines.push(serde_json::to_value(record)?);
        }
        Ok(lines)
    }

    /// Draws the figures of kernels and the curves of the logging figures to SVG files in `folder`,
    /// which is made if it is not there; gives how many.
    ///
    /// # Errors
    /// When one cannot be drawn or written.
    pub fn write_plots(&self, folder: &Path) -> Result<usize, LabError> {
        std::fs::create_dir_all(folder).map_err(LabError::file(folder))?;
        let charts = self.charts();
        for chart in &charts {
            let svg = chart.to_svg().map_err(|error| LabError::Plot(error.to_string()))?;
            let path = folder.join(format!("{}.svg", chart.file));
            crate::engine::output::write_file(&path, svg.as_bytes())?;
        }
        let mut count = charts.len();
        for figure in self.drawn() {
            let path = folder.join(format!("{}.svg", figure.name));
            figure.write_plot(&self.kernels.of(figure), &path)?;
            count += 1;
        }
        Ok(count)
    }

    /// True if anything was measured that is drawn.
    pub fn has_plots(&self) -> bool {
        !self.charts().is_empty() || self.drawn().next().is_some()
    }

    /// The curves of which something was measured.
    fn charts(&self) -> Vec<Chart> {
        let charts = self.views().flat_map(|view| view.charts());
        charts.filter(|chart| !chart.is_empty()).collect()
    }

    /// The figures of kernels of which something was measured.
    fn drawn(&self) -> impl Iterator<Item = &KernelFigure> {
        self.figures.iter().filter_map(|figure| match figure {
            Figure::Kernels(figure) => Some(figure).filter(|it| !self.kernels.of(it).is_empty()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
