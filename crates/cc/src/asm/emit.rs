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
use crate::abi::{self, Kind, Vectors};
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

    /// The call, after lines that may use `%rdi` and leave the flags alone.
    fn call_with(&self, what: u32, first: Vec<String>, address: Address<'_>) -> Vec<String> {
        let mut lines = vec![format!("movq\t%rdi, {:#x}", abi::SAVED)];
        if !first.is_empty() {
            lines.extend(first);
            lines.push(format!("movq\t{:#x}, %rdi", abi::SAVED));
        }
        let thread = match address {
            Address::None => false,
            Address::Memory(memory) => self.address(memory, &mut lines),
            Address::Register(name) => {
                let whole = name.starts_with('r');
                let (mov, to) = if whole { ("movq", "rdi") } else { ("movl", "edi") };
                lines.push(format!("{mov}\t%{name}, %{to}"));
                false
            }
        };
        if self.function.red_zone {
            lines.push("leaq\t-128(%rsp), %rsp".to_string());
        }
        if thread {
            lines.push("pushq\t%rax".to_string());
            lines.push("movq\t%fs:0, %rax".to_string());
            lines.push("leaq\t(%rax,%rdi), %rdi".to_string());
            lines.push("popq\t%rax".to_string());
        }
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
        // Such a call stands where the function may only pass a value on, in a register that it
        // does not name.
        let vectors = match what == Kind::Flow.what(0) {
            true => self.function.vectors.max(Vectors::Sse),
            false => self.function.vectors,
        };
        let entry = abi::entry(self.flags && !directed, vectors);
        lines.push(format!("movl\t${what:#x}, {:#x}", abi::WHAT));
        lines.push(format!("call\t*{:#x}", abi::ENTRIES + 8 * entry));
        if directed {
            lines.push("popfq".into());
        }
        if self.function.red_zone {
            lines.push("leaq\t128(%rsp), %rsp".to_string());
        }
        lines
    }

    /// Puts the address into `%rdi`. Gives whether the address of the thread is still to be added.
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
mod tests {
    use crate::abi::Kind;
    use crate::asm::instrument;

    /// A function of gcc around some lines, instrumented; the lines of it, without counters.
    fn gcc(body: &str) -> Vec<String> {
        lines(&format!(".type f,@function\nf:\n{body}\n.size f,.-f\n.ident \"GCC\"\n"))
            .into_iter()
            .filter(|line| !line.starts_with("addq $") || !line.contains("0x5ea000"))
            .collect()
    }

    /// As above, without the calls for data that only moves.
    fn accesses(body: &str) -> Vec<String> {
        let mut lines = gcc(body);
        let flow = format!("movl ${:#x}, 0x5ea00008", Kind::Flow.what(0));
        while let Some(at) = lines.iter().position(|line| *line == flow) {
            let is_start = |line: &String| line.starts_with("movq %rdi, 0x5ea00000");
            let start = lines[..at].iter().rposition(is_start).unwrap();
            let end = at + 2 + usize::from(lines[at + 2].starts_with("leaq 128(%rsp)"));
            lines.drain(start..end);
        }
        lines
    }

    fn lines(text: &str) -> Vec<String> {
        let text = instrument(text).unwrap_or_else(|error| panic!("{error}"));
        let lines = text.lines().map(|line| line.trim().replace('\t', " "));
        lines
            .filter(|line| !line.is_empty() && (!line.starts_with('.') || line.ends_with(':')))
            .filter(|line| !line.starts_with(".Lseawall_d") && !line.starts_with(".Lseawall_s"))
            .collect()
    }

    #[test]
    fn a_load_is_announced_before_it_happens() {
        let expected = [
            "f:",
            "movq %rdi, 0x5ea00000",
            "leaq 8(%rax,%rbx,4), %rdi",
            "movl $0x4, 0x5ea00008",
            "call *0x5ea00100",
            "movl 8(%rax,%rbx,4), %ecx",
            "ret",
        ];
        assert_eq!(gcc("movl 8(%rax,%rbx,4), %ecx\nret"), expected);
    }

