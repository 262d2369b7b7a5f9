//! The timeline of a program under a design: its slices are the record's stalls.

use super::{Place, without_gcc};
use seawall_trace_reader::Decoded;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// The record of a run under `design`, with these options too, and what was printed.
fn record(place: &Place, command: &str, design: &str, more: &[&str]) -> (Value, String) {
    let words = ["compare", "--program", command, "--designs", design, "--machine", "desktop"];
    let words = [&words[..], &["--json", "records"], more].concat();
    let said = place.run(0, &words);
    let text = fs::read_to_string(place.folder.path().join("records")).unwrap();
    (serde_json::from_str(&text).expect("one record"), said)
}

fn decoded(place: &Place) -> Decoded {
    Decoded::of(&fs::read(place.folder.path().join("trace")).unwrap())
}

/// The cycles of a record by reason, from their shares.
fn stalls(record: &Value) -> BTreeMap<String, u64> {
    let whole = record["cycles"].as_f64().unwrap() * record["cores"].as_f64().unwrap();
    let shares = record["stalls"].as_object().unwrap().iter();
    let cycles = shares
        .map(|(reason, share)| (reason.clone(), (share.as_f64().unwrap() * whole).round() as u64));
    cycles.filter(|(_, cycles)| *cycles > 0).collect()
}

#[test]
fn slices_of_a_program_add_up_to_the_stalls_of_its_record() {
    if without_gcc("slices_of_a_program_add_up_to_the_stalls_of_its_record") {
        return;
    }
    let place = Place::new();
    place.compile("lines.c").compile("region.c");
    let contend = "./lines {pool} contend";
    for (command, design, from) in [
        (contend, "lb", "start"),
        (contend, "lb", "threads"),
        (contend, "clwb", "threads"),
        ("./lines {pool} hold 20", "volatile", "threads"),
        ("./region run {pool} 2 20", "clwb", "start"),
    ] {
        let (plain, _) = record(&place, command, design, &["--from", from]);
        let more = ["--from", from, "--trace", "trace"];
        let (with, said) = record(&place, command, design, &more);
        assert_eq!(plain, with, "{command} under {design}: a trace changes nothing");
        let decoded = decoded(&place);
        assert_eq!(decoded.core_cycles(), stalls(&with), "{command} under {design}, from {from}");
        let first = decoded.events.iter().map(|event| event.at).min().unwrap();
        let last = decoded.slices.iter().filter(|slice| decoded.is_core(slice.track));
        let last = last.filter_map(|slice| slice.to).max().unwrap();
        assert_eq!(last - first, with["cycles"].as_u64().unwrap(), "{command}: {said}");
        let tracks = decoded.tracks.values().filter(|track| track.name.starts_with("core "));
        assert_eq!(tracks.count() as u64, with["cores"].as_u64().unwrap(), "{command}");
    }
}

#[test]
fn a_window_of_a_program_is_cut_and_one_design_is_recorded_beside_its_baseline() {
    if without_gcc("a_window_of_a_program_is_cut_and_one_design_is_recorded_beside_its_baseline") {
        return;
    }
    let place = Place::new();
    place.compile("lines.c");
    let words = ["kernels", "--program", "./lines {pool} contend 400", "--machine", "desktop"];
    let words = [&words[..], &["--crashes", "0", "--trace", "trace"]].concat();
    let said = place.run(2, &words);
    assert!(said.contains("lines under bsp-lb") && said.contains("one design"), "{said}");
    let one = [&words[..], &["--designs", "bsp-lbpp"]].concat();
    let said = place.run(0, &one);
    assert!(said.contains("trace of lines under bsp-lbpp: cycles "), "{said}");
    let whole = decoded(&place);
    let epochs = |trace: &Decoded| {
        let is_one = |track: &u64| trace.tracks[track].name == "epochs";
        trace.slices.iter().filter(|slice| is_one(&slice.track) && slice.depth == 0).count()
    };
    assert!(epochs(&whole) > 10, "{said}");
    let begin = whole.events.iter().map(|event| event.at).min().unwrap();
    let window = format!("..{}", begin + 1000);
    let said = place.run(0, &[&one[..], &["--trace-window", &window]].concat());
    let part = decoded(&place);
    let cores = part.tracks.values().filter(|track| track.name.starts_with("core ")).count();
    assert_eq!(part.core_cycles().values().sum::<u64>(), 1000 * cores as u64, "{said}");
    assert!(epochs(&part) < epochs(&whole), "{said}");
}

#[test]
fn a_window_is_of_what_a_program_marks_and_reports() {
    if without_gcc("a_window_is_of_what_a_program_marks_and_reports") {
        return;
    }
    let place = Place::new();
    place.compile("region.c");
    let traced = |window: &str| {
        let more = ["--trace", "trace", "--trace-window", window];
        record(&place, "./region run {pool} 2 20", "clwb", &more)
    };
    let (record, said) = traced("0..");
    let begin = decoded(&place).events.iter().map(|event| event.at).min().unwrap();
    let end = begin + record["cycles"].as_u64().unwrap();
    assert!(begin > 100 && said.contains(&format!("cycles {begin} to {end} of ")), "{said}");
    let (_, said) = traced("..100");
    let named = format!("empty, as what is measured begins at cycle {begin}, and the run ends");
    assert!(said.contains(&named), "{said}");
    // Two threads report twenty messages each.
    let (_, said) = traced("ops:10..20");
    let part = decoded(&place);
    let (first, last) = (part.events.first().unwrap().at, part.events.last().unwrap().at);
    assert!(begin < first && first < last && last < end, "{said}");
    traced("ops:40..");
    let rest = decoded(&place);
    let first = rest.events.first().unwrap().at;
    assert!(last < first && first < end, "the last of them, and what follows");
}
