//! Tells the command and the Python package which commit they are built from, as
//! `SEAWALL_VERSION`: the release, `+`, the commit, and `.changed` if files of the checkout differ
//! from it. Outside of a checkout, or without git, it is the release alone.

use std::process::Command;

fn main() {
    // Also where there is no checkout: else cargo would look at all files of the package.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let mut version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let describe = ["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=.changed"];
    if let Some(commit) = git(&describe) {
        version = format!("{version}+{commit}");
        // All that is compiled, and the list of what HEAD has been.
        println!("cargo::rerun-if-changed=../../crates");
        if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    println!("cargo::rustc-env=SEAWALL_VERSION={version}");
}

/// What git prints, if it is there and succeeds.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
