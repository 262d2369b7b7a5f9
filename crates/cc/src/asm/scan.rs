//! The text of an assembly file as statements that know where they stand, so that everything else
//! edits by offset and leaves the rest of the text as it was.

use super::instruction::{Prefixes, word};

/// One statement: labels with at most one instruction or directive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'a> {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Where `text` starts in the file, in bytes.
    pub(crate) start: usize,
    /// Trimmed, without comments, never empty.
    pub(crate) text: &'a str,
    /// Whether it comes from an `asm` of the user (between `#APP` and `#NO_APP`).
    pub(crate) inline: bool,
}

/// The same text, of the same length, with spaces in place of comments, and with the names of
/// instructions, directives and registers in lower case: the assembler takes either.
pub(crate) fn plain(assembly: &str) -> String {
    let bytes = assembly.as_bytes();
    let mut clean = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'\'' => at = character_end(bytes, at),
            b'#' => at = blank(&mut clean, at, line_end(bytes, at)),
            b'/' if bytes[at..].starts_with(b"/*") => {
                at = blank(&mut clean, at, comment_end(bytes, at));
            }
            _ => at += 1,
        }
    }
    let mut clean = String::from_utf8(clean).expect("whole characters are replaced by spaces");
    lower(&mut clean);
    clean
}

/// Brings what is of the assembler's own language to lower case; symbols and strings stay.
fn lower(text: &mut str) {
    let mut names = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        let end = start + line.len();
        if line.bytes().any(|byte| byte.is_ascii_uppercase()) {
            for (from, to) in pieces(text.as_bytes(), start, end) {
                own_names(&text[from..to], from, &mut names);
            }
        }
        start = end + 1;
    }
    for (from, to) in names {
        text[from..to].make_ascii_lowercase();
    }
}

/// Where the mnemonic, its prefixes and the registers of a statement stand that starts at `start`.
fn own_names(statement: &str, start: usize, names: &mut Vec<(usize, usize)>) {
    let mut rest = statement.trim_start();
    while let Some((_, after)) = label(rest) {
        rest = after;
    }
    let place = |rest: &str| start + statement.len() - rest.len();
    let mut is_prefix = true;
    while is_prefix && !rest.is_empty() {
        let (first, after) = word(rest);
        if after.starts_with('=') || first.contains(['=', '"']) {
            return;
        }
        names.push((place(rest), place(rest) + first.len()));
        is_prefix = Prefixes::default().take(&first.to_ascii_lowercase());
        rest = after;
    }
    let (bytes, mut at) = (statement.as_bytes(), statement.len() - rest.len());
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'\'' => at = character_end(bytes, at),
            b'%' => {
                let length = bytes[at + 1..].iter().take_while(|&&byte| is_name(byte)).count();
                names.push((start + at, start + at + 1 + length));
                at += 1 + length;
            }
            _ => at += 1,
        }
    }
}

fn blank(clean: &mut [u8], from: usize, to: usize) -> usize {
    for byte in &mut clean[from..to] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    to
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |n| from + n)
}

fn comment_end(bytes: &[u8], from: usize) -> usize {
    let end = bytes[from + 2..].windows(2).position(|pair| pair == b"*/");
    end.map_or(bytes.len(), |n| from + 2 + n + 2)
}

/// The end of the string that starts at `from`; a line ends it, too.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            b'\n' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character constant: `'a`, `'\n` and, with a closing quote, `'a'`.
fn character_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    if bytes.get(at) == Some(&b'\\') {
        at += 1;
    }
    if bytes.get(at).is_some_and(|&byte| byte.is_ascii() && byte != b'\n') {
        at += 1;
    }
    if bytes.get(at) == Some(&b'\'') {
        at += 1;
    }
    at.min(bytes.len())
}

/// The statements of a file; `clean` is its [plain] text.
pub(crate) fn statements<'a>(assembly: &str, clean: &'a str) -> Vec<Statement<'a>> {
    let mut found = Vec::new();
    let mut inline = false;
    let mut start = 0;
    for (number, raw) in assembly.split('\n').enumerate() {
        let mark = raw.trim_start();
        if mark.starts_with("#APP") {
            inline = true;
        } else if mark.starts_with("#NO_APP") {
            inline = false;
        }
        let end = start + raw.len();
        for (from, to) in pieces(clean.as_bytes(), start, end) {
            let piece = &clean[from..to];
            let text = piece.trim();
            if !text.is_empty() {
                let start = from + (piece.len() - piece.trim_start().len());
                found.push(Statement { line: number + 1, start, text, inline });
            }
        }
        start = end + 1;
    }
    found
}

