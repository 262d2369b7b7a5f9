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

/// In the long run (`SEAWALL_LONG=1`), tests try all that they can.
fn is_long_run() -> bool {
    std::env::var_os("SEAWALL_LONG").is_some()
}
