//! The typed interface of a heap, for programmers of persistent structures.
//!
//! Structs derive [`Persist`], point to each other by [`Ptr`], and are read and written as copies.
//! [`create`] and [`open`] pass a pool to a closure; in it, threads [join](Pool::join) and run
//! transactions. Nothing of a pool can leave its closure or get into another pool: the brand `'p`,
//! a lifetime that every pointer, session and transaction of the pool has, equals no other.
//!
//! A sorted list, and what a second run reads of it:
//!
//! ```
//! use seawall_memory::{Image, Memory};
//! use seawall_runtime::typed::{self, Persist, Pool, Ptr, Session, Tx};
//! use seawall_runtime::{HeapError, HeapOptions, TxError};
//!
//! #[derive(Clone, Copy, Persist)]
//! struct List<'p> {
//!     head: Option<Ptr<'p, Node<'p>>>,
//!     length: u64,
//! }
//!
//! #[derive(Clone, Copy, Persist)]
//! struct Node<'p> {
//!     value: i64,
//!     next: Option<Ptr<'p, Node<'p>>>,
//! }
//!
//! fn insert<'p, M: Memory>(
//!     tx: &mut Tx<'p, '_, '_, M>,
//!     list: Ptr<'p, List<'p>>,
//!     value: i64,
//! ) -> Result<(), TxError> {
//!     let mut link = list.at(List::HEAD);
//!     while let Some(node) = tx.get(link)? {
//!         if tx.get(node.at(Node::VALUE))? >= value {
//!             break;
//!         }
//!         link = node.at(Node::NEXT);
//!     }
//!     let next = tx.get(link)?;
//!     let node = tx.alloc(Node { value, next })?;
//!     tx.set(link, Some(node))?;
//!     tx.update(list.at(List::LENGTH), |length| length + 1)
//! }
//!
//! let options = HeapOptions { threads: 1, ..typed::options::<List>() };
//! let memory = Image::new(options.pm_bytes(), options.dram_bytes());
//! typed::create::<List, _, _>(&memory, "list", 42, &options, |pool| {
//!     let mut session = pool.join(&memory);
//!     for value in [3, 1, 2] {
//!         session.transaction(|tx| insert(tx, pool.root(), value))?; // durable here
//!     }
//!     Ok::<_, HeapError>(())
//! })?;
//!
//! let (bytes, dram) = (options.pm_bytes(), options.dram_bytes());
//! let memory = Image::from_pm(memory.into_pm(), dram); // a restart
//! let values = typed::open::<List, _, _>(&memory, "list", bytes, |pool| {
//!     let session = pool.join(&memory);
//!     let (mut values, mut next) = (Vec::new(), session.get(pool.root())?.head);
//!     while let Some(node) = next {
//!         let node = session.get(node)?;
//!         values.push(node.value);
//!         next = node.next;
//!     }
//!     Ok::<_, HeapError>(values)
//! })?;
//! assert_eq!(values, [1, 2, 3]);
//! # Ok::<(), HeapError>(())
//! ```
//!
//! **When a type changes**, pools of the earlier program are refused, and the error names the field
//! ([`HeapError::Changed`]). A program that migrates such pools keeps the old types in a module
//! (`v1`), opens the old pool with them, creates a new pool under another name with the new types,
//! copies, and renames the new file to the old name by `std::fs::rename` when it is whole and
//! durable. A crash before that leaves the old pool; the next start removes the incomplete new one
//! and begins again. `crates/runtime/tests/typed/changes.rs` has such a program, interrupted at
//! each of its steps:
//!
//! ```
//! use seawall_memory::Image;
//! use seawall_runtime::typed::{self, Persist};
//! use seawall_runtime::{HeapError, HeapOptions};
//!
//! mod v1 {
//!     use seawall_runtime::typed::Persist;
//!
//!     #[derive(Clone, Copy, Persist)]
//!     pub struct Counter {
//!         pub count: u32,
//!     }
//! }
//!
//! #[derive(Clone, Copy, Persist)]
//! struct Counter {
//!     count: u64,
//! }
//!
//! # let old = HeapOptions { threads: 1, ..typed::options::<v1::Counter>() };
//! # let from = Image::new(old.pm_bytes(), old.dram_bytes());
//! # typed::create::<v1::Counter, _, HeapError>(&from, "c", 1, &old, |pool| {
//! #     pool.join(&from).transaction(|tx| tx.set(pool.root(), v1::Counter { count: 7 }))?;
//! #     Ok(())
//! # })?;
//! # let from = Image::from_pm(from.into_pm(), old.dram_bytes());
//! # let bytes = from.pm_bytes();
//! let refused = typed::open::<Counter, (), HeapError>(&from, "c", bytes, |_| Ok(()));
//! let text = refused.unwrap_err().to_string();
//! assert!(text.contains("type Counter has changed") && text.contains("count was u32 and is u64"));
//!
//! let count = typed::open::<v1::Counter, _, HeapError>(&from, "c", bytes, |pool| {
//!     Ok(pool.join(&from).get(pool.root())?.count)
//! })?;
//! let options = HeapOptions { threads: 1, ..typed::options::<Counter>() };
//! let to = Image::new(options.pm_bytes(), options.dram_bytes());
//! typed::create::<Counter, _, HeapError>(&to, "c", 2, &options, |pool| {
//!     let new = Counter { count: count.into() };
//!     pool.join(&to).transaction(|tx| tx.set(pool.root(), new))?;
//!     Ok(())
//! })?; // now rename the new file to the old name
//! # Ok::<(), HeapError>(())
//! ```
//!
//! The call of such a closure is a *scope*: pointers live no longer than it. Where objects can move
//! ([`HeapOptions::defragment`]), the memory that they leave is freed when the scopes that were
//! open have ended, so a program enters a scope for each request, by a [`Thread`].

