//! The processes of programs that `seawall cc` has compiled.
//!
//! The command starts itself for each; here it is an interpreter that loads this module and nothing
//! else, so that a program runs on the same build as everything else of the package.

use crate::failure::Failure;
use pyo3::prelude::*;
use seawall_program::CheckLayout;
use std::path::{Path, PathBuf};

/// From now on this command starts such processes; it calls [`serve`] with the words behind it.
#[pyfunction]
pub(crate) fn serve_by(command: Vec<PathBuf>) {
    seawall_program::serve_by(command);
}

/// What a process of a program does, as the command line has it; it ends there.
#[pyfunction]
pub(crate) fn serve(words: Vec<String>) -> Result<(), Failure> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["program-process", folder] => seawall_program::serve(Path::new(folder)),
        ["program-check", image, entry, pool, ref more @ ..] => {
            let layout = CheckLayout { keeps_code: more == ["--keeps-code"] };
            seawall_program::check(Path::new(image), entry, Path::new(pool), layout)
        }
        ["program-folders", asker] if let Ok(asker) = asker.parse() => {
            seawall_program::keep_folders(asker)
        }
        _ => Err(Failure::new(format!("no process of a program is '{}'", words.join(" ")))),
    }
}
