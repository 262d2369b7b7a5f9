//! On which loads the addresses of a block depend: the records of [`dependence`](crate::dependence)
//! at its calls of the machine.
//!
//! A stretch is what runs from one call of a function, or the start of its block, to the next. Its
//! steps go to the record of the last access before them, or of the first one. A stretch without an
//! access whose steps matter gets a call for them.

use super::effect::{Effect, effect};
use super::frames::Function;
use super::instruction::{Flow, Instruction};
use super::operand::{Memory, Operand, SP, general, is_general, number};
use crate::abi::Kind;
use crate::dependence::{DataStep, FLAGS, Place, SECTION, SlotSet, only};
use std::fmt::Write as _;
use transfer::Access;

mod transfer;

/// The place of the string that `movs`, `cmps` and the like read.
const SI: u8 = 6;

/// The record of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    address: SlotSet,
    before: Vec<DataStep>,
    after: Vec<DataStep>,
}

impl Record {
    pub(super) fn is_empty(&self) -> bool {
        self.address == 0 && self.before.is_empty() && self.after.is_empty()
    }

    /// What stands behind the call: it begins with `label`, and is kept by the linker if it keeps
    /// the section of the label `anchor`.
    pub(super) fn text(&self, label: &str, anchor: &str) -> String {
        let words =
            |steps: &[DataStep]| steps.iter().flat_map(|step| step.words()).collect::<Vec<_>>();
        let (before, after) = (words(&self.before), words(&self.after));
        let mut text = format!("{label}:\n\t.pushsection {SECTION},\"ao?\",@progbits,{anchor}\n");
        text.push_str("\t.balign 8\n");
        let counts = after.len() << 16 | before.len();
        let _ = write!(text, "\t.long {label}-., {counts:#x}\n\t.quad {:#x}", self.address);
        for word in before.iter().chain(&after) {
            let _ = write!(text, ", {word:#x}");
        }
        text.push_str("\n\t.popsection");
        text
    }
}

/// Where the stack pointer is, as far as is known: which unknown change of it came last, and bytes
/// since then.
type Height = (usize, i64);

/// An instruction of a block, with what is known of it.
struct At<'a> {
    instruction: &'a Instruction<'a>,
    has_call: bool,
    steps: Vec<DataStep>,
    height: Height,
    /// Which value of the frame pointer is in force.
    frame: usize,
}

/// A call for the steps of a stretch without one, before this instruction of the block.
pub(super) type Extra = usize;

/// Records by the instruction of a block that they are of, and those that need a call.
type Records = (Vec<(usize, Record)>, Vec<(Extra, Record)>);

/// The records of a block: for each instruction that calls the machine, and for those before which
/// a call must be made. `calls` says which instructions call, and which accesses stay in the frame.
pub(super) fn records<'a>(block: &[(&'a Instruction<'a>, Seen)], function: &Function) -> Records {
    let all = read(block, function);
    let (mut records, mut extra) = (Vec::new(), Vec::new());
    let mut first = 0;
    for end in 0..all.len() {
        let ends = matches!(all[end].instruction.flow(), Flow::Call(_)) || end + 1 == all.len();
        if ends {
            stretch(&all[first..=end], first, function, &mut records, &mut extra);
            first = end + 1;
        }
    }
    (records, extra)
}

/// What instrumentation does for an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// It calls the machine.
    pub(super) has_call: bool,
    /// Its access stays in the frame and is counted.
    pub(super) is_private: bool,
}

fn read<'a>(block: &[(&'a Instruction<'a>, Seen)], function: &Function) -> Vec<At<'a>> {
    let (mut height, mut frame) = ((0, 0), 0);
    let mut all = Vec::with_capacity(block.len());
    for (number, (instruction, seen)) in block.iter().enumerate() {
        let access = match seen {
            Seen { is_private: true, .. } => Access::Frame,
            Seen { has_call: true, .. } => Access::Called,
            _ => Access::None,
        };
        let steps = match instruction.flow() {
            Flow::Next => transfer::steps(instruction, function, access),
            _ => Vec::new(),
        };
        all.push(At { instruction, has_call: seen.has_call, steps, height, frame });
        height = after(instruction, height, number + 1);
        let moves_frame = instruction.mnemonic.starts_with("leave")
            || instruction.operands.last().and_then(Operand::register).is_some_and(is_frame);
        frame += usize::from(moves_frame && !instruction.mnemonic.starts_with("push"));
    }
    all
}

fn is_frame(name: &str) -> bool {
    is_general(name, super::operand::BP)
}

