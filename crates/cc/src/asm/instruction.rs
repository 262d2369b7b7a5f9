//! One instruction with its prefixes.

use super::AsmError;
use super::operand::{Memory, Operand, operands};

/// Prefixes that change what an instruction does to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefixes {
    pub(crate) lock: bool,
    /// `rep`, `repe` or `repne`.
    pub(crate) repeat: bool,
    /// 0x66, which makes other instructions of some.
    pub(crate) data16: bool,
    /// `fs` or `gs` as words of their own.
    pub(crate) segment: bool,
}

impl Prefixes {
    /// Takes a prefix in, if the word is one.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        match word {
            "lock" => self.lock = true,
            "rep" | "repe" | "repz" | "repne" | "repnz" => self.repeat = true,
            "data16" | "data32" => self.data16 = true,
            "fs" | "gs" => self.segment = true,
            "notrack" | "bnd" | "addr32" | "cs" | "ds" | "es" | "ss" | "xacquire" | "xrelease" => {}
            _ if word == "rex" || word.starts_with("rex.") || word.starts_with("rex64") => {}
            _ if word.starts_with('{') && word.ends_with('}') => {}
            _ => return false,
        }
        true
    }

    /// Takes a prefix in that is written as a number.
    pub(crate) fn take_byte(&mut self, byte: i64) -> bool {
        match byte {
            0x66 => self.data16 = true,
            0xf0 => self.lock = true,
            0xf2 | 0xf3 => self.repeat = true,
            0x2e | 0x36 | 0x3e | 0x26 | 0x40..=0x4f => {}
            _ => return false,
        }
        true
    }
}

/// An instruction of an executable section.
#[derive(Clone, Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) line: usize,
    /// Where its first prefix starts, in bytes of the file.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The statement, for messages.
    pub(crate) text: &'a str,
    pub(crate) prefixes: Prefixes,
    /// In the writing of the file, without hints after a comma.
    pub(crate) mnemonic: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    /// Whether the operand of a jump or call is marked with `*`.
    pub(crate) indirect: bool,
    /// Whether a compiler made it, which follows the calling convention.
    pub(crate) compiled: bool,
}

