//! Programs whose threads leave their flushes to flushers (PACT'20), on simulated machines.

use super::{Place, without_gcc};
use seawall_program::{
    FILES, Fences, From, Judge, Limit, Persistent, Ran, Request, Run, Start, make_files,
};
use seawall_ribbon::{EarlyStores, Mode, RibbonFlaw, RibbonOptions};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

const CLFLUSH: &str = "clwb:invalidating=true:serial=true:adr=true";

/// The records of a run of a program under a design, without a Ribbon and with it.
fn compare(
    place: &Place,
    flush: &str,
    (program, design): (&str, &str),
    more: &[&str],
) -> [Value; 2] {
    let check = format!("{} check {{pool}}", program.split(' ').next().unwrap());
    let words = ["compare", "--program", program, "--check", &check];
    let mut command = place.seawall();
    command.args(words).args(["--designs", design, "--machine", "optane24", "--no-native"]);
    let output = command.args(["--json", "records"]).args(more).env("PM_FLUSH", flush).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let records = fs::read_to_string(place.folder.path().join("records")).unwrap();
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.try_into().expect("two records")
}

#[test]
fn flushes_before_a_fence_are_faster_with_flushers_and_no_crash_loses_one() {
    if without_gcc("flushes_before_a_fence_are_faster_with_flushers_and_no_crash_loses_one") {
        return;
    }
    let place = Place::new();
    place.compile("batches.c");
    let run = || {
        let more = ["--ribbon=always", "--flushers", "8", "--crashes", "60"];
        compare(&place, "clflush", ("./batches run {pool} 1 60", CLFLUSH), &more)
    };
    let [plain, with] = run();
    assert_eq!(with["design"], format!("{CLFLUSH}+ribbon"));
    let (before, after) = (plain["cycles"].as_f64().unwrap(), with["cycles"].as_f64().unwrap());
    assert!(after < 0.7 * before, "{after} cycles with flushers, {before} without");
    assert!(with["flushed"]["by_flushers"].as_f64().unwrap() > 50.0, "{}", with["flushed"]);
    assert_eq!((&with["crashes"], &with["broken"]), (&Value::from(61), &Value::from(0)));
    assert_eq!((plain.get("ribbon"), plain.get("flushed")), (None, None));
    assert_eq!(run(), [plain, with], "the same again");
}

#[test]
fn every_instruction_and_way_of_early_cleaning_keeps_what_was_fenced() {
    if without_gcc("every_instruction_and_way_of_early_cleaning_keeps_what_was_fenced") {
        return;
    }
    let place = Place::new();
    place.compile("batches.c");
    let of = |with: &Value, count: &str| with["flushed"][count].as_f64().unwrap();
    for flush in ["clwb", "clflushopt", "clflush"] {
        let program = ("./batches run {pool} 3 20", "clwb:adr=true");
        let ran = |more: &[&str]| {
            let [_, with] = compare(&place, flush, program, &[more, &["--crashes", "40"]].concat());
            assert_eq!((&with["crashes"], &with["broken"]), (&Value::from(41), &Value::from(0)));
            with
        };
        let hook = ran(&["--ribbon=never", "--flushers", "2", "--early=hook"]);
        assert!(of(&hook, "skipped") > 5.0 && of(&hook, "by_flushers") == 0.0, "{hook}");
        let samples = ran(&["--ribbon=always", "--flushers", "2", "--early=samples:16"]);
        assert!(of(&samples, "by_flushers") > 5.0 && of(&samples, "cleaned") > 2.0, "{samples}");
        ran(&["--ribbon", "--early"]);
    }
}

