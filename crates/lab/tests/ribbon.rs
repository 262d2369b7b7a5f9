//! Cells whose threads leave their flushes to flushers: they repeat themselves, lose nothing in a
//! crash, and a Ribbon or a structure that is broken on purpose is caught. Figures have them too.

use seawall_lab::{
    Cell, CompareOptions, Figure, FigureOptions, Figures, Flaw, LabError, Plan, Point, Progress,
    RequestOptions, run_cell,
};
use seawall_ribbon::{EarlyStores, Mode, RibbonFlaw, RibbonOptions, SAMPLE_EVERY};
use seawall_sim::{Machine, Reason};
use std::sync::Arc;

/// Two threads of a small structure and two flushers on four cores.
fn point(workload: &str) -> Point {
    point_under(workload, "clwb:adr=true")
}

fn point_under(workload: &str, design: &str) -> Point {
    let plan = Plan::new(&CompareOptions {
        workloads: vec![workload.into()],
        designs: vec![design.into()],
        machine: "desktop".into(),
        threads: Some(2),
        operations: 200,
        requests: RequestOptions { search_percent: Some(10), ..RequestOptions::on_entries(64) },
        crashes: 100,
        ..CompareOptions::default()
    });
    let [point] = &plan.unwrap().points[..] else { panic!("one point") };
    let early = EarlyStores::Hook;
    let ribbon = RibbonOptions { flushers: 2, mode: Mode::Always, early, ..Default::default() };
    Point { ribbon: Some(ribbon), ..point.clone() }
}

fn run(point: &Point) -> Result<Cell, LabError> {
    run_cell(&Machine::load("desktop").unwrap(), point, &Arc::default())
}

fn refusal(change: impl FnOnce(&mut Point)) -> String {
    let mut point = point("hash");
    change(&mut point);
    run(&point).unwrap_err().to_string()
}

#[test]
fn cells_with_flushers_repeat_exactly_and_survive_their_crashes() {
    for workload in ["kv", "redis", "level", "fastfair"] {
        let point = point(workload);
        let (first, again) = (run(&point).unwrap(), run(&point).unwrap());
        assert_eq!((first.cycles, first.ribbon), (again.cycles, again.ribbon), "{workload}");
        assert_eq!(first.throughput, again.throughput, "{workload}");
        assert_eq!((first.crashes, &first.broken[..]), (100, &[][..]), "{workload}");
        let counts = first.ribbon.unwrap();
        assert!(counts.by_flushers > 0, "{workload}: {counts:?}");
        assert_eq!(counts.depth, 0, "{workload}: {counts:?}");
        let plain = run(&Point { ribbon: None, ..point }).unwrap();
        assert_ne!(plain.cycles, first.cycles, "{workload}");
        assert_eq!(plain.ribbon, None);
        let stalled: u64 = Reason::ALL.iter().map(|reason| first.stalls.get(*reason)).sum();
        assert!(
            stalled < first.core_cycles(),
            "{workload}: stalls of flushers are not the threads'"
        );
    }
}

#[test]
fn cells_whose_stores_are_sampled_flush_all_lines_and_their_command_says_so() {
    for (every, name) in [(4, "samples:4"), (SAMPLE_EVERY, "samples")] {
        let mut point = point("redis");
        point.ribbon.as_mut().unwrap().early = EarlyStores::Samples { every };
        let (first, again) = (run(&point).unwrap(), run(&point).unwrap());
        assert_eq!((first.cycles, first.ribbon), (again.cycles, again.ribbon));
        assert_eq!((first.crashes, &first.broken[..]), (100, &[][..]));
        let counts = first.ribbon.unwrap();
        assert!(counts.cleaned > 0 && counts.skipped == 0, "{counts:?}");
        let command = first.command("desktop");
        assert!(command.ends_with(&format!(" --early={name}")), "{command}");
    }
}

#[test]
fn a_ribbon_that_is_broken_is_caught() {
    let flaws = [RibbonFlaw::DoneBeforeFence, RibbonFlaw::WaitsForClaims, RibbonFlaw::SkipsUndone];
    for flaw in flaws {
        let mut point = point_under("fastfair", "clwb");
        (point.operations, point.crashes) = (200, 300);
        point.ribbon.as_mut().unwrap().flaw = flaw;
        assert!(!run(&point).unwrap().broken.is_empty(), "{flaw:?}");
    }
}

