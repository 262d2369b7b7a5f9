//! A volatile pointer in a pool: it would mean nothing after a restart.

use seawall_runtime::typed::Persist;

#[derive(Clone, Copy, Persist)]
struct Reference<'p> {
    name: &'p str,
}

#[derive(Clone, Copy, Persist)]
struct Raw {
    next: *const u64,
}

#[derive(Clone, Copy, Persist)]
struct Function {
    call: fn(u64) -> u64,
}

#[derive(Clone, Copy, Persist)]
struct Length {
    bytes: usize,
}

fn main() {}
