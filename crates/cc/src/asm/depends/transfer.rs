//! How an instruction moves data: what its results are computed from.
//!
//! A result that is not understood is computed from all registers that the instruction names.
//! Control is predicted, so that a branch moves nothing; a `cmov` takes its flags as data.

use crate::asm::effect::conditional;
use crate::asm::frames::Function;
use crate::asm::general::family;
use crate::asm::instruction::Instruction;
use crate::asm::operand::{BP, Memory, Operand, SP, general, number, vector};
use crate::dependence::{DataStep, FLAGS, FRAME, LOADED, Place, Slot, SlotSet, VECTORS, only};

const AX: Slot = 0;
const CX: Slot = 1;
const DX: Slot = 2;
const BX: Slot = 3;

/// What an instruction does with its memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It calls the machine for it.
    Called,
    /// The operand is in the frame of the function, where nobody else looks.
    Frame,
    /// It does not access it.
    None,
}

/// What an instruction does with its last operand.
enum Result {
    /// Overwrites it with what the others say.
    Moved,
    /// Computes it from all of them.
    Computed,
    /// As `Computed`, and from the flags.
    Conditional,
    /// Compares it.
    Compared,
}

/// One instruction at its place.
pub(super) struct Moves<'a> {
    instruction: &'a Instruction<'a>,
    function: &'a Function,
    access: Access,
    steps: Vec<DataStep>,
}

/// What an instruction does, with places of the frame as they are before it.
pub(super) fn steps(
    instruction: &Instruction<'_>,
    function: &Function,
    access: Access,
) -> Vec<DataStep> {
    let mut moves = Moves { instruction, function, access, steps: Vec::new() };
    moves.all();
    moves.steps
}

/// The place of data that a register is; neither the stack nor the frame pointer is one.
fn slot(name: &str, function: &Function) -> Option<Slot> {
    match (general(name), vector(name)) {
        (Some((_, SP)), _) => None,
        (Some((_, BP)), _) if function.frame_pointer => None,
        (Some((_, number)), _) => Some(number),
        (None, Some((_, number))) if number < 32 => Some(VECTORS + number),
        _ => None,
    }
}

fn set_of(name: Option<&str>, function: &Function) -> SlotSet {
    name.and_then(|name| slot(name, function)).map_or(0, only)
}

/// The places that an address is made of.
pub(super) fn address(memory: &Memory<'_>, function: &Function) -> SlotSet {
    set_of(memory.base, function) | set_of(memory.index, function)
}

/// The word of the frame that an operand is, if that is known.
fn place(memory: &Memory<'_>) -> Option<Place> {
    let (_, base) = general(memory.base?)?;
    let offset = if memory.displacement.is_empty() { 0 } else { number(memory.displacement)? };
    memory.index.is_none().then_some(Place { from_frame: base == BP, offset })
}

impl<'a> Moves<'a> {
    fn set(&mut self, to: Slot, from: SlotSet) {
        self.steps.push(DataStep::Set(to, from));
    }

    fn of(&self, name: &str) -> SlotSet {
        set_of(Some(name), self.function)
    }

    /// What is read from the memory operand.
    fn read(&mut self) -> SlotSet {
        let Some(memory) = self.instruction.memory().copied() else { return 0 };
        match (self.access, place(&memory)) {
            (Access::Called, _) => only(LOADED),
            (Access::Frame, Some(place)) => {
                self.steps.push(DataStep::Fill(FRAME, place));
                only(FRAME)
            }
            (Access::Frame, None) => address(&memory, self.function),
            (Access::None, _) if self.instruction.mnemonic.starts_with("lea") => {
                address(&memory, self.function)
            }
            (Access::None, _) => 0,
        }
    }

    fn write(&mut self, memory: &Memory<'_>, from: SlotSet) {
        match (self.access, place(memory)) {
            (Access::Called, _) => self.steps.push(DataStep::Store(from)),
            (Access::Frame, Some(place)) => self.steps.push(DataStep::Spill(place, from)),
            _ => {}
        }
    }

