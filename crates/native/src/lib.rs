//! [`Memory`](seawall_memory::Memory) on the memory of this machine.
//!
//! A [`Pool`] maps a file as persistent memory, with the best flush instruction that the CPU has,
//! chosen once; each thread takes a [`NativeMemory`] from it. Its text says what drained data
//! survives here, and [`Doctor`] lists what this machine can do.
//!
//! It is not a pool format, an allocator or a transaction system (`seawall-runtime` is), and it
//! cannot make an ordinary file survive a power failure by flushing lines: see [`Domain`]. A pool
//! belongs to one process, and not to those that are forked from it: see [`Pool`].
//!
//! Written for Linux; elsewhere on Unix there is no `MAP_SYNC` and space is allocated by writing
//! zeros. The Arm parts follow the manual and have not been run.
//!
//! ```
//! use seawall_memory::{Addr, Memory, MemoryExt};
//! use seawall_native::{Pool, PoolOptions};
//!
//! let options = PoolOptions { bytes_max: 1 << 40, ..PoolOptions::default() };
//! let pool = Pool::temporary(4096, &options)?; // takes a page, and may grow to 1 TiB
//! let memory = pool.memory(0);
//! memory.store(Addr::pm(64), 7u64);
//! memory.persist(Addr::pm(64), 8);
//! assert!(memory.grow(1 << 20));
//! memory.store(Addr::pm((1 << 20) - 8), 9u64);
//! println!("{} flushes, {}", pool.instruction().kind, pool.durability());
//! # Ok::<(), seawall_native::PoolError>(())
//! ```

// They panic when the reader of stdout or stderr is gone.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod access;
mod addresses;
mod allocator;
mod cpu;
mod doctor;
mod domain;
mod error;
mod file;
mod flush;
mod map;
mod memory;
mod pool;
mod process;
mod raw;
mod signals;
mod space;
#[cfg(target_os = "linux")]
mod stores;
mod wait;
mod witness;

pub use addresses::{RawHandles, RawMemory};
pub use allocator::EndWithoutMemory;
pub use cpu::Cpu;
pub use doctor::Doctor;
pub use domain::{DOMAIN_VARIABLE, Domain, DomainError, Durability, caches_persist_here};
pub use error::PoolError;
pub use file::{PoolFile, remove_if_same};
pub use flush::{FLUSH_VARIABLE, Flush, FlushError, FlushKind};
pub use map::page_bytes;
pub use memory::{Counters, NativeMemory};
pub use pool::{Needs, POOL_BYTES_MIN, Pool, PoolOptions};
pub use process::{OfProcess, this_process};
pub use raw::{
    PAST_CACHES_BYTES, RawEdges, move_flags, raw_copy, raw_fence, raw_fill, raw_flush,
    raw_goes_past_caches, raw_sync,
};
pub use signals::{descriptor, hold_signals, ignore_size_limit, on_stop};
pub use witness::Witness;