/// Where the stack pointer is behind an instruction; `next` stands for a change that is not known.
fn after(instruction: &Instruction<'_>, height: Height, next: usize) -> Height {
    let (epoch, bytes) = height;
    let is_sp = |operand: Option<&Operand<'_>>| {
        operand.and_then(Operand::register).is_some_and(|name| is_general(name, SP))
    };
    let immediate = match instruction.operands.first() {
        Some(Operand::Immediate(text)) => number(text),
        _ => None,
    };
    match instruction.mnemonic {
        "push" | "pushq" | "pushfq" | "pushf" => (epoch, bytes - 8),
        "pop" | "popq" if !is_sp(instruction.operands.first()) => (epoch, bytes + 8),
        "leave" | "leaveq" => (next, 0),
        _ if !is_sp(instruction.operands.last()) || instruction.operands.len() < 2 => height,
        "sub" | "subq" if immediate.is_some() => (epoch, bytes - immediate.unwrap_or(0)),
        "add" | "addq" if immediate.is_some() => (epoch, bytes + immediate.unwrap_or(0)),
        "lea" | "leaq" => match instruction.memory().and_then(from_stack) {
            Some(by) => (epoch, bytes + by),
            None => (next, 0),
        },
        "cmp" | "cmpq" | "test" | "testq" => height,
        _ => (next, 0),
    }
}

fn from_stack(memory: &Memory<'_>) -> Option<i64> {
    let is_plain = memory.index.is_none() && general(memory.base?)?.1 == SP;
    is_plain.then(|| number(memory.displacement)).flatten()
}

