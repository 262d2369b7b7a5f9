//! The figures of the papers: their numbers beside ours.
//!
//! A figure is data (`experiments/*.toml`): what the paper states, and what of ours stands beside
//! it. A kind of figure is a file here and a line in the table of [`kinds`](mod@kinds): what its
//! files say, how its figures run, and what people read of them.

use crate::LabError;
use crate::engine::jobs::Runner;
use crate::engine::kept::Kept;
use crate::engine::options::{check_jobs, default_options, listed_name, once};
use clap::Args;
use seawall_report::{
    Bars, Experiment, Files, Finished, Form, Group, HtmlPage, Progress, Report, ReportError,
    ResultFile, json_lines,
};
use seawall_runtime::defrag::DefragOptions;
use seawall_sim::read_description;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod coalescing;
mod designs;
mod dirtiness;
mod fragmentation;
mod kernels;
mod kinds;
mod logging;
mod moving;
mod page;
mod programs;
mod report;
mod retired;
mod tally;
mod varied;

pub use coalescing::{
    Coalescing, CoalescingFigure, CoalescingOptions, CoalescingRecord, CoalescingRow, CoalescingRun,
};
pub use designs::{DesignFigure, FigureRecord, Metric, Series};
pub use dirtiness::{DirtinessFigure, DirtinessProgram, DirtinessRecord};
pub use fragmentation::{FragmentationFigure, FragmentationProgram, FragmentationRecord, Way};
pub use kernels::{Conflicts, KernelFigure, KernelFigureRecord, KernelSeries, RunRecord};
pub use kinds::{Figure, Figures};
pub use logging::{Column, LOSS_MAX, LoggingFigure, LoggingRecord, Quantity, Stated};
pub use moving::{MovingFigure, MovingProgram, MovingRecord, MovingSeries};
pub use programs::ProgramValue;
pub use tally::{Numbers, PublishedValue, Reproduced};
pub use varied::{Varied, VariedValue};

