//! Makes the libraries for C programs: `cargo run -p seawall-xtask -- c-libraries DIR`.
//!
//! The table in `seawall-clib` says which. They are built for release, and go into `DIR/lib`. For
//! those that programs are written for, headers, manual pages and the files of pkg-config and CMake
//! are beside it; with `--prefix PREFIX` they say that `DIR` will be there. With `--machines` the
//! shared objects have code for the machines of seawall, too, as what `seawall cc` compiles.

use crate::workspace::{cargo, metadata};
use anyhow::{Context, Result, bail};
use seawall_clib::{Installation, LIBRARIES, LibraryCode, LibraryEntry, PROFILE, assembly};
use std::path::{Path, PathBuf};

/// What is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Made<'a> {
    folder: &'a Path,
    prefix: Option<&'a Path>,
    for_machines: bool,
}

impl<'a> Made<'a> {
    /// Reads what follows the folder; nothing if it makes no sense.
    pub(crate) fn of(folder: &'a str, mut options: &'a [&'a str]) -> Option<Made<'a>> {
        let mut made = Made { folder: Path::new(folder), prefix: None, for_machines: false };
        loop {
            options = match options {
                [] => return Some(made),
                ["--machines", rest @ ..] => {
                    made.for_machines = true;
                    rest
                }
                ["--prefix", prefix, rest @ ..] => {
                    made.prefix = Some(Path::new(prefix));
                    rest
                }
                _ => return None,
            }
        }
    }

    /// Builds, links and installs all of them; prints where each one is.
    pub(crate) fn run(&self) -> Result<()> {
        let metadata = metadata(Path::new(env!("CARGO_MANIFEST_DIR")))?;
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from);
        let root = path("workspace_root").context("cargo names no workspace root")?;
        let target =
            path("target_directory").context("cargo names no folder for what it builds")?;
        self.build(&root)?;
        let folder = std::path::absolute(self.folder)?;
        let (built, lib) = (target.join(PROFILE), folder.join("lib"));
        for entry in LIBRARIES {
            let archive = built.join(entry.archive());
            println!("{}", self.link(entry, &root, &target, &archive, &lib)?.display());
            let installation = Installation {
                entry,
                root: &root,
                archive: &archive,
                folder: &folder,
                prefix: self.prefix.unwrap_or(&folder),
            };
            let files = installation.install()?;
            let pages = folder.join("share/man/man3");
            let shown = files.iter().filter(|path| !path.starts_with(&pages));
            shown.for_each(|path| println!("{}", path.display()));
        }
        println!("to run a program with them: LD_LIBRARY_PATH={} PROGRAM", lib.display());
        Ok(())
    }

    fn build(&self, root: &Path) -> Result<()> {
        let mut command = cargo(root);
        command.args(["build", "--locked"]);
        if self.for_machines {
            // The libraries are built with their assembly.
            command.args(["--release", "-p", "seawall-cli"]);
        } else {
            command.args(["--profile", PROFILE]);
            command.args(LIBRARIES.iter().flat_map(|library| ["-p", library.package]));
        }
        match command.status().context("cannot run cargo build")?.success() {
            true => Ok(()),
            false => bail!("cargo build failed; its messages are above"),
        }
    }

    fn link(
        &self,
        entry: &LibraryEntry,
        root: &Path,
        target: &Path,
        archive: &Path,
        lib: &Path,
    ) -> Result<PathBuf> {
        if !self.for_machines {
            return Ok(entry.link(root, LibraryCode::Archive(archive), lib)?);
        }
        eprintln!("building the assembly of {} ..", entry.soname);
        let file = assembly(entry, root, target)?;
        let seawall = target.join("release/seawall");
        let code = LibraryCode::Assembly { file: &file, seawall: &seawall };
        Ok(entry.link(root, code, lib)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_libraries_come_in_any_order() {
        let (folder, prefix) = (Path::new("out"), Some(Path::new("/usr")));
        let made = Made { folder, prefix, for_machines: true };
        assert_eq!(Made::of("out", &["--machines", "--prefix", "/usr"]).as_ref(), Some(&made));
        assert_eq!(Made::of("out", &["--prefix", "/usr", "--machines"]), Some(made));
        let plain = Made { folder, prefix: None, for_machines: false };
        assert_eq!(Made::of("out", &[]), Some(plain));
        assert_eq!(Made::of("out", &["--prefix"]), None);
        assert_eq!(Made::of("out", &["--machine"]), None);
    }
}
