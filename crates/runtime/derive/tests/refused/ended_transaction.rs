//! A transaction that is used after its end.

use seawall_memory::Image;
use seawall_runtime::TxError;
use seawall_runtime::typed::Pool;

fn returned<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    let mut session = pool.join(memory);
    let tx = session.transaction(|tx| Ok::<_, TxError>(tx))?;
    tx.set(pool.root(), 7)
}

fn kept<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    let mut session = pool.join(memory);
    let mut kept = None;
    session.transaction(|tx| {
        kept = Some(tx);
        Ok::<_, TxError>(())
    })
}

fn main() {}
