//! The assembly of a library and of all that it is made of, in one file.
//!
//! `seawall cc` makes code for the machines of seawall from assembly. With link-time optimisation
//! rustc writes all crates of a library as one module, and Rust's standard library too, so that
//! nothing but the C library is left that the machines do not see.

use crate::{ClibError, LibraryEntry, at};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The profile of cargo that the libraries for C programs are built with; also the name of the
/// folder that they are then in.
pub const PROFILE: &str = "c-libraries";

/// Builds the assembly of `library`, and its static library, with [`PROFILE`], in a folder that
/// cargo builds in. Gives the path of the assembly.
///
/// # Errors
/// When cargo is missing or fails.
pub fn assembly(library: &LibraryEntry, root: &Path, target: &Path) -> Result<PathBuf, ClibError> {
    let package = library.package;
    let path = target.join(format!("{package}.s"));
    // Cargo knows nothing of this file, and would not make it again.
    if !path.exists() {
        forget(target, package)?;
    }
    let mut emit = OsString::from("asm=");
    emit.push(&path);
    emit.push(",link");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["rustc", "--locked", "--lib", "--crate-type", "staticlib"]);
    command.args(["-p", package, "--profile", PROFILE, "--target-dir"]).arg(target);
    command.args(["--", "-C", "dwarf-version=4", "--emit"]).arg(emit);
    let done = command.output().map_err(at(Path::new("cargo")))?;
    if !done.status.success() {
        let says = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(ClibError::Assembly { package: package.to_owned(), says });
    }
    std::fs::metadata(&path).map_err(at(&path))?;
    Ok(path)
}

/// Makes cargo build a package again.
fn forget(target: &Path, package: &str) -> Result<(), ClibError> {
    let prints = target.join(PROFILE).join(".fingerprint");
    let Ok(entries) = std::fs::read_dir(&prints) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("{package}-")) {
            std::fs::remove_dir_all(entry.path()).map_err(at(&entry.path()))?;
        }
    }
    Ok(())
}