mod access;
mod changes;
mod ptr;
mod reach;
mod session;
mod thread;
mod tx;
pub(crate) mod types;
mod view;

pub use crate::heap::type_table::TypeInfo;
pub use crate::persist::{Branded, Bytes, Persist};
#[doc(hidden)]
pub use crate::tx::changed::Changed;
pub use ptr::{Field, Ptr};
pub use reach::{Dangling, Reach};
pub use seawall_derive::{Persist, PersistOfSeawall};
pub use session::Session;
pub use thread::{Suspended, Thread};
pub use tx::Tx;
pub use view::View;

use crate::defrag::grace::Shared;
use crate::defrag::scope;
use crate::flaws::Planted;
use crate::heap::layout::Layout;
use crate::heap::type_table;
use crate::persist::pointers::all_from;
use crate::{Heap, HeapError, HeapOptions, Recovered};
use ptr::Brand;
use seawall_memory::Memory;
use std::fmt;
use std::marker::PhantomData;
use types::Types;

/// For the code of `#[derive(Persist)]` only.
#[doc(hidden)]
pub mod derived {
    pub use crate::persist::pointers::Pointers;
    pub use crate::persist::shape::{align, name, of_struct, offset, size};
    pub use crate::persist::{Persist, Sink, Source, decode, with_bytes};
    pub use seawall_memory::Addr;
}

/// An open heap with a root of type `R`. The same value for all threads.
pub struct Pool<'p, R> {
    heap: Heap,
    recovered: Recovered,
    view: scope::View,
    brand: Brand<'p>,
    root: PhantomData<fn() -> R>,
}

impl<R> Clone for Pool<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Pool<'_, R> {}

impl<R> fmt::Debug for Pool<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("uuid", &self.heap.uuid()).finish_non_exhaustive()
    }
}

impl<'p, R: Persist<'p>> Pool<'p, R> {
    fn of(heap: Heap, recovered: Recovered, view: scope::View) -> Pool<'p, R> {
        Pool { heap, recovered, view, brand: PhantomData, root: PhantomData }
    }

    /// The root object; it was all zeros when the pool was made.
    pub fn root(&self) -> Ptr<'p, R> {
        Ptr::new(self.heap.root())
    }

    /// The untyped heap: statistics, threads, sizes.
    pub fn heap(&self) -> Heap {
        self.heap
    }

    /// What recovery did when the pool was opened.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Returns the session of the calling thread, whose number is that of `memory`; see
    /// [`Heap::join`].
    ///
    /// # Panics
    /// As [`Heap::join`].
    pub fn join<'m, M: Memory>(&self, memory: &'m M) -> Session<'p, 'm, M> {
        let mut session = self.heap.join(memory);
        (session.scope.view, session.scope.is_open) = (self.view, true);
        Session::new(Box::new(session), Types::default())
    }
}

/// Returns the options of a heap whose root is an `R`; the others are the defaults.
pub fn options<R: Branded>() -> HeapOptions {
    let (root_bytes, root_shape) = (changes::size_of_root::<R>(), changes::shape_of_root::<R>());
    HeapOptions { root_bytes, root_shape, ..HeapOptions::default() }
}

