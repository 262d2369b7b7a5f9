//! What the heap promises, seen from outside.

mod crash;
mod heap;
mod script;
mod threads;
mod typed;
