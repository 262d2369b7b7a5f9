//! Copies and fills of memory that the compiler has written as several vector instructions: what a
//! program says is one assignment, or one `memcpy`. Their order is the compiler's choice, and no
//! program can rely on it, so that they are one write.
//!
//! Such stores are next to each other in memory, of one place of the source, and store vectors that
//! were loaded, or all the same one. Only loads come between.

use super::effect::{Effect, effect};
use super::instruction::{Flow, Instruction};
use super::operand::{Memory, Operand, number};
use crate::abi::Kind;
use std::collections::HashMap;

/// Bytes of a vector.
const VECTOR_BYTES: u16 = 16;
/// How far before an instruction its place in the source is looked for.
const LOOKED_BACK: usize = 4096;

/// A store of a vector.
#[derive(Clone, Copy)]
struct Store<'a> {
    memory: Memory<'a>,
    at: i64,
    bytes: i64,
    from: &'a str,
    is_loaded: bool,
    line: Option<&'a str>,
}

impl<'a> Store<'a> {
    fn of(
        instruction: &Instruction<'a>,
        loaded: &HashMap<&'a str, bool>,
        assembly: &'a str,
    ) -> Option<Store<'a>> {
        let Ok(Effect::Access(Kind::Store, bytes)) = effect(instruction) else { return None };
        let [Operand::Register(from), Operand::Memory(memory)] = instruction.operands[..] else {
            return None;
        };
        memory.base?;
        let at = if memory.displacement.is_empty() { 0 } else { number(memory.displacement)? };
        let is_loaded = loaded.get(from).copied().unwrap_or(false);
        let line = place(assembly, instruction.start);
        let found = Store { memory, at, bytes: bytes.into(), from, is_loaded, line };
        (bytes >= VECTOR_BYTES).then_some(found)
    }

    /// Whether the other one goes on with what this one does.
    fn continues(&self, next: &Store<'_>) -> bool {
        let place = |memory: &Memory<'_>| (memory.base.is_some(), memory.segment.is_some());
        let same = place(&self.memory) == place(&next.memory)
            && (self.memory.base, self.memory.index) == (next.memory.base, next.memory.index);
        let beside = next.at == self.at + self.bytes || next.at + next.bytes == self.at;
        let one = self.from == next.from || self.is_loaded && next.is_loaded;
        same && beside && one && self.line == next.line
    }
}

/// The file and the line that debug information has for what stands at `start`.
fn place(assembly: &str, start: usize) -> Option<&str> {
    let mut from = start.saturating_sub(LOOKED_BACK);
    while !assembly.is_char_boundary(from) {
        from += 1;
    }
    let before = &assembly[from..start];
    let said = before[before.rfind("\t.loc ")? + "\t.loc ".len()..].trim_start();
    let end = said.match_indices(' ').nth(1).map_or(said.len(), |(at, _)| at);
    said[..end].lines().next()
}

/// The copies among the instructions of a block: the first and the last store of each.
pub(crate) fn copies<'a>(
    instructions: &[&Instruction<'a>],
    assembly: &'a str,
) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut loaded: HashMap<&'a str, bool> = HashMap::new();
    let mut last: Option<(usize, Store<'a>)> = None;
    for (number, &instruction) in instructions.iter().enumerate() {
        let effect = effect(instruction);
        if let Some(store) = Store::of(instruction, &loaded, assembly) {
            match last {
                Some((before, one)) if one.continues(&store) => match found.last_mut() {
                    Some((_, end)) if *end == before => *end = number,
                    _ => found.push((before, number)),
                },
                _ => {}
            }
            last = Some((number, store));
            continue;
        }
        let loads = matches!(effect, Ok(Effect::Access(Kind::Load, _)));
        if instruction.flow() != Flow::Next || !(loads || matches!(effect, Ok(Effect::None))) {
            last = None;
        }
        let Some(Operand::Register(to)) = instruction.operands.last() else { continue };
        let is_move = instruction.mnemonic.contains("mov");
        loaded.insert(to, loads && is_move && instruction.operands.len() == 2);
        if last.is_some_and(|(_, store)| changes(to, &store)) {
            last = None;
        }
    }
    found.retain(|(_, end)| end + 1 < instructions.len());
    found
}

/// Whether the register is part of the address of the store, or what a fill stores.
fn changes(to: &str, store: &Store<'_>) -> bool {
    [store.memory.base, store.memory.index].contains(&Some(to))
        || !store.is_loaded && store.from == to
}

#[cfg(test)]
mod tests {
    use crate::asm::instrument;

    /// The instructions from a mark to the other one.
    fn marked(text: &str) -> Vec<String> {
        let text =
            instrument(&format!("\t.text\n\t.type f, @function\nf:\n{text}\tret\n")).unwrap();
        let mut open = false;
        let mut found = Vec::new();
        let [begin, end] =
            [crate::abi::Kind::BeginCopy, crate::abi::Kind::EndCopy].map(|kind| kind.what(0));
        for line in text.lines().map(str::trim) {
            open |= line.contains(&format!("${begin:#x}")) || line.contains(&format!("${begin},"));
            if line.contains(&format!("${end:#x}")) || line.contains(&format!("${end},")) {
                open = false;
            }
            if open && line.starts_with("mov") && line.contains("xmm") {
                found.push(line.to_owned());
            }
        }
        found
    }

    #[test]
    fn a_copy_of_several_vectors_is_one_write() {
        let copy = "\tmovdqu (%rsi), %xmm0\n\tmovups %xmm0, 8(%rdi)\n\tmovdqu 16(%rsi), %xmm1\n\
                    \tmovups %xmm1, 24(%rdi)\n";
        assert_eq!(marked(copy).len(), 3, "from the first store to the last");
        assert!(marked(&copy.replace("24(", "40(")).is_empty(), "not beside each other");
        assert!(marked(&copy.replace("16(%rsi)", "%xmm2")).is_empty(), "it was computed");
        let fill = "\tpxor %xmm0, %xmm0\n\tmovups %xmm0, 8(%rdi)\n\tmovups %xmm0, 24(%rdi)\n";
        assert_eq!(marked(fill).len(), 2);
        let places = copy.replace("\tmovups %xmm1", "\t.loc 1 7 3\n\tmovups %xmm1");
        assert!(marked(&format!("\t.loc 1 6 3\n{places}")).is_empty(), "of two lines");
        let fenced = copy.replace("\tmovdqu 16", "\tsfence\n\tmovdqu 16");
        assert!(marked(&fenced).is_empty(), "a fence is between");
    }
}
