//! The promises of the workloads, on machines small enough to be obviously right.

mod applications;
mod checkpoints;
mod churn;
mod crash;
mod indexes;
mod kernels;
mod machines;
mod media;
mod pools;
mod strands;
mod structures;
mod threads;