    fn all(&mut self) {
        let name = self.instruction.mnemonic;
        if self.stack(name) || self.implicit(name) || self.is_zero() {
            return;
        }
        let (result, flags) = result(name, self.instruction);
        let operands = &self.instruction.operands;
        let Some(last) = operands.last() else { return };
        let read = match result {
            // The last operand is only written.
            Result::Moved if last.memory().is_some() => 0,
            _ => self.read(),
        };
        let before = operands.len() - 1;
        let sources = operands[..before].iter().filter_map(Operand::register);
        let mut from = sources.fold(read, |from, name| from | self.of(name));
        let own = last.register().map_or(0, |name| self.of(name));
        match result {
            Result::Moved if !is_part(last) => {}
            Result::Moved | Result::Computed | Result::Compared => from |= own,
            Result::Conditional => from |= own | only(FLAGS),
        }
        if flags {
            self.set(FLAGS, from);
        }
        match (result, last) {
            (Result::Compared, _) => {}
            (_, Operand::Register(name)) => {
                if let Some(to) = slot(name, self.function) {
                    self.set(to, from);
                }
            }
            (_, Operand::Memory(memory)) => self.write(memory, from),
            _ => {}
        }
    }

    /// Pushes and pops.
    fn stack(&mut self, name: &str) -> bool {
        let operand = self.instruction.operands.first().copied();
        let here = |offset| Place { from_frame: false, offset };
        match name {
            "push" | "pushq" => {
                let from = match operand {
                    Some(Operand::Register(name)) => self.of(name),
                    Some(Operand::Memory(_)) => self.read(),
                    _ => 0,
                };
                self.steps.push(DataStep::Spill(here(-8), from));
            }
            "pop" | "popq" => {
                if let Some(Operand::Register(name)) = operand
                    && let Some(to) = slot(name, self.function)
                {
                    self.steps.push(DataStep::Fill(to, here(0)));
                }
            }
            _ => return false,
        }
        true
    }

    /// Instructions with results that they do not name.
    fn implicit(&mut self, name: &str) -> bool {
        let operands = self.instruction.operands.len();
        let stem = family(name).map_or(name, |(stem, ..)| stem);
        match stem {
            "mul" | "div" | "idiv" | "imul" if operands == 1 => {
                let named = self.instruction.registers().next().map_or(0, |name| self.of(name));
                let from = self.read() | named | only(AX) | only(DX);
                [AX, DX, FLAGS].into_iter().for_each(|to| self.set(to, from));
            }
            "cqto" | "cltd" | "cwtd" | "cqo" | "cdq" | "cwd" => self.set(DX, only(AX)),
            "rdtsc" | "rdtscp" | "cpuid" | "xgetbv" => {
                [AX, BX, CX, DX].into_iter().for_each(|to| self.set(to, 0));
            }
            "cmpxchg" => self.compare(only(AX), &[AX]),
            "cmpxchg8b" | "cmpxchg16b" => {
                self.compare(only(AX) | only(DX) | only(BX) | only(CX), &[AX, DX]);
            }
            // It is to where its register points, which stays as it was.
            "movdir64b" => {}
            "xchg" | "xadd" => {
                let names: Vec<&str> = self.instruction.registers().collect();
                let from = names.iter().fold(self.read(), |from, name| from | self.of(name));
                for to in names.iter().filter_map(|name| slot(name, self.function)) {
                    self.set(to, from);
                }
                self.write_back(from);
            }
            "syscall" => self.set(AX, 0),
            _ => return false,
        }
        true
    }

    /// An instruction that compares memory with what is in registers, which get what it finds; or
    /// stores.
    fn compare(&mut self, of: SlotSet, found: &[Slot]) {
        let named = self.instruction.registers().fold(0, |from, name| from | self.of(name));
        let from = self.read() | named | of;
        found.iter().chain(&[FLAGS]).for_each(|to| self.set(*to, from));
        self.write_back(from);
    }

