//! The seam of seawall: the operations that a program uses on persistent memory.
//!
//! A program is written once, generic over [`Memory`], and then runs on three machines: `native`
//! (this computer), `sim` (a simulated multicore under a persistency design) and `explore` (every
//! image that a crash can leave). It never knows which one it runs on.
//!
//! A machine implements [`Memory`]; a program also uses [`MemoryExt`]; a wrapper around a machine
//! is a [`layer`]. Allocators, transactions and pools are programs above the seam, in the crate
//! `seawall-runtime`.
//!
//! ```
//! use seawall_memory::{Addr, Image, Memory, MemoryExt};
//!
//! fn publish<M: Memory>(memory: &M, value: u64) {
//!     let (data, flag) = (Addr::pm(64), Addr::pm(128));
//!     memory.store(data, value);
//!     memory.flush(data, 8);
//!     memory.order(); // no crash can keep the flag and lose the value
//!     memory.store(flag, 1u64);
//!     memory.persist(flag, 8); // durable when this returns
//! }
//!
//! let image = Image::new(4096, 0);
//! publish(&image, 7);
//! assert_eq!(image.load::<u64>(Addr::pm(64)), 7);
//! ```

#![forbid(unsafe_code)]

mod addr;
mod doors;
mod ext;
mod handles;
mod image;
pub mod layer;
mod model;
mod process;
mod ranges;
pub mod relocation;
mod seam;
mod slots;
mod word;

pub use addr::{Addr, LINE_BYTES, Line, lines_of};
pub use doors::{Absent, Clock, Parking, Space};
pub use ext::MemoryExt;
pub use handles::{FlushBy, Handles, RecentStores, StoreSource};
pub use image::Image;
pub use model::{Model, UnknownModel};
pub use process::Process;
pub use ranges::pieces_of;
pub use seam::{Fence, Memory};
pub use slots::{SlotTaken, ThreadSlot, ThreadSlots};
pub use word::{Width, Word};
