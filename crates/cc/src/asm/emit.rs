//! Writes the calls and counters into the text.

use super::AsmError;
use super::blocks::Block;
use super::copies::copies;
use super::counts::Counts;
use super::depends::{Record, Seen, records};
use super::effect::{Effect, effect, is_replaced, moves_before, stack};
use super::frames::{Function, Functions};
use super::gather::{self, gather};
use super::instruction::Instruction;
use super::library::cost;
use super::masked::masked;
use super::operand::{BP, DI, Memory, SP, is_general};
use super::program::{Program, What};
use super::scan::Statement;
use crate::abi::{self, Kind};
use std::collections::BTreeSet;

/// What replaces the bytes from `start` to `end` of the file.
#[derive(Debug)]
pub(crate) struct Edit {
    start: usize,
    end: usize,
    text: String,
}

impl Edit {
    /// Other words in place of a statement.
    pub(crate) fn instead_of(statement: &Statement<'_>, text: String) -> Edit {
        let end = statement.start + statement.text.len();
        Edit { start: statement.start, end, text }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }
}

/// The text after all edits, which are in the order of the file.
pub(crate) fn edited(assembly: &str, edits: &[Edit]) -> String {
    let length: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut text = String::with_capacity(assembly.len() + length);
    let mut at = 0;
    for edit in edits {
        text.push_str(&assembly[at..edit.start]);
        text.push_str(&edit.text);
        at = edit.end;
    }
    text.push_str(&assembly[at..]);
    text
}

/// All edits, in the order of the file.
pub(crate) fn edits(
    assembly: &str,
    program: &Program<'_>,
    functions: &Functions,
    blocks: &[Block],
    live: &[bool],
) -> Result<Vec<Edit>, AsmError> {
    let mut edits = Vec::new();
    let mut anchors = Anchors::default();
    for block in blocks {
        let mut counts = Counts::default();
        let (mut parts, mut sites, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for &at in &block.instructions {
            let point = &program.points[at];
            let What::Instruction(instruction) = &point.what else { continue };
            let function = functions.of(point.function);
            let site = Site { instruction, function, flags: live[at] };
            counts.instructions += cost(instruction, program);
            let part = site.call(&mut counts, edits.len() + parts.len())?;
            seen.push((instruction, part.seen()));
            parts.push((instruction, live[at], part));
            sites.push(site);
        }
        if let Some(point) = block.instructions.first().map(|&at| &program.points[at]) {
            anchors.section = point.section;
            describe(&seen, functions.of(point.function), &mut anchors, &mut parts);
        }
        // Marks have no records: they come before the calls that have.
        let instructions: Vec<&Instruction<'_>> = parts.iter().map(|part| part.0).collect();
        for (first, last) in copies(&instructions, assembly) {
            for (at, kind) in [(first, Kind::BeginCopy), (last + 1, Kind::EndCopy)] {
                let mark = sites[at].lines(kind, 0, Address::None);
                parts[at].2.before.splice(0..0, mark);
            }
        }
        let first = parts.iter().position(|(instruction, ..)| !is_landing(instruction));
        let counted = first.unwrap_or(0);
        for (number, (instruction, flags, part)) in parts.into_iter().enumerate() {
            let counters = if number == counted { counts.lines(flags) } else { Vec::new() };
            edits.extend(edit(instruction, counters, part));
        }
    }
    Ok(edits)
}

/// Adds the records of a block to its calls, and the calls that only have one.
fn describe<'a>(
    seen: &[(&'a Instruction<'a>, Seen)],
    function: &Function,
    anchors: &mut Anchors,
    parts: &mut [(&'a Instruction<'a>, bool, Part)],
) {
    let (records, extra) = records(seen, function);
    for (number, record) in records {
        let (instruction, _, part) = &mut parts[number];
        part.record(&record, instruction.start, anchors);
    }
    for (number, record) in extra {
        let (instruction, flags, part) = &mut parts[number];
        let site = Site { instruction, function, flags: *flags };
        let before = site.lines(Kind::Flow, 0, Address::None);
        let mut call = Part { before, ..Part::default() };
        call.record(&record, instruction.start, anchors);
        part.before.splice(0..0, call.before);
    }
}

