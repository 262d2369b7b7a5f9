//! Retired kernels: what runs of a figure, what is there in place of what does not, and what of it
//! is said.

use super::*;
use crate::figures::{FIGURES, Figure, Figures};
use seawall_report::{Progress, Report};
use std::sync::{Arc, LazyLock};

fn figure(name: &str) -> KernelFigure {
    let Figure::Kernels(figure) = Figure::load(name).unwrap() else { panic!("{name}") };
    figure
}

/// What runs for these figures, on one machine.
fn points(figures: &[&str], is_varied: bool) -> Vec<KernelPoint> {
    points_beside(|programs| programs, figures, is_varied)
}

/// What runs beside programs, of which `of` leaves some.
fn points_beside(
    of: impl Fn(MeasuredPrograms) -> MeasuredPrograms,
    figures: &[&str],
    is_varied: bool,
) -> Vec<KernelPoint> {
    let options = FigureOptions { is_varied, ..FigureOptions::default() };
    let mut points = Vec::new();
    for figure in figures.iter().map(|name| figure(name)) {
        let machine = Machine::load(&figure.machine).unwrap();
        let programs = of(programs::load(figure.programs.as_ref().unwrap()).unwrap());
        for point in figure.points(&machine, Some(&programs), &options).unwrap() {
            add(&mut points, point);
        }
    }
    points
}

#[test]
fn retired_kernels_run_where_no_program_has_and_with_varied() {
    let names = |points: Vec<KernelPoint>| -> Vec<String> {
        points.iter().map(|point| format!("{} {}", point.kernel, point.design.text)).collect()
    };
    for figure in ["micro15-fig13", "micro15-fig14"] {
        let names = names(points(&[figure], false));
        assert!(names.iter().all(|name| name.starts_with("freqmine ")), "{names:?}");
    }
    let without = |programs: MeasuredPrograms| programs.without("barnes", "bsp-naive");
    let names = names(points_beside(without, &["micro15-fig13"], false));
    let expected = ["volatile", "bsp-naive"].map(|design| format!("barnes {design}"));
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!(names.len(), 5 + expected.len(), "{names:?}");
    let count = |figures: &[&str]| [false, true].map(|is_varied| points(figures, is_varied).len());
    assert_eq!(count(&["micro15-fig13"]), [5, 50]);
    assert_eq!(count(&["micro15-fig14"]), [5, 50]);
    assert_eq!(count(&["micro15-fig13", "micro15-fig14"]), [8, 80], "volatile and LB run once");
    assert_eq!(count(&["tsoper21-fig11"]), [8, 14]);
}

/// Figure 14 with one series on two cores: lu is not retired.
fn small() -> Figure {
    let text = FIGURES.iter().find(|(name, _)| *name == "micro15-fig14").unwrap().1;
    let end = text.find("[[series]]\nname = \"LB+IDT\"").unwrap();
    let text = text[..end].replace("machine = \"micro15\"", "machine = \"micro15:core.count=2\"");
    let text = text.replace("\"lu\", ", "");
    assert!(
        text.contains("retired = [\"barnes\", \"canneal\", \"dedup\", \"intruder\", \"ocean\"")
    );
    Figure::parse("small", &text).unwrap()
}

fn run(is_varied: bool) -> Figures {
    let options = FigureOptions { is_quick: true, is_varied, ..FigureOptions::default() };
    Figures::run(vec![small()], &options, &Progress::hidden(), &Arc::default()).unwrap()
}

static WITHOUT: LazyLock<Figures> = LazyLock::new(|| run(false));
static VARIED: LazyLock<Figures> = LazyLock::new(|| run(true));

fn record<'a>(figures: &'a Figures, point: &str) -> &'a KernelFigureRecord {
    let mut all = figures.kernel_records().iter();
    all.find(|record| record.point == point).expect("a record")
}

