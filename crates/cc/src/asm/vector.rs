//! The instructions on vector registers, and what they do to memory.

use super::effect::{Effect, Known};
use super::instruction::Instruction;
use super::masked::is_masked;
use super::operand::vector;
use crate::abi::Kind;
use convert::conversion;

mod convert;

/// How many bytes an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// This many.
    Bytes(u16),
    /// A register of those that it names, divided by this.
    Register(u16),
}

const FULL: Width = Width::Register(1);

/// What the instruction does, if it is one of these.
pub(crate) fn effect(instruction: &Instruction<'_>) -> Option<Known> {
    let name = instruction.mnemonic;
    let base = name.strip_prefix('v').unwrap_or(name);
    let bytes = match conversion(base, instruction) {
        Some(bytes) => bytes,
        None => match width(base, instruction)? {
            Width::Bytes(bytes) => Some(bytes),
            Width::Register(part) => register_bytes(instruction).map(|bytes| bytes / part),
        },
    };
    let Some(memory) = instruction.memory() else { return Some(Known::NOTHING) };
    let broadcast = memory.broadcast.unwrap_or(1);
    let kind = match base {
        "movntps" | "movntpd" | "movntdq" | "movntq" | "movntss" | "movntsd" => Kind::Stream,
        "ldmxcsr" => Kind::Load,
        _ if instruction.memory_is_last() => Kind::Store,
        _ => Kind::Load,
    };
    let bytes = bytes.map(|bytes| bytes / broadcast);
    let masked = match kind {
        Kind::Load => Kind::MaskedLoad,
        _ => Kind::MaskedStore,
    };
    match bytes.filter(|_| is_masked(instruction)) {
        Some(bytes) => Some(Known::Effect(Effect::Masked(masked, bytes))),
        None => Some(Known::access(kind, bytes)),
    }
}

/// The widest vector register that the instruction names.
fn register_bytes(instruction: &Instruction<'_>) -> Option<u16> {
    instruction.registers().filter_map(vector).map(|(bytes, _)| bytes).max()
}

fn width(base: &str, instruction: &Instruction<'_>) -> Option<Width> {
    let found = fixed(base).map(Width::Bytes).or_else(|| extension(base).map(Width::Register));
    let found = found.or_else(|| count_of_shift(base, instruction).map(Width::Bytes));
    if found.is_some() {
        return found;
    }
    if base == "movddup" {
        return Some(match register_bytes(instruction) {
            Some(16) => Width::Bytes(8),
            _ => FULL,
        });
    }
    if is_move(base) || is_integer(base) {
        return Some(FULL);
    }
    floating(base)
}

fn fixed(base: &str) -> Option<u16> {
    Some(match base {
        "pinsrb" | "pextrb" | "pbroadcastb" | "kmovb" => 1,
        "pinsrw" | "pextrw" | "pbroadcastw" | "kmovw" | "movsh" | "movw" => 2,
        "pinsrd" | "pextrd" | "pbroadcastd" | "kmovd" | "movss" | "movd" | "insertps"
        | "extractps" | "broadcastss" | "ldmxcsr" | "stmxcsr" | "movntss" => 4,
        "pinsrq" | "pextrq" | "pbroadcastq" | "kmovq" | "movsd" | "movq" | "movhps" | "movlps"
        | "movhpd" | "movlpd" | "broadcastsd" | "broadcastf32x2" | "broadcasti32x2" | "movntsd" => {
            8
        }
        "broadcastf128" | "broadcasti128" | "broadcastf32x4" | "broadcasti32x4"
        | "broadcastf64x2" | "broadcasti64x2" | "insertf128" | "inserti128" | "insertf32x4"
        | "inserti32x4" | "insertf64x2" | "inserti64x2" | "extractf128" | "extracti128"
        | "extractf32x4" | "extracti32x4" | "extractf64x2" | "extracti64x2" => 16,
        "broadcastf32x8" | "broadcasti32x8" | "broadcastf64x4" | "broadcasti64x4"
        | "insertf32x8" | "inserti32x8" | "insertf64x4" | "inserti64x4" | "extractf32x8"
        | "extracti32x8" | "extractf64x4" | "extracti64x4" => 32,
        _ => return None,
    })
}

