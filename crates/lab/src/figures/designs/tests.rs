//! Figures of designs: what is made of the cells that were run, what is too far from the paper's,
//! and whether a figure holds.
//!
//! `SEAWALL_FIGURES=1 cargo test --release -p seawall-lab figures` also runs in full the figures of
//! designs that come with seawall, which takes some minutes, and holds them to what README.md and
//! validation/DEVIATIONS.md say of them.

use super::super::{Figure, Figures};
use super::*;
use seawall_report::{Progress, Report};
use std::sync::{Arc, LazyLock};

/// Two workloads on a small machine; what `head` and `series` add to that.
fn small(head: &str, series: &[(&str, &str)]) -> Figure {
    parse_small(head, series).unwrap()
}

fn parse_small(head: &str, series: &[(&str, &str)]) -> Result<Figure, LabError> {
    let mut text = format!(
        "title = 'small'\nsource = 'none'\nmachine = 'desktop'\noperations = 20\nbaseline = 'lb'\n\
         workloads = ['hash', 'sps']\ntolerance = 0.1\n{head}\n"
    );
    for (design, rest) in series {
        text += &format!("[[series]]\nname = '{design}'\ndesign = '{design}'\n{rest}\n");
    }
    Figure::parse("small", &text)
}

fn run(figures: Vec<Figure>, is_quick: bool) -> Figures {
    let options = FigureOptions { is_quick, ..FigureOptions::default() };
    Figures::run(figures, &options, &Progress::hidden(), &Arc::default()).unwrap()
}

fn run_small(head: &str, series: &[(&str, &str)]) -> Figures {
    run(vec![small(head, series)], false)
}

/// Throughput over LB of what the tests stand beside.
static THROUGHPUT: LazyLock<Figures> = LazyLock::new(|| {
    let series = ["lb", "volatile", "lbpp", "hops"].map(|design| (design, ""));
    run_small("metric = 'throughput'", &series)
});

fn throughput(design: &str) -> [f64; 2] {
    let mut records = THROUGHPUT.records().iter();
    let values = values(records.find(|record| record.design == design).expect("a series"));
    [values[0], values[1]]
}

fn values(record: &FigureRecord) -> Vec<f64> {
    record.workloads.values().map(|value| value.as_f64().unwrap()).collect()
}

