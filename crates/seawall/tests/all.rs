//! The facade: pools by path and type, structures in structs, and every crash.

mod composed;
mod damaged;
#[cfg(unix)]
mod fork;
mod pages;
mod pools;
mod threads;
