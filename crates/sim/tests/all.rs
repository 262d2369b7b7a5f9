//! Tests of the simulated machine through its public interface, in one binary.

mod asap;
mod bandwidth;
mod bbb;
mod contention;
mod cuts;
mod detail;
mod ffccd;
mod gem5_cases;
mod hops;
mod hosted;
mod i7;
mod latencies;
mod levels;
mod limits;
mod non_temporal;
mod optane;
mod persistency;
mod persists;
mod profile;
mod programs;
mod shapes;
mod strands;
mod timeline;
mod toy;
mod values;
mod watched;