/// Creates a heap in a zeroed pool, as [`Heap::create`] does, and passes it to `body`. The root is
/// an `R` of zeros.
///
/// # Errors
/// What `body` gives. Before, when an option is out of range; [`HeapError::Shape`] when the options
/// are not those of [`options`] for `R`.
///
/// # Panics
/// When the name is empty or longer than 16 bytes.
pub fn create<R: Branded, T, E: From<HeapError>>(
    memory: &impl Memory,
    name: &str,
    uuid: u128,
    options: &HeapOptions,
    body: impl for<'p> FnOnce(Pool<'p, R::In<'p>>) -> Result<T, E>,
) -> Result<T, E> {
    changes::check_options::<R>(options)?;
    let fill = |layout: &Layout| type_table::name_all::<R, _>(memory, layout);
    let reached_shape = all_from::<R::In<'static>>().shape;
    let heap = Heap::create_for(memory, (name, uuid), options, reached_shape, fill)?;
    in_scope::<R, T, E>(memory, heap, Recovered::default(), body)
}

/// Opens and recovers the heap called `name` in a pool of `bytes` bytes, as [`Heap::open`] does,
/// and passes it to `body`.
///
/// # Errors
/// What `body` gives. Before, as [`Heap::open`]; [`HeapError::Shape`] when its root is no `R`, and
/// [`HeapError::Changed`] when the fields of a type that an `R` leads to are others: then nothing
/// in the pool has changed. (A pool that was made before pools said what they lead to is recovered
/// before it is refused.)
pub fn open<R: Branded, T, E: From<HeapError>>(
    memory: &impl Memory,
    name: &str,
    bytes: u64,
    body: impl for<'p> FnOnce(Pool<'p, R::In<'p>>) -> Result<T, E>,
) -> Result<T, E> {
    open_planted::<R, T, E>(memory, name, bytes, Planted::default(), body)
}

/// As [`open`], with a planted bug if there is one.
fn open_planted<R: Branded, T, E: From<HeapError>>(
    memory: &impl Memory,
    name: &str,
    bytes: u64,
    flaw: Planted,
    body: impl for<'p> FnOnce(Pool<'p, R::In<'p>>) -> Result<T, E>,
) -> Result<T, E> {
    let info = Heap::read(memory, name, bytes)?;
    changes::check_header::<R, _>(&info.heap, memory)?;
    let (heap, recovered) = Heap::open_planted(memory, name, bytes, flaw)?;
    changes::check::<R, _>(&heap, memory)?;
    in_scope::<R, T, E>(memory, heap, recovered, body)
}

/// As [`open`], with a planted bug.
///
/// # Errors
/// As [`open`].
#[cfg(feature = "flaws")]
pub fn open_flawed<R: Branded, T, E: From<HeapError>>(
    memory: &impl Memory,
    name: &str,
    bytes: u64,
    flaw: crate::HeapFlaw,
    body: impl for<'p> FnOnce(Pool<'p, R::In<'p>>) -> Result<T, E>,
) -> Result<T, E> {
    open_planted::<R, T, E>(memory, name, bytes, flaw.into(), body)
}

/// Passes a heap that is already open to `body`: for threads that were started with the [`Heap`]
/// only, and programs that keep it. `memory` can be that of any thread.
///
/// # Errors
/// What `body` gives. Before, [`HeapError::Shape`] when its root is no `R`.
///
/// # Panics
/// If `memory` is that of another pool, or of a copy.
pub fn enter<R: Branded, T, E: From<HeapError>>(
    heap: Heap,
    memory: &impl Memory,
    body: impl for<'p> FnOnce(Pool<'p, R::In<'p>>) -> Result<T, E>,
) -> Result<T, E> {
    heap.assert_on(memory);
    changes::check::<R, _>(&heap, memory)?;
    in_scope::<R, T, E>(memory, heap, Recovered::default(), body)
}

fn in_scope<R: Branded, T, E>(
    memory: &impl Memory,
    heap: Heap,
    recovered: Recovered,
    body: impl for<'p> FnOnce(Pool<'p, R::In<'p>>) -> Result<T, E>,
) -> Result<T, E> {
    let scope = Shared::begin(memory, &heap);
    let unwinding = Unwinding { memory, scope: &scope };
    let outcome = body(Pool::of(heap, recovered, scope.view));
    std::mem::forget(unwinding);
    scope.end(memory);
    outcome
}

/// Ends the scope of a body that panics, on a machine that continues after that.
struct Unwinding<'a, M: Memory> {
    memory: &'a M,
    scope: &'a Shared,
}

impl<M: Memory> Drop for Unwinding<'_, M> {
    fn drop(&mut self) {
        if self.memory.slots().is_some() {
            self.scope.end(self.memory);
        }
    }
}
