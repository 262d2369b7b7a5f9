//! The section `.seawall` of objects, libraries and programs, and what is in it.
//!
//! In an object it has the flag `SHF_EXCLUDE`: whoever links the object drops it, and `ar`, `strip`
//! and `ld -r` keep it. In a library or program nothing loads it, and `strip` keeps it as it keeps
//! `.comment`. It is added behind all that the file holds, so that not a byte of the native code
//! moves; only the table of sections is new.
//!
//! The section holds one record, or several after `ld -r`: a line `seawall-cc 3 HEAD BODY` with two
//! lengths in bytes, a head of lines, and as its body the instrumented code, an ELF file:
//!
//! ```text
//! opaque NAME     a part of the body that is not instrumented
//! error TEXT      there is no body, and this is why
//! ```

use super::error::CcError;
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, FileHeader, SectionHeader};
use object::read::{Object, ObjectSection, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// A 64-bit file of this machine.
pub(crate) type Elf<'data, R> = ElfFile<'data, FileHeader64<LittleEndian>, R>;

pub(crate) const NAME: &str = ".seawall";

/// The version of the record, and of the page that its code calls.
const VERSION: u32 = 3;
const MAGIC: &str = "seawall-cc ";

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Instrumented code.
    Code {
        /// Parts that are not instrumented.
        opaque: Vec<String>,
        /// An ELF file.
        body: Vec<u8>,
    },
    /// Why there is none.
    Error(String),
}

impl Record {
    /// The bytes of the section.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (head, body) = match self {
            Record::Code { opaque, body } => {
                let lines = opaque.iter().map(|name| format!("opaque {}\n", one_line(name)));
                (lines.collect::<String>(), body.as_slice())
            }
            Record::Error(text) => {
                let lines = text.lines().map(|line| format!("error {line}\n"));
                (lines.collect::<String>(), &[][..])
            }
        };
        let bytes = format!("{MAGIC}{VERSION} {} {}\n{head}", head.len(), body.len());
        [bytes.as_bytes(), body].concat()
    }

    /// All records of a section; `None` if it was written by another version.
    pub(crate) fn decode_all(mut bytes: &[u8]) -> Option<Vec<Record>> {
        let mut records = Vec::new();
        while let Some(start) = bytes.iter().position(|byte| *byte != 0) {
            let (record, rest) = Self::decode(&bytes[start..])?;
            records.push(record);
            bytes = rest;
        }
        Some(records)
    }

    fn decode(bytes: &[u8]) -> Option<(Record, &[u8])> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?.strip_prefix(MAGIC)?;
        let mut words = line.split(' ');
        if words.next()?.parse() != Ok(VERSION) {
            return None;
        }
        let head_bytes: usize = words.next()?.parse().ok()?;
        let body_bytes: usize = words.next()?.parse().ok()?;
        let (head, rest) = bytes[end + 1..].split_at_checked(head_bytes)?;
        let (body, rest) = rest.split_at_checked(body_bytes)?;
        let head = String::from_utf8_lossy(head);
        let with = |name: &str| -> Vec<String> {
            let lines = head.lines().filter_map(|line| line.strip_prefix(name));
            lines.map(|line| line.trim_start_matches(' ').to_owned()).collect()
        };
        let record = match head.contains("error ") && body.is_empty() {
            true => Record::Error(with("error").join("\n")),
            false => Record::Code { opaque: with("opaque"), body: body.to_vec() },
        };
        Some((record, rest))
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// What an ELF file has in its section; nothing if it has none, or is no ELF file of this machine.
pub(crate) fn records<'data, R: ReadRef<'data>>(
    data: R,
    path: &Path,
) -> Result<Option<Vec<Record>>, CcError> {
    let Ok(elf) = Elf::parse(data) else { return Ok(None) };
    let Some(section) = elf.section_by_name(NAME) else { return Ok(None) };
    let bytes = section.data().map_err(|_| CcError::OtherVersion(path.to_owned()))?;
    let records = Record::decode_all(bytes);
    let records = records.ok_or_else(|| CcError::OtherVersion(path.to_owned()))?;
    Ok(Some(records).filter(|records| !records.is_empty()))
}

/// As [`records`], of a file of which only the tables and the section are read.
pub(crate) fn records_of(path: &Path) -> Result<Option<Vec<Record>>, CcError> {
    let file = File::open(path).map_err(CcError::file(path))?;
    records(&ReadCache::new(file), path)
}

/// Whether the section is for an object, which is linked further, or for what is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A linker drops the section.
    Object,
    /// The section stays.
    Image,
}

