//! The persistent-memory library of seawall: what stands between a data structure and the seam.
//!
//! A pool ([`pool`]) names itself and its parameters; [`Arena`] lays areas out in it; a
//! transaction ([`Tx`]) makes several words change together; [`Locks`] exclude threads and
//! [`Batons`] carry their order into persistence; [`Slots`] hands out entries of a fixed size.
//! Everything is generic over `Memory` and runs on any machine below it.
//!
//! It is not a general allocator and holds no data structure: those are in `seawall-collections`.
//!
//! ```
//! use seawall_memory::{Image, Memory};
//! use seawall_runtime::epoch::{Flaw, Logs, Tx};
//! use seawall_runtime::{Arena, Batons};
//!
//! let mut arena = Arena::new();
//! let logs = Logs::place(&mut arena, 1, 64);
//! let batons = Batons::place(&mut arena, 1);
//! let (left, right) = (arena.pm(64), arena.pm(64));
//! let memory = Image::new(arena.pm_bytes(), arena.dram_bytes());
//!
//! let mut tx = Tx::begin(&memory, &logs, Flaw::None);
//! tx.store(left, 1);
//! tx.store(right, 2);
//! tx.commit(&[batons.pick(&memory, 0)]); // a crash keeps both words or neither
//! assert_eq!(memory.load::<u64>(right), 2);
//! ```

#![forbid(unsafe_code)]

mod arena;
pub mod epoch;
mod heap;
mod lock;
pub mod pool;
mod slots;
mod stripes;
mod tx;

pub use arena::Arena;
pub use heap::class::{BLOCK_BYTES_MAX, CHUNK_BYTES};
pub use heap::session::{Pending, Session};
pub use heap::walk::{HeapStats, Object};
pub use heap::{Heap, HeapError, HeapFlaw, HeapOptions, Recovered};
pub use lock::{Baton, Batons, Guard, Locks};
pub use slots::{SLOT_RESERVE, Slots};
pub use stripes::{Held, Stripe, Stripes};
pub use tx::direct::DIRECT_BYTES;
pub use tx::log::LogCounts;
pub use tx::{Tx, TxKind};
