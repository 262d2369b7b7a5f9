//! What the derive refuses, each with what to do instead.

use seawall_runtime::typed::{Persist, Ptr};

#[derive(Clone, Copy, Persist)]
enum Color {
    Red,
    Green,
}

#[derive(Clone, Copy, Persist)]
union Either {
    a: u64,
    b: i64,
}

#[derive(Clone, Copy, Persist)]
struct Tuple(u64, u64);

#[derive(Clone, Copy, Persist)]
struct Unit;

#[derive(Clone, Copy, Persist)]
struct Empty {}

#[derive(Clone, Copy, Persist)]
struct Two<'p, 'q> {
    one: Ptr<'p, u64>,
    two: Ptr<'q, u64>,
}

#[derive(Clone, Copy, Persist)]
#[persist(packed)]
struct Attribute {
    value: u64,
}

fn main() {}