#[test]
fn threads_that_sleep_for_a_mutex_stay_in_the_ribbon_and_lose_nothing() {
    if without_gcc("threads_that_sleep_for_a_mutex_stay_in_the_ribbon_and_lose_nothing") {
        return;
    }
    let place = Place::new();
    place.compile("queue.c");
    let more = ["--ribbon=always", "--flushers", "2", "--crashes", "40"];
    let program = ("./queue run {pool} 4 60", "clwb:adr=true");
    let [plain, with] = compare(&place, "clwb", program, &more);
    assert!(plain["stalls"]["lock"].as_f64().unwrap() > 0.1, "nobody waits: {}", plain["stalls"]);
    assert!(with["flushed"]["by_flushers"].as_f64().unwrap() > 0.0, "{}", with["flushed"]);
    assert_eq!((&with["crashes"], &with["broken"]), (&Value::from(41), &Value::from(0)));
}

/// A run of `batches` that is crashed, with a Ribbon that has this bug.
fn crashed(place: &Place, options: RibbonOptions) -> Ran {
    let at = |name: &str| place.folder.path().join(name);
    let folder = at("crashed");
    fs::create_dir_all(&folder).unwrap();
    let embedded = seawall_cc::embedded(&at("batches")).unwrap();
    let image = embedded.write(&folder).unwrap();
    let text = |path: PathBuf| path.display().to_string();
    let pool = text(make_files(&folder.join(FILES)).unwrap());
    let words = ["batches", "run", &pool, "3", "40"].map(str::to_owned).to_vec();
    let check = [&text(at("batches")), "check", "{pool}"].map(str::to_owned).to_vec();
    let request = Request {
        start: Start { image, entry: None, words },
        machine: "optane24".into(),
        design: "clwb:adr=true".into(),
        ribbon: Some(options),
        persistent: Persistent::Files,
        fences: Fences::Order,
        from: From::Start,
        crashes: (1..200).map(|n| (37 * n, 50)).collect(),
        judge: Judge::Check { command: check, seconds: 60 },
        folder,
        cycles_max: u64::MAX,
        has_profile: false,
        has_detail: false,
        timeline: None,
    };
    let server = vec![env!("CARGO_BIN_EXE_seawall").into(), "program-process".into()];
    let run = Run { request, server, input: None, seconds: 120 };
    seawall_program::run(&run, &Limit::new(&Arc::default())).unwrap()
}

#[test]
fn a_fence_that_does_not_wait_for_the_flushers_is_caught() {
    if without_gcc("a_fence_that_does_not_wait_for_the_flushers_is_caught") {
        return;
    }
    let place = Place::new();
    place.compile("batches.c");
    for (flushers, early, flaw) in [
        (4, EarlyStores::None, RibbonFlaw::WaitsForClaims),
        (4, EarlyStores::None, RibbonFlaw::LockedWaitsForNothing),
        (1, EarlyStores::Hook, RibbonFlaw::SkipsUndone),
    ] {
        let with = |flaw| {
            let mode = Mode::Always;
            crashed(&place, RibbonOptions { flushers, mode, early, flaw, ..Default::default() })
        };
        let sound = with(RibbonFlaw::None);
        assert_eq!((sound.crashes, &sound.broken[..]), (200, &[][..]));
        assert!(sound.ribbon.unwrap().by_flushers > 0, "{:?}", sound.ribbon);
        let broken = with(flaw).broken;
        let is_lost = broken.iter().any(|broken| broken.what.contains("are done"));
        assert!(is_lost, "{flaw:?}: {broken:?}");
    }
}

#[test]
fn ribbons_that_cannot_be_are_refused_with_the_remedy() {
    if without_gcc("ribbons_that_cannot_be_are_refused_with_the_remedy") {
        return;
    }
    let place = Place::new();
    place.compile("batches.c");
    let program = ["--program", "./batches run {pool} 1 2"];
    let said =
        |command: &str, more: &[&str]| place.run(2, &[&[command], &program[..], more].concat());
    let none = said("compare", &["--designs", "lb,hops", "--ribbon"]);
    assert!(none.contains("lb, hops flush no lines") && none.contains("take clwb"), "{none}");
    let many = said("compare", &["--designs", "clwb", "--ribbon", "--flushers", "32"]);
    assert!(many.contains("32 flushers") && many.contains("core.count"), "{many}");
    let early = said("compare", &["--designs", "clwb", "--ribbon", "--early", "--flushers", "0"]);
    assert!(early.contains("flushers") && early.contains("1 at least"), "{early}");
    let explored = said("explore", &["--check", "true", "--ribbon"]);
    assert!(explored.contains("--ribbon is an option of: seawall compare"), "{explored}");
    let threads = ["compare", "--program", "./batches run {pool} 9 2", "--no-native"];
    let ribbon = ["--designs", "clwb", "--machine", "desktop", "--ribbon", "--flushers", "2"];
    let threads = place.run(2, &[&threads[..], &ribbon].concat());
    assert!(threads.contains("more threads at a time than the machine has cores"), "{threads}");
}

