//! Native runs from outside: reports, recoveries, and options that are refused.

use super::*;
use seawall_workloads::Accepts;
use std::path::Path;

fn short(file: Option<&Path>) -> NativeOptions {
    NativeOptions {
        ops: Some(300),
        requests: RequestOptions::on_entries(100),
        file: file.map(Path::to_path_buf),
        ..NativeOptions::default()
    }
}

fn recover(workload: &str, path: &Path) -> Result<NativeReport, NativeError> {
    let recover = Some(path.to_path_buf());
    run_native(workload, &NativeOptions { recover, ..NativeOptions::default() })
}

#[test]
fn a_run_finishes_its_operations_and_says_where_it_ran() {
    let options = NativeOptions { threads: 2, ..short(None) };
    let report = run_native("hash", &options).unwrap();
    let text = report.to_string();
    for part in [
        "300, 300",
        "flush  ",
        "operations/s on this machine",
        "a temporary file",
        "not durable",
        "invariants hold",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["kind"], &json["workload"]), (&"run".into(), &"hash".into()));
    assert_eq!((&json["durable"], &json["file"]), (&false.into(), &().into()));
    let NativeReport::Run(run) = report else { panic!("{text}") };
    assert_eq!(run.operations, [300, 300]);
    assert!(run.fences >= 100 && run.flushed_lines >= run.fences, "{text}");
}

#[test]
fn with_a_ribbon_every_workload_runs_and_each_line_is_said_to_be_somebodys() {
    for entry in seawall_workloads::WORKLOADS {
        let ribbon = Some(RibbonMode::Always);
        let early = (entry.name == "hash").then_some(EarlySource::Hook);
        let options = NativeOptions { threads: 2, ribbon, early, flushers: Some(2), ..short(None) };
        let report = run_native(entry.name, &options).unwrap();
        let text = report.to_string();
        assert!(text.contains("ribbon      always, 2 of 2 flushers"), "{text}");
        let NativeReport::Run(run) = report else { panic!("{text}") };
        let ribbon = run.ribbon.unwrap();
        if ribbon.takeovers == 0 {
            let each = ribbon.by_flushers + ribbon.at_fences + ribbon.at_once;
            assert!(each > 0 && each <= run.flushed_lines, "{text}");
        }
    }
}

#[test]
fn how_dirty_flushed_lines_were_is_counted_for_every_workload() {
    for entry in seawall_workloads::WORKLOADS {
        let run = |dirtiness| {
            let report = run_native(entry.name, &NativeOptions { dirtiness, ..short(None) });
            let NativeReport::Run(run) = report.unwrap() else { panic!("a run") };
            run
        };
        let (run, plain) = (run(true), run(false));
        assert!(plain.dirtiness.is_none() && !plain.to_string().contains("dirtiness"));
        let counts = run.dirtiness.clone().unwrap();
        let each = counts.lines + counts.clean + counts.direct_lines;
        assert_eq!(each, run.flushed_lines, "{}", entry.name);
        assert!(counts.percent > 0.0 && counts.percent <= 100.0, "{}: {counts:?}", entry.name);
        assert_eq!(counts.eighths.iter().sum::<u64>(), counts.lines);
        assert!(run.to_string().contains("dirtiness   "), "{run}");
    }
    let (dirtiness, ribbon) = (true, Some(RibbonMode::Auto));
    let both = run_native("hash", &NativeOptions { dirtiness, ribbon, ..short(None) });
    assert!(both.unwrap_err().to_string().contains("whoever flushes"));
}

#[test]
fn where_no_line_is_flushed_a_ribbon_is_off_or_refused() {
    let by_page = |ribbon| NativeOptions {
        domain: Some(Domain::Page),
        ribbon: Some(ribbon),
        ops: Some(5),
        ..short(None)
    };
    let report = run_native("hash", &by_page(RibbonMode::Auto)).unwrap().to_string();
    assert!(report.contains("ribbon      off: no line is flushed here (domain page"), "{report}");
    let error = run_native("hash", &by_page(RibbonMode::Always)).unwrap_err().to_string();
    assert!(error.contains("--domain line"), "{error}");
}

#[test]
fn a_ribbon_that_cannot_be_had_is_refused_before_a_file_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let options = |domain| NativeOptions {
        domain: Some(domain),
        ribbon: Some(RibbonMode::Always),
        file: Some(path.clone()),
        ..short(None)
    };
    let refused = run_native("hash", &options(Domain::None)).unwrap_err();
    assert!(matches!(refused, NativeError::NothingToFlush { .. }), "{refused}");
    assert!(!path.exists());
    run_native("hash", &options(Domain::Line)).unwrap();
}

