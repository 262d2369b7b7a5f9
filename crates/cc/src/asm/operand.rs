//! Operands in AT&T syntax.

use super::scan::{arguments, is_name};

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory<'a> {
    /// As `lea` takes it: without segment and decorations.
    pub(crate) text: &'a str,
    /// The segment register that is named, if any.
    pub(crate) segment: Option<&'a str>,
    /// What stands before the parentheses.
    pub(crate) displacement: &'a str,
    pub(crate) base: Option<&'a str>,
    pub(crate) index: Option<&'a str>,
    /// The `n` of `{1ton}`.
    pub(crate) broadcast: Option<u16>,
}

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand<'a> {
    Immediate(&'a str),
    /// The name of the register, without `%`.
    Register(&'a str),
    Memory(Memory<'a>),
    /// Rounding and the like: `{sae}`.
    Mark,
}

impl<'a> Operand<'a> {
    pub(crate) fn register(&self) -> Option<&'a str> {
        match self {
            Operand::Register(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn memory(&self) -> Option<&Memory<'a>> {
        match self {
            Operand::Memory(memory) => Some(memory),
            _ => None,
        }
    }
}

/// Reads a list of operands.
pub(crate) fn operands(text: &str) -> Vec<Operand<'_>> {
    arguments(text).into_iter().map(operand).collect()
}

fn operand(text: &str) -> Operand<'_> {
    if let Some(value) = text.strip_prefix('$') {
        return Operand::Immediate(value.trim());
    }
    let (plain, broadcast) = undecorated(text);
    if plain.is_empty() {
        return Operand::Mark;
    }
    let Some(name) = plain.strip_prefix('%') else {
        return Operand::Memory(memory(plain, None, broadcast));
    };
    match name.split_once(':') {
        Some((segment, rest)) => {
            Operand::Memory(memory(rest.trim(), Some(segment.trim()), broadcast))
        }
        None => Operand::Register(name.trim()),
    }
}

/// The operand without `{..}` at its end, and the number of a broadcast.
fn undecorated(text: &str) -> (&str, Option<u16>) {
    let Some(at) = text.find('{') else { return (text, None) };
    let broadcast = text[at..].split_once("{1to").and_then(|(_, rest)| rest.split_once('}'));
    (text[..at].trim(), broadcast.and_then(|(number, _)| number.trim().parse().ok()))
}

fn memory<'a>(text: &'a str, segment: Option<&'a str>, broadcast: Option<u16>) -> Memory<'a> {
    let none = Memory { text, segment, displacement: text, base: None, index: None, broadcast };
    let Some(open) = text.rfind('(').filter(|_| text.ends_with(')')) else { return none };
    let inside = text[open + 1..text.len() - 1].trim();
    if !inside.starts_with(['%', ',']) {
        return none;
    }
    let mut parts = inside.split(',').map(|part| part.trim().strip_prefix('%').map(str::trim));
    let base = parts.next().flatten();
    let index = parts.next().flatten().filter(|&index| index != "riz" && index != "eiz");
    Memory { text, segment, displacement: text[..open].trim(), base, index, broadcast }
}

impl<'a> Memory<'a> {
    /// Whether the linker may turn the instruction into one without this load: what is loaded is
    /// an entry of the global offset table, or part of a call for a thread-local address.
    pub(crate) fn is_linkers(&self) -> bool {
        let Some((_, kind)) = self.displacement.split_once('@') else { return false };
        let kind = kind.to_ascii_lowercase();
        ["gotpcrel", "gottpoff", "tlsgd", "tlsld", "tlsdesc", "tlscall"]
            .iter()
            .any(|name| kind.starts_with(name))
    }

    /// Whether it is a fixed place of the thread's control block, such as `%fs:40`.
    pub(crate) fn is_thread_block(&self) -> bool {
        self.segment == Some("fs")
            && self.base.is_none()
            && self.index.is_none()
            && number(self.displacement).is_some()
    }

    /// Whether the displacement is known to be below 0.
    pub(crate) fn is_below(&self) -> bool {
        self.displacement.starts_with('-')
    }

    /// Whether the displacement names the place of the instruction itself (`.+5`).
    pub(crate) fn names_place(&self) -> bool {
        let bytes = self.displacement.as_bytes();
        (0..bytes.len()).any(|at| {
            bytes[at] == b'.'
                && (at == 0 || !is_name(bytes[at - 1]))
                && bytes.get(at + 1).is_none_or(|&next| !is_name(next))
        })
    }
}

/// A number as the assembler reads it.
pub(crate) fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let value = match lower.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
        None if lower.len() > 1 && lower.starts_with('0') => i64::from_str_radix(&lower, 8).ok()?,
        None => lower.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

/// The bytes of a general register, and its number among the sixteen.
pub(crate) fn general(name: &str) -> Option<(u16, u8)> {
    const LEGACY: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    const LOW: [&str; 8] = ["al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"];
    const HIGH: [&str; 4] = ["ah", "ch", "dh", "bh"];
    let place = |names: &[&str], name: &str| names.iter().position(|&known| known == name);
    if let Some(number) = place(&LOW, name).or_else(|| place(&HIGH, name)) {
        return Some((1, number as u8));
    }
    if let Some(number) = place(&LEGACY, name) {
        return Some((2, number as u8));
    }
    if let Some(number) = name.strip_prefix('e').and_then(|name| place(&LEGACY, name)) {
        return Some((4, number as u8));
    }
    let rest = name.strip_prefix('r')?;
    if let Some(number) = place(&LEGACY, rest) {
        return Some((8, number as u8));
    }
    let digits = rest.trim_end_matches(['b', 'w', 'd', 'l']);
    let number = digits.parse().ok().filter(|number| (8..16).contains(number))?;
    match &rest[digits.len()..] {
        "" => Some((8, number)),
        "d" => Some((4, number)),
        "w" => Some((2, number)),
        "b" | "l" => Some((1, number)),
        _ => None,
    }
}

/// The number of the stack pointer.
pub(crate) const SP: u8 = 4;
/// The number of the frame pointer.
pub(crate) const BP: u8 = 5;
/// The number of the register that carries the address to the page.
pub(crate) const DI: u8 = 7;

/// Whether `name` is some part of a general register.
pub(crate) fn is_general(name: &str, number: u8) -> bool {
    general(name).is_some_and(|(_, found)| found == number)
}

/// The bytes of a vector register, and its number.
pub(crate) fn vector(name: &str) -> Option<(u16, u8)> {
    let (bytes, rest) = match name {
        _ if name.starts_with("xmm") => (16, &name[3..]),
        _ if name.starts_with("ymm") => (32, &name[3..]),
        _ if name.starts_with("zmm") => (64, &name[3..]),
        _ if name.starts_with("mm") => (8, &name[2..]),
        _ => return None,
    };
    Some((bytes, rest.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Memory<'_> {
        *operand(text).memory().unwrap_or_else(|| panic!("{text} is memory"))
    }

    #[test]
    fn memory_operands_are_taken_apart() {
        let memory = one("-8(%rax, %rbx ,4){1to8}");
        assert_eq!(
            (memory.displacement, memory.base, memory.index),
            ("-8", Some("rax"), Some("rbx"))
        );
        assert_eq!((memory.text, memory.broadcast), ("-8(%rax, %rbx ,4)", Some(8)));
        assert!(memory.is_below());
        let memory = one("%fs:x@tpoff+4");
        assert_eq!((memory.segment, memory.text), (Some("fs"), "x@tpoff+4"));
        let memory = one("table(,%rax,8)");
        assert_eq!((memory.base, memory.index), (None, Some("rax")));
        assert_eq!(one("(8+4)(%rdi)").displacement, "(8+4)");
        assert_eq!(one("(8+4)").displacement, "(8+4)");
    }

    #[test]
    fn what_the_linker_may_change_is_recognised() {
        assert!(one("x@GOTPCREL(%rip)").is_linkers());
        assert!(one("x@gottpoff(%rip)").is_linkers());
        assert!(one("x@tlsgd(%rip)").is_linkers());
        assert!(!one("x@dtpoff(%rax)").is_linkers());
        assert!(!one("x(%rip)").is_linkers());
    }

    #[test]
    fn fixed_places_of_the_thread_are_recognised() {
        assert!(one("%fs:40").is_thread_block());
        assert!(one("%fs:0x28").is_thread_block());
        assert!(!one("%fs:x@tpoff").is_thread_block());
        assert!(!one("%fs:(%rax)").is_thread_block());
    }

    #[test]
    fn the_place_of_the_instruction_itself_is_recognised() {
        assert!(one(".+5").names_place());
        assert!(one("4+.(%rip)").names_place());
        assert!(!one(".L5+4(%rip)").names_place());
        assert!(!one("a.b").names_place());
    }

    #[test]
    fn registers_have_their_width() {
        for (name, expected) in [
            ("rax", (8, 0)),
            ("esp", (4, 4)),
            ("bpl", (1, 5)),
            ("dh", (1, 2)),
            ("r8", (8, 8)),
            ("r15d", (4, 15)),
            ("r9b", (1, 9)),
        ] {
            assert_eq!(general(name), Some(expected), "{name}");
        }
        assert_eq!(general("rip"), None);
        assert_eq!(general("r16"), None);
        assert_eq!(vector("zmm31"), Some((64, 31)));
        assert_eq!(vector("k1"), None);
    }

    #[test]
    fn numbers_are_read_as_the_assembler_does() {
        assert_eq!(number("-0x10"), Some(-16));
        assert_eq!(number("010"), Some(8));
        assert_eq!(number("x"), None);
    }
}
