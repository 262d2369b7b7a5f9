//! Allocating what cannot be persistent.

use seawall_memory::Image;
use seawall_runtime::TxError;
use seawall_runtime::typed::Pool;

fn body<'p>(pool: Pool<'p, u64>, memory: &Image) -> Result<(), TxError> {
    pool.join(memory).transaction(|tx| tx.alloc("text").map(drop))
}

fn main() {}
