//! What the workloads promise, on machines small enough to be obviously right.

mod applications;
mod crash;
mod kernels;
mod machines;
mod media;
mod pools;
mod threads;
