//! Small comparisons from end to end: they repeat themselves, and what is broken is caught.

use crate::is_long_run;
use seawall_lab::{Cell, CompareOptions, Comparison, Flaw, Plan, Progress, Report, RequestOptions};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn small(workloads: &[&str], designs: &[&str]) -> CompareOptions {
    CompareOptions {
        workloads: strings(workloads),
        designs: strings(designs),
        machine: "desktop".into(),
        operations: 60,
        requests: requests(64, 10),
        ..CompareOptions::default()
    }
}

fn requests(entries: u64, search_percent: u32) -> RequestOptions {
    let search_percent = Some(search_percent);
    RequestOptions { search_percent, ..RequestOptions::on_entries(entries) }
}

fn with_mix(mix: &str) -> RequestOptions {
    RequestOptions { mix: Some(mix.parse().unwrap()), ..RequestOptions::on_entries(64) }
}

fn run(options: &CompareOptions) -> Comparison {
    let plan = Plan::new(options).unwrap();
    Comparison::run(plan, &Progress::hidden(), &Arc::default()).unwrap()
}

fn json(comparison: &Comparison) -> String {
    serde_json::to_string(&comparison.records()).unwrap()
}

const DESIGNS: [&str; 5] = ["volatile", "strict", "clwb", "lb", "lbpp"];

#[test]
fn a_comparison_gives_the_same_records_again_whatever_the_number_of_jobs() {
    let options = small(&["hash", "queue"], &DESIGNS);
    let first = json(&run(&options));
    assert_eq!(first, json(&run(&CompareOptions { jobs: Some(1), ..options.clone() })));
    assert_ne!(first, json(&run(&CompareOptions { seed: 2, ..options })));
}

#[test]
fn with_cold_caches_there_is_no_warm_up_and_what_is_used_first_misses() {
    let warm = small(&["hash"], &["volatile", "lbpp"]);
    let cold = CompareOptions { cold: true, ..warm.clone() };
    let named = CompareOptions { machine: "desktop:cold=true".into(), ..warm.clone() };
    let (warm, cold, named) = (run(&warm), run(&cold), run(&named));
    assert_eq!(json(&cold), json(&named), "the records name the machine so");
    assert_eq!(cold.broken(), 0, "{}", cold.to_text());
    for (warm, cold) in warm.cells.iter().zip(&cold.cells) {
        let misses = |cell: &Cell| cell.counters.llc_misses;
        assert!(misses(cold) > misses(warm) + 64, "{} and {}", misses(cold), misses(warm));
    }
    assert!(cold.records().iter().all(|record| record.warmup == 0));
    assert!(warm.records().iter().all(|record| record.warmup > 0));
}

