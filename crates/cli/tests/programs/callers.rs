//! Who called a helper: `helpers.c` has many callers of few.

use super::{Place, line_of, without_gcc};
use std::fs;

/// The places at these texts, each called by the next one.
fn chain(texts: &[&str]) -> String {
    let place = |text: &&str| format!("helpers.c:{}", line_of("helpers.c", text));
    texts.iter().map(place).collect::<Vec<_>>().join(" < ")
}

const RUN: &str = "./helpers run {pool}";
const CHECK: &str = "./helpers check {pool}";

#[test]
fn flushes_of_a_helper_are_counted_by_who_called_it() {
    if without_gcc("flushes_of_a_helper_are_counted_by_who_called_it") {
        return;
    }
    for level in ["-O0", "-O2"] {
        let place = Place::new();
        place.compile_with("helpers.c", &["-g", "-mclwb", level]);
        let words = ["explore", "--program", RUN, "--check", CHECK, "--models", "px86"];
        let text = place.run(0, &words);
        for (texts, times) in [
            (&["/* flushes */", "/* direct */", "/* once */"][..], 1),
            (&["/* flushes */", "/* direct */", "/* twice */"], 1),
            (&["/* flushes */", "/* pointer */"], 1),
            (&["/* flushes */", "/* framed */", "/* deep frame */"], 1),
            (&["/* flushes */", "/* recursive */", "/* deep */"], 5),
            (&["/* inlined */", "/* one line */"], 1),
            (&["/* inlined */", "/* other line */"], 1),
        ] {
            let what = format!(
                " {} flushes a line that is clean: {times} of {times} times\n",
                chain(texts)
            );
            assert!(text.contains(&what), "{level}: {what}{text}");
        }
    }
}

#[test]
fn a_finding_says_who_called_the_helper_that_stored() {
    if without_gcc("a_finding_says_who_called_the_helper_that_stored") {
        return;
    }
    let place = Place::new();
    place.compile_with("helpers.c", &["-g", "-mclwb"]);
    let run = format!("{RUN} broken");
    let words = ["explore", "--program", &run, "--check", CHECK, "--models", "px86"];
    let text = place.run(1, &[&words[..], &["--html", "page"]].concat());
    for word in ["/* first word */", "/* second word */"] {
        let what = format!("thread 0 operation 0, {}", chain(&["/* stores */", word]));
        assert!(text.contains(&what), "{what}\n{text}");
    }
    let page = fs::read_to_string(place.folder.path().join("page")).unwrap();
    assert!(page.contains("helpers.c"), "{page}");
}

#[test]
fn a_profile_shows_who_called_a_helper_for_how_long() {
    if without_gcc("a_profile_shows_who_called_a_helper_for_how_long") {
        return;
    }
    let place = Place::new();
    place.compile_with("helpers.c", &["-g", "-mclwb"]);
    let words = ["compare", "--program", RUN, "--designs", "clwb", "--machine", "desktop"];
    let more = ["--profile", "--profile-folded", "stacks", "--json", "records"];
    let text = place.run(0, &[&words[..], &more].concat());
    let (_, table) = text.split_once("where the time goes under clwb, by caller\n").unwrap();
    let called = chain(&["/* stores */", "/* first word */"]);
    assert!(table.contains(&called), "{called}\n{text}");
    let read = |name: &str| fs::read_to_string(place.folder.path().join(name)).unwrap();
    let [flushes, recursive, deep] = ["/* flushes */", "/* recursive */", "/* deep */"]
        .map(|text| format!("helpers.c:{}", line_of("helpers.c", text)));
    let stack = format!("clwb;main;{deep};down;{recursive};persist;{flushes};");
    assert!(read("stacks").contains(&stack), "{stack}\n{}", read("stacks"));
    let callers = format!("{{\"callers\":[\"{recursive}\",\"{deep}\"],\"cycles\":");
    assert!(read("records").contains(&callers), "{callers}\n{}", read("records"));
}
