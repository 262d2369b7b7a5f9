//! Figures as data: what is shipped can be run, and errors in a description are reported.

use super::*;

#[test]
fn every_figure_that_comes_with_seawall_is_read_and_has_its_name() {
    let figures = Figure::known();
    assert_eq!(figures.len(), FIGURES.len());
    for (figure, (name, _)) in figures.iter().zip(FIGURES) {
        assert_eq!(figure.name(), *name);
        assert!(!figure.about().0.is_empty() && !figure.about().1.is_empty());
    }
}

fn broken(number: usize, from: &str, to: &str) -> String {
    let text = FIGURES[number].1.replace(from, to);
    assert_ne!(text, FIGURES[number].1, "the test changes something");
    Figure::parse("test", &text).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_with_a_figure_is_said() {
    assert!(
        Figure::load("s2-fig1").unwrap_err().to_string().contains("micro15-fig11, micro15-fig12")
    );
    let bars = FIGURES.iter().position(|(name, _)| *name == "micro15-fig11").unwrap();
    assert!(broken(bars, "tolerance", "tolerances").contains("tolerances"));
    assert!(broken(bars, "baseline = \"lb\"", "").contains("baseline"));
    let applications = FIGURES.iter().position(|(name, _)| *name == "asplos17-fig10").unwrap();
    let message = broken(applications, "echo = 0.492", "ecko = 0.492");
    assert!(message.contains("'ecko'") && message.contains("'echo', 'ycsb'"), "{message}");
    assert!(message.contains("correct the name, or add it to workloads"), "{message}");
    let tolerance = "workload_tolerance = 0.15";
    assert!(broken(applications, tolerance, "").contains("far = 6 needs a workload_tolerance"));
    assert!(broken(applications, "far = 6", "far = 25").contains("state 24 values"));
    let kernels = FIGURES.iter().position(|(name, _)| *name == "micro15-fig14").unwrap();
    assert!(broken(kernels, "\"dedup\"]", "\"dedupe\"]").contains("'dedupe' is none of its"));
    assert!(broken(kernels, "named =", "kernels = [\"lu\", \"lu\"]\nnamed =").contains("lu"));
    assert!(broken(kernels, "name = \"LB++NOLOG\"", "name = \"LB\"").contains("LB is"));
    assert!(broken(kernels, "series = \"LB\"", "series = \"LP\"").contains("'LP' is none of"));
    let programs = "programs = \"micro15\"";
    assert!(broken(kernels, programs, "programs = \"micro16\"").contains("no programs 'micro16'"));
    let elsewhere = format!("extent = \"parallel\"\n{programs}");
    assert!(broken(kernels, programs, &elsewhere).contains("its programs ran on another machine"));
    let lists = [(kernels, ["barnes", "freqmine"]), (applications, ["echo", "vacation"])];
    for (figure, [first, alone]) in lists {
        let list = format!("retired = [\"{first}\", ");
        let named = |name: &str| broken(figure, &list, &format!("{list}\"{name}\", "));
        assert!(named("lvl").contains("'lvl', which is none of its stand-ins"));
        assert!(named(alone).contains(&format!("'{alone}', but no program of that name is")));
        assert!(named(first).contains(&format!("{first} is")), "{}", named(first));
    }
    assert!(broken(kernels, programs, "").contains("'barnes', but no program"));
    let sweep = FIGURES.iter().position(|(name, _)| *name == "memsys17-slide18").unwrap();
    assert!(broken(sweep, "\"logging\"", "\"loging\"").contains("loging"));
    assert!(broken(sweep, "\"rbtree\"", "\"btree\"").contains("no structure 'btree'"));
    assert!(broken(sweep, "[4, 8,", "[4, 9,").contains("multiples of 4"));
    assert!(broken(sweep, "8388608", "1").contains("total_bytes = 1"));
    assert!(broken(sweep, "value_bytes = 8\n", "value_bytes = 12\n").contains("12 bytes are run"));
    assert!(broken(sweep, "tolerance = 0.02\n", "").contains("needs a tolerance, or not_held"));
}

#[test]
fn a_small_logging_figure_is_run_told_drawn_and_the_same_again() {
    let text = FIGURES.iter().find(|(name, _)| *name == "memsys17-slide18").unwrap().1;
    let text = text.replace("8388608", "8192").replace("32, 64, 128, 256", "32, 64");
    let parts = text.split("\n[[paper]]").filter(|part| {
        !part.contains("value_bytes = 128\n") && !part.contains("value_bytes = 256\n")
    });
    let text = parts.collect::<Vec<_>>().join("\n[[paper]]");
    let run = || {
        let figure = Figure::parse("small", &text).unwrap();
        let options = FigureOptions { is_quick: true, ..FigureOptions::default() };
        Figures::run(vec![figure], &options, &Progress::hidden(), &Arc::default()).unwrap()
    };
    let figures = run();
    let records = figures.logging_records();
    assert_eq!(records.len(), 4 * 5 * 6);
    let cycles = |records: &[LoggingRecord]| -> Vec<(u64, u64, u64)> {
        records.iter().map(|r| (r.cycles, r.partial_lines, r.llc_misses)).collect()
    };
    assert_eq!(cycles(records), cycles(run().logging_records()), "what is simulated");
    for record in records {
        assert_eq!(record.log_is_durable, record.log != "cached-unflushed");
        assert!(record.host_nanoseconds > 0.0);
        if record.log == "uncached" && record.value_bytes == 4 {
            assert_eq!(record.partial_lines, record.records, "a fence for every 8 bytes");
        }
    }
    let text = figures.to_text();
    let said = ["not flushed", "adaptive/better", "speedup", "this host", "axis", "of 2 hold"];
    for words in said.into_iter().chain(["3 not reproducible from what is public"]) {
        assert!(text.contains(words), "{words}: {text}");
    }
    let plots = figures.plots().unwrap();
    assert_eq!(plots.len(), 4 * 3);
    let plot = plots.iter().find(|plot| plot.file == "small-array-cycles.svg").unwrap();
    assert!(plot.text.contains("cached-unflushed (not durable)"));
}

#[test]
fn kernels_with_checkpoints_are_in_a_figure_of_designs_with_a_ribbon_too() {
    for is_quick in [true, false] {
        let figure = Figure::parse("small", OF_DESIGNS).unwrap();
        let options = FigureOptions { is_quick, ..FigureOptions::default() };
        let run = Figures::run(vec![figure], &options, &Progress::hidden(), &Arc::default());
        let figures = run.unwrap();
        assert!(drawn(&figures).contains("radix-checkpoint"));
        let [with, volatile] = figures.records() else { panic!("two series") };
        let mut names: Vec<&str> = with.workloads.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["lu-checkpoint", "queue", "radix-checkpoint"]);
        for kernel in ["lu-checkpoint", "radix-checkpoint"] {
            assert!(with.flushed[kernel].by_flushers > 0.0, "{:?}", with.flushed);
            let gain = volatile.workloads[kernel].as_f64().unwrap();
            assert!(gain > 1.0, "{kernel} without flushes: {gain}");
        }
    }
    let unknown = Figure::parse("small", &OF_DESIGNS.replace("lu-checkpoint", "lu")).unwrap();
    let options = FigureOptions::default();
    let refused = Figures::run(vec![unknown], &options, &Progress::hidden(), &Arc::default());
    assert!(refused.unwrap_err().to_string().contains("no kernel with checkpoints 'lu': lu-c"));
}

