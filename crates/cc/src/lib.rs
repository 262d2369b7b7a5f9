//! `seawall cc`: a compiler driver in front of gcc or clang, for programs that were not written for
//! seawall.
//!
//! Each source is compiled twice. The first object is what the user's compiler makes, untouched, so
//! that a binary that is run directly is the binary it would have been. For the second one the
//! compiler's assembly is [instrumented](asm): before each access to memory, flush, fence and
//! locked instruction it calls the [page](abi), where the process that runs the program on a
//! machine of seawall has its entries. Both travel in one object file, and in one binary.
//!
//! Instrumenting assembly keeps what the compiler made: the instructions that are counted are those
//! of the program, spills and stack accesses are seen, and atomics are the instructions that the
//! hardware would run.

#![forbid(unsafe_code)]

pub mod abi;
pub mod asm;
pub mod dependence;
mod driver;
mod embedded;
mod persisting;
mod unwind;

pub use driver::error::CcError;
pub use driver::support::SUPPORT_FOLDER;
pub use driver::{Instrument, Language, run, run_compiler};
pub use embedded::{Embedded, TwinLibrary, embedded, functions_of_cxx};
pub use persisting::{PersistSite, persist_sites};
pub use unwind::{Base, UnwindRow, unwind_rows};
