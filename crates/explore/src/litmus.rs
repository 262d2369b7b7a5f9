//! Litmus tests: small programs, and all that a crash may leave of each under every model.
//!
//! A test is a text file, one `key: value` a line. `#` begins a comment, and an indented line
//! continues the one before.
//!
//! ```text
//! title:    a store that is flushed and fenced persists before the next
//! source:   C21 Commit1; P20
//! thread:   W x 1 ; CO x ; SF ; W y 1
//! memory:   x y
//! question: x=0 & y=1
//!
//! px86:   forbidden; 00 10 11
//! bep:    forbidden; 00 10 11
//! ```
//!
//! - `title`, `source` (where the shape comes from) and `note` are for readers.
//! - `thread`, once for each thread: its instructions, separated by `;`.
//! - `memory`: the values of an outcome, in this order: locations after the crash, and registers
//!   (`r1`, `r2`, ..) as read before it. Without it: all locations that the program stores to.
//! - `question`: one outcome, or a part of one; `&` joins its conditions.
//! - a line for each model: is the question's outcome `allowed` or `forbidden`, and after the `;`
//!   all outcomes that a crash at any moment may leave, and no others: one digit for each name in
//!   `memory` (values above 9: `0,12,1`), `-` for a register that was not read.
//!
//! All memory starts as 0. `x`, `y`, `lock` are locations on lines of their own; `x.a` to `x.h` are
//! the words of the line `x`, and `x` is short for `x.a`. A register belongs to one thread.
//!
//! | instruction | meaning |
//! |---|---|
//! | `W x v` | store |
//! | `W2 x.a x.b v` | a store of 16 bytes, or one that is not aligned: two, in either order |
//! | `NT x v` | non-temporal store (movnti) |
//! | `M64 x v` | the whole line past the caches, as one (movdir64b) |
//! | `R x r` | load |
//! | `FAA x n`, `FAA x n r` | locked add; what was there goes to `r` |
//! | `CAS x old new r` | locked compare-exchange; what was there goes to `r` |
//! | `CO x` | write back: clflushopt, clwb |
//! | `CF x` | flush: clflush |
//! | `SF`, `MF` | sfence, mfence |
//! | `PB`, `DF` | persist barrier (ofence), durable barrier (dfence) |
//! | `NS`, `JS` | the thread begins a strand, joins its strands; `DF` joins them too |
//! | `IF r v` | the thread goes on only if the register holds the value |
//!
//! Under `px86` and `eadr` threads see memory as x86-TSO has it, and `PB` and `DF` are an `SF`.
//! Under the others memory is sequentially consistent, `CO` and `CF` do nothing, `SF` and `MF` are
//! a `PB`, a locked operation is a load and a store, and an `NT` is a plain store, as an `M64` is,
//! of a line. `NS` has a meaning under `strand` only; `JS` is a `PB` for all strands there, and a
//! plain `PB` elsewhere. Under `px86` and `eadr` a register counts as read when the thread's
//! earlier stores and flushes have taken effect, as no observer can learn of it before.
//!
//! Sources in short: P20 = Px86, Raad et al., POPL'20; C21 = Cho et al., PLDI'21; KL21 = Khyzha and
//! Lahav, POPL'21; PEL = Pelley et al., ISCA'14; LB = Joshi et al., MICRO'15; HOPS = Nalli et al.,
//! ASPLOS'17; SW = Gogte et al. (StrandWeaver), ISCA'20.

mod enumerate;
mod language;
mod outcome;
mod parse;
mod suite;

pub use enumerate::{Reachable, STATES_MAX, enumerate};
pub use language::{Column, Expectation, Instruction, Litmus, Place, Register, Threads, Verdict};
pub use outcome::{Outcome, VALUE_MAX, Value};
pub use parse::{
    BadLitmus, COLUMNS_MAX, FILE_BYTES_MAX, LINES_MAX, STEPS_MAX, THREAD_STEPS_MAX, THREADS_MAX,
    WIDE_MAX,
};
pub use suite::{SUITE, suite};

use std::collections::BTreeSet;

/// The models that a file may expect something of.
pub const MODELS: [&str; 8] = ["px86", "strict", "epoch", "bep", "bsp", "hops", "strand", "eadr"];

const TEXT_COLUMNS: usize = 100;

impl Litmus {
    /// Reads a test; `file` is for messages, and its stem is the test's id.
    ///
    /// # Errors
    /// The first thing that is wrong with it: file, line, what, and what would be right.
    pub fn parse(file: &str, text: &[u8]) -> Result<Litmus, BadLitmus> {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let id = name.strip_suffix(".litmus").unwrap_or(name);
        parse::parse(file, ("", id), text, &MODELS)
    }

    /// The expectation for a model as a file writes it.
    pub fn expectation_text(&self, model: &str, outcomes: &BTreeSet<Outcome>) -> String {
        let mut text = String::new();
        let mut line = format!("{:8}{};", format!("{model}:"), self.verdict(outcomes));
        for outcome in outcomes {
            let word = outcome.to_string();
            if line.len() + 1 + word.len() > TEXT_COLUMNS {
                text.push_str(&line);
                text.push('\n');
                line = " ".repeat(8);
                line.push_str(&word);
            } else {
                line.push(' ');
                line.push_str(&word);
            }
        }
        text + &line + "\n"
    }
}

#[cfg(test)]
mod tests;
