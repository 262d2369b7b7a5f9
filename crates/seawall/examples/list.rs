//! A sorted list of nodes that point to each other. `cargo run --example list`

use seawall::{Access, Error, Memory, Options, Persist, Ptr, Tx};

#[derive(Clone, Copy, Persist)]
struct List<'p> {
    head: Option<Ptr<'p, Node<'p>>>,
    length: u64,
}

#[derive(Clone, Copy, Persist)]
struct Node<'p> {
    value: i64,
    next: Option<Ptr<'p, Node<'p>>>,
}

/// Runs on every machine: mapped files, simulated ones, the explorer.
fn insert<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    list: Ptr<'p, List<'p>>,
    value: i64,
) -> Result<(), Error> {
    let mut link = list.at(List::HEAD);
    while let Some(node) = tx.get(link)? {
        if tx.get(node.at(Node::VALUE))? >= value {
            break;
        }
        link = node.at(Node::NEXT);
    }
    let next = tx.get(link)?;
    let node = tx.alloc(Node { value, next })?;
    tx.set(link, Some(node))?;
    tx.update(list.at(List::LENGTH), |length| length + 1)
}

/// In a transaction and in a read.
fn values<'p, A: Access<'p>>(
    access: &mut A,
    list: Ptr<'p, List<'p>>,
) -> Result<Vec<i64>, A::Error> {
    let (mut values, mut next) = (Vec::new(), access.read(list)?.head);
    while let Some(node) = next {
        let node = access.read(node)?;
        values.push(node.value);
        next = node.next;
    }
    Ok(values)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("list.pool");
    let pool = seawall::open::<List>(&path, Options::default())?;
    for value in [3, 1, 2] {
        pool.transaction(|tx, list| insert(tx, list, value))?;
    }
    let failed = pool.transaction(|tx, list| {
        insert(tx, list, 4)?;
        Err::<(), _>(Error::Busy) // and so nothing has happened
    });
    drop(pool);

    let pool = seawall::open::<List>(&path, Options::default())?; // a restart
    let found = pool.read(|view, list| values(view, list))?;
    println!("{found:?}; one failed: {}", failed.is_err());
    assert_eq!(found, [1, 2, 3]);
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
