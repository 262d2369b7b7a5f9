//! What is common to the instructions of a function: whether others may reach its frame, whether
//! it uses memory below the stack pointer, and which vector registers it needs.
//!
//! A function may pass an argument or a result on in a vector register that it does not name
//! (`return g(x);`), so that one that calls others needs the widest registers of its file.
//! Compilers know what the functions of a file leave alone (gcc's `-fipa-ra`), so that a caller may
//! keep a value in a vector register that a function of the same file does not name. A function
//! therefore needs what its callers in the file need, too.

use super::instruction::{Flow, Instruction};
use super::operand::{BP, Memory, Operand, SP, is_general, vector};
use super::program::{Program, What};
use crate::abi::Vectors;

/// What holds for every instruction of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Whether the address of its frame leaves it.
    pub(crate) exposes: bool,
    /// Whether the frame pointer points to its frame.
    pub(crate) frame_pointer: bool,
    /// Whether memory below the stack pointer may be in use.
    pub(crate) red_zone: bool,
    pub(crate) vectors: Vectors,
    /// Whether it sets the direction flag, so that the flags are to be kept at any time.
    pub(crate) directed: bool,
}

/// The functions of a program.
#[derive(Debug)]
pub(crate) struct Functions {
    known: Vec<Function>,
    /// For code outside of functions.
    outside: Function,
}

impl Functions {
    /// What holds for a place in this function.
    pub(crate) fn of(&self, function: Option<usize>) -> &Function {
        function.and_then(|number| self.known.get(number)).unwrap_or(&self.outside)
    }
}

/// Looks at all functions of a program.
pub(crate) fn functions(program: &Program<'_>) -> Functions {
    let mut seen = vec![NOTHING; program.functions];
    let mut outside = NOTHING;
    let mut calls = Vec::new();
    let mut all = Vectors::Sse;
    for point in &program.points {
        let What::Instruction(instruction) = &point.what else { continue };
        let one = point.function.map_or(&mut outside, |number| &mut seen[number]);
        one.look(instruction);
        all = all.max(vectors(instruction));
        if let (Some(from), Some(to)) = (point.function, target(program, instruction)) {
            calls.push((from, to));
        }
    }
    for one in seen.iter_mut().filter(|one| one.leaves) {
        one.vectors = all;
    }
    spread(&mut seen, &calls);
    let known = seen.iter().map(|seen| seen.function(all)).collect();
    let outside = Function {
        exposes: true,
        frame_pointer: false,
        red_zone: true,
        vectors: all,
        directed: outside.directed,
    };
    Functions { known, outside }
}

fn target(program: &Program<'_>, instruction: &Instruction<'_>) -> Option<usize> {
    let name = match instruction.flow() {
        Flow::Jump(name) | Flow::Branch(name) | Flow::Call(name) => name?,
        _ => return None,
    };
    program.function_of.get(name.split('@').next()?).copied()
}

