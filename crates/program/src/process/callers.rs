//! Which calls of the program an access is made in: a flush is nearly always in a helper, and tells
//! nothing without what called that.
//!
//! Return addresses are found by the unwinding tables of the program's code. Without one, the next
//! word of the stack that looks like a return address is taken, and only to get out of a library.

use crate::process::image::{ProgramCode, word_at, words_on};
use crate::process::stacks;
use rustc_hash::FxHasher;
use seawall_cc::Base;
use std::hash::{Hash as _, Hasher as _};

/// Calls of the user's functions that a chain has at most, the access included.
const CALLS_MAX: usize = 8;
/// Calls that are looked at for one chain: those of libraries, and those of recursion.
const LOOKED_AT: usize = 64;
/// Set in what stands for a chain of several addresses: those have other upper bits.
const IS_CHAIN: u64 = 1 << 63;
/// `leaq 128(%rsp), %rsp` behind a call of the machine in a function with a red zone, and `popfq`
/// before that in one that sets the direction.
const OVER_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
const RED_ZONE: u64 = 128;
const POP_FLAGS: u8 = 0x9d;

/// A call that has not returned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    /// Where the program goes on in it; 0 in code that is none of the program's.
    pub(crate) site: u64,
    /// The stack pointer there.
    pub(crate) stack: u64,
    /// `%rbp` there; 0 if it is not known.
    pub(crate) base: u64,
}

/// The user's calls that led to an access, the innermost first. Of each function there is one, so
/// that recursion makes no other chains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    calls: [u64; CALLS_MAX],
    count: usize,
}

impl Chain {
    pub(crate) fn calls(&self) -> &[u64] {
        &self.calls[..self.count]
    }

    fn add(&mut self, call: u64) {
        if let Some(next) = self.calls.get_mut(self.count) {
            *next = call;
            self.count += 1;
        }
    }

    /// What stands for it: the address of the access alone if nothing has called that.
    pub(crate) fn key(&self) -> u64 {
        if let [alone] = self.calls() {
            return *alone;
        }
        let mut hasher = FxHasher::default();
        self.calls().hash(&mut hasher);
        hasher.finish() | IS_CHAIN
    }
}

impl ProgramCode {
    /// The user's calls that led to a frame. If there are none, the frame itself.
    pub(crate) fn chain(&self, frame: Frame) -> Chain {
        let (mut chain, end) = (Chain::default(), stacks::end_of(frame.stack));
        let (mut functions, mut next) = ([0; CALLS_MAX], Some(frame));
        for _ in 0..LOOKED_AT {
            let Some(frame) = next.filter(|_| chain.count < CALLS_MAX) else { break };
            // A return address may be the first byte of the next function.
            let at = frame.site.wrapping_sub(1);
            let function = self.row_of(at).map_or(at, |row| row.function);
            let is_users = self.is_own(at) && !self.is_of_library(at);
            if is_users && !functions[..chain.count].contains(&function) {
                functions[chain.count] = function;
                chain.add(frame.site);
            }
            let is_in_library = chain.count == 0;
            let found = self.caller_by_table(frame, end);
            next = found.or_else(|| self.caller_on_stack(frame, end).filter(|_| is_in_library));
        }
        if chain.count == 0 {
            chain.add(frame.site);
        }
        chain
    }

    /// The frame that has called the support library, if `frame` is in that.
    pub(crate) fn caller_of_support(&self, frame: Frame) -> Option<Frame> {
        let end = stacks::end_of(frame.stack);
        let mut next = Some(frame).filter(|frame| self.is_support(frame.site));
        while let Some(frame) = next.filter(|frame| self.is_support(frame.site)) {
            let found = self.caller_by_table(frame, end);
            next = found.or_else(|| self.caller_on_stack(frame, end));
        }
        next
    }

    fn caller_by_table(&self, frame: Frame, end: u64) -> Option<Frame> {
        let row = self.row_of(frame.site.wrapping_sub(1))?;
        let from = match row.frame.0 {
            Base::Stack => frame.stack + self.over_red_zone(frame.site),
            Base::Frame => frame.base,
        };
        let above = from.wrapping_add_signed(row.frame.1);
        let word = |by: i64| {
            let at = above.wrapping_add_signed(by);
            ((frame.stack..end).contains(&at) && at % 8 == 0).then(|| word_at(at))
        };
        let site = word(-8).filter(|site| self.is_own(*site))?;
        let base = row.saved.map_or(Some(frame.base), word)?;
        Some(Frame { site, stack: above, base })
    }

    fn caller_on_stack(&self, frame: Frame, end: u64) -> Option<Frame> {
        let mut words = words_on(frame.stack, end);
        let (at, site) = words.find(|(_, word)| self.is_behind_call(*word))?;
        Some(Frame { site, stack: at + 8, base: 0 })
    }

    /// How far the stack pointer is below the function's own.
    fn over_red_zone(&self, site: u64) -> u64 {
        const LONGEST: usize = 1 + OVER_RED_ZONE.len();
        if !self.is_own(site) || !self.is_own(site + LONGEST as u64) {
            return 0;
        }
        // SAFETY: the bytes are code of the program.
        let bytes = unsafe { std::slice::from_raw_parts(site as *const u8, LONGEST) };
        match bytes {
            [POP_FLAGS, rest @ ..] if rest == OVER_RED_ZONE => 8 + RED_ZONE,
            [POP_FLAGS, ..] => 8,
            [first @ .., _] if first == OVER_RED_ZONE => RED_ZONE,
            _ => 0,
        }
    }
}