    #[test]
    fn the_red_zone_is_stepped_over_after_the_address_is_taken() {
        let found = gcc("leaq -8(%rsp), %rdx\nmovl -4(%rsp,%rax,4), %ecx\nret");
        let expected = [
            "f:",
            "leaq -8(%rsp), %rdx",
            "movq %rdi, 0x5ea00000",
            "leaq -4(%rsp,%rax,4), %rdi",
            "leaq -128(%rsp), %rsp",
            "movl $0x4, 0x5ea00008",
            "call *0x5ea00100",
            "leaq 128(%rsp), %rsp",
            "movl -4(%rsp,%rax,4), %ecx",
            "ret",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_index_into_a_frame_that_nobody_else_knows_stays_there() {
        let found = accesses("movl -40(%rsp,%rax,4), %ecx\nret");
        assert!(!found.iter().any(|line| line.starts_with("call")), "{found:?}");
        let found = gcc("movl (%rdi,%rax,4), %ecx\nret");
        assert!(found.iter().any(|line| line.starts_with("call")), "{found:?}");
    }

    #[test]
    fn a_masked_store_tells_its_mask_and_then_its_address() {
        let found = gcc("maskmovdqu %xmm1, %xmm0\nret");
        let expected = [
            "f:",
            "movq %rdi, 0x5ea00000",
            "pmovmskb %xmm1, %edi",
            "movq %rdi, 0x5ea00028",
            "movq 0x5ea00000, %rdi",
            "movq %rdi, %rdi",
            "movl $0x140110, 0x5ea00008",
            "call *0x5ea00110",
            "maskmovdqu %xmm1, %xmm0",
            "ret",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_direction_is_told_and_kept() {
        let found = gcc("std\nrep movsb\ncld\nret");
        let expected = [
            "f:",
            "std",
            "movq %rdi, 0x5ea00000",
            "pushfq",
            "popq 0x5ea00030",
            "pushfq",
            "movl $0xc8001, 0x5ea00008",
            "call *0x5ea00100",
            "popfq",
            "rep movsb",
            "cld",
            "ret",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_count_their_instructions_and_the_stack() {
        let text = ".type f,@function\nf:\npushq %rbx\nmovl 8(%rsp), %eax\nincl 4(%rsp)\n\
                    cmpl $1, %eax\njne .L2\nlock\nincl (%rdi)\n.L2:\nsete %al\npopq %rbx\nret\n\
                    .size f,.-f\n.ident \"GCC\"\n";
        let found = lines(text);
        assert_eq!(
            found[1..4],
            ["addq $5, 0x5ea00010", "addq $2, 0x5ea00018", "addq $2, 0x5ea00020"]
        );
        let second = found.iter().position(|line| line.starts_with("jne")).unwrap();
        assert_eq!(found[second + 3], "leaq 1(%rax), %rax");
        let third = found.iter().position(|line| line == ".L2:").unwrap() + 1;
        assert_eq!(
            found[third..third + 8],
            [
                "movq %rax, 0x5ea00000",
                "movq 0x5ea00010, %rax",
                "leaq 3(%rax), %rax",
                "movq %rax, 0x5ea00010",
                "movq 0x5ea00018, %rax",
                "leaq 2(%rax), %rax",
                "movq %rax, 0x5ea00018",
                "movq 0x5ea00000, %rax",
            ]
        );
    }

    #[test]
    fn flags_and_vectors_choose_the_entry() {
        let found = gcc("cmpl $1, %eax\nmovl (%rdi), %eax\nsete %al\nret");
        assert!(found.contains(&"call *0x5ea00108".to_string()), "{found:?}");
        let found = gcc("vmovups (%rdi), %zmm0\nret");
        assert!(found.contains(&"call *0x5ea00130".to_string()), "{found:?}");
    }

    #[test]
    fn flushes_fences_and_pauses_are_replaced_by_their_calls() {
        for (body, what) in [
            (".byte 0x66; xsaveopt 8(%rax)", "$0x50040"),
            (".byte 0x66\nclflush 8(%rax)", "$0x60040"),
            ("clflush 8(%rax)", "$0x70040"),
            ("sfence", "$0x80000"),
            ("rep; nop", "$0xb0000"),
            ("pause", "$0xb0000"),
            ("syscall", "$0x110000"),
        ] {
            let found = gcc(&format!("{body}\nret"));
            assert!(found.iter().any(|line| line == &format!("movl {what}, 0x5ea00008")));
            assert!(!found.iter().any(|line| line.contains("clflush") || line.contains("xsave")));
            assert!(!found.iter().any(|line| line.contains("fence") || line.contains("nop")));
            assert!(!found.iter().any(|line| line.contains("syscall") || line == "pause"));
        }
        assert!(gcc("movntdq %xmm0, (%rax)\nret").contains(&"movntdq %xmm0, (%rax)".to_string()));
    }

    #[test]
    fn what_a_thread_owns_is_reached_through_its_address() {
        let found = gcc("movl %fs:x@tpoff, %eax\nret");
        assert_eq!(found[2..4], ["movq %fs:0, %rdi", "leaq x@tpoff(%rdi), %rdi"]);
        let found = gcc("movl %fs:4(%rax), %eax\nret");
        assert_eq!(found[2..4], ["movq %fs:0, %rdi", "leaq 4(%rdi,%rax), %rdi"]);
        let found = gcc("movl %fs:4(%rdi), %eax\nret");
        let expected =
            ["leaq 4(%rdi), %rdi", "pushq %rax", "movq %fs:0, %rax", "leaq (%rax,%rdi), %rdi"];
        assert_eq!(found[2..6], expected);
        assert_eq!(accesses("movq %fs:40, %rax\nret"), ["f:", "movq %fs:40, %rax", "ret"]);
    }

    #[test]
    fn a_copy_of_64_bytes_is_a_load_and_a_store_past_the_caches() {
        let found = gcc("movdir64b 8(%rax), %rbx\nret");
        assert_eq!(found[2..4], ["leaq 8(%rax), %rdi", "movl $0x40, 0x5ea00008"]);
        assert_eq!(found[6..8], ["movq %rbx, %rdi", "movl $0x80160040, 0x5ea00008"]);
        assert_eq!(found[9], "movdir64b 8(%rax), %rbx");
    }

    #[test]
    fn sequences_for_the_linker_stay_together() {
        let body = ".byte 0x66\nleaq x@tlsgd(%rip), %rdi\n.value 0x6666\nrex64\n\
                    call __tls_get_addr@PLT\nmovq y@GOTPCREL(%rip), %rax\nret";
        assert!(!accesses(body).iter().any(|line| line.contains("0x5ea00008")));
        let found = gcc(body);
        let at = |text: &str| found.iter().position(|line| line.contains(text)).unwrap();
        assert!(at("call *0x5ea001") < at("tlsgd"), "{found:?}");
        assert_eq!(at("tlsgd") + 2, at("__tls_get_addr"), "{found:?}");
    }

    #[test]
    fn a_jump_to_near_targets_only_goes_over_one_to_all() {
        let found = gcc("jrcxz .L2\nnop\n.L2:\nret");
        assert!(found[1].starts_with("jrcxz .Lseawall_"), "{found:?}");
        assert!(found.contains(&"jmp .L2".to_string()));
    }

    #[test]
    fn an_entry_point_stays_at_the_head_of_its_block() {
        let found = lines(".type f,@function\nf:\nendbr64\nnop\nret\n.ident \"GCC\"\n");
        assert_eq!(
            found,
            ["f:", "endbr64", "addq $3, 0x5ea00010", "addq $1, 0x5ea00018", "nop", "ret"]
        );
    }

    #[test]
    fn text_without_code_is_left_as_it_was() {
        let text = "# head\n\t.data\nx:\t.long 1 # movl (%rax), %eax\n\t.section .note,\"\"\n movl";
        assert_eq!(instrument(text).unwrap(), text);
    }
    #[test]
    fn marks_of_copies_have_no_records_and_take_none() {
        let [begin, end] = [Kind::BeginCopy, Kind::EndCopy].map(|kind| kind.what(0));
        let copy = "movq (%rax), %rsi\nmovdqu (%rsi), %xmm0\nmovups %xmm0, 8(%rdi)\n\
                    movdqu 16(%rsi), %xmm1\nmovups %xmm1, 24(%rdi)\nmovq 8(%rsi), %rdi\nret\n";
        let marks = format!("nopl {}\n{copy}", abi::COPY_MARKS[0]);
        for (body, count) in [(copy, 2), (&marks, 3)] {
            let text = format!(".type f,@function\nf:\n{body}.size f,.-f\n.ident \"GCC\"\n");
            let text = instrument(&text).unwrap();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let is_mark = |line: &str| {
                [begin, end].iter().any(|what| line.starts_with(&format!("movl\t${what:#x}, ")))
            };
            assert_eq!(lines.iter().filter(|line| is_mark(line)).count(), count, "{text}");
            let is_record = |line: &str| line.starts_with(".Lseawall_d") && line.ends_with(':');
            let records: Vec<usize> = (0..lines.len()).filter(|at| is_record(lines[*at])).collect();
            assert_eq!(records.len(), 6, "one for each access: {text}");
            for at in records {
                let call =
                    lines[..at].iter().rposition(|line| line.starts_with("call\t*")).unwrap();
                assert!(!is_mark(lines[call - 1]), "{text}");
            }
        }
    }
}
