//! Packages the crates that are published, in the order in which a registry can take them.
//!
//! A crate may use only what was published before it; a dependency of its tests has a path and no
//! version, so that cargo drops it from the package (tests may go in circles). A package holds all
//! that its sources include: machines and litmus files come through links into the folder of the
//! crate. Nothing is uploaded.

use crate::workspace::{cargo, list, metadata, plain};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A crate that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    folder: PathBuf,
    /// Those of ours that it needs from the registry.
    needs: Vec<String>,
    /// What its manifest lacks or has too much.
    faults: Vec<String>,
}

/// Packages each crate, prints the order, and returns whether nothing is missing.
pub(crate) fn run() -> Result<bool> {
    let members = in_order(members(&metadata(Path::new(HERE))?))?;
    let mut command = cargo(Path::new(HERE));
    command.args(["package", "--no-verify", "--offline", "--allow-dirty", "--quiet"]);
    for member in &members {
        command.args(["-p", &member.name]);
    }
    if !command.status().context("cannot run cargo package")?.success() {
        bail!("cargo package failed; its messages are above");
    }
    let mut is_whole = true;
    for (place, member) in members.iter().enumerate() {
        let files = listed(member)?;
        let mut faults = member.faults.clone();
        for file in files.iter().filter(|file| file.ends_with(".rs")) {
            let text = std::fs::read_to_string(member.folder.join(file));
            let text = text.with_context(|| format!("cannot read {file} of {}", member.name))?;
            faults.extend(missing(file, &text, &files));
        }
        let licences = ["LICENSE-APACHE", "LICENSE-MIT"].iter();
        let absent = licences.filter(|licence| !files.contains(**licence));
        faults
            .extend(absent.map(|licence| format!("it has no {licence}: link to that of the root")));
        println!("{:2} {} ({} files)", place + 1, member.name, files.len());
        for fault in &faults {
            println!("   {fault}");
        }
        is_whole &= faults.is_empty();
    }
    Ok(is_whole)
}

/// The published members of the workspace.
fn members(metadata: &Value) -> Vec<Member> {
    let packages = list(&metadata["packages"]).iter();
    packages.filter(|package| package["publish"].is_null()).map(member).collect()
}

fn member(package: &Value) -> Member {
    let name = package["name"].as_str().unwrap_or_default().to_owned();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().unwrap_or(manifest).to_path_buf();
    let (mut needs, mut faults) = (Vec::new(), Vec::new());
    for field in ["description", "license", "readme"] {
        if package[field].is_null() {
            faults.push(format!("its manifest has no {field}"));
        }
    }
    for field in ["keywords", "categories"] {
        if list(&package[field]).is_empty() {
            faults.push(format!("its manifest has no {field}"));
        }
    }
    for dependency in list(&package["dependencies"]).iter().filter(|of| !of["path"].is_null()) {
        let used = dependency["name"].as_str().unwrap_or_default().to_owned();
        let has_version = dependency["req"] != "*";
        match (dependency["kind"] == "dev", has_version) {
            (false, true) => needs.push(used),
            (false, false) => faults.push(format!("{used} needs a version, not only a path")),
            (true, true) => faults.push(format!("{used}, of its tests, must have no version")),
            (true, false) => {}
        }
    }
    Member { name, folder, needs, faults }
}

/// Each crate behind those that it needs.
fn in_order(mut open: Vec<Member>) -> Result<Vec<Member>> {
    let mut done: Vec<Member> = Vec::new();
    while !open.is_empty() {
        let has = |name: &String| done.iter().any(|member| member.name == *name);
        let next = open.iter().position(|member| member.needs.iter().all(has));
        let Some(next) = next else {
            let names: Vec<&str> = open.iter().map(|member| member.name.as_str()).collect();
            bail!("{}: they need each other, or what is not published", names.join(", "));
        };
        done.push(open.remove(next));
    }
    Ok(done)
}

