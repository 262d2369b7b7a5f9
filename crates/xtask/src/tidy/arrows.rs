//! Which crate may use which: a new arrow is a decision, made here, and not an accident.

use super::Problem;
use crate::workspace::list;
use serde_json::Value;
use std::path::Path;

/// Each crate with those of ours that it may use; tests may use any.
const ARROWS: &[(&str, &[&str])] = &[
    ("memory", &[]),
    ("fiber", &[]),
    ("native", &["memory"]),
    ("derive", &[]),
    ("runtime", &["memory", "derive"]),
    ("sim", &["memory", "fiber"]),
    ("explore", &["memory", "fiber"]),
    ("corpus", &["memory", "explore"]),
    ("testkit", &["memory", "runtime"]),
    ("ribbon", &["memory", "runtime"]),
    ("collections", &["memory", "runtime"]),
    ("seawall", &["memory", "native", "runtime", "collections", "sim", "explore"]),
    ("workloads", &["memory", "runtime", "collections"]),
    ("report", &["native", "runtime"]),
    ("trace-reader", &[]),
    ("cc", &[]),
    ("clib", &[]),
    ("libpmem", &["memory", "native", "ribbon"]),
    ("program", &["cc", "memory", "fiber", "ribbon", "sim", "explore"]),
    ("any", &["memory", "native", "runtime", "ribbon", "sim", "explore", "workloads"]),
    (
        "lab",
        &[
            "memory",
            "native",
            "runtime",
            "collections",
            "ribbon",
            "workloads",
            "sim",
            "explore",
            "any",
            "corpus",
            "report",
            "cc",
            "program",
        ],
    ),
    ("cli", &["lab", "report", "cc", "program"]),
    ("python", &["seawall", "lab", "program", "report"]),
    ("lanes", &["memory", "native", "runtime"]),
    ("libpmemobj", &["lanes", "memory", "native", "runtime"]),
    ("libseawall", &["lanes", "memory", "native", "runtime", "collections"]),
    ("xtask", &["clib"]),
    ("bench-common", &[]),
    ("compare", &["bench-common", "clib", "memory", "native", "runtime", "collections"]),
    ("stores", &["bench-common", "seawall"]),
    ("fuzz", &["testkit"]),
];

/// Packages that are no members of the workspace, because they need more than Rust.
pub(super) const OUTSIDE: &[&str] =
    &["benches/common", "benches/compare", "benches/stores", "fuzz"];

const PREFIX: &str = "seawall-";
/// The facade has the name of the project.
const DOOR: &str = "seawall";

/// The first file of each target, from `root`.
pub(super) fn target_files(metadata: &Value, root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]) {
            let file = Path::new(target["src_path"].as_str().unwrap_or_default());
            files.push(file.strip_prefix(root).unwrap_or(file).display().to_string());
        }
    }
    files
}

/// The folder of each package, from `root`.
pub(super) fn folders(metadata: &Value, root: &Path) -> Vec<String> {
    let manifests = list(&metadata["packages"]).iter();
    let manifests = manifests.filter_map(|package| package["manifest_path"].as_str());
    let folders = manifests.filter_map(|manifest| Path::new(manifest).parent());
    folders
        .map(|folder| folder.strip_prefix(root).unwrap_or(folder).display().to_string())
        .collect()
}

/// Arrows that are not in the table, and crates that are not.
pub(super) fn check(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in list(&metadata["packages"]) {
        let Some(name) = ours(&package["name"]) else { continue };
        let is_its = |place: &&&str| Path::new(place).ends_with(name);
        let folder =
            OUTSIDE.iter().find(is_its).map_or(format!("crates/{name}"), |it| it.to_string());
        let file = format!("{folder}/Cargo.toml");
        let problem = |what: String| Problem { file: file.clone(), line: 0, what };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            problems.push(problem("a crate that the table of arrows does not know".into()));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let is_test = dependency["kind"] == "dev";
            if let Some(used) = ours(&dependency["name"]).filter(|_| !is_test)
                && !allowed.contains(&used)
            {
                problems.push(problem(format!("uses {used}; an arrow that is not in the table")));
            }
        }
    }
    problems
}

pub(super) fn ours(name: &Value) -> Option<&str> {
    let name = name.as_str()?;
    name.strip_prefix(PREFIX).or((name == DOOR).then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &str, kind: Value) -> Value {
        json!({"packages": [{
            "name": name,
            "dependencies": [{"name": uses, "kind": kind}],
            "targets": [{"src_path": "/w/crates/a/src/lib.rs"}],
            "manifest_path": "/w/crates/a/Cargo.toml",
        }]})
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_named() {
        let problems = check(&package("seawall-runtime", "seawall-sim", Value::Null));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].what.contains("uses sim"), "{problems:?}");
        assert_eq!(check(&package("seawall-runtime", "seawall-memory", Value::Null)), []);
        assert_eq!(check(&package("seawall-runtime", "seawall-sim", json!("dev"))), []);
        assert_eq!(check(&package("seawall-runtime", "serde", Value::Null)), []);
        assert_eq!(check(&package("seawall-new", "serde", Value::Null)).len(), 1);
    }

    #[test]
    fn files_of_targets_are_told_from_the_root() {
        let metadata = package("seawall-a", "serde", Value::Null);
        assert_eq!(target_files(&metadata, Path::new("/w")), ["crates/a/src/lib.rs"]);
        assert_eq!(folders(&metadata, Path::new("/w")), ["crates/a"]);
    }

    #[test]
    fn the_front_door_is_one_of_our_crates() {
        let problems = check(&package("seawall", "seawall-lab", Value::Null));
        assert!(problems.len() == 1 && problems[0].what.contains("uses lab"), "{problems:?}");
        assert_eq!(check(&package("seawall", "seawall-native", Value::Null)), []);
        let problems = check(&package("seawall-memory", "seawall", Value::Null));
        assert!(problems.len() == 1 && problems[0].what.contains("uses seawall"), "{problems:?}");
    }

    #[test]
    fn the_table_has_no_circle() {
        for (place, (name, uses)) in ARROWS.iter().enumerate() {
            for used in *uses {
                let at = ARROWS.iter().position(|(known, _)| known == used);
                assert!(at.is_some_and(|at| at < place), "{name} uses {used}, which comes later");
            }
        }
    }
}
