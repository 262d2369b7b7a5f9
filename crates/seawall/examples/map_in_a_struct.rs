//! Maps, a list and numbers in one struct, changed in one transaction.
//! `cargo run --example map_in_a_struct`

use seawall::{BTree, BTreeField, Map, MapField, Options, Persist, Text, TextField};
use seawall::{Vector, VectorField};

#[derive(Clone, Copy, Persist)]
struct Library {
    name: Text,
    /// Title to year.
    books: Map<str, u32>,
    /// Year to title, in order.
    by_year: BTree<u32, str>,
    /// Ages of the readers.
    ages: Vector<u8>,
    changes: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("library.pool");
    let pool = seawall::open::<Library>(&path, Options::default())?;
    pool.transaction(|tx, library| {
        library.at(Library::NAME).set(tx, "Seaside Library")?;
        for (title, year) in [("Emma", 1815), ("Persuasion", 1817), ("Middlemarch", 1871)] {
            library.at(Library::BOOKS).insert(tx, title, &year)?;
            library.at(Library::BY_YEAR).insert(tx, &year, title)?;
        }
        library.at(Library::AGES).push(tx, 42)?;
        tx.update(library.at(Library::CHANGES), |changes| changes + 1)
    })?; // all of it, or nothing
    drop(pool);

    let pool = seawall::open::<Library>(&path, Options::default())?;
    let (name, year, old) = pool.read(|view, library| {
        let name = library.at(Library::NAME).get(view)?;
        let year = library.at(Library::BOOKS).get(view, "Persuasion")?;
        let old: Vec<_> = library.at(Library::BY_YEAR).range(view, ..1820)?.collect();
        Ok::<_, seawall::Error>((name, year, old))
    })?;
    println!("{name}: Persuasion is of {year:?}; before 1820: {old:?}");
    assert_eq!(old.len(), 2);
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
