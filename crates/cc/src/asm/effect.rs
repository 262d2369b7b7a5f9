//! What an instruction does to memory.

use super::gather::gather;
use super::instruction::{Flow, Instruction, is_condition};
use super::{AsmError, general, vector, x87};
use crate::abi::{COPY_MARKS, Kind};

/// What an instruction does to memory, except for pushing and popping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// It accesses its memory operand, in bytes.
    Access(Kind, u16),
    /// It copies 64 bytes from its memory operand to the address in its register, past the caches.
    Copy,
    /// It gathers or scatters elements.
    Gather,
    /// It accesses the elements of its memory operand that a mask selects; the bytes of all.
    Masked(Kind, u16),
    /// Something without an address; a string instruction has the bytes of its element.
    Event(Kind, u16),
}

/// What a table says about an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Effect(Effect),
    /// The number of bytes does not follow from suffix and registers.
    NoWidth,
    /// It is known not to be supported; the remedy.
    Refused(&'static str),
}

impl Known {
    /// An access whose width may be unknown.
    pub(crate) fn access(kind: Kind, bytes: Option<u16>) -> Self {
        bytes.map_or(Known::NoWidth, |bytes| Known::Effect(Effect::Access(kind, bytes)))
    }

    pub(crate) const NOTHING: Known = Known::Effect(Effect::None);
}

/// Whether the page does what the instruction does, so that it is not executed.
pub(crate) fn is_replaced(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Clwb
            | Kind::ClflushOpt
            | Kind::Clflush
            | Kind::Sfence
            | Kind::Mfence
            | Kind::Lfence
            | Kind::Pause
            | Kind::Syscall
            | Kind::BeginCopy
            | Kind::EndCopy
    )
}

const OTHER: &str =
    "compile for a processor without it (-march), or write it in other instructions";
const REFUSED: &str = "do without it: what it does cannot be followed";

/// What the instruction does to memory.
pub(crate) fn effect(instruction: &Instruction<'_>) -> Result<Effect, AsmError> {
    let prefixes = instruction.prefixes;
    let known = special(instruction)
        .or_else(|| general::effect(instruction))
        .or_else(|| x87::effect(instruction))
        .or_else(|| vector::effect(instruction));
    let effect = match known {
        Some(Known::Effect(effect)) => effect,
        Some(Known::NoWidth) => {
            let why = "the width of the access is not known";
            return Err(instruction.error(why, "give the instruction its suffix (b, w, l, q)"));
        }
        Some(Known::Refused(remedy)) => {
            let why = format!("`{}` is not supported", instruction.mnemonic);
            return Err(instruction.error(why, remedy));
        }
        None if instruction.memory().is_some() => {
            let why = format!("what `{}` does to memory is not known", instruction.mnemonic);
            return Err(instruction.error(why, OTHER));
        }
        None => Effect::None,
    };
    let Some(memory) = instruction.memory() else { return Ok(effect) };
    if memory.names_place() {
        let why = "its target is counted in bytes, and code is inserted";
        return Err(instruction.error(why, "use a label"));
    }
    match effect {
        Effect::None => Ok(effect),
        Effect::Access(..) if memory.is_linkers() => Ok(Effect::None),
        Effect::Access(..) if prefixes.segment || memory.segment == Some("gs") => {
            Err(instruction.error("the address in this segment is not known", "address it flat"))
        }
        Effect::Access(_, bytes) if prefixes.lock => {
            Ok(Effect::Access(locked(instruction.mnemonic), bytes))
        }
        Effect::Masked(..) if prefixes.segment || memory.segment == Some("gs") => {
            Err(instruction.error("the address in this segment is not known", "address it flat"))
        }
        Effect::Access(..)
        | Effect::Copy
        | Effect::Gather
        | Effect::Masked(..)
        | Effect::Event(..) => Ok(effect),
    }
}

fn locked(mnemonic: &str) -> Kind {
    match mnemonic {
        "cmpxchg8b" | "cmpxchg16b" => Kind::ComparePair,
        _ if mnemonic.starts_with("cmpxchg") => Kind::Compare,
        _ => Kind::Locked,
    }
}

