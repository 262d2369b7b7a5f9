//! Explorations of our own structures, of the corpus, in parts, and of bad options.

use super::*;
use seawall_explore::Reached;
use seawall_report::Report;
use seawall_runtime::HeapFlaw;
use seawall_runtime::defrag::{DefragOptions, Protocol};
use seawall_workloads::WORKLOADS;

fn explore(workload: &str, options: &ExploreOptions) -> ExploreReport {
    super::explore(workload, options, &Progress::hidden(), &Arc::default())
        .unwrap_or_else(|error| panic!("{workload}: {error}"))
}

/// Bounds that do not depend on the time that they take.
fn plain() -> ExploreOptions {
    let (seconds, schedules, budget, torn_lines) = (0, 24, 100_000, 0);
    ExploreOptions { seconds, schedules, budget, torn_lines, ..ExploreOptions::default() }
}

/// How many times as many images are tried: more than one in the long run, `SEAWALL_IMAGES=4`.
fn times() -> u64 {
    std::env::var("SEAWALL_IMAGES").map_or(1, |times| times.parse().expect("a number"))
}

fn broken() -> ExploreOptions {
    ExploreOptions { flaw: Flaw::NoOrder, ..plain() }
}

#[test]
fn every_structure_survives_every_image_that_is_tried() {
    for entry in WORKLOADS.iter().filter(|entry| entry.default) {
        for (threads, ops, schedules) in [(1, 3, 1), (2, 2, 3)] {
            let models = Model::all().collect();
            // A swap's recovery stores 128 words, and each may be the last under some models.
            let depth = u64::from(entry.name != "sps");
            let options = ExploreOptions { threads, ops, schedules, models, depth, ..small() };
            let report = explore(entry.name, &options);
            assert!(!report.found(), "{report}");
            let ends = |m: &ModelReport| m.outcome.reached >= Reached::Ends;
            assert!(report.models.iter().all(ends), "{report}");
        }
    }
}

#[test]
fn what_is_not_complete_says_how_much_is_left_and_which_option_makes_it_less() {
    let all = ExploreOptions { threads: 2, ops: 1, seconds: 0, ..ExploreOptions::default() };
    let few = ExploreOptions { schedules: 3, ..all.clone() };
    let [one, again] = [(); 2].map(|()| explore("queue", &few));
    assert!(!one.complete && one.left == again.left, "{one}");
    let estimates = one.left.iter().filter(|line| line.contains("schedules are left to run"));
    assert_eq!(estimates.count(), 2, "of each kind of machine\n{one}");
    let last = one.left.last().expect("a line");
    assert!(last.contains("one model at a time, fewer operations"), "{one}");
    assert!(last.ends_with("; further with more --schedules"), "{one}");
    let whole = explore("queue", &ExploreOptions { models: vec![Model::Px86], ..all });
    assert!(whole.complete && whole.left.is_empty(), "{whole}");
}

#[test]
fn what_lives_in_a_heap_survives_every_image_that_is_tried() {
    for entry in WORKLOADS.iter().filter(|entry| entry.in_heap) {
        // The threads of programs that are defragmented do the same to different structures: but in
        // the long run, one of them stands for all.
        let is_one_of_many = entry.name.starts_with("c-") && entry.name != "c-avl";
        let runs = if is_one_of_many && times() == 1 { 1 } else { 2 };
        for (threads, ops, schedules) in [(1, 5, 1), (2, 2, 6)].into_iter().take(runs) {
            let budget = 6_000 * times();
            let options = ExploreOptions { threads, ops, schedules, depth: 1, budget, ..small() };
            let report = explore(entry.name, &options);
            assert!(!report.found(), "{report}");
            let ends = |m: &ModelReport| m.outcome.reached >= Reached::Ends;
            assert!(report.models.iter().all(ends), "{report}");
        }
    }
}

/// The indexes of Ribbon's evaluation, small enough to grow, split and join in a few operations.
fn index(name: &str) -> ExploreOptions {
    let entries = if name == "level" { 9 } else { 7 };
    ExploreOptions { entries, ..small() }
}

#[test]
fn indexes_without_a_log_survive_every_image_that_is_tried_under_every_model() {
    for name in ["level", "fastfair"] {
        for (threads, ops, schedules) in [(1, 8, 1), (2, 3, 12)] {
            let models = Model::all().collect();
            let options =
                ExploreOptions { threads, ops, schedules, models, depth: 1, ..index(name) };
            let report = explore(name, &options);
            assert!(!report.found(), "{report}");
            let ends = |m: &ModelReport| m.outcome.reached >= Reached::Ends;
            assert!(report.models.iter().all(ends), "{report}");
        }
    }
}

