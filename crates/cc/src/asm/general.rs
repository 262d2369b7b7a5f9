//! The instructions on general registers, and what they do to memory.

use super::effect::{Known, conditional};
use super::instruction::{Flow, Instruction};
use super::operand::general;
use crate::abi::Kind;

/// What a family of instructions does to a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Writes it if it is the last operand, else reads it.
    Move,
    /// Reads and writes it if it is the last operand, else reads it.
    Update,
    /// Reads it.
    Read,
    /// Exchanges it, locked.
    Exchange,
    /// Writes it past the caches.
    Stream,
    /// Does not access it.
    Nothing,
}

fn rule(family: &str) -> Option<Rule> {
    Some(match family {
        "mov" | "movbe" | "movabs" => Rule::Move,
        "add" | "or" | "adc" | "sbb" | "and" | "sub" | "xor" | "inc" | "dec" | "neg" | "not"
        | "shl" | "sal" | "shr" | "sar" | "rol" | "ror" | "rcl" | "rcr" | "shld" | "shrd"
        | "bts" | "btr" | "btc" | "cmpxchg" | "xadd" => Rule::Update,
        "cmp" | "test" | "bt" | "mul" | "imul" | "div" | "idiv" | "popcnt" | "lzcnt" | "tzcnt"
        | "bsf" | "bsr" | "adcx" | "adox" | "andn" | "bextr" | "blsr" | "blsi" | "blsmsk"
        | "bzhi" | "shlx" | "shrx" | "sarx" | "rorx" | "mulx" | "pdep" | "pext" | "crc32" => {
            Rule::Read
        }
        "xchg" => Rule::Exchange,
        "movnti" | "movdiri" => Rule::Stream,
        "lea" | "nop" | "bswap" | "cbtw" | "cwtl" | "cltq" | "cwtd" | "cltd" | "cqto" | "cdq"
        | "cqo" | "cdqe" | "cwde" | "cbw" | "cwd" | "leave" | "pushf" | "popf" | "cpuid"
        | "rdtsc" | "rdtscp" | "rdpid" | "xgetbv" | "endbr64" | "endbr32" | "cld" | "std"
        | "rdfsbase" | "rdgsbase" | "wrfsbase" | "wrgsbase" | "rdpkru" | "wrpkru" | "serialize"
        | "cldemote" | "prefetch" | "prefetchw" | "prefetchwt1" | "prefetcht0" | "prefetcht1"
        | "prefetcht2" | "prefetchnta" | "rdrand" | "rdseed" => Rule::Nothing,
        _ => return None,
    })
}

/// The family of a mnemonic, and the bytes that its suffix means.
pub(crate) fn family(mnemonic: &str) -> Option<(&str, Rule, Option<u16>)> {
    if let Some(rule) = rule(mnemonic) {
        return Some((mnemonic, rule, None));
    }
    let bytes = suffix_bytes(mnemonic.chars().last()?)?;
    let stem = &mnemonic[..mnemonic.len() - 1];
    rule(stem).map(|rule| (stem, rule, Some(bytes)))
}

fn suffix_bytes(suffix: char) -> Option<u16> {
    Some(match suffix {
        'b' => 1,
        'w' => 2,
        'l' => 4,
        'q' => 8,
        _ => return None,
    })
}

/// What the instruction does, if it is one of these.
pub(crate) fn effect(instruction: &Instruction<'_>) -> Option<Known> {
    let name = instruction.mnemonic;
    if let Some(known) = control(instruction).or_else(|| extension(instruction)) {
        return Some(known);
    }
    if conditional(name, "cmov") {
        return Some(Known::access(Kind::Load, register_bytes(instruction)));
    }
    if let Some(condition) = name.strip_prefix("set") {
        let known = super::instruction::is_condition(condition);
        return known.then(|| Known::access(Kind::Store, Some(1)));
    }
    match name {
        "cmpxchg8b" => return Some(Known::access(Kind::Modify, Some(8))),
        "cmpxchg16b" => return Some(Known::access(Kind::Modify, Some(16))),
        _ => {}
    }
    let (stem, rule, suffix) = family(name)?;
    if instruction.memory().is_none() {
        return Some(Known::NOTHING);
    }
    // Compilers keep the number of the bit below the width.
    let bit = stem.starts_with("bt") && instruction.registers().next().is_some();
    if bit && !instruction.compiled {
        return Some(Known::Refused("a bit number in a register may lie outside of the operand"));
    }
    let kind = match rule {
        Rule::Nothing => return Some(Known::NOTHING),
        Rule::Move if instruction.memory_is_last() => Kind::Store,
        Rule::Update if instruction.memory_is_last() => Kind::Modify,
        Rule::Move | Rule::Update | Rule::Read => Kind::Load,
        Rule::Exchange => Kind::Locked,
        Rule::Stream => Kind::Stream,
    };
    Some(Known::access(kind, suffix.or_else(|| register_bytes(instruction))))
}