#[test]
fn a_small_figure_of_dirtiness_is_counted_told_and_the_same_again() {
    let text = FIGURES.iter().find(|(name, _)| *name == "pact20-dirtiness").unwrap().1;
    let text = text.replace("20000", "500").replace("16384", "1024").replace("8192", "256");
    let text = text.replace("2000,", "100,");
    let run = || {
        let figure = Figure::parse("small", &text).unwrap();
        let options = FigureOptions::default();
        Figures::run(vec![figure], &options, &Progress::hidden(), &Arc::default()).unwrap()
    };
    let figures = run();
    let records = figures.dirtiness_records();
    assert_eq!(records, run().dirtiness_records());
    assert_eq!(records.len(), 8);
    for record in records {
        let flushes = record.mix.as_deref() != Some("ycsb-c");
        assert_eq!(record.counts.lines > 0, flushes, "{record:?}");
        let operations = if record.workload == "redis-tpcc" { 100 } else { 500 };
        assert_eq!(record.operations, operations, "its own number, or that of all");
    }
    let text = figures.to_text();
    assert!(
        text.contains("redis-ycsb, ycsb-load") && text.contains("the paper's is 47.0 %"),
        "{text}"
    );
    assert!(drawn(&figures).contains("published mean"));
    let refused = |from: &str, to: &str| {
        let text = FIGURES.iter().find(|(name, _)| *name == "pact20-dirtiness").unwrap().1;
        Figure::parse("test", &text.replace(from, to)).unwrap_err().to_string()
    };
    let scans = "\"redis-ycsb\", mix = \"ycsb-e\"";
    let by_hash = refused(scans, &scans.replace("redis-ycsb", "hash"));
    assert!(by_hash.contains("hash cannot run the mix ycsb-e"), "{by_hash}");
    assert!(refused("ycsb-load", "ycsb-x").contains("unknown mix `ycsb-x`"));
    assert!(refused("ycsb-load", "ycsb-a").contains("redis-ycsb is there twice"));
    assert!(refused("redis-tpcc", "tpcx").contains("`tpcx`"));
}

