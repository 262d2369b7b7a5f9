//! Inserts the calls to the [page](crate::abi) into the assembly that gcc or clang writes.
//!
//! The text is edited, not written anew: `scan` and `program` say where each instruction of an
//! executable section stands, `effect` what it does to memory, `frames` which accesses stay in
//! the frame of a function, `blocks` where the counters go and where the flags are needed, and
//! `depends` on which loads addresses depend.
//! What is not understood is an error, so that no access is missed silently.

mod blocks;
mod copies;
mod counts;
mod depends;
mod effect;
mod emit;
mod flags;
mod frames;
mod gather;
mod general;
mod instruction;
mod library;
mod masked;
mod operand;
mod program;
mod scan;
mod sources;
mod vector;
mod x87;

/// Assembly that cannot be instrumented.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the assembly, `{statement}`: {why}; {remedy}")]
pub struct AsmError {
    /// The line of the assembly, from 1.
    pub line: usize,
    /// The statement on it.
    pub statement: String,
    /// What is wrong with it.
    pub why: String,
    /// What helps.
    pub remedy: String,
}

/// Returns the assembly with the calls to the page inserted; it computes what it computed before.
pub fn instrument(assembly: &str) -> Result<String, AsmError> {
    let clean = scan::plain(assembly);
    let statements = scan::statements(assembly, &clean);
    let program = program::read(&statements)?;
    let functions = frames::functions(&program);
    let blocks = blocks::blocks(&program);
    let live = blocks::live_flags(&program, &blocks);
    let mut edits = emit::edits(assembly, &program, &functions, &blocks, &live)?;
    edits.extend(sources::edits(&statements));
    edits.sort_by_key(emit::Edit::start);
    Ok(emit::edited(assembly, &edits))
}