fn is_near(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

/// What runs for these figures, on one machine.
fn points(figures: &[Figure], is_varied: bool) -> Vec<Point> {
    let options = FigureOptions { is_varied, ..FigureOptions::default() };
    let of_designs = figures.iter().map(|figure| match figure {
        Figure::Designs(figure) => (figure, figure.plan(&options).unwrap()),
        _ => unreachable!("a figure of designs"),
    });
    let all: Vec<(&DesignFigure, Plan)> = of_designs.collect();
    let load = |figure: &DesignFigure| programs::load(figure.programs.as_ref()?).ok();
    let programs: Vec<_> = all.iter().map(|(figure, _)| load(figure)).collect();
    let runs = all.iter().zip(&programs).map(|((figure, plan), programs)| {
        let programs = programs.as_ref();
        Runs { figure, plan, programs, options: &options, cells: &[] }
    });
    let shared = share(&runs.collect::<Vec<_>>());
    assert_eq!(shared.len(), 1);
    shared.into_iter().next().unwrap().points
}

#[test]
fn figures_share_the_points_that_they_have_in_common() {
    let figures = ["micro15-fig11", "micro15-fig12"].map(|name| Figure::load(name).unwrap());
    assert_eq!(points(&figures, false).len(), 5 * 4, "LB, IDT, PF, LB++ with five workloads");
}

#[test]
fn a_workload_can_have_fewer_operations_than_the_others() {
    let fewer = "metric = 'throughput'\noperations_of = { sps = 10 }";
    let figures = run(vec![small(fewer, &[("lb", "")])], true);
    let plan = match small(fewer, &[("lb", "")]) {
        Figure::Designs(figure) => figure.plan(&FigureOptions::default()).unwrap(),
        _ => unreachable!("a figure of designs"),
    };
    let operations = plan.points.iter().map(|point| (&*point.workload, point.operations));
    assert_eq!(operations.collect::<Vec<_>>(), [("hash", 20), ("sps", 10)]);
    let text = figures.text();
    assert!(text.contains("4 operations per thread; sps 2, seed 1 (quick)"), "{text}");
    for wrong in ["{ echo = 10 }", "{ sps = 0 }", "{ sps = 4294967297 }"] {
        let head = format!("metric = 'throughput'\noperations_of = {wrong}");
        let refused = parse_small(&head, &[("lb", "")]).unwrap_err().to_string();
        assert!(
            refused.contains("give one of the figure's workloads, and 1 to 4294967296"),
            "{refused}"
        );
    }
}

#[test]
fn run_time_over_the_baseline_is_one_over_its_throughput() {
    let time = run_small("metric = 'time'", &[("lb", ""), ("volatile", "")]);
    let [lb, volatile] = time.records() else { panic!("a record for each series") };
    assert_eq!(values(lb), [1.0, 1.0], "the baseline beside itself");
    assert!(values(volatile).iter().all(|time| *time < 0.9), "{volatile:?}");
    let products = values(volatile).into_iter().zip(throughput("volatile"));
    assert!(products.clone().all(|(time, faster)| is_near(time * faster, 1.0)), "{products:?}");
}

#[test]
fn the_mean_is_geometric_only_where_the_figure_says_so() {
    let [hash, sps] = throughput("volatile");
    assert!((hash - sps).abs() > 0.1, "the means differ: {hash} {sps}");
    let plain = THROUGHPUT.records().iter().find(|record| record.design == "volatile");
    assert!(is_near(plain.unwrap().measured, (hash + sps) / 2.0));
    let head = "metric = 'throughput'\ngeometric = true";
    let geometric = run_small(head, &[("volatile", "")]);
    assert!(is_near(geometric.records()[0].measured, (hash * sps).sqrt()));
}

/// `volatile` is stated right for sps and too low for hash, `lbpp` right for hash and too high for
/// sps, `hops` only for sps, and nearly right.
fn stated(head: &str) -> Figures {
    let of = |hash: f64, sps: f64| format!("workloads = {{ hash = {hash:?}, sps = {sps:?} }}");
    let [volatile, lbpp, hops] = ["volatile", "lbpp", "hops"].map(throughput);
    let [first, second] = [of(volatile[0] - 0.3, volatile[1]), of(lbpp[0], lbpp[1] + 0.3)];
    let third = format!("workloads = {{ sps = {:?} }}", hops[1] + 0.1);
    let series = [("volatile", &first[..]), ("lbpp", &second), ("hops", &third)];
    run_small(&format!("metric = 'throughput'\n{head}"), &series)
}

/// Two of the values are too far apart, as the file says.
static TWO_FAR: LazyLock<Figures> = LazyLock::new(|| stated("workload_tolerance = 0.2\nfar = 2"));

fn line<'a>(text: &'a str, start: &str, nth: usize) -> Vec<&'a str> {
    let lines = text.lines().filter(|line| line.trim_start().starts_with(start));
    lines.map(|line| line.split_whitespace().collect()).nth(nth).expect("a line of that series")
}

#[test]
fn values_of_workloads_that_are_too_far_from_the_papers_are_named_and_marked() {
    let far: Vec<&[String]> = TWO_FAR.records().iter().map(|record| &record.far[..]).collect();
    assert_eq!(far, [&["hash".to_owned()][..], &["sps".to_owned()], &[]]);
    let text = TWO_FAR.to_text();
    let shown = |design: &str, marks: [&str; 2]| {
        let [hash, sps] = throughput(design);
        assert_eq!(
            line(&text, design, 0)[5..],
            [format!("{hash:.2}{}", marks[0]), format!("{sps:.2}{}", marks[1])],
            "{text}"
        );
    };
    shown("volatile", ["!", ""]);
    shown("lbpp", ["", "!"]);
    shown("hops", ["", ""]);
    assert!(text.contains("3 of 5 single values (within 0.20; others: !)"), "{text}");
}

