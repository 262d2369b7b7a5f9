//! Gathers and scatters: one access for each element that the mask selects.
//!
//! Indices and mask are spilled below the stack of the program, and the addresses computed from
//! there. The flags are saved once for all elements.

use super::instruction::Instruction;
use super::operand::{Memory, SP, is_general, vector};
use crate::abi::{self, Kind};

/// A gather or scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gather<'a> {
    pub(crate) kind: Kind,
    /// The bytes of an element.
    pub(crate) bytes: u16,
    index_bytes: u16,
    elements: u16,
    mask: &'a str,
}

/// Bytes between the program's stack and what is spilled, and what is pushed there.
const ROOM: u16 = 384;
const PUSHED: u16 = 16;
const MASK: u16 = PUSHED + 64;

/// Takes a gather or scatter apart.
pub(crate) fn gather<'a>(instruction: &Instruction<'a>) -> Option<Gather<'a>> {
    let name = instruction.mnemonic.strip_prefix('v')?;
    let name = name.strip_prefix('p').unwrap_or(name);
    let (kind, types) = match (name.strip_prefix("gather"), name.strip_prefix("scatter")) {
        (Some(types), _) => (Kind::Load, types),
        (_, Some(types)) => (Kind::Store, types),
        _ => return None,
    };
    let index_bytes = if types.starts_with('d') { 4 } else { 8 };
    let bytes = match types.get(1..)? {
        "d" | "ps" => 4,
        "q" | "pd" => 8,
        _ => return None,
    };
    let memory = instruction.memory().filter(|memory| memory.segment.is_none())?;
    let (indices, _) = vector(memory.index?)?;
    let data = instruction.registers().last().and_then(vector)?.0;
    let elements = (indices / index_bytes).min(data / bytes);
    let mask = match instruction.text.split_once("{%") {
        Some((_, rest)) => rest.split('}').next()?,
        None => instruction.registers().next()?,
    };
    Some(Gather { kind, bytes, index_bytes, elements, mask })
}

/// The calls for the elements of a gather; `unique` tells its labels from all others.
pub(crate) fn lines(
    gather: &Gather<'_>,
    instruction: &Instruction<'_>,
    memory: &Memory<'_>,
    entry: u64,
    unique: usize,
) -> Vec<String> {
    let by_bits = gather.mask.starts_with('k');
    let index = memory.index.unwrap_or_default();
    let scratch = if memory.base.is_some_and(|base| is_general(base, 1)) { "rdx" } else { "rcx" };
    let store = if by_bits { "vmovdqu64" } else { "vmovdqu" };
    let store_mask = if by_bits { "kmovw" } else { store };
    let mut lines = vec![
        format!("leaq\t-{ROOM}(%rsp), %rsp"),
        "pushfq".to_string(),
        format!("pushq\t%{scratch}"),
        format!("{store}\t%{index}, {PUSHED}(%rsp)"),
        format!("{store_mask}\t%{}, {MASK}(%rsp)", gather.mask),
    ];
    for element in 0..gather.elements {
        let (bit, byte) = if by_bits {
            (1 << (element % 8), element / 8)
        } else {
            (0x80, (element + 1) * gather.bytes - 1)
        };
        let label = format!(".Lseawall_{}_{unique}_{element}", instruction.line);
        let load = if gather.index_bytes == 4 { "movslq" } else { "movq" };
        lines.push(format!("testb\t${bit}, {}(%rsp)", MASK + byte));
        lines.push(format!("je\t{label}"));
        lines.push(format!("movq\t%rdi, {:#x}", abi::SAVED));
        lines.push(format!("{load}\t{}(%rsp), %{scratch}", PUSHED + element * gather.index_bytes));
        lines.push(format!("leaq\t{}, %rdi", address(memory, scratch)));
        let what = gather.kind.what(gather.bytes) | abi::SAME;
        lines.push(format!("movl\t${what:#x}, {:#x}", abi::WHAT));
        lines.push(format!("call\t*{:#x}", abi::ENTRIES + 8 * entry));
        lines.push(format!("{label}:"));
    }
    lines.push(format!("popq\t%{scratch}"));
    lines.push("popfq".to_string());
    lines.push(format!("leaq\t{ROOM}(%rsp), %rsp"));
    lines
}

/// The operand with a general register in place of the indices.
fn address(memory: &Memory<'_>, scratch: &str) -> String {
    let index = format!("%{}", memory.index.unwrap_or_default());
    let text = memory.text.replace(&index, &format!("%{scratch}"));
    if memory.base.is_some_and(|base| is_general(base, SP)) {
        return format!("{}+{text}", ROOM + PUSHED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::instruction::parse;

    #[test]
    fn elements_are_counted_by_indices_and_data() {
        for (text, kind, bytes, elements, mask) in [
            ("vpgatherdd %ymm0, (%rax,%ymm1,4), %ymm2", Kind::Load, 4, 8, "ymm0"),
            ("vpgatherqd %xmm0, (%rax,%ymm1,4), %xmm2", Kind::Load, 4, 4, "xmm0"),
            ("vgatherdpd %ymm0, (%rax,%xmm1,8), %ymm2", Kind::Load, 8, 4, "ymm0"),
            ("vgatherqps (%rax,%zmm1,4), %ymm2{%k1}", Kind::Load, 4, 8, "k1"),
            ("vpscatterdd %zmm2, (%rax,%zmm1,4){%k3}", Kind::Store, 4, 16, "k3"),
            ("vscatterdpd %zmm2, x(,%ymm1,8) {%k3}", Kind::Store, 8, 8, "k3"),
        ] {
            let found = gather(&parse(text)).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.kind, found.bytes), (kind, bytes), "{text}");
            assert_eq!((found.elements, found.mask), (elements, mask), "{text}");
        }
    }

    #[test]
    fn the_address_of_an_element_is_that_of_the_program() {
        let instruction = parse("vpgatherdd %ymm0, 8(%rcx,%ymm1,4), %ymm2");
        let memory = instruction.memory().unwrap();
        let text = lines(&gather(&instruction).unwrap(), &instruction, memory, 4, 7).join("\n");
        assert!(text.contains("leaq\t8(%rcx,%rdx,4), %rdi"), "{text}");
        let instruction = parse("vpgatherdd %ymm0, 8(%rsp,%ymm1,4), %ymm2");
        assert_eq!(address(instruction.memory().unwrap(), "rcx"), "400+8(%rsp,%rcx,4)");
    }
}
