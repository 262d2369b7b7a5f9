//! A type that changes: the old pool is opened as what it was, copied, and replaced.
//! `cargo run --example migrate`

use seawall::{Options, Persist};
use std::path::Path;

mod v1 {
    use seawall::Persist;

    #[derive(Clone, Copy, Persist)]
    pub(crate) struct Counter {
        pub(crate) count: u32,
    }
}

#[derive(Clone, Copy, Persist)]
struct Counter {
    count: u64,
    resets: u64,
}

/// Cut short anywhere, it is repeated at the next start: the old file is whole until the new one
/// takes its name.
fn migrated(path: &Path) -> Result<seawall::Pool<Counter>, Box<dyn std::error::Error>> {
    match seawall::open::<Counter>(path, Options::default()) {
        Err(seawall::OpenError::Content { source: seawall::HeapError::Changed { .. }, .. }) => {}
        opened => return Ok(opened?),
    }
    let new = path.with_extension("new");
    if new.exists() {
        std::fs::remove_file(&new)?;
    }
    let old = seawall::open::<v1::Counter>(path, Options::default())?;
    let count = old.read(|view, root| view.get(root.at(v1::Counter::COUNT)))?;
    let pool = seawall::open::<Counter>(&new, Options::default())?;
    pool.transaction(|tx, root| tx.set(root, Counter { count: count.into(), resets: 0 }))?;
    drop((pool, old));
    std::fs::rename(&new, path)?;
    Ok(seawall::open::<Counter>(path, Options::default())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("counter.pool");
    let old = seawall::open::<v1::Counter>(&path, Options::default())?;
    old.transaction(|tx, root| tx.set(root, v1::Counter { count: 7 }))?;
    drop(old);
    let refused = seawall::open::<Counter>(&path, Options::default()).expect_err("another type");
    println!("{refused}");
    let pool = migrated(&path)?;
    let counter = pool.read(|view, root| view.get(root))?;
    println!("count {}, resets {}", counter.count, counter.resets);
    assert_eq!((counter.count, counter.resets), (7, 0));
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
