//! What the simulated machine does, shown through its public face. One binary for all.

mod persistency;
mod programs;
mod values;