/// The figures that come with seawall: name and text.
const FIGURES: &[(&str, &str)] = &[
    ("pact20-4", include_str!("../experiments/pact20-4.toml")),
    ("pact20-24", include_str!("../experiments/pact20-24.toml")),
    ("pact20-dirtiness", include_str!("../experiments/pact20-dirtiness.toml")),
    ("pact20-coalescing", include_str!("../experiments/pact20-coalescing.toml")),
    ("memsys17-slide8", include_str!("../experiments/memsys17-slide8.toml")),
    ("memsys17-slide14", include_str!("../experiments/memsys17-slide14.toml")),
    ("memsys17-slide18", include_str!("../experiments/memsys17-slide18.toml")),
    ("micro15-fig11", include_str!("../experiments/micro15-fig11.toml")),
    ("micro15-fig12", include_str!("../experiments/micro15-fig12.toml")),
    ("micro15-fig13", include_str!("../experiments/micro15-fig13.toml")),
    ("micro15-fig14", include_str!("../experiments/micro15-fig14.toml")),
    ("micro15-flush", include_str!("../experiments/micro15-flush.toml")),
    ("tsoper21-fig11", include_str!("../experiments/tsoper21-fig11.toml")),
    ("hops-fig2", include_str!("../experiments/hops-fig2.toml")),
    ("asplos17-fig10", include_str!("../experiments/asplos17-fig10.toml")),
    ("hpca22-fig8", include_str!("../experiments/hpca22-fig8.toml")),
    ("ffccd-fragmentation", include_str!("../experiments/ffccd-fragmentation.toml")),
    ("ffccd-time", include_str!("../experiments/ffccd-time.toml")),
    ("isca22-table3", include_str!("../experiments/isca22-table3.toml")),
    ("isca22-table4", include_str!("../experiments/isca22-table4.toml")),
    ("isca22-fig14", include_str!("../experiments/isca22-fig14.toml")),
    ("isca22-fig15", include_str!("../experiments/isca22-fig15.toml")),
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

/// How to run figures.
#[derive(Clone, Debug, Args)]
pub struct FigureOptions {
    /// Figures, first parts of their names (micro15: all that begin with micro15-), or paths of
    /// .toml files [default: all]
    #[arg(value_delimiter = ',', value_parser = listed_name)]
    pub figures: Vec<String>,
    /// All figures, as without a name
    #[arg(long, conflicts_with = "figures")]
    pub all: bool,
    /// List the figures instead
    #[arg(long)]
    pub list: bool,
    /// Run a fifth of the operations or entries, and few records of the logging figures
    #[arg(long = "quick")]
    pub is_quick: bool,
    /// Run as many records of the logging figures, and entries of programs that are defragmented,
    /// as the papers
    #[arg(long = "full", conflicts_with = "is_quick")]
    pub is_full: bool,
    /// Also run what the figures' files list besides: other readings of the papers, forms of our
    /// own, stand-ins that are retired, and other values of parameters that nobody published.
    /// Several times as long
    #[arg(long = "varied")]
    pub is_varied: bool,
    /// Exit with 1 if something does not hold
    #[arg(long)]
    pub strict: bool,
    /// Seed of the operations
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Run the papers' programs again that are in this folder, compiled with `seawall cc`
    /// [default: what they took on another day]
    #[arg(long, value_name = "FOLDER")]
    pub programs: Option<PathBuf>,
    /// Keep each finished run in this file, and take those that it has: the same command again goes
    /// on with work that was stopped
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Write a JSON record per series to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page in Markdown per figure to this folder, with a picture of the published values
    /// and ours [if stopped: in FOLDER.partial]
    #[arg(long, value_name = "FOLDER")]
    pub pages: Option<PathBuf>,
    /// Write a page for a browser to this file: each published value beside ours, and the records
    /// behind it [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Draw the figures to SVG files in this folder [if stopped: in FOLDER.partial]
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
}

default_options!(FigureOptions);

/// A kind of figure, as its files describe it.
trait Kind: Sized {
    /// A measured value, as `--json` writes it.
    type Record;

    /// What is wrong with the description.
    fn check(&self) -> Result<(), String>;

    /// Runs `figures`; points that they share run once. Returns the records of each, in the order
    /// of the figures, and whether everything was measured.
    fn run(
        figures: &[&Self],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<Self::Record>, bool), LabError>;

    /// True if everything was measured and is within its tolerance or bound.
    fn holds(&self, records: &[&Self::Record]) -> bool;

    /// The published values that were measured, and which of them hold.
    fn published_values(&self, records: &[&Self::Record]) -> Vec<PublishedValue>;

    /// What people read.
    fn to_text(&self, records: &[&Self::Record]) -> String;

    /// The programs whose own runs stand beside the figure's, in Markdown; nothing if it has none.
    fn about_programs(&self) -> String {
        String::new()
    }

    /// The plots; none of what was not measured.
    fn plots(&self, records: &[&Self::Record]) -> Result<Vec<ResultFile>, ReportError>;
}

/// What the plots of a figure are called: its name, or that of its file without folder and ending.
fn stem(figure: &str) -> Cow<'_, str> {
    let is_file = figure.ends_with(".toml");
    let stem = Path::new(figure).file_stem().filter(|_| is_file);
    stem.map_or(figure.into(), |stem| stem.to_string_lossy())
}

/// A way to move objects as published, with checks each such share of that many entries.
fn checked_each(way: DefragOptions, share: Option<f64>, entries: u64) -> DefragOptions {
    let steps = share.map(|share| ((share * entries as f64) as u64).max(1));
    DefragOptions { check_steps: steps.unwrap_or(way.check_steps), ..way }
}

/// A plot of bars: ours for each program, the mean that was published, and ours.
struct MeanBars<'a> {
    figure: &'a str,
    title: &'a str,
    bars: Vec<&'a str>,
    programs: Vec<(String, Vec<Option<f64>>)>,
    published: Vec<Option<f64>>,
    means: Vec<Option<f64>>,
    /// The ratio that a line marks; none for percentages.
    reference: Option<f64>,
}

