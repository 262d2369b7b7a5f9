//! The executable sections of an assembly file: their labels and instructions in order, and the
//! functions that these belong to.

use super::AsmError;
use super::instruction::{Instruction, Prefixes, parse, word};
use super::operand::number;
use super::scan::{Statement, arguments, label, names};
use sections::Sections;
use std::collections::{BTreeMap, BTreeSet};

mod sections;

/// What stands at a place of an executable section.
#[derive(Clone, Debug)]
pub(crate) enum What<'a> {
    Label(&'a str),
    Instruction(Instruction<'a>),
    /// A directive behind which another path of the assembler may begin (`.if` and the like).
    Fork,
    /// Data between functions.
    Data(Statement<'a>),
}

/// A place of an executable section.
#[derive(Clone, Debug)]
pub(crate) struct Point<'a> {
    /// Places of one section follow each other.
    pub(crate) section: usize,
    /// The number of the function that it belongs to.
    pub(crate) function: Option<usize>,
    pub(crate) what: What<'a>,
}

/// What matters of an assembly file.
#[derive(Debug, Default)]
pub(crate) struct Program<'a> {
    /// In the order of the file.
    pub(crate) points: Vec<Point<'a>>,
    /// The number of functions.
    pub(crate) functions: usize,
    /// Functions by their names, and by other names of them.
    pub(crate) function_of: BTreeMap<&'a str, usize>,
    /// Symbols that an operand of an instruction mentions.
    pub(crate) mentioned: BTreeSet<&'a str>,
    /// Symbols whose address the program may take: those that data mention, or an operand that is
    /// not the target of a jump.
    pub(crate) addressed: BTreeSet<&'a str>,
}

/// Reads the statements of a file.
pub(crate) fn read<'a>(statements: &[Statement<'a>]) -> Result<Program<'a>, AsmError> {
    let mut reader = Reader::new(statements);
    for (number, statement) in statements.iter().enumerate() {
        reader.code_follows = statements.get(number + 1).is_some_and(is_code);
        reader.statement(statement)?;
    }
    if let Some(pending) = &reader.pending {
        return Err(pending.error("is a prefix without its instruction", NUMBERS));
    }
    reader.check_data()?;
    Ok(reader.finish())
}

fn is_code(statement: &Statement<'_>) -> bool {
    !statement.text.starts_with('.') && label(statement.text).is_none()
}

