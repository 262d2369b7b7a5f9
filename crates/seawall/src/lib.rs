//! Persistent memory for Rust: structs, maps and lists that live in a file, change in transactions,
//! and survive every crash.
//!
//! Persistent memory is memory that keeps its content when power fails; a file that is mapped is
//! the same for a process that is killed. What makes it hard is the order: caches write lines back
//! when they like, so a crash can keep the pointer and lose what it points to. seawall's
//! transactions take care of that, with one fence each, and its tests try every crash.
//!
//! ```
//! use seawall::{Options, Persist};
//!
//! #[derive(Clone, Copy, Persist)]
//! struct Counter {
//!     count: u64,
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("counter.pool");
//! let pool = seawall::open::<Counter>(&path, Options::default())?; // creates, or recovers
//! pool.transaction(|tx, root| tx.update(root.at(Counter::COUNT), |count| count + 1))?;
//! let count = pool.read(|view, root| view.get(root.at(Counter::COUNT)))?;
//! assert_eq!(count, 1); // durable: kill the program, and it says 2 the next time
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **What can be in a pool**: numbers, arrays, structs that derive [`Persist`], pointers to such
//! ([`Ptr`]), and as fields of structs [`Map`], [`BTree`], [`Vector`], [`Text`] and [`Boxed`].
//! Pointers are offsets: they mean the same after a restart. A volatile pointer (`Box`, `Vec`,
//! `String`) in a pool is refused by the compiler, and so is a pointer of one pool in another.
//!
//! **Transactions** happen wholly or not at all: what one changes, allocates and frees is durable
//! when [`transaction`](Thread::transaction) returns `Ok`, and undone when its closure fails or
//! panics, or the program is killed before. They exclude each other and [`read`](Thread::read)s
//! that are in progress; several reads run at once. Neither starves the other: whoever waits gets
//! a turn. A read is lent a [`View`], which can do nothing else.
//!
//! **Freed objects**: [`free`](Tx::free) takes any pointer to the object, and others may be kept.
//! One that is followed later reads, and in a transaction changes, whatever is there by then,
//! pointers included, so a program that frees clears the pointers in the same transaction.
//! [`View::reach`] finds those that it forgot.
//!
//! **Errors**: a read can fail with [`ReadError`], a transaction with [`Error`], and [`open`] with
//! [`OpenError`]. `?` turns the first into the second. A function that reads in both returns the
//! [`Error`](Access::Error) of its [`Access`].
//!
//! **Threads** call the methods of [`Pool`], each of which joins it for that call, or work for
//! longer with a handle: [`Pool::work`].
//!
//! **Processes**: one at a time has a pool open; [`open`] refuses a second one. A pool stays with
//! the process that opened it: in one that is forked from that, each read and each transaction
//! fails with [`ReadError::Inherited`], and dropping the pool changes nothing of it. A forked
//! process can open other pools; a program that calls `daemon` opens its pools after that.
//!
//! **Durability** depends on the file: [`Pool::durability`] says what committed data survives. On
//! persistent memory (DAX) and with [`Domain::Page`] it is a power failure; an ordinary file that
//! is flushed by lines survives the end of the process only.
//!
//! **Tests**: with the feature `explore`, `seawall::explore()` runs a program, and recovery on
//! every image that a crash of it can leave. With `simulate`, `seawall::simulate()` runs it on
//! simulated multicores with persistency hardware, and returns the time.

#![forbid(unsafe_code)]

mod error;
#[cfg(feature = "explore")]
mod explore;
mod lock;
mod pool;
#[cfg(feature = "simulate")]
mod simulate;
#[cfg(any(feature = "explore", feature = "simulate"))]
mod started;
mod thread;

pub use error::OpenError;
#[cfg(feature = "explore")]
pub use explore::{Crashed, Exploration, ExploreError, Explored, explore};
pub use pool::{Options, Pool, open};
pub use seawall_collections::fields::{
    Access, BTree, BTreeField, Boxed, BoxedField, Entries, Item, KeyValue, Map, MapEntry, MapField,
    OrderedKey, Text, TextField, Vector, VectorField,
};
pub use seawall_memory::Memory;
pub use seawall_native::{Domain, Durability};
pub use seawall_runtime::typed::{Branded, Bytes, Field, Ptr, Tx, View};
pub use seawall_runtime::{AccessError as ReadError, HeapError, Logging, TxError as Error};
#[cfg(feature = "simulate")]
pub use seawall_sim::{Permission, PersistDesign, WriteBacks};
#[cfg(feature = "simulate")]
pub use simulate::{SimulateError, Simulated, Simulation, simulate};
pub use thread::Thread;

/// A value that can live in a pool; derive it for structs of such values.
///
/// ```
/// use seawall::{Persist, Ptr};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Node<'p> {
///     value: u64,
///     next: Option<Ptr<'p, Node<'p>>>, // of the same pool, which 'p stands for
/// }
/// # let _: fn(Node<'_>) -> u64 = |node| node.value;
/// ```
pub use seawall_runtime::typed::PersistOfSeawall as Persist;
pub use seawall_runtime::typed::derived::Persist;

/// What `#[derive(Persist)]` writes uses; not for people.
#[doc(hidden)]
pub mod typed {
    pub use seawall_runtime::typed::derived::{self, Persist};
    pub use seawall_runtime::typed::{Branded, Field};
}
