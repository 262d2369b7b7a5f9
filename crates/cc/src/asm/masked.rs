//! Loads and stores of the elements that a mask selects: with mask registers, with vectors of which
//! the sign bits count, and `maskmovdqu`, which stores past the caches.
//!
//! Which elements these are is known before the instruction runs: the mask goes to the page, so
//! that what is not selected is neither touched nor counted as stored.

use super::instruction::Instruction;
use crate::abi;

/// A masked access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Masked<'a> {
    /// The bytes of an element.
    element: u16,
    /// Whether the elements are together in memory.
    packed: bool,
    mask: &'a str,
}

/// Whether it is one of these. Arithmetic with a mask reads its whole operand here.
pub(crate) fn is_masked(instruction: &Instruction<'_>) -> bool {
    masked(instruction).is_some()
}

/// Takes a masked access apart.
pub(crate) fn masked<'a>(instruction: &Instruction<'a>) -> Option<Masked<'a>> {
    let name = instruction.mnemonic;
    let mut registers = instruction.registers();
    if matches!(name, "maskmovq" | "maskmovdqu" | "vmaskmovdqu") {
        return Some(Masked { element: 1, packed: false, mask: registers.next()? });
    }
    let base = name.strip_prefix('v')?;
    let is_store = instruction.memory_is_last();
    if matches!(base, "maskmovps" | "maskmovpd" | "pmaskmovd" | "pmaskmovq") {
        let mask = registers.nth(usize::from(is_store))?;
        return Some(Masked { element: element(base)?, packed: false, mask });
    }
    let mask = instruction.text.split_once("{%k")?.1.split('}').next()?;
    if !is_store && !is_load(base) {
        return None;
    }
    let packed = base.contains("compress") || base.contains("expand");
    Some(Masked { element: element(base)?, packed, mask })
}

/// Loads that do nothing else.
fn is_load(base: &str) -> bool {
    ["movdqu", "movdqa", "movup", "movap", "expandp", "pexpand"]
        .iter()
        .any(|start| base.starts_with(start))
}

/// The bytes of an element in memory.
fn element(base: &str) -> Option<u16> {
    let ends = |ends: &[&str]| ends.iter().any(|end| base.ends_with(end));
    if base.starts_with('p') {
        return Some(match base.chars().last()? {
            'b' => 1,
            'w' => 2,
            'd' => 4,
            'q' => 8,
            _ => return None,
        });
    }
    Some(match base {
        _ if ends(&["32x2", "32x4", "32x8", "ps", "ss", "32"]) => 4,
        _ if ends(&["64x2", "64x4", "pd", "sd", "64"]) => 8,
        _ if ends(&["ph", "sh", "phx", "16"]) => 2,
        "movdqu8" => 1,
        _ => return None,
    })
}

impl Masked<'_> {
    /// The length of an access with this many bytes in all.
    pub(crate) fn length(&self, bytes: u16) -> u16 {
        abi::masked_length(bytes, self.element) | if self.packed { abi::PACKED } else { 0 }
    }

    /// Puts the mask where the page has it; `%rdi` is free, and flags are kept.
    pub(crate) fn lines(&self, bytes: u16) -> Vec<String> {
        let mask = self.mask;
        let wide = mask.starts_with('y') || mask.starts_with('x');
        let get = match self.element {
            _ if !wide && !mask.starts_with("mm") => {
                let (mov, to) =
                    if bytes / self.element > 16 { ("kmovq", "rdi") } else { ("kmovw", "edi") };
                format!("{mov}\t%k{mask}, %{to}")
            }
            1 => format!("pmovmskb\t%{mask}, %edi"),
            4 => format!("vmovmskps\t%{mask}, %edi"),
            _ => format!("vmovmskpd\t%{mask}, %edi"),
        };
        vec![get, format!("movq\t%rdi, {:#x}", abi::MASK)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Kind;
    use crate::asm::effect::{Effect, effect};
    use crate::asm::instruction::parse;

    #[test]
    fn masked_accesses_have_their_elements_and_their_mask() {
        use Kind::{MaskedLoad, MaskedStore, MaskedStream};
        for (text, kind, bytes, element, mask) in [
            ("maskmovdqu %xmm1, %xmm0", MaskedStream, 16, 1, "xmm1"),
            ("vmaskmovdqu %xmm1, %xmm0", MaskedStream, 16, 1, "xmm1"),
            ("maskmovq %mm1, %mm0", MaskedStream, 8, 1, "mm1"),
            ("vmaskmovps %ymm0, %ymm1, (%rax)", MaskedStore, 32, 4, "ymm1"),
            ("vpmaskmovq (%rax), %xmm1, %xmm2", MaskedLoad, 16, 8, "xmm1"),
            ("vmovdqu8 %zmm0, (%rax){%k1}", MaskedStore, 64, 1, "1"),
            ("vmovdqu64 (%rax), %zmm0{%k2}{z}", MaskedLoad, 64, 8, "2"),
            ("vmovups %ymm0, 8(%rax) {%k1}", MaskedStore, 32, 4, "1"),
            ("vmovsd %xmm0, (%rax){%k1}", MaskedStore, 8, 8, "1"),
            ("vpmovqb %zmm0, (%rax){%k3}", MaskedStore, 8, 1, "3"),
            ("vextracti32x4 $1, %zmm0, (%rax){%k1}", MaskedStore, 16, 4, "1"),
        ] {
            let instruction = parse(text);
            assert_eq!(effect(&instruction), Ok(Effect::Masked(kind, bytes)), "{text}");
            let found = masked(&instruction).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.element, found.packed, found.mask), (element, false, mask), "{text}");
        }
        let compressed = masked(&parse("vpcompressd %zmm0, (%rax){%k1}")).unwrap();
        assert_eq!(compressed.length(64), abi::PACKED | 4 << 8 | 64);
        assert!(masked(&parse("vaddps (%rax), %zmm0, %zmm1{%k1}")).is_none());
    }

    #[test]
    fn a_mask_is_read_without_touching_flags() {
        let lines = |text: &str, bytes| masked(&parse(text)).unwrap().lines(bytes)[0].clone();
        assert_eq!(lines("maskmovq %mm1, %mm0", 8), "pmovmskb\t%mm1, %edi");
        assert_eq!(lines("vmaskmovpd %ymm0, %ymm1, (%rax)", 32), "vmovmskpd\t%ymm1, %edi");
        assert_eq!(lines("vmovups %zmm0, (%rax){%k1}", 64), "kmovw\t%k1, %edi");
        assert_eq!(lines("vmovdqu8 %ymm0, (%rax){%k1}", 32), "kmovq\t%k1, %rdi");
    }
}
