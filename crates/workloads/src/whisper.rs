//! Applications like those of WHISPER ("An Analysis of Persistent Memory Use with WHISPER",
//! ASPLOS'17): programs of that time, which order many small steps one after the other.
//!
//! Each follows the description in its paper, with the log and the allocator that such programs had
//! then. `seawall whisper` counts epochs per transaction, their sizes, dependences within a thread,
//! and the share of accesses to persistent memory, and prints them beside the published numbers
//! (`experiments/whisper.toml`), with which they agree in order of magnitude.

pub(crate) mod blocks;
pub(crate) mod client;
mod ctree;
mod echo;
mod free_lists;
mod hashmap;
mod inserts;
mod memcached;
mod mnemosyne;
mod nstore;
mod reach;
pub(crate) mod redis;
pub(crate) mod share;
mod tpcc;
pub(crate) mod undo;
mod vacation;
mod ycsb;

pub use ctree::CTree;
pub use echo::Echo;
pub use hashmap::HashMap;
pub use memcached::Memcached;
pub use redis::Redis;
pub use tpcc::Tpcc;
pub use vacation::Vacation;
pub use ycsb::Ycsb;
