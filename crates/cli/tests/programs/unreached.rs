//! What a run does not come to: `grows.c` has a table that grows when it is full.

use super::{Place, line_of, without_gcc};
use std::fs;

fn explored(place: &Place, count: u64) -> String {
    let run = format!("./grows run {{pool}} {count}");
    let words = ["explore", "--program", &run, "--check", "./grows check {pool}"];
    place.run(0, &[&words[..], &["--models", "px86", "--json", "record"]].concat())
}

#[test]
fn a_function_that_flushes_and_never_runs_is_named() {
    if without_gcc("a_function_that_flushes_and_never_runs_is_named") {
        return;
    }
    for level in ["-O0", "-O2"] {
        let place = Place::new();
        place.compile_with("grows.c", &["-g", "-mclwb", level]);
        let [grows, marks] = ["/* grows */", "/* marks */"].map(|text| line_of("grows.c", text));
        let what = "not tried, as no run stores, flushes or fences in them:";
        let text = explored(&place, 2);
        let named = format!("  {what} grow (grows.c:{grows}), mark_full (grows.c:{marks})\n");
        assert!(text.contains("complete: "), "{text}");
        assert!(text.contains(&named), "{level}: {named}{text}");
        let record = fs::read_to_string(place.folder.path().join("record")).unwrap();
        let named = format!("{{\"function\":\"grow\",\"file\":\"grows.c\",\"line\":{grows}}}");
        assert!(record.contains(&named), "{level}: {named} {record}");
        let text = explored(&place, 5);
        let named = format!("  {what} mark_full (grows.c:{marks})\n");
        assert!(text.contains(&named), "{level}: {named}{text}");
        let text = explored(&place, 9);
        assert!(!text.contains(what), "{level}: {text}");
    }
}
