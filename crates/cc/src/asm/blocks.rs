//! Basic blocks, and where the program still needs the flags.

use super::flags::{Flags, flags};
use super::instruction::{Flow, Instruction};
use super::program::{Program, What};
use std::collections::BTreeMap;

/// Instructions that run one after the other. A call does not end a block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Places in the program.
    pub(crate) instructions: Vec<usize>,
    function: Option<usize>,
    /// Blocks that may follow.
    next: Vec<usize>,
    /// Whether something may follow that needs the flags and is not among `next`.
    flags_leave: bool,
}

/// Divides a program into blocks.
pub(crate) fn blocks(program: &Program<'_>) -> Vec<Block> {
    let mut division = Division::default();
    let mut sections: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, point) in program.points.iter().enumerate() {
        sections.entry(point.section).or_default().push(at);
    }
    for places in sections.values() {
        division.section(program, places);
    }
    division.follow(program);
    division.blocks
}

/// How a block ends in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The next block follows.
    Open,
    /// Nothing follows but what the last instruction says.
    Closed,
    /// Something follows that is not known.
    Unknown,
}

#[derive(Default)]
struct Division<'a> {
    blocks: Vec<Block>,
    ends: Vec<End>,
    named: BTreeMap<&'a str, usize>,
    /// Labels such as `1:` have several places.
    numbered: BTreeMap<&'a str, Vec<(usize, usize)>>,
}

impl<'a> Division<'a> {
    fn section(&mut self, program: &Program<'a>, places: &[usize]) {
        self.start(None);
        for &at in places {
            let point = &program.points[at];
            match &point.what {
                What::Label(name) if is_target(program, name) => {
                    self.start(point.function);
                    self.name(name, at);
                }
                What::Label(_) => {}
                What::Fork => {
                    self.close(End::Unknown);
                    self.start(point.function);
                }
                What::Data(_) => {
                    self.close(End::Closed);
                    self.start(point.function);
                }
                What::Instruction(instruction) => self.instruction(instruction, at, point.function),
            }
        }
        self.close(End::Unknown);
    }

    fn start(&mut self, function: Option<usize>) {
        self.blocks.push(Block { function, ..Block::default() });
        self.ends.push(End::Open);
    }

    fn close(&mut self, end: End) {
        if let Some(last) = self.ends.last_mut() {
            *last = end;
        }
    }

