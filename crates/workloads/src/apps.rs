//! Applications like those of WHISPER ("An Analysis of Persistent Memory Use with WHISPER",
//! ASPLOS'17): programs of their time, which order many small steps one after the other.
//!
//! Each is written from what its paper says of it, with the log and the allocator that such
//! programs had then, and meets the published numbers (`experiments/whisper.toml`) of epochs for a
//! transaction, of their sizes, of dependences within a thread, and of accesses to persistent
//! memory among all. `seawall whisper` counts those numbers.

mod blocks;
mod client;
mod ctree;
mod echo;
mod hashmap;
mod memcached;
mod mnemosyne;
mod nstore;
mod piles;
mod reach;
mod redis;
mod share;
mod tpcc;
mod undo;
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