impl MeanBars<'_> {
    fn draw(mut self) -> Result<Vec<ResultFile>, ReportError> {
        if self.published.iter().any(Option::is_some) {
            self.programs.push(("published mean".into(), self.published));
        }
        let groups = self.programs.iter().map(|(name, ratios)| {
            let times = vec![None::<()>; ratios.len()];
            Group { name, ratios: ratios.clone(), times }
        });
        let bars = Bars {
            title: self.title.into(),
            cut: f64::INFINITY,
            designs: self.bars,
            groups: groups.collect(),
            mean: "our mean",
            means: self.means,
            reference: self.reference,
            parts: &[],
        };
        let text = bars.to_svg().map_err(ReportError::plot)?;
        Ok(vec![ResultFile { file: format!("{}.svg", stem(self.figure)), text }])
    }
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

    /// Leaves out the other readings, and our own forms, of figures that take long.
    fn keep_what_is_held(&mut self) {
        match self {
            Figure::Moving(figure) => figure.keep_what_is_held(),
            Figure::Fragmentation(figure) => figure.keep_what_is_held(),
            _ => {}
        }
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
        let text = read_description(path).map_err(LabError::file(path))?;
        Figure::parse(name, &text)
    }
}

/// Figures that can be run, and how.
#[derive(Clone, Debug)]
pub struct FigurePlan {
    figures: Vec<Figure>,
    options: FigureOptions,
}

impl Experiment for FigureOptions {
    type Plan = FigurePlan;
    type Report = Figures;
    type Error = LabError;

    fn plan(&self) -> Result<FigurePlan, LabError> {
        let groups = self.figures.iter().map(|name| Figure::load_all(name));
        let groups: Vec<Vec<Figure>> = groups.collect::<Result<_, _>>()?;
        let mut figures = if groups.is_empty() { Figure::known() } else { groups.concat() };
        if !self.is_varied {
            figures.iter_mut().for_each(Figure::keep_what_is_held);
        }
        if let Some(folder) = &self.programs {
            let files = figures.iter().filter_map(|figure| match figure {
                Figure::Kernels(figure) => figure.programs.as_deref(),
                Figure::Designs(figure) => figure.programs.as_deref(),
                _ => None,
            });
            programs::find(files, folder)?;
        }
        Ok(FigurePlan { figures, options: self.clone() })
    }

    fn files(&self, _: &FigurePlan) -> Files {
        self.figures
            .iter()
            .fold(Files::new(), |files, name| files.reads("a figure", name))
            .makes("--keep", self.keep.as_deref())
            .results(Form::Json, &self.json)
            .results(Form::Html, &self.html)
            .results(Form::Plots, &self.plots)
            .results(Form::Pages, &self.pages)
    }

    fn run(
        plan: FigurePlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Figures, LabError> {
        Figures::run(plan.figures, &plan.options, progress, stop)
    }
}

impl Report for Figures {
    fn text(&self) -> String {
        self.to_text()
    }

    fn notes(&self) -> Option<String> {
        let before = format!("{} runs were done already", self.taken()?);
        let kept =
            "those that were finished now are kept, too: the same command goes on from there";
        Some(if Figures::is_partial(self) { format!("{before}; {kept}") } else { before })
    }

    fn found(&self) -> bool {
        self.is_strict() && !self.hold()
    }

    fn finished(&self) -> Finished {
        Finished::of(Figures::is_partial(self), self.json().is_empty())
    }

    fn json(&self) -> String {
        self.lines()
    }

    fn page(&self) -> HtmlPage {
        self.to_page()
    }

    fn plots(&self) -> Result<Vec<ResultFile>, ReportError> {
        self.draw()
    }

    fn pages(&self) -> Result<Vec<ResultFile>, ReportError> {
        self.write_pages()
    }
}

#[cfg(test)]
mod tests;
