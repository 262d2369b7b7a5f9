//! What a block counts on the page: its instructions, and accesses to the frame of its function.

use crate::abi::{self, Kind};

/// What a block counts.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) instructions: u32,
    pub(super) loads: u32,
    pub(super) stores: u32,
}

impl Counts {
    pub(super) fn lines(&self, flags: bool) -> Vec<String> {
        let counters = [
            (abi::INSTRUCTIONS, self.instructions),
            (abi::STACK_LOADS, self.loads),
            (abi::STACK_STORES, self.stores),
        ];
        let counters = counters.iter().filter(|(_, count)| *count > 0);
        if !flags {
            return counters.map(|(at, count)| format!("addq\t${count}, {at:#x}")).collect();
        }
        let mut lines = vec![format!("movq\t%rax, {:#x}", abi::SAVED)];
        for (at, count) in counters {
            lines.push(format!("movq\t{at:#x}, %rax"));
            lines.push(format!("leaq\t{count}(%rax), %rax"));
            lines.push(format!("movq\t%rax, {at:#x}"));
        }
        lines.push(format!("movq\t{:#x}, %rax", abi::SAVED));
        lines
    }

    pub(super) fn private(&mut self, kind: Kind) {
        self.loads += u32::from(matches!(kind, Kind::Load | Kind::Modify));
        self.stores += u32::from(matches!(kind, Kind::Store | Kind::Modify));
    }
}
