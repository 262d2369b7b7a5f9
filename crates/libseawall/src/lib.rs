//! libseawall: the interface for programs in C and C++ (`include/libseawall.h`).
//!
//! Each file has the calls of one part of the header. A call checks its arguments, does its work in
//! a `status::boundary` that no panic crosses, and gives a status; the text of an error
//! is kept for its thread. A pool lends its sessions to threads (`seawall-lanes`). A transaction is
//! one that is paused between the calls; a map is named by the place that leads to it, and looked
//! up in each call, so that C programs hold nothing which could go out of date unnoticed.

#![cfg(target_os = "linux")]

mod cursor;
mod defragment;
mod map;
mod objects;
mod omap;
mod options;
mod persist;
mod pool;
mod status;
mod thread;
mod tx;
mod tx_calls;
mod types;
