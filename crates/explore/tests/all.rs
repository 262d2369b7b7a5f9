//! What the explorer promises, seen from outside.

mod bugs;
mod litmus;
mod oracles;
mod runs;
mod suite;
mod threads;
