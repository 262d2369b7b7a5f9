//! Defragmentation of a heap of typed objects while its threads are at work.
//!
//! "FFCCD: Fence-Free Crash-Consistent Concurrent Defragmentation for Persistent Memory" (Xu and
//! others, ISCA'22). A long-lived heap comes to have pages with few objects each. A *cycle* empties
//! the emptiest of them: it decides where each of their objects goes, makes that durable (`table`),
//! and from then on whoever meets such an object moves it (`moves`); what nobody meets is moved in
//! passing, pointers that nobody loads are found by a walk, and at last the pages are free.
//!
//! | stage | what happens | scopes that are waited for |
//! |---|---|---|
//! | survey | a walk over the states: how full is each page? | |
//! | watch | no allocation in the next few pages; who writes to one keeps it | from before it |
//! | decide | destinations, table; pages not written to begin to move | that use old addresses |
//! | move | all objects that have not moved yet | |
//! | heal | all pointers; a rollback brings none back, as it was healed before it was logged | |
//! | release | logs are retired, the pages are free | that may keep old pointers |
//! | give back | pages that nothing is in go to the system | that may have an address there |
//!
//! No access waits for a cycle but for the copy of the object that it needs, and of neighbours that
//! are copied with it: a KiB at most, if the object is not larger. An allocation that has to find
//! another chunk waits for who holds the heap's lock of chunks, which a step does for a durable log
//! record, or while it gives a few chunks to the system. A cycle waits for scopes of others between
//! its steps ([`Defragmenter::step`]), which a thread of its own or the program's threads take;
//! within one it waits at most for commits that are under way.
//!
//! Against the paper: its marking stops the world to find which objects live, where here the states
//! of blocks say so; and its destinations follow from a table of bytes, where here objects of a
//! page follow each other (`table`).

pub(crate) mod cycle;
mod decide;
mod fixup;
pub(crate) mod forwarding_table;
pub(crate) mod grace;
mod hardware;
mod known;
pub(crate) mod options;
pub(crate) mod pages;
pub(crate) mod plan;
mod purpose;
pub(crate) mod read_barrier;
pub(crate) mod recovery;
mod release;
pub(crate) mod relocate;
pub(crate) mod scope;
mod thread;

pub use cycle::{Defragmenter, Step};
pub use options::{
    Copies, DefragCounts, DefragError, DefragOptions, DefragOptionsError, Protocol, UnknownProtocol,
};
pub use purpose::Purpose;
pub use thread::{Collector, with_collector};