#[test]
fn what_the_paper_states_of_single_workloads_stands_below_ours() {
    let [volatile, lbpp, hops] = ["volatile", "lbpp", "hops"].map(throughput);
    let text = TWO_FAR.to_text();
    let two = |hash: f64, sps: f64| [format!("{hash:.2}"), format!("{sps:.2}")];
    assert_eq!(line(&text, "paper's", 0)[1..], two(volatile[0] - 0.3, volatile[1]), "{text}");
    assert_eq!(line(&text, "paper's", 1)[1..], two(lbpp[0], lbpp[1] + 0.3), "{text}");
    let third = ["-".to_owned(), format!("{:.2}", hops[1] + 0.1)];
    assert_eq!(line(&text, "paper's", 2)[1..], third, "hash is not stated: {text}");
    let json = serde_json::to_value(&TWO_FAR.records()[2]).unwrap();
    assert!(json["paper_workloads"]["hash"].is_null() && json.get("far").is_none(), "{json}");
    assert!(json["paper_workloads"]["sps"].is_number(), "{json}");
    let bare = THROUGHPUT.to_text();
    assert!(!bare.lines().any(|line| line.starts_with("  paper's")), "{bare}");
    assert!(!bare.contains("single values"), "{bare}");
}

#[test]
fn a_figure_holds_with_exactly_as_many_far_values_as_its_file_says() {
    let mut figures = stated("workload_tolerance = 0.2\nfar = 2");
    assert!(figures.hold() && !figures.to_text().contains("file has"), "{}", figures.to_text());
    for count in [0, 1, 3] {
        let Figure::Designs(figure) = &mut figures.figures[0] else { panic!("of designs") };
        figure.far = count;
        assert!(!figures.hold(), "two are far, not {count}");
        let said = format!("the figure's file has far = {count})");
        assert!(figures.to_text().contains(&said), "{}", figures.to_text());
    }
    assert!(stated("workload_tolerance = 0.4").hold(), "none is far");
    assert!(stated("").hold(), "nothing is promised of single values");
}

#[test]
fn far_values_that_are_known_do_not_make_a_wrong_mean_right() {
    let series = [("lbpp", "paper = 9.0\nworkloads = { sps = 9.0 }")];
    let head = "metric = 'throughput'\nworkload_tolerance = 0.2\nfar = 1";
    let figures = run_small(head, &series);
    assert_eq!(figures.records()[0].far, ["sps"]);
    assert!(!figures.hold());
}

#[test]
fn one_figure_s_far_values_are_not_another_s() {
    let series = [("lbpp", "workloads = { sps = 9.0 }")];
    let head = |far: u32| format!("metric = 'throughput'\nworkload_tolerance = 0.2\nfar = {far}");
    let both = |first: u32, second: u32| {
        let mut figures = [small(&head(first), &series), small(&head(second), &series)];
        let Figure::Designs(figure) = &mut figures[1] else { unreachable!("a figure of designs") };
        figure.name = "other".into();
        run(figures.into(), false).hold()
    };
    assert!(both(1, 1));
    assert!(!both(1, 0) && !both(0, 1));
}

#[test]
fn a_series_may_have_a_baseline_of_its_own_and_other_designs_for_single_workloads() {
    let series =
        [("volatile", "baseline = 'lbpp'"), ("lbpp", "designs = { sps = 'hops' }"), ("hops", "")];
    let figures = run_small("metric = 'throughput'", &series);
    let [own, mixed, plain] = figures.records() else { panic!("three series") };
    let [volatile, lbpp, hops] = ["volatile", "lbpp", "hops"].map(throughput);
    let expected = [volatile[0] / lbpp[0], volatile[1] / lbpp[1]];
    assert!(values(own).into_iter().zip(expected).all(|(left, right)| is_near(left, right)));
    assert!(is_near(values(mixed)[0], lbpp[0]), "hash as the series says");
    assert!(is_near(values(mixed)[1], 1.0), "sps is compared with its own design");
    assert!(is_near(values(plain)[1], hops[1]));
    let text = "title = 't'\nsource = 's'\nmachine = 'desktop'\nbaseline = 'lb'\ntolerance = 1.0\n\
        metric = 'time'\nworkloads = ['hash']\n[[series]]\nname = 'a'\ndesign = 'lb'\n\
        designs = { sps = 'lbpp' }\n";
    let refused = Figure::parse("small", text).unwrap_err().to_string();
    assert!(refused.contains("a design for 'sps', which is not in workloads"), "{refused}");
}

