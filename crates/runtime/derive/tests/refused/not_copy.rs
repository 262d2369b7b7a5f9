//! A struct that is not `Copy`: what is dropped twice would be freed twice.

use seawall_runtime::typed::Persist;

#[derive(Persist)]
struct Moved {
    value: u64,
}

fn main() {}