fn is_landing(instruction: &Instruction<'_>) -> bool {
    instruction.mnemonic.starts_with("endbr")
}

/// What is to be done at an instruction.
#[derive(Default)]
struct Part {
    /// Lines before it.
    before: Vec<String>,
    /// What it is replaced with, if it does not stay.
    instead: Option<Vec<String>>,
    /// Whether its access is only counted.
    is_private: bool,
    /// Whether it only says where a copy begins or ends.
    is_mark: bool,
}

/// The labels by which records belong to sections.
#[derive(Default)]
struct Anchors {
    /// The section of the present block.
    section: usize,
    /// Those that have a label.
    set: BTreeSet<usize>,
}

impl Part {
    fn call(&self) -> Option<usize> {
        self.before.iter().position(|line| line.starts_with("call\t*"))
    }

    /// What [records](super::depends) must know of it. A mark is a call at which no data moves.
    fn seen(&self) -> Seen {
        let has_call = !self.is_mark && self.call().is_some();
        Seen { has_call, is_private: self.is_private }
    }

    /// Puts a record behind the first call of the machine.
    fn record(&mut self, record: &Record, unique: usize, anchors: &mut Anchors) {
        if let Some(call) = self.call() {
            let anchor = format!(".Lseawall_s{}", anchors.section);
            let text = record.text(&format!(".Lseawall_d{unique}"), &anchor);
            let is_new = anchors.set.insert(anchors.section);
            let anchor = is_new.then(|| format!("{anchor}:"));
            self.before.splice(call + 1..call + 1, anchor.into_iter().chain([text]));
        }
    }
}

fn edit(instruction: &Instruction<'_>, mut lines: Vec<String>, part: Part) -> Option<Edit> {
    lines.extend(part.before);
    let start = instruction.start;
    match part.instead {
        Some(instead) => {
            lines.extend(instead);
            Some(Edit { start, end: instruction.end, text: lines.join("\n\t") })
        }
        None if lines.is_empty() => None,
        None => {
            lines.push(String::new());
            Some(Edit { start, end: start, text: lines.join("\n\t") })
        }
    }
}

const ABOVE_RED_ZONE: &str = "leaq\t128(%rsp), %rsp";

/// Where the address of an access is.
#[derive(Clone, Copy)]
enum Address<'a> {
    /// There is none.
    None,
    Memory(&'a Memory<'a>),
    Register(&'a str),
}

/// An instruction and what is known at its place.
struct Site<'a> {
    instruction: &'a Instruction<'a>,
    function: &'a Function,
    /// Whether the flags are needed.
    flags: bool,
}

