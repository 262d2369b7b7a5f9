//! Where libraries are found: when a program is linked, and when it is run.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders that every compiler of x86-64 Linux searches, and the loader, too.
const USUAL: [&str; 7] = [
    "/usr/local/lib/x86_64-linux-gnu",
    "/usr/local/lib64",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// The folders of a variable such as `LIBRARY_PATH`, and then the usual ones.
pub(crate) fn folders_after(variable: &str) -> Vec<PathBuf> {
    let named = env::var_os(variable).unwrap_or_default();
    let named = env::split_paths(&named).filter(|folder| !folder.as_os_str().is_empty());
    named.chain(USUAL.iter().map(PathBuf::from)).collect()
}

/// The file that `-lname` or `-l:file` means in these folders.
pub(super) fn find(name: &OsStr, folders: &[PathBuf], is_static: bool) -> Option<PathBuf> {
    let files: Vec<Vec<u8>> = match name.as_bytes().strip_prefix(b":") {
        Some(file) => vec![file.to_vec()],
        None => {
            let endings: &[&str] = if is_static { &[".a"] } else { &[".so", ".a"] };
            let file = |ending: &&str| [b"lib", name.as_bytes(), ending.as_bytes()].concat();
            endings.iter().map(file).collect()
        }
    };
    let mut paths = folders
        .iter()
        .flat_map(|folder| files.iter().map(move |file| folder.join(OsStr::from_bytes(file))));
    paths.find(|path| path.is_file())
}

/// True for what the compiler itself comes with, and the C library: no part of a program.
pub(crate) fn is_of_the_system(soname: &str) -> bool {
    const NAMES: [&str; 13] = [
        "libc",
        "libm",
        "libpthread",
        "libdl",
        "librt",
        "libutil",
        "libresolv",
        "libgcc_s",
        "libstdc++",
        "libatomic",
        "libmvec",
        "ld-linux-x86-64",
        "libc++",
    ];
    let base = Path::new(soname).file_name().and_then(OsStr::to_str).unwrap_or(soname);
    base.split_once(".so").is_some_and(|(name, _)| NAMES.contains(&name))
}

/// True for the libraries of compilers that start threads for OpenMP.
pub(crate) fn is_of_openmp(soname: &str) -> bool {
    let base = Path::new(soname).file_name().and_then(OsStr::to_str).unwrap_or(soname);
    base.split_once(".so")
        .is_some_and(|(name, _)| ["libgomp", "libomp", "libiomp5"].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn shared_libraries_come_first_unless_static_ones_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["libx.a", "libx.so", "liby.a"] {
            fs::write(path(name), "").unwrap();
        }
        let folders = [folder.path().join("none"), folder.path().to_owned()];
        let found = |name: &str, is_static| find(name.as_ref(), &folders, is_static);
        assert_eq!(found("x", false), Some(path("libx.so")));
        assert_eq!(found("x", true), Some(path("libx.a")));
        assert_eq!(found("y", false), Some(path("liby.a")));
        assert_eq!(found(":libx.a", false), Some(path("libx.a")));
        assert_eq!(found("z", false), None);
    }

    #[test]
    fn libraries_of_the_system_are_known_by_name() {
        assert!(is_of_the_system("libstdc++.so.6"));
        assert!(is_of_the_system("/lib64/ld-linux-x86-64.so.2"));
        assert!(!is_of_the_system("libcrypto.so.3"));
        assert!(is_of_openmp("libgomp.so.1") && !is_of_openmp("libm.so.6"));
    }
}
