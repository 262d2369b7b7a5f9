//! Which lines of a program its time goes to: `lines.c` has one for each of some reasons.

use super::{Place, line_of, without_gcc};
use serde_json::Value;
use std::fs;

/// The records of a run under `designs`, with these options too.
fn records(place: &Place, what: &str, designs: &str, more: &[&str]) -> Vec<Value> {
    let command = format!("./lines {{pool}} {what}");
    let words = ["compare", "--program", &command, "--designs", designs, "--machine", "desktop"];
    let words = [&words[..], &["--json", "records"], more].concat();
    place.run(0, &words);
    let text = fs::read_to_string(place.folder.path().join("records")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn places(record: &Value) -> &[Value] {
    record["profile"].as_array().expect("a profile")
}

/// The place at the line of the source that has this text.
fn place_of<'a>(record: &'a Value, text: &str) -> &'a Value {
    let line = line_of("lines.c", text);
    let is_there = |place: &&Value| place["file"] == "lines.c" && place["line"] == line;
    places(record).iter().find(is_there).unwrap_or_else(|| panic!("{text}: {record}"))
}

/// All cycles of the places by a reason.
fn all(record: &Value, reason: &str) -> u64 {
    places(record).iter().filter_map(|place| place["stalls"][reason].as_u64()).sum()
}

#[test]
fn a_profile_names_the_line_that_conflicts_misses_or_waits() {
    if without_gcc("a_profile_names_the_line_that_conflicts_misses_or_waits") {
        return;
    }
    let place = Place::new();
    place.compile("lines.c");
    let most = |record: &Value, line: &str, reason: &str| {
        let there = place_of(record, line)["stalls"][reason].as_u64().unwrap_or(0);
        let all = all(record, reason);
        assert!(there > 0 && 10 * there > 9 * all, "{line}: {there} of {all} {reason}: {record}");
    };
    let more = ["--profile", "--from", "threads"];
    let [lb, clwb] = &records(&place, "contend", "lb,clwb", &more)[..] else { panic!() };
    most(lb, "contends", "inter_conflict");
    most(lb, "contends", "intra_conflict");
    assert!(place_of(lb, "contends")["conflicts"].as_u64().unwrap() >= 200, "{lb}");
    // The accesses before it and after it are other lines: of an earlier or later event no cycle.
    most(clwb, "flushes", "fence");
    let [chase] = &records(&place, "chase", "volatile", &more)[..] else { panic!() };
    most(chase, "misses", "load_memory");
    let missed = place_of(chase, "misses")["misses"].as_u64().unwrap();
    assert!((150..=300).contains(&missed), "{chase}");
    let [hold] = &records(&place, "hold", "volatile", &more)[..] else { panic!() };
    let waits = place_of(hold, "waits");
    assert_eq!(waits["call"], "pthread_mutex_lock", "{hold}");
    let join = place_of(hold, "pthread_join(")["stalls"]["lock"].as_u64().unwrap();
    let lock = waits["stalls"]["lock"].as_u64().unwrap();
    assert!(lock > 0 && 10 * (lock + join) > 9 * all(hold, "lock"), "{hold}");
    // What the program does between two calls of the library is not the library's; the call into
    // the system is.
    let busy = |place: &Value| place["busy"].as_u64().unwrap();
    let in_all: u64 = places(hold).iter().map(busy).sum();
    assert!(3 * busy(waits) < in_all, "{hold}");
}

#[test]
fn a_profile_adds_up_and_changes_no_record() {
    if without_gcc("a_profile_adds_up_and_changes_no_record") {
        return;
    }
    let place = Place::new();
    place.compile("lines.c");
    for (what, from) in [("contend", "start"), ("hold 20", "threads"), ("chase", "threads")] {
        let run = |more: &[&str]| {
            records(&place, what, "clwb,lb", &[&["--from", from][..], more].concat())
        };
        let (plain, with, again) = (run(&[]), run(&["--profile"]), run(&["--profile"]));
        assert_eq!(with, again);
        for (plain, with) in plain.into_iter().zip(with) {
            assert!(places(&with).len() < 100, "{with}");
            let cycles = |place: &Value| place["cycles"].as_u64().unwrap();
            let sum: u64 = places(&with).iter().map(cycles).sum();
            let whole = with["cycles"].as_f64().unwrap() * with["cores"].as_f64().unwrap();
            let of_reason = |share: &Value| (share.as_f64().unwrap() * whole).round() as u64;
            let idle = of_reason(&with["stalls"]["idle"]);
            assert_eq!(sum + idle, whole as u64, "{what}: {with}");
            for (reason, share) in with["stalls"].as_object().unwrap() {
                let busy = || places(&with).iter().map(|it| it["busy"].as_u64().unwrap()).sum();
                let counted = if reason == "busy" { busy() } else { all(&with, reason) };
                assert!(reason == "idle" || counted == of_reason(share), "{what}: {reason}");
            }
            let mut without = with;
            without.as_object_mut().unwrap().remove("profile");
            assert_eq!(plain, without, "{what}");
        }
    }
}

#[test]
fn a_profile_is_shown_by_line_and_by_function_and_folded_for_flame_graphs() {
    if without_gcc("a_profile_is_shown_by_line_and_by_function_and_folded_for_flame_graphs") {
        return;
    }
    let place = Place::new();
    place.compile("lines.c");
    let command = ["compare", "--program", "./lines {pool} contend", "--machine", "desktop"];
    let designs = ["--designs", "volatile,lb", "--profile", "--profile-folded", "stacks"];
    let text = place.run(0, &[&command[..], &designs].concat());
    assert!(text.contains("where the time goes under lb, by line\n"), "{text}");
    assert!(text.contains("where the time goes under volatile, by function\n"), "{text}");
    let line = format!("lines.c:{}", line_of("lines.c", "contends"));
    let is_row = |row: &&str| row.contains(&line) && row.contains(" contend ");
    let row = text.lines().rfind(is_row).unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains("inter ") && row.contains('+'), "{row}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    let stacks = fs::read_to_string(place.folder.path().join("stacks")).unwrap();
    let inter = format!(";contend;{line};inter ");
    let stack = stacks.lines().find(|it| it.starts_with("lb;") && it.contains(&inter));
    let cycles = stack.and_then(|it| it.rsplit_once(' ')).and_then(|it| it.1.parse::<u64>().ok());
    assert!(cycles.is_some_and(|it| it > 1000), "{stacks}");
}
