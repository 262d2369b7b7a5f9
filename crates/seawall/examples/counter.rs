//! A number that survives: each run adds one. `cargo run --example counter -- counter.pool`

use seawall::{Options, Persist};

#[derive(Clone, Copy, Persist)]
struct Root {
    runs: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "counter.pool".to_owned());
    let pool = seawall::open::<Root>(&path, Options::default())?;
    let runs = pool.transaction(|tx, root| {
        let runs = tx.get(root.at(Root::RUNS))? + 1;
        tx.set(root.at(Root::RUNS), runs)?;
        Ok::<_, seawall::Error>(runs)
    })?;
    println!("run {runs} of {path}, which {}", pool.durability());
    Ok(())
}
