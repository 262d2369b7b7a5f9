//! The structures that live in a heap: without crashes, with them, and with several threads.

mod fields;
mod linear;
mod map_crash;
mod map_threads;
mod maps;
mod subject;
mod together;