/// The file with this section behind it, or in the place of the one that it has; `None` if it is no
/// ELF file of this machine.
pub(crate) fn attach(file: &[u8], section: &[u8], holder: Holder) -> Option<Vec<u8>> {
    let endian = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    if header.endian().ok()? != endian || header.e_machine(endian) != object::elf::EM_X86_64 {
        return None;
    }
    let headers = header.section_headers(endian, file).ok()?;
    let names_index = header.shstrndx(endian, file).ok()? as usize;
    let names = headers.get(names_index)?.data(endian, file).ok()?;
    let table_start = header.e_shoff(endian) as usize;
    let mut table = file.get(table_start..table_start + headers.len() * ENTRY)?.to_vec();
    let mut out = file.to_vec();
    let mut append = |bytes: &[u8]| -> (u64, u64) {
        out.resize(out.len().next_multiple_of(16), 0);
        out.extend_from_slice(bytes);
        ((out.len() - bytes.len()) as u64, bytes.len() as u64)
    };
    let (start, bytes) = append(section);
    let named = |name: u32| names.get(name as usize..).unwrap_or_default();
    let old = headers
        .iter()
        .position(|one| named(one.sh_name(endian)).starts_with(format!("{NAME}\0").as_bytes()));
    let name = match old {
        Some(old) => headers[old].sh_name(endian),
        None => {
            let longer = [names, NAME.as_bytes(), &[0]].concat();
            let (start, bytes) = append(&longer);
            put(&mut table, names_index, OFFSET, &start.to_le_bytes());
            put(&mut table, names_index, SIZE, &bytes.to_le_bytes());
            names.len() as u32
        }
    };
    let index = old.unwrap_or(headers.len());
    table.resize(table.len().max((index + 1) * ENTRY), 0);
    let flags = if holder == Holder::Object { object::elf::SHF_EXCLUDE } else { 0 };
    put(&mut table, index, 0, &name.to_le_bytes());
    put(&mut table, index, KIND, &object::elf::SHT_PROGBITS.to_le_bytes());
    put(&mut table, index, FLAGS, &u64::from(flags).to_le_bytes());
    put(&mut table, index, OFFSET, &start.to_le_bytes());
    put(&mut table, index, SIZE, &bytes.to_le_bytes());
    put(&mut table, index, ALIGNMENT, &1u64.to_le_bytes());
    let count = table.len() / ENTRY;
    // A count that does not fit into the header is the size of the first section.
    let short = if count < usize::from(object::elf::SHN_LORESERVE) { count as u16 } else { 0 };
    if short == 0 {
        put(&mut table, 0, SIZE, &(count as u64).to_le_bytes());
    }
    let (table_start, _) = append(&table);
    out[TABLE..TABLE + 8].copy_from_slice(&table_start.to_le_bytes());
    out[COUNT..COUNT + 2].copy_from_slice(&short.to_le_bytes());
    Some(out)
}

/// Bytes of an entry of the table of sections, and where its fields are.
const ENTRY: usize = 64;
const KIND: usize = 4;
const FLAGS: usize = 8;
const OFFSET: usize = 24;
const SIZE: usize = 32;
const ALIGNMENT: usize = 48;
/// In the header of the file: where the table is, and how many entries it has.
const TABLE: usize = 40;
const COUNT: usize = 60;

fn put(table: &mut [u8], index: usize, field: usize, value: &[u8]) {
    let at = index * ENTRY + field;
    table[at..at + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> Record {
        Record::Code { opaque: vec!["a.o".into(), "libb.a(c.o)".into()], body: b"\x7fELF".into() }
    }

    #[test]
    fn records_follow_each_other() {
        let error = Record::Error("a.c: no\nreally".into());
        let bare = Record::Code { opaque: Vec::new(), body: vec![1] };
        let bytes = [code().encode(), vec![0; 3], error.encode(), bare.encode()].concat();
        assert_eq!(Record::decode_all(&bytes), Some(vec![code(), error, bare]));
    }

    #[test]
    fn records_of_other_versions_and_broken_ones_are_refused() {
        let text = code().encode();
        let other = [b"seawall-cc 2".as_slice(), &text[12..]].concat();
        assert_eq!(Record::decode_all(&other), None);
        assert_eq!(Record::decode_all(&text[..text.len() - 1]), None);
        assert_eq!(Record::decode_all(b"\x7fELF"), None);
    }

    #[test]
    fn a_section_is_added_and_replaced_without_moving_anything() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = Path::new("test");
        assert_eq!(records(file.as_slice(), path).unwrap(), None);
        let once = attach(&file, &Record::Error("x".into()).encode(), Holder::Object).unwrap();
        let twice = attach(&once, &code().encode(), Holder::Image).unwrap();
        assert_eq!(twice[64..file.len()], file[64..]);
        assert_eq!(records(twice.as_slice(), path).unwrap(), Some(vec![code()]));
        assert!(attach(b"#!/bin/sh", b"", Holder::Image).is_none());
    }
}