#[test]
fn every_structure_survives_every_crash_under_every_design() {
    let comparison = run(&small(&[], &[]));
    let text = comparison.to_text();
    assert_eq!(comparison.broken(), 0, "{text}");
    for cell in &comparison.cells {
        let expected = if cell.is_crashed() { 20 } else { 0 };
        assert_eq!(cell.crashes, expected, "{text}");
    }
    assert!(text.contains("none broke"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}

/// The indexes of Ribbon's evaluation with so few entries that they grow, split and join.
fn indexes(designs: &[&str]) -> CompareOptions {
    let options = small(&["level", "fastfair"], designs);
    CompareOptions { requests: requests(24, 0), crashes: 60, ..options }
}

#[test]
fn indexes_without_a_log_survive_every_crash_under_every_design() {
    let comparison = run(&indexes(&[]));
    assert_eq!(comparison.broken(), 0, "{}", comparison.to_text());
    assert!(comparison.to_text().contains("none broke"));
}

#[test]
fn indexes_without_their_order_or_flush_are_caught() {
    let cases = [(Flaw::NoFlush, "clwb"), (Flaw::NoOrder, "clwb"), (Flaw::NoOrder, "lbpp")];
    for (flaw, design) in cases {
        let (crashes, operations) = (1500, 300);
        let options = CompareOptions { flaw, crashes, operations, ..indexes(&[design]) };
        let comparison = run(&options);
        for cell in &comparison.cells {
            assert!(!cell.broken.is_empty(), "{flaw}: {}", comparison.to_text());
        }
    }
}

#[test]
fn mixes_survive_crashes_and_the_command_names_them() {
    for (workload, mix) in
        [("level", "ycsb-a"), ("fastfair", "ycsb-e"), ("hash", "ycsb-f"), ("redis", "ycsb-load")]
    {
        let requests = with_mix(mix);
        let options = CompareOptions { requests, ..small(&[workload], &["clwb", "hops"]) };
        let comparison = run(&options);
        assert_eq!(comparison.broken(), 0, "{}", comparison.to_text());
        let record = &comparison.records()[0];
        let name = record.mix.clone().unwrap();
        assert!(record.command.contains(&format!("--mix {name}")), "{}", record.command);
        assert!(!record.command.contains("--search"), "{}", record.command);
    }
    let refused = CompareOptions { requests: with_mix("ycsb-e"), ..small(&["level"], &["clwb"]) };
    let refused = Plan::new(&refused).unwrap_err().to_string();
    assert!(refused.contains("level cannot run the mix ycsb-e: it scans"), "{refused}");
}

#[test]
fn a_structure_without_its_order_is_caught_and_the_command_repeats_it() {
    let mut options = small(&["hash"], &["lbpp"]);
    options.flaw = Flaw::NoOrder;
    options.crashes = 200;
    let comparison = run(&options);
    assert!(comparison.broken() > 0, "{}", comparison.to_text());
    let record = &comparison.records()[0];
    assert!(record.command.contains("--flaw no-order"), "{}", record.command);
    assert!(record.command.contains("--crashes 200"), "{}", record.command);
    assert!(comparison.to_text().contains(&record.command));
    assert_eq!(json(&run(&options)), json(&comparison));
}

#[test]
fn a_design_that_loses_data_is_caught() {
    for design in ["clwb:flaw='fences-early'", "lbpp:flaw='acknowledges-early'"] {
        let mut options = small(&["hash", "sps", "queue"], &[design]);
        options.crashes = 200;
        let comparison = run(&options);
        assert!(comparison.broken() > 0, "{design}: {}", comparison.to_text());
    }
}

#[test]
fn shares_of_the_time_add_up() {
    for record in run(&small(&["rbtree"], &DESIGNS)).records() {
        let sum: f64 = record.stalls.values().filter_map(|share| share.as_f64()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{}: {sum}", record.design);
        assert!(record.stalls.contains_key("busy") && record.stalls.contains_key("fence"));
    }
}

#[test]
fn the_baseline_is_one_and_designs_without_epochs_have_no_conflicts() {
    let comparison = run(&small(&["hash"], &DESIGNS));
    for record in comparison.records() {
        assert_eq!(record.relative == Some(1.0), record.design == "lb", "{record:?}");
        let has_epochs = record.design.starts_with("lb");
        assert_eq!(record.conflicting_epochs.is_some(), has_epochs, "{record:?}");
    }
}

#[test]
fn a_stopped_comparison_keeps_what_is_done_and_says_so() {
    let plan = Plan::new(&small(&["hash"], &DESIGNS)).unwrap();
    let stop = Arc::new(AtomicBool::new(true));
    let comparison = Comparison::run(plan, &Progress::hidden(), &stop).unwrap();
    assert!(comparison.is_partial && comparison.cells.len() < DESIGNS.len());
    assert!(comparison.to_text().contains("PARTIAL"));
}

/// Epochs that are never split wait for each other in a circle (MICRO'15, Section 3.3).
#[test]
fn a_cell_that_is_stuck_is_named_with_its_command_beside_the_others() {
    const STUCK: &str = "lb:flaw='keeps-epochs-whole'";
    let of = |designs: &[&str]| CompareOptions {
        machine: "micro15".into(),
        threads: Some(4),
        operations: 100,
        crashes: 0,
        requests: RequestOptions::default(),
        ..small(&["btree"], designs)
    };
    let comparison = run(&of(&["clwb", STUCK]));
    assert!(comparison.is_partial && comparison.cells.len() == 1);
    let text = comparison.to_text();
    let named = format!("STUCK btree under {STUCK}: deadlock at cycle ");
    let command = format!("repeat: seawall compare --workloads btree --designs {STUCK} ");
    assert!(text.contains(&named) && text.contains(&command), "{text}");
    assert!(!text.contains("PARTIAL"), "{text}");
    let waits = |line: &&str| {
        line.starts_with("  core ")
            && line.contains(" waits ")
            && line.contains(", at crates/workloads/src/")
    };
    assert!(text.lines().any(|line| waits(&line)), "{text}");

    let plan = Plan::new(&of(&[STUCK])).unwrap();
    let error = Comparison::run(plan, &Progress::hidden(), &Arc::default()).unwrap_err();
    assert!(error.to_string().contains(&command), "{error}");
}

#[test]
fn rows_are_shown_workload_by_workload_and_are_the_beginning_of_the_text() {
    for jobs in [1, 2] {
        let options =
            CompareOptions { jobs: Some(jobs), ..small(&["sps", "hash", "queue"], &DESIGNS) };
        let progress = Progress::hidden().with_parts(None, |part| {
            // The rows of one workload and an empty line; the first has the heading, too.
            assert_eq!(part.matches("\n\n").count(), 1 + part.matches("vs lb  ").count());
            Ok(())
        });
        let plan = Plan::new(&options).unwrap();
        let comparison = Comparison::run(plan, &progress, &Arc::default()).unwrap();
        let (text, shown) = (comparison.to_text(), progress.shown());
        let rest = text.strip_prefix(&shown).expect("the text begins with what was shown");
        assert!(rest.starts_with("geo. mean"), "{rest}");
        assert!(shown.contains("\nqueue "), "{shown}");
    }
}

#[test]
fn a_plot_is_the_same_again_and_names_everything() {
    let comparison = run(&small(&["hash", "sps"], &DESIGNS));
    let draw = || comparison.plots().unwrap().remove(0).text;
    let svg = draw();
    assert_eq!(svg, draw());
    for name in DESIGNS.iter().chain(&["hash", "sps", "geo. mean", "intra-thread conflict"]) {
        assert!(svg.contains(name), "{name} is not in the plot");
    }
}

#[test]
fn no_crash_loses_what_moves_by_any_protocol() {
    let ways = ["espresso", "sfccd", "ffccd"].map(|way| way.parse().unwrap());
    let crashes = if is_long_run() { 40 } else { 16 };
    let options = CompareOptions {
        machine: "ffccd22".into(),
        threads: Some(2),
        requests: RequestOptions::on_entries(300),
        operations: 400,
        crashes,
        defragment: ways.to_vec(),
        ..small(&["c-ll", "c-fptree", "c-redis"], &["ffccd"])
    };
    let comparison = run(&options);
    let plan = Plan::new(&options).unwrap();
    let columns = ["ffccd", "ffccd+espresso", "ffccd+sfccd", "ffccd+ffccd"];
    assert_eq!(plan.designs(), columns);
    for cell in &comparison.cells {
        assert!(cell.broken.is_empty(), "{} {:?}", cell.point.label(), cell.broken);
        assert_eq!(cell.crashes, crashes, "{}", cell.point.label());
        let copied = cell.moving.map_or(0.0, |moving| moving.copy);
        assert_eq!(copied > 0.0, cell.point.defragment.is_some(), "{}", cell.point.label());
        let by_hardware = cell.point.label() == "ffccd+ffccd";
        assert_eq!(cell.counters.relocated_lines > 0, by_hardware, "{}", cell.point.label());
    }
    let refused = |workloads: &[&str], designs: &[&str], way: &str| {
        let defragment = vec![way.parse().unwrap()];
        let options = CompareOptions { defragment, ..small(workloads, designs) };
        Plan::new(&options).unwrap_err().to_string()
    };
    assert!(refused(&["hash"], &["clwb"], "sfccd").contains("of hash do not move; those of c-ll"));
    assert!(refused(&["c-ll"], &["clwb"], "ffccd").contains("name a design that has it, ffccd"));
    assert!("sfccd:1.5".parse::<seawall_lab::DefragOptions>().is_err());
}

#[test]
fn detail_is_in_records_where_it_is_asked_for_and_changes_nothing_else() {
    let plain = CompareOptions { threads: Some(3), ..small(&["hash"], &["clwb", "hops"]) };
    let with = run(&CompareOptions { detail: true, ..plain.clone() });
    let mut records = serde_json::to_value(with.records()).unwrap();
    let taken = records.as_array_mut().unwrap().iter_mut();
    let details: Vec<Value> = taken
        .map(|record| record.as_object_mut().unwrap().remove("detail").expect("it was asked for"))
        .collect();
    assert_eq!(records, serde_json::to_value(run(&plain).records()).unwrap());
    for (detail, cell) in details.iter().zip(&with.cells) {
        for latency in ["load_miss_cycles", "persist_cycles", "fence_cycles"] {
            let number = |name: &str| detail[latency][name].as_u64().unwrap();
            let all = ["count", "p50", "p90", "p99", "max"].map(number);
            assert!(all[1..].is_sorted() && all[0] > 0, "{latency}: {all:?}");
            assert!(detail[latency]["mean"].as_f64().unwrap() > 0.0);
        }
        assert_eq!(detail["drain_cycles"]["mean"], Value::Null, "the workload has none");
        let is_hops = cell.point.design.text == "hops";
        let buffers = detail["persist_buffers"].as_array().unwrap();
        assert_eq!(buffers.len(), if is_hops { 3 } else { 0 });
        assert!(!detail["write_queues"].as_array().unwrap().is_empty());
        let cores = detail["cores"].as_array().unwrap();
        assert_eq!(cores.len(), 3);
        for core in cores {
            let stalls = core["stall_cycles"].as_object().unwrap().values();
            let stalled: u64 = stalls.map(|cycles| cycles.as_u64().unwrap()).sum();
            assert_eq!(core["busy_cycles"].as_u64().unwrap() + stalled, cell.cycles);
            assert_eq!(core["flushes"].as_u64().unwrap() > 0, !is_hops);
            assert!(core["fences"].as_u64().unwrap() > 0);
        }
    }
}

#[test]
fn a_latency_of_memory_that_no_access_feels_is_named_unless_caches_are_cold() {
    let changed = |setting: &str, cold: bool| {
        let machine = format!("desktop:{setting}");
        run(&CompareOptions { machine, cold, ..small(&["sps"], &["clwb"]) }).to_text()
    };
    let found = changed("memory.nvm.read=600", false);
    assert!(found.contains("\nmemory.nvm.read can show little: "), "{found}");
    assert!(found.contains("--cold begins with empty ones\n"), "{found}");
    for text in [changed("memory.nvm.read=600", true), changed("memory.nvm.write=600", false)] {
        assert!(!text.contains("can show little"), "{text}");
    }
}
