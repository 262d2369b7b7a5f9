//! The calls of libpmem: a C program that was linked with `-lpmem` runs on them unchanged.
//!
//! This is the static library from which `seawall-clib` links `libpmem.so.1`, with the 23 symbols
//! that Debian's has (`symbols.txt`). What each call does follows the manual pages of libpmem 1.12;
//! `docs/c-libraries.md` lists the differences. Flush instruction and durability domain are chosen
//! by `seawall-native`, and so is every store past the caches.
//!
//! [`calls`] and [`copies`] are the C boundary, `system` is what they need of the system, and
//! `biased` a lock: only these have unsafe code. No panic leaves a call: those that could have one
//! catch it, the others have nothing that panics. `ribbon` has flushes made by other threads.

#![cfg(target_os = "linux")]

mod biased;
pub mod calls;
pub mod copies;
mod files;
mod message;
mod ranges;
mod ribbon;
mod setup;
mod system;
