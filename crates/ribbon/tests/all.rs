//! Ribbon: what it promises on every machine, and that its mistakes are found.

mod cleaner;
mod dirtiness;
mod early;
mod explored;
mod fifo;
mod heap;
mod pool;
mod real;
mod sampled;
mod scene;
mod simulated;