    /// The memory operand gets what the instruction has computed.
    fn write_back(&mut self, from: SlotSet) {
        if let Some(memory) = self.instruction.memory().copied() {
            self.write(&memory, from);
        }
    }

    /// Whether the result is 0 whatever the registers hold; then says so.
    fn is_zero(&mut self) -> bool {
        const NAMES: [&str; 10] = [
            "xor", "sub", "pxor", "vpxor", "xorps", "vxorps", "xorpd", "vxorpd", "vpxord", "vpxorq",
        ];
        let name = self.instruction.mnemonic;
        let stem = family(name).map_or(name, |(stem, ..)| stem);
        let names: Vec<&str> = self.instruction.registers().collect();
        let is_one = names.len() == self.instruction.operands.len() && names.len() > 1;
        if !NAMES.contains(&stem) || !is_one || names[..2].iter().any(|name| *name != names[0]) {
            return false;
        }
        if let Some(to) = names.last().and_then(|name| slot(name, self.function)) {
            self.set(to, 0);
            self.set(FLAGS, 0);
        }
        true
    }
}

/// Whether a write leaves the rest of the register as it was.
fn is_part(operand: &Operand<'_>) -> bool {
    operand.register().and_then(general).is_some_and(|(bytes, _)| bytes < 4)
}

