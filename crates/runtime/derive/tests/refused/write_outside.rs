//! Writing without a transaction.

use seawall_memory::Image;
use seawall_runtime::TxError;
use seawall_runtime::typed::Pool;

fn set<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    let mut session = pool.join(memory);
    session.set(pool.root(), 7)
}

fn alloc<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    let mut session = pool.join(memory);
    session.alloc(7u64).map(drop)
}

fn in_place<'p>(pool: Pool<'p, u64>) {
    *pool.root() = 7;
}

fn main() {}
