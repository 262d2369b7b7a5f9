//! `seawall.h`, where every compiler finds it: behind the folders that the user names.

use super::support::{cache_folder, put_whole};
use std::env;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

const HEADER: &str = include_str!("../../include/seawall.h");

/// The variable that gcc and clang read folders of headers from.
pub(super) const VARIABLE: &str = "CPATH";

/// The value of the variable; `None` if there is nowhere to put the header.
pub(super) fn path() -> Option<OsString> {
    let folder = folder()?;
    Some(match env::var_os(VARIABLE).filter(|folders| !folders.is_empty()) {
        Some(mut folders) => {
            folders.push(":");
            folders.push(folder);
            folders
        }
        None => folder.into(),
    })
}

/// The folder with the header, which is made once.
fn folder() -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    HEADER.hash(&mut hasher);
    let folder = cache_folder()?.join(format!("include-{:016x}", hasher.finish()));
    let header = folder.join("seawall.h");
    if !header.is_file() {
        put_whole(&mut HEADER.as_bytes(), &header).ok()?;
    }
    Some(folder)
}
