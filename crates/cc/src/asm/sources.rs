//! The names of source files, as an assembler for tables of version 4 understands them.
//!
//! LLVM, and so rustc, gives folder and name of a file as two strings, which binutils takes in
//! tables of version 5 alone; and of those addr2line takes the first file for the second one.

use super::emit::Edit;
use super::scan::Statement;

/// One string in place of two.
pub(super) fn edits(statements: &[Statement<'_>]) -> Vec<Edit> {
    let edit = |statement| Some(Edit::instead_of(statement, joined(statement.text)?));
    statements.iter().filter_map(edit).collect()
}

fn joined(statement: &str) -> Option<String> {
    let rest = statement.strip_prefix(".file")?;
    let mut parts = rest.split('"');
    let (number, folder, between, name) =
        (parts.next()?.trim(), parts.next()?, parts.next()?, parts.next()?);
    let is_it = number.parse::<u32>().is_ok() && between.trim().is_empty();
    let folder = if name.starts_with('/') { "" } else { folder };
    let slash = if folder.is_empty() { "" } else { "/" };
    is_it.then(|| format!(".file\t{number} \"{folder}{slash}{name}\""))
}

#[cfg(test)]
mod tests {
    use crate::asm::instrument;

    #[test]
    fn a_folder_and_a_name_become_one_path() {
        for (given, expected) in [
            (".file\t2 \"/a b\" \"c.rs\"", ".file\t2 \"/a b/c.rs\""),
            (".file 3 \"/a\" \"/c.rs\" md5 0x5", ".file\t3 \"/c.rs\""),
            (".file 4 \"c.rs\"", ".file 4 \"c.rs\""),
            (".file \"c.c\"", ".file \"c.c\""),
        ] {
            assert_eq!(instrument(&format!("{given}\n")).unwrap(), format!("{expected}\n"));
        }
    }
}
