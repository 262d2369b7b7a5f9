//! The persistent indexes of the evaluation: Level hashing (OSDI'18) and FAST & FAIR (FAST'18).

mod fastfair;
mod level;

pub use fastfair::{FastFair, FastFairShape};
pub use level::{LevelHash, LevelShape};
