//! The libraries of others that seawall replaces: the one place that lists them.

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
    },
    LibraryEntry {
        name: "pmemobj",
        package: "seawall-libpmemobj",
        soname: "libpmemobj.so.1",
        version: "LIBPMEMOBJ_1.0",
        symbols: "crates/libpmemobj/symbols.txt",
        sources: &["crates/libpmemobj/src/shim.c"],
    },
];

impl LibraryEntry {
    /// The file name of the static library that cargo makes.
    pub fn archive(&self) -> String {
        format!("lib{}.a", self.package.replace('-', "_"))
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