struct Reader<'a> {
    program: Program<'a>,
    sections: Sections<'a>,
    /// Symbols of type function.
    typed: BTreeSet<&'a str>,
    /// The function at the end of each section.
    current: BTreeMap<usize, (&'a str, usize)>,
    aliases: Vec<(&'a str, &'a str)>,
    compiler: Compiler,
    /// Names that direct jumps lead to.
    jumped: BTreeSet<&'a str>,
    /// Whether the next statement is an instruction without a label.
    code_follows: bool,
    /// Prefixes that wait for their instruction.
    pending: Option<Instruction<'a>>,
    /// The macro or repetition that is being read, and how deep it is.
    template: Option<(&'a str, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compiler {
    Gcc,
    Other,
    /// None: written by hand.
    Hand,
}

const NUMBERS: &str = "write the instruction by its name";
const UNKNOWN: &str = "code written as numbers is not understood";
const SPLIT: &str = "put the prefix and its instruction into one statement";

fn error(statement: &Statement<'_>, why: &str, remedy: &str) -> AsmError {
    AsmError {
        line: statement.line,
        statement: statement.text.to_string(),
        why: why.to_string(),
        remedy: remedy.to_string(),
    }
}

impl<'a> Reader<'a> {
    fn new(statements: &[Statement<'a>]) -> Self {
        let mut typed = BTreeSet::new();
        let mut compiler = Compiler::Hand;
        for statement in statements {
            match word(statement.text) {
                (".type", rest) => {
                    let arguments = arguments(rest);
                    if arguments.get(1).is_some_and(|kind| kind.to_lowercase().contains("func")) {
                        typed.insert(arguments[0].trim_matches('"'));
                    }
                }
                (".ident", rest) if rest.contains("GCC") => compiler = Compiler::Gcc,
                (".ident", rest) if rest.contains("clang") => compiler = Compiler::Other,
                _ => {}
            }
        }
        Reader {
            program: Program::default(),
            sections: Sections::default(),
            typed,
            current: BTreeMap::new(),
            aliases: Vec::new(),
            compiler,
            jumped: BTreeSet::new(),
            code_follows: false,
            pending: None,
            template: None,
        }
    }

    fn statement(&mut self, statement: &Statement<'a>) -> Result<(), AsmError> {
        let mut text = statement.text;
        if self.template.is_some() {
            return self.inside_template(statement);
        }
        while let Some((name, rest)) = label(text) {
            self.label(name, statement)?;
            text = rest;
        }
        let (first, rest) = word(text);
        if first.is_empty() {
            return Ok(());
        }
        if first.starts_with('.') {
            return self.directive(first, rest, statement);
        }
        if let Some((name, value)) = text.split_once('=').filter(|_| is_assignment(text)) {
            self.alias(name.trim(), value.trim_start_matches('=').trim());
            return Ok(());
        }
        if self.sections.executable() {
            self.instruction(text, statement);
        }
        Ok(())
    }

    fn push(&mut self, what: What<'a>) {
        let section = self.sections.number();
        let function = self.current.get(&section).map(|&(_, number)| number);
        self.program.points.push(Point { section, function, what });
    }

    fn label(&mut self, name: &'a str, statement: &Statement<'a>) -> Result<(), AsmError> {
        if !self.sections.executable() {
            return Ok(());
        }
        if self.pending.is_some() {
            let why = "is a label between a prefix and its instruction";
            return Err(error(statement, why, SPLIT));
        }
        if self.typed.contains(name) {
            let shared = match self.compiler {
                Compiler::Gcc => name.split_once(".cold").map_or(name, |(whole, _)| whole),
                _ => name,
            };
            let next = self.program.functions;
            let number = *self.program.function_of.entry(shared).or_insert(next);
            self.program.functions = next.max(number + 1);
            self.program.function_of.insert(name, number);
            self.current.insert(self.sections.number(), (name, number));
        }
        self.push(What::Label(name));
        Ok(())
    }

    fn instruction(&mut self, text: &'a str, statement: &Statement<'a>) {
        let end = statement.start + statement.text.len();
        let start = end - text.len();
        let compiled = self.compiler != Compiler::Hand && !statement.inline;
        let mut found = self.pending.take().unwrap_or_else(|| Instruction {
            line: statement.line,
            start,
            compiled,
            ..parse("")
        });
        found.text = text;
        found.end = end;
        let rest = found.take_prefixes(text);
        if rest.is_empty() {
            self.pending = Some(found);
            return;
        }
        found.set(rest);
        self.mention(&found, rest);
        self.push(What::Instruction(found));
    }

    fn mention(&mut self, found: &Instruction<'a>, rest: &'a str) {
        use super::instruction::Flow;
        let direct = matches!(
            found.flow(),
            Flow::Jump(Some(_)) | Flow::Branch(Some(_)) | Flow::Call(Some(_))
        );
        for name in names(word(rest).1) {
            self.program.mentioned.insert(name);
            if direct {
                self.jumped.insert(name);
            } else {
                self.program.addressed.insert(name);
            }
        }
    }

    fn directive(
        &mut self,
        name: &'a str,
        rest: &'a str,
        statement: &Statement<'a>,
    ) -> Result<(), AsmError> {
        if self.sections.take(name, rest) {
            return Ok(());
        }
        match name {
            ".intel_syntax" => {
                let why = "assembly in Intel's syntax is not read";
                return Err(error(statement, why, "compile without -masm=intel"));
            }
            ".code16" | ".code16gcc" | ".code32" => {
                return Err(error(statement, "is not code for 64 bits", "leave it out"));
            }
            ".size" => self.size(rest),
            ".set" | ".equ" | ".equiv" => {
                if let Some((name, value)) = rest.split_once(',') {
                    self.alias(name.trim(), value.trim());
                }
            }
            ".macro" | ".rept" | ".irp" | ".irpc" => self.template = Some((statement.text, 1)),
            ".include" if self.sections.executable() => {
                let why = "code in another file is not seen";
                return Err(error(statement, why, "use #include and the preprocessor"));
            }
            ".if" | ".else" | ".elseif" | ".endif" => self.push_if_code(What::Fork),
            _ if name.starts_with(".if") => self.push_if_code(What::Fork),
            _ if is_data(name) => return self.data(name, rest, statement),
            _ => {}
        }
        Ok(())
    }

    fn push_if_code(&mut self, what: What<'a>) {
        if self.sections.executable() {
            self.push(what);
        }
    }

    /// The end of a function.
    fn size(&mut self, rest: &'a str) {
        let name = arguments(rest).first().copied().unwrap_or("").trim_matches('"');
        let section = self.sections.number();
        if self.current.get(&section).is_some_and(|&(current, _)| current == name) {
            self.current.remove(&section);
        }
    }

    fn alias(&mut self, name: &'a str, value: &'a str) {
        self.aliases.push((name, value));
        self.program.addressed.extend(names(value));
    }

    fn data(
        &mut self,
        name: &'a str,
        rest: &'a str,
        statement: &Statement<'a>,
    ) -> Result<(), AsmError> {
        if !self.sections.executable() {
            if !self.sections.debug() {
                self.program.addressed.extend(names(rest));
            }
            return Ok(());
        }
        let bytes = literal_bytes(name, rest);
        if let Some(known) = bytes.as_deref().and_then(known_bytes) {
            let mut found = parse(known);
            found.line = statement.line;
            found.start = statement.start + statement.text.find(name).unwrap_or(0);
            found.end = statement.start + statement.text.len();
            found.text = statement.text;
            self.push(What::Instruction(found));
            return Ok(());
        }
        if let Some(bytes) = bytes.filter(|bytes| is_prefixes(bytes))
            && (self.code_follows || self.falls_through() || self.pending.is_some())
        {
            self.prefix_bytes(&bytes, name, statement);
            return Ok(());
        }
        if self.pending.is_some() || self.falls_through() {
            return Err(error(statement, UNKNOWN, NUMBERS));
        }
        self.program.addressed.extend(names(rest));
        self.push(What::Data(*statement));
        Ok(())
    }

    fn prefix_bytes(&mut self, bytes: &[i64], name: &str, statement: &Statement<'a>) {
        let compiled = self.compiler != Compiler::Hand && !statement.inline;
        let start = statement.start + statement.text.find(name).unwrap_or(0);
        let text = statement.text;
        let fresh = Instruction { line: statement.line, start, text, compiled, ..parse("") };
        let pending = self.pending.get_or_insert(fresh);
        for &byte in bytes {
            pending.prefixes.take_byte(byte);
        }
    }

    /// Whether control reaches the end of the section as read so far.
    fn falls_through(&self) -> bool {
        let section = self.sections.number();
        let before = self.program.points.iter().rev().filter(|point| point.section == section);
        for point in before {
            match &point.what {
                What::Label(name) if self.typed.contains(name) => return true,
                What::Label(_) | What::Fork => {}
                What::Instruction(instruction) => return !instruction.flow().is_end(),
                What::Data(_) => return false,
            }
        }
        false
    }

    /// What a jump leads to is not data.
    fn check_data(&self) -> Result<(), AsmError> {
        let mut names: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for point in &self.program.points {
            let names = names.entry(point.section).or_default();
            match &point.what {
                What::Label(name) => names.push(name),
                What::Data(statement) if names.iter().any(|name| self.is_jumped(name)) => {
                    return Err(error(statement, UNKNOWN, NUMBERS));
                }
                _ => names.clear(),
            }
        }
        Ok(())
    }

    fn is_jumped(&self, name: &str) -> bool {
        self.jumped.contains(name)
            || name.bytes().all(|byte| byte.is_ascii_digit())
                && ["f", "b"].iter().any(|way| self.jumped.contains(&format!("{name}{way}")[..]))
    }

    /// The body of a macro may hold what leaves no trace; other bodies are not followed.
    fn inside_template(&mut self, statement: &Statement<'a>) -> Result<(), AsmError> {
        let Some((head, depth)) = self.template else { return Ok(()) };
        let (first, _) = word(statement.text);
        match first {
            ".macro" | ".rept" | ".irp" | ".irpc" => self.template = Some((head, depth + 1)),
            ".endm" | ".endr" => self.template = (depth > 1).then(|| (head, depth - 1)),
            "nop" => {}
            _ if first.starts_with('.') || label(statement.text).is_some() => {}
            _ => {
                let why = format!("instructions inside `{head}` are not followed");
                return Err(error(statement, &why, "write them out, or use the preprocessor"));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Program<'a> {
        for (name, value) in self.aliases {
            if let Some(&number) = self.program.function_of.get(value) {
                self.program.function_of.entry(name).or_insert(number);
            }
        }
        self.program
    }
}

fn is_assignment(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or("").trim();
    !name.is_empty() && name.bytes().all(super::scan::is_name)
}

fn is_data(name: &str) -> bool {
    matches!(
        name,
        ".byte"
            | ".value"
            | ".word"
            | ".short"
            | ".hword"
            | ".2byte"
            | ".long"
            | ".int"
            | ".4byte"
            | ".quad"
            | ".8byte"
            | ".octa"
            | ".ascii"
            | ".asciz"
            | ".string"
            | ".string8"
            | ".zero"
            | ".skip"
            | ".space"
            | ".fill"
            | ".float"
            | ".single"
            | ".double"
            | ".tfloat"
            | ".uleb128"
            | ".sleb128"
            | ".incbin"
            | ".dc.b"
            | ".dc.w"
            | ".dc.l"
            | ".dc.a"
            | ".insn"
    )
}

/// The bytes of `.byte` and `.value` with plain numbers.
fn literal_bytes(name: &str, rest: &str) -> Option<Vec<i64>> {
    let wide = match name {
        ".byte" => false,
        ".value" | ".word" | ".short" | ".2byte" | ".hword" => true,
        _ => return None,
    };
    let mut bytes = Vec::new();
    for argument in arguments(rest) {
        let value = number(argument)?;
        bytes.push(value & 0xff);
        if wide {
            bytes.push(value >> 8 & 0xff);
        }
    }
    Some(bytes)
}

fn is_prefixes(bytes: &[i64]) -> bool {
    let mut prefixes = Prefixes::default();
    !bytes.is_empty() && bytes.iter().all(|&byte| prefixes.take_byte(byte))
}

/// Instructions that are often written as numbers, for old assemblers.
fn known_bytes(bytes: &[i64]) -> Option<&'static str> {
    Some(match bytes {
        [0xf3, 0xc3] => "rep ret",
        [0xf3, 0x90] => "pause",
        [0xf3, 0x0f, 0x1e, 0xfa] => "endbr64",
        [0x0f, 0x0b] => "ud2",
        [0x90] => "nop",
        [0x0f, 0xae, 0xf8] => "sfence",
        [0x0f, 0xae, 0xf0] => "mfence",
        [0x0f, 0xae, 0xe8] => "lfence",
        [0x0f, 0x01, 0xd0] => "xgetbv",
        [0x0f, 0x01, 0xf9] => "rdtscp",
        [0x0f, 0x01, 0xd6] => "xtest",
        [0x66, 0x0f, 0xae, operand] => return known_flush(*operand),
        [0x0f, 0xa2] => "cpuid",
        [0x0f, 0x31] => "rdtsc",
        _ => return None,
    })
}

/// `clwb` and `clflushopt` of what a register points to, by their last byte.
fn known_flush(operand: i64) -> Option<&'static str> {
    Some(match operand {
        0x30 => "clwb (%rax)",
        0x31 => "clwb (%rcx)",
        0x32 => "clwb (%rdx)",
        0x33 => "clwb (%rbx)",
        0x36 => "clwb (%rsi)",
        0x37 => "clwb (%rdi)",
        0x38 => "clflushopt (%rax)",
        0x39 => "clflushopt (%rcx)",
        0x3a => "clflushopt (%rdx)",
        0x3b => "clflushopt (%rbx)",
        0x3e => "clflushopt (%rsi)",
        0x3f => "clflushopt (%rdi)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::asm::instrument;

    fn fails(text: &str, line: usize, statement: &str) {
        let error = instrument(text).expect_err(text);
        assert_eq!((error.line, &error.statement[..]), (line, statement), "{error}");
    }

    #[test]
    fn what_cannot_be_followed_is_an_error_that_says_where() {
        fails(".text\n.intel_syntax noprefix\n", 2, ".intel_syntax noprefix");
        fails(".macro m\nmovl (%rax), %eax\n.endm\n", 2, "movl (%rax), %eax");
        fails(".rept 3\nnop\nincl %eax\n.endr\n", 3, "incl %eax");
        fails("nop\n.byte 0x0f, 0xff\n", 2, ".byte 0x0f, 0xff");
        fails("nop\n.long 5\n", 2, ".long 5");
        fails(".type f,@function\nf:\n.long 5\n", 3, ".long 5");
        fails("jmp 1f\n.long 5\n1: .long 6\n", 3, "1: .long 6");
        fails("lock\n1: incl (%rax)\n", 2, "1: incl (%rax)");
        fails("ret\nlock\n", 2, "lock");
        fails(".include \"x.s\"\n", 1, ".include \"x.s\"");
        fails("jmp .+5\n", 1, "jmp .+5");
    }

    #[test]
    fn data_between_functions_pass() {
        let text = "f:\nret\n.p2align 4\nt:\n.long 5, 6\n.byte 0x66\n.quad f\ng:\nret\n";
        assert!(instrument(text).unwrap().contains(".byte 0x66\n.quad f\n"));
    }

    #[test]
    fn instructions_written_as_numbers_are_known() {
        let found = instrument("f:\n.byte 0xf3, 0xc3\n.long 7\n").unwrap();
        assert!(found.contains("addq\t$1, 0x5ea00018"), "a return is a load: {found}");
        let found = instrument("f:\n.byte 0xf3,0x90\nret\n").unwrap();
        assert!(found.contains("$0xb0000") && !found.contains(".byte"), "{found}");
        let found = instrument("f:\n.byte 0x66, 0x0f, 0xae, 0x38\nret\n").unwrap();
        assert!(found.contains("leaq\t(%rax), %rdi") && found.contains("$0x60040"), "{found}");
        let found = instrument("f:\n.byte 0xf3\nnop\nret\n").unwrap();
        assert!(found.contains("$0xb0000") && !found.contains(".byte"), "{found}");
    }

    #[test]
    fn either_branch_of_a_condition_counts_itself() {
        let found = instrument("f:\nnop\n.if 1\nnop\nnop\n.else\nnop\n.endif\nret\n").unwrap();
        // Flags may be needed anywhere in code written by hand.
        assert_eq!(found.matches("leaq\t1(%rax), %rax").count(), 4, "{found}");
        assert_eq!(found.matches("leaq\t2(%rax), %rax").count(), 1);
    }

    #[test]
    fn other_sections_pass() {
        let text = ".section .rodata\n.long 1\n.data\n.byte 0x66\n";
        assert_eq!(instrument(text).unwrap(), text);
    }
}
