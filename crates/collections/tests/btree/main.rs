//! What the B+tree promises: without crashes, with other threads, with crashes, with wild bytes.

mod crash;
mod model;
mod script;
mod threads;
mod wild;