/// The files of its package, from its folder.
fn listed(member: &Member) -> Result<BTreeSet<String>> {
    let output = cargo(Path::new(HERE))
        .args(["package", "--list", "--offline", "--allow-dirty", "-p", &member.name])
        .output()
        .context("cannot run cargo package")?;
    if !output.status.success() {
        bail!("{}: {}", member.name, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The files or folders that `file` includes and the package lacks.
fn missing(file: &str, text: &str, files: &BTreeSet<String>) -> Vec<String> {
    let beside = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut faults = Vec::new();
    for macro_name in ["include_str!", "include_bytes!", "include!"] {
        for rest in text.split(macro_name).skip(1) {
            let Some(start) = rest.trim_start().strip_prefix('(') else { continue };
            let Some(quoted) = start.split('"').nth(1) else { continue };
            let wanted = plain(&beside.join(quoted));
            let is_there = match quoted.ends_with('/') {
                true => files.iter().any(|file| Path::new(file).starts_with(&wanted)),
                false => files.iter().any(|file| Path::new(file) == wanted),
            };
            if !is_there {
                faults.push(format!("{file} includes {quoted}, which is not in the package"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: Value) -> Value {
        json!({
            "name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "publish": null,
            "description": "d", "license": "MIT", "readme": "r", "keywords": ["k"],
            "categories": ["c"], "dependencies": dependencies,
        })
    }

    fn uses(name: &str, kind: Value, req: &str) -> Value {
        json!({"name": name, "path": "/w", "kind": kind, "req": req})
    }

    fn names(members: &[Member]) -> Vec<&str> {
        members.iter().map(|member| member.name.as_str()).collect()
    }

    #[test]
    fn a_crate_comes_behind_those_that_it_needs_and_unpublished_ones_do_not_come() {
        let mut tool = package("tool", json!([]));
        tool["publish"] = json!([]);
        let top = package("top", json!([uses("base", Value::Null, "^0.1.0")]));
        let metadata = json!({"packages": [top, tool, package("base", json!([]))]});
        assert_eq!(names(&in_order(members(&metadata)).unwrap()), ["base", "top"]);
    }

    #[test]
    fn the_manifests_of_this_workspace_can_be_published() {
        let members = in_order(members(&metadata(Path::new(HERE)).unwrap())).unwrap();
        assert!(names(&members).contains(&"seawall"), "{:?}", names(&members));
        for member in members {
            assert_eq!(member.faults, [""; 0], "{}", member.name);
        }
    }

    #[test]
    fn a_crate_that_needs_an_unpublished_one_is_named() {
        let top = package("top", json!([uses("tool", Value::Null, "^0.1.0")]));
        let error = in_order(vec![member(&top)]).unwrap_err().to_string();
        assert!(error.contains("top"), "{error}");
    }

    #[test]
    fn versions_are_on_dependencies_and_not_on_those_of_tests() {
        let faults = |of| member(&package("a", json!([of]))).faults;
        assert_eq!(faults(uses("b", Value::Null, "^0.1.0")), [""; 0]);
        assert_eq!(faults(uses("b", json!("dev"), "*")), [""; 0]);
        assert_eq!(faults(uses("b", Value::Null, "*")).len(), 1);
        assert_eq!(faults(uses("b", json!("dev"), "^0.1.0")).len(), 1);
    }

    #[test]
    fn a_manifest_without_a_readme_is_named() {
        let mut package = package("a", json!([]));
        package["readme"] = Value::Null;
        assert_eq!(member(&package).faults, ["its manifest has no readme"]);
    }

    #[test]
    fn what_a_source_includes_must_be_in_the_package() {
        let files = BTreeSet::from(["machines/one.toml".to_owned(), "src/a.rs".to_owned()]);
        let missing = |text: &str| missing("src/a.rs", text, &files).len();
        assert_eq!(missing("include_str!(\"../machines/one.toml\")"), 0);
        assert_eq!(missing("include_str!(concat!(\n    \"../machines/\", name))"), 0);
        assert_eq!(missing("include_str!(\"../machines/two.toml\")"), 1);
        assert_eq!(missing("include_bytes!(\"../../machines/one.toml\")"), 1);
        assert_eq!(missing("include_str!(concat!(\"../litmus/\", name))"), 1);
    }
}