#[test]
fn a_run_ends_after_its_seconds() {
    let options = NativeOptions { ops: None, seconds: 0.05, ..short(None) };
    let NativeReport::Run(run) = run_native("queue", &options).unwrap() else { panic!() };
    assert!(run.seconds >= 0.05 && run.seconds < 5.0, "{}", run.seconds);
    assert!(run.operations[0] > 0);
}

#[test]
fn a_file_is_recovered_with_all_that_the_run_left() {
    let folder = tempfile::tempdir().unwrap();
    for entry in seawall_workloads::WORKLOADS {
        let path = folder.path().join(entry.name);
        let run = run_native(entry.name, &short(Some(&path))).unwrap();
        let recovery = recover(entry.name, &path).unwrap();
        let text = recovery.to_string();
        let (NativeReport::Run(run), NativeReport::Recovery(recovery)) = (run, recovery) else {
            panic!("{text}")
        };
        assert_eq!(recovery.entries, run.entries_after, "{}", entry.name);
        assert!(text.contains("invariants hold") && text.contains(entry.name), "{text}");
    }
}

#[test]
fn a_mix_runs_on_threads_of_this_machine_and_what_it_left_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    for (at, mix) in seawall_workloads::MIXES.iter().enumerate() {
        for entry in seawall_workloads::WORKLOADS {
            let path = folder.path().join(format!("{}-{at}", entry.name));
            let ops = Some(300);
            let options = NativeOptions {
                requests: RequestOptions { mix: Some(*mix), ..RequestOptions::on_entries(100) },
                threads: 3,
                ops,
                ..short(Some(&path))
            };
            let accepts = match entry.accepts {
                Accepts::Ranges => true,
                Accepts::Keys => mix.scans == 0,
                Accepts::Own => false,
            };
            let run = run_native(entry.name, &options);
            assert_eq!(run.is_ok(), accepts, "{mix} of {}", entry.name);
            let Ok(NativeReport::Run(run)) = run else { continue };
            let recovered = recover(entry.name, &path).unwrap();
            let NativeReport::Recovery(recovery) = recovered else { panic!("a run") };
            assert_eq!(recovery.entries, run.entries_after, "{}", entry.name);
            let inserted = run.entries_after > run.entries_before;
            assert_eq!(inserted, mix.inserts > 0, "{mix} of {}", entry.name);
            assert!(run.to_string().contains(&format!("{mix}, seed")), "{run}");
        }
    }
}

#[test]
fn a_run_by_page_calls_itself_durable_only_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let options = NativeOptions { domain: Some(Domain::Page), ops: Some(5), ..short(Some(&path)) };
    let NativeReport::Run(run) = run_native("hash", &options).unwrap() else { panic!() };
    assert_eq!((run.place.flush, run.place.domain), ("none", "page"));
    assert_eq!(run.place.durable, run.place.durability.starts_with("durable"));
}

