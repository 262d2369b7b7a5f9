//! Several programs in one comparison or one sweep: each as by itself, with its own check.

use super::{Place, without_gcc};
use serde_json::Value;
use std::fs;

const FOUR: &str = "four=./hash run {pool} 4 60 0";
const TWO: &str = "two=./hash run {pool} 2 60 0";
const CHECK: &str = "./hash check {pool} 0";

fn place() -> Place {
    let place = Place::new();
    place.compile("hash.c");
    place
}

/// Runs a comparison; its records, and what it printed.
fn compare(place: &Place, code: i32, words: &[&str]) -> (Vec<Value>, String) {
    let first = ["compare", "--designs", "volatile,clwb", "--fence", "drain", "--json", "a.json"];
    let text = place.run(code, &[&first[..], words].concat());
    let records = fs::read_to_string(place.folder.path().join("a.json")).unwrap();
    (records.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), text)
}

fn said<'a>(record: &'a Value, keys: [&str; 2]) -> [&'a str; 2] {
    keys.map(|key| record[key].as_str().unwrap_or("none"))
}

#[test]
fn several_programs_run_as_each_by_itself_with_their_ratios_to_the_first() {
    if without_gcc("several_programs_run_as_each_by_itself") {
        return;
    }
    let place = place();
    let more = ["--check", CHECK, "--crashes", "3", "--plot", "p.svg", "--csv", "p.csv"];
    let (records, text) =
        compare(&place, 0, &[&["--program", FOUR, "--program", TWO][..], &more].concat());
    let names: Vec<_> = records.iter().map(|record| said(record, ["design", "name"])).collect();
    let four_two = |design| [[design, "four"], [design, "two"]];
    assert_eq!(names, [four_two("volatile"), four_two("clwb")].concat());
    for (at, program) in [(0, FOUR), (1, TWO)] {
        let command = program.split_once('=').unwrap().1;
        let (alone, _) =
            compare(&place, 0, &["--program", command, "--check", CHECK, "--crashes", "3"]);
        for (of_several, alone) in
            [(at, 0), (at + 2, 1)].map(|(of, own)| (&records[of], &alone[own]))
        {
            let mut of_several = of_several.as_object().unwrap().clone();
            assert!(of_several.remove("name").is_some());
            let over = of_several.remove("over_first").unwrap().as_f64().unwrap();
            let first =
                records[if of_several["design"] == "clwb" { 2 } else { 0 }]["cycles"].as_f64();
            assert_eq!(over, alone["cycles"].as_f64().unwrap() / first.unwrap());
            assert_eq!(&Value::Object(of_several), alone, "and nothing of it is another one's");
        }
    }
    assert!(text.starts_with("four: ./hash run {pool} 4 60 0\ntwo: ./hash run"), "{text}");
    let row = text.lines().find(|line| line.starts_with("clwb ")).unwrap();
    let next = text.lines().skip_while(|line| *line != row).nth(1).unwrap();
    assert!(row.contains(" four "), "{text}");
    assert!(next.trim_start().starts_with("two "), "the design is named once\n{text}");
    let read = |name: &str| fs::read_to_string(place.folder.path().join(name)).unwrap();
    assert!(read("p.csv").starts_with("design,program,vs four,time vs volatile,"), "{text}");
    let svg = read("p.svg");
    assert!(svg.contains("four, two: time over volatile") && svg.contains("two"), "{svg}");
}