#[test]
fn the_highest_value_of_a_series_is_a_single_value_of_the_paper_too() {
    let [hash, sps] = throughput("volatile");
    let highest = hash.max(sps);
    let of = |paper: f64, far: u32| {
        let head = format!("metric = 'throughput'\nworkload_tolerance = 0.2\nfar = {far}");
        run_small(&head, &[("volatile", &format!("paper_most = {paper:?}"))])
    };
    let near = of(highest + 0.1, 0);
    let said = format!("highest {highest:.2}, the paper's {:.2}", highest + 0.1);
    assert!(near.hold() && near.to_text().contains(&said), "{}", near.to_text());
    assert!(near.to_text().contains("1 of 1 single values"), "{}", near.to_text());
    let far = of(highest - 0.3, 1);
    assert_eq!(far.records()[0].far, [HIGHEST]);
    assert!(far.hold() && far.to_text().contains("0 of 1 single values"), "{}", far.to_text());
    assert!(!of(highest - 0.3, 0).hold());
}

/// Programs, a workload that stands for one, and another.
const WITH_PROGRAMS: &str = "title = 't'\nsource = 's'\nmachine = 'hops17'\noperations = 10\n\
    tolerance = 9.0\nworkload_tolerance = 9.0\nmetric = 'throughput'\nprograms = 'hops17'\n\
    baseline = 'clwb:invalidating=true'\nworkloads = ['echo', 'vacation']\n\
    [[series]]\nname = 'ideal'\ndesign = 'volatile'\npaper = 2.0\n\
    workloads = { echo = 2.0, ycsb = 2.4, redis = 2.2, ctree = 1.3, hashmap = 1.4 }\n\
    [[series]]\nname = 'LB'\ndesign = 'lb'\n";

#[test]
fn programs_are_compared_in_place_of_the_workloads_that_stand_for_them_and_beside_the_others() {
    let text = WITH_PROGRAMS;
    let figures = run(vec![Figure::parse("small", text).unwrap()], false);
    let [ideal, lb] = figures.records() else { panic!("two series") };
    let file = programs::load("hops17").unwrap();
    let held = |name: &str| file.values(name, "volatile").into_iter().find(|value| value.held);
    let program = |name: &str| 1.0 / held(name).unwrap().value;
    let builds: Vec<f64> = file.values("ctree", "volatile").iter().map(|it| it.value).collect();
    assert!(builds.len() == 2 && builds[1] - builds[0] > 0.3, "the held build is last: {builds:?}");
    let [echo, vacation] = values(ideal)[..] else { panic!("two workloads") };
    assert!((echo - program("echo")).abs() > 1e-3, "a stand-in is not the program");
    let others: f64 = ["ycsb", "redis", "ctree", "hashmap"].map(program).iter().sum();
    let mean = (program("echo") + vacation + others) / 6.0;
    assert!(is_near(ideal.measured, mean), "{ideal:?}");
    assert!(is_near(ideal.stand_ins.unwrap(), (echo + vacation) / 2.0), "{ideal:?}");
    assert!(lb.stand_ins.is_none() && values(lb).len() == 2, "no program ran under LB");
    let stated = figures.published_values();
    let of_echo = stated[0].1.iter().find(|value| value.value == "ideal, echo").unwrap();
    assert!(is_near(of_echo.numbers.ours, program("echo")));
    assert_eq!(of_echo.stand_in, Some(echo));
    let told = figures.to_text();
    assert!(
        told.contains("programs themselves: ctree, echo, hashmap, redis, ycsb; with gcc"),
        "{told}"
    );
    assert!(told.contains("not run again"), "{told}");
    let stand_ins = told.lines().find(|line| line.starts_with("  stand-ins")).unwrap();
    assert!(stand_ins.contains(&format!("{echo:.2}")), "{told}");
    let refused = |text: &str| Figure::parse("small", text).unwrap_err().to_string();
    let unknown = refused(&text.replace("ycsb = 2.4", "ycsb = 2.4, p-hot = 2.2"));
    assert!(unknown.contains("'p-hot', which is none of its workloads"), "{unknown}");
    let unused = refused(&text.replace(", ycsb = 2.4", ""));
    assert!(unused.contains("'ycsb' of its programs is none of those"), "{unused}");
}

