//! Defragmentation of a heap of typed objects while its threads are at work.
//!
//! "FFCCD: Fence-Free Crash-Consistent Concurrent Defragmentation for Persistent Memory" (Xu and
//! others, ISCA'22). In a long-lived heap, pages come to have few objects each. A *cycle* empties
//! the emptiest pages. It chooses a destination for each of their objects and makes that choice
//! durable (`forwarding_table`). From then on a thread that accesses such an object moves it
//! (`relocate`). The cycle moves the other objects, a walk fixes up the pointers that no thread
//! loads, and at last the pages are free.
//!
//! | stage | what happens | scopes that are waited for |
//! |---|---|---|
//! | survey | a walk over the states: how full is each page? | |
//! | watch | no allocation in the next few pages; a write to one keeps it | from before it |
//! | decide | destinations, table; pages not written to begin to move | that use old addresses |
//! | move | all objects that have not moved yet | |
//! | fix-up | all pointers; rollback restores none, as each was fixed before it was logged | |
//! | release | logs are truncated, the pages are free | that can hold old pointers |
//! | give back | empty pages are returned to the system | that can have an address there |
//!
//! An access waits for a cycle only while the object that it needs is copied, with neighbours that
//! are copied together with it: for at most 1 KiB, or one larger object. An allocation that needs
//! another chunk waits for the heap's chunk lock, which a step holds for one durable log record, or
//! while it returns a few chunks to the system. A cycle waits for scopes of other threads between
//! its steps ([`Defragmenter::step`]), which a thread of its own or the program's threads run;
//! within a step it waits at most for commits in progress.
//!
//! Differences from the paper: its marking stops the world to find the live objects, while here the
//! states of blocks tell them; and its destinations follow from a table of bytes, while here the
//! objects of a page go to consecutive blocks (`forwarding_table`).

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
    DefragCounts, DefragError, DefragOptions, DefragOptionsError, Manner, Protocol, UnknownProtocol,
};
pub use purpose::Purpose;
pub use thread::{Collector, with_collector};
