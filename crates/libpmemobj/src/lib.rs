//! libpmemobj's interface on the heap of this project: the same symbols and versions as PMDK 1.12.1
//! has, so that a program that was built for that runs on this library unchanged.
//!
//! The pools are this project's own: each library refuses the other's. Each file is a header file
//! of PMDK's, or what several of them need. A call that fails sets `errno` and a text for its
//! thread; inside a transaction it can jump to where that began, past frames which hold nothing
//! that must be dropped. `shim.c` has what cannot be said in Rust: a function with any number of
//! arguments, and variables of each thread.

#![cfg(target_os = "linux")]

mod action;
mod atomic;
mod base;
mod check;
mod ctl;
mod defrag;
mod error;
mod lists;
mod locks;
mod object;
mod persist;
mod pool;
mod registry;
mod root;
mod settings;
mod thread;
mod tx;
mod types;