#[test]
fn a_missing_order_or_flush_is_found_in_indexes_without_a_log() {
    for name in ["level", "fastfair"] {
        let ordered = ExploreOptions { flaw: Flaw::NoOrder, ops: 12, ..index(name) };
        let report = explore(name, &ordered);
        assert!(report.models.iter().all(|model| model.outcome.finding.is_some()), "{report}");
        let flushed = ExploreOptions { flaw: Flaw::NoFlush, ..ordered };
        let report = explore(name, &flushed);
        let found: Vec<bool> = report.models.iter().map(|m| m.outcome.finding.is_some()).collect();
        assert_eq!(found, [true, false], "{report}");
    }
}

#[test]
fn each_planted_bug_of_a_heap_is_found_by_scripts_of_what_heaps_can_do() {
    let alone = ExploreOptions { models: vec![Model::Px86], depth: 0, ..small() };
    let recycled = ExploreOptions { entries: 1, seed: 13, budget: 3_000, ..alone.clone() };
    let two = ExploreOptions { threads: 2, ops: 2, entries: 1, schedules: 150, ..recycled.clone() };
    let two = ExploreOptions { seed: 18, ..two };
    for flaw in Flaw::all().filter(|flaw| *flaw != Flaw::Slip) {
        let options = match flaw {
            Flaw::Heap(HeapFlaw::NoWait | HeapFlaw::NoOrder) => &two,
            Flaw::Heap(HeapFlaw::NoFreed) => &recycled,
            _ => &alone,
        };
        let report = explore("heap", &ExploreOptions { flaw, ..options.clone() });
        assert!(report.found(), "{flaw}: {report}");
        let command = report.models[0].replay_command.clone().expect("found");
        let replay = command.split(' ').next_back().map(str::to_owned);
        let again = explore("heap", &ExploreOptions { replay, ..plain() });
        assert!(again.models[0].outcome.finding == report.models[0].outcome.finding, "{again}");
    }
    let late = ExploreOptions { flaw: Flaw::Heap(HeapFlaw::LateUndo), ..small() };
    let refused = super::explore("hash", &late, &Progress::hidden(), &Arc::default());
    let refused = refused.expect_err("no heap").to_string();
    assert!(refused.contains("hash cannot have the flaw late-undo"), "{refused}");
    assert!(refused.contains("btree or map or kv or heap"), "{refused}");
}

#[test]
fn a_planted_bug_of_a_structure_in_a_heap_is_found() {
    let slip = ExploreOptions { flaw: Flaw::Slip, models: vec![Model::Px86], ops: 4, ..small() };
    for name in ["c-ss", "c-bt"] {
        let report = explore(name, &slip);
        assert!(report.found(), "{report}");
    }
    let refused = super::explore("heap", &slip, &Progress::hidden(), &Arc::default());
    let refused = refused.expect_err("no slip").to_string();
    assert!(refused.contains("heap cannot have the flaw slip"), "{refused}");
    assert!(refused.contains("c-ll or c-avl"), "{refused}");
}

fn small() -> ExploreOptions {
    ExploreOptions { budget: 2_500, ..plain() }
}

#[test]
fn a_missing_order_is_found_in_every_structure_under_both_models() {
    for entry in WORKLOADS.iter().filter(|entry| entry.default) {
        let report = explore(entry.name, &broken());
        for model in &report.models {
            let finding = model.outcome.finding.as_ref();
            let finding = finding.unwrap_or_else(|| panic!("nothing found: {report}"));
            assert_eq!(finding.lost.len(), 1, "one lost store is enough: {report}");
        }
    }
}

#[test]
fn a_missing_flush_is_found_in_the_queue_on_x86_only() {
    let report = explore("queue", &ExploreOptions { flaw: Flaw::NoFlush, ..plain() });
    let found: Vec<bool> = report.models.iter().map(|m| m.outcome.finding.is_some()).collect();
    assert_eq!(found, [true, false], "{report}");
}

#[test]
fn the_printed_command_replays_the_same_image() {
    for threads in [1, 2] {
        let options = ExploreOptions { threads, ops: 4, ..broken() };
        for model in explore("hash", &options).models {
            let command = model.replay_command.expect("found");
            let head = "seawall explore hash --replay ";
            let replay = command.strip_prefix(head).map(str::to_owned);
            assert!(replay.is_some(), "{command}");
            let again = explore("hash", &ExploreOptions { replay, ..plain() });
            assert!(again.models[0].outcome.finding == model.outcome.finding, "{again}");
            assert!(again.replayed && again.found());
        }
    }
}

