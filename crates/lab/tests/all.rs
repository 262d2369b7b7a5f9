//! Tests of the laboratory through its public interface, in one binary; those that kill a process
//! have their own.

mod cells;
mod checkpoints;
mod coalescing;
mod kernel_cuts;
mod kernels;
mod litmus;
mod ribbon;
mod strands;
mod traces;
