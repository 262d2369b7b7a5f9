//! Two transactions of one session at once, and one around itself.

use seawall_memory::Image;
use seawall_runtime::TxError;
use seawall_runtime::typed::Pool;

fn within<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    let mut session = pool.join(memory);
    session.transaction(|tx| {
        session.transaction(|inner| inner.set(pool.root(), 1))?;
        tx.set(pool.root(), 2)
    })
}

fn around<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    let mut session = pool.join(memory);
    session.transaction(|tx| tx.nested(|inner| tx.set(pool.root(), 2)))
}

fn main() {}
