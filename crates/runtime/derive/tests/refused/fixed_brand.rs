//! A brand that is said to be `'static`: no pool has it.

use seawall_runtime::typed::{Persist, Ptr};

#[derive(Clone, Copy, Persist)]
struct Node<'p> {
    one: Option<Ptr<'p, u64>>,
    other: Option<Ptr<'static, u64>>,
}

fn main() {}