#[test]
fn requests_of_a_mix_are_explored_and_a_finding_among_them_is_replayed() {
    let mix = |name: &str| Some(name.parse().unwrap());
    let options = ExploreOptions { mix: mix("ycsb-a:uniform"), ops: 2, depth: 1, ..small() };
    assert!(!explore("hash", &options).found());
    let report = explore("hash", &ExploreOptions { flaw: Flaw::NoOrder, ops: 4, ..options });
    assert!(report.program.contains("4 operations of ycsb-a:uniform"), "{}", report.program);
    let finding = report.models.into_iter().find(|model| model.outcome.finding.is_some());
    let model = finding.expect("updates that are not ordered");
    let command = model.replay_command.expect("found");
    let replay = command.strip_prefix("seawall explore hash --replay ").map(str::to_owned);
    let again = explore("hash", &ExploreOptions { replay, ..plain() });
    assert!(again.models[0].outcome.finding == model.outcome.finding, "{again}");
    let refused = |name: &str, mix| {
        let options = ExploreOptions { mix, ..plain() };
        let stop = Arc::default();
        super::explore(name, &options, &Progress::hidden(), &stop).unwrap_err().to_string()
    };
    assert!(refused("hash", mix("ycsb-e")).contains("it scans, and hash"));
    assert!(refused("queue", mix("ycsb-a")).contains("operations of its own only"));
    assert!(refused("fast-fair", mix("ycsb-a")).contains("--mix is for workloads"));
}

#[test]
fn our_own_structures_flush_and_fence_nothing_in_vain() {
    for entry in WORKLOADS.iter().filter(|entry| entry.default) {
        for (threads, schedules) in [(1, 1), (2, 1)] {
            let models = vec![Model::Strict];
            let report = explore(
                entry.name,
                &ExploreOptions {
                    threads,
                    schedules,
                    models,
                    search_percent: 30,
                    budget: 1,
                    ..plain()
                },
            );
            assert_eq!(report.waste, [], "{report}");
        }
    }
}

#[test]
fn the_parts_of_the_work_make_up_the_whole() {
    let options = ExploreOptions { threads: 2, ops: 2, schedules: 6, ..small() };
    let whole = explore("queue", &options);
    for model in 0..2 {
        let points = |shard: &str| {
            let shard = shard.parse().unwrap();
            explore("queue", &ExploreOptions { shard, ..options.clone() }).models[model]
                .outcome
                .points
        };
        assert!(points("2/3") > 0);
        let parts = points("1/3") + points("2/3") + points("3/3");
        assert_eq!(parts, whole.models[model].outcome.points);
    }
    for shard in ["0/3", "4/3", "3", "1/0", "a/b"] {
        let error = shard.parse::<Shard>().unwrap_err().to_string();
        assert!(error.contains(shard), "{error}");
    }
}

#[test]
fn an_exploration_goes_on_from_the_units_that_were_done() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done.jsonl");
    let options =
        ExploreOptions { threads: 2, ops: 2, schedules: 4, resume: Some(file.clone()), ..small() };
    let outcomes = |options: &ExploreOptions| {
        let models = explore("queue", options).models;
        // What is known of recovery is not kept, so more of it runs.
        let outcomes = models.into_iter().map(|model| SearchOutcome { runs: 0, ..model.outcome });
        let outcomes = outcomes.map(|outcome| serde_json::to_string(&outcome));
        outcomes.collect::<Result<Vec<String>, _>>().unwrap()
    };
    let first = outcomes(&options);
    let text = std::fs::read_to_string(&file).unwrap();
    // Half of the units, and one that was cut short while it was written.
    let half: usize = text.lines().take(5).map(|line| line.len() + 1).sum();
    std::fs::write(&file, &text[..half + 10]).unwrap();
    assert_eq!(outcomes(&options), first);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), text.lines().count());

    let progress = Progress::hidden();
    let other = ExploreOptions { seed: 9, ..options.clone() };
    let error = super::explore("queue", &other, &progress, &Arc::default()).unwrap_err();
    assert!(error.to_string().contains("done.jsonl"), "{error}");
    std::fs::write(&file, "not ours").unwrap();
    assert!(super::explore("queue", &options, &progress, &Arc::default()).is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not ours", "it is left alone");
}

#[test]
fn bugs_that_need_a_crash_of_recovery_are_told_with_one() {
    for case in seawall_corpus::CASES.iter().filter(|case| case.about().needs_nested) {
        let report = explore(case.about().name, &plain());
        let finding = report.models[0].outcome.finding.as_ref();
        assert_eq!(finding.map(|finding| finding.recoveries.len()), Some(1), "{report}");
    }
}

