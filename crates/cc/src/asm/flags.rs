//! What an instruction does to the status flags.

use super::effect::{Effect, conditional, effect, is_replaced};
use super::general::family;
use super::instruction::{Flow, Instruction};
use super::operand::{Operand, number};

/// What an instruction does to the status flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    /// It keeps them, or writes only some.
    Keeps,
    /// It may read them.
    Reads,
    /// It does not read them, and none of them survives.
    Ends,
}

/// What the instruction does to the flags.
pub(crate) fn flags(instruction: &Instruction<'_>) -> Flags {
    match instruction.flow() {
        Flow::Call(_) | Flow::Return if instruction.compiled => return Flags::Ends,
        Flow::Call(_) | Flow::Return => return Flags::Reads,
        Flow::Jump(_) => return Flags::Keeps,
        Flow::Trap => return Flags::Ends,
        Flow::Branch(_) => return branch(instruction.mnemonic),
        Flow::Next => {}
    }
    let name = instruction.mnemonic;
    if conditional(name, "cmov") || conditional(name, "set") {
        return Flags::Reads;
    }
    match effect(instruction) {
        Ok(Effect::Event(..) | Effect::Copy | Effect::Gather) => return Flags::Keeps,
        Ok(Effect::Access(kind, _)) if is_replaced(kind) => return Flags::Keeps,
        _ => {}
    }
    match family(name) {
        Some((stem, ..)) => general(stem, instruction),
        None => other(name, instruction),
    }
}

fn branch(name: &str) -> Flags {
    match name {
        "loop" | "jrcxz" | "jecxz" => Flags::Keeps,
        _ => Flags::Reads,
    }
}

fn general(stem: &str, instruction: &Instruction<'_>) -> Flags {
    match stem {
        "adc" | "sbb" | "rcl" | "rcr" | "adcx" | "adox" | "pushf" => Flags::Reads,
        "add" | "or" | "and" | "sub" | "xor" | "neg" | "cmp" | "test" | "mul" | "imul" | "div"
        | "idiv" | "xadd" | "cmpxchg" | "popcnt" | "lzcnt" | "tzcnt" | "bsf" | "bsr" | "andn"
        | "bextr" | "blsr" | "blsi" | "blsmsk" | "bzhi" | "popf" => Flags::Ends,
        "shl" | "sal" | "shr" | "sar" | "shld" | "shrd" if always_shifts(instruction) => {
            Flags::Ends
        }
        _ => Flags::Keeps,
    }
}

/// A shift by 0 keeps the flags.
fn always_shifts(instruction: &Instruction<'_>) -> bool {
    match instruction.operands.first() {
        Some(Operand::Immediate(count)) => number(count).is_some_and(|count| count & 31 != 0),
        _ => instruction.operands.len() == 1,
    }
}

fn other(name: &str, instruction: &Instruction<'_>) -> Flags {
    let base = name.strip_prefix('v').unwrap_or(name);
    match base {
        "comiss" | "comisd" | "ucomiss" | "ucomisd" | "comish" | "ucomish" | "ptest" | "testps"
        | "testpd" | "pcmpestri" | "pcmpestrm" | "pcmpistri" | "pcmpistrm" => return Flags::Ends,
        _ if base.starts_with("kortest") || base.starts_with("ktest") => return Flags::Ends,
        "clc" | "stc" | "sahf" | "cmpxchg8b" | "cmpxchg16b" => return Flags::Keeps,
        _ if base.starts_with("fcmov") => return Flags::Reads,
        _ => {}
    }
    let known = super::x87::effect(instruction).is_some()
        || super::vector::effect(instruction).is_some()
        || super::general::effect(instruction).is_some()
        || is_quiet(base);
    if known { Flags::Keeps } else { Flags::Reads }
}

/// Instructions without memory operands, of which the other tables do not know.
fn is_quiet(base: &str) -> bool {
    base.starts_with('f')
        || matches!(
            base,
            "maskmovdqu"
                | "maskmovq"
                | "kandw"
                | "knotw"
                | "korw"
                | "kxorw"
                | "kxnorw"
                | "kandb"
                | "knotb"
                | "korb"
                | "kandd"
                | "knotd"
                | "kord"
                | "kandq"
                | "knotq"
                | "korq"
                | "kunpckbw"
                | "kunpckwd"
                | "kunpckdq"
                | "kxorb"
                | "kxord"
                | "kxorq"
                | "kxnorb"
                | "kxnord"
                | "kxnorq"
        )
        || base.starts_with("kshift")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::instruction::parse;

    #[test]
    fn flags_are_read_ended_or_kept() {
        for (text, expected) in [
            ("addl $1, %eax", Flags::Ends),
            ("cmpq %rax, (%rbx)", Flags::Ends),
            ("testb %al, %al", Flags::Ends),
            ("ucomisd %xmm0, %xmm1", Flags::Ends),
            ("lock xaddl %eax, (%rbx)", Flags::Ends),
            ("call f", Flags::Ends),
            ("ret", Flags::Ends),
            ("sarl $3, %eax", Flags::Ends),
            ("sall %eax", Flags::Ends),
            ("sall %cl, %eax", Flags::Keeps),
            ("roll $3, %eax", Flags::Keeps),
            ("incl %eax", Flags::Keeps),
            ("movl (%rax), %eax", Flags::Keeps),
            ("movaps (%rax), %xmm0", Flags::Keeps),
            ("leaq (%rax), %rax", Flags::Keeps),
            ("bswap %eax", Flags::Keeps),
            ("rep movsq", Flags::Keeps),
            ("clwb (%rax)", Flags::Keeps),
            ("sfence", Flags::Keeps),
            ("vpgatherdd (%rax,%zmm1,4), %zmm2{%k1}", Flags::Keeps),
            ("fldl (%rax)", Flags::Keeps),
            ("vcvtsi2sdl %eax, %xmm0, %xmm0", Flags::Keeps),
            ("movzbl %al, %eax", Flags::Keeps),
            ("pushq %rax", Flags::Keeps),
            ("sbbl %eax, %eax", Flags::Reads),
            ("adcq $0, %rax", Flags::Reads),
            ("setne %al", Flags::Reads),
            ("cmovgq %rax, %rbx", Flags::Reads),
            ("jne .L2", Flags::Reads),
            ("pushfq", Flags::Reads),
            ("cmc", Flags::Reads),
            ("xbogus %eax", Flags::Reads),
        ] {
            assert_eq!(flags(&parse(text)), expected, "{text}");
        }
        let mut inline = parse("call f");
        inline.compiled = false;
        assert_eq!(flags(&inline), Flags::Reads);
    }
}
