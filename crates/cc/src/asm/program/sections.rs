//! Which section the assembler is in, and whether it holds code.

use crate::asm::scan::arguments;
use std::collections::BTreeMap;

/// The sections of a file as far as it has been read.
#[derive(Debug)]
pub(crate) struct Sections<'a> {
    numbers: BTreeMap<(&'a str, &'a str), usize>,
    executable: BTreeMap<&'a str, bool>,
    current: Place<'a>,
    previous: Place<'a>,
    stack: Vec<(Place<'a>, Place<'a>)>,
}

#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    name: &'a str,
    number: usize,
    executable: bool,
}

impl Default for Sections<'_> {
    fn default() -> Self {
        let text = Place { name: ".text", number: 0, executable: true };
        Sections {
            numbers: BTreeMap::from([((".text", "0"), 0)]),
            executable: BTreeMap::new(),
            current: text,
            previous: text,
            stack: Vec::new(),
        }
    }
}

impl<'a> Sections<'a> {
    /// Whether the current section holds code.
    pub(crate) fn executable(&self) -> bool {
        self.current.executable
    }

    /// Whether only debuggers read the current section.
    pub(crate) fn debug(&self) -> bool {
        self.current.name.starts_with(".debug") || self.current.name.starts_with(".gnu.debug")
    }

    /// The number of the current section.
    pub(crate) fn number(&self) -> usize {
        self.current.number
    }

    /// Follows a directive, if it changes the section.
    pub(crate) fn take(&mut self, directive: &str, rest: &'a str) -> bool {
        let arguments = arguments(rest);
        let first = arguments.first().copied().unwrap_or("");
        match directive {
            ".text" => self.enter(".text", first, None),
            ".data" => self.enter(".data", first, None),
            ".bss" => self.enter(".bss", first, None),
            ".section" | ".pushsection" => {
                if directive == ".pushsection" {
                    self.stack.push((self.current, self.previous));
                }
                let flags = arguments.iter().skip(1).find(|argument| argument.starts_with('"'));
                self.enter(first.trim_matches('"'), "0", flags.copied());
            }
            ".popsection" => {
                if let Some((current, previous)) = self.stack.pop() {
                    (self.current, self.previous) = (current, previous);
                }
            }
            ".previous" => std::mem::swap(&mut self.current, &mut self.previous),
            ".subsection" => self.enter(self.current.name, first, None),
            _ => return false,
        }
        true
    }

    fn enter(&mut self, name: &'a str, part: &'a str, flags: Option<&str>) {
        let next = self.numbers.len();
        let part = if part.is_empty() { "0" } else { part };
        let number = *self.numbers.entry((name, part)).or_insert(next);
        let known = self.executable.get(name).copied();
        let executable = match flags {
            Some(flags) => flags.contains('x'),
            None => known.unwrap_or_else(|| is_code(name)),
        };
        self.executable.insert(name, executable);
        self.previous = self.current;
        self.current = Place { name, number, executable };
    }
}

fn is_code(name: &str) -> bool {
    matches!(name, ".text" | ".init" | ".fini" | ".plt") || name.starts_with(".text.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_followed() {
        let mut sections = Sections::default();
        let mut at = |directive, rest| {
            sections.take(directive, rest);
            (sections.executable(), sections.number())
        };
        assert_eq!(at(".text", ""), (true, 0));
        assert_eq!(at(".section", ".rodata.str1.1,\"aMS\",@progbits,1"), (false, 1));
        assert_eq!(at(".section", ".text.unlikely,\"ax\",@progbits"), (true, 2));
        assert_eq!(at(".previous", ""), (false, 1));
        assert_eq!(at(".pushsection", ".mine,\"ax\""), (true, 3));
        assert_eq!(at(".popsection", ""), (false, 1));
        assert_eq!(at(".section", ".mine"), (true, 3));
        assert_eq!(at(".text", "1"), (true, 4));
        assert_eq!(at(".data", ""), (false, 5));
    }
}
