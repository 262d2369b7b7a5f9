//! The instructions of the old floating-point unit, and what they do to memory.

use super::effect::Known;
use super::instruction::Instruction;
use crate::abi::Kind;

const STATE: &str = "saving all registers is not supported; let the compiler do it";

/// What the instruction does, if it is one of these.
pub(crate) fn effect(instruction: &Instruction<'_>) -> Option<Known> {
    let name = instruction.mnemonic.strip_prefix('f')?;
    let known = known(name)?;
    Some(match known {
        Known::Refused(_) => known,
        _ if instruction.memory().is_none() => Known::NOTHING,
        _ => known,
    })
}

/// `name` is without its `f`.
fn known(name: &str) -> Option<Known> {
    let (kind, bytes) = match name {
        "ldcw" => (Kind::Load, 2),
        "nstcw" | "stcw" | "nstsw" | "stsw" => (Kind::Store, 2),
        "ldenv" => (Kind::Load, 28),
        "nstenv" | "stenv" => (Kind::Store, 28),
        "bld" => (Kind::Load, 10),
        "bstp" => (Kind::Store, 10),
        "nsave" | "save" | "rstor" => return Some(Known::Refused(STATE)),
        "ldt" => (Kind::Load, 10),
        "stpt" => (Kind::Store, 10),
        "ildq" | "ildll" => (Kind::Load, 8),
        "istpq" | "istpll" | "isttpq" | "isttpll" => (Kind::Store, 8),
        _ => return suffixed(name),
    };
    Some(Known::access(kind, Some(bytes)))
}

fn suffixed(name: &str) -> Option<Known> {
    let integer = name.starts_with('i');
    let stem = name.trim_end_matches(['s', 'l']);
    let bytes = match (&name[stem.len()..], integer) {
        ("s", false) => Some(4),
        ("l", false) => Some(8),
        ("s", true) => Some(2),
        ("l", true) => Some(4),
        _ => None,
    };
    let kind = match stem {
        "ld" | "add" | "sub" | "subr" | "mu" | "div" | "divr" | "com" | "comp" => Kind::Load,
        "ild" | "iadd" | "isub" | "isubr" | "imu" | "idiv" | "idivr" | "icom" | "icomp" => {
            Kind::Load
        }
        "st" | "stp" | "ist" | "istp" | "isttp" => Kind::Store,
        _ => return None,
    };
    Some(match stem {
        // `fmuls` and `fmull` end in letters that are also suffixes.
        "mu" | "imu" => Known::access(kind, multiply_bytes(&name[stem.len()..], integer)),
        _ => Known::access(kind, bytes),
    })
}

fn multiply_bytes(rest: &str, integer: bool) -> Option<u16> {
    match rest {
        "ls" => Some(if integer { 2 } else { 4 }),
        "ll" => Some(if integer { 4 } else { 8 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::effect::{Effect, effect};
    use crate::asm::instruction::parse;

    #[test]
    fn widths_follow_the_suffix() {
        for (text, kind, bytes) in [
            ("flds (%rax)", Kind::Load, 4),
            ("fldl (%rax)", Kind::Load, 8),
            ("fldt (%rax)", Kind::Load, 10),
            ("fstps (%rax)", Kind::Store, 4),
            ("fstpt (%rax)", Kind::Store, 10),
            ("filds (%rax)", Kind::Load, 2),
            ("fildl (%rax)", Kind::Load, 4),
            ("fildq (%rax)", Kind::Load, 8),
            ("fildll (%rax)", Kind::Load, 8),
            ("fistpq (%rax)", Kind::Store, 8),
            ("fisttps (%rax)", Kind::Store, 2),
            ("fmull (%rax)", Kind::Load, 8),
            ("fmuls (%rax)", Kind::Load, 4),
            ("fimull (%rax)", Kind::Load, 4),
            ("faddl (%rax)", Kind::Load, 8),
            ("fnstcw (%rax)", Kind::Store, 2),
            ("fldcw (%rax)", Kind::Load, 2),
        ] {
            assert_eq!(effect(&parse(text)), Ok(Effect::Access(kind, bytes)), "{text}");
        }
        assert_eq!(effect(&parse("fmul %st(1), %st")), Ok(Effect::None));
        assert_eq!(effect(&parse("fnstsw %ax")), Ok(Effect::None));
        assert!(effect(&parse("fnsave (%rax)")).is_err());
    }
}
