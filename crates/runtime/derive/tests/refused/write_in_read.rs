//! Writing by what a read is lent.

use seawall_memory::{Image, Memory};
use seawall_runtime::TxError;
use seawall_runtime::typed::{Ptr, Tx, View};

fn change<'p>(view: &mut View<'p, '_, '_, Image>, count: Ptr<'p, u64>) -> Result<(), TxError> {
    view.transaction(|tx: &mut Tx<'p, '_, '_, Image>| tx.set(count, 7))
}

fn set<'p>(view: &mut View<'p, '_, '_, Image>, count: Ptr<'p, u64>) -> Result<(), TxError> {
    view.set(count, 7)
}

fn store<'p>(view: &mut View<'p, '_, '_, Image>, count: Ptr<'p, u64>) {
    view.memory().store_bits(count.addr(), 8, 7);
}

fn truncate_logs(view: &mut View<'_, '_, '_, Image>) {
    view.retire();
}

fn store_past_the_log<'p>(tx: &mut Tx<'p, '_, '_, Image>, count: Ptr<'p, u64>) {
    tx.memory().store_bits(count.addr(), 8, 7);
}

fn main() {}