fn special(instruction: &Instruction<'_>) -> Option<Known> {
    let name = instruction.mnemonic;
    let prefixes = instruction.prefixes;
    let line = |kind| Some(Known::Effect(Effect::Access(kind, 64)));
    let event = |kind| Some(Known::Effect(Effect::Event(kind, 0)));
    match name {
        "clwb" => return line(Kind::Clwb),
        "clflushopt" => return line(Kind::ClflushOpt),
        "xsaveopt" if prefixes.data16 => return line(Kind::Clwb),
        "clflush" if prefixes.data16 => return line(Kind::ClflushOpt),
        "clflush" => return line(Kind::Clflush),
        "sfence" => return event(Kind::Sfence),
        "mfence" => return event(Kind::Mfence),
        "lfence" => return event(Kind::Lfence),
        "pause" => return event(Kind::Pause),
        "nopl" => {
            let mark = instruction.memory()?.displacement;
            let kinds = [Kind::BeginCopy, Kind::EndCopy];
            let found = COPY_MARKS.iter().position(|known| *known == mark)?;
            return event(kinds[found]);
        }
        "nop" if prefixes.repeat => return event(Kind::Pause),
        "syscall" => return event(Kind::Syscall),
        "movdir64b" => return Some(Known::Effect(Effect::Copy)),
        _ => {}
    }
    if let Some(known) = string(instruction) {
        return Some(known);
    }
    if gather(instruction).is_some() {
        return Some(Known::Effect(Effect::Gather));
    }
    let bytes = match name {
        "maskmovq" => Some(8),
        "maskmovdqu" | "vmaskmovdqu" => Some(16),
        _ => None,
    };
    if let Some(bytes) = bytes.filter(|_| !prefixes.segment) {
        return Some(Known::Effect(Effect::Masked(Kind::MaskedStream, bytes)));
    }
    is_refused(name).then_some(Known::Refused(REFUSED))
}

/// Instructions that access memory, or something else that is not seen, without saying so.
fn is_refused(name: &str) -> bool {
    const STARTS: [&str; 14] = [
        "maskmov",
        "vmaskmovdqu",
        "xsave",
        "xrstor",
        "fxsave",
        "fxrstor",
        "enqcmd",
        "tile",
        "iret",
        "sysenter",
        "sysexit",
        "sysret",
        "xbegin",
        "monitor",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
        || matches!(
            name.trim_end_matches(['b', 'w', 'l', 'd', 'q']),
            "in" | "out" | "ins" | "outs" | "int" | "ljmp" | "lret" | "enter" | "xlat"
        )
        || matches!(
            name,
            "lcall"
                | "int1"
                | "int3"
                | "into"
                | "hlt"
                | "mwait"
                | "umonitor"
                | "clzero"
                | "xabort"
                | "uiret"
                | "senduipi"
                | "wbinvd"
                | "invd"
                | "vmcall"
        )
}

/// String instructions. `movsd` and `cmpsd` are such ones only without registers.
fn string(instruction: &Instruction<'_>) -> Option<Known> {
    let name = instruction.mnemonic;
    let (stem, suffix) = name.split_at_checked(name.len().checked_sub(1)?)?;
    let bytes = match suffix {
        "b" => 1,
        "w" => 2,
        "l" | "d" => 4,
        "q" => 8,
        _ => return None,
    };
    let accumulates = matches!(stem, "stos" | "scas" | "lods");
    let plain = instruction.operands.iter().all(|operand| match operand.register() {
        Some(name) => accumulates && matches!(name, "al" | "ax" | "eax" | "rax"),
        None => operand.memory().is_some(),
    });
    if !plain {
        return None;
    }
    let kind = match (stem, instruction.prefixes.repeat) {
        ("movs", true) => Kind::RepMovs,
        ("movs", false) => Kind::Movs,
        ("stos", true) => Kind::RepStos,
        ("stos", false) => Kind::Stos,
        ("cmps" | "scas" | "lods", _) => Kind::Scan,
        _ => return None,
    };
    Some(Known::Effect(Effect::Event(kind, bytes)))
}

/// Loads and stores by pushing and popping.
pub(crate) fn stack(instruction: &Instruction<'_>) -> (u32, u32) {
    match instruction.flow() {
        Flow::Call(_) => return (0, 1),
        Flow::Return => return (1, 0),
        _ => {}
    }
    match instruction.mnemonic.trim_end_matches(['q', 'w']) {
        "push" | "pushf" => (0, 1),
        "pop" | "popf" | "leave" => (1, 0),
        _ => (0, 0),
    }
}

/// Whether the address of a `pop` is computed after the stack pointer has moved.
pub(crate) fn moves_before(instruction: &Instruction<'_>) -> bool {
    matches!(instruction.mnemonic, "pop" | "popq")
}

/// Whether the name is `prefix` with a condition and perhaps a suffix.
pub(crate) fn conditional(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    is_condition(rest) || rest.strip_suffix(['b', 'w', 'l', 'q']).is_some_and(is_condition)
}
