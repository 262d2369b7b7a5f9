//! The persistent-memory library of seawall: what stands between a data structure and the seam.
//!
//! A pool ([`pool`]) names itself. In it lives a [`Heap`]: objects are allocated, changed and freed
//! in transactions ([`Session::redo`], [`Session::undo`]), each of which a crash keeps whole or not
//! at all. Everything is generic over `Memory` and runs on any machine below it.
//!
//! Fences are what durability costs, so this is how many there are:
//!
//! | operation | fences | lines written at once |
//! |---|---|---|
//! | redo transaction, with any number of stores, allocations and frees | 1 | its log record |
//! | undo transaction | 1 for each set of words added, and 1 | old values; then new ones |
//! | [`alloc_into`](Session::alloc_into), [`free_from`](Session::free_from) | 1 | a log record |
//! | abort of a redo transaction | 0 | none |
//! | abort of an undo transaction that stored something | 1 | a log record |
//! | a fresh chunk of 64 KiB for small objects | 1 | a log record |
//! | an object of 4 KiB and more, written with [`fill`](Tx::fill) | 1 more | its bytes, once |
//! | retiring the logs, when one is full | 2 | each changed line once |
//!
//! Data is stored in place when its record is durable, and flushed when the log is retired; a
//! record goes through the caches or past them, whichever was measured to be cheaper ([`Route`]).
//! Opening after a crash replays what was not retired: its time depends on the logs, not on the
//! pool.
//!
//! Below the heap are parts for structures with places of their own, as the workloads of the papers
//! have: [`Arena`] lays areas out, [`Slots`] hands out entries of a fixed size, [`Locks`] exclude
//! threads and [`Batons`] carry their order into persistence, and [`epoch`] has a redo log of three
//! epochs for hardware with persist barriers. No data structure is here: those are in
//! `seawall-collections`.

#![forbid(unsafe_code)]

mod arena;
pub mod epoch;
mod heap;
mod lock;
pub mod pool;
mod route;
mod slots;
mod stripes;
mod tx;

pub use arena::Arena;
pub use heap::class::{BLOCK_BYTES_MAX, CHUNK_BYTES};
pub use heap::session::{Pending, Session};
pub use heap::walk::{HeapStats, Object};
pub use heap::{Heap, HeapError, HeapFlaw, HeapOptions, Recovered};
pub use lock::{Baton, Batons, Guard, Locks};
pub use route::{Route, RouteChoice, RouteCounts, UnknownRoute};
pub use slots::{SLOT_RESERVE, Slots};
pub use stripes::{Held, Stripe, Stripes};
pub use tx::direct::DIRECT_BYTES;
pub use tx::log::LogCounts;
pub use tx::{Tx, TxKind};