/// What the instruction does with its last operand, and whether it sets the flags.
fn result(name: &str, instruction: &Instruction<'_>) -> (Result, bool) {
    if conditional(name, "cmov") {
        return (Result::Conditional, false);
    }
    if conditional(name, "set") {
        return (Result::Conditional, false);
    }
    let operands = instruction.operands.len();
    if let Some((stem, ..)) = family(name) {
        return match stem {
            "mov" | "movbe" | "movabs" | "lea" | "movnti" | "movdiri" => (Result::Moved, false),
            "popcnt" | "lzcnt" | "tzcnt" | "bsf" | "bsr" | "andn" | "bextr" | "blsr" | "blsi"
            | "blsmsk" | "bzhi" => (Result::Moved, true),
            "rorx" | "shlx" | "shrx" | "sarx" | "pdep" | "pext" | "mulx" => (Result::Moved, false),
            "imul" if operands == 3 => (Result::Moved, true),
            "cmp" | "test" | "bt" => (Result::Compared, true),
            "adc" | "sbb" | "rcl" | "rcr" | "adcx" | "adox" => (Result::Conditional, true),
            "nop" | "bswap" | "cltq" | "cwtl" | "cbtw" | "cdqe" | "cwde" | "cbw" => {
                (Result::Computed, false)
            }
            _ => (Result::Computed, true),
        };
    }
    let base = name.strip_prefix('v').unwrap_or(name);
    match base {
        "comiss" | "comisd" | "ucomiss" | "ucomisd" | "ptest" => (Result::Compared, true),
        _ if base.starts_with("fm") || base.starts_with("fnm") => (Result::Computed, false),
        _ if name.starts_with("mov") || name.starts_with("cvt") || name.starts_with("pmov") => {
            (Result::Moved, false)
        }
        _ if name.starts_with("pshuf") || name.starts_with("lddqu") => (Result::Moved, false),
        // A `v` names its sources beside its result.
        _ if base.len() < name.len() => (Result::Moved, false),
        _ => (Result::Computed, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Vectors;
    use crate::asm::instruction::parse;

    const LEAF: Function = Function {
        exposes: false,
        frame_pointer: false,
        red_zone: true,
        vectors: Vectors::None,
        directed: false,
    };

    fn check(text: &str, access: Access, expected: &[DataStep]) {
        assert_eq!(steps(&parse(text), &LEAF, access), expected, "{text}");
    }

    fn at(offset: i64) -> Place {
        Place { from_frame: false, offset }
    }

    #[test]
    fn a_result_is_made_of_what_the_instruction_reads() {
        let (ax, bx, dx) = (only(AX), only(BX), only(DX));
        for (text, expected) in [
            ("movq %rbx, %rax", &[DataStep::Set(AX, bx)][..]),
            ("movb %bl, %al", &[DataStep::Set(AX, ax | bx)]),
            ("leaq 8(%rbx,%rdx,8), %rax", &[DataStep::Set(AX, bx | dx)]),
            ("addq %rbx, %rax", &[DataStep::Set(FLAGS, ax | bx), DataStep::Set(AX, ax | bx)]),
            ("xorl %eax, %eax", &[DataStep::Set(AX, 0), DataStep::Set(FLAGS, 0)]),
            ("movl $7, %eax", &[DataStep::Set(AX, 0)]),
            ("imulq $56, %rbx, %rax", &[DataStep::Set(FLAGS, bx), DataStep::Set(AX, bx)]),
            ("cmpq %rbx, %rax", &[DataStep::Set(FLAGS, ax | bx)]),
            ("cmovbq %rbx, %rax", &[DataStep::Set(AX, ax | bx | only(FLAGS))]),
            ("sete %al", &[DataStep::Set(AX, ax | only(FLAGS))]),
            ("cqto", &[DataStep::Set(DX, ax)]),
            ("vpaddd %xmm1, %xmm2, %xmm0", &[DataStep::Set(17, only(18) | only(19))]),
            ("paddd %xmm1, %xmm0", &[DataStep::Set(17, only(17) | only(18))]),
            ("vmovq %xmm1, %rax", &[DataStep::Set(AX, only(18))]),
        ] {
            check(text, Access::None, expected);
        }
    }

    #[test]
    fn loads_and_stores_pass_on_what_they_move() {
        let (ax, bx) = (only(AX), only(BX));
        check("movq (%rbx), %rax", Access::Called, &[DataStep::Set(AX, only(LOADED))]);
        check("movq %rax, (%rbx)", Access::Called, &[DataStep::Store(ax)]);
        let from = only(LOADED) | ax;
        check(
            "addq %rax, (%rbx)",
            Access::Called,
            &[DataStep::Set(FLAGS, from), DataStep::Store(from)],
        );
        check("movq %rax, 8(%rsp)", Access::Frame, &[DataStep::Spill(at(8), ax)]);
        let filled = [DataStep::Fill(FRAME, at(8)), DataStep::Set(AX, only(FRAME))];
        check("movq 8(%rsp), %rax", Access::Frame, &filled);
        check("movq 8(%rsp,%rbx,8), %rax", Access::Frame, &[DataStep::Set(AX, bx)]);
        check("pushq %rbx", Access::None, &[DataStep::Spill(at(-8), bx)]);
        check("popq %rbx", Access::None, &[DataStep::Fill(BX, at(0))]);
    }
    #[test]
    fn what_compares_or_exchanges_loads_and_stores() {
        let (ax, bx, cx, dx) = (only(AX), only(BX), only(CX), only(DX));
        let from = only(LOADED) | ax | bx;
        let compared = [DataStep::Set(AX, from), DataStep::Set(FLAGS, from), DataStep::Store(from)];
        check("lock cmpxchgq %rbx, (%rdi)", Access::Called, &compared);
        check("cmpxchgq %rbx, (%rdi)", Access::Called, &compared);
        let from = only(LOADED) | ax | bx | cx | dx;
        let pair = [AX, DX, FLAGS].map(|to| DataStep::Set(to, from));
        let pair = [&pair[..], &[DataStep::Store(from)]].concat();
        check("lock cmpxchg16b (%rdi)", Access::Called, &pair);
        let from = only(LOADED) | bx;
        let exchanged = [DataStep::Set(BX, from), DataStep::Store(from)];
        check("xchgq %rbx, (%rdi)", Access::Called, &exchanged);
        check("movdir64b (%rax), %rbx", Access::Called, &[]);
    }
}
