//! The persistent-memory library of seawall: heaps, transactions, locks and types on top of the
//! seam.
//!
//! A pool ([`pool`]) begins with a header that identifies it. It holds a [`Heap`], in which objects
//! are allocated, changed and freed in transactions ([`Session::transaction`]); each of them is
//! atomic with respect to crashes. Everything is generic over `Memory` and runs on any machine.
//!
//! The cost of durability is mainly that of fences. Their number:
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
//! | truncation of the logs, when one is full | 2 | each changed line once |
//!
//! In pools of programs that also store without transactions ([`HeapOptions::in_place`]) a redo
//! transaction that stores something, `alloc_into` and `free_from` have two more, and an undo
//! transaction that stores something, or is rolled back then, has one more.
//!
//! Data is stored in place when its record is durable, and flushed when the log is truncated. A
//! record goes through the caches or past them, whichever was measured to be cheaper ([`Route`]).
//! Opening after a crash replays what was not truncated, so its time depends on the logs, not on
//! the pool.
//!
//! A heap can be used by address and byte, or through [`typed`]: structs that derive `Persist`, and
//! pointers that carry their type and pool. Other languages describe their structs when they run
//! ([`described`]). How mistakes in typed programs are caught:
//!
//! | mistake | refused |
//! |---|---|
//! | a volatile pointer, `Vec`, `String` or `usize` in a pool | by the compiler |
//! | a pointer of one pool stored or followed in another | by the compiler |
//! | a pointer that outlives its pool, or is made from an address | by the compiler |
//! | a pointer or a value of another type than the field or object has | by the compiler |
//! | a write outside of a transaction, or after its end | by the compiler |
//! | two transactions at once on one session | by the compiler |
//! | a session on another thread than its memory's | by the compiler |
//! | work on a heap that was read and not opened | by the compiler: [`HeapInfo`] |
//! | another program's pool, or another root | when opened, [`HeapError::Shape`] |
//! | a type that the root leads to and that has changed | when opened, [`HeapError::Changed`] |
//! | a heap created over another, or over a part of a header | [`HeapError::Exists`] |
//! | a heap opened where it is open | [`HeapError::Open`] |
//! | the memory of another pool or of a copy | a panic when joining or entering |
//! | a thread too many | a panic when joining |
//! | a second session of a thread number, on another OS thread | a panic when joining |
//! | the same, on one OS thread | the first one panics when it is used again |
//! | joining in the middle of a transaction of that number | a panic when joining |
//! | a panic in a transaction, caught or not | no; the transaction is rolled back |
//! | waiting for a [`Pending`] of another session | a panic |
//! | a pointer that was never set, or leads outside | when followed, [`AccessError::NoData`] |
//! | freeing twice, or as another type, or in the middle of an object | when freed |
//! | damage by a failing disk | in headers, tables, states, logs; not in objects |
//! | following a pointer after its object was freed | no; but `reach` finds it |
//! | an object that no pointer leads to any more | no; [`reach`](typed::Session::reach) finds it |
//! | two threads that write an object without a lock | no |
//! | a pointer from a failed transaction, used later | no; as after freeing |
//! | a wrong implementation of [`typed::Persist`] by hand | no; derive it |
//! | bytes changed past the heap, by [`Memory`](seawall_memory::Memory) itself | no |
//!
//! A pointer to a freed object can read another object's bytes, of any type, pointers included. A
//! forgotten session keeps its thread number from other OS threads until the pool is opened again.
//! Sessions and OS threads are checked on machines whose threads a program starts itself; a
//! simulated or explored program starts each thread once.
//!
//! None of these mistakes is undefined behaviour: values are copied through the seam, every bit
//! pattern is some value, and no access leaves the pool.
//!
//! Two parts below the heap serve structures with a layout of their own, as in the programs of the
//! papers: [`Arena`] lays out areas, [`Locks`] exclude threads. Data structures are in
//! `seawall-collections`; flushes by other threads (Ribbon) are in `seawall-ribbon`.

#![forbid(unsafe_code)]

mod ab_test;
mod alloc;
mod arena;
pub mod defrag;
pub mod described;
mod flaws;
mod heap;
mod locks;
mod persist;
pub mod pool;
mod route;
mod tx;
pub mod typed;

pub use ab_test::AbTest;
pub use alloc::map::TOGETHER_BYTES_MAX;
pub use alloc::reserve::SharedSpace;
pub use alloc::shelf::Placement;
pub use alloc::size_class::{BLOCK_BYTES_MAX, CHUNK_BYTES, block_bytes};
pub use arena::Arena;
#[cfg(feature = "flaws")]
pub use flaws::HeapFlaw;
pub use heap::extent::HeapExtent;
pub use heap::session::Session;
pub use heap::walk::{HeapStats, Object};
pub use heap::{AccessError, Heap, HeapError, HeapInfo, HeapOptions, Recovered, TxError};
pub use locks::queue::{Guard, Locks};
pub use locks::stripes::{Held, Stripe, Stripes};
pub use route::{Route, RouteChoice, RouteCounts, UnknownRoute};
pub use tx::direct::DIRECT_BYTES;
pub use tx::held::{HeldTx, Paused};
pub use tx::redo_log::LogCounts;
pub use tx::run::Pending;
pub use tx::{Logging, Tx};