#[test]
fn a_small_figure_of_coalescing_is_run_and_told() {
    let text = FIGURES.iter().find(|(name, _)| *name == "pact20-coalescing").unwrap().1;
    let text = text.replace("8000", "300").replace("2000", "100").replace("1600", "20");
    let figure = Figure::parse("small", &text).unwrap();
    let options = FigureOptions::default();
    let run = Figures::run(vec![figure], &options, &Progress::hidden(), &Arc::default());
    let figures = run.unwrap();
    let records = figures.coalescing_records();
    assert_eq!(records.len(), 5 * 3 * 3, "runs, operations, placings");
    let each = |placed: &str| {
        let is = |record: &&CoalescingRecord| {
            record.run == "1 thread, each operation" && record.placed == placed
        };
        let of = |record: &CoalescingRecord| (record.lines, record.dirtiness, record.gain);
        of(records.iter().filter(is).find(|record| record.operation == "insert").unwrap())
    };
    let (packed, together) = (each("packed"), each("together"));
    assert!(together.0 < packed.0 && together.1 > packed.1, "{packed:?} {together:?}");
    assert_eq!(packed.2, 0.0);
    let text = figures.to_text();
    assert!(text.contains("the paper's 13.8 %") && text.contains("of 2 hold"), "{text}");
    let of_held = |record: &&CoalescingRecord| record.retires_each && record.placed == "together";
    let gains: Vec<f64> = records.iter().filter(of_held).map(|record| record.gain).collect();
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    assert!(text.contains(&format!("mean {mean:+.1} %")), "of the held runs only: {text}");
    assert!(drawn(&figures).contains("24 threads, each operation"));
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}