/// A figure like those of the paper, and small.
const FIGURE: &str = "title = 't'\nsource = 's'\nmachine = 'optane24'\nthreads = 2\n\
    operations = 20\nmetric = 'throughput'\nbaseline = 'clwb:adr=true'\ntolerance = 9.0\n\
    programs = 'pact20-4'\nworkloads = ['kv', 'redis-ycsb', 'level', 'fastfair']\n\
    [[series]]\nname = 'with'\ndesign = 'clwb:adr=true'\n\
    designs.level = 'clwb:invalidating=true:serial=true:adr=true'\n\
    designs.fastfair = 'clwb:invalidating=true:serial=true:adr=true'\n\
    ribbon = { flushers = 4, mode = 'always', early = 'samples' }\npaper = 1.0\n";

/// Compiles `silent.c` under this name.
fn silent(place: &Place, name: &str, more: &[&str]) {
    let words = ["cc", "-O2", "-pthread", "-o", name];
    let source = super::source("silent.c");
    let done = place.seawall().args(words).args(more).arg(source).status().unwrap();
    assert!(done.success());
}

#[test]
fn figures_run_programs_again_with_their_ribbons_and_say_when_no_flush_of_one_is_seen() {
    let name = "figures_run_programs_again_with_their_ribbons_and_say_when_no_flush_of_one_is_seen";
    if without_gcc(name) {
        return;
    }
    let place = Place::new();
    fs::write(place.folder.path().join("small.toml"), FIGURE).unwrap();
    let run = |flags: &[&str]| {
        silent(&place, "fast-fair", flags);
        let words = ["reproduce", "small.toml", "--programs", ".", "--json", "record"];
        let text = place.run(0, &words);
        let record = fs::read_to_string(place.folder.path().join("record")).unwrap();
        (text, serde_json::from_str::<Value>(&record).unwrap())
    };
    let (text, record) = run(&[]);
    let warning = "WARNING: fastfair: no flush and no fence was seen, though 4";
    assert!(text.contains(warning), "{text}");
    let of = |name: &str| &record["programs"][name];
    assert_eq!((&of("fastfair")["again"], &of("level")["again"]), (&true.into(), &false.into()));
    assert!(of("level")["value"].as_f64().unwrap() != of("kv")["value"].as_f64().unwrap());
    let (text, record) = run(&["-DASKS"]);
    assert!(!text.contains("WARNING"), "{text}");
    assert_eq!(record["programs"]["fastfair"].get("doubts"), None);
}

#[test]
fn a_program_of_which_no_flush_is_seen_is_reported_where_a_design_needs_some() {
    if without_gcc("a_program_of_which_no_flush_is_seen_is_reported_where_a_design_needs_some") {
        return;
    }
    let place = Place::new();
    silent(&place, "silent", &[]);
    let words = ["compare", "--program", "./silent", "--machine", "desktop", "--designs"];
    let warns = |more: &[&str]| {
        place.run(0, &[&words[..], more].concat()).contains("no flush and no fence was seen")
    };
    assert!(warns(&["clwb", "--pm", "heap"]));
    assert!(!warns(&["clwb"]), "nothing is persistent");
    assert!(!warns(&["bsp-lbpp,volatile", "--pm", "heap"]), "these need none");
    silent(&place, "silent", &["-DASKS"]);
    assert!(!warns(&["clwb", "--pm", "heap"]));
}