    fn name(&mut self, name: &'a str, at: usize) {
        let block = self.blocks.len() - 1;
        if is_number(name) {
            self.numbered.entry(name).or_default().push((at, block));
        } else {
            self.named.insert(name, block);
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'_>, at: usize, function: Option<usize>) {
        if let Some(block) = self.blocks.last_mut() {
            block.instructions.push(at);
            block.function = function;
        }
        match instruction.flow() {
            Flow::Next | Flow::Call(_) => {}
            Flow::Branch(_) => self.start(function),
            Flow::Jump(_) | Flow::Return | Flow::Trap => {
                self.close(End::Closed);
                self.start(function);
            }
        }
    }

    /// Finds what may follow each block.
    fn follow(&mut self, program: &Program<'a>) {
        let addressed = self.addressed(program);
        for number in 0..self.blocks.len() {
            let mut next = Vec::new();
            let mut leaves = false;
            match self.ends[number] {
                End::Open => next.push(number + 1),
                End::Closed => {}
                End::Unknown => leaves = true,
            }
            let last = self.blocks[number].instructions.last();
            if let Some((at, What::Instruction(last))) =
                last.map(|&at| (at, &program.points[at].what))
            {
                let target = match last.flow() {
                    Flow::Jump(target) | Flow::Branch(target) => Some(target),
                    _ => None,
                };
                match target {
                    Some(Some(name)) => match self.find(name, at) {
                        Some(block) => next.push(block),
                        None => leaves |= !last.compiled,
                    },
                    Some(None) => {
                        let function = self.blocks[number].function;
                        next.extend(addressed.get(&function).into_iter().flatten());
                        leaves |= !last.compiled;
                    }
                    None => {}
                }
            }
            self.blocks[number].next = next;
            self.blocks[number].flags_leave = leaves;
        }
    }

    /// The blocks of each function whose address is taken.
    fn addressed(&self, program: &Program<'a>) -> BTreeMap<Option<usize>, Vec<usize>> {
        let mut found: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for (name, &block) in &self.named {
            if program.addressed.contains(name) {
                found.entry(self.blocks[block].function).or_default().push(block);
            }
        }
        found
    }

    /// The block that a jump at this place leads to.
    fn find(&self, name: &str, at: usize) -> Option<usize> {
        if let Some(&block) = self.named.get(name) {
            return Some(block);
        }
        let (number, direction) = name.split_at_checked(name.len().checked_sub(1)?)?;
        let places = self.numbered.get(number)?;
        let found = match direction {
            "f" => places.iter().find(|&&(place, _)| place > at),
            "b" => places.iter().rev().find(|&&(place, _)| place < at),
            _ => None,
        };
        found.map(|&(_, block)| block)
    }
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Labels that only debuggers read do not divide a block.
fn is_target(program: &Program<'_>, name: &str) -> bool {
    !name.starts_with(".L") || program.mentioned.contains(name) || program.addressed.contains(name)
}

/// Whether the flags are needed before each place of the program.
pub(crate) fn live_flags(program: &Program<'_>, blocks: &[Block]) -> Vec<bool> {
    let mut uses = vec![Flags::Keeps; program.points.len()];
    for (at, point) in program.points.iter().enumerate() {
        if let What::Instruction(instruction) = &point.what {
            uses[at] = flags(instruction);
        }
    }
    let mut before = vec![false; program.points.len()];
    let mut at_start = vec![false; blocks.len()];
    loop {
        let mut changed = false;
        for (number, block) in blocks.iter().enumerate().rev() {
            let mut live = block.flags_leave || block.next.iter().any(|&next| at_start[next]);
            for &at in block.instructions.iter().rev() {
                live = match uses[at] {
                    Flags::Keeps => live,
                    Flags::Reads => true,
                    Flags::Ends => false,
                };
                before[at] = live;
            }
            changed |= std::mem::replace(&mut at_start[number], live) != live;
        }
        if !changed {
            return before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::{program, scan};

    /// For each instruction of a compiled file, the number of its block and whether the flags are
    /// needed before it.
    fn look(body: &str) -> Vec<(usize, bool)> {
        let text = format!(".type f,@function\nf:\n{body}\n.size f,.-f\n.ident \"GCC\"\n");
        let clean = scan::plain(&text);
        let program = program::read(&scan::statements(&text, &clean)).unwrap();
        let blocks = blocks(&program);
        let live = live_flags(&program, &blocks);
        let full: Vec<&Block> =
            blocks.iter().filter(|block| !block.instructions.is_empty()).collect();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (number, block) in full.iter().enumerate() {
            found.extend(block.instructions.iter().map(|&at| (at, number)));
        }
        found.sort_unstable();
        found.into_iter().map(|(at, number)| (number, live[at])).collect()
    }

    #[test]
    fn jumps_and_targets_divide_blocks() {
        let found = look("nop\n.LVL1:\nnop\njne .L2\nnop\ncall g\nnop\n.L2:\nnop\nret");
        let numbers: Vec<usize> = found.iter().map(|&(number, _)| number).collect();
        assert_eq!(numbers, [0, 0, 0, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn flags_are_needed_between_writing_and_reading() {
        let found = look("nop\ncmpl $1, %eax\nmovl (%rax), %ecx\njne .L2\nnop\n.L2:\nnop\nret");
        let live: Vec<bool> = found.iter().map(|&(_, live)| live).collect();
        assert_eq!(live, [false, false, true, true, false, false, false]);
    }

    #[test]
    fn flags_are_followed_over_jumps() {
        let found = look("cmpl $1, %eax\njmp 1f\nnop\n1:\nmovl (%rax), %ecx\nsetne %al\nret");
        let live: Vec<bool> = found.iter().map(|&(_, live)| live).collect();
        assert_eq!(live, [false, true, true, true, true, false]);
    }

    #[test]
    fn an_indirect_jump_leads_to_what_tables_name() {
        let body = "cmpl $1, %eax\njmp *.L4(,%rax,8)\n.section .rodata\n.L4:\n.quad .L3\n.text\n\
                    .L3:\nsete %al\nret\n.L5:\nret";
        let live: Vec<bool> = look(body).iter().map(|&(_, live)| live).collect();
        assert_eq!(live, [false, true, true, false, false]);
    }
}