/// Moves between integers of different widths: the part of the register that is in memory.
fn extension(base: &str) -> Option<u16> {
    let rest = base.strip_prefix("pmov")?;
    let widths = rest
        .strip_prefix("zx")
        .or_else(|| rest.strip_prefix("sx"))
        .or_else(|| rest.strip_prefix("us"))
        .or_else(|| rest.strip_prefix('s'))
        .unwrap_or(rest);
    Some(match widths {
        "bw" | "wd" | "dq" | "wb" | "dw" | "qd" => 2,
        "bd" | "wq" | "db" | "qw" => 4,
        "bq" | "qb" => 8,
        _ => return None,
    })
}

/// Shifts read the count, not the vector, if the first operand is in memory.
fn count_of_shift(base: &str, instruction: &Instruction<'_>) -> Option<u16> {
    let shifts = ["psllw", "pslld", "psllq", "psrlw", "psrld", "psrlq", "psraw", "psrad", "psraq"];
    let counted = instruction.operands.first().is_some_and(|operand| operand.memory().is_some());
    let bytes = if register_bytes(instruction) == Some(8) { 8 } else { 16 };
    (counted && shifts.contains(&base)).then_some(bytes)
}

fn is_move(base: &str) -> bool {
    matches!(
        base,
        "movaps"
            | "movapd"
            | "movups"
            | "movupd"
            | "movdqa"
            | "movdqu"
            | "lddqu"
            | "movdqa32"
            | "movdqa64"
            | "movdqu8"
            | "movdqu16"
            | "movdqu32"
            | "movdqu64"
            | "movntps"
            | "movntpd"
            | "movntdq"
            | "movntq"
            | "movntdqa"
            | "movshdup"
            | "movsldup"
            | "maskmovps"
            | "maskmovpd"
            | "pmaskmovd"
            | "pmaskmovq"
            | "zeroupper"
            | "zeroall"
            | "movmskps"
            | "movmskpd"
            | "pmovmskb"
            | "movhlps"
            | "movlhps"
            | "emms"
            | "movq2dq"
            | "movdq2q"
            | "compressps"
            | "compresspd"
            | "expandps"
            | "expandpd"
    )
}

/// Operations on packed integers, and on all bits, that read a whole register's worth.
fn is_integer(base: &str) -> bool {
    const STARTS: [&str; 56] = [
        "padd",
        "psub",
        "pmul",
        "pmadd",
        "pand",
        "por",
        "pxor",
        "pcmp",
        "punpck",
        "pack",
        "pshuf",
        "pmin",
        "pmax",
        "pavg",
        "psad",
        "psll",
        "psrl",
        "psra",
        "pabs",
        "psign",
        "palignr",
        "phadd",
        "phsub",
        "phmin",
        "ptest",
        "pblend",
        "pclmul",
        "perm",
        "pternlog",
        "prol",
        "pror",
        "pconflict",
        "plzcnt",
        "popcnt",
        "pshld",
        "pshrd",
        "pdp",
        "aes",
        "sha",
        "gf2p8",
        "mpsadbw",
        "dbpsadbw",
        "align",
        "pexpand",
        "pcompress",
        "pmultishift",
        "p2intersect",
        "pperm",
        "shuff",
        "shufi",
        "psha",
        "pshl",
        "prot",
        "pmac",
        "pcom",
        "pcmov",
    ];
    STARTS.iter().any(|start| base.starts_with(start))
}

/// Arithmetic on floating-point numbers, scalar or packed.
fn floating(base: &str) -> Option<Width> {
    // `vfpclasspsx` says how wide its memory operand is.
    for (suffix, bytes) in [("x", 16), ("y", 32), ("z", 64)] {
        if let Some(rest) = base.strip_suffix(suffix) {
            return rest.starts_with("fpclass").then_some(Width::Bytes(bytes));
        }
    }
    let (stem, suffix) = base.split_at_checked(base.len().checked_sub(2)?)?;
    let width = match suffix {
        "ss" => Width::Bytes(4),
        "sd" => Width::Bytes(8),
        "sh" => Width::Bytes(2),
        "ps" | "pd" | "ph" => FULL,
        _ => return None,
    };
    is_arithmetic(stem).then_some(width)
}

