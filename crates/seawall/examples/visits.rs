//! The program of the README.

use seawall::{Map, MapField, Options, Persist};

#[derive(Clone, Copy, Persist)]
struct Root {
    visits: Map<str, u64>, // a hash map in the file
    total: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = seawall::open::<Root>("visits.pool", Options::default())?; // creates or recovers it
    let name = std::env::args().nth(1).unwrap_or("nobody".into());
    pool.transaction(|tx, root| {
        let visits = root.at(Root::VISITS);
        let before = visits.get(tx, &name)?.unwrap_or(0);
        visits.insert(tx, &name, &(before + 1))?;
        tx.update(root.at(Root::TOTAL), |total| total + 1)
    })?; // one fence; a crash keeps both changes, or neither
    let total = pool.read(|view, root| view.get(root.at(Root::TOTAL)))?;
    println!("{total} visits; {}", pool.durability());
    Ok(())
}