/// The first word of a statement, and the rest.
pub(crate) fn word(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

impl<'a> Instruction<'a> {
    /// Sets mnemonic and operands.
    pub(crate) fn set(&mut self, text: &'a str) {
        let (first, rest) = word(text);
        self.mnemonic = first.split(',').next().unwrap_or(first);
        let rest = match rest.strip_prefix('*') {
            Some(target) => {
                self.indirect = true;
                target.trim_start()
            }
            None => rest,
        };
        self.operands = operands(rest);
    }

    pub(crate) fn memory(&self) -> Option<&Memory<'a>> {
        self.operands.iter().find_map(Operand::memory)
    }

    /// Whether the last operand, which most instructions write, is memory.
    pub(crate) fn memory_is_last(&self) -> bool {
        matches!(self.operands.last(), Some(Operand::Memory(_)))
    }

    pub(crate) fn registers(&self) -> impl Iterator<Item = &'a str> {
        self.operands.iter().filter_map(Operand::register)
    }

    /// The mnemonic without the `q` that calls, jumps and returns may have.
    pub(crate) fn flow(&self) -> Flow<'a> {
        let name = self.mnemonic.strip_suffix('q').unwrap_or(self.mnemonic);
        match name {
            "jmp" | "jmpl" => Flow::Jump(self.target()),
            "call" | "calll" => Flow::Call(self.target()),
            "ret" => Flow::Return,
            "ud2" | "ud2a" | "ud2b" | "hlt" => Flow::Trap,
            "loop" | "loope" | "loopz" | "loopne" | "loopnz" => Flow::Branch(self.target()),
            _ if is_branch(self.mnemonic) => Flow::Branch(self.target()),
            _ => Flow::Next,
        }
    }

    /// Whether it can only jump near, so that inserted code could put its target out of reach.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.flow(), Flow::Branch(_))
            && (self.mnemonic.starts_with("loop") || self.mnemonic.ends_with("cxz"))
    }

    fn target(&self) -> Option<&'a str> {
        match self.operands.first() {
            Some(Operand::Memory(memory)) if !self.indirect => Some(memory.text),
            _ => None,
        }
    }

    pub(crate) fn error(&self, why: impl Into<String>, remedy: impl Into<String>) -> AsmError {
        AsmError {
            line: self.line,
            statement: self.text.to_string(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

/// Where control goes after an instruction. A target that is not named is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow<'a> {
    Next,
    Jump(Option<&'a str>),
    Branch(Option<&'a str>),
    Call(Option<&'a str>),
    Return,
    Trap,
}

impl Flow<'_> {
    /// Whether what follows in the text can only be reached by its label.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Flow::Jump(_) | Flow::Return | Flow::Trap)
    }
}

/// Whether `name` is a condition, as in `jne`, `setne` and `cmovne`.
pub(crate) fn is_condition(name: &str) -> bool {
    matches!(
        name,
        "a" | "ae"
            | "b"
            | "be"
            | "c"
            | "e"
            | "g"
            | "ge"
            | "l"
            | "le"
            | "na"
            | "nae"
            | "nb"
            | "nbe"
            | "nc"
            | "ne"
            | "ng"
            | "nge"
            | "nl"
            | "nle"
            | "no"
            | "np"
            | "ns"
            | "nz"
            | "o"
            | "p"
            | "pe"
            | "po"
            | "s"
            | "z"
    )
}

fn is_branch(mnemonic: &str) -> bool {
    let condition = mnemonic.strip_prefix('j');
    condition.is_some_and(|name| is_condition(name) || matches!(name, "rcxz" | "ecxz"))
}

/// Reads one instruction from text, for tests and for instructions written as numbers.
pub(crate) fn parse(text: &str) -> Instruction<'_> {
    let mut found = Instruction {
        line: 0,
        start: 0,
        end: 0,
        text,
        prefixes: Prefixes::default(),
        mnemonic: "",
        operands: Vec::new(),
        indirect: false,
        compiled: true,
    };
    let rest = found.take_prefixes(text);
    found.set(rest);
    found
}

impl<'a> Instruction<'a> {
    /// Takes the prefixes off a statement; gives the rest.
    pub(crate) fn take_prefixes(&mut self, text: &'a str) -> &'a str {
        let mut rest = text;
        loop {
            let (first, after) = word(rest);
            if first.is_empty() || !self.prefixes.take(first) {
                return rest;
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_belong_to_their_instruction() {
        let found = parse("lock cmpxchgq %rcx, (%rdi)");
        assert!(found.prefixes.lock);
        assert_eq!((found.mnemonic, found.operands.len()), ("cmpxchgq", 2));
        assert!(parse("rep stosq").prefixes.repeat);
        assert_eq!(parse("notrack jmp *%rax").flow(), Flow::Jump(None));
    }

    #[test]
    fn control_flow_is_recognised() {
        assert_eq!(parse("jne,pt .L2").flow(), Flow::Branch(Some(".L2")));
        assert_eq!(parse("callq f@PLT").flow(), Flow::Call(Some("f@PLT")));
        assert_eq!(parse("jmp *8(%rax)").flow(), Flow::Jump(None));
        assert_eq!(parse("repz ret").flow(), Flow::Return);
        assert_eq!(parse("jrcxz 1f").flow(), Flow::Branch(Some("1f")));
        assert!(parse("jrcxz 1f").is_short() && parse("loop 1b").is_short());
        assert!(!parse("jc 1f").is_short());
        assert_eq!(parse("js 1f").flow(), Flow::Branch(Some("1f")));
        assert_eq!(parse("movl $1, %eax").flow(), Flow::Next);
    }
}
