//! A number that survives: each run adds one. `cargo run --example counter -- counter.pool`

use seawall::{Options, Persist};

#[derive(Clone, Copy, Persist)]
struct Root {
    runs: u64,
}

fn count(path: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let pool = seawall::open::<Root>(path, Options::default())?;
    let runs = pool.transaction(|tx, root| {
        let runs = tx.get(root.at(Root::RUNS))? + 1;
        tx.set(root.at(Root::RUNS), runs)?;
        Ok::<_, seawall::Error>(runs)
    })?;
    println!("run {runs} of {path}, which {}", pool.durability());
    Ok(runs)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    count(&std::env::args().nth(1).unwrap_or_else(|| "counter.pool".to_owned())).map(drop)
}

#[cfg(test)]
#[test]
fn each_run_adds_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counter.pool").display().to_string();
    assert_eq!([1, 2, 3].map(|_| count(&path).unwrap()), [1, 2, 3]);
}
