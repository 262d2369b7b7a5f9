//! Pointers and values of another type than the one that is there.

use seawall_memory::Image;
use seawall_runtime::TxError;
use seawall_runtime::typed::{Persist, Pool, Ptr};

#[derive(Clone, Copy, Persist)]
struct Root<'p> {
    account: Option<Ptr<'p, Account>>,
}

#[derive(Clone, Copy, Persist)]
struct Account {
    balance: i64,
}

fn pointer<'p>(pool: Pool<'p, Root<'p>>, memory: &Image) -> Result<(), TxError> {
    pool.join(memory).transaction(|tx| {
        let number = tx.alloc(7i64)?;
        tx.set(pool.root().at(Root::ACCOUNT), Some(number))
    })
}

fn value<'p>(account: Ptr<'p, Account>, pool: Pool<'p, u64>, memory: &Image) {
    let _ = pool.join(memory).transaction(|tx| tx.set(account.at(Account::BALANCE), 7u32));
}

fn field<'p>(account: Ptr<'p, Account>) {
    let _ = account.at(Root::ACCOUNT);
}

fn main() {}
