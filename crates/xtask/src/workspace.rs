//! What the chores know of the workspace: what cargo says of it, and paths in it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// A call of cargo in `folder`.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

/// What cargo says of the packages of the workspace around `folder`.
pub(crate) fn metadata(folder: &Path) -> Result<Value> {
    let output = cargo(folder)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")
}

/// The elements of a list; none of another value.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The path without `..`, where it does not leave the folder that it starts in.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part != Component::ParentDir || !plain.pop() {
            plain.push(part);
        }
    }
    plain
}
