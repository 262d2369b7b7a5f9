//! The driver, through the command: what it makes is what gcc makes, and there is an image besides.
//!
//! These tests do not instrument. What instrumented code does is tested where it is run.

#[path = "driver/place.rs"]
mod place;
#[path = "driver/programs.rs"]
mod programs;
#[path = "driver/tools.rs"]
mod tools;