#[test]
fn a_structure_that_does_not_flush_is_caught_with_flushers_too() {
    let mut point = point("fastfair");
    (point.operations, point.crashes, point.flaw) = (200, 300, Flaw::NoFlush);
    assert!(!run(&point).unwrap().broken.is_empty());
}

#[test]
fn ribbons_without_cores_or_flushes_are_refused() {
    let message = refusal(|point| point.ribbon.as_mut().unwrap().flushers = 3);
    let words = "2 threads and 3 flushers are more than the 4 cores of the machine";
    assert!(message.contains(words) && message.contains("core.count"), "{message}");
    let lb = Plan::new(&CompareOptions { designs: vec!["lb".into()], ..Default::default() });
    let design = lb.unwrap().points[0].design.clone();
    let message = refusal(|point| point.design = design);
    assert!(message.contains("programs for lb flush no lines"), "{message}");
    let message = refusal(|point| point.ribbon.as_mut().unwrap().chunk = 17);
    assert!(message.contains("chunk: 17") && message.contains("1 to 16"), "{message}");
}

#[test]
fn a_small_figure_with_ribbons_is_run_told_and_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    let ribbon = "ribbon = { flushers = 3, mode = 'always', early = 'hook' }";
    let text = format!(
        "title = 't'\nsource = 's'\nmachine = 'desktop'\nsettings = {{ 'core.count' = 6 }}\n\
         threads = 3\noperations = 60\nmetric = 'throughput'\nbaseline = 'clwb'\n\
         workloads = ['level', 'hash']\ntolerance = 9.0\n\
         [[series]]\nname = 'plain'\ndesign = 'clwb'\n\
         [[series]]\nname = 'with'\ndesign = 'clwb'\n{ribbon}\npaper = 1.0\n"
    );
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Figure::load_all(path.to_str().unwrap())
    };
    let run = |text: &str| {
        let options = FigureOptions::default();
        Figures::run(load(text).unwrap(), &options, &Progress::hidden(), &Arc::default())
    };
    let figures = run(&text).unwrap();
    assert_eq!(figures.records(), run(&text).unwrap().records());
    let [plain, with] = figures.records() else { panic!("a record for each series") };
    assert_eq!((plain.measured, plain.flushed.len()), (1.0, 0), "the baseline beside itself");
    assert!(with.measured != 1.0 && figures.hold(), "{with:?}");
    assert_eq!(with.machine, "desktop:core.count=6");
    assert!(with.flushed["level"].by_flushers > 0.0, "{with:?}");
    let told = figures.to_text();
    assert!(told.contains("  by flushers") && told.contains("core.count=6"), "{told}");
    let few = run(&text.replace("= 6", "= 5")).unwrap_err().to_string();
    assert!(few.contains("3 threads and 3 flushers"), "{few}");
    let wrong = load(&text.replace("'always'", "'sometimes'")).unwrap_err().to_string();
    assert!(wrong.contains("sometimes") && wrong.contains("always"), "{wrong}");
    let wrong = load(&text.replace("'hook'", "'samples:0'")).unwrap_err().to_string();
    assert!(wrong.contains("'samples:0'") && wrong.contains("hook, samples, "), "{wrong}");
    let key = run(&text.replace("core.count", "core.counts")).unwrap_err().to_string();
    assert!(key.contains("counts"), "{key}");
}

#[test]
fn the_first_part_of_several_names_is_the_name_of_a_group() {
    let names = |name: &str| -> Vec<String> {
        Figure::load_all(name).unwrap().iter().map(|figure| figure.name().to_owned()).collect()
    };
    let all = ["pact20-4", "pact20-24", "pact20-dirtiness", "pact20-coalescing"];
    assert_eq!(names("pact20"), all);
    assert_eq!(names("s0"), all, "the name of before");
    assert_eq!(names("s2-fig11"), ["micro15-fig11"], "its name of before");
    assert_eq!(names("pact20-4"), ["pact20-4"], "no group of its own");
    let unknown = Figure::load_all("s").unwrap_err().to_string();
    assert!(unknown.contains("no figure 's'") && unknown.contains("begin with"), "{unknown}");
}