/// Gives each function the vector registers of those that call it.
fn spread(seen: &mut [Seen], calls: &[(usize, usize)]) {
    loop {
        let mut changed = false;
        for &(from, to) in calls {
            let needed = seen[from].vectors;
            if seen[to].vectors < needed {
                seen[to].vectors = needed;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// What has been seen of a function.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The address of the frame goes somewhere else than to the frame pointer.
    exposes: bool,
    frame_pointer: bool,
    /// The frame pointer is used as more than that; it matters if it is one.
    frame_pointer_leaves: bool,
    calls: bool,
    /// It goes on in other functions, by a call or a jump.
    leaves: bool,
    /// Memory below the stack pointer is named.
    below: bool,
    /// The address of the frame is copied, with which memory below can be reached.
    copies: bool,
    compiled: bool,
    directed: bool,
    vectors: Vectors,
}

const NOTHING: Seen = Seen {
    exposes: false,
    frame_pointer: false,
    frame_pointer_leaves: false,
    calls: false,
    leaves: false,
    below: false,
    copies: false,
    compiled: false,
    directed: false,
    vectors: Vectors::None,
};

impl Seen {
    fn look(&mut self, instruction: &Instruction<'_>) {
        self.compiled |= instruction.compiled;
        self.calls |= instruction.compiled && matches!(instruction.flow(), Flow::Call(_));
        self.leaves |= match instruction.flow() {
            Flow::Call(_) => true,
            Flow::Jump(to) | Flow::Branch(to) => to.is_none_or(|name| !name.starts_with(".L")),
            Flow::Next | Flow::Return | Flow::Trap => false,
        };
        self.directed |= instruction.mnemonic == "std";
        self.vectors = self.vectors.max(vectors(instruction));
        if is_move(instruction, SP, BP) {
            self.frame_pointer = true;
            self.copies = true;
            return;
        }
        let moves_back = is_move(instruction, BP, SP);
        let adjusts = self.adjusts(instruction);
        if let Some(memory) = instruction.memory() {
            self.memory(instruction, memory, adjusts);
        }
        for (at, operand) in instruction.operands.iter().enumerate() {
            let Some(name) = operand.register() else { continue };
            if is_general(name, SP) && !(adjusts && at + 1 == instruction.operands.len()) {
                self.exposes = true;
                self.copies = true;
            }
            let saves = matches!(instruction.mnemonic, "push" | "pushq" | "pop" | "popq");
            self.frame_pointer_leaves |= is_general(name, BP) && !moves_back && !saves;
        }
    }

    /// Whether the instruction only moves the stack pointer.
    fn adjusts(&self, instruction: &Instruction<'_>) -> bool {
        let last = instruction.operands.last().and_then(Operand::register);
        let name = instruction.mnemonic.trim_end_matches('q');
        last.is_some_and(|name| is_general(name, SP))
            && matches!(name, "add" | "sub" | "and" | "mov" | "lea" | "pop")
    }

    fn memory(&mut self, instruction: &Instruction<'_>, memory: &Memory<'_>, adjusts: bool) {
        let uses = |register| {
            [memory.base, memory.index].into_iter().flatten().any(|name| is_general(name, register))
        };
        let address = instruction.mnemonic.starts_with("lea");
        if uses(SP) && !adjusts {
            self.below |= memory.is_below();
            self.exposes |= address;
            self.copies |= address;
        }
        self.frame_pointer_leaves |= uses(BP) && address && !adjusts;
    }

    fn function(&self, all: Vectors) -> Function {
        let exposes = self.exposes || self.frame_pointer && self.frame_pointer_leaves;
        Function {
            exposes,
            frame_pointer: self.frame_pointer && !exposes,
            red_zone: self.below || self.copies && !self.calls || !self.compiled,
            vectors: if self.compiled { self.vectors } else { all },
            directed: self.directed,
        }
    }
}

fn is_move(instruction: &Instruction<'_>, from: u8, to: u8) -> bool {
    let whole = |operand: &Operand<'_>, register| {
        operand.register().is_some_and(|name| name.starts_with('r') && is_general(name, register))
    };
    matches!(instruction.mnemonic, "mov" | "movq")
        && matches!(&instruction.operands[..], [a, b] if whole(a, from) && whole(b, to))
}

/// The vector registers that the instruction names.
fn vectors(instruction: &Instruction<'_>) -> Vectors {
    let mut needed = match instruction.mnemonic {
        name if name.starts_with('v') && name != "verr" && name != "verw" => Vectors::Avx,
        _ => Vectors::None,
    };
    if instruction.text.contains("%k") {
        needed = Vectors::Avx512;
    }
    for name in instruction.registers() {
        needed = needed.max(match vector(name) {
            Some((64, _)) | Some((_, 16..)) => Vectors::Avx512,
            Some((32, _)) => Vectors::Avx,
            Some(_) => Vectors::Sse,
            None => Vectors::None,
        });
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::program;
    use crate::asm::scan;

    fn first(body: &str, ident: &str) -> Function {
        let text = format!(
            ".type f, @function\nf:\n{body}\n.size f, .-f\n.type g, @function\ng:\nret\n\
             .size g, .-g\n.ident \"{ident}\"\n"
        );
        let clean = scan::plain(&text);
        let program = program::read(&scan::statements(&text, &clean)).unwrap();
        *functions(&program).of(Some(0))
    }

    fn gcc(body: &str) -> Function {
        first(body, "GCC: (Debian) 12.2.0")
    }

    #[test]
    fn a_frame_is_exposed_by_its_address() {
        assert!(!gcc("subq $24, %rsp\nmovl %edi, 8(%rsp)\naddq $24, %rsp\nret").exposes);
        assert!(gcc("leaq 8(%rsp), %rdi\ncall g\nret").exposes);
        assert!(gcc("movq %rsp, %rdi\ncall g\nret").exposes);
        assert!(gcc("pushq %rsp\nret").exposes);
        assert!(!gcc("leaq -8(%rsp), %rsp\nret").exposes);
        assert!(!gcc("andq $-32, %rsp\nret").exposes);
    }

    #[test]
    fn a_frame_pointer_is_one_while_it_is_nothing_else() {
        let start = "pushq %rbp\nmovq %rsp, %rbp\n";
        let found = gcc(&format!("{start}movl %edi, -4(%rbp)\npopq %rbp\nret"));
        assert!(found.frame_pointer && !found.exposes && found.red_zone);
        let found = gcc(&format!("{start}leaq -4(%rbp), %rdi\ncall g\nleave\nret"));
        assert!(!found.frame_pointer && found.exposes && !found.red_zone);
        assert!(!gcc(&format!("{start}leaq -40(%rbp), %rsp\npopq %rbx\nret")).exposes);
        assert!(gcc(&format!("{start}movq %rbp, %rax\nret")).exposes);
        assert!(gcc(&format!("{start}addq $8, %rbp\nret")).exposes);
        assert!(!gcc("movq %rdi, %rbp\nmovq %rbp, %rax\nret").exposes);
    }

    #[test]
    fn the_red_zone_is_of_functions_that_call_nothing() {
        assert!(gcc("movl %edi, -4(%rsp)\nret").red_zone);
        assert!(!gcc("movl 8(%rsp), %eax\nret").red_zone);
        assert!(first("movl 8(%rsp), %eax\nret", "by hand").red_zone);
    }

    #[test]
    fn a_cold_part_shares_the_frame() {
        let cold = "ret\n.section .text.unlikely,\"ax\"\n.type f.cold, @function\nf.cold:\n\
                    leaq 8(%rsp), %rdi\ncall g\n.size f.cold, .-f.cold\n.text";
        assert!(gcc(cold).exposes);
        assert!(!first(cold, "clang version 17").exposes);
    }

    #[test]
    fn a_function_that_goes_on_in_others_may_pass_vector_registers_on() {
        for body in ["call g\nret", "jmp h", "jmp *%rax", "je h\nret", "call *%rax\nret"] {
            assert_eq!(gcc(body).vectors, Vectors::Sse, "{body}");
        }
        assert_eq!(gcc("je .L2\nnop\n.L2:\nret").vectors, Vectors::None);
        let wide = ".type f,@function\nf:\ncall h\nret\n.type g,@function\ng:\n\
                    vaddps %ymm0, %ymm0, %ymm1\nret\n.ident \"GCC\"\n";
        let clean = scan::plain(wide);
        let program = program::read(&scan::statements(wide, &clean)).unwrap();
        assert_eq!(functions(&program).of(Some(0)).vectors, Vectors::Avx);
    }

    #[test]
    fn vector_registers_are_those_that_the_function_or_its_callers_name() {
        assert_eq!(gcc("movl %eax, %ebx\nret").vectors, Vectors::None);
        assert_eq!(gcc("movss %xmm0, %xmm1\nret").vectors, Vectors::Sse);
        assert_eq!(gcc("vaddss %xmm0, %xmm0, %xmm1\nret").vectors, Vectors::Avx);
        assert_eq!(gcc("vmovdqu8 %ymm16, %ymm17\nret").vectors, Vectors::Avx512);
        assert_eq!(gcc("kmovb %eax, %k1\nret").vectors, Vectors::Avx512);
        let text = ".type f,@function\nf:\nmovss %xmm0, %xmm1\ncall g\nret\n.type g,@function\n\
                    g:\nret\n.ident \"GCC\"\n";
        let clean = scan::plain(text);
        let program = program::read(&scan::statements(text, &clean)).unwrap();
        assert_eq!(functions(&program).of(Some(1)).vectors, Vectors::Sse);
    }
}