#[test]
fn what_a_program_took_is_there_in_the_place_of_its_retired_kernel() {
    let programs = programs::load("micro15").unwrap();
    let program = |name: &str| {
        let values = programs.values(name, "bsp-lb:stores=10000");
        values.into_iter().find(|value| value.held).unwrap().value
    };
    for name in ["ssca2", "canneal"] {
        let record = record(&WITHOUT, name);
        assert_eq!((record.measured, record.retired), (program(name), true));
        assert!(record.run.is_none() && record.spent.is_none(), "{record:?}");
    }
    for name in ["lu", "freqmine"] {
        let ran = record(&WITHOUT, name);
        assert!(ran.run.is_some() && !ran.retired, "{ran:?}");
        assert_eq!(ran.measured, record(&VARIED, name).measured);
    }
    for point in [text::MEAN, text::NAMED, text::CONFLICTS] {
        let (without, varied) = (record(&WITHOUT, point), record(&VARIED, point));
        assert_eq!(without.measured, without.compared(), "{point}");
        assert_eq!(without.compared(), varied.compared(), "{point}");
        assert_ne!(varied.measured, varied.compared(), "{point}");
        assert_eq!(without.holds, varied.holds);
    }
    let kernels = ["ssca2", "vacation", "intruder", "canneal", "dedup"].map(program);
    let mean = kernels.iter().sum::<f64>() / 5.0;
    assert!((record(&WITHOUT, text::NAMED).measured - mean).abs() < 1e-9);
    let is_parallel = |record: &&KernelFigureRecord| record.point == text::PARALLEL;
    assert!(!WITHOUT.kernel_records().iter().any(|record| is_parallel(&record)));
    let json = serde_json::to_value(record(&WITHOUT, "ssca2")).unwrap();
    assert!(json["retired"] == true && json["run"].is_null(), "{json}");
    let json = serde_json::to_value(record(&VARIED, "ssca2")).unwrap();
    assert!(json.get("retired").is_none() && json["run"].is_object(), "{json}");
}

#[test]
fn a_figure_says_which_kernels_did_not_run_and_varied_shows_them_beside_their_programs() {
    let text = WITHOUT.to_text();
    let lines = |text: &str, start: &str| -> Vec<Vec<String>> {
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let said = "retired, as they are far from their programs: barnes, canneal, dedup, intruder, \
                ocean, radix, ssca2, vacation; --varied runs them\n";
    assert!(text.contains(said), "{text}");
    assert_eq!(lines(&text, "canneal"), [["canneal"]], "no numbers, and in no other table: {text}");
    assert_eq!(lines(&text, "freqmine").len(), 3, "{text}");
    assert!(lines(&text, "freqmine").iter().all(|cells| cells.len() == 2), "{text}");
    assert!(text.contains("all 2 results are right") && !text.contains("mean, parallel"), "{text}");
    let varied = VARIED.to_text();
    assert!(!varied.contains("runs them"), "{varied}");
    assert_eq!(lines(&varied, "canneal").len(), 3, "{varied}");
    assert!(lines(&varied, "canneal").iter().all(|cells| cells.len() == 2), "{varied}");
    assert!(varied.contains("all 10 results are right"), "{varied}");
    assert!(varied.contains("kernels more than 15 % from their programs: "), "{varied}");
    let judged = ["within 15 %", "(not retired)"].iter().any(|words| varied.contains(words));
    assert!(!judged, "a quick look says nothing of the list: {varied}");
    let stand_ins = |figures: &Figures| {
        let values = figures.published_values().remove(0).1;
        values.iter().filter(|value| value.stand_in.is_some()).count()
    };
    assert_eq!([stand_ins(&WITHOUT), stand_ins(&VARIED)], [0, 3]);
    let page = |figures: &Figures| {
        let pages = figures.pages().unwrap();
        pages.into_iter().find(|page| page.file == "small.md").unwrap().text
    };
    assert!(!page(&WITHOUT).contains("stand-in") && page(&VARIED).contains("stand-in"));
    assert!(page(&WITHOUT).contains("`seawall reproduce small --quick` prints:"));
    assert!(page(&VARIED).contains("`seawall reproduce small --quick --varied` prints:"));
    let drawn = |figures: &Figures| figures.plots().unwrap().remove(0).text;
    assert!(drawn(&WITHOUT).contains("canneal"));
    let has = |words: &str| [&*WITHOUT, &*VARIED].map(|figures| drawn(figures).contains(words));
    assert_eq!(has("time of programs over volatile"), [true, false]);
    assert_eq!(has("time of the threads"), [false, true]);
}