/// Jumps, calls, pushes and pops.
fn control(instruction: &Instruction<'_>) -> Option<Known> {
    match instruction.flow() {
        Flow::Jump(_) | Flow::Call(_) if instruction.indirect => {
            let memory = instruction.memory().is_some();
            return Some(if memory { Known::access(Kind::Load, Some(8)) } else { Known::NOTHING });
        }
        Flow::Next => {}
        _ => return Some(Known::NOTHING),
    }
    let (kind, bytes) = match instruction.mnemonic {
        "push" | "pushq" => (Kind::Load, 8),
        "pushw" => (Kind::Load, 2),
        "pop" | "popq" => (Kind::Store, 8),
        "popw" => (Kind::Store, 2),
        _ => return None,
    };
    let memory = instruction.memory().is_some();
    Some(if memory { Known::access(kind, Some(bytes)) } else { Known::NOTHING })
}

/// Moves that extend zeros or the sign: `movzbl`, `movslq`, `movzb`, `movsxd`.
fn extension(instruction: &Instruction<'_>) -> Option<Known> {
    let bytes = match instruction.mnemonic {
        "movzbw" | "movzbl" | "movzbq" | "movsbw" | "movsbl" | "movsbq" | "movzb" => 1,
        "movzwl" | "movzwq" | "movswl" | "movswq" | "movzw" => 2,
        "movslq" | "movsxd" | "movzlq" => 4,
        "movsb" => 1,
        "movsw" => 2,
        "movsl" => 4,
        "movzx" | "movsx" => {
            let plain = instruction.memory().is_none();
            return Some(if plain { Known::NOTHING } else { Known::NoWidth });
        }
        _ => return None,
    };
    Some(if instruction.memory().is_some() {
        Known::access(Kind::Load, Some(bytes))
    } else {
        Known::NOTHING
    })
}

/// The width of the last register that is no count of a shift.
fn register_bytes(instruction: &Instruction<'_>) -> Option<u16> {
    let shifts = ["sh", "sa", "ro", "rc"].iter().any(|name| instruction.mnemonic.starts_with(name));
    let mut registers: Vec<&str> = instruction.registers().collect();
    registers.retain(|&name| !(shifts && name == "cl"));
    let name = registers.last()?;
    general(name).map(|(bytes, _)| bytes).or_else(|| other_bytes(name))
}

