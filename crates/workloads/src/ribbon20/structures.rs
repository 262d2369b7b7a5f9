//! The persistent indexes of the evaluation: Level hashing (OSDI'18) and FAST & FAIR (FAST'18).

mod fastfair;
mod level;

pub use fastfair::{FastFairShape, FastFairTree};
pub use level::{LevelHash, LevelShape};
