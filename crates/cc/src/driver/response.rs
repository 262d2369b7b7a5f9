//! Response files: a word `@file` stands for the words in the file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How deep files may name others; gcc's own bound is 2000 files.
const DEPTH_MAX: usize = 16;

/// The words with those of response files in their places. A word whose file cannot be read stands
/// for itself, as it does for gcc.
pub(super) fn expand(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut expanded = Vec::new();
    for word in words {
        push(word, &mut expanded, 0);
    }
    expanded
}

fn push(word: OsString, expanded: &mut Vec<OsString>, depth: usize) {
    let file = word.as_bytes().strip_prefix(b"@").filter(|_| depth < DEPTH_MAX);
    match file.and_then(|file| fs::read(OsStr::from_bytes(file)).ok()) {
        None => expanded.push(word),
        Some(text) => {
            for inner in split(&text) {
                push(inner, expanded, depth + 1);
            }
        }
    }
}

/// Words are parted by white space; quotes and backslashes keep it.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (byte, Some(open)) if byte == open => quote = None,
            (byte, Some(_)) => word.get_or_insert_default().push(byte),
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() || byte == 0x0b => {
                words.extend(word.take().map(OsString::from_vec));
            }
            (byte, None) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_white_space() {
        assert_eq!(split(b" a 'b c'\n\"d\\\"e\" f\\ g ''"), ["a", "b c", "d\"e", "f g", ""]);
    }

    #[test]
    fn files_may_name_files_and_missing_ones_stand_for_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("inner"), "-c x.c").unwrap();
        fs::write(path("outer"), format!("-O2 @{}", path("inner").display())).unwrap();
        let words = [format!("@{}", path("outer").display()), "@missing".into()];
        let words = expand(words.into_iter().map(OsString::from));
        assert_eq!(words, ["-O2", "-c", "x.c", "@missing"]);
    }
}
