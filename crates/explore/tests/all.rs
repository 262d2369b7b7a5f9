//! What the explorer promises, seen from outside.

mod bugs;
mod hostile;
mod litmus;
mod oracles;
mod runs;
mod scope;
mod suite;
mod threads;
mod together;
