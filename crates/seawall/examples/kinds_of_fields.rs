//! Kinds of fields, and functions over them that say as little as they need.
//! `cargo run --example kinds_of_fields`

use seawall::{
    Access, BTree, BTreeField, Boxed, BoxedField, Branded, Bytes, Domain, Entries, Error, Field,
    Item, Logging, Map, MapField, Memory, OpenError, Options, OrderedKey, Persist, Pool, Ptr,
    ReadError, Tx, View,
};
use std::path::Path;

#[derive(Clone, Copy, Persist)]
struct Shop {
    /// Of a fixed length, in the struct.
    code: Bytes<8>,
    /// Of any length, in an object of its own.
    logo: Boxed<[u8]>,
    stock: Map<str, u64>,
    orders: BTree<u32, str>,
    changes: u64,
}

/// For pools of any type, whose commits write whole pages: they survive a power failure on any
/// disk.
fn opened<R: Branded>(path: &Path) -> Result<Pool<R>, OpenError> {
    seawall::open(path, Options::default().domain(Domain::Page))
}

/// For any counter in any struct.
fn bump<'p, T: Persist<'p>, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    of: Ptr<'p, T>,
    counter: Field<T, u64>,
) -> Result<(), Error> {
    tx.update(of.at(counter), |count| count + 1)
}

/// For the entries of maps with any keys.
fn sum<K: Item + ?Sized>(entries: Entries<K, u64>) -> u64 {
    entries.map(|(_, count)| count).sum()
}

/// For trees with any keys, in a transaction and in a read.
fn latest<'p, A: Access<'p>, K: OrderedKey>(
    access: &mut A,
    orders: Ptr<'p, BTree<K, str>>,
) -> Result<Option<String>, A::Error> {
    Ok(orders.last_key_value(access)?.map(|(_, order)| order))
}

/// For reads only.
fn logo<'p, M: Memory>(
    view: &mut View<'p, '_, '_, M>,
    shop: Ptr<'p, Shop>,
) -> Result<Vec<u8>, ReadError> {
    Ok(shop.at(Shop::LOGO).get(view)?.unwrap_or_default())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let pool = opened::<Shop>(&folder.path().join("shop.pool"))?;
    // An undo log holds the old values: what is new may be longer than the log.
    pool.transaction_with(Logging::Undo, |tx, shop| {
        tx.set(shop.at(Shop::CODE), Bytes::padded(b"SEA-1").expect("short enough"))?;
        shop.at(Shop::LOGO).set(tx, &[7; 100_000])?;
        shop.at(Shop::STOCK).extend(tx, [("rope", 3), ("sail", 2)])?;
        shop.at(Shop::STOCK).update(tx, "rope", |count| *count -= 1)?;
        shop.at(Shop::ORDERS).extend(tx, [(7, "a rope"), (12, "a sail")])?;
        bump(tx, shop, Shop::CHANGES)
    })?;
    let (stock, order, bytes) = pool.read(|view, shop| {
        let stock = sum::<str>(shop.at(Shop::STOCK).iter(view)?);
        let order = latest(view, shop.at(Shop::ORDERS))?;
        Ok::<_, ReadError>((stock, order, logo(view, shop)?.len()))
    })?;
    println!("{stock} in stock, {order:?} ordered last, a logo of {bytes} bytes");
    println!("committed data {}", pool.durability());
    assert_eq!((stock, order.as_deref(), bytes), (4, Some("a sail"), 100_000));
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