impl Site<'_> {
    /// The call before the instruction, if it needs one; `unique` tells it from all others.
    fn call(&self, counts: &mut Counts, unique: usize) -> Result<Part, AsmError> {
        let instruction = self.instruction;
        counts.instructions += 1;
        let (loads, stores) = stack(instruction);
        counts.loads += loads;
        counts.stores += stores;
        let mut part = Part::default();
        match effect(instruction)? {
            Effect::None if instruction.is_short() => {
                part.instead = Some(far(instruction, unique));
            }
            Effect::None => {}
            Effect::Event(kind, bytes) => {
                part.is_mark = matches!(kind, Kind::BeginCopy | Kind::EndCopy);
                counts.instructions -= u32::from(part.is_mark);
                part.before = self.lines(kind, bytes, Address::None);
                part.instead = is_replaced(kind).then(Vec::new);
            }
            Effect::Gather => {
                if let (Some(found), Some(memory)) = (gather(instruction), instruction.memory()) {
                    let entry = abi::entry(false, self.function.vectors);
                    part.before = self.lines(Kind::Several, 0, Address::None);
                    let all = gather::lines(&found, instruction, memory, entry, unique);
                    part.before.extend(all);
                }
            }
            Effect::Copy => {
                if let (Some(from), Some(to)) =
                    (instruction.memory(), instruction.registers().next())
                {
                    part.before = self.lines(Kind::Load, 64, Address::Memory(from));
                    let what = Kind::Direct.what(64) | abi::SAME;
                    part.before.extend(self.call_with(what, Vec::new(), Address::Register(to)));
                    part.instead = Some(self.copied(from, to));
                }
            }
            Effect::Masked(kind, bytes) => self.masked(kind, bytes, counts, &mut part),
            Effect::Access(kind, bytes) => {
                let Some(memory) = instruction.memory() else { return Ok(part) };
                if self.is_private(kind, memory) {
                    counts.private(kind);
                    part.is_private = true;
                } else {
                    part.before = self.lines(kind, bytes, Address::Memory(memory));
                }
                part.instead = is_replaced(kind).then(Vec::new);
            }
        }
        Ok(part)
    }

    fn masked(&self, kind: Kind, bytes: u16, counts: &mut Counts, part: &mut Part) {
        let Some(found) = masked(self.instruction) else { return };
        let plain = if kind == Kind::MaskedLoad { Kind::Load } else { Kind::Store };
        let address = match self.instruction.memory() {
            Some(memory) if self.is_private(plain, memory) => {
                part.is_private = true;
                return counts.private(plain);
            }
            Some(memory) => Address::Memory(memory),
            None => Address::Register("rdi"),
        };
        part.before = self.call_with(kind.what(found.length(bytes)), found.lines(bytes), address);
    }

    /// Whether nothing else can reach what the instruction accesses. An index into a frame whose
    /// address goes nowhere stays in it.
    fn is_private(&self, kind: Kind, memory: &Memory<'_>) -> bool {
        if !matches!(kind, Kind::Load | Kind::Store | Kind::Modify) {
            return false;
        }
        if memory.is_thread_block() {
            return true;
        }
        let Some(base) = memory.base else { return false };
        let frame = is_general(base, SP) || self.function.frame_pointer && is_general(base, BP);
        frame && memory.segment.is_none() && !self.function.exposes
    }

    fn lines(&self, kind: Kind, bytes: u16, address: Address<'_>) -> Vec<String> {
        self.call_with(kind.what(bytes), Vec::new(), address)
    }

    /// What `movdir64b` does, for a processor that does not have it.
    fn copied(&self, from: &Memory<'_>, to: &str) -> Vec<String> {
        let mut lines = self.place(Vec::new(), Address::Memory(from));
        lines.extend((0..8).map(|word| format!("pushq\t{}(%rdi)", 8 * word)));
        lines.push(format!("movq\t{:#x}, %rdi", abi::SAVED));
        self.put(Address::Register(to), &mut lines);
        lines.extend((0..8).rev().map(|word| format!("popq\t{}(%rdi)", 8 * word)));
        lines.extend(self.function.red_zone.then(|| ABOVE_RED_ZONE.into()));
        lines.push(format!("movq\t{:#x}, %rdi", abi::SAVED));
        lines
    }

    /// The call, after lines that may use `%rdi` and leave the flags alone.
    fn call_with(&self, what: u32, first: Vec<String>, address: Address<'_>) -> Vec<String> {
        let mut lines = self.place(first, address);
        // An entry keeps those flags that computations set, and clears the direction.
        let directed = self.function.directed;
        let mut what = what;
        if directed {
            lines.push("pushfq".into());
            if has_direction(what) {
                lines.extend([format!("popq\t{:#x}", abi::FLAGS), "pushfq".into()]);
                what |= u32::from(abi::DIRECTED);
            }
        }
        let entry = abi::entry(self.flags && !directed, self.function.vectors);
        lines.push(format!("movl\t${what:#x}, {:#x}", abi::WHAT));
        lines.push(format!("call\t*{:#x}", abi::ENTRIES + 8 * entry));
        if directed {
            lines.push("popfq".into());
        }
        lines.extend(self.function.red_zone.then(|| ABOVE_RED_ZONE.into()));
        lines
    }

    /// Saves `%rdi`, puts the address there, and leaves the red zone.
    fn place(&self, first: Vec<String>, address: Address<'_>) -> Vec<String> {
        let mut lines = vec![format!("movq\t%rdi, {:#x}", abi::SAVED)];
        if !first.is_empty() {
            lines.extend(first);
            lines.push(format!("movq\t{:#x}, %rdi", abi::SAVED));
        }
        let thread = self.put(address, &mut lines);
        if self.function.red_zone {
            lines.push("leaq\t-128(%rsp), %rsp".to_string());
        }
        if thread {
            lines.push("pushq\t%rax".to_string());
            lines.push("movq\t%fs:0, %rax".to_string());
            lines.push("leaq\t(%rax,%rdi), %rdi".to_string());
            lines.push("popq\t%rax".to_string());
        }
        lines
    }

    /// Puts the address into `%rdi`. Gives whether that of the thread is still to be added.
    fn put(&self, address: Address<'_>, lines: &mut Vec<String>) -> bool {
        match address {
            Address::None => false,
            Address::Memory(memory) => self.address(memory, lines),
            Address::Register(name) => {
                let whole = name.starts_with('r');
                let (mov, to) = if whole { ("movq", "rdi") } else { ("movl", "edi") };
                lines.push(format!("{mov}\t%{name}, %{to}"));
                false
            }
        }
    }

    /// As above, of an operand in memory.
    fn address(&self, memory: &Memory<'_>, lines: &mut Vec<String>) -> bool {
        let text = memory.text;
        if memory.segment == Some("fs") {
            let plain = memory.index.is_none()
                && memory.base.is_none_or(|base| base.starts_with('r') && !is_general(base, DI));
            if !plain {
                lines.push(format!("leaq\t{text}, %rdi"));
                return true;
            }
            lines.push("movq\t%fs:0, %rdi".to_string());
            let second = memory.base.map_or(String::new(), |base| format!(",%{base}"));
            let (base, second) = match memory.base {
                Some(base) if is_general(base, SP) => (base, ",%rdi".to_string()),
                _ => ("rdi", second),
            };
            lines.push(format!("leaq\t{}(%{base}{second}), %rdi", memory.displacement));
        } else if self.instruction.mnemonic.starts_with("movabs") {
            lines.push(format!("movabsq\t${text}, %rdi"));
        } else if moves_before(self.instruction) && memory.base.is_some_and(|it| is_general(it, SP))
        {
            lines.push(format!("leaq\t8+{text}, %rdi"));
        } else {
            lines.push(format!("leaq\t{text}, %rdi"));
        }
        false
    }
}

/// Whether it is a string instruction of which the direction matters.
fn has_direction(what: u32) -> bool {
    let strings = [Kind::RepMovs, Kind::RepStos, Kind::Movs, Kind::Stos];
    strings.iter().any(|kind| *kind as u32 == what >> 16)
}

/// A jump that only reaches near targets, over a jump that reaches all.
fn far(instruction: &Instruction<'_>, unique: usize) -> Vec<String> {
    let Some(target) = instruction.memory() else { return vec![instruction.text.to_string()] };
    let label = |side: &str| format!(".Lseawall_{}_{unique}_{side}", instruction.line);
    vec![
        format!("{}\t{}", instruction.mnemonic, label("taken")),
        format!("jmp\t{}", label("next")),
        format!("{}:", label("taken")),
        format!("jmp\t{}", target.text),
        format!("{}:", label("next")),
    ]
}

#[cfg(test)]
mod tests;