fn stretch(
    all: &[At<'_>],
    first: usize,
    function: &Function,
    records: &mut Vec<(usize, Record)>,
    extra: &mut Vec<(Extra, Record)>,
) {
    let calls: Vec<usize> = (0..all.len()).filter(|at| all[*at].has_call).collect();
    let needed = needed(all);
    let of = |range: std::ops::Range<usize>, base: usize| -> Vec<DataStep> {
        let steps = range.flat_map(|at| needed[at].iter().map(move |step| (at, *step)));
        steps.filter_map(|(at, step)| moved(step, &all[at], &all[base], function)).collect()
    };
    let Some(&head) = calls.first() else {
        let landing = |at: &At<'_>| at.instruction.mnemonic.starts_with("endbr");
        let Some(base) = all.iter().position(|at| !landing(at)) else { return };
        let record = Record { after: of(0..all.len(), base), ..Record::default() };
        if !record.is_empty() {
            extra.push((first + base, record));
        }
        return;
    };
    for (number, &at) in calls.iter().enumerate() {
        let end = calls.get(number + 1).copied().unwrap_or(all.len());
        let before = if at == head { of(0..at, at) } else { Vec::new() };
        let address = address_of(all[at].instruction, function);
        let record = Record { address, before, after: of(at..end, at) };
        if !record.is_empty() {
            records.push((first + at, record));
        }
    }
}

/// The places that the address of a load is made of. A store and a locked instruction wait for all
/// loads before them.
fn address_of(instruction: &Instruction<'_>, function: &Function) -> SlotSet {
    let memory = || instruction.memory().map_or(0, |it| transfer::address(it, function));
    match effect(instruction) {
        Ok(Effect::Access(Kind::Load | Kind::Modify, _) | Effect::Gather | Effect::Copy) => {
            memory()
        }
        Ok(Effect::Masked(Kind::MaskedLoad, _)) => memory(),
        Ok(Effect::Event(Kind::RepMovs | Kind::Movs | Kind::Scan, _)) => only(SI),
        _ => 0,
    }
}

/// The steps that matter: flags are not needed behind a stretch, and what moves to where it is does
/// not.
fn needed(all: &[At<'_>]) -> Vec<Vec<DataStep>> {
    let mut flags = false;
    let mut kept: Vec<Vec<DataStep>> = Vec::with_capacity(all.len());
    for at in all.iter().rev() {
        let mut steps = Vec::new();
        for step in at.steps.iter().rev() {
            let from = match *step {
                DataStep::Set(FLAGS, _) if !flags => continue,
                DataStep::Set(to, from) if from == only(to) => continue,
                DataStep::Set(_, from) | DataStep::Spill(_, from) | DataStep::Store(from) => from,
                DataStep::Fill(..) => 0,
            };
            flags &= !matches!(step, DataStep::Set(FLAGS, _));
            flags |= from & only(FLAGS) != 0;
            steps.push(*step);
        }
        steps.reverse();
        kept.push(steps);
    }
    kept.reverse();
    kept
}

/// A step of the instruction `from`, as it is seen from the call of `to`. A word of the frame of
/// which the place is not known there has no data.
fn moved(step: DataStep, from: &At<'_>, to: &At<'_>, function: &Function) -> Option<DataStep> {
    // The call is made below the words that the function may use there.
    let below = 128 * i64::from(function.red_zone) + 8 * i64::from(function.directed);
    let see = |place: Place| match place.from_frame {
        true => (from.frame == to.frame).then_some(place),
        false => (from.height.0 == to.height.0)
            .then(|| Place { offset: place.offset + from.height.1 - to.height.1 + below, ..place }),
    };
    match step {
        DataStep::Fill(slot, place) => {
            Some(see(place).map_or(DataStep::Set(slot, 0), |it| DataStep::Fill(slot, it)))
        }
        DataStep::Spill(place, from) => see(place).map(|it| DataStep::Spill(it, from)),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Vectors;
    use crate::asm::instruction::parse;
    use crate::dependence::{FRAME, LOADED};

    fn function(frame_pointer: bool) -> Function {
        Function {
            exposes: false,
            frame_pointer,
            red_zone: false,
            vectors: Vectors::None,
            directed: false,
        }
    }

    fn look(lines: &[(&str, bool, bool)]) -> Records {
        let read: Vec<Instruction<'_>> = lines.iter().map(|(text, ..)| parse(text)).collect();
        let seen = lines
            .iter()
            .map(|(_, has_call, is_private)| Seen { has_call: *has_call, is_private: *is_private });
        let block: Vec<_> = read.iter().zip(seen).collect();
        records(&block, &function(false))
    }

    #[test]
    fn an_offset_that_was_loaded_is_followed_to_the_next_address() {
        // rax = next; rcx = pool + next; rdx = value
        let (records, extra) = look(&[
            ("addq %rdi, %rax", false, false),
            ("addq 8(%rax), %rdx", true, false),
            ("movq (%rax), %rax", true, false),
            ("jne .L2", false, false),
        ]);
        assert!(extra.is_empty());
        let (ax, dx, di) = (only(0), only(2), only(7));
        assert_eq!(records[0].1.address, ax);
        assert_eq!(records[0].1.before, [DataStep::Set(0, ax | di)]);
        assert_eq!(records[0].1.after, [DataStep::Set(2, dx | only(LOADED))]);
        assert_eq!(
            records[1].1,
            Record { address: ax, before: vec![], after: vec![DataStep::Set(0, only(LOADED))] }
        );
    }

    #[test]
    fn words_of_the_frame_are_seen_from_the_call_whatever_was_pushed() {
        let (records, _) = look(&[
            ("movq %rax, 8(%rsp)", false, true),
            ("pushq %rbx", false, false),
            ("movq (%rsi), %rcx", true, false),
            ("popq %rbx", false, false),
            ("movq 8(%rsp), %rdx", false, true),
        ]);
        let at = |offset| Place { from_frame: false, offset };
        let record = &records[0].1;
        assert_eq!(
            record.before,
            [DataStep::Spill(at(16), only(0)), DataStep::Spill(at(0), only(3))]
        );
        let after = [
            DataStep::Set(1, only(LOADED)),
            DataStep::Fill(3, at(0)),
            DataStep::Fill(FRAME, at(16)),
            DataStep::Set(2, only(FRAME)),
        ];
        assert_eq!(record.after, after);
    }

    #[test]
    fn a_stretch_without_an_access_gets_a_call_if_data_moves() {
        let (records, extra) =
            look(&[("cmpq %rax, %rbx", false, false), ("jne .L2", false, false)]);
        assert!(records.is_empty() && extra.is_empty());
        let (records, extra) = look(&[
            ("movq (%rbx), %rax", true, false),
            ("call f", false, false),
            ("movq %rax, %rbx", false, false),
        ]);
        assert_eq!((records.len(), extra.len(), extra[0].0), (1, 1, 2));
        assert_eq!(extra[0].1.after, [DataStep::Set(3, only(0))]);
    }

    #[test]
    fn flags_are_followed_to_the_moves_that_take_them() {
        let (records, _) = look(&[
            ("cmpq (%rax), %rbx", true, false),
            ("cmovaq %rcx, %rax", false, false),
            ("cmpq %rcx, %rdx", false, false),
        ]);
        let after = [
            DataStep::Set(FLAGS, only(LOADED) | only(3)),
            DataStep::Set(0, only(0) | only(1) | only(FLAGS)),
        ];
        assert_eq!(records[0].1.after, after);
    }
}