#[test]
fn a_case_of_the_corpus_is_found_and_its_command_replays_it() {
    for (name, nested) in [("ff-8", false), ("undo-clears", true), ("rc-2", false)] {
        let report = explore(name, &plain());
        let model = &report.models[0];
        let finding = model.outcome.finding.as_ref().expect(name);
        assert_eq!(finding.choice.crashes.len() > 1, nested, "{report}");
        let command = model.replay_command.clone().expect("found");
        let replay = command.split(' ').next_back().map(str::to_owned);
        let again = explore(name, &ExploreOptions { replay, ..plain() });
        assert!(again.models[0].outcome.finding.as_ref() == Some(finding), "{again}");
        let fixed = explore(name, &ExploreOptions { fixed: true, ..small() });
        assert!(!fixed.found(), "{fixed}");
        let page = report.to_page();
        let rows = |at: usize| page.sections[at].rows.len();
        assert!(rows(1) > 0 && rows(2) == finding.timeline.len(), "{name}");
    }
}

#[test]
fn two_explorations_differ_only_in_their_times() {
    let run = || {
        let mut report = explore("queue", &ExploreOptions { threads: 2, ops: 3, ..small() });
        report.models.iter_mut().for_each(|model| model.seconds = 0.0);
        serde_json::to_string(&report).expect("plain data")
    };
    assert_eq!(run(), run());
}

#[test]
fn bad_options_are_errors_that_name_the_option() {
    let error = |workload: &str, options: ExploreOptions| {
        let answer = super::explore(workload, &options, &Progress::hidden(), &Arc::default());
        answer.expect_err("a bad option").to_string()
    };
    let default = ExploreOptions::default;
    assert!(error("hsah", default()).contains("hash"));
    let none = ExploreOptions { models: Vec::new(), ..default() };
    assert!(error("hash", none).contains("px86, strict"));
    let threads = error("hash", ExploreOptions { threads: 0, ..default() });
    assert_eq!(threads, "--threads is 0: it must be 1 to 64");
    let budget = error("hash", ExploreOptions { budget: 0, ..default() });
    assert!(budget.contains("budget is 0"), "a search of nothing finds nothing: {budget}");
    let moved = ExploreOptions { defragment: Some(DefragOptions::default()), ..default() };
    assert!(error("hash", moved.clone()).contains("hash do not move; those of c-ll"));
    assert!(error("ff-8", moved).contains("--defragment is for workloads"));
    for replay in [
        "",
        "1-1-12-8-0-n+best-s/px86/1/none",
        "1-1-12-8-0-n-s",
        "1-1-12-8-0-s/px86/1/none",
        "1-0-1-8-0-n-s/px86/1/none",
    ] {
        let options = ExploreOptions { replay: Some(replay.into()), ..default() };
        error("hash", options);
    }
    for replay in ["1-1-12-8-0-o-s/px86/1/none", "wrong-s/px86/1/none"] {
        error("ff-8", ExploreOptions { replay: Some(replay.into()), ..default() });
    }
    let replay = Some("1-1-12-8-0-n-s/px86/999999/none".to_owned());
    assert!(error("hash", ExploreOptions { replay, ..default() }).contains("the run"));
}

#[test]
fn objects_that_move_meanwhile_survive_and_a_report_says_whether_any_did() {
    let moving = |protocol: Protocol, entries, flaw| ExploreOptions {
        defragment: Some(protocol.into()),
        models: vec![Model::Px86],
        ops: entries,
        depth: 0,
        budget: 100 * times(),
        entries,
        flaw,
        ..plain()
    };
    for protocol in Protocol::ALL {
        let report = explore("c-ll", &moving(protocol, 60, Flaw::None));
        assert!(!report.found(), "{report}");
        assert!(report.moved.as_ref().is_some_and(|moved| moved.moved > 0), "{report}");
    }
    let still = explore("c-ll", &moving(Protocol::Sfccd, 10, Flaw::None)).to_string();
    assert!(still.contains("have moved no object"), "{still}");
    let mut broken = moving(Protocol::Sfccd, 60, Flaw::NoOrder);
    for way in ["sfccd", "sfccd-published:1.6:1.2:3", "ffccd"] {
        broken.defragment = Some(way.parse().unwrap());
        let report = explore("c-ll", &broken);
        assert!(report.found() && report.program.contains(&format!("moved by {way}")), "{report}");
        let command = report.models[0].replay_command.clone().expect("found");
        let replay = command.split(' ').next_back().map(str::to_owned);
        assert!(replay.as_ref().is_some_and(|image| image.contains(&format!("+{way}-"))));
        let again = explore("c-ll", &ExploreOptions { replay, ..plain() });
        assert!(again.models[0].outcome.finding == report.models[0].outcome.finding, "{again}");
    }
}