/// The parts of a line between `;`.
fn pieces(bytes: &[u8], start: usize, end: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut from, mut at) = (start, start);
    while at < end {
        match bytes[at] {
            b'"' => at = string_end(bytes, at).min(end),
            b'\'' => at = character_end(bytes, at).min(end),
            b';' => {
                found.push((from, at));
                at += 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    found.push((from, end));
    found
}

/// Takes the label off the front of a statement.
pub(crate) fn label(text: &str) -> Option<(&str, &str)> {
    let length = if text.starts_with('"') {
        string_end(text.as_bytes(), 0)
    } else {
        text.bytes().position(|byte| !is_name(byte)).unwrap_or(text.len())
    };
    let rest = text[length..].trim_start().strip_prefix(':')?;
    (length > 0).then(|| (text[..length].trim_matches('"'), rest.trim_start()))
}

/// Whether a byte may be part of a symbol.
pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') || byte >= 0x80
}

/// The symbols in an expression or a list of operands.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$') || !c.is_ascii()))
        .map(|word| word.trim_start_matches('$'))
        .filter(|word| !word.is_empty())
}

/// Splits at commas that are in no parentheses, braces or quotes.
pub(crate) fn arguments(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut depth, mut from, mut at) = (0_i32, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'\'' => at = character_end(bytes, at),
            byte => {
                match byte {
                    b'(' | b'{' => depth += 1,
                    b')' | b'}' => depth -= 1,
                    b',' if depth == 0 => {
                        found.push(text[from..at].trim());
                        from = at + 1;
                    }
                    _ => {}
                }
                at += 1;
            }
        }
    }
    if !text.trim().is_empty() {
        found.push(text[from..].trim());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(assembly: &str) -> Vec<(usize, String)> {
        let clean = plain(assembly);
        let found = statements(assembly, &clean);
        for statement in &found {
            assert_eq!(
                clean[statement.start..][..statement.text.len()],
                *statement.text,
                "a statement knows its place"
            );
        }
        found.iter().map(|statement| (statement.line, statement.text.to_string())).collect()
    }

    #[test]
    fn comments_strings_and_semicolons_divide_statements() {
        let text =
            "a: nop # x; y\n\t.ascii \"a;#b\\\"\" ; /* one\ntwo; */ ret\n movb $'#, %al;hlt\n";
        let expected = [
            (1, "a: nop"),
            (2, ".ascii \"a;#b\\\"\""),
            (3, "ret"),
            (4, "movb $'#, %al"),
            (4, "hlt"),
        ];
        assert_eq!(texts(text), expected.map(|(line, text)| (line, text.to_string())));
    }

    #[test]
    fn what_is_the_assemblers_own_is_read_in_lower_case() {
        for (written, read) in [
            ("Loop: LOCK XADDQ %RAX, Count(%Rip)", "Loop: lock xaddq %rax, Count(%rip)"),
            ("\tREP MOVSB;CLWB (%RDI)", "\trep movsb;clwb (%rdi)"),
            (".ASCII \"A %B\"", ".ascii \"A %B\""),
            ("Name = VALUE", "Name = VALUE"),
            (".set Name, 'A", ".set Name, 'A"),
            ("JMP *Table(,%R8D,8)", "jmp *Table(,%r8d,8)"),
        ] {
            assert_eq!(plain(written), read);
        }
    }

    #[test]
    fn asm_of_the_user_is_marked() {
        let text = "nop\n#APP\n# 3 \"f.c\" 1\n\tpause\n#NO_APP\n\tret\n";
        let clean = plain(text);
        let marks: Vec<bool> =
            statements(text, &clean).iter().map(|statement| statement.inline).collect();
        assert_eq!(marks, [false, true, false]);
    }

    #[test]
    fn a_label_is_taken_off() {
        assert_eq!(label("1: nop"), Some(("1", "nop")));
        assert_eq!(label(".L2:"), Some((".L2", "")));
        assert_eq!(label("\"a b\": ret"), Some(("a b", "ret")));
        assert_eq!(label("movl %fs:0, %eax"), None);
    }

    #[test]
    fn arguments_keep_their_parentheses() {
        assert_eq!(arguments("8(%rax,%rbx,4), %rcx{%k1}"), ["8(%rax,%rbx,4)", "%rcx{%k1}"]);
        assert_eq!(arguments("$',', %al"), ["$','", "%al"]);
        assert!(arguments(" ").is_empty());
    }
}