/// A figure that comes with seawall, with its kernels alone.
fn without_programs(name: &str) -> String {
    let text = FIGURES.iter().find(|(known, _)| *known == name).unwrap().1;
    let is_of_them = |line: &&str| line.starts_with("programs =") || line.starts_with("retired =");
    text.lines().filter(|line| !is_of_them(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_small_figure_of_kernels_is_run_told_and_the_same_again() {
    let text = without_programs("micro15-fig14");
    let named = "named = [\"ssca2\", \"vacation\", \"intruder\", \"canneal\", \"dedup\"]";
    let text = text
        .replace(named, "kernels = [\"lu\", \"radix\"]\nnamed = [\"lu\"]")
        .replace("micro15", "desktop")
        .replace("stated = {", "# stated = {")
        .replace("10000", "100")
        .replace("paper = 1.16", "paper = 1.16\nthreads = 2\nby = \"TSOPER\"");
    let run = || {
        let figure = Figure::parse("small", &text).unwrap();
        let options = FigureOptions { is_quick: true, ..FigureOptions::default() };
        Figures::run(vec![figure], &options, &Progress::hidden(), &Arc::default()).unwrap()
    };
    let figures = run();
    let records = figures.kernel_records();
    assert_eq!(records.len(), 4 * 5 + 1, "two kernels, three means a series, and the conflicts");
    assert_eq!(records, run().kernel_records());
    for record in records.iter().filter(|record| record.run.is_some()) {
        assert!(record.run.as_ref().unwrap().is_right && record.measured > 0.9, "{record:?}");
    }
    let text = figures.to_text();
    for words in ["mean of the named", "parallel part", "channels busy", "published by TSOPER"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn figures_of_kernels_are_checked_before_they_run_and_come_in_their_order() {
    let figure = |name: &str, machine: &str, threads: usize| {
        let series = |name: &str, threads: usize| {
            format!(
                "[[series]]\nname = '{name}'\ndesign = 'bsp-lb:stores=100'\n\
                 threads = {threads}\npaper = 1.0\n"
            )
        };
        let text = format!(
            "kind = 'kernels'\ntitle = 't'\nsource = 's'\nmachine = '{machine}'\nnote = 'n'\n\
             baseline = 'volatile'\nkernels = ['lu']\nnamed = []\ntolerance = 9.0\n{}{}",
            series("one", 1),
            series("more", threads)
        );
        Figure::parse(name, &text).unwrap()
    };
    let run = |figures: Vec<Figure>| {
        let options = FigureOptions { is_quick: true, ..FigureOptions::default() };
        Figures::run(figures, &options, &Progress::hidden(), &Arc::default())
    };
    for threads in [0, 5] {
        let error = run(vec![figure("bad", "desktop", threads)]).unwrap_err().to_string();
        assert!(error.contains("series more") && error.contains("bad"), "{error}");
        assert!(!error.contains("--threads"), "{error}");
    }
    let figures = run(vec![figure("a", "micro15", 2), figure("b", "desktop", 2)]).unwrap();
    let mut names: Vec<&str> = figures.kernel_records().iter().map(|r| &*r.figure).collect();
    names.dedup();
    assert_eq!(names, ["a", "b"], "not in the order of the machines");
    let text = figures.to_text();
    assert!(!text.contains("mean of the named"), "{text}");
    assert!(text.contains("order of the means"), "{text}");
    let records = figures.kernel_records().iter();
    let part: Vec<_> = records.filter(|r| r.figure == "a" && r.series == "one").collect();
    let Figure::Kernels(figure) = &figures.figures[0] else { panic!("a figure of kernels") };
    assert!(!figure.to_text(&part).contains("order"), "a series is missing");
}

/// The one plot of the one figure.
fn drawn(figures: &Figures) -> String {
    let plots = figures.plots().unwrap();
    assert_eq!(plots.len(), 1, "a plot for a figure");
    plots[0].text.clone()
}

fn small_of(name: &str, entries: (&str, &str), program: &str) -> Figures {
    let figure = small_figure(name, entries, program);
    let options = FigureOptions::default();
    Figures::run(vec![figure], &options, &Progress::hidden(), &Arc::default()).unwrap()
}

fn small_figure(name: &str, entries: (&str, &str), program: &str) -> Figure {
    let text = FIGURES.iter().find(|(known, _)| *known == name).unwrap().1;
    assert!(text.contains(entries.0), "{name} has another number of entries");
    let text = text.replace(entries.0, entries.1);
    let mut figure = Figure::parse(&format!("small {name}"), &text).unwrap();
    match &mut figure {
        Figure::Fragmentation(figure) => figure.programs.retain(|one| one.name == program),
        Figure::Moving(figure) => figure.programs.retain(|one| one.name == program),
        _ => panic!("another kind"),
    }
    figure
}

/// A figure of designs, one of them with a Ribbon.
const OF_DESIGNS: &str = "title = 't'\nsource = 's'\nmachine = 'desktop'\nthreads = 2\n\
    operations = 200\nmetric = 'throughput'\nbaseline = 'clwb'\ntolerance = 9.0\n\
    workloads = ['queue']\nkernels = { lu-checkpoint = 40, radix-checkpoint = 600 }\n\
    [[series]]\nname = 'r'\ndesign = 'clwb'\nribbon = { flushers = 1, mode = 'always' }\n\
    [[series]]\nname = 'v'\ndesign = 'volatile'\n";

#[test]
fn what_is_kept_is_not_run_again_and_comes_out_the_same() {
    let shipped = |name: &str| FIGURES.iter().find(|(known, _)| *known == name).unwrap().1;
    let kernels = without_programs("micro15-fig14");
    let kernels = kernels.replace("micro15\"", "desktop\"");
    let kernels = kernels.replace("\"ssca2\", \"vacation\", \"intruder\", \"canneal\", ", "");
    let kernels = kernels.replace("named =", "kernels = [\"dedup\", \"lu\"]\nnamed =");
    let kernels = kernels.replace("stated = {", "# stated = {");
    let dirty = shipped("pact20-dirtiness").replace("20000", "500").replace("16384", "1024");
    let dirty = dirty.replace("8192", "256").replace("2000,", "100,");
    let placed = shipped("pact20-coalescing").replace("8000", "300").replace("2000", "100");
    let placed = placed.replace("1600", "20");
    let figures = || {
        let text = [OF_DESIGNS, &kernels, &dirty, &placed];
        let texts = text.iter().enumerate().map(|(at, text)| (format!("figure {at}"), text));
        let mut figures: Vec<Figure> =
            texts.map(|(name, text)| Figure::parse(&name, text).unwrap()).collect();
        figures.push(small_figure(
            "isca22-table3",
            ("entries = 156_250", "entries = 4_000"),
            "AVL",
        ));
        figures.push(small_figure("isca22-fig14", ("entries = 50_000", "entries = 300"), "SS"));
        figures
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    let run = |keep: Option<&PathBuf>| {
        let options =
            FigureOptions { is_quick: true, keep: keep.cloned(), ..FigureOptions::default() };
        Figures::run(figures(), &options, &Progress::hidden(), &Arc::default()).unwrap()
    };
    let first = run(Some(&path));
    assert_eq!(first.taken(), Some(0));
    let kept = std::fs::read_to_string(&path).unwrap();
    let again = run(Some(&path));
    assert_eq!(again.taken(), Some(kept.lines().count() - 1), "all of them");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), kept, "nothing is run");
    let same = |other: &Figures| {
        assert_eq!(first.lines(), other.lines());
        assert_eq!(first.to_text(), other.to_text());
    };
    same(&again);
    std::fs::write(&path, &kept.as_bytes()[..kept.len() / 2]).unwrap();
    let half = run(Some(&path));
    assert!(half.taken().is_some_and(|taken| taken > 0 && taken < kept.lines().count() / 2 + 9));
    same(&half);
    same(&run(None));
}

#[test]
fn other_readings_and_our_own_forms_run_with_varied_alone() {
    let plan = |is_varied: bool| {
        let figures = vec!["isca22-fig15".to_owned(), "isca22-table3".to_owned()];
        let plan = FigureOptions { figures, is_varied, ..FigureOptions::default() }.plan().unwrap();
        let [Figure::Moving(bars), Figure::Fragmentation(table)] = &plan.figures[..] else {
            panic!("of other kinds")
        };
        let stated = table.programs.iter().map(|program| program.paper.len());
        assert!(stated.eq(table.programs.iter().map(|_| table.ways.len())));
        let series = bars.series.iter().map(|series| series.name.clone());
        series.chain(table.ways.iter().map(|way| way.name.clone())).collect::<Vec<_>>()
    };
    let held = ["espresso", "sfccd", "ffccd", "ffccd+checklookup", "normal", "relaxed"];
    assert_eq!(plan(false), held);
    assert_eq!(plan(true).len(), 14 + 4);
}

#[test]
fn a_small_figure_of_fragmentation_is_run_told_and_the_same_again() {
    let run = || small_of("isca22-table3", ("entries = 156_250", "entries = 10_000"), "AVL");
    let figures = run();
    let [record] = figures.fragmentation_records() else { panic!("one program") };
    assert_eq!(figures.fragmentation_records(), run().fragmentation_records());
    assert!(record.live < record.footprints[0] && record.footprints[0] < record.plain);
    assert!(record.reduction(0) > 20.0, "{record:?}");
    let text = figures.to_text();
    assert!(text.contains("the paper's is 42.7 %"), "{text}");
    assert!(text.contains("normal, later (from 1.5 to 1.25)") && text.contains("is not held"));
    // Later checks leave pages longer.
    assert!(record.footprints[2] > record.footprints[0], "{record:?}");
    assert!(drawn(&figures).contains("AVL"));
    let text = FIGURES.iter().find(|(known, _)| *known == "isca22-table3").unwrap().1;
    let refused = |from: &str, to: &str| {
        Figure::parse("test", &text.replace(from, to)).unwrap_err().to_string()
    };
    assert!(refused("c-avl", "hash").contains("the objects of hash do not move"));
    assert!(
        refused("[43.0, 24.9, 43.0, 24.9]", "[43.0]").contains("AVL: give a value for each way")
    );
    assert!(
        refused("sfccd-published:1.7:1.5", "sfccd-published:1.5:1.7")
            .contains("the trigger must be")
    );
}

#[test]
fn a_small_figure_of_moving_is_run_told_and_the_same_again() {
    let run = || small_of("isca22-fig14", ("entries = 50_000", "entries = 600"), "SS");
    let figures = run();
    let records = figures.moving_records();
    assert_eq!(records, run().moving_records());
    let copies: Vec<f64> = records.iter().map(|record| record.moving.copy).collect();
    assert!(copies[0] > copies[1] && copies[1] > copies[2], "fewer fences: {copies:?}");
    assert!(records.iter().all(|record| record.time > 1.0), "{records:?}");
    assert!(records[3].command.contains("--defragment ffccd-published"), "{}", records[3].command);
    let text = figures.to_text();
    assert!(text.contains("ffccd+checklookup") && text.contains("(1.022)"), "{text}");
    assert!(drawn(&figures).contains("ffccd+checklookup"));
    assert!(records[3].command.contains("--cost libpmemobj"), "{}", records[3].command);
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    // A fence to the cells costs more, beside its own run without defragmentation.
    let of = |name: &str| records.iter().find(|record| record.series == name).unwrap();
    let (queue, cells) = (of("espresso"), of("espresso, to cells"));
    assert!(cells.moving.copy > 2.0 * queue.moving.copy, "{queue:?}, {cells:?}");
    assert!(cells.command.contains("ffccd:adr=false"), "{}", cells.command);
    let later = of("espresso, later");
    assert!(later.command.contains("espresso-published:1.5:1.25:120"), "{}", later.command);
    assert!(later.moving.look_up > queue.moving.look_up, "{queue:?}, {later:?}");
    assert!(text.contains("4 single times hold"), "{text}");
    // The slides have means alone: single times would be counted twice.
    let means = small_of("ffccd-time", ("entries = 50_000", "entries = 600"), "SS").to_text();
    assert!(means.contains("mean times") && !means.contains("single times"), "{means}");
    let text = FIGURES.iter().find(|(known, _)| *known == "isca22-fig14").unwrap().1;
    let refused = |from: &str, to: &str| {
        Figure::parse("test", &text.replace(from, to)).unwrap_err().to_string()
    };
    assert!(refused("\"ffccd22\"", "\"ffccd23\"").contains("ffccd23"));
    assert!(refused("options = \"espresso\"", "options = \"expresso\"").contains("expresso"));
}
