//! What a shared object exports: names with versions, as the loader of programs sees them.

use crate::ClibError;
use object::elf::{FileHeader64, SHN_UNDEF, STB_LOCAL};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};
use std::path::Path;

/// An exported symbol. Ordered by name, then version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExportedSymbol {
    /// Its name.
    pub name: String,
    /// Its version, as in `LIBPMEM_1.0`; empty if it has none.
    pub version: String,
}

/// The symbols that the shared object at `path` exports, in order.
///
/// # Errors
/// When the file cannot be read, or is no shared object of 64 bits.
pub fn exports(path: &Path) -> Result<Vec<ExportedSymbol>, ClibError> {
    let name = || path.display().to_string();
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|source| ClibError::File { path: name(), source })?;
    let read = exported(&bytes);
    read.map_err(|error| ClibError::NotAnObject { path: name(), why: error.to_string() })
}

fn exported(bytes: &[u8]) -> object::Result<Vec<ExportedSymbol>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, bytes)?;
    let mut found = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        // The version itself is a symbol, too: an absolute one.
        let absolute = symbol.st_shndx(endian) == elf::SHN_ABS;
        if symbol.st_bind() == STB_LOCAL || symbol.st_shndx(endian) == SHN_UNDEF || absolute {
            continue;
        }
        let name = symbols.symbol_name(endian, symbol)?;
        let version = match &versions {
            None => None,
            Some(table) => table.version(table.version_index(endian, index))?,
        };
        found.push(ExportedSymbol {
            name: String::from_utf8_lossy(name).into_owned(),
            version: version.map_or_else(String::new, |version| {
                String::from_utf8_lossy(version.name()).into_owned()
            }),
        });
    }
    found.sort();
    Ok(found)
}
