//! Owners of volatile memory in a pool.

use seawall_runtime::typed::Persist;

#[derive(Clone, Copy, Persist)]
struct Owner {
    next: Box<u64>,
    values: Vec<u64>,
    text: String,
}

fn main() {}