#[test]
fn options_out_of_range_are_named_with_what_they_may_be() {
    let refused = |change: fn(&mut NativeOptions), part: &str| {
        let mut options = short(None);
        change(&mut options);
        let text = run_native("hash", &options).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(|o| o.threads = 0, "the number of threads is 0; it must be 1 to");
    refused(|o| o.threads = THREADS_MAX + 1, "it must be 1 to 1024");
    refused(|o| (o.ops, o.seconds) = (None, f64::NAN), "the number of seconds is NaN");
    refused(|o| (o.ops, o.seconds) = (None, 0.0), "more than 0");
    refused(|o| (o.ops, o.seconds) = (None, f64::INFINITY), "at most");
    refused(|o| o.ops = Some(0), "the number of operations is 0");
    refused(|o| o.requests.search_percent = Some(101), "0 to 100");
    refused(|o| o.flushers = Some(2), "given together with a Ribbon");
    refused(
        |o| o.early = Some(EarlySource::Hook),
        "cleaning early is given; it must be left out, or",
    );
    refused(|o| (o.ribbon, o.flushers) = (Some(RibbonMode::Auto), Some(0)), "1 to 1024");
    refused(
        |o| (o.recover, o.ribbon) = (Some("a".into()), Some(RibbonMode::Auto)),
        "recovery flushes for itself",
    );
    refused(|o| o.requests.entries = Some(0), "the number of entries is 0");
    refused(|o| o.requests.entries = Some(u64::MAX), "it must be 1 to");
    let unknown = run_native("heaps", &short(None)).unwrap_err().to_string();
    assert!(unknown.contains("`heaps`") && unknown.contains("queue"), "{unknown}");
}

#[test]
fn a_full_disk_is_an_error_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.pool");
    let options =
        NativeOptions { requests: RequestOptions::on_entries(ENTRIES_MAX), ..short(Some(&path)) };
    let error = run_native("hash", &options).unwrap_err();
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_run_never_starts_on_a_file_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "precious").unwrap();
    let error = run_native("hash", &short(Some(&path))).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_pool_of_the_wrong_kind_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    run_native("hash", &short(Some(&path))).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let changed = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes
    };
    let half = whole[..whole.len() / 2].to_vec();
    for (bytes, workload, part) in [
        (whole.clone(), "queue", "belongs to workload `hash`"),
        (half, "hash", "truncated"),
        (changed(8, 99), "hash", "version 99"),
        (changed(64, !whole[64]), "hash", "checksum"),
        (changed(0, b'X'), "hash", "not a seawall pool"),
        (b"notes".repeat(2000), "hash", "not a seawall pool"),
        (vec![0; 8192], "hash", "not a seawall pool"),
        (Vec::new(), "hash", "0 bytes"),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let text = recover(workload, &path).unwrap_err().to_string();
        assert!(text.contains("a.pool") && text.contains(part), "{text}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{part}: the file was changed");
    }
    let folder = recover("hash", folder.path()).unwrap_err().to_string();
    assert!(folder.contains("not an ordinary file"), "{folder}");
    std::fs::write(&path, &whole).unwrap();
    recover("hash", &path).unwrap();
}

#[test]
fn a_thread_of_its_own_moves_objects_together_while_others_work() {
    let options = NativeOptions {
        threads: 2,
        ops: Some(60_000),
        requests: RequestOptions::on_entries(20_000),
        latency: true,
        ..NativeOptions::default()
    };
    let run = |defragment, ribbon| {
        let options = NativeOptions { defragment, ribbon, ..options.clone() };
        let report = run_native("c-ll", &options).unwrap();
        let text = report.to_string();
        let NativeReport::Run(run) = report else { panic!("{text}") };
        let latency = run.latency.as_ref().expect("it was measured");
        assert!(latency.p50_ns > 0 && latency.p99_ns >= latency.p50_ns, "{text}");
        assert!(latency.longest_ns >= latency.p999_ns && text.contains("latency     half"));
        (run, text)
    };
    let (plain, text) = run(None, None);
    assert!(plain.collector.is_none() && !text.contains("defragment"), "{text}");
    let way = DefragOptions { trigger: 1.2, target: 1.1, ..DefragOptions::default() };
    for ribbon in [None, Some(RibbonMode::Always)] {
        let (moved, text) = run(Some(way), ribbon);
        let collector = moved.collector.as_ref().expect("there was one");
        assert_eq!(moved.operations, plain.operations);
        assert!(collector.cycles > 0 && collector.emptied > 0, "{text}");
        assert!(text.contains("defragment  sfccd:1.2:1.1: "), "{text}");
        assert!(moved.pages_a_byte.is_some_and(|pages| pages > 1.0), "{text}");
    }
}

#[test]
fn a_way_to_defragment_that_cannot_be_had_is_refused_before_anything_is_made() {
    let refused = |workload: &str, options: NativeOptions| {
        assert!(check_native(workload, &options).is_err());
        run_native(workload, &options).unwrap_err().to_string()
    };
    let way = |protocol| Some(DefragOptions { protocol, ..DefragOptions::default() });
    let with = |defragment| NativeOptions { defragment, ..short(None) };
    let text = refused("c-ll", with(way(Protocol::Ffccd)));
    assert!(text.contains("needs hardware") && text.contains("take sfccd"), "{text}");
    let text = refused("hash", with(way(Protocol::Sfccd)));
    assert!(text.contains("hash do not move; those of c-ll, "), "{text}");
    let many = NativeOptions { threads: THREADS_MAX, ..with(way(Protocol::Espresso)) };
    let text = refused("c-ll", many);
    assert!(text.contains("number of threads is 1024") && text.contains("at most 1023"), "{text}");
    let counted = NativeOptions { dirtiness: true, ..with(way(Protocol::Espresso)) };
    assert!(refused("c-ll", counted).contains("dirtiness"));
    let wrong = DefragOptions { trigger: 0.5, ..DefragOptions::default() };
    assert!(refused("c-ll", with(Some(wrong))).contains("trigger 0.5"));
}