#[test]
fn a_check_is_for_all_programs_or_for_the_one_that_it_names() {
    if without_gcc("a_check_is_for_all_programs_or_for_the_one_that_it_names") {
        return;
    }
    let place = place();
    let bad = "bad=./hash run {pool} 4 60 1";
    let programs = ["--crashes", "60", "--program", FOUR, "--program", bad];
    let both = ["--check", CHECK, "--check", "bad=./hash check {pool} 1"];
    let (records, text) = compare(&place, 1, &[&programs[..], &both].concat());
    assert!(text.contains("BROKEN bad under clwb"), "{text}");
    assert!(!text.contains("BROKEN four"), "{text}");
    let checks = records.iter().map(|record| record["check"].as_str().unwrap());
    assert_eq!(checks.collect::<Vec<_>>()[2..], [CHECK, "./hash check {pool} 1"]);
    let repeat = text.lines().find_map(|line| line.split_once("repeat: seawall ")).unwrap().1;
    let words = shlex::split(repeat).unwrap();
    let again = place.run(1, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(again.contains("BROKEN under clwb"), "{again}");
    let (records, text) =
        compare(&place, 0, &[&programs[..], &["--check", "four=./hash check {pool} 0"]].concat());
    assert!(text.contains("no crashes of bad: give its check with --check bad=.."), "{text}");
    assert!(records[3]["crashes"].is_null() && records[2]["crashes"].is_u64());
}

#[test]
fn programs_are_told_by_their_names() {
    if without_gcc("programs_are_told_by_their_names") {
        return;
    }
    let place = place();
    let refused = |words: &[&str], what: &str| {
        let said = place.run(2, &[&["compare", "-d", "clwb"], words].concat());
        assert!(said.contains(what), "{words:?}: {said}");
    };
    let two = ["--program", "./hash run {pool} 4 60 0", "--program", "./hash run {pool} 2 60 0"];
    refused(&two, "--program is hash; it must be called otherwise");
    let named = ["--program", FOUR, "--program", TWO];
    let with = |more: &[&'static str]| [&named[..], more].concat();
    refused(&with(&["--check", "three=true"]), "'three' is none of four, two");
    refused(
        &with(&["--check", "true", "--check", "true"]),
        "a check of all programs is named twice",
    );
    refused(
        &with(&["--check", "two=true", "--check", "two=true"]),
        "a check of two is named twice",
    );
    refused(&with(&["--trace", "a.perfetto"]), "2 are named (four under clwb, two under clwb)");
}

#[test]
fn programs_take_in_a_sweep_what_they_take_in_compare() {
    if without_gcc("programs_take_in_a_sweep_what_they_take_in_compare") {
        return;
    }
    let place = place();
    let at = |name: &str| place.folder.path().join(name);
    let sweep = "title = 't'\nmachine = 'desktop'\nthreads = 3\nfence = 'drain'\n\
                 programs = ['./hash run {pool} {threads} 40 0', 'one=./hash run {pool} 1 40 0']\n\
                 checks = ['./hash check {pool} 0']\ndesigns = ['clwb']\ncrashes = 2\n\
                 [[factor]]\nname = 'latency'\nmachine = 'memory.nvm.write'\nvalues = [280, 900]\n";
    fs::write(at("s.toml"), sweep).unwrap();
    let text = place.run(0, &["sweep", "s.toml", "--html", "s.html"]);
    assert!(text.contains("design  value  hash   one  mean"), "{text}");
    assert!(text.contains("8 results: all right; 12 crashes: none broke"), "{text}");
    let read = |name: &str| -> Vec<Value> {
        let lines = fs::read_to_string(at(name)).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let swept = read("s.jsonl");
    let machine = "desktop:memory.nvm.write=900";
    let more = ["-d", "clwb", "-m", machine, "--fence", "drain", "--crashes", "0", "--json", "c"];
    let three = ["compare", "--program", "./hash run {pool} 3 40 0"];
    place.run(0, &[&three[..], &more].concat());
    let alone = &read("c")[0];
    let of = |name: &str, design: &str| {
        let is_it = |record: &&Value| said(record, ["name", "design"]) == [name, design];
        swept.iter().rfind(is_it).unwrap()
    };
    let record = of("hash", "clwb");
    assert_eq!(record["cycles"], alone["cycles"]);
    assert_eq!(record["judged"], 3, "two, and one at the end");
    let baseline = of("hash", "volatile")["cycles"].as_f64().unwrap();
    assert_eq!(record["time"].as_f64(), Some(record["cycles"].as_f64().unwrap() / baseline));
    assert_eq!(place.run(0, &["sweep", "s.toml"]), text, "all is there");
    let repeat =
        format!("--program './hash run {{pool}} 3 40 0' --designs clwb --machine {machine}");
    let page = fs::read_to_string(at("s.html")).unwrap();
    assert!(page.contains(&repeat), "the command of a point");
    place.compile_with("hash.c", &["-DOTHER=1", "-O1"]);
    let said = place.run(2, &["sweep", "s.toml"]);
    assert!(said.contains("is not of this experiment"), "other code is another point: {said}");
}