#[test]
fn a_retired_workload_does_not_run_where_its_program_has_but_with_varied() {
    let list = "baseline = 'clwb:invalidating=true'\n";
    let text = WITH_PROGRAMS.replace(list, &format!("{list}retired = ['echo']\n"));
    let figure = || Figure::parse("small", &text).unwrap();
    let of_echo = |is_varied: bool| {
        let points = points(&[figure()], is_varied).into_iter();
        let of_echo = points.filter(|point| point.workload == "echo");
        of_echo.map(|point| point.design.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_echo(false), ["clwb:invalidating=true", "lb"], "no program ran under LB");
    assert_eq!(of_echo(true), ["clwb:invalidating=true", "volatile", "lb"]);
    let run = |is_varied: bool| {
        let options = FigureOptions { is_varied, ..FigureOptions::default() };
        Figures::run(vec![figure()], &options, &Progress::hidden(), &Arc::default()).unwrap()
    };
    let (without, varied) = (run(false), run(true));
    let [ideal, lb] = without.records() else { panic!("two series") };
    let [beside, lb_beside] = varied.records() else { panic!("two series") };
    assert_eq!((ideal.measured, &ideal.programs), (beside.measured, &beside.programs));
    assert_eq!(ideal.workloads.keys().collect::<Vec<_>>(), ["vacation"]);
    assert_eq!(ideal.stalls_of.keys().collect::<Vec<_>>(), ["vacation"]);
    assert!(ideal.stand_ins.is_none() && beside.stand_ins.is_some());
    assert_eq!(lb, lb_beside);
    let text = without.to_text();
    assert!(
        text.contains("retired, as they are far from their programs: echo; --varied runs them")
    );
    assert!(!text.contains("stand-ins"), "{text}");
    let head = line(&text, "series", 0);
    assert_eq!(head[5..], ["echo", "vacation", "ctree", "hashmap", "redis", "ycsb"], "{text}");
    let echo = format!("{:.2}", ideal.programs["echo"].value);
    assert_eq!(line(&text, "ideal", 0)[5], echo, "{text}");
    assert_eq!(line(&text, "LB", 0)[5], format!("{:.2}", values(lb)[0]), "{text}");
    let values = &without.published_values()[0].1;
    assert!(values.iter().all(|value| value.stand_in.is_none()), "{values:?}");
    let drawn = without.plots().unwrap().remove(0).text;
    let first = |name: &str| drawn.find(&format!("\n{name}\n")).expect("a group of bars");
    assert!(first("echo") < first("vacation"), "in the order of the table");
    let text = varied.to_text();
    assert!(text.contains("  stand-ins") && !text.contains("runs them"), "{text}");
    assert!(text.contains("workloads more than 15 % from their programs: echo\n"), "{text}");
}

#[test]
fn retired_workloads_of_shipped_figures_run_where_nothing_was_recorded() {
    let count = |name: &str| {
        let figures = [Figure::load(name).unwrap()];
        [false, true].map(|is_varied| points(&figures, is_varied).len())
    };
    assert_eq!(count("asplos17-fig10"), [26, 42]);
    assert_eq!(count("hpca22-fig8"), [24, 32]);
    assert_eq!(count("pact20-4"), [115, 120]);
    assert_eq!(count("pact20-24"), [116, 120]);
}

/// Of the figures that come with seawall: how many means hold, in a full run with seed 1.
const MEANS_THAT_HOLD: [(&str, usize, usize); 8] = [
    ("pact20-4", 0, 1),
    ("pact20-24", 0, 1),
    ("micro15-fig11", 1, 3),
    ("micro15-fig12", 2, 4),
    ("micro15-flush", 0, 1),
    ("hops-fig2", 1, 2),
    ("asplos17-fig10", 3, 4),
    ("hpca22-fig8", 1, 3),
];

#[test]
fn the_figures_that_come_with_seawall_deviate_as_their_files_and_pages_say() {
    let of_designs = |figure: &Figure| matches!(figure, Figure::Designs(_));
    let figures: Vec<Figure> = Figure::known().into_iter().filter(of_designs).collect();
    let names: Vec<&str> = figures.iter().map(Figure::name).collect();
    assert_eq!(names, MEANS_THAT_HOLD.map(|(name, ..)| name));
    if std::env::var_os("SEAWALL_FIGURES").is_none() {
        return;
    }
    let figures = run(figures, false);
    for (name, held, all) in MEANS_THAT_HOLD {
        let records = || figures.records().iter().filter(|record| record.figure == name);
        let stated = || records().filter(|record| record.paper.is_some());
        let count = stated().filter(|record| record.holds).count();
        assert_eq!((count, stated().count()), (held, all), "{name}");
        let Figure::Designs(figure) = Figure::load(name).unwrap() else { panic!("{name}") };
        assert_eq!(far(&records().collect::<Vec<_>>()), figure.far, "{name}: far values");
    }
}