fn is_arithmetic(stem: &str) -> bool {
    let fused =
        ["fmadd", "fmsub", "fnmadd", "fnmsub", "fmaddsub", "fmsubadd", "fcmadd", "fcmul", "fmul"];
    if fused.iter().any(|name| stem.starts_with(name)) || stem.starts_with("cmp") {
        return true;
    }
    matches!(
        stem,
        "add"
            | "sub"
            | "mul"
            | "div"
            | "sqrt"
            | "min"
            | "max"
            | "rcp"
            | "rsqrt"
            | "rcp14"
            | "rsqrt14"
            | "rcp28"
            | "rsqrt28"
            | "exp2"
            | "getexp"
            | "getmant"
            | "scalef"
            | "reduce"
            | "range"
            | "fixupimm"
            | "round"
            | "rndscale"
            | "and"
            | "andn"
            | "or"
            | "xor"
            | "unpckl"
            | "unpckh"
            | "shuf"
            | "hadd"
            | "hsub"
            | "addsub"
            | "dp"
            | "blend"
            | "blendv"
            | "blendm"
            | "test"
            | "fpclass"
            | "comi"
            | "ucomi"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::effect::{Effect, effect};
    use crate::asm::instruction::parse;

    #[test]
    fn vector_instructions_have_their_width() {
        for (text, kind, bytes) in [
            ("movss (%rax), %xmm0", Kind::Load, 4),
            ("movsd %xmm0, (%rax)", Kind::Store, 8),
            ("movups (%rax), %xmm0", Kind::Load, 16),
            ("vmovdqu %ymm0, (%rax)", Kind::Store, 32),
            ("vmovdqu64 (%rax), %zmm0", Kind::Load, 64),
            ("vmovntdq %ymm0, (%rax)", Kind::Stream, 32),
            ("movntps %xmm0, (%rax)", Kind::Stream, 16),
            ("movhps %xmm0, 8(%rax)", Kind::Store, 8),
            ("movd (%rax), %xmm0", Kind::Load, 4),
            ("vmovq %xmm0, (%rax)", Kind::Store, 8),
            ("movddup (%rax), %xmm0", Kind::Load, 8),
            ("vbroadcastss (%rax), %ymm0", Kind::Load, 4),
            ("vpbroadcastw (%rax), %ymm0", Kind::Load, 2),
            ("vinserti128 $1, (%rax), %ymm0, %ymm0", Kind::Load, 16),
            ("vextracti128 $1, %ymm0, (%rax)", Kind::Store, 16),
            ("pinsrw $1, (%rax), %xmm0", Kind::Load, 2),
            ("pextrq $1, %xmm0, (%rax)", Kind::Store, 8),
            ("addsd (%rax), %xmm0", Kind::Load, 8),
            ("vaddps (%rax), %ymm0, %ymm1", Kind::Load, 32),
            ("vaddps (%rax){1to16}, %zmm0, %zmm1", Kind::Load, 4),
            ("vfmadd231sd (%rax), %xmm0, %xmm1", Kind::Load, 8),
            ("ucomiss (%rax), %xmm0", Kind::Load, 4),
            ("cmpltsd (%rax), %xmm0", Kind::Load, 8),
            ("vcmppd $1, (%rax), %zmm0, %k1", Kind::Load, 64),
            ("paddd (%rax), %xmm0", Kind::Load, 16),
            ("vpaddd (%rax), %ymm0, %ymm1", Kind::Load, 32),
            ("vpsllq (%rax), %ymm0, %ymm1", Kind::Load, 16),
            ("vpsllvd (%rax), %ymm0, %ymm1", Kind::Load, 32),
            ("pmovzxbw (%rax), %xmm0", Kind::Load, 8),
            ("vpmovzxbd (%rax), %ymm0", Kind::Load, 8),
            ("vpmovqb %zmm0, (%rax)", Kind::Store, 8),
            ("kmovq (%rax), %k1", Kind::Load, 8),
            ("ldmxcsr (%rax)", Kind::Load, 4),
            ("stmxcsr (%rax)", Kind::Store, 4),
            ("aesenc (%rax), %xmm0", Kind::Load, 16),
            ("vshuff64x2 $1, (%rax), %zmm0, %zmm1", Kind::Load, 64),
            ("vpopcntd (%rax), %zmm0", Kind::Load, 64),
            ("vfpclasspsx $1, (%rax), %k1", Kind::Load, 16),
        ] {
            assert_eq!(effect(&parse(text)), Ok(Effect::Access(kind, bytes)), "{text}");
        }
    }
}
