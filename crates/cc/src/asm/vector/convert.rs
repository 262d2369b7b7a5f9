//! Conversions between numbers: `cvt`, what is read, `2`, what is made, perhaps a suffix.

use super::register_bytes;
use crate::asm::instruction::Instruction;

/// The bytes in memory of a conversion, if it is one; `base` is without `v`.
pub(super) fn conversion(base: &str, instruction: &Instruction<'_>) -> Option<Option<u16>> {
    if base.starts_with("cvtne") {
        return Some(suffix_bytes(base).or_else(|| register_bytes(instruction)));
    }
    let rest = base.strip_prefix("cvtt").or_else(|| base.strip_prefix("cvt"))?;
    let (from, to) = rest.split_once('2')?;
    if let Some(bytes) = scalar_bytes(from, to).or_else(|| half_registers(from, to)) {
        return Some(Some(bytes));
    }
    let plain = to.trim_end_matches(['x', 'y', 'z']);
    let (from_bytes, to_bytes) = (element_bytes(from)?, element_bytes(plain)?);
    if let Some(bytes) = suffix_bytes(to) {
        return Some(Some(bytes));
    }
    let Some(register) = register_bytes(instruction) else { return Some(None) };
    if instruction.memory_is_last() {
        return Some(Some(register / from_bytes * to_bytes));
    }
    // A register of 16 bytes takes what is narrowed from 16 bytes; from 32 there is a suffix.
    let bytes =
        if register == 16 && to_bytes < from_bytes { 16 } else { register / to_bytes * from_bytes };
    Some(Some(bytes))
}

fn suffix_bytes(name: &str) -> Option<u16> {
    match name.chars().last()? {
        'x' => Some(16),
        'y' => Some(32),
        'z' => Some(64),
        _ => None,
    }
}

fn scalar_bytes(from: &str, to: &str) -> Option<u16> {
    Some(match from {
        "ss" => 4,
        "sd" => 8,
        "sh" => 2,
        "si" | "usi" if to.ends_with('q') => 8,
        "si" | "usi" => 4,
        _ => return None,
    })
}

/// Conversions with the old registers of 8 bytes.
fn half_registers(from: &str, to: &str) -> Option<u16> {
    match (from, to) {
        ("pi", _) | ("ps", "pi") => Some(8),
        ("pd", "pi") => Some(16),
        _ => None,
    }
}

fn element_bytes(name: &str) -> Option<u16> {
    Some(match name {
        "ps" | "dq" | "udq" => 4,
        "pd" | "qq" | "uqq" => 8,
        "ph" | "phx" | "w" | "uw" => 2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::abi::Kind;
    use crate::asm::effect::{Effect, effect};
    use crate::asm::instruction::parse;

    #[test]
    fn conversions_access_what_they_read() {
        for (text, bytes) in [
            ("cvtsi2sdl (%rax), %xmm0", 4),
            ("cvtsi2sdq (%rax), %xmm0", 8),
            ("cvttsd2siq (%rax), %rax", 8),
            ("cvttss2sil (%rax), %eax", 4),
            ("cvtss2sd (%rax), %xmm0", 4),
            ("cvtdq2pd (%rax), %xmm0", 8),
            ("vcvtdq2pd (%rax), %ymm0", 16),
            ("cvtdq2ps (%rax), %xmm0", 16),
            ("cvtpd2ps (%rax), %xmm0", 16),
            ("vcvtpd2psy (%rax), %xmm0", 32),
            ("vcvtpd2ps (%rax), %ymm0", 64),
            ("vcvtps2pd (%rax), %zmm0", 32),
            ("vcvtph2ps (%rax), %ymm0", 16),
            ("cvtpi2ps (%rax), %xmm0", 8),
            ("vcvtdq2pd (%rax){1to8}, %zmm0", 4),
        ] {
            assert_eq!(effect(&parse(text)), Ok(Effect::Access(Kind::Load, bytes)), "{text}");
        }
        let store = effect(&parse("vcvtps2ph $0, %ymm0, (%rax)"));
        assert_eq!(store, Ok(Effect::Access(Kind::Store, 16)));
    }
}
