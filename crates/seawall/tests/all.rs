//! The facade: pools by path and type, structures in structs, and every crash.

mod composed;
mod pages;
mod pools;
mod threads;