fn other_bytes(name: &str) -> Option<u16> {
    match name {
        "cs" | "ds" | "es" | "fs" | "gs" | "ss" => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::effect::{Effect, effect, moves_before, stack};
    use crate::asm::instruction::parse;

    fn check(text: &str, kind: Kind, bytes: u16) {
        assert_eq!(effect(&parse(text)), Ok(Effect::Access(kind, bytes)), "{text}");
    }

    #[test]
    fn loads_stores_and_updates_have_their_width() {
        for (text, kind, bytes) in [
            ("movl (%rax), %ecx", Kind::Load, 4),
            ("mov %r8w, (%rax)", Kind::Store, 2),
            ("movb $1, x(%rip)", Kind::Store, 1),
            ("movq 8(%rax), %xmm0", Kind::Load, 8),
            ("addq $1, (%rax)", Kind::Modify, 8),
            ("add (%rax), %bl", Kind::Load, 1),
            ("cmpw $1, (%rax)", Kind::Load, 2),
            ("imull $3, (%rax), %ecx", Kind::Load, 4),
            ("shll %cl, (%rax)", Kind::Modify, 4),
            ("shld %cl, %rax, (%rbx)", Kind::Modify, 8),
            ("sall (%rax)", Kind::Modify, 4),
            ("movzbl (%rax), %ecx", Kind::Load, 1),
            ("movslq (%rax), %rcx", Kind::Load, 4),
            ("movsbl (%rax), %ecx", Kind::Load, 1),
            ("cmovl (%rax), %ecx", Kind::Load, 4),
            ("cmovleq (%rax), %rcx", Kind::Load, 8),
            ("setl (%rax)", Kind::Store, 1),
            ("crc32b (%rax), %ecx", Kind::Load, 1),
            ("xchgl %eax, (%rbx)", Kind::Locked, 4),
            ("lock xaddq %rax, (%rbx)", Kind::Locked, 8),
            ("lock cmpxchg16b (%rbx)", Kind::ComparePair, 16),
            ("lock cmpxchgl %ecx, (%rbx)", Kind::Compare, 4),
            ("movnti %rax, (%rbx)", Kind::Stream, 8),
            ("btl $3, (%rbx)", Kind::Load, 4),
            ("lock btsq $3, (%rbx)", Kind::Locked, 8),
            ("call *8(%rax)", Kind::Load, 8),
            ("jmp *.L4(,%rax,8)", Kind::Load, 8),
            ("pushq (%rax)", Kind::Load, 8),
            ("popq (%rax)", Kind::Store, 8),
            ("movabsq 0x1234567890, %rax", Kind::Load, 8),
        ] {
            check(text, kind, bytes);
        }
    }

    #[test]
    fn what_accesses_nothing_is_left_alone() {
        for text in [
            "leaq 8(%rax), %rcx",
            "nopw 0x0(%rax,%rax,1)",
            "prefetcht0 (%rax)",
            "jmp .L2",
            "call f",
            "movl $1, %eax",
            "movq x@GOTPCREL(%rip), %rax",
            "call *f@GOTPCREL(%rip)",
            "movq x@gottpoff(%rip), %rax",
            "xbogus %eax",
        ] {
            assert_eq!(effect(&parse(text)), Ok(Effect::None), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_names_it() {
        for text in [
            "xbogus (%rax)",
            "fs maskmovdqu %xmm0, %xmm1",
            "fxsave (%rax)",
            "xsaveopt (%rax)",
            "xbegin 1f",
            "int $3",
            "inb %dx, %al",
            "movl %gs:8, %eax",
            "add $1, (%rax)",
            "jmp .+5",
            "enter $8, $0",
        ] {
            let found = effect(&parse(text)).expect_err(text);
            assert_eq!(found.statement, text);
            assert!(!found.why.is_empty() && !found.remedy.is_empty());
        }
        assert!(effect(&parse("xbogus (%rax)")).unwrap_err().to_string().contains("`xbogus`"));
        let mut inline = parse("btl %eax, (%rbx)");
        assert_eq!(effect(&inline), Ok(Effect::Access(Kind::Load, 4)));
        inline.compiled = false;
        assert!(effect(&inline).is_err());
    }

    #[test]
    fn events_have_no_address() {
        for (text, kind, bytes) in [
            ("rep movsq", Kind::RepMovs, 8),
            ("movsl", Kind::Movs, 4),
            ("rep stosb", Kind::RepStos, 1),
            ("stosq %rax, (%rdi)", Kind::Stos, 8),
            ("repz cmpsb", Kind::Scan, 1),
            ("repnz scasb", Kind::Scan, 1),
            ("lodsd", Kind::Scan, 4),
            ("mfence", Kind::Mfence, 0),
            ("rep nop", Kind::Pause, 0),
            ("syscall", Kind::Syscall, 0),
        ] {
            assert_eq!(effect(&parse(text)), Ok(Effect::Event(kind, bytes)), "{text}");
        }
    }

    #[test]
    fn flushes_are_of_a_line() {
        check("clwb 8(%rax)", Kind::Clwb, 64);
        check("clflush (%rax)", Kind::Clflush, 64);
        check("data16 clflush (%rax)", Kind::ClflushOpt, 64);
        check("data16 xsaveopt (%rax)", Kind::Clwb, 64);
    }

    #[test]
    fn pushes_and_pops_are_counted() {
        assert_eq!(stack(&parse("pushq %rbx")), (0, 1));
        assert_eq!(stack(&parse("popq %rbx")), (1, 0));
        assert_eq!(stack(&parse("call f")), (0, 1));
        assert_eq!(stack(&parse("rep ret")), (1, 0));
        assert_eq!(stack(&parse("leave")), (1, 0));
        assert_eq!(stack(&parse("popcntl %eax, %eax")), (0, 0));
        assert!(moves_before(&parse("popq 8(%rsp)")));
    }
}
