//! Insert, delete and search in a Level hash table (Zuo, Hua and Wu, OSDI'18), or requests of a
//! YCSB mix: one of the indexes of Ribbon's evaluation (PACT'20).
//!
//! The structure is `seawall_collections::LevelHash`. It starts with twelve slots, and grows while
//! it is filled and when the run fills it further.

use super::structures::{LevelHash, LevelShape};
use crate::Damage;
use crate::harness::history::Contents;
use crate::ribbon20::index::{Index, Indexed, as_the_structure_does};
use crate::shared::{Change, Full};
use seawall_memory::Memory;
use seawall_runtime::Arena;

/// The benchmark of Level hashing.
pub type Level = Indexed<LevelHash>;

impl Index for LevelHash {
    const NAME: &'static str = "level";
    const ABOUT: &'static str = "insert, delete and search in a Level hash table, without a log";
    const IN_ORDER: bool = false;

    fn place(threads: u64, keys: u64, arena: &mut Arena) -> LevelHash {
        LevelHash::place(LevelShape { threads, capacity: keys }, arena)
    }

    as_the_structure_does!(LevelHash);
}
