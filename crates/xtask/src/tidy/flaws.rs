//! Planted bugs stay out of what users build: nothing public names one without the feature
//! `flaws`, and only programs that are tested with them, and tests, enable that.

use super::arrows::ours;
use super::{Problem, Text};
use crate::workspace::list;
use serde_json::Value;

/// Who may enable the feature; tests may, too.
const PLANTERS: [&str; 2] = ["workloads", "testkit"];
const FEATURE: &str = "flaws";
const GATE: &str = "#[cfg(feature = \"flaws\")]";
/// The crates that have the feature.
const FLAWED: [&str; 3] = ["crates/runtime/src", "crates/collections/src", "crates/ribbon/src"];

/// Public items of a file that name a planted bug and do not stand behind the feature.
pub(super) fn check(text: &Text) -> Vec<Problem> {
    if !FLAWED.iter().any(|folder| text.file.starts_with(folder)) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.text.lines().map(str::trim_start).collect();
    let mut problems = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let names_one = line.starts_with("pub ") && line.to_lowercase().contains("flaw");
        if names_one && !is_gated(&lines[..at]) {
            let what = format!("public without {GATE}, and names a planted bug");
            problems.push(text.problem(at + 1, what));
        }
    }
    problems
}

/// True if the attributes and comments right before an item hold the gate.
fn is_gated(before: &[&str]) -> bool {
    let is_before = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
    before.iter().rev().take_while(is_before).any(|line| *line == GATE)
}

/// Packages that enable the feature for those who build them.
pub(super) fn check_manifests(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in list(&metadata["packages"]) {
        let Some(name) = ours(&package["name"]) else { continue };
        let by_dependency = list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .any(|dependency| enables(&dependency["features"]));
        let features = package["features"].as_object();
        let by_feature = features.is_some_and(|all| all.values().any(enables));
        if (by_dependency || by_feature) && !PLANTERS.contains(&name) {
            let file = format!("{name}/Cargo.toml");
            let what = format!("enables `{FEATURE}`: users would build planted bugs");
            problems.push(Problem { file, line: 0, what });
        }
    }
    problems
}

fn enables(features: &Value) -> bool {
    let names = list(features).iter().filter_map(Value::as_str);
    names.map(|name| name.rsplit('/').next()).any(|name| name == Some(FEATURE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines_of(file: &str, text: &str) -> Vec<usize> {
        let text = Text { file: file.into(), text: text.into() };
        check(&text).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_public_flaw_without_the_feature_is_named() {
        let file = "crates/runtime/src/heap.rs";
        assert_eq!(lines_of(file, "//! Why.\n\npub enum HeapFlaw {\n"), [3]);
        assert_eq!(lines_of(file, "    pub fn with_flaw(self) {\n"), [1]);
        assert_eq!(lines_of(file, &format!("{GATE}\n\npub use flaws::HeapFlaw;\n")), [3]);
        assert_eq!(lines_of("crates/lab/src/heap.rs", "pub enum Flaw {\n"), [0; 0]);
    }

    #[test]
    fn what_stands_behind_the_feature_or_is_not_public_may_name_flaws() {
        let file = "crates/ribbon/src/flaws.rs";
        let gated = format!("/// A bug.\n{GATE}\n#[derive(Clone)]\npub enum RibbonFlaw {{\n");
        assert_eq!(lines_of(file, &gated), [0; 0]);
        assert_eq!(lines_of(file, "pub(crate) enum RibbonFlaw {\nuse flaws::X;\n"), [0; 0]);
    }

    fn package(name: &str, features: Value, kind: Value, own: Value) -> Value {
        json!({"packages": [{
            "name": name,
            "features": own,
            "dependencies": [{"name": "seawall-runtime", "kind": kind, "features": features}],
        }]})
    }

    #[test]
    fn only_the_laboratory_and_tests_enable_them() {
        let with = || json!(["flaws"]);
        let bad = [
            package("seawall", with(), Value::Null, json!({})),
            package("seawall", json!([]), Value::Null, json!({"explore": ["a/flaws"]})),
            package("seawall-runtime", json!([]), Value::Null, json!({"default": ["flaws"]})),
        ];
        for metadata in bad {
            assert_eq!(check_manifests(&metadata).len(), 1, "{metadata}");
        }
        let good = [
            package("seawall", with(), json!("dev"), json!({})),
            package("seawall-workloads", with(), Value::Null, json!({})),
            package("seawall-runtime", json!([]), Value::Null, json!({"flaws": []})),
        ];
        for metadata in good {
            assert_eq!(check_manifests(&metadata), [], "{metadata}");
        }
    }
}
