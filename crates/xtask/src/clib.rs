//! Makes the libraries for C programs: `cargo run -p seawall-xtask -- c-libraries DIR`.
//!
//! The table in `seawall-clib` says which. They are built for release, and go into `DIR/lib`. For
//! those that programs are written for, headers, manual pages and the files of pkg-config and CMake
//! are beside it; with `--prefix PREFIX` they say that `DIR` will be there.

use crate::workspace::{cargo, metadata};
use anyhow::{Context, Result, bail};
use seawall_clib::{Installation, LIBRARIES, LibraryEntry, SharedLibrary};
use std::path::{Path, PathBuf};

/// Builds, links and installs all of them; prints where each one is.
pub(crate) fn run(folder: &Path, prefix: Option<&Path>) -> Result<()> {
    let metadata = metadata(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let path = |key: &str| metadata[key].as_str().map(PathBuf::from);
    let root = path("workspace_root").context("cargo names no workspace root")?;
    let target = path("target_directory").context("cargo names no folder for what it builds")?;
    let mut command = cargo(&root);
    command.args(["build", "--release", "--locked"]);
    for library in LIBRARIES {
        command.args(["-p", library.package]);
    }
    if !command.status().context("cannot run cargo build")?.success() {
        bail!("cargo build failed; its messages are above");
    }
    let folder = std::path::absolute(folder)?;
    let (built, lib) = (target.join("release"), folder.join("lib"));
    for entry in LIBRARIES {
        println!("{}", link(entry, &root, &built, &lib)?.display());
        let installation = Installation {
            entry,
            root: &root,
            archive: &built.join(entry.archive()),
            folder: &folder,
            prefix: prefix.unwrap_or(&folder),
        };
        let files = installation.install()?;
        let is_page = |path: &&PathBuf| path.starts_with(folder.join("share/man/man3"));
        files.iter().filter(|path| !is_page(path)).for_each(|path| println!("{}", path.display()));
    }
    println!("to run a program with them: LD_LIBRARY_PATH={} PROGRAM", lib.display());
    Ok(())
}

fn link(library: &LibraryEntry, root: &Path, built: &Path, folder: &Path) -> Result<PathBuf> {
    let list = root.join(library.symbols);
    let symbols = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let sources: Vec<PathBuf> = library.sources.iter().map(|source| root.join(source)).collect();
    let shared = SharedLibrary {
        archive: &built.join(library.archive()),
        sources: &sources,
        soname: library.soname,
        version: library.version,
        symbols: &symbols,
    };
    Ok(shared.link(folder)?)
}
