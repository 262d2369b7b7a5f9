//! The libraries that C programs load: the one place that lists them.

use crate::{ClibError, LibraryCode, SharedLibrary, at};
use std::fs;
use std::path::{Path, PathBuf};

/// A library that `cargo run -p seawall-xtask -- c-libraries` makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LibraryEntry {
    /// Its name, as in `-lpmem` without the dash and the l.
    pub name: &'static str,
    /// The package that is built as a static library.
    pub package: &'static str,
    /// What programs ask for.
    pub soname: &'static str,
    /// The version of all its symbols.
    pub version: &'static str,
    /// The list of its symbols, from the root of the workspace.
    pub symbols: &'static str,
    /// C sources that are linked with it, from the root of the workspace.
    pub sources: &'static [&'static str],
    /// What programs are built with. A library that takes another's place needs none: programs were
    /// built with the other's.
    pub development: Option<DevelopmentFiles>,
}

/// What programs are built with, from the root of the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DevelopmentFiles {
    /// What the library is, for pkg-config and CMake.
    pub description: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The name of the CMake package, and of the target in it.
    pub cmake: &'static str,
    /// The header of C: its comments are the manual pages of section 3.
    pub header: &'static str,
    /// Other headers.
    pub more_headers: &'static [&'static str],
    /// Manual pages that are written by hand.
    pub pages: &'static [&'static str],
}

/// All of them.
pub const LIBRARIES: &[LibraryEntry] = &[
    LibraryEntry {
        name: "pmem",
        package: "seawall-libpmem",
        soname: "libpmem.so.1",
        version: "LIBPMEM_1.0",
        symbols: "crates/libpmem/symbols.txt",
        sources: &[],
        development: None,
    },
    LibraryEntry {
        name: "pmemobj",
        package: "seawall-libpmemobj",
        soname: "libpmemobj.so.1",
        version: "LIBPMEMOBJ_1.0",
        symbols: "crates/libpmemobj/symbols.txt",
        sources: &["crates/libpmemobj/src/shim.c"],
        development: None,
    },
    LibraryEntry {
        name: "seawall",
        package: "seawall-libseawall",
        soname: "libseawall.so.0",
        version: "LIBSEAWALL_0.1",
        symbols: "crates/libseawall/symbols.txt",
        sources: &[],
        development: Some(DevelopmentFiles {
            description: "Persistent memory: pools, transactions and maps that survive crashes",
            version: env!("CARGO_PKG_VERSION"),
            cmake: "seawall",
            header: "crates/libseawall/include/libseawall.h",
            more_headers: &["crates/libseawall/include/libseawall.hpp"],
            pages: &["crates/libseawall/man/libseawall.7"],
        }),
    },
];

impl LibraryEntry {
    /// The file name of the static library that cargo makes.
    pub fn archive(&self) -> String {
        format!("lib{}.a", self.package.replace('-', "_"))
    }

    /// Links it in `folder`; `root` is the workspace. Gives its path.
    ///
    /// # Errors
    /// As [`SharedLibrary::link`].
    pub fn link(
        &self,
        root: &Path,
        code: LibraryCode<'_>,
        folder: &Path,
    ) -> Result<PathBuf, ClibError> {
        let list = root.join(self.symbols);
        let symbols = fs::read_to_string(&list).map_err(at(&list))?;
        let sources: Vec<PathBuf> = self.sources.iter().map(|file| root.join(file)).collect();
        let (soname, version) = (self.soname, self.version);
        SharedLibrary { code, sources: &sources, soname, version, symbols: &symbols }.link(folder)
    }

    /// The library called `name`.
    pub fn named(name: &str) -> Option<&'static LibraryEntry> {
        LIBRARIES.iter().find(|library| library.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_the_archive_is_what_cargo_calls_it() {
        for (place, library) in LIBRARIES.iter().enumerate() {
            let same = LIBRARIES.iter().position(|other| other.soname == library.soname);
            assert_eq!(same, Some(place));
            assert_eq!(LibraryEntry::named(library.name), Some(library));
        }
        assert_eq!(LibraryEntry::named("pmem").unwrap().archive(), "libseawall_libpmem.a");
        assert_eq!(LibraryEntry::named("nothing"), None);
    }
}
